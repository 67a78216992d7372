"""Models by word: entries, options of their own and of all, depths of GRAMA."""

import inspect

import pytest
import torch
from model_words import each_model
from sample_data import ring_with_chords

from torch_grama.baselines.graph_model import NodeOutput
from torch_grama.experiments.catalogue import FAMILIES, MODELS, canonical_name, find_model
from torch_grama.experiments.grama import divide_depth
from torch_grama.experiments.models import (
    build_model,
    list_models,
    model_options,
    reads_series_alone,
)
from torch_grama.experiments.settings import check_settings
from torch_grama.nn import GRAMA, Readout
from torch_grama.nn.backbone import BACKBONES
from torch_grama.report.held_results import CHANGED
from torch_grama.training.input_stage import InputStage


@pytest.mark.parametrize("word", MODELS)
def test_every_entry_says_what_it_is(word):
    entry = MODELS[word]
    assert word == canonical_name(word)
    for text in (entry.family, entry.equation, entry.reference, entry.cost, entry.source):
        assert text.strip()
        assert "\n" not in text
    for sentence in entry.departures:
        assert sentence.endswith(".")
    parameters = inspect.signature(entry.build).parameters
    assert set(entry.defaults) <= set(parameters)


def test_no_word_stands_for_two_models():
    assert sum(map(len, FAMILIES.values())) == len(MODELS)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_grama_reads_every_backbone_of_the_core_and_has_a_word_for_it(backbone):
    by_option = build_model("grama", 5, 8, 3, 6, "graph", backbone=backbone, pooling="max")
    by_word = build_model(f"grama-{backbone}", 5, 8, 3, 6)
    assert str(by_word) == str(by_option) == str(GRAMA(5, 8, 3, 3, 2, backbone))
    assert by_option.readout == Readout("graph", "max")
    assert isinstance(by_word, GRAMA)
    assert by_word.num_blocks * by_word.num_recurrences == 6


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None,), (4, 2, 4)),
        ((8,), (4, 2, 4)),
        ((5,), (5, 1, 5)),
        ((1,), (1, 1, 1)),
        ((32,), (16, 2, 16)),
        ((None, 3, 5), (3, 5, 3)),
        ((None, 3), (3, 2, 3)),
        ((12, 3), (3, 4, 3)),
        ((12, None, 4), (3, 4, 3)),
        ((8, 4, 1), (4, 1, 8)),
        ((6, 4), (4, 2, 3)),
        ((12, 8, None, 3), (8, 4, 3)),
        ((None, 4, 2, 6), (4, 2, 6)),
    ],
)
def test_depth_is_blocks_times_recurrences(given, expected):
    assert divide_depth(*given) == expected


@pytest.mark.parametrize("given", [(7, None, 2), (8, None, 2, 3), (2, None, 4), (3, 4, 2)])
def test_a_depth_that_cannot_be_is_refused(given):
    with pytest.raises(ValueError, match="to be num_blocks times num_recurrences"):
        divide_depth(*given)
    for below_one in ((0,), (None, 0), (None, None, -1)):
        with pytest.raises(ValueError, match="at least 1"):
            divide_depth(*below_one)


def test_unknown_words_and_options_name_the_nearest():
    with pytest.raises(
        ValueError, match=r"`grama models` prints, such as 'grama', .* \(got 'gramma'\)"
    ):
        build_model("gramma", 5, 8, 3)
    with pytest.raises(ValueError, match="'grama' has no option 'backbon'; its options are 'back"):
        build_model("grama", 5, 8, 3, backbon="gcn")
    assert find_model(" GRAMA_GCN ") is MODELS["grama-gcn"]


def test_options_of_a_word_start_at_what_the_word_stands_for():
    assert model_options("grama-gps")["backbone"].default == "gps"
    performer = model_options("grama-gps-performer")
    assert performer["backbone_options"].default == {"attention": "performer"}


def test_the_list_counts_the_parameters_of_the_model_built():
    listed = {model.name: model for model in list_models(16, 4, in_channels=5, out_channels=3)}
    assert set(listed) == set(MODELS)
    model = GRAMA(5, 16, 3, seq_len=2, num_blocks=2, backbone="gcn")
    expected = sum(parameter.numel() for parameter in model.parameters())
    assert listed["grama-gcn"].parameters == expected
    assert all(model.parameters is not None for model in listed.values())


@pytest.mark.parametrize("word", [word for word in MODELS if word.endswith("performer")])
def test_models_share_no_module(word):
    one, other = (build_model(word, 5, 8, 3, 2) for _ in range(2))
    one.eval()
    assert all(part.training for part in other.modules())


def test_tables_and_loading_agree_on_when_a_model_changed():
    for word, version in CHANGED.items():
        assert MODELS[word].changed_in == version
    assert {word for word, entry in MODELS.items() if entry.changed_in} == {
        word for word in MODELS if word.startswith(tuple(CHANGED))
    }


def build_for_graphs(word, pooling):
    torch.manual_seed(1)
    extra = {"num_nodes": 9} if word == "resnet-adj" else {}
    return build_model(word, 5, 24, 3, 2, "graph", pooling=pooling, **extra).eval()


@pytest.mark.no_cover
@pytest.mark.parametrize("word", each_model())
def test_every_model_takes_every_pooling_of_its_readout(word):
    data = ring_with_chords(9)
    x = data.x.float()
    if reads_series_alone(word):
        x = x.unsqueeze(1).expand(-1, 4, -1)

    def run(pooling):
        return build_for_graphs(word, pooling)(x, data.edge_index, None, None, None, None)

    mean, total = run("mean"), run("sum")
    assert not torch.allclose(mean, total)
    if any(isinstance(part, NodeOutput) for part in build_for_graphs(word, "mean").modules()):
        torch.testing.assert_close(total, 9 * mean, rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="since the outputs of the nodes are pooled"):
            run("sum-max-mean")
    else:
        three = run("sum-max-mean")
        assert three.size() == (1, 3)
        assert not torch.allclose(three, total)


def test_dropout_of_the_input_comes_before_the_model():
    model = build_model("mlp-1", 5, 8, 3, input_dropout=0.5)
    assert isinstance(model, InputStage)  # whose own tests look at the numbers
    assert model.input_dropout == 0.5
    assert not isinstance(build_model("mlp-1", 5, 8, 3), InputStage)


@pytest.mark.parametrize("word", ["grama", "gcn", "sgc-1", "a3t-gcn", "gmn"])
def test_they_are_settings_of_a_run(word):
    options = model_options(word)
    assert options["input_dropout"].default == 0.0
    assert options["pooling"].default == "mean"
    assert options["pooling"].help
    words = {"model.input_dropout": "0.3", "model.pooling": "sum-max-mean"}
    read = check_settings(("on the command line", {"model.name": word} | words))
    assert read["model.input_dropout"] == 0.3
    with pytest.raises(ValueError, match="one of 'mean'"):
        check_settings(("here", {"model.name": word, "model.pooling": "meen"}))


def test_nodes_are_not_pooled():
    for word in ("gcn", "grama-gcn", "sgc"):
        with pytest.raises(ValueError, match=r"only with (readout|level)='graph'"):
            build_model(word, 5, 8, 3, 2, "node", pooling="sum")
