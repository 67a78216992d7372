import dataclasses

import pytest
import torch
import written_out

from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.nn.functional import (
    LinearMap,
    arma_last_state,
    arma_recurrence,
    arma_recurrence_reference,
)

NODES, CHANNELS = 6, 2
# graphs 2 and 4 have no nodes
BATCH = torch.tensor([0, 0, 0, 1, 1, 3])
NUM_GRAPHS = 5


def normal(*size):
    return torch.randn(*size, dtype=torch.float64)


class Problem:
    """Random arguments of the recurrence, and a backbone with the parameters it depends on."""

    def __init__(self, p=3, q=3, batch=None, kind="tanh", length=3):
        num_graphs = 1 if batch is None else NUM_GRAPHS
        self.batch = batch
        self.leaves = {
            "states": normal(length, NODES, CHANNELS),
            "residuals": normal(length, NODES, CHANNELS),
            "phi": normal(num_graphs, p) / p,
            "theta": normal(num_graphs, q) / q,
            "weight": normal(CHANNELS, CHANNELS),
        }
        if kind == "map":
            self.leaves["root_weight"] = normal(CHANNELS, CHANNELS)
            self.leaves["bias"] = normal(CHANNELS)
        self.kind = kind
        target, source = torch.tensor([[0, 1, 2, 0, 4, 5], [1, 2, 0, 0, 3, 5]])
        self.adjacency = Adjacency(target, source, normal(6), NODES)
        self.loss_weights = normal(2, 16, NODES, CHANNELS)

    def backbone(self, leaves):
        weight = leaves["weight"]
        if self.kind == "tanh":
            return lambda x: (self.adjacency.propagate(x) @ weight).tanh()
        if self.kind == "constant":
            return lambda x: torch.ones_like(x) @ weight
        return LinearMap(self.adjacency, weight, leaves.get("root_weight"), leaves.get("bias"))

    def run(self, function, leaves, num_recurrences, **options):
        given = [leaves[name] for name in ("states", "residuals", "phi", "theta")]
        return function(*given, self.backbone(leaves), num_recurrences, self.batch, **options)

    def solve(self, function, num_recurrences, parts=(1, 1), **options):
        """Returns the results and the gradients of a random linear function of them."""
        leaves = {name: leaf.clone().requires_grad_() for name, leaf in self.leaves.items()}
        results = self.run(function, leaves, num_recurrences, **options)
        results = (results,) if isinstance(results, torch.Tensor) else results
        loss = sum(
            part * (weights[: len(result)] * result).sum()
            for part, weights, result in zip(parts, self.loss_weights, results, strict=False)
            if part
        )
        gradients = torch.autograd.grad(
            loss, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
        return results, dict(zip(leaves, gradients, strict=True))


def assert_same(got, expected):
    for a, b in zip(got[0], expected[0], strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)
    for name, gradient in expected[1].items():
        assert torch.allclose(got[1][name], gradient, rtol=1e-9, atol=1e-9), name


engines = pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("auto", "tanh"),
        ("auto", "plain map"),
        ("reference", "tanh"),
        ("scan", "map"),
        ("scan", "constant"),
        ("linear", "map"),
    ],
)
batches = pytest.mark.parametrize("batch", [None, BATCH], ids=["one graph", "batch"])


# p, q, L, R
sizes = pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1, 1),
        (1, 1, 1, 4),
        (1, 2, 2, 5),
        (3, 3, 3, 3),
        (3, 1, 4, 2),
        (2, 4, 4, 9),
        (1, 3, 3, 2),
        (3, 2, 3, 16),
    ],
    ids=str,
)


@engines
@batches
@sizes
def test_equals_the_equation_in_value_and_gradient(engine, kind, batch, sizes):
    p, q, length, num_recurrences = sizes
    problem = Problem(p, q, batch, kind, length)
    got = problem.solve(arma_recurrence, num_recurrences, engine=engine)
    assert_same(got, problem.solve(written_out.recur, num_recurrences))
    last = problem.solve(arma_last_state, num_recurrences, engine=engine)
    assert_same(
        last, problem.solve(lambda *given: written_out.recur(*given)[0][-1], num_recurrences)
    )


