"""The same numbers on an accelerator as on the processor."""

import pytest
import torch

from torch_grama import analysis

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_poles_and_memory():
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    phi = 0.99 * phi / phi.abs().sum(-1, keepdim=True)
    theta = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    for function in (analysis.spectral_radius, analysis.is_stable):
        assert torch.allclose(function(phi.cuda()).cpu(), function(phi))
    for function in (analysis.is_bibo_stable, analysis.memory_length):
        assert torch.equal(function(phi.cuda(), theta.cuda()).cpu(), function(phi, theta))
    there = analysis.ssm_to_arma(*analysis.arma_to_ssm(phi.cuda(), theta.cuda()))
    here = analysis.ssm_to_arma(*analysis.arma_to_ssm(phi, theta))
    assert all(torch.allclose(a.cpu(), b) for a, b in zip(there, here, strict=True))


def test_closed_loop():
    generator = torch.Generator().manual_seed(0)
    A, W = (torch.randn(n, n, generator=generator, dtype=torch.float64) / n for n in (6, 3))
    batch = torch.tensor([0, 0, 1, 1, 1, 3])
    A = A * (batch == batch.unsqueeze(-1))
    phi, theta = torch.full((4, 2), 0.4).double(), torch.full((4, 3), 0.2).double()
    point = torch.zeros(6, 3, dtype=torch.float64)

    def run(device):
        left, right = A.to(device), W.to(device)
        coefficients = (phi.to(device), theta.to(device))
        where = (point.to(device), batch.to(device))

        def backbone(x):
            return left @ x @ right

        radius = analysis.closed_loop_radius(*coefficients, backbone, *where)
        norm = analysis.operator_norm(backbone, *where)
        bound = analysis.closed_loop_bound(*coefficients, norm, sharp=True)
        return torch.stack([radius, norm, bound]).cpu()

    assert torch.allclose(run("cuda"), run("cpu"), rtol=1e-6)
