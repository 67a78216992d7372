"""GRAMA by plain values: the library's defaults, backbones with options, names of version 0.1."""

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import torch
import yaml
from sample_data import ring_with_chords
from torch_geometric.nn import GCNConv, GINEConv

from torch_grama.experiments.grama import (
    _OLD_BACKBONES,
    _OLD_OPTIONS,
    VARIANTS,
    build_grama,
    build_variant,
    explain_old,
    variant_options,
)
from torch_grama.experiments.models import build_model
from torch_grama.nn import (
    GRAMA,
    Coefficients,
    GatedGCNConv,
    GPSLayer,
    NeighborSumConv,
    Readout,
    RootedGCNConv,
    Running,
)
from torch_grama.nn.backbone import BACKBONES
from torch_grama.nn.coefficients import CONSTRAINTS, KINDS, UPDATES
from torch_grama.nn.engine.recurrence import ENGINES
from torch_grama.nn.readout import LEVELS, POOLINGS

# What the command calls the fields of the parts that a model is given.
FIELDS = {
    Coefficients: {
        "kind": "coefficients",
        "channels": "coefficient_channels",
        "update": "coefficient_update",
    },
    Readout: {"level": "readout", "num_layers": "readout_layers"},
    Running: {},
}


def defaults(build):
    return {name: p.default for name, p in inspect.signature(build).parameters.items()}


def test_the_command_has_the_defaults_of_the_library():
    by_word, model = defaults(build_grama), defaults(GRAMA)
    for name in ("backbone", "act", "norm", "dropout", "gain", "edge_dim", "share_weights"):
        assert by_word[name] == model[name]
    for part, names in FIELDS.items():
        for field in fields(part):
            if field.name not in ("cached", "check_input"):
                assert by_word[names.get(field.name, field.name)] == field.default
    built, plain = build_grama(3, 8, 2), GRAMA(3, 8, 2)
    assert (built.seq_len, built.num_blocks) == (plain.seq_len, plain.num_blocks)


def test_the_command_has_the_words_of_the_library():
    hints = get_type_hints(build_grama)
    for name, words in (
        ("backbone", BACKBONES),
        ("coefficients", KINDS),
        ("constraint", CONSTRAINTS),
        ("coefficient_update", UPDATES),
        ("readout", LEVELS),
        ("pooling", POOLINGS),
        ("engine", ENGINES),
    ):
        assert set(get_args(hints[name])) == set(words)
    assert set(VARIANTS) == set(BACKBONES)


@pytest.mark.parametrize(
    ("backbone", "module"),
    [("gatedgcn", GatedGCNConv), ("gps", GPSLayer),
     ("neighbor-sum", NeighborSumConv)],
)  # fmt: skip
def test_options_have_the_defaults_of_their_class(backbone, module):
    known = defaults(module)
    for name in variant_options(backbone):
        if name not in ("local", "aggregation", "feed_forward"):
            assert known[name] == defaults(VARIANTS[backbone])[name]


def test_every_value_arrives():
    model = build_grama(
        3, 8, 2, seq_len=3, num_recurrences=4, num_blocks=2, coefficients="naive", ar_order=2,
        ma_order=1, coefficient_channels=5, constraint="l1", poles=0.9, coefficient_update="step",
        act="elu", norm="layer_norm", dropout=0.1, gain=0.3, readout="graph", pooling="sum",
        readout_layers=1, engine="scan", recompute=True, share_weights=False, backbone="gin",
    )  # fmt: skip
    block = model.blocks[0]
    assert (block.ar_order, block.ma_order, block.update) == (2, 1, "step")
    assert (block.coefficients.constraint, block.coefficients.poles) == ("l1", 0.9)
    assert len(block.backbone) == 4
    assert float(block.gain.detach()) == pytest.approx(0.3)
    assert model.readout == Readout("graph", "sum", 1)
    assert model.running == Running("scan", recompute=True)
    wave = {"gain": "wave", "constraint": "none", "backbone_options": {"root": True}}
    assert build_grama(3, 8, 2, **wave).blocks[0].retention.item() == 4
    assert build_grama(3, 8, 2, coefficient_channels=5).blocks[0].coefficients.width == 5


