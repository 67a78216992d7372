"""Every model on data with series and edge weights, and on one graph."""

import dataclasses

import pytest
import torch
from sample_data import ring_with_chords

from torch_grama.datasets.task_data import FeatureEncoding, Metric
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.config import ConfigError, ModelConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.grama import (
    VARIANTS,
    build_variant,
    reads_edge_attr,
    reads_edge_weights,
)
from torch_grama.experiments.models import assemble_model
from torch_grama.nn.backbone import BackboneCall

SERIES = DataFacts(
    "node",
    "forecast",
    Metric("mse", False),
    2,
    FeatureEncoding("float", 5),
    FeatureEncoding("none", 0),
    num_graphs=20,
    mean_nodes=9.0,
    seq_len=4,
    has_edge_weight=True,
)
ONE_GRAPH = dataclasses.replace(SERIES, num_graphs=1, seq_len=0, has_edge_weight=False)


def assemble(word, facts, **options):
    torch.manual_seed(0)
    return assemble_model(ModelConfig(word, 8, {"num_layers": 2, **options}), facts, 2)


@pytest.mark.no_cover
@pytest.mark.parametrize("word", [word for word in MODELS if word != "resnet-adj"])
def test_weights_that_no_model_reads_are_told(word, recwarn):
    stage = assemble(word, SERIES).eval()
    data = ring_with_chords(9)
    x, count = torch.randn(9, 4, 5), data.edge_index.size(1)
    one, other = (stage(x, data.edge_index, torch.rand(count) + 0.5) for _ in range(2))
    assert one.size() == (9, 2)
    assert one.isfinite().all()
    told = [str(warning.message) for warning in recwarn if "edge weights" in str(warning.message)]
    assert len(told) == torch.allclose(one, other)
    assert all(f"'{word}'" in text and "such as 'gcn'" in text for text in told)
    if word in ("gat", "gine") or word.startswith("grama"):
        assert not told


def test_without_weights_nothing_is_told(recwarn):
    assemble("gin", ONE_GRAPH)
    assert not recwarn


CASES = [*((name, {}) for name in VARIANTS), ("gcn", {"root": True}), ("gps", {"local": "gin"})]


@pytest.mark.parametrize(("backbone", "options"), CASES)
@pytest.mark.parametrize("has_edge_attr", [False, True])
def test_which_backbones_have_a_place_for_weights(backbone, options, has_edge_attr):
    if has_edge_attr and not reads_edge_attr(backbone):
        return
    call = BackboneCall.inspect(build_variant(backbone, options, 2, has_edge_attr, 0.0)(8))
    assert reads_edge_weights(backbone, options, has_edge_attr) == call.edge_weight
    assert reads_edge_attr(backbone) or not call.edge_attr


@pytest.mark.parametrize(("backbone", "options"), CASES)
def test_every_backbone_takes_attributes_beside_weights(backbone, options):
    if not reads_edge_attr(backbone):
        return
    facts = dataclasses.replace(SERIES, edge_encoding=FeatureEncoding("float", 3))
    stage = assemble("grama", facts, backbone=backbone, backbone_options=options).eval()
    data = ring_with_chords(9, edge_dim=3)
    weight = torch.rand(data.edge_index.size(1)) + 0.5
    x = torch.randn(9, 4, 5)
    out = stage(x, data.edge_index, weight, data.edge_attr)
    other = stage(x, data.edge_index, weight, data.edge_attr.flip(0))
    assert not torch.allclose(out, other)


def test_a_model_of_one_graph_is_told_its_size():
    two = dataclasses.replace(ONE_GRAPH, num_graphs=2)
    for word in ("resnet-adj", "glognn"):
        assert len(assemble(word, ONE_GRAPH).model.node_weight) == 9
    assert assemble("glognn", two).model.node_weight is None
    with pytest.raises(ConfigError, match="num_nodes"):
        assemble("resnet-adj", two)


def test_the_length_of_the_series_is_that_of_the_data():
    assert assemble("a3t-gcn", SERIES).model.attention.numel() == 4
    assert assemble("grama-gcn", SERIES).model.seq_len == 4
    with pytest.raises(ConfigError, match=r"'model.seq_len' to be 4, .* \(got 3\)"):
        assemble("a3t-gcn", SERIES, seq_len=3)


def test_grama_makes_a_sequence_of_another_length_from_all_elements():
    data, x = ring_with_chords(9), torch.randn(9, 4, 5)
    stage = assemble("grama-gcn", SERIES, seq_len=3).eval()
    assert (stage.model.seq_len, stage.model.in_channels) == (3, 20)
    weight = torch.rand(data.edge_index.size(1)) + 0.5
    out = stage(x, data.edge_index, weight)
    expected = stage.model(x.flatten(1), data.edge_index, edge_weight=weight)
    assert torch.equal(out, expected)


def test_dropout_of_the_input_is_that_of_the_stage():
    stage = assemble("gcn", ONE_GRAPH, input_dropout=0.4)
    assert stage.input_dropout == 0.4
    assert "input_dropout=0.4" in str(stage)
