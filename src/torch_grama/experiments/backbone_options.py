"""Backbones of GRAMA by name and plain options, such as ``gps`` with ``{pre_norm: true}``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from torch.nn import Module
from torch_geometric.nn import GCNConv

from torch_grama.experiments.options import describe_type, options_of, read_value
from torch_grama.nn import (
    GatedGCNConv,
    GPSLayer,
    NeighborSumConv,
    RootedGCNConv,
    build_gin_conv,
)
from torch_grama.nn.arguments import choose, list_nearest_first
from torch_grama.nn.neighbor_convs import NormedConv

Norm = Literal["batch_norm"] | None
Aggregation = Literal["sum", "multi"]


def build_variant(
    backbone: str,
    options: Mapping[str, object],
    num_recurrences: int,
    has_edge_attr: bool,
    dropout: float,
) -> Callable[[int], Module]:
    r"""Returns what makes a backbone with options: a callable from the width to a module.

    Args:
        backbone (str): Its name.
        options (mapping): Options of its class.
        num_recurrences (int): How many recurrences share the backbone.
        has_edge_attr (bool): Whether edge attributes of the hidden width come along.
        dropout (float): Dropout where it has a place for it and :obj:`options` do not say.

    Raises:
        ValueError: The backbone has no such option (its options are listed, the nearest first), or
            a value cannot be.
    """
    build = choose("backbone", backbone, VARIANTS)
    known = variant_options(backbone)
    for name, value in options.items():
        if name not in known:
            raise ValueError(
                f"The backbone '{backbone}' has no option '{name}'; its options are "
                f"{list_nearest_first(name, known)}"
            )
        try:
            is_typed = read_value(known[name], value) == value
        except ValueError:
            is_typed = False
        if not is_typed:
            raise ValueError(
                f"Expected 'backbone_options.{name}' to be {describe_type(known[name], value)} "
                f"(got {value!r})"
            )
    given = {"dropout": dropout, **options} if "dropout" in known else dict(options)
    return lambda channels: build(channels, num_recurrences, has_edge_attr, **given)


def variant_options(backbone: str) -> dict[str, object]:
    r"""Returns the options of a backbone, and the type of each.

    Args:
        backbone (str): Its name.
    """
    options = options_of(VARIANTS[backbone], ["channels", "num_recurrences", "has_edge_attr"])
    return {name: option.annotation for name, option in options.items()}


def reads_edge_attr(backbone: str) -> bool:
    r"""Whether a backbone has a place for edge attributes.

    Args:
        backbone (str): Its name.
    """
    return backbone != "gcn"


def reads_edge_weights(backbone: str, options: Mapping[str, object], has_edge_attr: bool) -> bool:
    r"""Whether a backbone has a place for edge weights: those around a graph convolution have,
    which GPS gives up for edge attributes.

    Args:
        backbone (str): Its name.
        options (mapping): Its options.
        has_edge_attr (bool): Whether edges have attributes.
    """
    if backbone == "gps":
        return _local_of_gps(options.get("local"), has_edge_attr) == "gcn"
    return backbone not in ("gatedgcn", "gin", "neighbor-sum")


def _gcn(channels: int, num_recurrences: int, has_edge_attr: bool, root: bool = False) -> Module:
    del num_recurrences
    if has_edge_attr:
        raise ValueError("Expected no edge attributes with the backbone 'gcn' (got some)")
    return RootedGCNConv(channels) if root else GCNConv(channels, channels)  # type: ignore[abstract]


def _gated_gcn(
    channels: int,
    num_recurrences: int,
    has_edge_attr: bool,
    norm: Norm = "batch_norm",
    normalize_gates: bool = True,
    edge_state: Literal["block", "model", "none"] = "block",
) -> Module:
    return GatedGCNConv(channels, has_edge_attr, num_recurrences, norm, normalize_gates, edge_state)


def _gin(
    channels: int,
    num_recurrences: int,
    has_edge_attr: bool,
    aggregation: Aggregation = "sum",
    norm: Norm = "batch_norm",
) -> Module:
    conv = build_gin_conv(channels, has_edge_attr, aggregation)
    return conv if norm is None else NormedConv(conv, channels, num_recurrences)


def _gps(
    channels: int,
    num_recurrences: int,
    has_edge_attr: bool,
    local: Literal["gcn", "gin"] | None = None,
    aggregation: Aggregation = "sum",
    attention: Literal["multihead", "performer"] = "multihead",
    heads: int | None = None,
    pre_norm: bool = False,
    dropout: float = 0.0,
) -> Module:
    del num_recurrences
    if _local_of_gps(local, has_edge_attr) == "gin":
        conv = build_gin_conv(channels, has_edge_attr, aggregation)
    elif has_edge_attr or aggregation != "sum":
        raise ValueError(
            "Expected the option 'local: gin' of the backbone 'gps' with edge attributes or an "
            "aggregation (got 'local: gcn')"
        )
    else:
        conv = GCNConv(channels, channels)  # type: ignore[abstract]
    return GPSLayer(channels, conv, heads, dropout, attention, pre_norm)


def _local_of_gps(local: object, has_edge_attr: bool) -> object:
    if local is None:
        return "gin" if has_edge_attr else "gcn"
    return local


def _neighbor_sum(
    channels: int, num_recurrences: int, has_edge_attr: bool, norm: Norm = "batch_norm"
) -> Module:
    return NeighborSumConv(channels, has_edge_attr, num_recurrences, norm)


VARIANTS: dict[str, Callable[..., Module]] = {
    "gcn": _gcn,
    "gatedgcn": _gated_gcn,
    "gin": _gin,
    "gps": _gps,
    "neighbor-sum": _neighbor_sum,
}
"""Name of a backbone to the function whose further arguments are its options."""
