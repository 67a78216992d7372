import math

import numpy
import pytest
import torch

from torch_grama.nn import NaiveCoefficients, SelectiveCoefficients
from torch_grama.nn.coefficients import NORMALIZATIONS
from torch_grama.nn.functional import graph_mean

BATCH = torch.tensor([0, 0, 1, 1, 1, 3])
CHANNELS = 4


@pytest.fixture
def sequence(seed):
    return torch.randn(3, 6, CHANNELS, dtype=torch.float64)


def selective(order=3, **options):
    return SelectiveCoefficients(CHANNELS, order, **options).double()


def scores_by_hand(module, pooled):
    """Scores of one graph, head by head and lag by lag; pooled is [L, F]."""
    size = CHANNELS // module.heads
    query = module.query_weight @ pooled[-1] + module.query_bias
    scores = []
    for i in range(1, module.order + 1):
        key = module.key_weight @ pooled[-i]
        heads = [
            query[h * size : (h + 1) * size] @ key[h * size : (h + 1) * size] / math.sqrt(size)
            for h in range(module.heads)
        ]
        scores.append(sum(heads) / module.heads + module.lag_bias[i - 1])
    return torch.stack(scores)


def poles(phi):
    return numpy.roots(numpy.concatenate([[1.0], -phi.detach().double().numpy()]))


class TestNaive:
    def test_starts_with_the_newest_element_alone(self):
        assert NaiveCoefficients(3)(torch.empty(4, 2, 1)).tolist() == [[1.0, 0.0, 0.0]]

    def test_a_hand_made_weight_keeps_its_order(self):
        module = NaiveCoefficients(3)
        module.weight.data = torch.tensor([6.0, 3.0, 1.0])

        assert module(torch.empty(4, 2, 1)).tolist() == [pytest.approx([0.6, 0.3, 0.1])]

    def test_every_graph_gets_the_same(self, sequence):
        phi = NaiveCoefficients(2)(sequence, BATCH, 5)

        assert phi.tolist() == [[1.0, 0.0]] * 5

    def test_does_not_depend_on_the_input(self, sequence):
        module = NaiveCoefficients(2)

        assert torch.equal(module(sequence), module(-3 * sequence))

    def test_gradient_reaches_the_weight(self):
        module = NaiveCoefficients(3, "none")

        (module(torch.empty(3, 1, 1)) * torch.tensor([1.0, 2.0, 4.0])).sum().backward()

        assert module.weight.grad.tolist() == [1.0, 2.0, 4.0]

    def test_reset(self):
        module = NaiveCoefficients(3)
        module.weight.data.fill_(7)

        module.reset_parameters()

        assert module.weight.tolist() == [1.0, 0.0, 0.0]

    def test_repr(self):
        assert str(NaiveCoefficients(3, "l1")) == "NaiveCoefficients(3, normalization='l1')"

    @pytest.mark.parametrize("radius", [0.5, 0.9, 0.99, 1.0])
    @pytest.mark.parametrize("order", [2, 3, 4, 8])
    def test_initial_poles_of_none(self, radius, order):
        module = NaiveCoefficients(order, "none", initial_poles=radius).double()
        module.reset_parameters()

        assert abs(poles(module(torch.empty(order, 1, 1))[0])) == pytest.approx(radius)

    @pytest.mark.parametrize("radius", [0.5, 0.9, 0.99, 1.0])
    @pytest.mark.parametrize("order", [2, 3, 4, 8])
    def test_initial_poles_of_sum(self, radius, order):
        module = NaiveCoefficients(order, "sum", initial_poles=radius).double()
        module.reset_parameters()

        found = sorted(poles(module(torch.empty(order, 1, 1))[0]), key=lambda pole: abs(pole - 1))

        assert found[0] == pytest.approx(1)
        assert abs(numpy.array(found[1:])) == pytest.approx(radius)

    @pytest.mark.parametrize("radius", [0.5, 0.9, 0.99, 1.0])
    @pytest.mark.parametrize("order", [2, 3, 4, 8])
    def test_dominant_initial_pole_of_l1(self, radius, order):
        module = NaiveCoefficients(order, "l1", initial_poles=radius).double()
        module.reset_parameters()

        assert abs(poles(module(torch.empty(order, 1, 1))[0])).max() == pytest.approx(radius)