@engines
@pytest.mark.parametrize(("state", "residual"), [(0, None), (None, 2), (1, 3)])
def test_gradient_when_only_some_elements_are_used(engine, kind, state, residual):
    problem = Problem(kind=kind)

    def some(function, **options):
        def run(*arguments):
            new = function(*arguments, **options)
            parts = [new[side][k] for side, k in ((0, state), (1, residual)) if k is not None]
            return torch.stack(parts)

        return problem.solve(run, 4)

    assert_same(some(arma_recurrence, engine=engine), some(written_out.recur))


@pytest.mark.parametrize(("engine", "kind"), [("scan", "tanh"), ("linear", "map")])
def test_backward_twice_gives_the_same_and_leaves_given_gradients_alone(engine, kind):
    problem = Problem(kind=kind)
    leaves = {name: leaf.requires_grad_() for name, leaf in problem.leaves.items()}
    new = problem.run(arma_recurrence, leaves, 4, engine=engine)
    given = [torch.ones_like(part) for part in new]
    first, second = (
        torch.autograd.grad(new, list(leaves.values()), given, retain_graph=True) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(torch.equal(g, torch.ones_like(g)) for g in given)


def test_adjacency_may_be_of_another_type_than_the_states():
    problem = Problem(kind="map")
    single = {name: leaf.float() for name, leaf in problem.leaves.items()}
    got = problem.run(arma_recurrence, single, 3, engine="linear")
    for a, b in zip(got, problem.run(written_out.recur, problem.leaves, 3), strict=True):
        assert torch.allclose(a, b.float(), rtol=1e-4, atol=1e-5)


@engines
@batches
@pytest.mark.no_cover
@pytest.mark.parametrize("function", [arma_recurrence, arma_last_state])
def test_gradcheck(engine, kind, batch, function):
    problem = Problem(2, 3, batch, kind)
    names = list(problem.leaves)
    leaves = [leaf.requires_grad_() for leaf in problem.leaves.values()]

    def run(*values):
        return problem.run(function, dict(zip(names, values, strict=True)), 3, engine=engine)

    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)
    if engine == "reference":
        assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("engine", ["auto", "reference", "scan"])
def test_backbone_is_called_once_a_recurrence_in_order(engine):
    seen = []

    def backbone(x):
        seen.append(x.clone())
        return 0.5 * x

    states = torch.ones(2, 1, 1)
    new, _ = arma_recurrence(
        states, 0 * states, torch.tensor([1.0]), torch.tensor([0.0]), backbone, 3, engine=engine
    )
    assert torch.allclose(torch.stack(seen), torch.cat([states[-1:], new[:-1]]))


@engines
@batches
def test_non_contiguous_input(engine, kind, batch):
    problem = Problem(batch=batch, kind=kind)
    expected = problem.solve(written_out.recur, 4)
    for name in ("states", "residuals"):
        turned = problem.leaves[name].permute(2, 0, 1).contiguous().permute(1, 2, 0)
        assert not turned.is_contiguous()
        problem.leaves[name] = turned
    assert_same(problem.solve(arma_recurrence, 4, engine=engine), expected)


@engines
def test_float32_agrees_with_float64_for_stable_coefficients(engine, kind):
    problem = Problem(batch=BATCH, kind=kind)
    for name in ("phi", "theta"):
        problem.leaves[name] = torch.softmax(problem.leaves[name], -1)
    for name in ("weight", "root_weight"):
        if name in problem.leaves:
            problem.leaves[name] *= 0.02
    problem.loss_weights = normal(2, 64, NODES, CHANNELS)
    exact, gradients = problem.solve(arma_recurrence_reference, 64)
    problem.adjacency = dataclasses.replace(
        problem.adjacency, value=problem.adjacency.value.float()
    )
    problem.leaves = {name: leaf.float() for name, leaf in problem.leaves.items()}
    got, single_gradients = problem.solve(arma_recurrence, 64, engine=engine)
    for a, b in zip(got, exact, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).abs().max() <= 1e-5 * b.abs().max()
    for name, expected in gradients.items():
        assert (single_gradients[name] - expected).norm() <= 1e-4 * expected.norm(), name


