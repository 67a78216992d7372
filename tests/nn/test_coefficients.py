import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_grama.nn import Coefficients, GRAMABlock, NaiveCoefficients, SelectiveCoefficients
from torch_grama.nn.coefficients import CONSTRAINTS, PACE
from torch_grama.nn.functional import (
    coefficients_with_poles,
    forward_differences,
    normalize_l1,
    normalize_softmax,
    normalize_sum,
)

CHANNELS = 4


def scores_with_share(share):
    """Scores of both signs whose sum is the given share of the sum of their absolute values."""
    up, down = torch.tensor([0.9, 0.3]), torch.tensor([0.5, 0.7])
    up, down = up / up.sum() * (1 + share) / 2, down / down.sum() * (1 - share) / 2
    return torch.cat([up, -down]).double()


def poles(phi):
    return numpy.roots(numpy.concatenate([[1.0], -phi.detach().double().numpy()]))


class TestSum:
    @pytest.mark.parametrize("share", [0.0, 1e-12, -1e-12])
    def test_near_zero_gives_uniform_coefficients(self, share):
        phi = normalize_sum(scores_with_share(share))
        assert torch.allclose(phi, torch.full((4,), 0.25, dtype=torch.float64), atol=1e-9)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.floats(1e-6, 10))
    def test_adds_up_to_one_and_stays_bounded_for_any_scores(self, scores, scale):
        c = scale * torch.tensor(scores, dtype=torch.float64)
        total, size = c.sum(), c.abs().sum()
        phi = normalize_sum(c)
        assert phi.sum().item() == pytest.approx(1, abs=1e-6)
        assert phi.abs().sum().item() <= 3 + 1e-6
        if size >= 0.1 and total.abs() >= size / 3:
            assert torch.allclose(phi, c / total)

    @pytest.mark.parametrize("edge", [-1 / 3, 0.0, 1 / 3])
    def test_is_continuous(self, edge):
        below, above = (normalize_sum(scores_with_share(edge + step)) for step in (-1e-9, 1e-9))
        assert torch.allclose(below, above, atol=1e-6)

    def test_gradient_at_the_sum_zero_is_finite(self):
        scores = scores_with_share(0.0).requires_grad_()
        normalize_sum(scores)[0].backward()
        assert torch.isfinite(scores.grad).all()

    def test_all_scores_zero_give_uniform_coefficients(self):
        assert normalize_sum(torch.zeros(5)).tolist() == pytest.approx([0.2] * 5)

    def test_one_score_alone_is_one_whatever_it_is(self):
        scores = torch.linspace(-2, 2, 101).unsqueeze(1).requires_grad_()
        phi = normalize_sum(scores)
        (phi * torch.randn(101, 1)).sum().backward()
        assert torch.equal(phi, torch.ones(101, 1))
        assert torch.equal(scores.grad, torch.zeros(101, 1))


class TestConstraints:
    def test_l1_by_hand(self):
        assert normalize_l1(torch.tensor([1.0, -3.0, 4.0])).tolist() == [0.125, -0.375, 0.5]

    @pytest.mark.parametrize("scale", [1e-12, 0.01, 1.0, 100.0])
    def test_l1_satisfies_the_stability_condition(self, scale):
        assert normalize_l1(scale * torch.randn(50, 6)).abs().sum(-1).max() <= 1 + 1e-6

    def test_l1_divides_tiny_scores_by_a_constant(self):
        scores = torch.tensor([0.02, -0.03])
        assert torch.allclose(normalize_l1(scores), 10 * scores)

    def test_softmax_is_positive_and_adds_up_to_one(self):
        phi = normalize_softmax(torch.tensor([0.0, math.log(3.0)]))
        assert phi.tolist() == pytest.approx([0.25, 0.75])

    def test_none_keeps_the_scores(self):
        scores = torch.randn(3)
        assert CONSTRAINTS["none"](scores) is scores

    @pytest.mark.parametrize("word", CONSTRAINTS)
    @pytest.mark.parametrize("share", [0.5, 0.2, -0.1])
    @pytest.mark.parametrize("scale", [1.0, 0.05])
    def test_gradient(self, word, share, scale):
        rows = [scores_with_share(share), scores_with_share(0.9)]
        scores = (scale * torch.stack(rows)).requires_grad_()
        assert torch.autograd.gradcheck(CONSTRAINTS[word], scores)


