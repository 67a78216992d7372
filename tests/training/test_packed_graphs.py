"""Packed graphs against their plain twin, and where they lie."""

import dataclasses
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_collate import collate
from torch_geometric.data import Data
from training_cases import SmallNet, graph_task, node_regression_task

from torch_grama.training import (
    GraphDataModule,
    GraphTask,
    TrainerSettings,
    evaluate,
    evaluation_loader,
    predict,
    prediction_loader,
)
from torch_grama.training import loaders as loaders_file
from torch_grama.training.graph_batch import PackedGraphs
from torch_grama.training.loaders import BatchPlan, GraphBatches

OPTIONAL = ("edge_weight", "edge_attr", "rwse", "lap_vectors", "label_mask")


def assert_same(ours, theirs):
    for field in dataclasses.fields(theirs):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(other, torch.Tensor):
            assert one.dtype == other.dtype, field.name
            assert one.is_contiguous(), field.name
            assert one.size() == other.size(), field.name
            # NaN stands for what is missing, and must stay where it is
            assert torch.allclose(one, other, rtol=0, atol=0, equal_nan=True), field.name
        else:
            assert one == other, field.name


@st.composite
def graph_sets(draw):
    """Graphs with nodes, edges, labels or none, of any set of features."""
    level = draw(st.sampled_from(["node", "graph"]))
    names = draw(st.sets(st.sampled_from(OPTIONAL)))
    classes, wide = draw(st.booleans()), draw(st.booleans())
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.int64]))
    index_dtype = draw(st.sampled_from([torch.int64, torch.int32]))
    steps = draw(st.sampled_from([(), (2,)]))
    sizes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 7)), min_size=1, max_size=6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))

    def number(*shape):
        return torch.rand(*shape, generator=generator)

    graphs = []
    for nodes, edges in sizes:
        features = {
            "edge_weight": number(edges),
            "edge_attr": (9 * number(edges, 2)).long(),
            "rwse": number(nodes, 3),
            "lap_vectors": torch.where(number(nodes, 2) < 0.3, torch.nan, number(nodes, 2)),
            "label_mask": number(nodes) < 0.5,
        }
        rows = nodes if level == "node" else 1
        columns = 3 if wide else 1
        y = (3 * number(rows)).long() if classes else number(rows, columns)
        if level == "graph" and not classes and draw(st.booleans()):
            y = y.reshape(-1)
        graph = Data(
            x=(5 * number(nodes, *steps, 4)).to(dtype),
            edge_index=(nodes * number(2, edges)).to(index_dtype),
            y=y,
        )
        for name in names:
            graph[name] = features[name]
        graphs.append(graph)
    return graphs, level


@settings(max_examples=80, deadline=None)
@given(graph_sets(), st.booleans(), st.booleans(), st.data())
def test_a_batch_is_that_of_the_plain_twin(drawn, each_graph_counts, targets, data):
    graphs, level = drawn
    numbers = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=8))
    options = {"each_graph_counts": each_graph_counts, "targets": targets}
    packed = PackedGraphs(iter(graphs), level, **options)
    assert len(packed) == len(graphs)
    ours = packed.batch(torch.tensor(numbers))
    assert_same(ours, collate([graphs[number] for number in numbers], level, **options))


def test_batches_share_nothing_with_the_pack():
    packed = PackedGraphs(graph_task().graphs, "graph")
    numbers = torch.tensor([0])
    first = packed.batch(numbers)
    for tensor in (first.x, first.edge_index, first.y):
        tensor.zero_()
    assert_same(packed.batch(numbers), collate(graph_task().graphs[:1], "graph"))


def test_targets_are_not_read_where_there_are_none():
    graphs = [graph.clone() for graph in graph_task().graphs[:3]]
    for graph in graphs:
        del graph["y"]
    batch = PackedGraphs(graphs, "graph", targets=False).batch(torch.tensor([2, 0]))
    assert (batch.y, batch.rows, batch.weight) == (None, None, None)
    with pytest.raises(KeyError, match="y"):
        PackedGraphs(graphs, "graph")