@engines
@pytest.mark.parametrize("function", [arma_recurrence, arma_last_state])
def test_shared_coefficients_need_no_graph_dimension_and_no_batch_vector(engine, kind, function):
    problem = Problem(kind=kind)
    expected = problem.solve(function, 3, engine=engine)
    problem.batch = BATCH
    assert_same(problem.solve(function, 3, engine=engine), expected)
    flat = {**problem.leaves, "phi": problem.leaves["phi"][0], "theta": problem.leaves["theta"][0]}
    got = problem.run(function, flat, 3, engine=engine)
    got = (got,) if isinstance(got, torch.Tensor) else got
    assert all(torch.allclose(a, b) for a, b in zip(got, expected[0], strict=True))


@pytest.mark.parametrize("engine", ["auto", "reference", "scan"])
@pytest.mark.parametrize("shared", ["phi", "theta"])
def test_one_kind_of_coefficients_may_be_shared_by_all_graphs(engine, shared):
    problem = Problem(batch=BATCH)
    expected = dict(problem.leaves)
    expected[shared] = expected[shared][:1].expand(NUM_GRAPHS, -1)
    given = {**problem.leaves, shared: problem.leaves[shared][0]}
    got = problem.run(arma_recurrence, given, 3, engine=engine)
    assert torch.allclose(got[0], problem.run(written_out.recur, expected, 3)[0])


@pytest.mark.parametrize("kind", ["tanh", "map"])
def test_function_transforms_see_the_same_jacobian(kind):
    problem = Problem(batch=BATCH, kind=kind)

    def run(states):
        return problem.run(arma_recurrence, {**problem.leaves, "states": states}, 3)[0]

    states = problem.leaves["states"]
    expected = torch.autograd.functional.jacobian(run, states)
    assert torch.allclose(torch.func.jacrev(run)(states), expected)
    assert torch.allclose(torch.func.jacfwd(run)(states), expected)


def test_states_outside_the_unit_circle_grow_as_the_equation_demands():
    states = torch.ones(1, 1, 1, dtype=torch.float64)
    new, _ = arma_recurrence(
        states, 0 * states, torch.tensor([2.0]), torch.tensor([0.0]), torch.zeros_like, 40
    )
    assert new[-1].item() == 2.0**40


GOOD = {
    "states": torch.zeros(3, 4, 2),
    "residuals": torch.zeros(3, 4, 2),
    "phi": torch.zeros(3),
    "theta": torch.zeros(3),
    "backbone": torch.zeros_like,
    "num_recurrences": 2,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "liner"}, r"'engine' to be one of 'linear'.*got 'liner'"),
        ({"engine": "linear"}, r"linear backbone for engine='linear'.*engine='scan'"),
        ({"states": torch.zeros(3, 4)}, r"'states' and 'residuals'.*\[L, N, F\].*\[3, 4\]"),
        ({"residuals": torch.zeros(2, 4, 2)}, r"same shape.*\[3, 4, 2\] and \[2, 4, 2\]"),
        ({"num_recurrences": 0}, r"'num_recurrences' to be at least 1 \(got 0\)"),
        ({"phi": torch.zeros(4)}, r"order of 'phi'.*between 1 and.*got order 4.*length 3"),
        ({"theta": torch.zeros(0)}, r"order of 'theta'.*between 1 and.*got order 0"),
        ({"phi": torch.zeros(1, 1, 3)}, r"'phi' of shape \[order\] or \[B, order\].*\[1, 1, 3\]"),
        ({"theta": torch.tensor(0.0)}, r"'theta' of shape \[order\] or \[B, order\]"),
        ({"phi": torch.zeros(2, 3)}, r"'batch' vector for coefficients of several graphs.*got 2"),
        (
            {"phi": torch.zeros(2, 3), "theta": torch.zeros(3, 3), "batch": torch.zeros(4).long()},
            r"'phi' and 'theta' of as many graphs \(got 2 and 3\)",
        ),
    ],
)
@pytest.mark.parametrize("function", [arma_recurrence, arma_last_state])
def test_bad_arguments_get_one_sentence(change, message, function):
    with pytest.raises(ValueError, match=message) as error:
        function(**{**GOOD, **change})
    assert "\n" not in str(error.value)
