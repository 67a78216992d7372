"""Sequences worked on a few nodes at a time, and products with a sparse matrix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.engine.sequence import Groups, identity

L, R, N, C = 3, 4, 11, 2
BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1, 3, 3])  # graph 2 has no nodes
cases = pytest.mark.parametrize("batch", [None, BATCH], ids=["one graph", "batch"])
acts = pytest.mark.parametrize("act", [identity, F.relu, torch.sin])


CHUNKS = {
    "node by node": (1, N * L * C),
    "three nodes": (3 * L * C * 8, N * L * C),
    "all": (1 << 20, N * L * C),
    "three nodes, by graph": (3 * L * C * 8, 0),
    "all, by graph": (1 << 20, 0),
}


@pytest.fixture(params=CHUNKS.values(), ids=CHUNKS)
def _chunk(request, monkeypatch: pytest.MonkeyPatch) -> None:
    num_bytes, large_graph = request.param
    monkeypatch.setattr(kernels, "_CHUNK_BYTES", num_bytes)
    monkeypatch.setattr(kernels, "_LARGE_GRAPH", large_graph)
    monkeypatch.setattr(kernels, "_BATCHES_PRODUCTS", bool(large_graph))


def draw(*size: int) -> Tensor:
    return torch.randn(*size, dtype=torch.float64)


def problem(batch: Tensor | None) -> tuple[Groups, Tensor, Tensor]:
    groups = Groups(batch, 1 if batch is None else 4)
    return groups, draw(groups.num_graphs, R, L), draw(L, N, C).requires_grad_()


def expected_sums(weights: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
    per_node = weights[torch.zeros(N, dtype=torch.long) if batch is None else batch]
    return torch.einsum("nrl,lnf->rnf", per_node, x)


@cases
@acts
@pytest.mark.usefixtures("_chunk")
def test_weighted_sums_of_two_sequences(batch, act) -> None:
    groups, weights, x = problem(batch)
    _, other_weights, other = problem(batch)
    with torch.no_grad():
        out = kernels.combine(weights, x, other_weights, other, groups, act)
    expected = expected_sums(weights, act(x), batch)
    expected = expected + expected_sums(other_weights, act(other), batch)
    torch.testing.assert_close(out, expected.detach())


@pytest.mark.parametrize("weights_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(1, 1, 500), (2, 2, 64), (4, 3, 2), (5, 9, 10), (8, 8, 16)])
def test_weighted_sums_of_a_batch_of_any_size(size, weights_dtype) -> None:
    rows, length, channels = size
    weights, x = draw(4, rows, length).to(weights_dtype), draw(length, N, channels).float()
    out = kernels.combine(weights, x, None, None, Groups(BATCH, 4), identity)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected_sums(weights.double(), x.double(), BATCH).float())


@cases
@acts
@pytest.mark.usefixtures("_chunk")
def test_gradients_of_sums_means_and_the_newest(batch, act) -> None:
    groups, weights, x = problem(batch)
    gradient, share, newest = draw(R, N, C), draw(groups.num_graphs, L, C), draw(N, C)
    sums = expected_sums(weights, act(x), batch)
    means = kernels.pool(x, groups, act)
    loss = (sums * gradient).sum() + (means * share).sum() + (act(x)[-1] * newest).sum()
    (expected,) = torch.autograd.grad(loss, x)
    out = kernels.sequence_gradient(weights, gradient, share, newest, groups, x.detach(), act)
    torch.testing.assert_close(out, expected)


@cases
@acts
@pytest.mark.usefixtures("_chunk")
def test_inner_products(batch, act) -> None:
    groups, weights, x = problem(batch)
    weights.requires_grad_()
    gradient = draw(R, N, C)
    (expected,) = torch.autograd.grad(expected_sums(weights, act(x), batch), weights, gradient)
    with torch.no_grad():
        out = kernels.gram(gradient, x, groups, act)
    torch.testing.assert_close(out, expected)


@cases
@acts
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.usefixtures("_chunk")
def test_means(batch, act, dtype) -> None:
    groups, _, x = problem(batch)
    x = x.detach().to(dtype)
    out = kernels.pool(x, groups, act)
    for graph in range(groups.num_graphs):
        nodes = slice(None) if batch is None else batch == graph
        rows = act(x)[:, nodes]
        expected = rows.mean(dim=1) if rows.size(1) else torch.zeros(L, C, dtype=x.dtype)
        torch.testing.assert_close(out[graph], expected)


@cases
@pytest.mark.parametrize("base", ["none", "another", "the output"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_are_added_in_place(batch, base, dtype) -> None:
    groups, weights, x = problem(batch)
    out = draw(N, C).to(dtype)
    given = {"none": None, "another": draw(N, C).to(dtype), "the output": out}[base]
    expected = expected_sums(weights[:, :1], x.detach(), batch)[0]
    expected = expected if given is None else given + expected
    kernels.add_combination(out, given, weights[:, 0], x.detach().to(dtype), groups)
    torch.testing.assert_close(out, expected.to(dtype))


@cases
@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_steps_of_horner_add_the_offset_of_each_graph(batch, dtype) -> None:
    groups = problem(batch)[0]
    sizes = (2, N, C), (groups.num_graphs, 1, C), (C, C)
    terms, offset, weight = (draw(*size).to(dtype) for size in sizes)
    nodes = torch.arange(N)
    csr = Adjacency(nodes, nodes.flip(0), torch.ones(N, dtype=dtype), N).csr
    own = offset[torch.zeros(N, dtype=torch.long) if batch is None else batch, 0]
    expected = terms[0] + terms[1].flip(0) @ weight + own
    kernels.horner_steps(terms, csr, weight, None, offset, groups)
    torch.testing.assert_close(terms[0], expected)


def test_half_precision_is_summed_in_single() -> None:
    x = torch.ones(1, 5000, 1, dtype=torch.bfloat16)
    out = kernels.pool(x, Groups(), mean=False)
    assert out.dtype == torch.float32
    assert out.item() == 5000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("num_edges", [0, 1, 40])
def test_sparse_product_equals_the_dense_one(dtype, num_edges) -> None:
    target, source = torch.randint(9, (2, num_edges))
    value = torch.randn(num_edges, dtype=torch.promote_types(dtype, torch.float32))
    dense = torch.zeros(9, 9, dtype=torch.float64)
    dense.index_put_((target, source), value.double(), accumulate=True)
    x = torch.randn(5, 9, dtype=dtype).t()
    adjacency = Adjacency(target, source, value, 9)
    for matrix, expected in ((adjacency.csr, dense), (adjacency.transposed, dense.t())):
        out = kernels.sparse_product(matrix, x)
        assert out.dtype == dtype
        torch.testing.assert_close(out, (expected @ x.double()).to(dtype))
