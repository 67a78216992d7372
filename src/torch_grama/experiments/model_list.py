"""All models side by side: what ``grama models`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch_grama.experiments.assembly import count_parameters
from torch_grama.experiments.catalogue import MODELS, build_model
from torch_grama.experiments.constructor_options import constructor_options


@dataclass(frozen=True)
class ModelFacts:
    r"""One line of the list.

    Attributes:
        name: The word.
        family: The heading.
        equation: Its update in one line.
        reference: Authors, title, year.
        parameters: Learnable parameters at the width and depth asked for; :obj:`None` if the
            model does not exist at these.
        equivariant: Whether renumbering nodes changes nothing else.
        cost: What a layer costs.
        source: Whose implementation it is.
        takes_edge_attr: Whether it uses edge attributes.
        departures: What differs from its paper, one sentence each.
    """

    name: str
    family: str
    equation: str
    reference: str
    parameters: int | None
    equivariant: bool
    cost: str
    source: str
    takes_edge_attr: bool
    departures: tuple[str, ...]


def list_models(
    hidden_channels: int = 64,
    num_layers: int = 8,
    in_channels: int = 64,
    out_channels: int = 10,
    readout: Literal["node", "graph"] = "node",
) -> list[ModelFacts]:
    r"""Lists every model that can be built by word, with its size at one width and depth.

    Args:
        hidden_channels (int, optional): Width. (default: :obj:`64`)
        num_layers (int, optional): Depth. (default: :obj:`8`)
        in_channels (int, optional): Width of the node features. (default: :obj:`64`)
        out_channels (int, optional): Width of the output. (default: :obj:`10`)
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
    """
    return [
        ModelFacts(
            name=name,
            family=entry.family,
            equation=entry.equation,
            reference=entry.reference,
            parameters=_count(
                name, in_channels, hidden_channels, out_channels, num_layers, readout
            ),
            equivariant=entry.equivariant,
            cost=entry.cost,
            source=entry.source,
            takes_edge_attr=entry.takes_edge_attr,
            departures=entry.departures,
        )
        for name, entry in MODELS.items()
    ]


# Of the one graph that a model with weights for each node is made for.
_NODES = 1000


def _count(
    name: str,
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    num_layers: int,
    readout: Literal["node", "graph"],
) -> int | None:
    options = constructor_options(MODELS[name].build)
    extra = {"num_nodes": _NODES} if "num_nodes" in options else {}
    try:
        model = build_model(
            name, in_channels, hidden_channels, out_channels, num_layers, readout, **extra
        )
    except ValueError:  # such as a depth that its construction does not have
        return None
    return count_parameters(model)
