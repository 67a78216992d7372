"""GRAMA by word, from plain values: its own options, and those of its backbones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch.nn import Linear, Module
from torch_geometric.nn import GCN2Conv, GCNConv

from torch_grama.experiments.config import describe_type, options_of, read_value
from torch_grama.nn import (
    GRAMA,
    Coefficients,
    FeedForwardConv,
    GatedGCNConv,
    GCN2Stack,
    GPSLayer,
    NeighborSumConv,
    Readout,
    RootedGCNConv,
    Running,
    build_gin_conv,
)
from torch_grama.nn.arguments import check_positive, choose
from torch_grama.nn.neighbor_convs import NormedConv
from torch_grama.runs.words import name_nearest

Norm = Literal["batch_norm"] | None
Aggregation = Literal["sum", "multi"]

# The library's own defaults, so that a model by word is the model of the same arguments.
_MODEL: Mapping[str, Any] = {
    name: parameter.default for name, parameter in inspect.signature(GRAMA).parameters.items()
}
_COEFFICIENTS: Any = Coefficients()
_READOUT: Any = Readout()
_RUNNING: Any = Running()

Backbone = Literal["gcn", "gatedgcn", "gin", "gps", "neighbor-sum"]
Pooling = Literal["mean", "sum", "max", "sum-max-mean"]


def build_grama(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    num_layers: int | None = None,
    *,
    backbone: Backbone = _MODEL["backbone"],
    backbone_options: dict[str, str | bool | int | float | None] | None = None,
    seq_len: int | None = None,
    num_blocks: int | None = None,
    num_recurrences: int | None = None,
    coefficients: Literal["selective", "naive", "fixed"] = _COEFFICIENTS.kind,
    coefficient_channels: int = _COEFFICIENTS.channels,
    ar_order: int | None = _COEFFICIENTS.ar_order,
    ma_order: int | None = _COEFFICIENTS.ma_order,
    constraint: Literal["sum", "l1", "softmax", "none"] = _COEFFICIENTS.constraint,
    poles: float | None = _COEFFICIENTS.poles,
    coefficient_update: Literal["block", "step"] = _COEFFICIENTS.update,
    act: str = _MODEL["act"],
    norm: Literal["batch_norm", "layer_norm"] | None = _MODEL["norm"],
    dropout: float = _MODEL["dropout"],
    gain: float | Literal["auto", "wave"] | None = _MODEL["gain"],
    readout: Literal["node", "graph"] = _READOUT.level,
    pooling: Pooling = _READOUT.pooling,
    readout_layers: int = _READOUT.num_layers,
    edge_dim: int | None = _MODEL["edge_dim"],
    share_weights: bool = _MODEL["share_weights"],
    engine: Literal["auto", "reference", "scan", "linear"] = _RUNNING.engine,
    recompute: bool = _RUNNING.recompute,
) -> Module:
    r"""Builds :class:`~torch_grama.nn.GRAMA` from plain values.

    Args:
        in_channels: Width of the node features.
        hidden_channels: Width of the states.
        out_channels: Width of the output.
        num_layers: Depth: number of blocks times recurrences, the hops that information travels.
        backbone: The graph network inside the recurrence.
        backbone_options: Options of the backbone, such as {pre_norm: true} of gps.
        seq_len: Length of the sequence. Data with a sequence of another length: its elements are
            laid side by side, and a sequence of this length is made of them.
        num_blocks: Number of blocks.
        num_recurrences: Recurrences of a block (as many as the sequence is long).
        coefficients: Selective: by attention, for each graph; naive: free parameters; fixed: as
            naive ones start.
        coefficient_channels: Width of queries and keys of selective coefficients.
        ar_order: Order of the autoregressive part (the length of the sequence).
        ma_order: Order of the moving average (the length of the sequence).
        constraint: How coefficients are normalised; l1 always satisfies the stability theorem.
        poles: Radius of the poles at the start.
        coefficient_update: Whether coefficients are computed once per block or at every step.
        act: Activation, such as gelu, relu or elu.
        norm: Norm between blocks.
        dropout: Dropout after the embedding, between blocks, in the readout, and in attention.
        gain: Start of the learned gain of each block; auto: one over its recurrences, and less of
            the past; wave: blocks start as a wave equation, for the backbone gcn with
            {root: true, loops: false} and the constraint none; null: none.
        readout: One output per node, or one per graph.
        pooling: What the readout of a graph takes of its nodes.
        readout_layers: Linear layers of the readout.
        edge_dim: Width of the edge attributes; without meaning for the backbone gcn.
        share_weights: Whether the recurrences of a block share one backbone.
        engine: How the recurrence is computed; same numbers, different speed.
        recompute: Recompute blocks in the backward pass, which saves memory.
    """
    if (advice := explain_old("backbone", backbone)) is not None:
        raise ValueError(advice)
    length, blocks, recurrences = divide_depth(num_layers, seq_len, num_blocks, num_recurrences)
    if not reads_edge_attr(backbone):
        edge_dim = None
    given: str | Callable[[int], Module] = backbone
    if backbone_options:
        sharing = recurrences if share_weights else 1
        given = build_variant(backbone, backbone_options, sharing, edge_dim is not None, dropout)
    model = GRAMA(
        in_channels,
        hidden_channels,
        out_channels,
        seq_len=length,
        num_blocks=blocks,
        backbone=given,
        num_recurrences=recurrences,
        coefficients=Coefficients(
            kind=coefficients,
            ar_order=ar_order,
            ma_order=ma_order,
            channels=coefficient_channels,
            constraint=constraint,
            poles=poles,
            update=coefficient_update,
        ),
        act=act,
        norm=norm,
        dropout=dropout,
        readout=Readout(readout, pooling, readout_layers),
        edge_dim=edge_dim,
        gain=gain,
        share_weights=share_weights,
        running=Running(engine=engine, recompute=recompute),
    )
    if edge_dim is not None and model.edge_lin is None:
        # edges of the hidden width, encoded once for all blocks, as the named backbones have them
        model.edge_lin = Linear(edge_dim, hidden_channels)
    return model


_OLD_OPTIONS = {
    "normalization": "write 'constraint'",
    "initial_poles": "write 'poles'",
    "checkpoint_blocks": "write 'recompute'",
    "carry_edge_state": "write 'backbone_options: {edge_state: none}' in place of false",
    "heads": "leave it out: heads only rescaled the scores",
    "initial_residuals": "leave it out: residuals start as differences",
    "embedding_layers": "leave it out: one linear layer embeds each element",
}
_OLD_BACKBONES = {
    "gcn-root": "backbone: gcn, backbone_options: {root: true}",
    "gatedgcn-plain": "backbone: gatedgcn, backbone_options: {norm: null}",
    "gatedgcn-sum": "backbone: gatedgcn, backbone_options: {norm: null, normalize_gates: false}",
    "gin-multi": "backbone: gin, backbone_options: {aggregation: multi, norm: null}",
    "gps-sum": "backbone: gps, backbone_options: {local: gin}",
    "gps-multi": "backbone: gps, backbone_options: {local: gin, aggregation: multi}",
    "gps-performer": "backbone: gps, backbone_options: {attention: performer}",
    "gps-pre": "backbone: gps, backbone_options: {pre_norm: true}",
    "gps-sum-pre": "backbone: gps, backbone_options: {local: gin, pre_norm: true}",
    "gps-multi-pre": "backbone: gps, backbone_options: {local: gin, aggregation: multi, "
    "pre_norm: true}",
}


def explain_old(option: str, value: object = None) -> str | None:
    r"""Says what to write in place of an option or backbone of version 0.1, if it is one."""
    if option in _OLD_OPTIONS:
        return f"Expected no option '{option}', which was of version 0.1; {_OLD_OPTIONS[option]}"
    if option == "backbone" and value in _OLD_BACKBONES:
        return (
            f"Expected 'backbone' to be a name of this version (got {value!r} of version 0.1); "
            f"write '{_OLD_BACKBONES[str(value)]}'"
        )
    return None


def divide_depth(
    num_layers: int | None,
    seq_len: int | None = None,
    num_blocks: int | None = None,
    num_recurrences: int | None = None,
) -> tuple[int, int, int]:
    r"""Divides a depth into the length of the sequence, blocks, and recurrences of a block; raises
    where the numbers contradict each other.

    A depth alone becomes two blocks, or one if it is odd; the sequence is as long as a block has
    recurrences unless its length is given.
    """
    given = {
        "num_layers": num_layers,
        "seq_len": seq_len,
        "num_blocks": num_blocks,
        "num_recurrences": num_recurrences,
    }
    check_positive(**given)
    recurrences = num_recurrences
    if num_layers is None:
        recurrences = recurrences or seq_len or int(_MODEL["seq_len"])
        blocks = num_blocks or int(_MODEL["num_blocks"])
    elif num_blocks is not None:
        blocks = num_blocks
        recurrences = recurrences or num_layers // blocks
    elif recurrences is not None or (seq_len is not None and num_layers % seq_len == 0):
        recurrences = recurrences or seq_len or 1
        blocks = num_layers // recurrences
    else:
        blocks = 2 if num_layers % 2 == 0 else 1
        recurrences = num_layers // blocks
    if num_layers is not None and (blocks < 1 or blocks * recurrences != num_layers):
        stated = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        raise ValueError(
            f"Expected 'num_layers' to be num_blocks times num_recurrences (got {stated}); leave "
            f"one of them out, or correct one"
        )
    return seq_len or recurrences, blocks, recurrences


def build_variant(
    backbone: str,
    options: Mapping[str, object],
    num_recurrences: int,
    has_edge_attr: bool,
    dropout: float,
) -> Callable[[int], Module]:
    r"""Returns what makes a backbone with options, a callable from the width to a module; raises
    where an option is unknown or cannot be. The dropout is taken where the options do not say.
    """
    build = choose("backbone", backbone, VARIANTS)
    known = variant_options(backbone)
    for name, value in options.items():
        if name not in known:
            raise ValueError(
                f"The backbone '{backbone}' has no option '{name}'; its options are "
                f"{name_nearest(name, known)}"
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
    feed_forward = given.pop("feed_forward", False)

    def build_layer(channels: int) -> Module:
        conv = build(channels, num_recurrences, has_edge_attr, **given)
        if not feed_forward:
            return conv
        return FeedForwardConv(conv, channels, num_recurrences, dropout)

    return build_layer


def variant_options(backbone: str) -> dict[str, object]:
    options = options_of(VARIANTS[backbone], ["channels", "num_recurrences", "has_edge_attr"])
    # attention has a feed-forward part as it is
    shared = {} if backbone == "gps" else {"feed_forward": bool}
    return {name: option.annotation for name, option in options.items()} | shared


def reads_edge_attr(backbone: str) -> bool:
    return backbone != "gcn"


def reads_edge_weights(backbone: str, options: Mapping[str, object], has_edge_attr: bool) -> bool:
    r"""Whether a backbone has a place for edge weights, which GPS gives up for attributes."""
    if backbone == "gps":
        return _local_of_gps(options.get("local"), has_edge_attr) == "gcn"
    return backbone not in ("gatedgcn", "gin", "neighbor-sum")


def _gcn(
    channels: int,
    num_recurrences: int,
    has_edge_attr: bool,
    root: bool = False,
    loops: bool = True,
    initial: float = 0.0,
    identity: float = 0.0,
    layers: int = 1,
    dropout: float = 0.0,
) -> Module:
    r"""With shares :obj:`initial` :math:`\alpha` of the first state and :obj:`identity`
    :math:`\iota` of the identity map, as in GCNII: :math:`((1 - \alpha) \hat{\mathbf{A}} \mathbf{X}
    + \alpha \mathbf{X}_0) (\iota \mathbf{I} + (1 - \iota) \mathbf{W})`; several :obj:`layers` of it
    are one recurrence, with dropout between them, and further ones have more of the identity map.
    """
    del num_recurrences
    if has_edge_attr:
        raise ValueError("Expected no edge attributes with the backbone 'gcn' (got some)")
    for name, share in (("initial", initial), ("identity", identity)):
        if not 0 <= share < 1 or (share and root):
            raise ValueError(
                f"Expected 'backbone_options.{name}' of the backbone 'gcn' to be at least 0 and "
                f"below 1, and 0 with 'root' (got {share})"
            )
    if layers < 1 or (layers > 1 and not (initial or identity)):
        raise ValueError(
            f"Expected 'backbone_options.layers' of the backbone 'gcn' to be at least 1, and 1 "
            f"without 'initial' and 'identity' (got {layers})"
        )
    if initial or identity:
        # the damping of layer 1 that leaves this share of the weight
        theta = math.expm1(1 - identity)
        if layers > 1:
            return GCN2Stack(channels, layers, initial, theta if identity else None, dropout, loops)
        return GCN2Conv(channels, initial, theta, 1, add_self_loops=loops)  # type: ignore[abstract]
    if root:
        return RootedGCNConv(channels, loops=loops)  # type: ignore[abstract]
    return GCNConv(channels, channels, add_self_loops=loops)  # type: ignore[abstract]


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
    norm: Literal["layer_norm", "batch_norm"] = "layer_norm",
    dropout: float = 0.0,
) -> Module:
    if _local_of_gps(local, has_edge_attr) == "gin":
        conv = build_gin_conv(channels, has_edge_attr, aggregation)
    elif has_edge_attr or aggregation != "sum":
        raise ValueError(
            "Expected the option 'local: gin' of the backbone 'gps' with edge attributes or an "
            "aggregation (got 'local: gcn')"
        )
    else:
        conv = GCNConv(channels, channels)  # type: ignore[abstract]
    return GPSLayer(channels, conv, heads, dropout, attention, pre_norm, norm, num_recurrences)


def _local_of_gps(local: object, has_edge_attr: bool) -> object:
    if local is None:
        return "gin" if has_edge_attr else "gcn"
    return local


def _neighbor_sum(
    channels: int, num_recurrences: int, has_edge_attr: bool, norm: Norm = "batch_norm"
) -> Module:
    return NeighborSumConv(channels, num_recurrences, norm)


VARIANTS: dict[str, Callable[..., Module]] = {
    "gcn": _gcn,
    "gatedgcn": _gated_gcn,
    "gin": _gin,
    "gps": _gps,
    "neighbor-sum": _neighbor_sum,
}
"""Name of a backbone to the function whose further arguments are its options."""