radii = pytest.mark.parametrize("radius", [0.5, 0.7, 0.95, 0.999, 1.0])
orders = pytest.mark.parametrize("order", [2, 3, 4, 7, 16])


@radii
class TestPoles:
    @orders
    def test_without_constraint_all_lie_evenly_on_the_circle(self, order, radius):
        found = poles(coefficients_with_poles(order, radius, "none"))
        assert len(found) == order
        assert abs(found) == pytest.approx(radius, rel=1e-9)
        angles = numpy.sort(numpy.angle(found))
        assert numpy.diff(angles) == pytest.approx(2 * numpy.pi / order)

    @orders
    def test_with_sum_one_is_one_and_the_others_lie_on_the_circle(self, order, radius):
        found = poles(coefficients_with_poles(order, radius, "sum"))
        found = sorted(found, key=lambda pole: abs(pole - 1))
        assert found[0] == pytest.approx(1)
        assert abs(numpy.array(found[1:])) == pytest.approx(radius, rel=1e-9)

    @orders
    def test_with_l1_the_dominant_one_is_real_and_at_the_radius(self, order, radius):
        found = poles(coefficients_with_poles(order, radius, "l1"))
        assert found[numpy.argmax(abs(found))] == pytest.approx(radius, rel=1e-9)

    @orders
    @pytest.mark.parametrize("word", ["sum", "l1", "none"])
    def test_the_constraint_leaves_them_as_they_are(self, order, radius, word):
        phi = coefficients_with_poles(order, radius, word)
        assert phi.dtype == torch.float64
        assert torch.allclose(CONSTRAINTS[word](phi), phi, atol=1e-12)

    def test_sum_of_order_one_is_the_only_coefficient(self, radius):
        assert coefficients_with_poles(1, radius, "sum").tolist() == [1.0]


@pytest.mark.parametrize(
    "build",
    [
        lambda order, radius, word: coefficients_with_poles(order, radius, word),
        lambda order, radius, word: NaiveCoefficients(order, 2, word, radius),
        lambda order, radius, word: SelectiveCoefficients(4, order, 2, 16, word, radius),
    ],
    ids=["function", "naive", "selective"],
)
class TestPolesThatCannotBe:
    @pytest.mark.parametrize(("order", "constraint"), [(3, "softmax"), (1, "l1")])
    def test_no_freedom(self, build, order, constraint):
        with pytest.raises(ValueError, match=rf"leaves room.*poles=0.9.*'{constraint}'"):
            build(order, 0.9, constraint)

    @pytest.mark.parametrize("radius", [0.49, 1.0001, -1, float("nan"), float("inf")])
    def test_radius_out_of_range(self, build, radius):
        with pytest.raises(ValueError, match=r"'poles' to be between 0\.5 and 1 \(got"):
            build(3, radius, "sum")


