import json
from dataclasses import replace

import pytest
import torch
from analysis_graphs import MessagePassingStack, Stage, grama, grama_for_graphs, graph, grid_edges
from torch import nn
from torch_geometric.data import Batch, Data

from torch_grama.analysis import (
    AnalysisSettings,
    ModelInput,
    Predictions,
    analyze,
    analyze_blocks,
    influence_by_distance,
    measure_smoothness,
    read_analysis,
    write_analysis,
)
from torch_grama.analysis.run_analysis import choose_graphs
from torch_grama.nn import GRAMA


def graphs(count):
    return [graph(3 + index % 4, seed=index) for index in range(count)]


def test_parts_equal_the_functions_that_make_them():
    model, parts = Stage(grama()), graphs(3)
    found = analyze(model, parts, compare={"walks": MessagePassingStack(2)})
    chosen = [parts[index] for index in found.graphs]
    assert sorted(found.graphs) == [0, 1, 2]
    assert found.num_nodes == [part.num_nodes for part in chosen]
    assert found.blocks == analyze_blocks(model, chosen)
    assert found.influence["model"] == influence_by_distance(model, chosen)
    assert found.influence["walks"] == influence_by_distance(MessagePassingStack(2), chosen)
    assert found.smoothness["model"] == measure_smoothness(model, chosen)
    assert found.smoothness["walks"].labels == ["layer 1", "layer 2"]
    assert found.example.graph in found.graphs
    assert found.errors is None


@pytest.mark.slow
def test_round_trip_and_size(tmp_path):
    predictions = Predictions("regression", torch.randn(900, 2), torch.randn(900, 2))
    settings = AnalysisSettings(seed=4)
    parts = [graph(40, seed=index) for index in range(60)]
    torch.manual_seed(0)
    model = GRAMA(3, 4, 2, seq_len=8, num_blocks=2).double()
    found = analyze(model, parts, predictions=predictions, settings=settings)
    path = tmp_path / "analysis.json"
    write_analysis(found, path)
    assert read_analysis(path) == found
    assert path.stat().st_size < 300_000
    content = json.loads(path.read_text())
    assert content["schema_version"] == 3
    assert content["settings"]["seed"] == 4
    assert len(found.graphs) == 32
    assert found.num_graphs == 60


