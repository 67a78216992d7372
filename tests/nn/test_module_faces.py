"""How the modules name themselves, in one line, and what they refuse to be built of."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn import Linear, ReLU, Sequential
from torch_geometric.nn import GCNConv, GINConv, GraphNorm, SAGEConv

from torch_grama.nn import (
    GRAMA,
    BondEncoder,
    CategoricalEncoder,
    Coefficients,
    FeedForwardConv,
    GatedGCNConv,
    GCN2Stack,
    GPSLayer,
    GRAMABlock,
    NaiveCoefficients,
    NeighborSumConv,
    NormedConv,
    PositionEncoder,
    Readout,
    RootedGCNConv,
    SelectiveCoefficients,
    SequenceEmbedding,
)
from torch_grama.nn.neighbor_convs import build_aggregation
from torch_grama.nn.norms import SequenceNorm, StepwiseBatchNorm
from torch_grama.nn.readout import ReadoutMLP

GIN = GINConv(Sequential(Linear(8, 8), ReLU()))


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (
            GRAMA(7, 32, 2, backbone=SAGEConv(32, 32)),
            "GRAMA(7, 32, 2, seq_len=4, num_blocks=2, backbone=SAGEConv)",
        ),
        (GRAMA(-1, 8, 1, 3, 1, GIN), "GRAMA(-1, 8, 1, seq_len=3, num_blocks=1, backbone=GINConv)"),
        (
            GRAMABlock(8, seq_len=3, share_weights=False),
            "GRAMABlock(8, seq_len=3, num_recurrences=3, backbone=GCNConv)",
        ),
        (GRAMABlock(8, GIN), "GRAMABlock(8, seq_len=4, num_recurrences=4, backbone=GINConv)"),
        (NaiveCoefficients(3, 2, "l1"), "NaiveCoefficients(3, 2, constraint='l1')"),
        (
            SelectiveCoefficients(4, 3, 2),
            "SelectiveCoefficients(4, 3, 2, width=16, constraint='sum')",
        ),
        (SequenceEmbedding(7, 16, 4), "SequenceEmbedding(7, 16, seq_len=4)"),
        (ReadoutMLP(4, 2, 3, F.relu, 0.0), "ReadoutMLP(4, 2)"),
        (SequenceNorm(GraphNorm, 8, 4), "SequenceNorm(GraphNorm, 4)"),
        (StepwiseBatchNorm(8, 4), "StepwiseBatchNorm(8, num_steps=4)"),
        (GatedGCNConv(8), "GatedGCNConv(8, norm='batch_norm')"),
        (NeighborSumConv(8), "NeighborSumConv(8)"),
        (GCN2Stack(8, 3, 0.2), "GCN2Stack(8, num_layers=3)"),
        (NormedConv(RootedGCNConv(8), 8), "NormedConv(RootedGCNConv)"),
        (FeedForwardConv(GatedGCNConv(8), 8), "FeedForwardConv(GatedGCNConv)"),
        (
            GPSLayer(8, GCNConv(8, 8), attention="performer"),
            "GPSLayer(8, conv=GCNConv(8, 8), heads=4, attn_type=performer)",
        ),
        (CategoricalEncoder([4, 2], 3), "CategoricalEncoder([4, 2], 3)"),
        (BondEncoder(8), "BondEncoder([5, 6, 2], 8)"),
        (PositionEncoder(3, 8), "PositionEncoder(3, 8)"),
        (PositionEncoder(3, 8, 2), "PositionEncoder(3, 8, num_eigenvectors=2)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_repr_is_one_line(module: torch.nn.Module, expected: str) -> None:
    assert str(module) == expected


BELOW_ONE = "to be at least 1"


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (SequenceEmbedding, (0, 4, 3), r"'in_channels' to be positive or -1 \(got 0\)"),
        (SequenceEmbedding, (5, 0, 3), rf"'channels' {BELOW_ONE} \(got 0\)"),
        (SequenceEmbedding, (5, 4, -1), rf"'seq_len' {BELOW_ONE} \(got -1\)"),
        (SequenceEmbedding, (5, 4, 3, {"num_layers": 0}), rf"'num_layers' {BELOW_ONE} \(got 0\)"),
        (SequenceEmbedding, (5, 4, 3, {"act": "rleu"}), r"'act' to be one of 'relu'"),
        (Readout, ("graphs",), r"'readout.level' to be one of 'graph', 'node'"),
        (Readout, ("graph", "maen"), r"'readout.pooling' to be one of 'mean'"),
        (Readout, ({"pooling": "max"},), r"only with level='graph' \(got pooling='max'"),
        (Readout, ({"num_layers": 0},), rf"'num_layers' {BELOW_ONE} \(got 0\)"),
        (Coefficients, ("selectiv",), r"'coefficients.kind' to be one of 'selective'.*'selectiv'"),
        (Coefficients, ({"constraint": "L1"},), r"'coefficients.constraint' to be one of 'l1'"),
        (Coefficients, ({"update": "steps"},), r"'coefficients.update' to be one of 'step', 'blo"),
        (Coefficients, ({"channels": 0},), rf"'channels' {BELOW_ONE} \(got 0\)"),
        (NaiveCoefficients, (0, 2), rf"'ar_order' {BELOW_ONE} \(got 0\)"),
        (NaiveCoefficients, (2, -1), rf"'ma_order' {BELOW_ONE} \(got -1\)"),
        (SelectiveCoefficients, (4, -1, 2), rf"'ar_order' {BELOW_ONE} \(got -1\)"),
        (SelectiveCoefficients, (4, 2, 0), rf"'ma_order' {BELOW_ONE} \(got 0\)"),
        (GatedGCNConv, (4, {"norm": "layer_norm"}), "'norm' to be 'batch_norm' or None"),
        (GatedGCNConv, (4, {"edge_state": "layer"}), "'edge_state' to be one of '"),
        (NeighborSumConv, (4, {"norm": "layer_norm"}), "'norm' to be 'batch_norm' or None"),
        (GPSLayer, (8, {"attention": "perform"}), "'attention' to be one of 'performer', 'multih"),
        (build_aggregation, ("median", 2), "'aggregation' to be one of 'multi', 'sum'"),
        (CategoricalEncoder, ([], 3), "'sizes' to be positive, one per column"),
        (CategoricalEncoder, ([3, 0], 3), "'sizes' to be positive, one per column"),
        (PositionEncoder, (0, 3), f"'in_channels' and 'channels' {BELOW_ONE}"),
        (PositionEncoder, (3, 0), f"'in_channels' and 'channels' {BELOW_ONE}"),
        (PositionEncoder, (3, 4, 5), "'num_eigenvectors' to be from 0 to in_channels=3"),
    ],
)
def test_what_cannot_be_built_gets_one_sentence(build, given, message) -> None:
    named = next((part for part in given if isinstance(part, dict)), {})
    with pytest.raises(ValueError, match=message) as caught:
        build(*(part for part in given if not isinstance(part, dict)), **named)
    assert "\n" not in str(caught.value)