class TestNaive:
    def test_start_with_the_newest_element_alone(self):
        phi, theta = NaiveCoefficients(3, 2)()
        assert phi.tolist() == [[1.0, 0.0, 0.0]]
        assert theta.tolist() == [[1.0, 0.0]]

    def test_a_hand_made_weight_keeps_its_order(self):
        module = NaiveCoefficients(3, 2)
        module.weight.data = torch.tensor([6.0, 3.0, 1.0, 1.0, 3.0])
        phi, theta = module(torch.randn(4, 3, 1))
        assert phi.tolist() == [pytest.approx([0.6, 0.3, 0.1])]
        assert theta.tolist() == [pytest.approx([0.25, 0.75])]

    def test_gradient_reaches_the_weight(self):
        module = NaiveCoefficients(2, 1, "none")
        phi, theta = module()
        (phi @ torch.tensor([1.0, 2.0]) + 4 * theta[:, 0]).backward()
        assert module.weight.grad.tolist() == [PACE, 2 * PACE, 4 * PACE]

    def test_fixed_ones_are_not_trained(self):
        module = Coefficients("fixed").build(8, 3)
        assert not any(p.requires_grad for p in module.parameters())
        assert torch.equal(module().phi, NaiveCoefficients(3, 3)().phi)

    def test_poles_concern_the_states_alone(self):
        module = NaiveCoefficients(4, 3, "sum", 0.9)
        assert torch.allclose(module().phi[0].double(), coefficients_with_poles(4, 0.9, "sum"))
        assert module().theta.tolist() == [[1.0, 0.0, 0.0]]

    def test_reset(self):
        module = NaiveCoefficients(3, 2)
        module.weight.data.fill_(7)
        module.reset_parameters()
        assert (PACE * module.weight).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]


def selective(p=3, q=2, **options):
    module = SelectiveCoefficients(CHANNELS, p, q, **options).double()
    torch.nn.init.normal_(module.key_weight)
    torch.nn.init.normal_(module.lag_bias, std=1 / PACE)
    return module


