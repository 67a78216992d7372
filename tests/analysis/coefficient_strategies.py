"""What the property tests of this folder draw."""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

quick = settings(deadline=None, max_examples=30)

orders = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def coefficients(draw: st.DrawFn, bound: float = 1.5, max_size: int = 6) -> Tensor:
    """Any coefficients, with the zeros, equal entries and tiny numbers that hypothesis likes."""
    values = draw(st.lists(st.floats(-bound, bound), min_size=1, max_size=max_size))
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def contracting(draw: st.DrawFn) -> Tensor:
    """Coefficients with a sum of absolute values of at most one, often exactly one."""
    phi = draw(coefficients())
    size = phi.abs().sum()
    scale = draw(st.one_of(st.just(1.0), st.floats(0.0, 1.0)))
    return phi * (scale / size) if size > 1e-3 else phi


@st.composite
def decaying(draw: st.DrawFn, radius: float = 0.97) -> Tensor:
    """Coefficients with generic poles, the outermost of them at or below a radius."""
    order, seed = draw(orders), draw(seeds)
    phi = normal(seed, order)
    largest = torch.linalg.eigvals(companion(phi)).abs().max()
    shrink = draw(st.floats(0.1, 1.0)) * radius / largest
    lags = torch.arange(1, order + 1, dtype=torch.float64)
    return phi * shrink**lags  # scales every pole by `shrink`


def companion(phi: Tensor) -> Tensor:
    matrix = torch.diag(torch.ones(len(phi) - 1, dtype=phi.dtype), -1)
    matrix[0] = phi
    return matrix


def dense_loop(phi: Tensor, theta: Tensor, G: Tensor) -> Tensor:
    """The closed-loop state matrix, block by block as it is written."""
    p, q = len(phi), len(theta)
    kron, eye = torch.kron, torch.eye(len(G), dtype=G.dtype)
    Theta, E_ff, E_df = (torch.zeros(size, dtype=G.dtype) for size in ((p, q), (p, p), (q, p)))
    Theta[0], E_ff[0, 0], E_df[0, 0] = theta, 1, 1
    N = torch.diag(torch.ones(q - 1, dtype=G.dtype), -1)
    upper = torch.cat([kron(companion(phi), eye) + kron(E_ff, G), kron(Theta, eye)], dim=1)
    return torch.cat([upper, torch.cat([kron(E_df, G), kron(N, eye)], dim=1)])
