"""The closed form of the recurrence, and its gradient written out."""

from __future__ import annotations

import pytest
import torch

from torch_grama.nn.engine.closed_form import (
    SolvedRecurrence,
    Transition,
    fold_differences,
    last_state_rows,
    solve_recurrence,
    sum_diagonals,
    toeplitz,
)
from torch_grama.nn.engine.sequence import apply
from torch_grama.nn.functional import arma_recurrence_reference, forward_differences


def draw(*size: int) -> torch.Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("p", "q", "length", "steps"), [(1, 1, 1, 1), (2, 3, 4, 6), (4, 1, 4, 3)])
def test_matrices_reproduce_an_outside_input(p, q, length, steps) -> None:
    phi, theta = draw(p), draw(q)
    states, residuals, inputs = draw(length, 1, 1), draw(length, 1, 1), draw(steps, 1, 1)
    stream = iter(inputs)
    expected, _ = arma_recurrence_reference(
        states, residuals, phi, theta, lambda x: next(stream), steps
    )
    solved = solve_recurrence(phi[None], theta[None], length, steps)
    ours = (
        solved.from_states[0] @ states.flatten()
        + solved.from_residuals[0] @ residuals.flatten()
        + toeplitz(solved.response)[0] @ inputs.flatten()
    )
    torch.testing.assert_close(ours, expected.flatten())
    assert solved.response[0, 0] == 1


@pytest.mark.parametrize(("p", "q", "length", "steps"), [(1, 1, 1, 1), (2, 3, 4, 6), (4, 1, 4, 3)])
def test_written_out_gradient_equals_autograd(p, q, length, steps) -> None:
    phi, theta = draw(2, p).requires_grad_(), draw(2, q).requires_grad_()
    plain = solve_recurrence(phi, theta, length, steps)
    written = Transition.from_solution(apply(SolvedRecurrence, phi, theta, length, steps))
    weights = [draw(*part.size()) for part in plain]
    grads = [
        torch.autograd.grad(
            sum((part * w).sum() for part, w in zip(parts, weights, strict=True)), (phi, theta)
        )
        for parts in (plain, written)
    ]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_folded_differences_read_the_states_alone() -> None:
    states = draw(5, 3, 2)
    solved = solve_recurrence(draw(1, 5), draw(1, 4), 5, 6)
    both = torch.einsum("rl,lnf->rnf", solved.from_states[0], states)
    both += torch.einsum("rl,lnf->rnf", solved.from_residuals[0], forward_differences(states))
    folded = torch.einsum("rl,lnf->rnf", fold_differences(solved)[0], states)
    torch.testing.assert_close(folded, both)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 16])
def test_rows_are_powers_of_the_delayed_response(steps) -> None:
    response = draw(2, steps)
    rows, times_response = last_state_rows(response)
    delayed, direct = toeplitz(response, delay=1), toeplitz(response)
    row = torch.zeros(2, 1, steps, dtype=torch.float64)
    row[..., -1] = 1
    for power in range(steps):
        torch.testing.assert_close(rows[:, power], row[:, 0])
        torch.testing.assert_close(times_response[:, power], (row @ direct)[:, 0])
        row = row @ delayed


def test_sum_of_diagonals_is_the_adjoint_of_toeplitz() -> None:
    column, matrix = draw(3, 5), draw(3, 5, 5)
    left = (toeplitz(column) * matrix).sum()
    right = (column * sum_diagonals(matrix)).sum()
    torch.testing.assert_close(left, right)
