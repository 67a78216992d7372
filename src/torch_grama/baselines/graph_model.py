"""What every model of this folder is: built from four sizes, checked at one door, called alike."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypedDict, Unpack, get_args

from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.inits import reset

from torch_grama.nn.arguments import (
    Activation,
    check_input_sizes,
    check_positive,
    choose,
    resolve_activation,
)
from torch_grama.nn.graph_input import GraphInput, read_graph_input
from torch_grama.nn.readout import POOLINGS, ReadoutMLP, pool_graphs, pooled_channels

READOUTS = {"node": "one output per node", "graph": "one output per graph"}

SIZES = ("in_channels", "hidden_channels", "out_channels", "num_layers")
SHARED_ARGUMENTS = {
    "in_channels": "(int): Width of the node features.",
    "hidden_channels": "(int): Width of the states.",
    "out_channels": "(int): Width of the output.",
    "num_layers": "(int): Number of layers.",
    "readout": '(str, optional): ``"node"`` or ``"graph"``.',
    "dropout": "(float, optional): Dropout.",
    "act": r"(str or callable, optional): The activation :math:`\sigma`.",
    "norm": '(str or callable, optional): ``"batch_norm"``, ``"layer_norm"``, a callable from the '
    "number of channels to a module, or :obj:`None`.",
    "residual": '(str, optional): ``"identity"`` to add the input of a layer to its output, '
    '``"linear"`` to add a linear map of it before the norm, or :obj:`None`.',
    "feed_forward": "(bool, optional): Whether a feed-forward part follows each convolution.",
    "jumping": "(bool, optional): Whether the readout gets the sum of all layers' outputs instead "
    "of the last.",
    "pre_linear": "(bool, optional): Whether a linear map to the hidden width comes first; "
    "without, the features must have that width already.",
    "readout_layers": "(int, optional): Linear layers of the readout.",
    "edge_dim": "(int, optional): Width of the edge attributes.",
    "heads": "(int, optional): Number of attention heads.",
    "attention_dropout": "(float, optional): Dropout of the attention weights.",
    "local": '(str, optional): ``"gcn"``, ``"gat"``, ``"gine"``, ``"gine-multi"`` or '
    '``"gatedgcn"``.',
    "state_channels": "(int, optional): States per channel of the scan.",
    "expansion": "(int, optional): Inner width of the scan, in multiples of the hidden channels.",
    "weight_sharing": "(bool, optional): Whether all steps share their weights.",
    "batch_norm": "(bool, optional): Whether to normalise before the activation.",
    "cached": "(bool, optional): Whether what is found of each graph is remembered.",
    "num_nodes": "(int, optional): Number of nodes of the one graph.",
    "depth": "(int, optional): Takes the place of :obj:`num_layers`, for words that stand for a "
    "fixed depth.",
}
"""What arguments mean that many models take; the docstring of a model says what is its own."""


@dataclass(frozen=True)
class Card:
    r"""What a comparison says of a model beside its numbers."""

    equation: str  #: its update in one line of plain text
    reference: str  #: authors, title, year
    cost: str  #: what one layer costs, in N nodes, E edges, F channels, such as ``N F^2 + E F``
    source: str = "torch_grama"  #: the PyG class that does the work, or ``torch_grama``
    #: whether renumbering the nodes renumbers the output and changes nothing else
    equivariant: bool = True
    #: whether it uses edge attributes; of a class, whether it takes ``edge_dim``
    takes_edge_attr: bool = False
    takes_sequence: bool = False  #: whether it reads a sequence of features ``[N, L, C]``
    #: what differs from its paper, and which reading was taken where the paper leaves something
    #: open; one sentence each. Empty: none known.
    departures: tuple[str, ...] = ()

    def describe(self) -> str:
        r"""Returns the part that a docstring shows."""
        link = r"`arXiv:\1 <https://arxiv.org/abs/\1>`_"
        reference = re.sub(r"arXiv:(\d+\.\d+)", link, self.reference)
        lines = [f"{reference}. A layer costs ``{self.cost}``; source: ``{self.source}``."]
        if self.departures:
            lines += ["", "Departures and readings:", ""]
            lines += [f"- {sentence}" for sentence in self.departures]
        return "\n".join(lines)


POSITIONS = "Positional encodings are part of the node features, encoded once for all models alike."
"""What the cards of transformers say of them."""
SHAPES = r"""Shapes:
    - **input:** node features :math:`(N, C_{in})`, edges :math:`(2, E)`, edge weights :math:`(E)`
      *(optional)*, edge attributes :math:`(E, D)` *(optional)*, batch vector :math:`(N)`
      *(optional)*
    - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks"""


class ModelOptions(TypedDict, total=False):
    readout: str
    dropout: float


class GraphModel(Module):
    r"""The sizes of a model, the checks of what it is called with, and the order of its parts:

    .. math::
        \mathbf{Y} = \mathrm{Head}(\mathrm{Update}(\mathbf{X}, \mathbf{A}))

    A model says what its update is and sets a head. Its constructor names its own options, and
    passes the four sizes and the options that it shares on to the class it extends; its signature
    and its docstring show all of them. Edge attributes are read by models that were
    built with ``edge_dim``; the others have no place for them and leave them aside. Edge weights
    are an error where :attr:`takes_edge_weight` is :obj:`False`, and left aside as well where
    :attr:`ignores_edge_weight` is :obj:`True`.

    Raises:
        ValueError: If a size is below 1, the dropout is not in :math:`[0, 1)`, or the readout is
            unknown.
    """

    card: ClassVar[Card]
    takes_edge_weight: bool = True
    ignores_edge_weight: bool = False
    # what is printed beside the sizes
    shown: ClassVar[tuple[str, ...]] = ("readout",)
    head: Module
    __signature__: ClassVar[inspect.Signature]
    # what is known of each argument, also of those that only a subclass takes
    argument_texts: ClassVar[dict[str, str]] = {
        name: f"{name} {text}" for name, text in SHARED_ARGUMENTS.items()
    }

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__signature__ = join_signatures(cls)
        if "card" in vars(cls):
            cls.card = replace(cls.card, takes_edge_attr="edge_dim" in cls.__signature__.parameters)
        cls.__doc__ = describe_arguments(cls)

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        readout: str = "node",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.in_channels, self.hidden_channels = in_channels, hidden_channels
        self.out_channels, self.num_layers = out_channels, num_layers
        check_positive(**{name: getattr(self, name) for name in SIZES})
        choose("readout", readout, READOUTS)
        check_input_sizes(in_channels, dropout)
        self.readout, self.dropout = readout, dropout

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    @property
    def widths(self) -> list[int]:
        r"""The width of the features, of each hidden layer, and of the output."""
        hidden = [self.hidden_channels] * (self.num_layers - 1)
        return [self.in_channels, *hidden, self.out_channels]

    def build_head(self, width: int | None = None, num_layers: int = 1) -> GraphHead:
        r"""Returns a readout of states of that width, or of the hidden one."""
        width = width or self.hidden_channels
        return GraphHead(width, self.out_channels, self.readout, num_layers, dropout=self.dropout)

    def per_layer(self, build: Callable[[], Module]) -> ModuleList:
        r"""Returns a module of its own for each layer."""
        return ModuleList([build() for _ in range(self.num_layers)])

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        r"""Returns one row per node or graph.

        Args:
            x (Tensor): Node features.
            edge_index (Tensor): Edges, from source to target.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node, sorted. (default: :obj:`None`)
            batch_size (int, optional): The number of graphs. (default: :obj:`None`)
        """
        # N nodes, E edges, B graphs, F channels
        graph = read_graph_input(x.size(0), edge_index, edge_weight, edge_attr, batch, batch_size)
        if graph.edge_weight is not None and not self.takes_edge_weight:
            raise ValueError(
                f"Expected no 'edge_weight' (got one, but {type(self).__name__} has no place for "
                f"edge weights); leave them out"
            )
        out: Tensor = self.head(self.update(x, graph), graph.batch, graph.batch_size)
        return out

    def update(self, x: Tensor, graph: GraphInput) -> Tensor:
        r"""Returns what the head reads of each node; every model defines its own."""
        raise NotImplementedError

    def __repr__(self) -> str:
        options = "".join(f", {name}={getattr(self, name)!r}" for name in self.shown)
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, "
            f"{self.out_channels}, num_layers={self.num_layers}{options})"
        )


class GraphHead(Module):
    r"""A readout MLP over the nodes, or over the pooled nodes of each graph.

    .. math::
        \mathbf{y}_i = \mathrm{MLP}(\mathbf{x}_i) \qquad \text{or} \qquad
        \mathbf{y}_b = \mathrm{MLP} \big( \mathrm{pool}_{i \in b} \, \mathbf{x}_i \big),

    the same readout as that of :class:`~torch_grama.nn.GRAMA`, so that a comparison is one of what
    comes before it.

    Args:
        channels (int): Width of the node states.
        out_channels (int): Width of the output.
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        num_layers (int, optional): Number of linear layers. (default: :obj:`2`)
        act (str or callable, optional): Activation between them. (default: :obj:`"relu"`)
        dropout (float, optional): Dropout after each activation. (default: :obj:`0.0`)
        pooling (str, optional): What a graph readout takes of the nodes; see
            :func:`~torch_grama.nn.readout.pool_graphs`. (default: :obj:`"mean"`)

    Shapes:
        - **input:** node states :math:`(N, F)`, batch vector :math:`(N)` *(optional)*
        - **output:** :math:`(N, C_{out})` for node tasks, :math:`(B, C_{out})` for graph tasks
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        readout: str = "node",
        num_layers: int = 2,
        act: str | Activation | None = "relu",
        dropout: float = 0.0,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        choose("readout", readout, READOUTS)
        self.channels, self.out_channels = channels, out_channels
        self.readout, self.pooling = readout, pooling
        width = pooled_channels(channels, pooling) if readout == "graph" else channels
        self.mlp = ReadoutMLP(width, out_channels, num_layers, resolve_activation(act), dropout)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        self.mlp.reset_parameters()

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        r"""Returns one row per node or graph."""
        if self.readout == "graph":
            # [N, F] -> [B, F], or [B, 3 F]
            x = pool_graphs(x, batch, batch_size, self.pooling)
        out: Tensor = self.mlp(x)
        return out

    def set_pooling(self, pooling: str) -> None:
        r"""Chooses what a graph readout takes of the nodes; where the width changes, the MLP begins
        anew.
        """
        width = pooled_channels(self.channels, pooling)
        if width != pooled_channels(self.channels, self.pooling):
            old = self.mlp
            sizes = width, self.out_channels, len(old.layers)
            self.mlp = ReadoutMLP(*sizes, old.act, old.dropout.p)
        self.pooling = pooling

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mlp}, readout={self.readout!r})"


