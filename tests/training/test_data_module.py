"""What the training loop gets to see."""

import dataclasses

import pytest
import torch
from training_cases import forecast_task, graph_task, node_regression_task, node_task, train

from torch_grama.datasets.task_data import Fold
from torch_grama.training import (
    GraphDataModule,
    TrainerSettings,
    evaluation_loader,
    prediction_loader,
)
from torch_grama.training.data_module import without_test
from torch_grama.training.graph_batch import PackedGraphs
from torch_grama.training.loaders import BatchPlan, EpochLoader, GraphBatches, mix_seed


def test_a_node_task_hides_the_targets_of_all_other_nodes():
    data = node_task()
    fold = data.folds[0]
    seen = without_test(data, 0)
    hidden = ~(fold.train | fold.val)
    assert bool((seen.graphs[0].y[hidden] == -1).all())
    assert torch.equal(seen.graphs[0].y[~hidden], data.graphs[0].y[~hidden])
    assert torch.equal(seen.graphs[0].x, data.graphs[0].x)
    assert not bool(seen.folds[0].test.any())
    assert bool((data.graphs[0].y >= 0).all())  # the data set itself is as it was


def test_a_graph_task_leaves_the_test_graphs_out():
    data = graph_task()
    seen = without_test(data, 0)
    fold = data.folds[0]
    assert len(seen.graphs) == len(fold.train) + len(fold.val)
    for number, original in zip(seen.folds[0].val.tolist(), fold.val.tolist(), strict=True):
        assert seen.graphs[number] is data.graphs[original]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["node", "graph"])
def test_poisoned_test_targets_change_nothing(tmp_path, level):
    data = node_task() if level == "node" else graph_task()
    clean, task = train(tmp_path / "clean", data, max_epochs=3)
    graphs = [graph.clone() for graph in data.graphs]
    test = data.folds[0].test
    for graph in graphs if level == "node" else [graphs[number] for number in test.tolist()]:
        y = graph["y"].float()
        y[test if level == "node" else ...] = torch.nan
        graph["y"] = y if level == "graph" else torch.where(y.isnan(), 10**6, y).long()
        if level == "graph":
            graph["x"] = torch.full_like(graph["x"], torch.nan)
    data = dataclasses.replace(data, graphs=graphs)
    poisoned, other = train(tmp_path / "poisoned", data, max_epochs=3)
    assert clean.best_value == poisoned.best_value
    for name, value in task.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])


def test_a_whole_graph_is_the_same_object_every_epoch():
    module = GraphDataModule(node_task())
    loader = module.train_dataloader()
    (first,), (second,) = list(loader), list(loader)
    assert first is second
    fold = node_task().folds[0]
    assert torch.equal(first.rows, fold.train.nonzero().reshape(-1))
    assert torch.equal(first.y, node_task().graphs[0].y[fold.train])
    moved = module.transfer_batch_to_device(first, torch.device("meta"), 0)
    assert moved.x.device.type == "meta"
    (third,) = list(loader)
    assert third is moved  # it stays where it was moved to
    assert str(module) == "GraphDataModule(nodes, fold=0, loader=full)"


def test_quantities_of_a_graph_stay_a_row():
    graphs = [graph_task().graphs[number].clone() for number in (0, 1)]
    for graph in graphs:
        graph["y"] = torch.tensor([1.0, 2.0, 3.0])
    batch = PackedGraphs(graphs, "graph").batch(torch.arange(2))
    assert batch.y.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert (batch.batch_size, batch.num_nodes, batch.num_edges) == (2, 7, 21)


def test_label_mask_and_equal_graphs_in_node_quantities():
    data = node_regression_task()
    module = GraphDataModule(data, 0, TrainerSettings(batch_size=3, shuffle=False))
    batch = next(iter(module.train_dataloader()))
    masks = torch.cat([data.graphs[number].label_mask for number in range(3)])
    assert torch.equal(batch.rows, masks.nonzero().reshape(-1))
    assert bool(batch.y.isfinite().all())
    sums = torch.zeros(3).index_add(0, batch.batch[batch.rows], batch.weight)
    assert torch.allclose(sums, torch.ones(3))


