"""GRAMA by word, with each of its backbones."""

from __future__ import annotations

from typing import Literal

from torch.nn import Module

from torch_grama.experiments.model_entry import ModelEntry
from torch_grama.experiments.shared_options import Pooling
from torch_grama.nn import GRAMA

FAMILY = "GRAMA"
_REFERENCE = "Eliasof et al., Graph Adaptive Autoregressive Moving Average Models, ICML 2025"
_EQUATION = "f_t = sum_i phi_i f_(t-i) + sum_j theta_j d_(t-j) + d_t,  d_t = g {}"
_DEPARTURES = (
    "A learned gain g on the backbone, from one over the depth on; gain=null is the paper's form.",
    "The division of the coefficients by their sum is guarded.",
)

Backbone = Literal[
    "gcn",
    "gcn-root",
    "gatedgcn",
    "gatedgcn-plain",
    "gatedgcn-sum",
    "gin-multi",
    "gps",
    "gps-sum",
    "gps-multi",
    "gps-performer",
    "gps-pre",
    "gps-sum-pre",
    "gps-multi-pre",
]


def build_grama(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    num_layers: int | None = None,
    *,
    readout: Literal["node", "graph"] = "node",
    pooling: Pooling = "mean",
    backbone: Backbone = "gatedgcn",
    seq_len: int | None = None,
    num_blocks: int | None = None,
    num_recurrences: int | None = None,
    ar_order: int | None = None,
    ma_order: int | None = None,
    coefficients: Literal["selective", "naive"] = "selective",
    normalization: Literal["sum", "l1", "softmax", "none"] = "sum",
    coefficient_update: Literal["block", "step"] = "block",
    heads: int = 1,
    act: str = "gelu",
    norm: Literal["batch_norm", "layer_norm"] | None = None,
    dropout: float = 0.0,
    gain: float | Literal["auto"] | None = "auto",
    initial_poles: float | None = None,
    initial_residuals: Literal["difference", "zero"] = "difference",
    carry_edge_state: bool = True,
    embedding_layers: int = 1,
    readout_layers: int = 2,
    edge_dim: int | None = None,
    engine: Literal["auto", "reference", "scan", "linear"] = "auto",
    checkpoint_blocks: bool = False,
) -> Module:
    r"""Builds :class:`~torch_grama.nn.GRAMA` from plain values.

    Args:
        in_channels: Width of the node features.
        hidden_channels: Width of the states.
        out_channels: Width of the output.
        num_layers: Depth: number of blocks times recurrences, the hops that information travels.
        readout: One output a node, or one a graph.
        pooling: What the readout of a graph takes of its nodes.
        backbone: The graph network inside the recurrence.
        seq_len: Length of the sequence.
        num_blocks: Number of blocks.
        num_recurrences: Recurrences of a block (as many as the sequence is long).
        ar_order: Order of the autoregressive part (the length of the sequence).
        ma_order: Order of the moving average (the length of the sequence).
        coefficients: Selective: by attention, for each graph; naive: free parameters.
        normalization: How coefficients are scaled; l1 always satisfies the stability theorem.
        coefficient_update: Whether coefficients are computed once a block or at every step.
        heads: Heads of the selective coefficients.
        act: Activation, such as gelu, relu or elu.
        norm: Norm between blocks.
        dropout: Dropout after the embedding, between blocks and in the readout.
        gain: Start of the learned gain of each block; auto: one over the depth; null: none.
        initial_poles: Radius of the poles at the start.
        initial_residuals: Residuals of the first sequence.
        carry_edge_state: Whether a gated backbone hands its edge states on.
        embedding_layers: Linear layers of the embedding of each element.
        readout_layers: Linear layers of the readout.
        edge_dim: Width of the edge attributes; without meaning for the backbones gcn and gcn-root.
        engine: How the recurrence is computed; same numbers, different speed.
        checkpoint_blocks: Recompute blocks in the backward pass, which saves memory.
    """
    length, blocks, recurrences = divide_depth(num_layers, seq_len, num_blocks, num_recurrences)
    return GRAMA(
        in_channels,
        hidden_channels,
        out_channels,
        seq_len=length,
        num_blocks=blocks,
        backbone=backbone,
        num_recurrences=recurrences,
        ar_order=ar_order,
        ma_order=ma_order,
        coefficients=coefficients,
        normalization=normalization,
        coefficient_update=coefficient_update,
        heads=heads,
        act=act,
        norm=norm,
        dropout=dropout,
        readout=readout,
        pooling=pooling,
        edge_dim=edge_dim if reads_edge_attr(backbone) else None,
        gain=gain,
        initial_poles=initial_poles,
        embedding_layers=embedding_layers,
        readout_layers=readout_layers,
        initial_residuals=initial_residuals,
        carry_edge_state=carry_edge_state,
        engine=engine,
        checkpoint_blocks=checkpoint_blocks,
    )


