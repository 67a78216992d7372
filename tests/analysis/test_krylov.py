import torch
from coefficient_strategies import normal

from torch_grama.analysis.krylov import (
    largest_per_graph,
    normalize_per_graph,
    random_vector,
    ritz_values,
)


def match(values, expected):
    distance = (values.unsqueeze(-1) - expected.unsqueeze(0)).abs()
    return distance.min(1).values.max() < 1e-8 and distance.min(0).values.max() < 1e-8


def test_complete_subspace_gives_all_eigenvalues_of_each_graph():
    first, second = normal(0, 6, 6), normal(1, 4, 4)
    matrix = torch.block_diag(first, second)
    batch = torch.tensor([0, 0, 0, 2, 2])  # graph 1 has no nodes

    def operator(x):
        return (matrix @ x.flatten()).view_as(x)

    values, graphs = ritz_values(operator, normal(2, 5, 2), batch, 3, dimension=10)
    assert match(values[graphs == 0], torch.linalg.eigvals(first))
    assert match(values[graphs == 2], torch.linalg.eigvals(second))
    assert (graphs == 1).sum() == 0


def test_early_end_adds_no_eigenvalues():
    """A multiple of the identity has one eigenvalue, found in one step; zero is none of it."""
    batch = torch.zeros(4, dtype=torch.long)
    values, _ = ritz_values(lambda x: -3 * x, normal(0, 4, 2), batch, 1, dimension=8)
    assert torch.allclose(values, torch.tensor([-3.0], dtype=torch.complex128))


def test_zero_start_has_no_eigenvalues():
    batch = torch.tensor([0, 1])
    start = torch.tensor([[1.0], [0.0]])
    values, graphs = ritz_values(lambda x: 2 * x, start, batch, 2, dimension=2)
    assert values.tolist() == [2]
    assert graphs.tolist() == [0]


def test_outer_eigenvalues_come_first():
    diagonal = torch.cat([torch.linspace(-1, 1, 200), torch.tensor([-2.0, 3.0])]).double()
    batch = torch.zeros(202, dtype=torch.long)
    start = normal(0, 202, 1)
    values, _ = ritz_values(lambda x: diagonal.unsqueeze(-1) * x, start, batch, 1, dimension=20)
    assert torch.allclose(values.real.max(), torch.tensor(3.0).double())
    assert torch.allclose(values.real.min(), torch.tensor(-2.0).double())
    assert values.imag.abs().max() < 1e-12


def test_per_graph_sums_and_maxima():
    values = torch.tensor([1.0, 5.0, 2.0])
    assert largest_per_graph(values, torch.tensor([0, 2, 0]), 4).tolist() == [2, 0, 5, 0]
    vectors = normal(0, 3, 5, 2)
    vectors[:, 4] = 0
    batch = torch.tensor([0, 0, 1, 1, 2])
    scaled = normalize_per_graph(vectors, batch, 3)
    for graph in (0, 1):
        norm = scaled[:, batch == graph].norm()
        assert torch.allclose(norm, torch.ones_like(norm))
    assert scaled[:, 4].count_nonzero() == 0


def test_random_vector_is_reproducible():
    like = torch.zeros(1, dtype=torch.float32)
    first = random_vector((3, 2), like, seed=1)
    assert first.dtype == torch.float32
    assert torch.equal(first, random_vector((3, 2), like, seed=1))
    assert not torch.equal(first, random_vector((3, 2), like, seed=2))
