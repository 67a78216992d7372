"""Defaults by task, what they leave to the user, and the models they assemble."""

import dataclasses
import json

import pytest
import torch
from model_words import each_model
from sample_data import write_graph_file, write_node_folder

from torch_grama.datasets import FeatureEncoding, Metric
from torch_grama.experiments.catalogue import MODELS
from torch_grama.experiments.config import ConfigError, DataConfig, ModelConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import assemble_model, count_parameters, reads_series_alone
from torch_grama.experiments.run import build_task
from torch_grama.experiments.settings import flatten, resolve_config
from torch_grama.runs.run_folder import RunError

FLOAT = FeatureEncoding("float", 5)
NONE = FeatureEncoding("none", 0)
NODES = DataFacts("node", "classification", Metric("accuracy", True), 3, FLOAT, NONE, 1, 5.0)
MOLECULES = DataFacts(
    "graph",
    "multilabel",
    Metric("average_precision", True),
    10,
    FeatureEncoding("ogb_atom", 9),
    FeatureEncoding("ogb_bond", 3),
    100,
    parameter_budget=500_000,
)
SERIES = DataFacts(
    "node", "forecast", Metric("mse", False), 1, FeatureEncoding("float", 1), NONE, 50, seq_len=4,
    has_edge_weight=True,
)  # fmt: skip
WEIGHTED = DataFacts(
    "node", "regression", Metric("mae", False), 1, FLOAT, FLOAT, 1, 5.0, has_edge_weight=True
)
ENCODED = DataFacts(
    "graph", "regression", Metric("mae", False), 1, FeatureEncoding("categorical", 1, (28,)),
    FeatureEncoding("categorical", 1, (4,)), 9, pe_channels=6, num_eigenvectors=2,
)  # fmt: skip
ALL = {"nodes": NODES, "molecules": MOLECULES, "series": SERIES, "weighted": WEIGHTED,
       "encoded": ENCODED}  # fmt: skip


