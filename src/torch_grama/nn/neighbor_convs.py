"""Convolutions and aggregations over neighbours that PyG does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential
from torch_geometric.nn import GCN2Conv, GCNConv, GINConv, GINEConv, MessagePassing
from torch_geometric.nn.aggr import Aggregation, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.edge_messages import neighbor_sum
from torch_grama.nn.engine.sequence import apply, handwritten_gradients_work
from torch_grama.nn.norms import StepwiseBatchNorm


def convolve(conv: Module, *args: Any, **kwargs: Any) -> Any:
    r"""Calls a convolution, one of PyG in float32 whatever autocast says: on a GPU PyG adds up
    messages and degrees in their own type, and a sum of ones in bfloat16 ends at 256.
    """
    if not isinstance(conv, MessagePassing):
        return conv(*args, **kwargs)
    given = (*args, *kwargs.values())
    device = next((value.device.type for value in given if isinstance(value, Tensor)), "cpu")
    if not torch.is_autocast_enabled(device):
        return conv(*args, **kwargs)
    with torch.autocast(device, enabled=False):
        in_float32 = {name: _in_float32(value) for name, value in kwargs.items()}
        return conv(*map(_in_float32, args), **in_float32)


def _in_float32(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_in_float32, value))
    if isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16):
        return value.float()
    return value


class RootedGCNConv(GCNConv):
    r"""Graph convolution plus a linear map of the node itself:

    .. math::
        \mathbf{X}' = \hat{\mathbf{A}} \mathbf{X} \mathbf{W} + \mathbf{X}
        \mathbf{W}_{\mathrm{root}} + \mathbf{b},

    where :math:`\hat{\mathbf{A}}` is the symmetrically normalised adjacency matrix with self-loops
    of PyG's :class:`~torch_geometric.nn.GCNConv`. In a dense graph its loop is a share of one over
    the degree, so that a node hardly sees itself; the second map gives it back. As a backbone it is
    linear and runs on the linear engine.

    Args:
        channels (int): Width of the states.
        bias (bool, optional): If :obj:`False`, there is no :math:`\mathbf{b}`.
            (default: :obj:`True`)
        loops (bool, optional): If :obj:`False`, :math:`\hat{\mathbf{A}}` has no self-loops.
            (default: :obj:`True`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`, edge weights :math:`(E)`
          *(optional)*
        - **output:** node states :math:`(N, F)`
    """

    def __init__(self, channels: int, bias: bool = True, loops: bool = True) -> None:
        super().__init__(channels, channels, add_self_loops=loops, bias=bias)
        self.root = Linear(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        super().reset_parameters()  # type: ignore[no-untyped-call]
        # the constructor above calls this before there is a root
        if hasattr(self, "root"):
            self.root.reset_parameters()

    def start_wave(self) -> None:
        r"""Makes it :math:`-(\mathbf{I} - \hat{\mathbf{A}}) \mathbf{X} \, \mathrm{diag}(w)`, the
        force of a wave whose squared speeds :math:`w` run from 0 to 2, the largest that is stable
        on every graph, over the channels."""
        speeds = torch.linspace(0, 2, self.out_channels).diag()
        with torch.no_grad():
            self.lin.weight.copy_(speeds)
            self.root.weight.copy_(-speeds)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = super().forward(x, edge_index, edge_weight) + self.root(x)
        return out


def build_gcn2_convs(
    channels: int, num_layers: int, alpha: float, theta: float | None, normalize: bool = True
) -> ModuleList:
    r"""Makes the convolutions of GCNII, PyG's :class:`GCN2Conv`, each damped by its number; without
    :obj:`theta` none is."""
    numbers = [None] * num_layers if theta is None else range(1, num_layers + 1)
    return ModuleList(
        GCN2Conv(channels, alpha, theta, number, normalize=normalize)  # type: ignore[abstract, arg-type]
        for number in numbers
    )


class GCN2Stack(Module):
    r"""Several layers of GCNII as the backbone of one recurrence:

    .. math::
        \mathbf{X}^{(l)} = \left( (1 - \alpha) \hat{\mathbf{A}} \sigma(\mathbf{X}^{(l-1)}) + \alpha
        \mathbf{X}_0 \right) \left( (1 - \beta_l) \mathbf{I} + \beta_l \mathbf{W}_l \right), \qquad
        \beta_l = \log \left( \frac{\theta}{l} + 1 \right),

    where :math:`\sigma` is ReLU, left out in the first layer, and :math:`\mathbf{X}_0` the state
    from which the first recurrence of the model starts. A recurrence adds states, and GCNII is
    worse with a skip around each layer; around all of them it is not.

    Args:
        channels (int): Width of the states.
        num_layers (int): Number of layers.
        alpha (float): Share of the first state.
        theta (float, optional): Damping of the weights; :obj:`None` sets :math:`\beta_l = 1`.
            (default: :obj:`0.5`)
        dropout (float, optional): Dropout between the layers. (default: :obj:`0.0`)
        loops (bool, optional): If :obj:`False`, :math:`\hat{\mathbf{A}}` has no self-loops.
            (default: :obj:`True`)

    Shapes:
        - **input:** node states :math:`(N, F)`, the first states :math:`(N, F)`, edges
          :math:`(2, E)`, edge weights :math:`(E)` *(optional)*
        - **output:** node states :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        num_layers: int,
        alpha: float,
        theta: float | None = 0.5,
        dropout: float = 0.0,
        loops: bool = True,
    ) -> None:
        super().__init__()
        check_positive(channels=channels, num_layers=num_layers)
        self.convs = build_gcn2_convs(channels, num_layers, alpha, theta, normalize=False)
        self.between = Sequential(ReLU(), Dropout(dropout))
        self.channels = channels
        self.loops = loops

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.convs)

    def forward(
        self, x: Tensor, x_0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        # once for all layers, in float32 at least, as in `convolve`
        dtype = torch.promote_types(x.dtype, torch.float32)
        edge_index, edge_weight = gcn_norm(
            edge_index, edge_weight, x.size(0), add_self_loops=self.loops, dtype=dtype
        )
        for number, conv in enumerate(self.convs):
            x = convolve(conv, self.between(x) if number else x, x_0, edge_index, edge_weight)
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, num_layers={len(self.convs)})"


class NeighborSumConv(Module):
    r"""A sum over neighbours, made for molecules:

    .. math::
        \mathbf{x}'_i = \mathrm{BN}\Big( \sum_{j \to i} \mathrm{ReLU}(\mathbf{W} \mathbf{x}_j +
        \mathbf{b} + \mathbf{e}_{ij}) \Big).

    There is no self-loop and no division by degrees, so that the number of neighbours counts: the
    layer behind the best message-passing results on peptides (`"Can Classic GNNs Be Strong
    Baselines for Graph-level Tasks?" <https://arxiv.org/abs/2502.09263>`_). Edge attributes
    :math:`\mathbf{e}_{ij}` are added as they are, one code of an edge for all layers, and left out
    where there are none. Each recurrence keeps running statistics of its own.

    Args:
        channels (int): Width of the states, and of the edge attributes if there are any.
        num_recurrences (int, optional): How many recurrences share the layer. (default: :obj:`1`)
        norm (str, optional): ``"batch_norm"`` or :obj:`None`. (default: :obj:`"batch_norm"`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`, edge attributes
          :math:`(E, F)` *(optional)*
        - **output:** node states :math:`(N, F)`
    """

    def __init__(
        self, channels: int, num_recurrences: int = 1, norm: str | None = "batch_norm"
    ) -> None:
        super().__init__()
        if norm not in ("batch_norm", None):
            raise ValueError(f"Expected 'norm' to be 'batch_norm' or None (got {norm!r})")
        self.channels = channels
        self.lin = Linear(channels, channels)
        self.norm = StepwiseBatchNorm(channels, num_recurrences) if norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        step: int = 0,
        edge_order: Adjacency | None = None,
    ) -> Tensor:
        r"""Returns the new node states; ``edge_order`` as in :class:`GatedGCNConv`."""
        if edge_attr is not None and edge_attr.size() != (edge_index.size(1), self.channels):
            raise ValueError(
                f"Expected 'edge_attr' of shape [num_edges, channels={self.channels}] "
                f"(got {list(edge_attr.size())})"
            )
        out = neighbor_sum(self.lin(x), edge_attr, edge_index, edge_order)
        return out if self.norm is None else self.norm(out, step)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"


class NormedConv(Module):
    r"""A convolution followed by a batch norm with running statistics of each recurrence.

    Sums over neighbours multiply the scale of the states by the degrees; around such a convolution
    a deep recurrence needs the norm.

    Args:
        conv (Module): The convolution, called with node states, edges and what it declares.
        channels (int): Width of the states.
        num_recurrences (int, optional): How many recurrences share it. (default: :obj:`1`)

    Shapes:
        - **input:** node states :math:`(N, F)`, edges :math:`(2, E)`
        - **output:** node states :math:`(N, F)`
    """

    def __init__(self, conv: Module, channels: int, num_recurrences: int = 1) -> None:
        super().__init__()
        self.conv = conv
        self.norm = StepwiseBatchNorm(channels, num_recurrences)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.children():
            reset(module)

    def forward(self, x: Tensor, edge_index: Tensor, step: int = 0, **kwargs: Tensor) -> Tensor:
        r"""Returns the normed node states; further keywords go to the convolution."""
        out: Tensor = self.norm(convolve(self.conv, x, edge_index, **kwargs), step)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.conv).__name__})"


def build_gin_conv(
    channels: int, has_edge_attr: bool = False, aggregation: str = "sum"
) -> MessagePassing:
    r"""Makes PyG's :class:`GINConv` with an MLP of two layers, or :class:`GINEConv` for edge
    attributes of the same width.

    Args:
        channels (int): Width of the states.
        has_edge_attr (bool, optional): Whether edge attributes are given. (default: :obj:`False`)
        aggregation (str, optional): ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
            maximum and minimum. (default: :obj:`"sum"`)
    """
    mlp = Sequential(Linear(channels, channels), ReLU(), Linear(channels, channels))
    aggr = build_aggregation(aggregation, channels)
    if has_edge_attr:
        return GINEConv(mlp, edge_dim=channels, aggr=aggr)  # type: ignore[abstract]
    return GINConv(mlp, aggr=aggr)  # type: ignore[abstract]


class NeighborSummaries(Aggregation):
    r"""A linear map of sum, mean, maximum and minimum side by side, PyG's
    :class:`~torch_geometric.nn.aggr.MultiAggregation` with ``"proj"`` in fewer passes over the
    edges. One summary cannot tell all neighbourhoods apart: sums count, means do not depend on the
    degree, extremes carry distances.

    Args:
        channels (int): Width of the messages.

    Shapes:
        - **input:** messages :math:`(E, F)`, the node of each :math:`(E)`
        - **output:** summaries of nodes :math:`(N, F)`, zeros mapped where there are no messages
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = Linear(4 * channels, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        r"""Returns the mapped summaries."""
        if index is None or dim_size is None:
            raise ValueError("Expected 'index', the node of each message")

        total = _add_up(x, index, dim, dim_size)
        degree = _add_up(torch.ones_like(x[..., :1]), index, dim, dim_size).clamp(min=1)
        extremes = []
        for word in ("max", "min"):
            if handwritten_gradients_work():
                extremes.append(apply(_Extreme, x, index, dim, dim_size, word))
            else:
                with torch.no_grad():
                    best = scatter(x.detach(), index, dim, dim_size, word)
                    reached, number = _find_equals(x, index, dim, best)
                extremes.append(_add_up(x * reached, index, dim, dim_size) / number)
        out: Tensor = self.lin(torch.cat([total, total / degree, *extremes], dim=-1))
        return out


def _add_up(x: Tensor, index: Tensor, dim: int, num_nodes: int) -> Tensor:
    size = list(x.shape)
    size[dim] = num_nodes
    return x.new_zeros(size).index_add_(dim, index, x)


def _find_equals(x: Tensor, index: Tensor, dim: int, best: Tensor) -> tuple[Tensor, Tensor]:
    """Which messages are the extreme of their node, and how many of a node are."""
    reached = (x == best.index_select(dim, index)).to(x.dtype)
    return reached, _add_up(reached, index, dim, best.size(dim)).clamp(min=1)


class _Extreme(torch.autograd.Function):
    """The largest or smallest message of each node; messages that are equal share its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, dim: int, num_nodes: int, word: str) -> Tensor:
        # told that it needs no gradient, since PyG advises another package where it does
        best = scatter(x.detach(), index, dim, num_nodes, word)
        ctx.save_for_backward(x, index, best)
        ctx.dim = dim
        return best

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, index, best = ctx.saved_tensors
        reached, number = _find_equals(x, index, ctx.dim, best)
        # plain operations: differentiable again
        share = (gradient / number).index_select(ctx.dim, index)
        return share * reached, *(None,) * 4


AGGREGATIONS: dict[str, Callable[[int], Aggregation]] = {
    "sum": lambda _: SumAggregation(),
    "multi": NeighborSummaries,
}


def build_aggregation(word: str, channels: int) -> Aggregation:
    r"""Makes an aggregation of messages: ``"sum"``, or ``"multi"`` for a linear map of sum, mean,
    maximum and minimum side by side, as in `"Principal Neighbourhood Aggregation for Graph Nets"
    <https://arxiv.org/abs/2004.05718>`_ without its scaling by the degree.
    """
    return choose("aggregation", word, AGGREGATIONS)(channels)
