"""Every engine computes the numbers of the reference, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.functional import (
    LinearMap,
    arma_last_state,
    arma_recurrence,
    arma_recurrence_reference,
)

BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, 3])  # graph 2 has no nodes
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 0], [1, 2, 0, 4, 5, 6, 3, 8, 7, 2]])
SIZES = [
    # L, R, p, q
    (1, 1, 1, 1),
    (1, 4, 1, 1),
    (2, 5, 1, 2),
    (4, 4, 4, 4),
    (4, 2, 3, 1),
    (4, 9, 2, 4),
    (3, 16, 3, 3),
]


def make_backbone(kind: str, parameters: list[Tensor], edge_value: Tensor | None = None):
    weight, root, bias = parameters
    value = torch.linspace(0.2, 1.0, 10, dtype=weight.dtype) if edge_value is None else edge_value
    linear = LinearMap(Adjacency(EDGES[1], EDGES[0], value, 9), 0.3 * weight, 0.2 * root, bias)
    if kind == "linear":
        return linear
    if kind == "without root and bias":
        return LinearMap(linear.adjacency, linear.weight)
    if kind == "constant":
        return lambda x: torch.ones_like(x) * bias
    return lambda x: torch.tanh(linear(x))


def make_problem(size, batched: bool, dtype: torch.dtype = torch.float64):
    length, _, p, q = size
    generator = torch.Generator().manual_seed(sum(size))
    shape = (4,) if batched else ()
    draw = lambda *s: torch.randn(*s, generator=generator, dtype=dtype)  # noqa: E731
    tensors = [
        draw(length, 9, 3),
        draw(length, 9, 3),
        0.5 * draw(*shape, p),
        0.5 * draw(*shape, q),
        draw(3, 3),
        draw(3, 3),
        draw(3),
    ]
    return [t.requires_grad_() for t in tensors]


def assert_same(outputs, inputs, other_outputs, other_inputs) -> None:
    weights = [torch.linspace(-1, 1, o.numel(), dtype=o.dtype).view_as(o) for o in outputs]
    for ours, theirs in zip(outputs, other_outputs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    loss = sum((o * w).sum() for o, w in zip(outputs, weights, strict=True))
    other_loss = sum((o * w).sum() for o, w in zip(other_outputs, weights, strict=True))
    ours = torch.autograd.grad(loss, inputs, allow_unused=True)
    theirs = torch.autograd.grad(other_loss, other_inputs, allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        zero = torch.zeros(())
        a, b = (zero if a is None else a), (zero if b is None else b)
        torch.testing.assert_close(*torch.broadcast_tensors(a, b.to(a.dtype)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("linear", "linear"),
        ("linear", "scan"),
        ("linear", "auto"),
        ("without root and bias", "linear"),
        ("non-linear", "scan"),
        ("non-linear", "auto"),
        ("constant", "scan"),
    ],
)
def test_engine_equals_reference(kind, engine, size, batched) -> None:
    batch = BATCH if batched else None
    ours, theirs = make_problem(size, batched), make_problem(size, batched)
    out = arma_recurrence(*ours[:4], make_backbone(kind, ours[4:]), size[1], batch, engine=engine)
    expected = arma_recurrence_reference(
        *theirs[:4], make_backbone(kind, theirs[4:]), size[1], batch
    )
    assert_same(out, ours, expected, theirs)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["linear", "without root and bias", "non-linear"])
def test_last_state_equals_reference(kind, size, batched) -> None:
    batch = BATCH if batched else None
    ours, theirs = make_problem(size, batched), make_problem(size, batched)
    out = arma_last_state(*ours[:4], make_backbone(kind, ours[4:]), size[1], batch)
    states, _ = arma_recurrence_reference(
        *theirs[:4], make_backbone(kind, theirs[4:]), size[1], batch
    )
    assert_same([out], ours, [states[-1]], theirs)


@pytest.mark.parametrize("engine", ["scan", "auto"])
def test_some_outputs_without_gradient(engine) -> None:
    size = (3, 4, 3, 3)
    for pick in (lambda f, d: [f[0]], lambda f, d: [d[2]], lambda f, d: [f[1], d[3]]):
        ours, theirs = make_problem(size, False), make_problem(size, False)
        out = arma_recurrence(*ours[:4], make_backbone("linear", ours[4:]), 4, engine=engine)
        expected = arma_recurrence_reference(*theirs[:4], make_backbone("linear", theirs[4:]), 4)
        assert_same(pick(*out), ours, pick(*expected), theirs)


@pytest.mark.parametrize("engine", ["scan", "linear"])
def test_backward_twice_gives_the_same(engine) -> None:
    tensors = make_problem((3, 4, 3, 3), False)
    states, _ = arma_recurrence(
        *tensors[:4], make_backbone("linear", tensors[4:]), 4, engine=engine
    )
    first = torch.autograd.grad(states.sum(), tensors, retain_graph=True)
    second = torch.autograd.grad(states.sum(), tensors)
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("engine", ["scan", "linear"])
def test_gradients_given_by_the_caller_are_left_alone(engine) -> None:
    tensors = make_problem((3, 4, 3, 3), False)
    states, residuals = arma_recurrence(
        *tensors[:4], make_backbone("linear", tensors[4:]), 4, engine=engine
    )
    given = torch.ones_like(states), torch.ones_like(residuals)
    torch.autograd.grad((states, residuals), tensors, given)
    assert all(torch.equal(g, torch.ones_like(g)) for g in given)


def test_gradient_of_the_adjacency_is_left_to_autograd() -> None:
    value = torch.rand(10, dtype=torch.float64, requires_grad=True)
    tensors = make_problem((2, 3, 2, 2), False)
    backbone = make_backbone("linear", tensors[4:], value)
    states, _ = arma_recurrence(*tensors[:4], backbone, 3)
    expected, _ = arma_recurrence_reference(*tensors[:4], backbone, 3)
    ours = torch.autograd.grad(states.sum(), value, retain_graph=True)[0]
    theirs = torch.autograd.grad(expected.sum(), value)[0]
    torch.testing.assert_close(ours, theirs)


def test_function_transforms_see_plain_operations() -> None:
    tensors = [t.detach() for t in make_problem((3, 4, 3, 3), False)]
    backbone = make_backbone("non-linear", tensors[4:])

    def last(x: Tensor) -> Tensor:
        return arma_last_state(x, *tensors[1:4], backbone, 4)

    forward = torch.func.jacfwd(last)(tensors[0])
    backward = torch.func.jacrev(last)(tensors[0])
    torch.testing.assert_close(forward, backward)


@pytest.mark.parametrize("engine", ["scan", "linear"])
@pytest.mark.parametrize("num_recurrences", [16, 50])
def test_float32_stays_close_to_float64_for_stable_coefficients(engine, num_recurrences) -> None:
    generator = torch.Generator().manual_seed(num_recurrences)
    length, p = 16, 8
    phi = torch.rand(p, generator=generator, dtype=torch.float64)
    theta = torch.rand(p, generator=generator, dtype=torch.float64)
    phi, theta = phi / phi.sum(), theta / theta.sum()
    draw = lambda *s: torch.randn(*s, generator=generator, dtype=torch.float64)  # noqa: E731
    given = [draw(length, 9, 3), draw(length, 9, 3), phi, theta]
    given += [0.1 * draw(3, 3), 0.1 * draw(3, 3), 0.1 * draw(3)]

    def run(dtype: torch.dtype, run_engine: str):
        tensors = [t.to(dtype).requires_grad_() for t in given]
        out = arma_recurrence(
            *tensors[:4], make_backbone("linear", tensors[4:]), num_recurrences, engine=run_engine
        )
        return out, torch.autograd.grad(sum(o.square().mean() for o in out), tensors)

    (out, grads), (expected, expected_grads) = (
        run(torch.float32, engine),
        run(torch.float64, "reference"),
    )
    for ours, theirs in zip(out, expected, strict=True):
        assert (ours.double() - theirs).norm() / theirs.norm() < 1e-5
    for ours, theirs in zip(grads, expected_grads, strict=True):
        assert (ours.double() - theirs).norm() / theirs.norm() < 1e-4


def test_linear_engine_refuses_other_backbones() -> None:
    tensors = make_problem((2, 2, 2, 2), False)
    with pytest.raises(ValueError, match="linear backbone for engine='linear'"):
        arma_recurrence(*tensors[:4], torch.tanh, 2, engine="linear")


def test_adjacency_may_be_of_another_type_than_the_states() -> None:
    tensors = make_problem((2, 3, 2, 2), False, torch.float32)
    value = torch.rand(10, dtype=torch.float64)
    backbone = make_backbone("linear", tensors[4:], value)
    out = arma_recurrence(*tensors[:4], backbone, 3, engine="linear")
    expected = arma_recurrence_reference(*tensors[:4], backbone, 3)
    for ours, theirs in zip(out, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