class NodeOutput(Module):
    r"""The states as they are, or pooled over the nodes of each graph."""

    def __init__(self, readout: str) -> None:
        super().__init__()
        self.readout, self.pooling = readout, "mean"

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        if self.readout == "node":
            return x
        return pool_graphs(x, batch, batch_size, self.pooling)

    def set_pooling(self, pooling: str) -> None:
        r"""Chooses what a graph readout takes of the nodes."""
        if pooled_channels(1, pooling) != 1:
            raise ValueError(
                f"Expected 'pooling' to be 'mean', 'sum' or 'max', since the outputs of the nodes "
                f"are pooled as they are (got {pooling!r})"
            )
        self.pooling = pooling


def choose_pooling(model: Module, pooling: str) -> None:
    r"""Sets the pooling of a model that has just been built for graph tasks.

    Every model here reads out through :class:`GraphHead` or :class:`NodeOutput`, so that none has
    to take the option itself.

    Example:
        >>> from torch_grama.baselines import GCN
        >>> model = GCN(5, 8, 3, 2, readout="graph")
        >>> choose_pooling(model, "sum-max-mean")
        >>> model.head
        GraphHead(ReadoutMLP(24, 3), readout='graph')
    """
    heads = [head for head in model.modules() if isinstance(head, GraphHead | NodeOutput)]
    if not heads:
        raise ValueError(
            f"Expected a model with a readout of graphs to choose 'pooling' for (got "
            f"{type(model).__name__}); leave it out"
        )
    for head in heads:
        if head.readout != "graph" and pooling in POOLINGS and pooling != "mean":
            raise ValueError(
                f"Expected 'pooling' only with readout='graph' (got pooling={pooling!r}, "
                f"readout={head.readout!r})"
            )
        head.set_pooling(pooling)


