"""The model: sequence embedding, blocks, readout."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor
from torch.nn import Linear, Module, ModuleList
from torch_geometric.nn.inits import reset

from torch_grama.nn.activation import Activation, resolve_activation
from torch_grama.nn.backbone import BackboneLike
from torch_grama.nn.block_checkpoint import run_again_for_gradients
from torch_grama.nn.choices import choose
from torch_grama.nn.coefficients import ARMACoefficients
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.pooling import mean_of_graphs
from torch_grama.nn.feature_checks import check_edge_attr, check_positions, count_nodes
from torch_grama.nn.grama_arguments import check_input_sizes, check_orders, check_positive
from torch_grama.nn.grama_block import GRAMABlock
from torch_grama.nn.graph_input import GraphInput, check_values, read_graph_input
from torch_grama.nn.graph_pooling import pool_graphs, pooled_channels
from torch_grama.nn.node_sequence import NodeSequence
from torch_grama.nn.position_encoder import PositionEncoder, append_positions
from torch_grama.nn.readout import Readout
from torch_grama.nn.sequence_embedding import SequenceEmbedding
from torch_grama.nn.sequence_norm import NormLike

READOUTS = {"node": "one output a node", "graph": "one output a graph"}


class GRAMA(Module):
    r"""The model of `"Graph Adaptive Autoregressive Moving Average Models"
    <https://arxiv.org/abs/2501.12732>`_: a static graph becomes a short sequence of graphs, on
    which a learned ARMA recurrence runs around any graph neural network.

    .. math::
        \mathbf{f}^{(k)} = g_k(\mathbf{x}), \qquad
        \mathbf{f}^{(t)} = \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},
        \qquad \boldsymbol{\delta}^{(t)} = \gamma \, \mathrm{GNN}(\mathbf{f}^{(t-1)}),

    where :math:`k = 0, \ldots, L - 1` are the given elements and each of :math:`S` blocks adds
    :math:`R` new ones, which are the sequence of the next. The last state of the last block goes
    through a readout MLP, after a mean over the nodes of each graph for graph tasks. With a
    message-passing backbone, information travels :math:`S \cdot R` hops.

    .. note::
        Open points of the paper are settled as follows. Block :math:`s` takes its coefficients
        from the sequence it receives. :math:`\phi_1` multiplies the newest state. The readout
        reads the last element after the activation. A norm between blocks comes before the
        activation and, in the last block, sees the last state alone. A block of ``seq_len=1`` is a
        residual layer :math:`\mathbf{f} + \gamma \, \mathrm{GNN}(\mathbf{f})`, plus the residual
        of the block before, if there is one.

    .. note::
        The gain :math:`\gamma` is ours. The loop :math:`\boldsymbol{\delta} =
        \mathrm{GNN}(\mathbf{f})` multiplies the scale of the states at every recurrence (see
        :class:`GRAMABlock`), so that in the paper's form deep models explode or collapse. Started
        at one over the depth, the gains bound the growth of the whole network by
        :math:`(1 + c / (S R))^{S R} < e^c`, whatever its depth, and training moves them from
        there.

    Args:
        in_channels (int): Width of the node features (after :obj:`node_encoder`), or :obj:`-1` to
            take it from the first forward pass.
        hidden_channels (int): Width :math:`F` of the states.
        out_channels (int): Width of the output.
        seq_len (int, optional): Length :math:`L` of the sequence. (default: :obj:`4`)
        num_blocks (int, optional): Number :math:`S` of blocks. (default: :obj:`2`)
        backbone (str, Module or callable, optional): ``"gcn"`` (linear graph convolution),
            ``"gcn-root"`` (the same plus a linear map of the node itself), ``"gatedgcn"`` (gates,
            edge states and batch norm), ``"gatedgcn-plain"`` (the same without batch norm),
            ``"gatedgcn-sum"`` (without it and with gated sums instead of means), ``"gin-multi"``
            (sum, mean, maximum and minimum over neighbours), ``"gps"`` (convolution plus
            attention), ``"gps-sum"`` (sums over neighbours plus attention), ``"gps-multi"`` (the
            four summaries plus attention), ``"gps-performer"`` (convolution plus linear
            attention), ``"gps-pre"``, ``"gps-sum-pre"`` and ``"gps-multi-pre"`` (the same as
            without ``-pre``, normed where they read instead of where they write), a module such
            as any PyG convolution (cloned and re-initialised for each block), or a callable from
            the number of channels to a module. (default: :obj:`"gcn"`)
        num_recurrences (int, optional): Number :math:`R` of recurrences of a block.
            (default: :obj:`seq_len`)
        ar_order (int, optional): Order :math:`p`. (default: the length of the sequence that the
            block receives)
        ma_order (int, optional): Order :math:`q`. (default: likewise)
        coefficients (str, optional): ``"selective"`` (attention over the pooled sequence of each
            graph) or ``"naive"`` (free parameters). (default: :obj:`"selective"`)
        normalization (str, optional): ``"sum"`` (the paper's), ``"l1"`` (always satisfies the
            stability theorem), ``"softmax"`` or ``"none"``. (default: :obj:`"sum"`)
        coefficient_update (str, optional): ``"block"`` or ``"step"``. (default: :obj:`"block"`)
        heads (int, optional): Heads of the selective coefficients. (default: :obj:`1`)
        act (str or callable, optional): Activation of the embedding, between blocks and in the
            readout. (default: :obj:`"relu"`)
        norm (str or callable, optional): Norm between blocks: ``"batch_norm"``,
            ``"layer_norm"``, a callable from the number of channels to a module, or :obj:`None`.
            (default: :obj:`None`)
        dropout (float, optional): Dropout after the embedding, between blocks and in the readout.
            (default: :obj:`0.0`)
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        pooling (str, optional): What a graph readout takes of the nodes: ``"mean"``, ``"sum"``,
            ``"max"``, or all three side by side as ``"sum-max-mean"``. (default: :obj:`"mean"`)
        edge_dim (int, optional): Width of the edge attributes (after :obj:`edge_encoder`), if the
            model is to use them. (default: :obj:`None`)
        gain (float or str, optional): Where the learned gain :math:`\gamma` of each block starts:
            ``"auto"`` for :math:`1 / (S R)`, one over the depth, a number, or :obj:`None` for the
            paper's form without. (default: :obj:`"auto"`)
        initial_poles (float, optional): Radius of the poles at initialisation; see
            :func:`~torch_grama.nn.functional.coefficients_with_poles`. (default: :obj:`None`)
        node_encoder (Module, optional): Applied to the node features first, such as
            :class:`AtomEncoder`. (default: :obj:`None`)
        edge_encoder (Module, optional): Applied to the edge attributes first, such as
            :class:`BondEncoder`. (default: :obj:`None`)
        pe_channels (int, optional): Number of columns of positional encodings that will be passed
            as :obj:`pe`; a :class:`PositionEncoder` encodes them, and the result joins the node
            features.
            (default: :obj:`0`)
        sequence_first (bool, optional): If :obj:`True`, a real sequence comes as
            :math:`(L, N, C)` instead of :math:`(N, L, C)`. (default: :obj:`False`)
        embedding_layers (int, optional): Linear layers of each :math:`g_k`. (default: :obj:`1`)
        readout_layers (int, optional): Linear layers of the readout. (default: :obj:`2`)
        initial_residuals (str, optional): ``"difference"`` or ``"zero"``; see
            :class:`SequenceEmbedding`. (default: :obj:`"difference"`)
        carry_edge_state (bool, optional): Whether a backbone with edge states hands them from
            recurrence to recurrence. (default: :obj:`True`)
        engine (str, optional): ``"auto"``, ``"reference"``, ``"scan"`` or ``"linear"``: same
            numbers, different speed. (default: :obj:`"auto"`)
        checkpoint_blocks (bool, optional): Whether to recompute each block in the backward pass
            instead of keeping its intermediate results. (default: :obj:`False`)
        cached (bool, optional): If :obj:`True`, the normalised adjacency matrix of the first
            forward pass is kept and used in all later ones, whatever graph they bring: for a
            single static graph. (default: :obj:`False`)
        check_input (bool, optional): Whether to look at the values of the input (finite features,
            node numbers in range, sorted batch vector), which waits for the device once a forward
            pass. (default: :obj:`True`)

    Shapes:
        - **input:** node features :math:`(N, C)` or a sequence of them :math:`(N, L, C)`, edges
          :math:`(2, E)`, edge weights :math:`(E)` *(optional)*, edge attributes
          :math:`(E, D)` *(optional)*, batch vector :math:`(N)` *(optional)*
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks

    Example:
        >>> from torch_geometric.nn import GATv2Conv
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> model = GRAMA(7, 32, 2, backbone=GATv2Conv(32, 32))
        >>> model(torch.randn(4, 7), edge_index).size()
        torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        seq_len: int = 4,
        num_blocks: int = 2,
        backbone: BackboneLike = "gcn",
        num_recurrences: int | None = None,
        ar_order: int | None = None,
        ma_order: int | None = None,
        coefficients: str = "selective",
        normalization: str = "sum",
        coefficient_update: str = "block",
        heads: int = 1,
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        readout: str = "node",
        edge_dim: int | None = None,
        gain: float | Literal["auto"] | None = "auto",
        initial_poles: float | None = None,
        node_encoder: Module | None = None,
        edge_encoder: Module | None = None,
        pe_channels: int = 0,
        sequence_first: bool = False,
        embedding_layers: int = 1,
        readout_layers: int = 2,
        initial_residuals: str = "difference",
        carry_edge_state: bool = True,
        engine: str = "auto",
        checkpoint_blocks: bool = False,
        cached: bool = False,
        check_input: bool = True,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        choose("readout", readout, READOUTS)
        if pooling != "mean" and readout != "graph":
            raise ValueError(
                f"Expected 'pooling' only with readout='graph' (got pooling={pooling!r}, "
                f"readout={readout!r})"
            )
        num_recurrences = seq_len if num_recurrences is None else num_recurrences
        check_input_sizes(in_channels, pe_channels, dropout)
        check_positive(
            hidden_channels=hidden_channels,
            out_channels=out_channels,
            seq_len=seq_len,
            num_blocks=num_blocks,
            num_recurrences=num_recurrences,
            edge_dim=edge_dim,
            embedding_layers=embedding_layers,
            readout_layers=readout_layers,
        )
        check_orders(seq_len, num_blocks, num_recurrences, ar_order, ma_order)
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.seq_len = seq_len
        self.num_recurrences = num_recurrences
        self.num_blocks = num_blocks
        self.readout = readout
        self.pooling = pooling
        self.edge_dim = edge_dim
        self.pe_channels = pe_channels
        self.checkpoint_blocks = checkpoint_blocks
        self.cached = cached
        self.check_input = check_input
        self._adjacencies: dict[Hashable, Adjacency] = {}

        self.node_encoder = node_encoder
        self.edge_encoder = edge_encoder
        # A word's backbone works on edges of the hidden width, encoded once for all blocks; a
        # user's module gets the attributes as they are.
        self._backbone_is_word = isinstance(backbone, str)
        encodes_edges = edge_dim is not None and self._backbone_is_word
        self.edge_lin = Linear(edge_dim or 0, hidden_channels) if encodes_edges else None
        self._pe_width = min(_MAX_PE_WIDTH, hidden_channels) if pe_channels > 0 else 0
        self.pe_encoder = PositionEncoder(pe_channels, self._pe_width) if pe_channels else None
        self.embedding = SequenceEmbedding(
            in_channels if in_channels == -1 else in_channels + self._pe_width,
            hidden_channels,
            seq_len,
            num_layers=embedding_layers,
            act=act,
            dropout=dropout,
            sequence_first=sequence_first,
            initial_residuals=initial_residuals,
        )
        self.blocks = ModuleList(
            [
                GRAMABlock(
                    hidden_channels,
                    backbone,
                    seq_len=seq_len if index == 0 else num_recurrences,
                    num_recurrences=num_recurrences,
                    ar_order=ar_order,
                    ma_order=ma_order,
                    coefficients=coefficients,
                    normalization=normalization,
                    coefficient_update=coefficient_update,
                    heads=heads,
                    act=act,
                    norm=norm,
                    dropout=dropout,
                    gain=1 / (num_blocks * num_recurrences) if gain == "auto" else gain,
                    initial_poles=initial_poles,
                    has_edge_attr=edge_dim is not None,
                    carry_edge_state=carry_edge_state,
                    engine=engine,
                )
                for index in range(num_blocks)
            ]
        )
        # of the last block only the state is read: a norm without gradient would hold up DDP
        cast(GRAMABlock, self.blocks[-1]).residual_norm = None
        self.head = Readout(
            pooled_channels(hidden_channels, pooling),
            out_channels,
            readout_layers,
            resolve_activation(act),
            dropout,
        )

    @property
    def in_channels(self) -> int:
        r"""Width of the node features; -1 as long as a lazy model has seen none."""
        width = self.embedding.in_channels
        return width if width == -1 else width - self._pe_width

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self._adjacencies.clear()
        for module in self.children():
            reset(module)

    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = ...,
        edge_attr: Tensor | None = ...,
        batch: Tensor | None = ...,
        batch_size: int | None = ...,
        pe: Tensor | None = ...,
        return_coefficients: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = ...,
        edge_attr: Tensor | None = ...,
        batch: Tensor | None = ...,
        batch_size: int | None = ...,
        pe: Tensor | None = ...,
        *,
        return_coefficients: Literal[True],
    ) -> tuple[Tensor, list[ARMACoefficients]]: ...
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        pe: Tensor | None = None,
        return_coefficients: bool = False,
    ) -> Tensor | tuple[Tensor, list[ARMACoefficients]]:
        r"""Runs the model.

        Args:
            x (Tensor): Node features, or a sequence of them.
            edge_index (Tensor): Edges, from source to target; or PyG's transposed adjacency matrix
                as a sparse tensor.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs; saves a wait for the device.
                (default: :obj:`None`)
            pe (Tensor, optional): Positional encodings. (default: :obj:`None`)
            return_coefficients (bool, optional): If :obj:`True`, also returns the coefficients of
                each block. (default: :obj:`False`)
        """
        # 1. the door
        x, graph = self._read_input(x, edge_index, edge_weight, edge_attr, batch, batch_size, pe)
        # 2. [N, C] -> [L, N, F], then R new elements a block
        coefficients: list[ARMACoefficients] = []
        *blocks, last_block = cast(Iterable[GRAMABlock], self.blocks)
        given: Tensor | NodeSequence = x
        for block in blocks:
            given, used = self._run(block, block.advance, given, graph)
            coefficients.append(used)
        # 3. the last state of the last block, [N, F]
        state, used = self._run(last_block, last_block.advance_to_last, given, graph)
        coefficients.append(used)
        # 4. [N, F] -> [B, F] for graph tasks, or [B, 3 F]
        if self.readout == "graph":
            if self.pooling == "mean":
                state = mean_of_graphs(state, graph.groups)
            else:
                state = pool_graphs(state, graph.batch, graph.batch_size, self.pooling)
        out: Tensor = self.head(state)
        return (out, coefficients) if return_coefficients else out

    def _read_input(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
        pe: Tensor | None,
    ) -> tuple[Tensor, GraphInput]:
        if self.node_encoder is not None:
            x = self.node_encoder(x)
        num_nodes = count_nodes(x, self.in_channels, self.seq_len, self.embedding.sequence_first)
        if num_nodes == 0 and self.readout == "graph":
            raise ValueError("Expected at least one node for readout='graph' (got none)")
        if edge_attr is not None and self.edge_encoder is not None:
            edge_attr = self.edge_encoder(edge_attr)
        check_edge_attr(edge_attr, self.edge_dim, self._backbone_is_word)
        check_positions(pe, num_nodes, self.pe_channels)
        graph = read_graph_input(
            num_nodes,
            edge_index,
            edge_weight,
            edge_attr,
            batch,
            batch_size,
            self._adjacencies if self.cached else None,
        )
        for block in cast(Iterable[GRAMABlock], self.blocks):
            block.check(graph)
        if self.check_input and not _is_traced(x):
            node_first = x.transpose(0, 1) if x.dim() == 3 and self.embedding.sequence_first else x
            check_values(node_first, graph, pe)
        if edge_attr is not None and self.edge_lin is not None:
            graph = dataclasses.replace(graph, edge_attr=self.edge_lin(edge_attr))
        if self.pe_encoder is not None:
            x = append_positions(x, self.pe_encoder(pe), self.embedding.sequence_first)
        return x, graph

    def _run(
        self,
        block: GRAMABlock,
        step: Callable[..., Any],
        given: Tensor | NodeSequence,
        graph: GraphInput,
    ) -> Any:
        r"""Runs a block on the features, for the first, or on the sequence of the block before."""
        saves_memory = self.checkpoint_blocks and torch.is_grad_enabled()
        if not saves_memory:
            return step(lambda: self._as_sequence(given), graph)

        def rerun(*parts: Tensor) -> Any:
            act = given.act if isinstance(given, NodeSequence) else None
            again = parts[0] if act is None else NodeSequence(parts[0], parts[1], act)
            return step(lambda: self._as_sequence(again), graph, True)

        # tensors are named one by one, so that the checkpoint sees them
        parts = (given.states, given.residuals) if isinstance(given, NodeSequence) else (given,)
        block.prepare(graph)
        return run_again_for_gradients(block, rerun, *parts)

    def _as_sequence(self, given: Tensor | NodeSequence) -> NodeSequence:
        return given if isinstance(given, NodeSequence) else self.embedding.embed(given)

    def __getstate__(self) -> dict[str, Any]:
        # copies and pickles start without cached matrices
        return {**self.__dict__, "_adjacencies": {}}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GRAMA:
        # a device or dtype move leaves cached matrices behind
        self._adjacencies.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, "
            f"{self.out_channels}, seq_len={self.seq_len}, num_blocks={self.num_blocks}, "
            f"backbone={type(self.blocks[0].backbone).__name__})"
        )


# Width to which positional encodings are mapped before they join the features.
_MAX_PE_WIDTH = 16


def _is_traced(x: Tensor) -> bool:
    if torch.compiler.is_compiling():
        return True
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
