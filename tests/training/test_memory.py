"""The estimate of a step's memory against what autograd really keeps."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Linear, Module, Parameter
from torch_geometric.nn import GATConv
from training_cases import SmallNet, graph_task, node_task

from torch_grama import GRAMA, Running
from torch_grama.training import GraphBatch, GraphDataModule, GraphTask, TrainerSettings
from torch_grama.training.memory import (
    _free_in_container,
    available_memory,
    estimate_memory,
    memory_warning,
)


class Attention(Module):
    """Every node looks at every node."""

    def __init__(self):
        super().__init__()
        self.lin = Linear(4, 8)

    def forward(self, x, edge_index, *rest, **more):
        hidden = self.lin(x)
        return (hidden @ hidden.t()).softmax(dim=-1) @ hidden


class Edges(Module):
    """Keeps something for every edge."""

    def __init__(self):
        super().__init__()
        self.conv = GATConv(4, 8, heads=2)

    def forward(self, x, edge_index, *rest, **more):
        return self.conv(x, edge_index)


def kept_bytes(task, batch):
    storages = {}
    own = {p.untyped_storage().data_ptr() for p in task.model.parameters()}

    def note(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        out = task(batch)
    del out
    return sum(size for pointer, size in storages.items() if pointer not in own)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SmallNet(4, 3),
        lambda: GRAMA(4, 16, 3),
        lambda: GRAMA(4, 16, 3, running=Running(cached=True)),
        Attention,
        Edges,
    ],
    ids=["SmallNet", "GRAMA", "cached GRAMA", "Attention", "Edges"],
)
def test_estimate_is_near_what_is_kept(build):
    data = node_task(1500)
    task = GraphTask.for_data(build(), data)
    batch = GraphDataModule(data).example()
    task.train()
    parameters = sum(p.numel() * 4 for p in task.model.parameters())
    tensors = [v for v in vars(batch).values() if isinstance(v, torch.Tensor)]
    expected = kept_bytes(task, batch) + 4 * parameters
    expected += sum(t.numel() * t.element_size() for t in tensors)
    before = torch.get_rng_state()
    estimate = estimate_memory(task.forward_with, task.model, batch)
    assert torch.equal(torch.get_rng_state(), before)
    assert 0.6 * expected < estimate < 1.6 * expected


def test_the_model_is_left_as_it_was():
    data = graph_task()
    task = GraphTask.for_data(SmallNet(4, 2, "graph"), data)
    before = {name: value.clone() for name, value in task.state_dict().items()}
    batch = GraphDataModule(data, 0, TrainerSettings(batch_size=16)).example()
    assert estimate_memory(task.forward_with, task.model, batch) > 0
    assert all(torch.equal(value, before[name]) for name, value in task.state_dict().items())


def test_a_tiny_batch_counts_parameters_alone():
    task = GraphTask.for_data(SmallNet(4, 3), node_task())
    batch = GraphBatch(torch.ones(2, 4), torch.zeros(2, 0, dtype=torch.long))
    parameters = sum(p.numel() * 4 for p in task.model.parameters())
    assert estimate_memory(task.forward_with, task.model, batch, "sgd") == 3 * parameters + 32


def test_warning_names_the_knobs():
    assert memory_warning(10, None, "full") is None
    assert memory_warning(10, 10, "full") is None
    text = memory_warning(3 * 2**30, 2**30, "graphs")
    assert "about 3.2 GB and 1.1 GB are free" in text
    for knob in ("trainer.batch_size", "recompute", "hidden_channels", "precision"):
        assert knob in text
    assert "num_neighbors" in memory_warning(2, 1, "subgraphs")


def test_free_memory_is_read(tmp_path):
    assert available_memory(torch.device("cpu")) > 2**20
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert _free_in_container(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert _free_in_container(tmp_path) is None
    assert _free_in_container(tmp_path / "none") is None


class OneGraph(Module):
    """Learns a vector for each node, and takes no other number of nodes."""

    def __init__(self):
        super().__init__()
        self.lin = Linear(4, 3)
        self.own = Parameter(torch.zeros(40, 4))

    def forward(self, x, edge_index, *rest, **more):
        if x.size(0) != 40:
            raise ValueError(f"Expected 40 nodes (got {x.size(0)})")
        return self.lin((x + self.own).tanh())


def test_a_model_of_one_graph_is_measured_on_it():
    data = node_task()
    task = GraphTask.for_data(OneGraph(), data)
    batch = GraphDataModule(data, 0, TrainerSettings(accelerator="cpu")).example()
    estimate = estimate_memory(task.forward_with, task.model, batch)
    weights = 4 * sum(4 * parameter.numel() for parameter in task.model.parameters())
    tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert estimate == weights + held + kept_bytes(task, batch)
    assert all(parameter.grad is None for parameter in task.model.parameters())
