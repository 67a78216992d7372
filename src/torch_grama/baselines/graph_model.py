"""What every model of this folder is: built from four sizes, checked at one door, called alike."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypedDict, get_args

from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.inits import reset

from torch_grama.baselines.graph_head import READOUTS, GraphHead
from torch_grama.nn.arguments import check_input_sizes, check_positive, choose
from torch_grama.nn.graph_input import GraphInput, read_graph_input

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
    "residual": '(str, optional): ``"identity"``, ``"linear"`` or :obj:`None`; see '
    ":class:`~torch_grama.baselines.conv_layer.ConvLayer`.",
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
    takes_edge_attr: bool = False  #: whether it uses edge attributes (it then takes ``edge_dim``)
    takes_sequence: bool = False  #: whether it reads a sequence of features ``[N, L, C]``
    #: what differs from its paper, and which reading was taken where the paper leaves something
    #: open; one sentence each. Empty: none known.
    departures: tuple[str, ...] = ()

    def describe(self) -> str:
        r"""Returns the part that a docstring shows."""
        lines = [f"{self.reference}. A layer costs ``{self.cost}``."]
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
    r"""Options of every model."""

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__signature__ = join_signatures(cls)
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


def describe_arguments(model: type[Module]) -> str:
    r"""Returns the docstring of a model with its card, all its arguments, and the shapes.

    What the class itself does not say of an argument is what the class it extends says of it, or
    else :obj:`SHARED_ARGUMENTS`.
    """
    before, own, after = _split_docstring(model)
    inherited = {name: f"{name} {text}" for name, text in SHARED_ARGUMENTS.items()}
    for parent in reversed(model.__mro__[1:]):
        if issubclass(parent, GraphModel):
            inherited |= _split_docstring(parent)[1]
    lines = []
    for name, argument in inspect.signature(model).parameters.items():
        text = own.get(name) or re.sub(r"\s*\(default: .*", "", inherited.get(name, ""), flags=re.S)
        if text and argument.default is not argument.empty and "(default: " not in text:
            default = repr(argument.default).replace("'", '"')
            text += f" (default: :obj:`{default}`)"
        if text:
            lines.append(f"    {text}")
    shapes = "" if "Shapes:" in after else SHAPES
    card = model.__dict__.get("card")
    told = "" if card is None else card.describe()
    parts = [before, told, "Args:\n" + "\n".join(lines), after, shapes]
    return "\n\n".join(part for part in parts if part) + "\n"


def _split_docstring(model: type[object]) -> tuple[str, dict[str, str], str]:
    """What comes before the arguments, the text of each argument, and what comes after."""
    before, _, rest = inspect.cleandoc(model.__doc__ or "").partition("Args:\n")
    arguments, _, after = rest.partition("\n\n")
    texts = [text.strip() for text in re.split(r"\n(?=    \S)", arguments)]
    return before.strip(), {text.split(" ")[0]: text for text in texts if text}, after.strip()


def check_num_nodes(num_nodes: int, x: Tensor) -> None:
    r"""Checks that a transductive model sees the graph it was built for."""
    if x.size(0) != num_nodes:
        raise ValueError(
            f"Expected the graph of num_nodes={num_nodes} nodes that the model was built for "
            f"(got {x.size(0)} nodes); it learns a vector for each node and serves one graph alone"
        )


def check_heads(channels: int, heads: int) -> None:
    r"""Raises a :class:`ValueError` unless the heads share the channels evenly."""
    if heads < 1 or channels % heads != 0:
        raise ValueError(
            f"Expected 'heads' to divide hidden_channels (got heads={heads}, "
            f"hidden_channels={channels})"
        )