def join_signatures(model: type[GraphModel]) -> inspect.Signature:
    r"""Returns the signature of a constructor with what it passes on: the sizes, the options of the
    class above that its ``**options: Unpack[...]`` names, then its own.
    """
    own = inspect.signature(model.__init__, eval_str=True).parameters
    rest = [argument for argument in own.values() if argument.kind is argument.VAR_KEYWORD]
    if not rest:
        return inspect.Signature([own[name] for name in own if name != "self"])
    (shared,) = get_args(rest[0].annotation)
    above = inspect.signature(model.__mro__[1], eval_str=True).parameters
    return inspect.Signature(
        [above[name] for name in (*SIZES, *shared.__annotations__)]
        + [argument for argument in own.values() if argument.kind is argument.KEYWORD_ONLY]
    )


def describe_arguments(model: type[GraphModel]) -> str:
    r"""Returns the docstring of a model with its card, all its arguments, and the shapes.

    What the class itself does not say of an argument is what a class it extends says of it, or
    else :obj:`SHARED_ARGUMENTS`.
    """
    before, own, after = _split_docstring(model)
    inherited = model.argument_texts
    model.argument_texts = inherited | own
    lines = []
    for name, argument in inspect.signature(model).parameters.items():
        text = own.get(name) or re.sub(r"\s*\(default: .*", "", inherited.get(name, ""), flags=re.S)
        if text and argument.default is not argument.empty and "(default: " not in text:
            default = repr(argument.default).replace("'", '"')
            text += f" (default: :obj:`{default}`)"
        if text:
            lines.append(f"    {text}")
    card = model.__dict__.get("card")
    told = "" if card is None else card.describe()
    width = "N, L, C_{in}" if card is not None and card.takes_sequence else "N, C_{in}"
    shapes = SHAPES.replace("N, C_{in}", width)
    parts = [before, told, "Args:\n" + "\n".join(lines), after, shapes]
    return "\n\n".join(part for part in parts if part) + "\n"


def _split_docstring(model: type[object]) -> tuple[str, dict[str, str], str]:
    """What comes before the arguments, the text of each argument, and what comes after."""
    before, _, rest = inspect.cleandoc(model.__doc__ or "").partition("Args:\n")
    arguments, _, after = rest.partition("\n\n")
    texts = [text.strip() for text in re.split(r"\n(?=    \S)", arguments)]
    return before.strip(), {text.split(" ")[0]: text for text in texts if text}, after.strip()


def check_heads(channels: int, heads: int) -> None:
    r"""Raises a :class:`ValueError` unless the heads share the channels evenly."""
    if heads < 1 or channels % heads != 0:
        raise ValueError(
            f"Expected 'heads' to divide hidden_channels (got heads={heads}, "
            f"hidden_channels={channels})"
        )


class ScoreModel(GraphModel):
    r"""A model whose last layer makes the output; that of a graph is the mean over its nodes.

    Args:
        readout (str, optional): ``"node"``, or ``"graph"`` for the mean over the nodes' outputs.
    """

    def __init__(self, *sizes: int, **shared: Unpack[ModelOptions]) -> None:
        super().__init__(*sizes, **shared)
        self.head = NodeOutput(self.readout)
