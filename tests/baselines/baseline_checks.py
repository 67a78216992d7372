"""What must hold of every baseline: batches, borders of the domain, renumbered nodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch, Data

from torch_grama.baselines.branch_stack import BatchView
from torch_grama.nn.graph_input import read_graph_input

CHANNELS = 5


def draw_graph(num_nodes: int, seed: int, edge_dim: int | None = None) -> Data:
    """A connected undirected graph with random features, in float64."""
    generator = torch.Generator().manual_seed(seed)
    path = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])
    extra = torch.randint(num_nodes, (2, num_nodes), generator=generator)
    extra = torch.stack([extra.amin(0), extra.amax(0)])
    pairs = torch.cat([path, extra[:, extra[0] != extra[1]]], dim=1).unique(dim=1)
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    data = Data(
        x=torch.randn(num_nodes, CHANNELS, generator=generator, dtype=torch.float64),
        edge_index=edge_index,
    )
    if edge_dim is not None:
        half = torch.randn(pairs.size(1), edge_dim, generator=generator, dtype=torch.float64)
        data.edge_attr = torch.cat([half, half])
    return data


def read_batch(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> BatchView:
    """The view of a batch as a layer gets it."""
    given = read_graph_input(x.size(0), edge_index, edge_weight, None, batch, batch_size)
    return BatchView.of(given)


def call(model: Module, data: Data) -> Tensor:
    """Calls a model as the training loop does."""
    batch = getattr(data, "batch", None)
    size = data.num_graphs if isinstance(data, Batch) else None
    out: Tensor = model(data.x, data.edge_index, None, data.edge_attr, batch, size)
    return out


def randomize(model: Module, seed: int = 0) -> Module:
    """Moves all parameters off their start, so that none hides behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return model


def check_batch_equals_single_graphs(model: Module, edge_dim: int | None = None) -> None:
    """A batch of graphs, one of them a single node, gives what each graph gives alone."""
    model = randomize(model.double()).eval()
    graphs = [draw_graph(size, seed, edge_dim) for seed, size in enumerate((7, 2, 11))]
    single = Data(x=torch.ones(1, CHANNELS, dtype=torch.float64), edge_index=_no_edges())
    if edge_dim is not None:
        single.edge_attr = torch.zeros(0, edge_dim, dtype=torch.float64)
    graphs.append(single)
    together = call(model, Batch.from_data_list(graphs))
    alone = torch.cat([call(model, Batch.from_data_list([graph])) for graph in graphs])
    torch.testing.assert_close(together, alone, rtol=1e-8, atol=1e-9)


def check_borders(model: Module, edge_dim: int | None = None) -> None:
    """One node, no edges at all, isolated nodes: finite output and finite gradients."""
    model = randomize(model.double()).train()
    for num_nodes, edges in (
        (1, _no_edges()),
        (4, _no_edges()),
        (4, torch.tensor([[0, 1], [1, 0]])),
    ):
        x = torch.randn(num_nodes, CHANNELS, dtype=torch.float64)
        data = Data(x=x, edge_index=edges)
        if edge_dim is not None:
            data.edge_attr = torch.ones(edges.size(1), edge_dim, dtype=torch.float64)
        model.zero_grad()
        out = call(model, Batch.from_data_list([data, data]))
        assert out.isfinite().all()
        out.square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), name


def permutation_error(model: Module, readout: str, edge_dim: int | None = None) -> float:
    """The largest change of the output, beyond renumbering, when the nodes are renumbered."""
    model = randomize(model.double()).eval()
    graphs = [draw_graph(size, seed, edge_dim) for seed, size in enumerate((8, 12))]
    batch = Batch.from_data_list(graphs)
    generator = torch.Generator().manual_seed(1)
    order = torch.cat(
        [torch.randperm(8, generator=generator), 8 + torch.randperm(12, generator=generator)]
    )
    place = torch.empty_like(order)
    place[order] = torch.arange(20)
    edges = torch.randperm(batch.edge_index.size(1), generator=generator)
    moved = batch.clone()
    moved.x = batch.x[order]
    moved.edge_index = place[batch.edge_index][:, edges]
    if edge_dim is not None:
        moved.edge_attr = batch.edge_attr[edges]
    before, after = call(model, batch), call(model, moved)
    if readout == "node":
        before = before[order]
    return float((before - after).abs().max())


def check_reset(build: Callable[[], Module]) -> None:
    """``reset_parameters`` forgets every parameter and draws what the constructor draws."""
    torch.manual_seed(3)
    fresh, model = build().state_dict(), build()
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(7.0)
    model.reset_parameters()
    kept = [name for name, value in model.named_parameters() if bool((value == 7.0).any())]
    assert kept == []
    for name, value in model.state_dict().items():
        if value.numel() >= 64 and (aim := fresh[name].double().std()) > 0:
            assert 0.5 * aim < value.double().std() < 2 * aim, name


def _no_edges() -> Tensor:
    return torch.zeros(2, 0, dtype=torch.long)
