"""The theory applied to a block of a model, on a graph."""

from __future__ import annotations

import torch

from torch_grama import GRAMA
from torch_grama.analysis import closed_loop_bound, closed_loop_radius, operator_norm


def test_radius_of_a_block_is_finite_positive_and_below_its_bound() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    model = GRAMA(3, 4, 2, seq_len=3, gain=0.5).double()
    _, coefficients = model(x, edge_index, batch=batch, return_coefficients=True)
    phi, theta = (c.detach() for c in coefficients[0])
    backbone = model.blocks[0].bind(6, edge_index, batch=batch)
    point = torch.zeros(6, 4, dtype=torch.float64)
    radius = closed_loop_radius(phi, theta, backbone, point, batch)
    bound = closed_loop_bound(phi, theta, operator_norm(backbone, point, batch))
    assert radius.shape == (2,)
    assert (radius > 0).all()
    assert (radius <= bound * (1 + 1e-6)).all()
