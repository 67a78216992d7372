"""Bad input gets one clear sentence, and no half-done work."""

import copy
import re

import pytest
import torch
from backbone_cases import CHANNELS, SendTanh
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv, GINEConv, SAGEConv
from torch_geometric.utils import to_torch_csr_tensor

from torch_grama.nn import GRAMA, Coefficients, GRAMABlock, Running

NAN = float("nan")
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = torch.linspace(-1, 1, 20).view(4, 5)


def build(**options):
    sizes = {"in_channels": 5, "hidden_channels": CHANNELS, "out_channels": 2, "seq_len": 4}
    return GRAMA(**(sizes | options))


WRONG_VALUES = [
    # sizes
    ({"in_channels": 0}, r"'in_channels' to be positive or -1 \(got 0\)"),
    ({"in_channels": -2}, r"'in_channels' to be positive or -1 \(got -2\)"),
    ({"hidden_channels": 0}, r"'hidden_channels' to be at least 1 \(got 0\)"),
    ({"out_channels": -1}, r"'out_channels' to be at least 1 \(got -1\)"),
    ({"seq_len": 0}, r"'seq_len' to be at least 1 \(got 0\)"),
    ({"seq_len": -1}, r"'seq_len' to be at least 1 \(got -1\)"),
    ({"num_blocks": 0}, r"'num_blocks' to be at least 1 \(got 0\)"),
    ({"num_recurrences": 0}, r"'num_recurrences' to be at least 1 \(got 0\)"),
    ({"edge_dim": 0}, r"'edge_dim' to be at least 1 \(got 0\)"),
    ({"dropout": 1.0}, r"'dropout' to be at least 0 and below 1 \(got 1.0\)"),
    ({"dropout": NAN}, r"'dropout'.*\(got nan\)"),
    ({"dropout": -0.1}, r"'dropout' to be at least 0 and below 1"),
    # orders outside 1..L, or of the next block
    (
        {"coefficients": Coefficients(ar_order=9)},
        r"'ar_order'.*between 1 and 'seq_len'.*ar_order=9, seq_len=4",
    ),
    (
        {"coefficients": Coefficients(ma_order=0)},
        r"'ma_order'.*between 1 and 'seq_len'.*ma_order=0, seq_len=4",
    ),
    (
        {"num_recurrences": 2, "coefficients": Coefficients(ar_order=3)},
        r"'ar_order' to fit.*second block.*ar_order=3, num_recurrences=2",
    ),
    # unknown words, nearest first
    ({"backbone": "gnc"}, r"'backbone' to be one of 'gcn'.*'gps'.*\(got 'gnc'\)"),
    ({"backbone": "gated"}, r"'backbone' to be one of 'gatedgcn'"),
    ({"backbone": "gc"}, r"'backbone' to be one of 'gcn'.*'gatedgcn'.*\(got 'gc'\)"),
    ({"backbone": "neighbour"}, r"'backbone' to be one of 'neighbor-sum'"),
    ({"coefficients": "naiv"}, r"'coefficients.kind' to be one of 'naive'"),
    ({"readout": "graphs"}, r"'readout.level' to be one of 'graph', 'node'"),
    ({"act": "rleu"}, r"'act' to be one of 'relu'.*'tanh'.*got 'rleu'"),
    ({"norm": "batchnorm"}, r"'norm' to be one of 'batch_norm', 'layer_norm'.*'batchnorm'"),
    ({"gain": "big"}, r"'gain' to be 'auto', 'wave', a finite number or None \(got 'big'\)"),
    ({"gain": NAN}, r"'gain' to be 'auto', 'wave', a finite number or None \(got nan\)"),
    # poles that cannot be
    ({"coefficients": Coefficients(poles=1.2)}, r"'poles' to be between 0.5 and 1 \(got 1.2\)"),
    (
        {"coefficients": Coefficients("naive", 1, constraint="l1", poles=0.9)},
        r"leaves room for 'poles'.*'l1'",
    ),
    # backbones that do not fit
    ({"backbone": GCNConv(4, 4)}, r"width 8 \(got GCNConv\(4, 4\) with in_channels=4\)"),
    ({"backbone": lambda _: SAGEConv(4, 8)}, r"width 8 \(got SAGEConv.*in_channels=4\)"),
    ({"edge_dim": 3}, r"uses edge attributes \(got backbone='gcn'.*'gatedgcn'"),
    (
        {"edge_dim": 3, "backbone": SAGEConv(8, 8)},
        r"uses edge attributes \(got SAGEConv\(8, 8, aggr=mean\) with edge_dim set\)",
    ),
    (
        {"edge_dim": 3, "backbone": GATv2Conv(8, 8)},
        r"uses edge attributes.*give the convolution its own edge_dim",
    ),
]
# things of another kind
WRONG_TYPES = [
    (
        {"backbone": 7},
        r"'backbone' to be a name, a module or a callable channels -> module \(got int\)",
    ),
    ({"backbone": lambda _: None}, r"make a torch.nn.Module \(got NoneType\)"),
    ({"act": 7}, r"'act' to be a name, a callable or None \(got int\)"),
    ({"backbone": None}, r"a name, a module or a callable.*NoneType"),
    ({"norm": 7}, r"'norm' to be a name, a callable.*\(got int\)"),
    ({"norm": lambda channels: channels}, r"make a torch.nn.Module \(got int\)"),
]


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [*((*row, ValueError) for row in WRONG_VALUES), *((*row, TypeError) for row in WRONG_TYPES)],
    ids=lambda value: re.sub(r" at 0x\w+", "", str(value)) if isinstance(value, dict) else "",
)
def test_a_model_that_cannot_be_built(options, message, error):
    with pytest.raises(error, match=message) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