class TestSelective:
    @pytest.mark.parametrize("heads", [1, 2, 4])
    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_scores_by_hand(self, sequence, heads, order):
        module = selective(order, heads=heads, normalization="none")

        phi = module(sequence, BATCH, 5)

        pooled = graph_mean(sequence, BATCH, 5)
        expected = torch.stack([scores_by_hand(module, graph).tanh() for graph in pooled])
        assert torch.allclose(phi, expected)

    def test_softmax_takes_the_scores_without_tanh(self, sequence):
        module = selective(normalization="softmax")
        module.lag_bias.data = torch.tensor([3.0, -5.0, 0.0], dtype=torch.float64)

        expected = scores_by_hand(module, graph_mean(sequence)[0]).softmax(-1)

        assert torch.allclose(module(sequence)[0], expected)

    def test_the_first_coefficient_belongs_to_the_newest_element(self):
        # the query is the newest element; only element k of the pooled sequence answers it
        module = selective(normalization="none")
        for parameter, value in (
            (module.query_weight, torch.eye(CHANNELS)),
            (module.key_weight, torch.eye(CHANNELS)),
            (module.query_bias, torch.zeros(CHANNELS)),
            (module.lag_bias, torch.zeros(3)),
        ):
            parameter.data = value.double()
        sequence = torch.zeros(3, 1, CHANNELS, dtype=torch.float64)
        sequence[0, 0, 0], sequence[2, 0, :2] = 8.0, torch.tensor([1.0, 1.0])

        phi = module(sequence)[0]

        # scores: newest against itself 2 / 2, the middle 0, the oldest 8 / 2
        assert torch.allclose(phi, torch.tensor([1.0, 0.0, 4.0], dtype=torch.float64).tanh())

    def test_order_below_the_length_uses_the_last_elements(self, sequence):
        module = selective(2)
        changed = sequence.clone()
        changed[0] += 1

        assert torch.equal(module(sequence), module(changed))

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_graphs_do_not_see_each_other(self, sequence, normalization):
        module = selective(normalization=normalization)

        together = module(sequence, BATCH, 5)

        assert torch.allclose(together[:1], module(sequence[:, :2]))
        assert torch.allclose(together[1:2], module(sequence[:, 2:5]))
        assert torch.allclose(together[3:4], module(sequence[:, 5:]))

    def test_a_graph_without_nodes_gets_finite_coefficients(self, sequence):
        assert torch.isfinite(selective()(sequence, BATCH, 5)).all()

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_a_sequence_of_zeros_gives_finite_coefficients(self, normalization):
        module = selective(normalization=normalization)

        phi = module(torch.zeros(3, 2, CHANNELS, dtype=torch.float64))
        phi.square().sum().backward()

        assert torch.isfinite(phi).all()
        assert all(torch.isfinite(p.grad).all() for p in module.parameters())

    @pytest.mark.parametrize("seed", range(5))
    def test_starts_near_the_mean_of_the_past(self, seed):
        torch.manual_seed(seed)
        module = SelectiveCoefficients(16, 4)

        assert torch.allclose(module(torch.randn(4, 1, 16)), torch.tensor(0.25), atol=0.05)

    def test_starts_with_a_part_that_depends_on_the_input(self, sequence):
        module = selective()

        assert (module(sequence) - module(2 * sequence)).abs().max() > 1e-4

    def test_sum_is_one(self, sequence):
        phi = selective()(100 * sequence, BATCH, 5)

        assert torch.allclose(phi.sum(-1), torch.ones(5, dtype=torch.float64))

    def test_every_parameter_gets_a_gradient(self, sequence):
        module = selective()

        module(sequence, BATCH, 5).square().sum().backward()

        assert all(p.grad.abs().sum() > 0 for p in module.parameters())

    def test_gradcheck(self, sequence):
        module = selective(2, heads=2)
        parameters = dict(module.named_parameters())

        def run(sequence, *values):
            named = dict(zip(parameters, values, strict=True))
            return torch.func.functional_call(module, named, (sequence, BATCH, 5))

        assert torch.autograd.gradcheck(
            run,
            (
                sequence.requires_grad_(),
                *(p.detach().requires_grad_() for p in parameters.values()),
            ),
        )

    def test_autocast_leaves_the_coefficients_in_float32(self, sequence):
        module = SelectiveCoefficients(CHANNELS, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            phi = module(sequence.bfloat16())

        assert phi.dtype == torch.float32

    def test_reset_draws_anew(self):
        module = SelectiveCoefficients(CHANNELS, 3)
        before = {name: p.clone() for name, p in module.named_parameters()}
        module.lag_bias.data.fill_(9)

        module.reset_parameters()

        assert torch.equal(module.lag_bias, before["lag_bias"])
        for name in ("query_weight", "query_bias", "key_weight"):
            assert not torch.equal(module.get_parameter(name), before[name])

    def test_repr(self):
        expected = "SelectiveCoefficients(4, 3, heads=2, normalization='sum')"

        assert str(SelectiveCoefficients(4, 3, heads=2)) == expected

    @pytest.mark.parametrize("radius", [0.8, 0.95])
    @pytest.mark.parametrize("order", [2, 4, 8])
    def test_initial_poles_of_sum_are_near(self, radius, order):
        module = selective(order, normalization="sum", initial_poles=radius)
        sequence = 0.1 * torch.randn(order, 5, CHANNELS, dtype=torch.float64)

        found = sorted(poles(module(sequence)[0]), key=lambda pole: abs(pole - 1))

        assert found[0] == pytest.approx(1)
        assert abs(numpy.array(found[1:])) == pytest.approx(radius, abs=0.05)

    @pytest.mark.parametrize("normalization", ["none", "l1"])
    @pytest.mark.parametrize("radius", [0.8, 0.95])
    def test_dominant_initial_pole_is_near(self, normalization, radius):
        module = selective(4, normalization=normalization, initial_poles=radius)
        sequence = 0.1 * torch.randn(4, 5, CHANNELS, dtype=torch.float64)

        assert abs(poles(module(sequence)[0])).max() == pytest.approx(radius, abs=0.05)

    @pytest.mark.parametrize(
        ("normalization", "radius"), [("none", 0.9), ("l1", 0.9), ("sum", 0.9)]
    )
    def test_initial_poles_are_exact_without_the_input(self, normalization, radius):
        module = selective(4, normalization=normalization, initial_poles=radius)
        expected = NaiveCoefficients(4, normalization, initial_poles=radius)
        module.key_weight.data.zero_()

        phi = module(torch.randn(4, 5, CHANNELS, dtype=torch.float64))

        assert torch.allclose(phi[0], expected(torch.empty(4, 1, 1))[0].double(), atol=1e-6)


@pytest.mark.parametrize(
    "build", [NaiveCoefficients, lambda order: SelectiveCoefficients(4, order)]
)
@pytest.mark.parametrize("order", [0, -1])
def test_orders_below_one_are_refused(build, order):
    with pytest.raises(ValueError, match=rf"'order' to be at least 1 \(got {order}\)"):
        build(order)


@pytest.mark.parametrize("heads", [0, 3, -1])
def test_heads_must_divide_the_channels(heads):
    with pytest.raises(ValueError, match=rf"'heads' to divide.*heads={heads}, channels=4"):
        SelectiveCoefficients(4, 3, heads=heads)


@pytest.mark.parametrize(("length", "channels"), [(2, 4), (3, 5)])
def test_a_sequence_that_does_not_fit_is_refused(length, channels):
    module = SelectiveCoefficients(4, 3)

    with pytest.raises(ValueError, match=r"at least 3 elements and 4 channels \(got"):
        module(torch.zeros(length, 2, channels))


@pytest.mark.parametrize(
    "build", [NaiveCoefficients, lambda *a, **k: SelectiveCoefficients(4, *a, **k)]
)
class TestInitialPolesThatCannotBe:
    def test_softmax_leaves_no_freedom(self, build):
        with pytest.raises(ValueError, match=r"leaves room for 'initial_poles'.*'softmax'"):
            build(3, normalization="softmax", initial_poles=0.9)

    def test_l1_of_order_one_leaves_no_freedom(self, build):
        with pytest.raises(ValueError, match=r"leaves room for 'initial_poles'.*order 1"):
            build(1, normalization="l1", initial_poles=0.9)

    @pytest.mark.parametrize("radius", [0.4, 1.01, float("nan")])
    def test_radius_out_of_range(self, build, radius):
        with pytest.raises(ValueError, match=r"'initial_poles' to be between 0.5 and 1 \(got"):
            build(3, initial_poles=radius)
