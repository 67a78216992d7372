import math

import pytest
import torch

from torch_grama.baselines.diffusion import METHODS


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_error_falls_with_the_order_of_the_method(method, order):
    # x' = -x^2 from 1 is 1 / (1 + t)
    def error(num_steps):
        x = torch.ones((), dtype=torch.float64)
        for _ in range(num_steps):
            x = METHODS[method](lambda state: -state * state, x, 1 / num_steps)
        return abs(float(x) - 0.5)

    assert math.log2(error(20) / error(40)) == pytest.approx(order, abs=0.15)