OLD = {
    "normalization": r"coefficients=Coefficients\(constraint=\.\.\.\)",
    "coefficient_update": r"coefficients=Coefficients\(update=\.\.\.\)",
    "ar_order": r"coefficients=Coefficients\(ar_order=\.\.\.\)",
    "ma_order": r"coefficients=Coefficients\(ma_order=\.\.\.\)",
    "initial_poles": r"coefficients=Coefficients\(poles=\.\.\.\)",
    "heads": "leave it out",
    "carry_edge_state": "edge_state='none'",
    "pooling": r"readout=Readout\('graph', pooling=\.\.\.\)",
    "readout_layers": r"readout=Readout\(num_layers=\.\.\.\)",
    "engine": r"running=Running\(engine=\.\.\.\)",
    "checkpoint_blocks": r"running=Running\(recompute=\.\.\.\)",
    "cached": r"running=Running\(cached=\.\.\.\)",
    "check_input": r"running=Running\(check_input=\.\.\.\)",
    "node_encoder": "before the model",
    "edge_encoder": "before the model",
    "pe_channels": "PositionEncoder",
    "sequence_first": r"\[num_nodes, L, channels\]",
    "initial_residuals": "leave it out",
    "embedding_layers": r"SequenceEmbedding\(\.\.\., num_layers=\.\.\.\)",
}


@pytest.mark.parametrize("name", OLD)
def test_a_name_of_old_is_answered_with_the_new_one(name):
    with pytest.raises(TypeError, match=rf"no argument '{name}'.*; .*{OLD[name]}") as caught:
        build(**{name: 1})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(OLD)[:7])
def test_a_name_of_old_is_answered_by_a_block_too(name):
    with pytest.raises(TypeError, match=rf"no argument '{name}'.*; .*{OLD[name]}"):
        GRAMABlock(8, **{name: 1})


def test_an_unknown_name_is_answered_by_python():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        build(colour=1)


def test_running_is_checked():
    with pytest.raises(ValueError, match=r"'running.engine' to be one of.*'auto'.*got 'fast'"):
        Running("fast")