@pytest.mark.parametrize(
    ("backbone", "options", "has_edge_attr", "check"),
    [
        ("gcn", {"root": True}, False, lambda m: isinstance(m, RootedGCNConv)),
        ("gcn", {"root": True, "loops": False}, False, lambda m: not m.add_self_loops),
        ("gcn", {"root": False}, False, lambda m: type(m) is GCNConv),
        ("gcn", {"initial": 0.0}, False, lambda m: type(m) is GCNConv),
        ("gcn", {"initial": 0.2}, False, lambda m: (m.alpha, m.beta) == (0.2, 1.0)),
        ("gcn", {"identity": 0.9, "loops": False}, False, lambda m: m.beta == pytest.approx(0.1)),
        ("gcn", {"initial": 0.2, "layers": 3}, False,
         lambda m: [(c.alpha, c.beta) for c in m.convs] == [(0.2, 1.0)] * 3),
        ("gcn", {"identity": 0.9, "layers": 2}, False,
         lambda m: m.convs[1].beta < m.convs[0].beta == pytest.approx(0.1)
         and m.between[1].p == 0.25),
        ("gatedgcn", {"norm": None}, True, lambda m: m.norm is None and m.normalize_gates),
        ("gatedgcn", {"normalize_gates": False}, False, lambda m: not m.normalize_gates),
        ("gatedgcn", {"edge_state": "model"}, False, lambda m: m.edge_state == "model"),
        ("gcn", {"feed_forward": True}, False, lambda m: type(m.conv) is GCNConv),
        ("gatedgcn", {"feed_forward": True}, True,
         lambda m: (m.norm.num_steps, m.activate[1].p, m.edge_state) == (2, 0.25, "block")),
        ("gatedgcn", {"feed_forward": False}, True, lambda m: isinstance(m, GatedGCNConv)),
        ("gin", {"aggregation": "multi"}, True, lambda m: isinstance(m.conv, GINEConv)),
        ("gin", {"norm": None}, True, lambda m: isinstance(m, GINEConv)),
        ("neighbor-sum", {"norm": None}, True, lambda m: m.norm is None),
        ("gps", {"pre_norm": True}, False, lambda m: m.pre_norm and type(m.conv) is GCNConv),
        ("gps", {"pre_norm": True}, True, lambda m: isinstance(m.conv, GINEConv)),
        ("gps", {"attention": "performer"}, False, lambda m: m.attn_type == "performer"),
        ("gps", {"heads": 2, "local": "gin"}, False, lambda m: m.heads == 2 and m.dropout == 0.25),
        ("gps", {"dropout": 0}, False, lambda m: m.dropout == 0),
        ("gps", {"norm": "batch_norm"}, False, lambda m: m.norm3.num_steps == 2),
    ],
)  # fmt: skip
def test_options_make_a_variant(backbone, options, has_edge_attr, check):
    assert check(build_variant(backbone, options, 2, has_edge_attr, 0.25)(8))


@pytest.mark.parametrize("backbone", [name for name in VARIANTS if name != "gcn"])
def test_a_variant_gets_edges_as_a_name_does(backbone):
    r"""Options that change nothing make the model of the name, edge encoder included."""
    torch.manual_seed(0)
    named = build_model("grama", 5, 8, 3, 4, edge_dim=4, backbone=backbone).eval()
    same = {name: value for name, value in defaults(VARIANTS[backbone]).items()
            if name in ("norm", "aggregation", "attention")}  # fmt: skip
    variant = build_model(
        "grama", 5, 8, 3, 4, edge_dim=4, backbone=backbone, backbone_options=same
    ).eval()
    variant.load_state_dict(named.state_dict())
    data = ring_with_chords(9, edge_dim=4)
    given = data.x.float(), data.edge_index, None, data.edge_attr.float()
    torch.testing.assert_close(variant(*given), named(*given))


@pytest.mark.parametrize(
    ("backbone", "options", "message"),
    [
        ("gps", {"pre_nrm": True}, "'gps' has no option 'pre_nrm'; its options are 'pre_norm', "),
        ("gcn", {"norm": None}, "its options are 'root'"),
        ("gcn", {"initial": 1.5}, r"'backbone_options.initial' .* below 1, .* \(got 1.5\)"),
        ("gcn", {"identity": 0.5, "root": True}, r"identity' .* 0 with 'root' \(got 0.5\)"),
        ("gcn", {"layers": 2}, r"layers' .* 1 without 'initial' and 'identity' \(got 2\)"),
        ("gps", {"pre_norm": "yes"}, r"'backbone_options.pre_norm' to be true or false \(got 'yes"),
        ("gps", {"heads": True}, r"to be a whole number or null \(got True\)"),
        ("gps", {"attention": "perform"}, "one of 'performer', 'multihead'"),
        ("gps", {"local": "gcn", "aggregation": "multi"}, "Expected the option 'local: gin'"),
    ],
)
def test_options_that_cannot_be_are_named(backbone, options, message):
    with pytest.raises(ValueError, match=message):
        build_model("grama", 5, 8, 3, backbone=backbone, backbone_options=options)


@pytest.mark.parametrize("name", _OLD_OPTIONS)
def test_an_old_option_says_the_new_one(name):
    with pytest.raises(ValueError, match=f"'{name}', which was of version 0.1; (write|leave)"):
        build_model("grama", 5, 8, 3, **{name: 1})
    assert explain_old("act", "relu") is None


@pytest.mark.parametrize("word", _OLD_BACKBONES)
def test_an_old_backbone_says_what_to_write(word):
    with pytest.raises(ValueError, match=f"got '{word}' of version 0.1"):
        build_model("grama", 5, 8, 3, backbone=word)
    written = yaml.safe_load(f"{{{_OLD_BACKBONES[word]}}}")
    build_model("grama", 5, 8, 3, **written)