def reads_edge_attr(backbone: str) -> bool:
    r"""Whether a backbone has a place for edge attributes.

    Args:
        backbone (str): Its word.
    """
    return backbone not in ("gcn", "gcn-root")


def reads_edge_weights(backbone: str, has_edge_attr: bool) -> bool:
    r"""Whether a backbone has a place for edge weights.

    Those of the family of GatedGCN and sums over neighbours read edge attributes alone, and so does
    the local part of GPS where there are any.

    Args:
        backbone (str): Its word.
        has_edge_attr (bool): Whether edges have attributes.
    """
    if backbone.startswith(("gatedgcn", "gin", "gps-sum", "gps-multi")):
        return False
    return not (backbone.startswith("gps") and has_edge_attr)


def divide_depth(
    num_layers: int | None,
    seq_len: int | None = None,
    num_blocks: int | None = None,
    num_recurrences: int | None = None,
) -> tuple[int, int, int]:
    r"""Divides a depth into blocks and recurrences.

    A depth alone becomes two blocks, or one if it is odd; the sequence is as long as a block has
    recurrences unless its length is given.

    Args:
        num_layers (int, optional): The depth, blocks times recurrences.
        seq_len (int, optional): Length of the sequence. (default: :obj:`None`)
        num_blocks (int, optional): Number of blocks. (default: :obj:`None`)
        num_recurrences (int, optional): Recurrences of a block. (default: :obj:`None`)

    Returns:
        Length of the sequence, number of blocks and recurrences of a block.

    Raises:
        ValueError: The numbers contradict each other, or one is below 1.
    """
    given = {
        "num_layers": num_layers,
        "seq_len": seq_len,
        "num_blocks": num_blocks,
        "num_recurrences": num_recurrences,
    }
    for name, value in given.items():
        if value is not None and value < 1:
            raise ValueError(f"Expected '{name}' to be at least 1 (got {value})")
    recurrences = num_recurrences
    if num_layers is None:
        recurrences = recurrences or seq_len or 4
        blocks = num_blocks or 2
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


def _entry(backbone: Backbone, update: str, cost: str, source: str, attr: bool) -> ModelEntry:
    return ModelEntry(
        build=build_grama,
        family=FAMILY,
        equation=_EQUATION.format(update),
        reference=_REFERENCE,
        cost=cost,
        source=source,
        takes_edge_attr=attr,
        takes_sequence=True,
        departures=_DEPARTURES,
        defaults={"backbone": backbone},
    )


_GATED = "(A f_i + sum_j gate_ij B f_j / sum_j gate_ij)"

ENTRIES: dict[str, ModelEntry] = {
    "grama": _entry(
        "gatedgcn", "GNN(f_(t-1))", "that of the backbone + N F", "torch_grama.nn.GRAMA", True
    ),
    "grama-gcn": _entry(
        "gcn", "D^-1/2 A D^-1/2 f_(t-1) W", "N F^2 + E F", "torch_grama.nn.GRAMA, GCNConv", False
    ),
    "grama-gatedgcn": _entry(
        "gatedgcn",
        _GATED,
        "N F^2 + E F^2",
        "torch_grama.nn.GRAMA, torch_grama.nn.GatedGCNConv",
        True,
    ),
    "grama-gps": _entry(
        "gps",
        "MLP(Conv(f_(t-1)) + Attention(f_(t-1)))",
        "N F^2 + E F + N^2 F",
        "torch_grama.nn.GRAMA, torch_grama.nn.GPSLayer",
        True,
    ),
    "grama-gps-performer": _entry(
        "gps-performer",
        "MLP(Conv(f_(t-1)) + Performer(f_(t-1)))",
        "N F^2 + E F",
        "torch_grama.nn.GRAMA, torch_grama.nn.GPSLayer",
        True,
    ),
}
"""Model words of this family."""