def test_no_graph_is_refused_in_words():
    with pytest.raises(ValueError, match=r"one graph or more .* \(got none\)"):
        PackedGraphs([], "graph")
    with pytest.raises(ValueError, match=r"one graph or more .* \(got none\)"):
        PackedGraphs(graph_task().graphs, "graph").batch(torch.tensor([], dtype=torch.long))


def test_a_feature_of_the_first_graph_must_be_in_all():
    graphs = [graph.clone() for graph in graph_task().graphs[:3]]
    graphs[0]["rwse"] = torch.rand(graphs[0].num_nodes, 2)
    with pytest.raises(KeyError, match="rwse"):
        PackedGraphs(graphs, "graph")


def test_size_and_place():
    graphs = [Data(x=torch.zeros(3, 4), edge_index=torch.zeros(2, 5).long(), y=torch.zeros(1, 2))]
    packed = PackedGraphs(graphs * 2, "graph")
    # floats of four bytes, and the ends of edges, which are stored in as many
    # features, edges and targets in 4 bytes; counts and starts of nodes, edges and targets in 8
    assert packed.nbytes == 2 * 4 * (3 * 4 + 2 * 5 + 2) + 2 * 8 * 6
    assert packed.to(torch.device("cpu")) is packed
    moved = packed.to(torch.device("meta"))
    assert moved.device.type == "meta"
    assert packed.device.type == "cpu"
    assert str(packed) == "PackedGraphs(2 graphs, 288 bytes, cpu)"


@pytest.mark.parametrize("task", [graph_task, node_regression_task])
def test_a_batch_on_a_device_reads_nothing_back_from_it(task):
    # a tensor of the meta device has no values: whatever asks for one fails
    data = task()
    packed = PackedGraphs(data.graphs, data.level, each_graph_counts=data.level == "node")
    numbers = torch.tensor([3, 1, 4])
    here, there = packed.batch(numbers), packed.to(torch.device("meta")).batch(numbers)
    for field in dataclasses.fields(here):
        one, other = getattr(here, field.name), getattr(there, field.name)
        if isinstance(one, torch.Tensor):
            assert (one.size(), one.dtype) == (other.size(), other.dtype), field.name
            assert other.device.type == "meta"


class Counted(list):
    """A list that counts how often each of its items is read."""

    def __init__(self, items):
        super().__init__(items)
        self.reads = [0] * len(items)

    def __getitem__(self, index):
        self.reads[index] += 1
        return super().__getitem__(index)


def test_graphs_are_read_once_and_only_those_needed():
    graphs = Counted(graph_task().graphs)
    numbers = torch.tensor([7, 2, 5, 11])
    source = GraphBatches(graphs, numbers, "graph", BatchPlan(4, 2, seed=1, shuffle=True))
    assert len(source) == 2
    assert not any(graphs.reads)
    seen = [batch for epoch in range(3) for batch in source.batches(epoch, 0)]
    assert len(seen) == 6
    assert [number for number, reads in enumerate(graphs.reads) if reads] == [2, 5, 7, 11]
    assert max(graphs.reads) == 1
    source.release()
    for one, other in zip(source.batches(2, 0), seen[4:], strict=True):
        assert_same(one, other)
    assert max(graphs.reads) == 2


def test_order_is_that_of_the_plan():
    data = graph_task()
    numbers = torch.arange(29, -1, -1)
    plan = BatchPlan(30, 7, seed=3, shuffle=True)
    source = GraphBatches(data.graphs, numbers, "graph", plan)
    for batch, part in zip(source.batches(4, 1), plan.parts(4, 1), strict=True):
        assert_same(batch, collate([data.graphs[int(n)] for n in numbers[part]], "graph"))


