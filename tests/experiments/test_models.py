"""Options that every model takes."""

import pytest
import torch
from sample_data import ring_with_chords

from torch_grama.baselines.graph_head import NodeOutput
from torch_grama.experiments.assembly import reads_series_alone
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.models import build_model, model_options
from torch_grama.experiments.settings import check_settings
from torch_grama.training.input_stage import InputStage


def build_for_graphs(word, pooling):
    torch.manual_seed(1)
    extra = {"num_nodes": 9} if word == "resnet-adj" else {}
    return build_model(word, 5, 24, 3, 2, "graph", pooling=pooling, **extra).eval()


@pytest.mark.parametrize("word", MODELS)
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
    assert isinstance(model, InputStage)
    x, edges = torch.ones(4000, 5), torch.zeros(2, 0, dtype=torch.long)
    seen = model.prepare(x, edges)[0]
    assert set(seen.unique().tolist()) == {0.0, 2.0}
    assert float(seen.mean()) == pytest.approx(1.0, abs=0.05)
    model.eval()
    assert torch.equal(model.prepare(x, edges)[0], x)
    assert not isinstance(build_model("mlp-1", 5, 8, 3), InputStage)


@pytest.mark.parametrize("word", ["grama", "gcn", "sgc-1", "a3t-gcn", "gmn"])
def test_they_are_settings_of_a_run(word):
    options = model_options(word)
    assert options["input_dropout"].default == 0.0
    assert options["pooling"].default == "mean"
    assert options["pooling"].help
    read = check_settings(
        (
            "on the command line",
            {"model.name": word, "model.input_dropout": "0.3", "model.pooling": "sum-max-mean"},
        )
    )
    assert read["model.input_dropout"] == 0.3
    with pytest.raises(ValueError, match="one of 'mean'"):
        check_settings(("here", {"model.name": word, "model.pooling": "meen"}))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="'input_dropout' to be at least 0 and below 1"):
        build_model("gcn", 5, 8, 3, 2, input_dropout=1.0)
    for word in ("gcn", "grama-gcn", "sgc"):
        with pytest.raises(ValueError, match=r"only with (readout|level)='graph'"):
            build_model(word, 5, 8, 3, 2, "node", pooling="sum")
