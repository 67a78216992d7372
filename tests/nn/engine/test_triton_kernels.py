"""The Triton kernels equal their torch twins; on a CPU they run in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from backbone_cases import draw_keys
from torch import Tensor
from torch_geometric.nn import GraphConv

from torch_grama.nn import GRAMA, Coefficients, Running
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.sequence import Groups
from torch_grama.nn.sequence_embedding import batched_linear

BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, 3])
ORDERS = Coefficients(ar_order=1, ma_order=2)
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 0], [1, 2, 0, 4, 5, 6, 3, 8, 7, 2]])


def seldom(*values):
    """A case that takes seconds of the path that another case takes."""
    return pytest.param(*values, marks=pytest.mark.long)


def run(model: GRAMA, x: Tensor, batch: Tensor | None) -> list[Tensor]:
    model.zero_grad()
    size = None if batch is None else 4
    out = model(x, EDGES, batch=batch, batch_size=size)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize(
    ("options", "batch"),
    [
        ({"seq_len": 2}, None),
        ({"seq_len": 2, "num_blocks": 2}, BATCH),
        ({"act": "tanh"}, BATCH),
        ({"act": None}, BATCH),
        ({"backbone": GraphConv(6, 6), "running": Running(recompute=True)}, BATCH),
        ({"seq_len": 3, "num_recurrences": 2, "coefficients": ORDERS}, BATCH),
        *(seldom({"act": act}, BATCH) for act in ("elu", "gelu", "silu", "leaky_relu")),
        seldom({"seq_len": 5}, BATCH),
        seldom({"seq_len": 2, "coefficients": "naive"}, BATCH),
        seldom({"seq_len": 2, "readout": "graph"}, BATCH),
    ],
    ids=str,
)
def test_model_equals_torch_kernels(options, batch, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 5)
    model = GRAMA(5, 6, 3, **{"seq_len": 1, "num_blocks": 1, "gain": 0.7, **options}).eval()
    draw_keys(model)
    assert kernels.triton_for(F.relu, x) is not None
    ours = run(model, x, batch)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert kernels.triton_for(F.relu, x) is None
    theirs = run(model, x, batch)
    scale = max(float(t.abs().max()) for t in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6 * scale)


def both_ways(run, monkeypatch) -> None:
    """Asserts that the kernels and torch return the same."""
    ours = run()
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    for a, b in zip(ours, run(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize("groups", [Groups(), Groups(BATCH, 4)], ids=["one graph", "batch"])
@pytest.mark.parametrize(
    ("left", "right", "act"), [(1, 1, F.elu), (2, 3, F.gelu), (4, 4, F.silu), (9, 17, F.leaky_relu)]
)
def test_inner_products_and_sums_of_any_size(left, right, act, groups, monkeypatch) -> None:
    # wider than a block, and no multiple of it
    g, x = torch.randn(left, 9, 70), torch.randn(right, 9, 70)
    both_ways(lambda: [kernels.gram(g, x, groups, act), kernels.pool(x, groups, act)], monkeypatch)


@pytest.mark.usefixtures("_interpreter")
def test_sparse_product_of_many_edges(monkeypatch) -> None:
    # node 0 has nine edges: more than are gathered at a time, and no multiple of it
    target = torch.tensor([0] * 9 + [2] * 4 + [3])
    adjacency = Adjacency(target, torch.randint(5, target.size()), torch.randn(14), 5)
    x = torch.randn(5, 6)
    both_ways(lambda: [kernels.sparse_product(adjacency.csr, x)], monkeypatch)


@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize("groups", [Groups(), Groups(BATCH, 4)], ids=["one graph", "batch"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_response_to_an_element_that_is_kept(step, backwards, groups, monkeypatch) -> None:
    response, base, new = torch.randn(groups.num_graphs, 4), torch.randn(9, 6), torch.randn(9, 6)
    given = torch.randn(4, 9, 6)

    def run() -> list[Tensor]:
        buffer, out = given.clone(), torch.empty(9, 6)
        kernels.respond(out, base, response, buffer, step, new, groups, backwards)
        return [out, buffer]

    both_ways(run, monkeypatch)


@pytest.mark.usefixtures("_interpreter")
def test_linear_layers_of_all_positions(monkeypatch) -> None:
    leaves = [torch.randn(9, 5), torch.randn(3, 5, 4), torch.randn(3, 1, 4)]
    leaves = [leaf.requires_grad_() for leaf in leaves]

    def run() -> list[Tensor]:
        out = batched_linear(leaves[0].expand(3, -1, -1), *leaves[1:])
        return [out.detach(), *torch.autograd.grad(out.sin().sum(), leaves)]

    both_ways(run, monkeypatch)


def test_cpu_tensors_use_torch_kernels() -> None:
    assert os.environ.get("TRITON_INTERPRET", "0") != "1"
    assert kernels.triton_for(F.relu, torch.zeros(2)) is None
