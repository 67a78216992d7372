"""Neighbour sampling in plain torch."""

import importlib.util
import resource
import time

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph
from training_cases import node_task, read_rows, train

from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.training import (
    GraphDataModule,
    OptimizerSettings,
    TrainerSettings,
    evaluate,
    evaluation_loader,
    predict,
    prediction_loader,
)
from torch_grama.training.loaders import BatchPlan
from torch_grama.training.subgraphs import NeighborTable, SubgraphBatches


def random_edges(num_nodes=50, num_edges=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(num_nodes, (2, num_edges), generator=generator)


def test_all_neighbours_are_the_incoming_edges():
    edge_index = random_edges()
    table = NeighborTable(edge_index, 50)
    nodes = torch.tensor([7, 3, 49])
    owner, source, edge = table.draw(nodes, -1, torch.Generator())
    assert torch.equal(edge_index[0, edge], source)
    assert torch.equal(edge_index[1, edge], nodes[owner])
    for position, node in enumerate(nodes.tolist()):
        expected = (edge_index[1] == node).nonzero().reshape(-1)
        assert torch.equal(edge[owner == position].sort().values, expected)


@pytest.mark.parametrize("count", [1, 3, 8, 100])
def test_drawn_neighbours_are_distinct_edges_and_no_more_than_asked(count):
    edge_index = random_edges()
    table = NeighborTable(edge_index, 50)
    degree = torch.bincount(edge_index[1], minlength=50)
    owner, source, edge = table.draw(torch.arange(50), count, torch.Generator().manual_seed(1))
    assert len(edge.unique()) == len(edge)
    assert torch.equal(edge_index[1, edge], owner)
    assert torch.equal(edge_index[0, edge], source)
    assert torch.equal(torch.bincount(owner, minlength=50), degree.clamp(max=count))


def test_every_neighbour_is_drawn_as_often():
    edge_index = torch.stack([torch.arange(1, 11), torch.zeros(10, dtype=torch.long)])
    table = NeighborTable(edge_index, 11)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([table.draw(torch.zeros(1).long(), 3, generator)[2] for _ in range(1000)])
    share = torch.bincount(drawn, minlength=10) / 1000
    assert torch.allclose(share, torch.full((10,), 0.3), atol=0.07)


def build_source(count, hops, **options):
    data = node_task().graphs[0]
    data["edge_weight"] = torch.rand(data.edge_index.size(1))
    starts = torch.tensor([0, 5, 9, 13, 30])
    plan = BatchPlan(5, 3, seed=1, shuffle=True)
    return data, SubgraphBatches(data, starts, plan, [count] * hops, **options)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_with_all_neighbours_it_is_the_surrounding_within_the_hops(hops):
    data, source = build_source(-1, hops)
    for part, batch in zip(source.plan.parts(0), source.batches(0, 0), strict=True):
        begin = source.starts[part]
        nodes, _, _, _ = k_hop_subgraph(begin, hops, data.edge_index)
        # features of random numbers tell which node is which
        number = {tuple(row): index for index, row in enumerate(data.x.tolist())}
        ours = torch.tensor([number[tuple(row)] for row in batch.x.tolist()])
        assert torch.equal(ours.sort().values, nodes)
        assert torch.equal(ours[: len(begin)], begin)
        assert torch.equal(batch.y, data.y[begin])
        weight = {
            (int(u), int(v), float(w))
            for u, v, w in zip(*data.edge_index, data.edge_weight, strict=True)
        }
        edges = zip(*ours[batch.edge_index], batch.edge_weight, strict=True)
        assert all((int(u), int(v), float(w)) in weight for u, v, w in edges)
        # the first hop is complete
        inner = torch.isin(data.edge_index[1], begin).sum()
        assert torch.isin(batch.edge_index[1], torch.arange(len(begin))).sum() == inner


def test_draws_depend_on_seed_epoch_and_batch_alone():
    _, source = build_source(2, 2)
    _, again = build_source(2, 2)
    torch.manual_seed(123)
    first = list(source.batches(4, 0))
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again.batches(4, 0), strict=True))
    assert torch.equal(first[1].x, next(iter(again.batches(4, 1))).x)
    later = list(source.batches(5, 0))
    assert any(
        a.x.size() != b.x.size() or not torch.equal(a.x, b.x)
        for a, b in zip(first, later, strict=True)
    )
    _, fixed = build_source(2, 2, fixed_epoch=9)
    one, two = list(fixed.batches(0, 0)), list(fixed.batches(1, 0))
    assert all(torch.equal(a.x, b.x) for a, b in zip(one, two, strict=True))


