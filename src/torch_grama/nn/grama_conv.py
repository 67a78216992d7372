"""One block as an ordinary layer of a PyG model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import Adj

from torch_grama.nn.arguments import Activation, check_positive
from torch_grama.nn.backbone import BackboneLike
from torch_grama.nn.coefficients import Coefficients
from torch_grama.nn.grama import Running, is_traced
from torch_grama.nn.grama_block import Gain, GRAMABlock, backbone_name
from torch_grama.nn.graph_input import check_values, count_nodes, read_graph_input
from torch_grama.nn.norms import NormLike
from torch_grama.nn.sequence_embedding import SequenceEmbedding


class GRAMAConv(MessagePassing):
    r"""One block of GRAMA around a convolution, as a layer that takes the place of that convolution
    in any PyG model: node features become a sequence of :math:`L` states, on which the recurrence
    of :class:`GRAMABlock` runs; the last state is the output. Information travels :math:`R` hops.

    With a pair of source and target features, as in bipartite graphs and between the node types of
    a heterogeneous one, the recurrence runs over the states of the targets, and
    :math:`\boldsymbol{\delta}^{(t)} = \gamma \, \mathrm{GNN}(\mathbf{x}_{\mathrm{source}},
    \mathbf{f}^{(t-1)})`: the features of the sources do not change.

    .. note::
        Several layers are not the same as a :class:`GRAMA` of as many blocks: there, a block passes
        the whole sequence and its residuals to the next, not only the last state.

    Args:
        conv (str, Module or callable): What :class:`GRAMA` takes as a backbone; a convolution, such
            as ``SAGEConv(64, 64)``, is cloned and re-initialised.
        seq_len (int, optional): Length :math:`L` of the sequence. (default: :obj:`4`)
        in_channels (int, optional): Width of the node features, or :obj:`-1` to take it from the
            first forward pass. (default: that of the output)
        out_channels (int, optional): Width :math:`F` of states and output.
            (default: :obj:`conv.out_channels`)
        num_recurrences (int, optional): Recurrences :math:`R`. (default: :obj:`seq_len`)
        coefficients (str or Coefficients, optional): As in GRAMA. (default: :obj:`"selective"`)
        act (str or callable, optional): Activation of sequence and output. (default: :obj:`"relu"`)
        norm (str or callable, optional): Norm of the last state, as in GRAMA.
            (default: :obj:`None`)
        dropout (float, optional): As in GRAMA. (default: :obj:`0.0`)
        gain (float or str, optional): As in GRAMA. (default: :obj:`"auto"`)
        has_edge_attr (bool, optional): For a convolution by name: whether edge attributes are
            given, which must have its width. (default: :obj:`False`)
        running (Running, optional): Engine and checks of the input. (default: :class:`Running()`)

    Shapes:
        - **input:** node features :math:`(N, C)`, or a pair :math:`((N_s, F), (N_t, C))`; edges
          :math:`(2, E)`, edge weights :math:`(E)` *(optional)*, edge attributes :math:`(E, D)`
          *(optional)*, batch vector :math:`(N)` *(optional)*, edge types :math:`(E)` *(optional)*
        - **output:** node features :math:`(N, F)` or :math:`(N_t, F)`

    Example:
        >>> import torch
        >>> from torch_geometric.nn import SAGEConv, Sequential
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> model = Sequential("x, edge_index", [
        ...     (GRAMAConv(SAGEConv(32, 32), in_channels=7), "x, edge_index -> x"),
        ...     (GRAMAConv(SAGEConv(32, 32), seq_len=8), "x, edge_index -> x"),
        ... ])
        >>> model(torch.randn(4, 7), edge_index).size()
        torch.Size([4, 32])
    """

    def __init__(
        self,
        conv: BackboneLike,
        seq_len: int = 4,
        in_channels: int | None = None,
        out_channels: int | None = None,
        num_recurrences: int | None = None,
        coefficients: str | Coefficients = "selective",
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        gain: Gain = "auto",
        has_edge_attr: bool = False,
        running: Running | None = None,
    ) -> None:
        super().__init__()
        if out_channels is None and isinstance(conv, Module):
            out_channels = getattr(conv, "out_channels", None)
        if not isinstance(out_channels, int):
            name = type(conv).__name__ if isinstance(conv, Module) else repr(conv)
            raise ValueError(
                f"Expected 'out_channels' for {name}, which names no width of its own (got none)"
            )
        check_positive(out_channels=out_channels)
        self.out_channels = out_channels
        self.seq_len = seq_len
        self.running = Running() if running is None else running
        if self.running.cached or self.running.recompute:
            raise ValueError(
                "Expected 'running' without cached and recompute, which a single layer does not "
                "have (got one of them)"
            )
        self.embedding = SequenceEmbedding(
            out_channels if in_channels is None else in_channels,
            out_channels,
            seq_len,
            act=act,
            dropout=dropout,
        )
        self.block = GRAMABlock(
            out_channels,
            conv,
            seq_len,
            num_recurrences,
            coefficients,
            act,
            norm,
            dropout,
            gain,
            has_edge_attr,
            engine=self.running.engine,
        )
        self.block.read_last_only()

    @property
    def in_channels(self) -> int:
        r"""Width of the node features; -1 as long as a lazy layer has seen none."""
        return self.embedding.in_channels

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.embedding.reset_parameters()
        self.block.reset_parameters()

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x (Tensor or tuple of Tensor): Node features; or those of sources and of targets.
            edge_index (Tensor): Edges, from source to target.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each target node. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)
            edge_type (Tensor, optional): The type of each edge. (default: :obj:`None`)
        """
        senders, x = x if isinstance(x, tuple) else (None, x)
        if x is None:
            raise ValueError("Expected features of the target nodes (got None), their first states")
        num_nodes = count_nodes(x, self.in_channels, self.seq_len)
        graph = read_graph_input(
            num_nodes, edge_index, edge_weight, edge_attr, batch, batch_size, edge_type, senders
        )
        self.block.check(graph)
        if self.running.check_input and not is_traced(x):
            check_values(x, graph)
        # [N, C] -> [L, N, F] -> [1, N, F]
        sequence, _, _ = self.block.run(self.embedding.embed(x), graph)
        return sequence.act(sequence.states[-1])

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says Any

        # to a type checker, PyG's class leaves these open
        def edge_update(self) -> Tensor: ...
        def message_and_aggregate(self, edge_index: Adj) -> Tensor: ...

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"seq_len={self.seq_len}, conv={backbone_name(self.block.backbone)})"
        )