def test_an_empty_share_counts_nothing():
    data = node_regression_task()
    plan = BatchPlan(1, 1, rank=1, world_size=2)
    source = GraphBatches(data.graphs, torch.tensor([5]), "node", plan, each_graph_counts=True)
    (batch,) = source.batches(0, 0)
    assert torch.equal(batch.x, data.graphs[5].x)
    assert batch.weight.tolist() == [0.0] * int(data.graphs[5].label_mask.sum())
    silent = GraphBatches(data.graphs, torch.tensor([5]), "node", plan, targets=False)
    (batch,) = silent.batches(0, 0)
    assert batch.weight is None


@pytest.mark.parametrize(
    ("limit", "free", "num_workers", "moves"),
    [
        (10**6, 10**6, 0, True),
        (10, 10**6, 0, False),  # too large for any device
        (10**6, 100, 0, False),  # too large for this one
        (10**6, 10**6, 1, False),  # workers cannot use it there
    ],
)
def test_graphs_lie_on_a_device_with_room(monkeypatch, limit, free, num_workers, moves):
    moved = []
    monkeypatch.setattr(loaders_file, "MAX_BYTES_ON_DEVICE", limit)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10**9))
    monkeypatch.setattr(PackedGraphs, "to", lambda self, device: moved.append(device.type) or self)
    source = GraphBatches(
        graph_task().graphs, torch.arange(10), "graph", BatchPlan(10, 4), num_workers=num_workers
    )
    source.place(torch.device("cuda", 0))
    source.batch(torch.tensor([1]))
    source.batch(torch.tensor([2]))
    assert moved == ["cuda" if moves else "cpu"]


def test_evaluation_says_where_batches_are_needed(monkeypatch):
    data = graph_task()
    places = []
    monkeypatch.setattr(GraphBatches, "place", lambda self, device: places.append(device))
    task = GraphTask.for_data(SmallNet(4, 2, "graph"), data)
    evaluate(task, evaluation_loader(data))
    predict(task, prediction_loader(data))
    assert places == [torch.device("cpu")] * 2


def test_a_data_module_travels_without_its_pack():
    module = GraphDataModule(graph_task(), 0, TrainerSettings(batch_size=4))
    before = len(pickle.dumps(module))
    first = module.example()
    assert len(pickle.dumps(module)) == before
    assert_same(pickle.loads(pickle.dumps(module)).example(), first)
    module.teardown("fit")
    assert_same(module.example(), first)


@pytest.mark.parametrize("world_size", [2, 3])
def test_shares_of_processes_are_rows_of_the_whole(world_size):
    data = graph_task()
    whole = GraphBatches(data.graphs, torch.arange(20), "graph", BatchPlan(20, 6, 1, True))
    shares = [
        GraphBatches(
            data.graphs, torch.arange(20), "graph", BatchPlan(20, 6, 1, True, rank, world_size)
        )
        for rank in range(world_size)
    ]
    parts = zip(whole.batches(5, 0), *(share.batches(5, 0) for share in shares), strict=True)
    for batch, *own in parts:
        for rank, share in enumerate(own):
            if rank < len(batch.y):
                assert torch.equal(share.y, batch.y[rank::world_size])
            else:  # of a last batch smaller than the number of processes
                assert share.weight.tolist() == [0.0]


@pytest.mark.parametrize("labelled", ["one", "all", "none", "some"])
def test_labels_wherever_they_lie(labelled):
    graphs = [graph.clone() for graph in node_regression_task().graphs[:5]]
    for number, graph in enumerate(graphs):
        order = torch.arange(graph.num_nodes)
        masks = {"one": order == number % 3, "all": order >= 0, "none": order < 0}
        graph["label_mask"] = masks.get(labelled, order < number)
    packed = PackedGraphs(graphs, "node", each_graph_counts=True)
    numbers = [4, 0, 3]
    chosen = [graphs[number] for number in numbers]
    assert_same(
        packed.batch(torch.tensor(numbers)), collate(chosen, "node", each_graph_counts=True)
    )