GATED = {"backbone": "gatedgcn"}
WITH_EDGES = {"backbone": "gatedgcn", "edge_dim": 3}
BATCH = torch.tensor([0, 0, 1, 1])
BAD_CALLS = {
    # features
    "width": ({}, {"x": X[:, :4]}, r"width in_channels=5 \(got 4\)"),
    "dimensions": ({}, {"x": X[0]}, r"'x' of shape.*\(got \[5\]\)"),
    "length": ({}, {"x": X.view(4, 1, 5)}, r"length seq_len=4.*\(got \[4, 1, 5\]\)"),
    "integers": ({}, {"x": X.long()}, r"floating point node features.*CategoricalEnc"),
    "nan": ({}, {"x": X + NAN}, r"finite node features \(got 20 .*row 0.*check_input"),
    "inf": ({}, {"x": X / X[:, :1].mul(0)}, r"finite node features"),
    # edges
    "int32": ({}, {"edge_index": EDGES.int()}, r"int64.*int32.*edge_index.long"),
    "float": ({}, {"edge_index": EDGES.float()}, r"int64.*float32"),
    "list": ({}, {"edge_index": EDGES.tolist()}, r"'edge_index' to be a Tensor.*list"),
    "transposed": ({}, {"edge_index": EDGES.t()}, r"\[2, num_edges\] \(got \[6, 2\]"),
    "too large": ({}, {"edge_index": EDGES + 1}, r"between 0 and 3 \(got 1 to 4"),
    "negative": ({}, {"edge_index": EDGES - 1}, r"between 0 and 3 \(got -1 to 2"),
    "few weights": ({}, {"edge_weight": torch.ones(5)}, r"'edge_weight'.*\[6\]"),
    "bad weights": ({}, {"edge_weight": torch.ones(6) * NAN}, r"finite 'edge_weight'"),
    "weights": (GATED, {"edge_weight": torch.ones(6)}, r"no 'edge_weight'.*Gated"),
    "weights twice": (
        {},
        {"edge_index": to_torch_csr_tensor(EDGES), "edge_weight": torch.ones(6)},
        r"no 'edge_weight' beside a sparse 'edge_index'",
    ),
    # edge attributes
    "attributes": (GATED, {"edge_attr": torch.ones(6, 3)}, r"built without edge_dim"),
    "no attributes": (WITH_EDGES, {}, r"Expected 'edge_attr'.*edge_dim=3"),
    "wide": (WITH_EDGES, {"edge_attr": torch.ones(6, 4)}, r"edge_dim=3\].*\[6, 4\]"),
    "flat": (WITH_EDGES, {"edge_attr": torch.ones(6)}, r"edge_dim=3\].*\[6\]"),
    "short": (WITH_EDGES, {"edge_attr": torch.ones(5, 3)}, r"\[6, edge_dim\].*\[5, 3"),
    "categories": (
        WITH_EDGES,
        {"edge_attr": torch.ones(6, 3).long()},
        r"floating point edge attributes.*CategoricalEncoder",
    ),
    "bad attributes": (WITH_EDGES, {"edge_attr": torch.full((6, 3), NAN)}, r"finite 'edge_attr'"),
    "useless": (
        {"backbone": SAGEConv(8, 8)},
        {"edge_attr": torch.ones(6, 3)},
        r"no 'edge_attr' \(got one, but the backbone SAGEConv",
    ),
    "needed": (
        {"backbone": GINEConv(torch.nn.Linear(8, 8), edge_dim=3)},
        {},
        r"Expected 'edge_attr' \(the backbone GINEConv.*needs it\)",
    ),
    # batches
    "unsorted": ({}, {"batch": BATCH.flip(0)}, r"'batch' to be sorted"),
    "short batch": ({}, {"batch": BATCH[:3]}, r"'batch' to have shape \[4\].*\[3\]"),
    "float batch": ({}, {"batch": BATCH.float()}, r"'batch' to hold int64"),
    "batch size": ({}, {"batch": BATCH, "batch_size": 1}, r"below batch_size=1.*got 1"),
    "no batch": ({}, {"batch_size": 2}, r"'batch' vector for more than one graph"),
    "no nodes": (
        {"readout": "graph"},
        {"x": X[:0], "edge_index": EDGES[:, :0]},
        r"at least one node for readout='graph' \(got none\)",
    ),
}
WRONG_KIND = {"float", "categories", "float batch", "list", "int32", "integers"}


# a lazy model takes any width
@pytest.mark.parametrize(
    ("name", "in_channels"),
    [(name, width) for name in BAD_CALLS for width in (5, -1) if (name, width) != ("width", -1)],
)
def test_a_bad_call_gets_one_sentence_and_leaves_the_model_as_it_was(name, in_channels):
    options, arguments, message = BAD_CALLS[name]
    error = TypeError if name in WRONG_KIND else ValueError
    model = build(in_channels=in_channels, norm="batch_norm", **options).train()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(error, match=message) as caught:
        model(**{"x": X, "edge_index": EDGES, **arguments})
    assert "\n" not in str(caught.value)
    assert model.in_channels == in_channels
    after = model.state_dict()
    assert after.keys() == before.keys()
    for key, value in before.items():
        if not isinstance(after[key], UninitializedParameter):
            # what a lazy model has not drawn yet may be no number
            torch.testing.assert_close(after[key], value, rtol=0, atol=0, equal_nan=True)
    assert isinstance(model.embedding.weight, UninitializedParameter) is (in_channels == -1)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (GATv2Conv(8, 8, heads=2), r"GATv2Conv\(8, 8, heads=2\).*\[4, 8\] \(got \[4, 16\]\)"),
        (GINConv(torch.nn.Linear(8, 1)), r"GINConv.*\[4, 8\] \(got \[4, 1\]\)"),
        (GCNConv(8, 4), r"GCNConv\(8, 4\).*\[4, 8\] \(got \[4, 4\]\)"),
        (SAGEConv(8, 4), r"SAGEConv\(8, 4.*\[4, 8\] \(got \[4, 4\]\)"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_a_backbone_whose_output_has_another_width(backbone, message):
    with pytest.raises(ValueError, match=message) as caught:
        build(backbone=backbone)(X, EDGES)
    assert "\n" not in str(caught.value)


def test_the_linear_engine_with_another_backbone():
    with pytest.raises(ValueError, match=r"linear backbone for engine='linear'.*engine='scan'"):
        build(backbone=SendTanh(8), running=Running("linear"))(X, EDGES)


def test_the_check_of_values_can_be_turned_off():
    x = X.clone()
    x[1, 2] = NAN
    options = {"coefficients": "naive", "num_blocks": 1, "seq_len": 1}
    out = build(running=Running(check_input=False), **options)(x, EDGES)
    # one convolution: the fault reaches the neighbours and no further
    assert torch.isnan(out).any(dim=1).tolist() == [True, True, True, False]


def test_sizes_are_checked_all_the_same():
    with pytest.raises(ValueError, match="width in_channels=5"):
        build(running=Running(check_input=False))(X[:, :4], EDGES)