def test_label_mask_of_a_single_graph():
    data = node_task()
    data.graphs[0]["label_mask"] = torch.arange(40) < 10
    (batch,) = list(GraphDataModule(data).train_dataloader())
    assert batch.rows.max() < 10


def test_forecasts_keep_the_order_of_time():
    data = forecast_task()
    module = GraphDataModule(data, 0, TrainerSettings(batch_size=1))
    seen = [batch.y for batch in module.train_dataloader()]
    assert len(seen) == module.steps_per_epoch == 8
    assert all(torch.equal(y, data.graphs[number].y) for number, y in enumerate(seen))


def test_order_depends_on_seed_and_epoch_alone():
    plan = BatchPlan(10, 4, seed=5, shuffle=True)
    assert [part.tolist() for part in plan.parts(3)] == [p.tolist() for p in plan.parts(3)]
    assert [part.tolist() for part in plan.parts(3)] != [p.tolist() for p in plan.parts(4)]
    assert sorted(torch.cat(plan.parts(3)).tolist()) == list(range(10))
    other = BatchPlan(10, 4, seed=6, shuffle=True)
    assert torch.cat(plan.parts(3)).tolist() != torch.cat(other.parts(3)).tolist()
    assert len({mix_seed(a, b) for a in range(30) for b in range(30)}) == 900


def test_a_loader_starts_in_the_middle():
    data = graph_task()
    source = GraphBatches(
        data.graphs, torch.arange(20), "graph", BatchPlan(20, 4, seed=1, shuffle=True)
    )
    loader = EpochLoader(source, lambda: 7)
    whole = [batch.y.tolist() for batch in loader]
    iterator = iter(loader)
    next(iterator), next(iterator)
    again = EpochLoader(source, lambda: 7)
    again.load_state_dict(loader.state_dict())
    assert [batch.y.tolist() for batch in again] == whole[2:]
    assert [batch.y.tolist() for batch in again] == whole  # the next epoch is whole


@pytest.mark.slow
def test_workers_hand_out_the_same_batches_and_leave_random_numbers_alone():
    data = graph_task()
    plans = BatchPlan(20, 4, seed=1, shuffle=True)
    alone = GraphBatches(data.graphs, torch.arange(20), "graph", plans)
    helped = GraphBatches(data.graphs, torch.arange(20), "graph", plans, num_workers=1)
    before = torch.get_rng_state()
    for one, two in zip(alone.batches(3, 1), helped.batches(3, 1), strict=True):
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.y, two.y)
    assert torch.equal(torch.get_rng_state(), before)


def test_evaluation_and_prediction_loaders():
    data = graph_task()
    (test,) = list(evaluation_loader(data, 0, "test"))
    assert test.y.tolist() == [int(data.graphs[int(n)].y) for n in data.folds[0].test]
    everything = list(prediction_loader(data, TrainerSettings(batch_size=8)))
    assert [batch.batch_size for batch in everything] == [8, 8, 8, 6]
    assert all(batch.y is None for batch in everything)
    (whole,) = list(prediction_loader(node_task()))
    assert (whole.rows, whole.y) == (None, None)
    with pytest.raises(ValueError, match=r"'test', .*got 'tets'"):
        evaluation_loader(data, 0, "tets")


def test_what_does_not_fit_is_refused():
    data = node_task()
    with pytest.raises(ValueError, match="'fold' to lie from 0 to 0, 'nodes' has 1"):
        GraphDataModule(data, 1)
    with pytest.raises(ValueError, match=r"'trainer\.loader' for one graph"):
        GraphDataModule(data, 0, TrainerSettings(loader="graphs"))
    with pytest.raises(ValueError, match=r"'trainer\.loader' for 24 graphs"):
        GraphDataModule(graph_task(), 0, TrainerSettings(loader="subgraphs"))
    with pytest.raises(ValueError, match="mini-batches for 2 devices"):
        GraphDataModule(data, 0, TrainerSettings(devices=2))
    fold = data.folds[0]
    empty = dataclasses.replace(
        data, folds=[Fold(fold.train, torch.zeros_like(fold.val), fold.test)]
    )
    with pytest.raises(ValueError, match="Expected samples in the 'val' part of 'nodes'"):
        GraphDataModule(empty)