def test_the_same_seed_gives_the_same_analysis_and_leaves_all_as_it_was():
    model, parts = grama(dropout=0.5).train(), graphs(5)
    settings = AnalysisSettings(max_graphs=2, seed=3)
    state = torch.get_rng_state()
    first, second = (analyze(model, parts, settings=settings) for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    other = analyze(model, parts, settings=AnalysisSettings(max_graphs=2, seed=4))
    assert other != first


def test_pyg_batches_parts_and_progress():
    data = [Data(x=part.x, edge_index=part.edge_index) for part in graphs(3)]
    heard = []
    found = analyze(
        grama_for_graphs(),
        Batch.from_data_list(data),
        settings=AnalysisSettings(closed_loop=False, example_nodes=0),
        report=heard.append,
    )
    assert found.num_graphs == 3
    assert found.example is None
    assert all(block.closed_loop is None for block in found.blocks)
    assert heard == list(found.seconds)
    assert heard[0] == "dynamics of the blocks"


@pytest.mark.parametrize("pooling", ["mean", "sum", "max", "sum-max-mean"])
def test_every_pooling_is_analysed(pooling):
    found = analyze(grama_for_graphs(pooling), graphs(3))
    assert found.influence["model"].total[0] > 0
    assert len(found.blocks) == 2


def test_other_models_have_influence_smoothness_and_errors():
    parts = graphs(1)
    num_nodes = parts[0].num_nodes
    predictions = Predictions(
        "classification",
        torch.randn(num_nodes, 2),
        torch.zeros(num_nodes, dtype=torch.long),
        anchors=torch.arange(num_nodes) == 0,
    )
    found = analyze(MessagePassingStack(3), parts, predictions=predictions)
    assert found.blocks == []
    assert found.example is None
    assert len(found.smoothness["model"].energy) == 3
    assert found.influence["model"].exact
    assert found.errors.classes.support == [num_nodes, 0]
    assert found.errors.by_distance.num_nodes[0] == 1

    class Plain(nn.Module):
        def forward(self, x, *_):
            return x.tanh()

    assert analyze(Plain(), parts).smoothness == {}


def test_graphs_are_chosen_within_the_limits():
    parts = [*graphs(6), ModelInput(torch.zeros(0, 3), torch.zeros(2, 0, dtype=torch.long))]
    assert len(choose_graphs(parts, 4, 10**6, seed=0)) == 4
    assert 6 not in choose_graphs(parts, 99, 10**6, seed=0)
    assert len(choose_graphs(parts, 99, 1, seed=0)) == 1
    few = choose_graphs(parts, 99, 30, seed=0)
    assert sum(parts[i].num_nodes + parts[i].edge_index.size(1) for i in few) <= 30
    with pytest.raises(ValueError, match="at least one graph with nodes"):
        choose_graphs(parts[6:], 4, 10, seed=0)


@pytest.mark.slow
def test_a_large_graph_is_sampled(monkeypatch):
    monkeypatch.setattr("torch_grama.analysis.run_analysis._SAMPLED_SIZE", 4_000)
    torch.manual_seed(0)
    inputs = ModelInput(torch.randn(40 * 40, 3), grid_edges(40))
    model = GRAMA(3, 8, 2, seq_len=2, num_blocks=2)
    found = analyze(model, inputs)
    influence = found.influence["model"]
    assert not influence.exact
    assert influence.num_samples == 32 * 4_000 // (40 * 40 + inputs.edge_index.size(1))
    assert influence.num_nodes[1] == pytest.approx(8, abs=3)
    assert influence.total_error[1] > 0
    assert len(found.example.nodes) == 60
    assert found.example.num_probes == 2


@pytest.mark.slow
def test_the_spread_of_influence_keeps_to_its_work():
    torch.manual_seed(0)
    model = GRAMA(3, 4, 2, seq_len=2, num_blocks=1).double()
    settings = AnalysisSettings(closed_loop=False, num_samples=2)
    small = analyze(model, graph(30), settings=settings).example
    assert (small.num_probes, len(small.sources)) == (None, 30)
    medium = analyze(model, graph(2000), settings=settings).example
    assert len(medium.sources) * medium.num_probes * (2000 + 2 * 1999) <= 40_000
    assert len(medium.sources) > 1


def test_unusable_arguments(tmp_path):
    with pytest.raises(ValueError, match="other names than 'model'"):
        analyze(grama(), graph(3), compare={"model": grama()})
    with pytest.raises(ValueError, match="'max_graphs' to be at least 1"):
        AnalysisSettings(max_graphs=0)
    path = tmp_path / "analysis.json"
    for text in ("[]", "{}", '{"schema_version": 99}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"analysis of version 3 in .*analysis.json"):
            read_analysis(path)
    for text in ("", "{", '{"schema_version": NaN}', "[1, 2"):
        path.write_text(text)
        with pytest.raises(ValueError, match="analyse the run again"):
            read_analysis(path)
    path.write_text('{"schema_version": 3}')
    with pytest.raises(ValueError, match="missing: "):
        read_analysis(path)


def test_a_number_that_json_cannot_say_leaves_the_old_file(tmp_path):
    found = analyze(MessagePassingStack(1), graph(3))
    path = tmp_path / "new" / "analysis.json"
    write_analysis(found, path)
    broken = replace(found.influence["model"], beyond=float("inf"))
    with pytest.raises(ValueError, match="JSON"):
        write_analysis(replace(found, influence={"model": broken}), path)
    assert read_analysis(path) == found
    assert len(list(path.parent.iterdir())) == 1


def test_the_task_stands_beside_the_model():
    inputs = [graph(6), graph(9)]

    def far_end(x, edge_index):
        matrix = torch.zeros(len(x), len(x))
        matrix[:, 0] = 1  # every node asks for the first
        return matrix

    found = analyze(MessagePassingStack(2), inputs, task=far_end)
    expected = sum(sum(range(n)) / n for n in (6, 9)) / 2
    assert found.influence["the task"].influence_range == pytest.approx(expected, rel=1e-4)
