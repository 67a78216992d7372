import pytest
import torch
from coefficient_strategies import companion, normal

from torch_grama.analysis import characteristic_roots, spectral_radius
from torch_grama.analysis.eigenvalues import eigenvalues

# Coefficients of a saturated softmax in float32, on which LAPACK's iteration may not converge.
saturated = [0.0, 8.9e-43, 7.5e-39, 1.4e-38, 1.0, 1.03e-36, 1.1e-39, 4.8e-41]


def test_equals_torch_where_that_converges():
    matrices = normal(0, 3, 2, 4, 4)
    assert torch.equal(eigenvalues(matrices), torch.linalg.eigvals(matrices))


def test_saturated_coefficients():
    phi = torch.tensor([saturated, [0.0] * 7 + [1.0]], dtype=torch.float64)
    radius = spectral_radius(phi)
    assert torch.allclose(radius, torch.ones(2, dtype=torch.float64))
    roots = characteristic_roots(phi[0])[:5]  # close to the fifth roots of unity
    assert torch.allclose(roots**5, torch.ones(5, dtype=torch.complex128), atol=1e-9)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_one_failure_does_not_bring_down_the_batch(monkeypatch, failures):
    """The batch, then its first matrix, then that matrix transposed refuse to converge."""
    matrices = torch.stack([companion(normal(seed, 4)) for seed in range(3)])
    expected = torch.linalg.eigvals(matrices)
    solve, calls = torch.linalg.eigvals, []

    def failing(matrix):
        calls.append(matrix)
        if len(calls) <= failures:
            raise torch.linalg.LinAlgError("did not converge")
        return solve(matrix)

    monkeypatch.setattr(torch.linalg, "eigvals", failing)
    found = eigenvalues(matrices)
    monkeypatch.undo()
    assert len(calls) == failures + 3
    for row, want in zip(found, expected, strict=True):
        distance = (row.unsqueeze(-1) - want).abs()
        assert distance.min(0).values.max() < 1e-10
        assert distance.min(1).values.max() < 1e-10
