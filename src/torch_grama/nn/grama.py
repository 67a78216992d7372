"""The model: sequence embedding, blocks, readout."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch
from torch import Tensor
from torch.nn import Identity, Linear, Module, ModuleList
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import (
    Activation,
    check_input_sizes,
    check_positive,
    choose,
    explain_old_names,
    resolve_activation,
)
from torch_grama.nn.backbone import BackboneLike
from torch_grama.nn.coefficients import ARMACoefficients, Coefficients
from torch_grama.nn.engine.recurrence import ENGINES
from torch_grama.nn.engine.sequence import NodeSequence
from torch_grama.nn.grama_block import OLD_COEFFICIENTS, Gain, GRAMABlock, backbone_name
from torch_grama.nn.graph_input import (
    GraphInput,
    check_cached_size,
    check_edge_attr,
    check_values,
    count_nodes,
    read_graph_input,
)
from torch_grama.nn.norms import NormLike
from torch_grama.nn.readout import Readout, ReadoutMLP, mean_of_graphs, pool_graphs, pooled_channels
from torch_grama.nn.sequence_embedding import SequenceEmbedding


@dataclasses.dataclass(frozen=True)
class Running:
    r"""How a model runs; none of it changes a number.

    Args:
        engine (str, optional): ``"auto"``, ``"reference"``, ``"scan"`` or ``"linear"``; see
            :func:`~torch_grama.nn.functional.arma_recurrence`. (default: :obj:`"auto"`)
        recompute (bool, optional): Whether to recompute each block in the backward pass instead of
            keeping its intermediate results. (default: :obj:`False`)
        cached (bool, optional): If :obj:`True`, the normalised adjacency matrix of the first
            forward pass is kept for all later ones, of the same graph. (default: :obj:`False`)
        check_input (bool, optional): Whether to look at the values of the input (finite features,
            node numbers in range, sorted batch vector, the same graph if it is cached), which waits
            for the device once per forward pass. (default: :obj:`True`)
    """

    engine: str = "auto"
    recompute: bool = False
    cached: bool = False
    check_input: bool = True

    def __post_init__(self) -> None:
        choose("running.engine", self.engine, ENGINES)


_OLD_NAMES = {
    **OLD_COEFFICIENTS,
    "pooling": "write readout=Readout('graph', pooling=...)",
    "readout_layers": "write readout=Readout(num_layers=...)",
    "engine": "write running=Running(engine=...)",
    "checkpoint_blocks": "write running=Running(recompute=...)",
    "cached": "write running=Running(cached=...)",
    "check_input": "write running=Running(check_input=...)",
    "node_encoder": "encode the node features before the model, for example in torch.nn.Sequential",
    "edge_encoder": "encode the edge attributes before the model",
    "pe_channels": "append encoded positions to the node features before the model, for example "
    "with PositionEncoder",
    "sequence_first": "pass a sequence as [num_nodes, L, channels], for example x.transpose(0, 1)",
    "num_layers": "write num_blocks=S and seq_len=L: the depth, in hops, is S * L (or S * R with "
    "num_recurrences=R)",
    "initial_residuals": "leave it out: residuals start as differences",
    "embedding_layers": "set model.embedding = SequenceEmbedding(..., num_layers=...)",
}


class GRAMA(Module):
    r"""The model of `"Graph Adaptive Autoregressive Moving Average Models"
    <https://arxiv.org/abs/2501.12732>`_: a static graph becomes a short sequence of graphs, on
    which a learned ARMA recurrence runs around any graph neural network.

    .. math::
        \mathbf{f}^{(k)} &= g_k(\mathbf{x}), \qquad
        \boldsymbol{\delta}^{(t)} = \gamma \, \mathrm{GNN}(\mathbf{f}^{(t-1)}), \\
        \mathbf{f}^{(t)} &= \alpha \sum_{i=1}^{p} \phi_i \, \mathbf{f}^{(t-i)}
        + \sum_{j=1}^{q} \theta_j \, \boldsymbol{\delta}^{(t-j)} + \boldsymbol{\delta}^{(t)},

    where :math:`k = 0, \ldots, L - 1` are the given elements and each of :math:`S` blocks adds
    :math:`R` new ones, which are the sequence of the next. The last state of the last block goes
    through a readout MLP, after a mean over the nodes of each graph for graph tasks. With a
    message-passing backbone, information travels :math:`S \cdot R` hops.

    .. note::
        The paper leaves some points open; here they are as follows. Block :math:`s` computes its
        coefficients from its input sequence. :math:`\phi_1` multiplies the newest state. The
        readout reads the last element after the activation. A norm between blocks applies to the
        states, before the activation; in the last block, only to the last state. A block of
        ``seq_len=1`` is a residual layer :math:`\alpha \mathbf{f} + \gamma \,
        \mathrm{GNN}(\mathbf{f})`, plus the residual of the block before, if there is one.

    .. note::
        The gain :math:`\gamma` and the retention :math:`\alpha` of each block are not in the paper;
        see :class:`GRAMABlock`. They start at :math:`\gamma = 1 / R` and :math:`\alpha = 1 -
        \gamma`, so that an untrained model looks far, and its states keep their scale at depth 128.
        A backbone that sums over neighbours needs a norm for this (:class:`NormedConv` adds one).

    Args:
        in_channels (int): Width of the node features, or :obj:`-1` to take it from the first
            forward pass.
        hidden_channels (int): Width :math:`F` of the states.
        out_channels (int, optional): Width of the output. With :obj:`None` there is no readout MLP:
            the output is the last states, of nodes or pooled, as of an encoder.
        seq_len (int, optional): Length :math:`L` of the sequence. (default: :obj:`4`)
        num_blocks (int, optional): Number :math:`S` of blocks. (default: :obj:`2`)
        backbone (str, Module or callable, optional): ``"gcn"`` (linear graph convolution),
            ``"gatedgcn"`` (gates, edge states and batch norm), ``"gin"`` (sum over neighbours, an
            MLP and batch norm), ``"gps"`` (convolution plus attention), ``"neighbor-sum"`` (sum of
            rectified messages and batch norm, for molecules), a module such as any PyG convolution
            or :class:`GPSLayer` (cloned and re-initialised for each block), a class such as
            ``SAGEConv``, or a callable from the number of channels to a module; see
            :class:`Backbone`. (default: :obj:`"gcn"`)
        num_recurrences (int, optional): Recurrences :math:`R` of a block. (default: :obj:`seq_len`)
        coefficients (str or Coefficients, optional): ``"selective"`` (attention over the pooled
            sequence of each graph), ``"naive"`` (free parameters), ``"fixed"``, or
            :class:`Coefficients` with orders, constraint and more. (default: :obj:`"selective"`)
        act (str or callable, optional): Activation of the embedding, between blocks and in the
            readout. With :obj:`None` the states stay linear in the input as far as the readout,
            whose layers then have ReLU between them. (default: :obj:`"relu"`)
        norm (str or callable, optional): Norm of the states between blocks: ``"batch_norm"``,
            ``"layer_norm"``, a callable from the number of channels to a module, or :obj:`None`.
            (default: :obj:`None`)
        dropout (float, optional): Dropout after the embedding, between blocks, in the readout, and
            in a backbone by name if it has dropout. (default: :obj:`0.0`)
        readout (str or Readout, optional): ``"node"``, ``"graph"``, or :class:`Readout` with
            pooling and number of layers. (default: :obj:`"node"`)
        edge_dim (int, optional): Width of edge attributes, if any. (default: :obj:`None`)
        gain (float or str, optional): Where the learned gain :math:`\gamma` of each block starts:
            ``"auto"`` for :math:`1 / R` (and the retention at :math:`1 - \gamma`), a number
            (and the retention at one), ``"wave"`` for blocks that start as a wave equation (see
            :class:`GRAMABlock`), or :obj:`None` for the paper's form without gain and retention.
            (default: :obj:`"auto"`)
        share_weights (bool, optional): If :obj:`False`, each recurrence of a block has its own
            backbone. (default: :obj:`True`)
        running (Running, optional): Engine, recomputation, caching and checks.
            (default: :class:`Running()`)

    Shapes:
        - **input:** node features :math:`(N, C)` or a sequence of them :math:`(N, L, C)`, edges
          :math:`(2, E)`, edge weights :math:`(E)` *(optional)*, edge attributes
          :math:`(E, D)` *(optional)*, batch vector :math:`(N)` *(optional)*, edge types :math:`(E)`
          *(optional)*
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks

    Example:
        >>> from torch_geometric.nn import GATv2Conv
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> model = GRAMA(7, 32, 2, backbone=GATv2Conv(32, 32))
        >>> model(torch.randn(4, 7), edge_index).size()
        torch.Size([4, 2])
    """

    @explain_old_names(_OLD_NAMES)
    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int | None,
        seq_len: int = 4,
        num_blocks: int = 2,
        backbone: BackboneLike = "gcn",
        num_recurrences: int | None = None,
        coefficients: str | Coefficients = "selective",
        act: str | Activation | None = "relu",
        norm: NormLike = None,
        dropout: float = 0.0,
        readout: str | Readout = "node",
        edge_dim: int | None = None,
        gain: Gain = "auto",
        share_weights: bool = True,
        running: Running | None = None,
    ) -> None:
        super().__init__()
        num_recurrences = seq_len if num_recurrences is None else num_recurrences
        check_input_sizes(in_channels, dropout)
        check_positive(
            hidden_channels=hidden_channels,
            out_channels=out_channels,
            seq_len=seq_len,
            num_blocks=num_blocks,
            num_recurrences=num_recurrences,
            edge_dim=edge_dim,
        )
        coefficients = Coefficients.of(coefficients)
        coefficients.check_orders(seq_len, num_recurrences if num_blocks > 1 else None)
        self.hidden_channels = hidden_channels
        self.seq_len = seq_len
        self.num_recurrences = num_recurrences
        self.num_blocks = num_blocks
        self.readout = Readout.of(readout)
        self.edge_dim = edge_dim
        self.running = Running() if running is None else running
        self._cached_graph: GraphInput | None = None

        # A named backbone works on edges of the hidden width, encoded once for all blocks; a
        # user's module gets the attributes as they are.
        self._backbone_is_word = isinstance(backbone, str)
        encodes_edges = edge_dim is not None and self._backbone_is_word
        self.edge_lin = Linear(edge_dim or 0, hidden_channels) if encodes_edges else None
        self.embedding = SequenceEmbedding(
            in_channels, hidden_channels, seq_len, act=act, dropout=dropout
        )
        self.blocks = ModuleList(
            [
                GRAMABlock(
                    hidden_channels,
                    backbone,
                    seq_len=seq_len if index == 0 else num_recurrences,
                    num_recurrences=num_recurrences,
                    coefficients=coefficients,
                    act=act,
                    norm=norm,
                    dropout=dropout,
                    gain=gain,
                    has_edge_attr=edge_dim is not None,
                    share_weights=share_weights,
                    engine=self.running.engine,
                )
                for index in range(num_blocks)
            ]
        )
        for block in cast(Iterable[GRAMABlock], self.blocks[1:]):
            block.take_edges()
        cast(GRAMABlock, self.blocks[-1]).read_last_only()
        width = pooled_channels(hidden_channels, self.readout.pooling)
        depth = self.readout.num_layers
        self.out_channels = width if out_channels is None else out_channels
        self.head: Module = Identity()
        if out_channels is not None:
            self.head = ReadoutMLP(width, out_channels, depth, resolve_activation(act), dropout)

    @property
    def in_channels(self) -> int:
        r"""Width of the node features; -1 as long as a lazy model has seen none."""
        return self.embedding.in_channels

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.reset_cache()
        for module in self.children():
            reset(module)

    def reset_cache(self) -> None:
        r"""Forgets the matrix that ``Running(cached=True)`` kept: another graph may come."""
        self._cached_graph = None

    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = ...,
        edge_attr: Tensor | None = ...,
        batch: Tensor | None = ...,
        batch_size: int | None = ...,
        return_coefficients: Literal[False] = ...,
        edge_type: Tensor | None = ...,
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
        *,
        return_coefficients: Literal[True],
        edge_type: Tensor | None = ...,
    ) -> tuple[Tensor, list[ARMACoefficients]]: ...
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        return_coefficients: bool = False,
        edge_type: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, list[ARMACoefficients]]:
        r"""Runs the model.

        Args:
            x (Tensor): Node features, or a sequence of them.
            edge_index (Tensor): Edges, from source to target; or PyG's transposed adjacency matrix
                as a sparse tensor.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node. (default: :obj:`None`, one graph)
            batch_size (int, optional): Number of graphs; if given, it need not be read from the
                device. (default: :obj:`None`)
            return_coefficients (bool, optional): If :obj:`True`, also returns the coefficients of
                each block. (default: :obj:`False`)
            edge_type (Tensor, optional): The type of each edge, for a backbone that uses types,
                such as PyG's ``RGCNConv``. (default: :obj:`None`)
        """
        # 1. the door
        given = edge_index, edge_weight, edge_attr, batch, batch_size, edge_type
        graph = self._read_graph(x, *given)
        # 2. [N, C] -> [L, N, F]
        sequence = self.embedding.embed(x)
        # 3. R new elements per block, of the last block the last state
        coefficients: list[ARMACoefficients] = []
        recomputes = self.running.recompute and torch.is_grad_enabled()
        for block in cast(Iterable[GRAMABlock], self.blocks):
            run = partial(_run_recomputed, block) if recomputes else block.run
            sequence, used, graph = run(sequence, graph)
            coefficients.append(used)
        state = sequence.act(sequence.states[-1])  # [N, F]
        # 4. [N, F] -> [B, F] for graph tasks, or [B, 3 F]
        if self.readout.level == "graph":
            if self.readout.pooling == "mean":
                state = mean_of_graphs(state, graph.groups)
            else:
                state = pool_graphs(state, graph.batch, graph.batch_size, self.readout.pooling)
        out: Tensor = self.head(state)
        return (out, coefficients) if return_coefficients else out

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says Any

    def _read_graph(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
        edge_type: Tensor | None,
    ) -> GraphInput:
        num_nodes = count_nodes(x, self.in_channels, self.seq_len)
        if edge_attr is not None and edge_attr.dim() == 1 and self.edge_dim == 1:
            edge_attr = edge_attr.unsqueeze(1)
        if num_nodes == 0 and self.readout.level == "graph":
            raise ValueError("Expected at least one node for readout='graph' (got none)")
        check_edge_attr(edge_attr, self.edge_dim, self._backbone_is_word)
        graph = read_graph_input(
            num_nodes, edge_index, edge_weight, edge_attr, batch, batch_size, edge_type
        )
        weight = graph.edge_weight
        if self.running.cached and weight is not None and weight.requires_grad:
            raise ValueError(
                "Expected 'edge_weight' without a gradient, since its matrix is cached (got one "
                "that requires it); build the model without cached=True, or detach the weights"
            )
        cached = self._cached_graph
        if cached is not None:
            check_cached_size(graph, cached)
            graph = dataclasses.replace(graph, adjacencies=cached.adjacencies)
        for block in cast(Iterable[GRAMABlock], self.blocks):
            block.check(graph)
        if self.running.check_input and not is_traced(x):
            check_values(x, graph, cached)
        if self.running.cached and cached is None:
            # copies, which are still the first graph when somebody writes over the given tensors
            self._cached_graph = GraphInput(
                num_nodes,
                graph.edge_index.clone(),
                None if weight is None else weight.clone(),
                adjacencies=graph.adjacencies,
            )
        if edge_attr is not None and self.edge_lin is not None:
            graph = dataclasses.replace(graph, edge_attr=self.edge_lin(edge_attr))
        return graph

    def __getstate__(self) -> dict[str, Any]:
        # copies and pickles start without cached matrices
        return {**self.__dict__, "_cached_graph": None}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GRAMA:
        # a device or dtype move leaves cached matrices behind
        self.reset_cache()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, "
            f"{self.out_channels}, seq_len={self.seq_len}, num_blocks={self.num_blocks}, "
            f"backbone={backbone_name(cast(Module, self.blocks[0].backbone))})"
        )


def _run_recomputed(
    block: GRAMABlock, sequence: NodeSequence, graph: GraphInput
) -> tuple[NodeSequence, ARMACoefficients, GraphInput]:
    r"""Runs a block that is run again when its gradient is wanted."""
    rest: list[Any] = []
    # matrices are made outside: the second run must find what the first one found
    graph = block.keep_first(sequence, graph)
    block.prepare(graph)

    # tensors are named one by one, so that the checkpoint sees them
    def run_parts(
        states: Tensor, residuals: Tensor | None, edge_attr: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        given = dataclasses.replace(graph, edge_attr=edge_attr)
        out, used, after = block.run(NodeSequence(states, residuals, sequence.act), given)
        rest[:] = out.act, after
        return out.states, out.residuals, *used, after.edge_attr

    # the second run leaves the running statistics of batch norms alone: the batch was counted
    contexts: dict[str, Any] = {"context_fn": lambda: (nullcontext(), _buffers_kept(block))}
    states, residuals, phi, theta, edge_attr = checkpoint(
        run_parts,
        sequence.states,
        sequence.residuals,
        graph.edge_attr,
        use_reentrant=False,
        **({} if torch.compiler.is_compiling() else contexts),
    )
    act, after = rest
    after = dataclasses.replace(after, edge_attr=edge_attr)
    return NodeSequence(states, residuals, act), ARMACoefficients(phi, theta), after


@contextmanager
def _buffers_kept(module: Module) -> Iterator[None]:
    # .data: autograd may have saved a buffer, and need not hear of a change that is undone
    kept = [(buffer, buffer.data.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.data.copy_(value)


def is_traced(x: Tensor) -> bool:
    r"""Whether nobody may look at values now: a compiler, functorch or a CUDA graph watches."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