def inputs(facts: DataFacts):
    """Two graphs that look like the data set."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 0, 3, 2, 3, 0]])

    def features(encoding, rows):
        if encoding.kind == "none":
            return None
        if encoding.kind == "float":
            return torch.randn(rows, encoding.num_columns)
        return torch.ones(rows, encoding.num_columns, dtype=torch.long)

    x = features(facts.node_encoding, 5)
    if facts.seq_len:
        x = torch.randn(5, facts.seq_len, facts.node_encoding.num_columns)
    return {
        "x": x,
        "edge_index": edges,
        "edge_weight": torch.rand(6) + 0.5 if facts.has_edge_weight else None,
        "edge_attr": features(facts.edge_encoding, 6),
        "batch": torch.tensor([0, 0, 1, 1, 1]),
        "batch_size": 2,
        "pe": torch.randn(5, facts.pe_channels) if facts.pe_channels else None,
    }


def refusal(word: str, facts: DataFacts) -> str:
    """What a model says of data that it is not made for."""
    if reads_series_alone(word) and not facts.seq_len:
        return "Expected a series on every node"
    # weights for each node need one graph, a compatibility matrix needs classes
    needs = {"resnet-adj": facts.num_graphs == 1, "cpgnn": facts.num_outputs > 1}
    return "" if needs.get(word, True) else f"the model '{word}'"


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore:The model .* does not use edge weights")
@pytest.mark.parametrize("word", each_model())
@pytest.mark.parametrize("kind", ALL)
def test_every_model_reads_every_kind_of_data(word, kind):
    facts = ALL[kind]
    config = resolve_config(
        {"data.name": "x", "model.name": word, "model.hidden_channels": 8}, facts
    )
    torch.manual_seed(0)
    if message := refusal(word, facts):
        with pytest.raises(ConfigError, match=message):
            assemble_model(config.model, facts, facts.num_outputs)
        return
    stage = assemble_model(config.model, facts, facts.num_outputs)
    out = stage(**inputs(facts))
    rows = 2 if facts.level == "graph" else 5
    assert out.size() == (rows, facts.num_outputs)
    assert out.isfinite().all()


def test_the_default_is_grama_with_gates():
    config = resolve_config({"data.name": "x"}, NODES)
    assert (config.model.name, config.model.options["backbone"]) == ("grama", "gatedgcn")
    assert config.model.options["gain"] == "auto"
    assert config.model.options["act"] == "relu"
    assert config.schedule.name == "cosine"


def test_graph_targets_get_few_recurrences_more_blocks_and_a_norm():
    options = resolve_config({"data.name": "x"}, MOLECULES).model.options
    assert options["seq_len"] < options["num_blocks"]
    assert options["norm"] == "batch_norm"
    model = assemble_model(resolve_config({"data.name": "x"}, MOLECULES).model, MOLECULES, 10)
    assert count_parameters(model) <= MOLECULES.parameter_budget


def test_forecasts_use_the_series_as_the_sequence():
    config = resolve_config({"data.name": "x"}, SERIES)
    assert assemble_model(config.model, SERIES, 1).model.seq_len == 4


def test_what_the_user_sets_stays():
    settings = {"data.name": "x", "model.num_layers": 6, "optimizer.lr": 0.5, "seed": 7,
                "trainer.max_epochs": 20}  # fmt: skip
    config = resolve_config(settings, NODES)
    assert assemble_model(config.model, NODES, 3).model.num_blocks == 2
    assert config.model.options["seq_len"] is None
    assert (config.optimizer.lr, config.seed, config.trainer.max_epochs) == (0.5, 7, 20)
    assert config.schedule.warmup_epochs == 2
    # the first epoch of a warm-up hardly learns
    short = resolve_config(settings | {"trainer.max_epochs": 19}, NODES)
    assert short.schedule.warmup_epochs == 0
    plateau = resolve_config({"data.name": "x", "schedule.name": "plateau"}, NODES)
    assert plateau.schedule.warmup_epochs == 0


def test_every_option_of_the_model_is_stated():
    config = resolve_config({"data.name": "x"}, NODES)
    again = resolve_config(flatten(config.to_dict()), NODES)
    assert again.model == config.model
    assert "constraint" in config.model.options


def test_weights_reach_a_model_that_reads_attributes_alone():
    config = resolve_config({"data.name": "x", "model.hidden_channels": 8}, WEIGHTED)
    stage = assemble_model(config.model, WEIGHTED, 1).eval()
    given = inputs(WEIGHTED)
    out = stage(**given)
    assert not torch.allclose(out, stage(**given | {"edge_weight": given["edge_weight"] * 3}))


def test_impossible_models_are_named():
    with pytest.raises(ConfigError, match=r"'model.hidden_channels' to be at least 1"):
        assemble_model(ModelConfig("grama", 0), NODES, 3)
    with pytest.raises(ConfigError, match=r"num_blocks times .*\(the model 'grama'\)"):
        assemble_model(ModelConfig("grama", 8, {"num_layers": 7, "num_blocks": 2}), NODES, 3)
    bare = DataFacts("node", "classification", Metric("accuracy", True), 2, NONE, NONE, 1)
    with pytest.raises(ConfigError, match=r"add degrees with `--data.local_degrees true`"):
        assemble_model(ModelConfig("grama", 8), bare, 2)


def test_facts_survive_their_file(tmp_path):
    path = tmp_path / "data.json"
    for facts in ALL.values():
        facts.save(path)
        assert DataFacts.load(path) == facts
    path.write_text("{}")
    with pytest.raises(RunError, match="the run is damaged"):
        DataFacts.load(path)


def test_facts_are_read_off_the_data(tmp_path):
    folder = write_node_folder(tmp_path / "own", weights=True)
    data = load_data(DataConfig(str(folder), rwse=3, lap_pe=2, root=str(tmp_path / "cache")))
    facts = DataFacts.of(data)
    assert (facts.level, facts.kind, facts.num_outputs) == ("node", "classification", 2)
    assert (facts.pe_channels, facts.num_eigenvectors) == (5, 2)
    assert (facts.has_edge_weight, facts.seq_len) == (True, 0)
    assert facts.class_names == ("left", "right")
    assert facts.feature_names == ("height", "colour=blue", "colour=red")
    assert facts.mean_nodes == 60
    graphs = load_data(DataConfig(str(write_graph_file(tmp_path / "g.jsonl"))))
    assert DataFacts.of(graphs).num_graphs == 40
    generated = load_data(DataConfig("transfer-line-3"))
    assert DataFacts.of(generated).mean_nodes == 4


def test_bad_folds_and_options_are_named(tmp_path):
    folder = str(write_node_folder(tmp_path / "own"))
    with pytest.raises(ConfigError, match=r"'data.fold' to be 0: .* has 1 fold \(got 2\)"):
        load_data(DataConfig(folder, fold=2))
    with pytest.raises(ConfigError, match="Expected 'level' to be one of"):
        load_data(DataConfig(folder, options={"level": "knot"}))


def test_own_features_and_quantities_are_standardised(tmp_path):
    path = tmp_path / "graphs.jsonl"
    lines = [
        {"x": [[1000.0 + i, 1.0], [2000.0 - i, 0.0]], "edges": [[0, 1]], "label": 1e6 + 500.5 * i}
        for i in range(12)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    data = load_data(DataConfig(str(path)))
    facts = DataFacts.of(data)
    config = resolve_config({"data.name": str(path), "model.hidden_channels": 8}, facts)
    assert config.data.standardize
    stage = build_task(config, facts, data).model
    train = data.folds[0].train
    targets = torch.cat([data.graphs[int(i)].y for i in train])
    features = torch.cat([data.graphs[int(i)].x for i in train])
    torch.testing.assert_close(stage.output_scale.mean, targets.mean(0), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(stage.node_scale.mean[0], features[:, 0].mean())
    assert (stage.node_scale.mean[1], stage.node_scale.scale[1]) == (0, 1)  # a flag
    assert not resolve_config({"data.name": "cora"}, NODES).data.standardize
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, standardize="largest")
    )
    stage = build_task(config, facts, data).model
    assert stage.node_scale is None
    assert (stage.output_scale.mean, stage.output_scale.scale) == (0, targets.max())


def test_graphs_without_edge_features_get_a_backbone_that_sees_degrees():
    small = DataFacts("graph", "classification", Metric("accuracy", True), 2, FLOAT, NONE, 9, 20.0)
    large = dataclasses.replace(small, mean_nodes=5000.0)
    found = [resolve_config({"data.name": "x"}, facts).model.options["backbone"]
             for facts in (small, large, MOLECULES)]  # fmt: skip
    assert found == ["gps", "gcn", "gatedgcn"]


@pytest.mark.parametrize("word", ["grama-gcn", "grama-gin", "grama-gps-performer"])
def test_a_word_that_names_a_backbone_keeps_it(word):
    for facts in ALL.values():
        options = resolve_config({"data.name": "x"} | {"model.name": word}, facts).model.options
        assert {name: options[name] for name in MODELS[word].defaults} == MODELS[word].defaults