def scores_by_hand(module, side, pooled, order):
    """Scores of one graph, lag by lag; pooled is [L, F]."""
    unit = pooled / (pooled.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    query = module.query_weight[side] @ unit[-1] + module.query_bias[side]
    keys = [module.key_weight[side] @ unit[-i] for i in range(1, order + 1)]
    mean = sum(keys) / order
    scores = [query @ (key - mean) / math.sqrt(module.width) for key in keys]
    return torch.stack(scores) + PACE * module.lag_bias[side, :order]


@pytest.fixture
def pooled(seed):
    """Means of states and residuals of three graphs, the last one without nodes."""
    sequences = torch.randn(2, 3, 3, CHANNELS, dtype=torch.float64)
    sequences[:, 2] = 0
    return sequences.unbind(0)


class TestSelective:
    @pytest.mark.parametrize("width", [1, 5, 16])
    @pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 3), (1, 3), (3, 2)])
    @pytest.mark.parametrize("constraint", CONSTRAINTS)
    def test_scores_by_hand(self, pooled, width, p, q, constraint):
        module = selective(p, q, width=width, constraint=constraint)
        bend = torch.Tensor.clone if constraint == "softmax" else torch.tanh
        got = module(*pooled)
        for side, (coefficients, means, order) in enumerate(zip(got, pooled, (p, q), strict=True)):
            scores = [bend(scores_by_hand(module, side, graph, order)) for graph in means]
            expected = torch.stack([CONSTRAINTS[constraint](row) for row in scores])
            assert torch.allclose(coefficients, expected)

    def test_without_residuals_these_are_differences_of_the_states(self, pooled):
        module = selective()
        differences = forward_differences(pooled[0].transpose(0, 1)).transpose(0, 1)
        for a, b in zip(module(pooled[0]), module(pooled[0], differences), strict=True):
            assert torch.allclose(a, b)

    @pytest.mark.parametrize("constraint", CONSTRAINTS)
    def test_a_sequence_of_zeros_gives_finite_coefficients(self, constraint):
        module = SelectiveCoefficients(CHANNELS, 3, 2, constraint=constraint)
        zeros = torch.zeros(1, 3, CHANNELS)
        phi, theta = module(zeros, zeros)
        (phi.square().sum() + theta.square().sum()).backward()
        assert torch.isfinite(phi).all()
        assert torch.isfinite(theta).all()
        assert all(torch.isfinite(p.grad).all() for p in module.parameters())

    # those of softmax are never zero, and leave no poles to place
    @pytest.mark.parametrize("constraint", ["sum", "l1", "none"])
    @pytest.mark.parametrize("poles", [None, 0.8, 0.95])
    def test_starts_as_naive_ones_do_for_every_graph(self, constraint, poles):
        module = SelectiveCoefficients(16, 4, 3, constraint=constraint, poles=poles)
        expected = NaiveCoefficients(4, 3, constraint, poles)()
        got = module(torch.randn(5, 4, 16))
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b.expand(5, -1), atol=2e-3)

    def test_keys_are_taught_from_the_first_step(self, pooled):
        module = SelectiveCoefficients(CHANNELS, 3, 2).double()
        phi, theta = module(*pooled)
        (phi[:, 0] + theta[:, 0]).square().sum().backward()
        assert (module.key_weight.grad.flatten(1).abs().sum(1) > 0).all()

    @pytest.mark.parametrize("constraint", CONSTRAINTS)
    def test_gradcheck(self, pooled, constraint):
        module = selective(2, 1, width=3, constraint=constraint)
        parameters = dict(module.named_parameters())
        names = list(parameters)
        leaves = [*(part[:2] for part in pooled), *(p.detach() for p in parameters.values())]

        def run(states, residuals, *values):
            named = dict(zip(names, values, strict=True))
            return torch.func.functional_call(module, named, (states, residuals))

        assert torch.autograd.gradcheck(run, [leaf.requires_grad_() for leaf in leaves])

    def test_half_precision_means_are_read_in_the_precision_of_the_weights(self, pooled):
        module = selective().float()
        half = [part.bfloat16() for part in pooled]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            phi, theta = module(*half)
        assert phi.dtype == theta.dtype == torch.float32
        assert torch.allclose(phi, module(*(part.float() for part in half)).phi)

    def test_reset_draws_anew(self):
        module = SelectiveCoefficients(CHANNELS, 3, 2)
        before = {name: p.clone() for name, p in module.named_parameters()}
        for parameter in module.parameters():
            parameter.data.fill_(9)
        module.reset_parameters()
        for name, value in before.items():
            is_drawn = name.startswith("query")
            assert torch.equal(module.get_parameter(name), value) is not is_drawn, name

    @pytest.mark.parametrize(("length", "channels"), [(2, 4), (3, 5)])
    def test_a_sequence_that_does_not_fit_is_refused(self, length, channels):
        with pytest.raises(ValueError, match=r"at least 3 elements and 4 channels \(got"):
            SelectiveCoefficients(4, 2, 3)(torch.zeros(2, length, channels))

    @pytest.mark.parametrize(("backbone", "share"), [("gatedgcn", 0.1), ("gcn", 0.34)])
    def test_takes_a_small_share_of_the_parameters_of_a_block(self, backbone, share):
        block = GRAMABlock(128, backbone)
        own, all_of_it = (
            sum(p.numel() for p in module.parameters()) for module in (block.coefficients, block)
        )
        assert own <= share * all_of_it


class TestSettings:
    def test_a_word_is_a_kind(self):
        assert Coefficients.of("naive") == Coefficients(kind="naive")
        given = Coefficients(ar_order=2)
        assert Coefficients.of(given) is given

    def test_orders_are_as_long_as_the_sequence_unless_given(self):
        module = Coefficients(ma_order=2, channels=5).build(CHANNELS, 4)
        assert (module.ar_order, module.ma_order, module.width) == (4, 2, 5)

    @pytest.mark.parametrize("name", ["ar_order", "ma_order"])
    def test_orders_must_fit_the_sequence(self, name):
        Coefficients(**{name: 4}).check_orders(4)
        Coefficients(**{name: 2}).check_orders(4, 2)
        for order in (0, -1, 5):
            message = rf"'{name}' to be between 1 and 'seq_len' \(got {name}={order}, seq_len=4\)"
            with pytest.raises(ValueError, match=message):
                Coefficients(**{name: order}).check_orders(4, 9)
        with pytest.raises(ValueError, match=rf"second block receives \(got {name}=3, num_rec"):
            Coefficients(**{name: 3}).check_orders(4, 2)