COMPILED = any(importlib.util.find_spec(name) for name in ("pyg_lib", "torch_sparse"))


@pytest.mark.skipif(COMPILED, reason="a compiled sampler is installed")
def test_compiled_sampler_is_asked_for_by_name():
    with pytest.raises(ValueError, match="pyg-lib or torch-sparse"):
        build_source(2, 2, sampler="pyg")


@pytest.mark.skipif(not COMPILED, reason="needs pyg-lib or torch-sparse")
def test_compiled_sampler_finds_the_same_surrounding():
    _, ours = build_source(-1, 2, sampler="torch")
    _, theirs = build_source(-1, 2, sampler="pyg")
    for one, two in zip(ours.batches(0, 0), theirs.batches(0, 0), strict=True):
        assert torch.equal(one.y, two.y)
        assert sorted(one.x.tolist()) == sorted(two.x.tolist())
        assert one.num_edges == two.num_edges


def test_subgraphs_train_and_whole_or_partial_evaluation_agree(tmp_path):
    data = node_task(200)
    options = {"loader": "subgraphs", "num_neighbors": (-1,), "batch_size": 32}
    settings = TrainerSettings(**options)
    assert GraphDataModule(data, 0, settings).steps_per_epoch == 4
    rate = OptimizerSettings(lr=0.02)
    outcome, task = train(tmp_path, data, optimizer=rate, max_epochs=8, patience=None, **options)
    losses = [float(row["train/loss"]) for row in read_rows(outcome)]
    assert losses[-1] < 0.9 * losses[0]
    whole = evaluate(task, evaluation_loader(data, 0, "test", settings))
    # one layer and all neighbours of one hop: nothing is missing in a subgraph
    parts = TrainerSettings(subgraph_evaluation="subgraphs", **options | {"batch_size": 7})
    partial = evaluate(task, evaluation_loader(data, 0, "test", parts))
    assert partial["accuracy"] == whole["accuracy"]
    assert partial["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    predictions = predict(task, prediction_loader(data, settings))
    assert torch.allclose(predict(task, prediction_loader(data, parts)), predictions, atol=1e-5)


def large_task(num_nodes, num_edges):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, 16, generator=generator)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    part = torch.randint(4, (num_nodes,), generator=generator)
    data = Data(x=x, edge_index=edge_index, y=(x[:, :4]).argmax(dim=1))
    fold = Fold(part == 0, part == 1, part > 1)
    metric, encoding = Metric("accuracy", True), FeatureEncoding("float", 16)
    return GraphTaskData("large", [data], [fold], "node", "classification", metric, 4, encoding)


@pytest.mark.long
def test_a_million_nodes_and_ten_million_edges_within_16_gib(tmp_path):
    from torch_grama import GRAMA

    data = large_task(1_000_000, 10_000_000)
    options = {"loader": "subgraphs", "batch_size": 4096, "num_neighbors": (5, 5)}
    torch.manual_seed(0)
    model, rate = GRAMA(16, 32, 4, seq_len=2, num_blocks=1), OptimizerSettings(lr=0.005)
    start = time.monotonic()
    outcome, task = train(tmp_path, data, model, rate, max_epochs=1, report="plain", **options)
    value = evaluate(task, evaluation_loader(data, 0, "test", TrainerSettings(**options)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.monotonic() - start:.0f} s, peak {peak:.1f} GiB, test {value}")
    assert outcome.best_value > 0.5
    assert peak < 16
