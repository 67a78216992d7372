import pytest
import torch

from torch_grama.nn.coefficients import DEFAULT_GUARD, NORMALIZATIONS, choose_normalization
from torch_grama.nn.functional import normalize_l1, normalize_softmax, normalize_sum

GUARD = DEFAULT_GUARD


def scores_with_sum(total, size=4):
    """Scores of ordinary size, of both signs, with the given sum."""
    scores = torch.tensor([0.9, -0.7, 0.4, -0.8], dtype=torch.float64)[:size]
    return scores + (total - scores.sum()) / size


@pytest.mark.parametrize("total", [0.0, 1e-12, -1e-12])
def test_sum_near_zero_gives_uniform_coefficients(total):
    phi = normalize_sum(scores_with_sum(total))

    assert torch.allclose(phi, torch.full((4,), 0.25, dtype=torch.float64), atol=1e-9)


@pytest.mark.parametrize("total", [-3.0, -1.01 * GUARD, 1.01 * GUARD, 0.5, 3.0])
def test_outside_the_guard_it_is_the_plain_quotient(total):
    scores = scores_with_sum(total)

    assert torch.allclose(normalize_sum(scores), scores / scores.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "total", [-1.0, -GUARD, -0.99 * GUARD, -1e-12, 0.0, 1e-12, 0.5 * GUARD, 0.99 * GUARD, GUARD, 2]
)
def test_sum_normalised_coefficients_add_up_to_one(total):
    assert normalize_sum(scores_with_sum(total)).sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("total", torch.linspace(-2 * GUARD, 2 * GUARD, 41).tolist())
def test_sum_normalised_coefficients_stay_bounded(total):
    scores = scores_with_sum(total)

    assert normalize_sum(scores).abs().max() <= scores.abs().max() / GUARD + 1 / 4


@pytest.mark.parametrize("edge", [-GUARD, 0.0, GUARD])
def test_sum_normalisation_is_continuous(edge):
    below, above = (normalize_sum(scores_with_sum(edge + step)) for step in (-1e-9, 1e-9))

    assert torch.allclose(below, above, atol=1e-6)


def test_sign_of_a_tiny_sum_does_not_matter():
    plus, minus = (normalize_sum(scores_with_sum(total)) for total in (1e-12, -1e-12))

    assert torch.allclose(plus, minus, atol=1e-9)


def test_gradient_at_the_sum_zero_is_finite():
    scores = scores_with_sum(0.0).requires_grad_()

    normalize_sum(scores)[0].backward()

    assert torch.isfinite(scores.grad).all()


def test_all_scores_zero_give_uniform_coefficients():
    assert normalize_sum(torch.zeros(5)).tolist() == pytest.approx([0.2] * 5)


def test_a_chosen_guard_is_kept():
    scores = scores_with_sum(0.5)

    assert torch.allclose(normalize_sum(scores, guard=0.4), scores / scores.sum())
    assert not torch.allclose(normalize_sum(scores, guard=0.6), scores / scores.sum())


def test_l1_by_hand():
    assert normalize_l1(torch.tensor([1.0, -3.0, 4.0])).tolist() == [0.125, -0.375, 0.5]


@pytest.mark.parametrize("scale", [1e-12, 0.01, 1.0, 100.0])
def test_l1_satisfies_the_stability_condition(scale):
    assert normalize_l1(scale * torch.randn(50, 6)).abs().sum(-1).max() <= 1 + 1e-6


def test_l1_divides_by_the_guard_below_it():
    scores = torch.tensor([0.02, -0.03])

    assert torch.allclose(normalize_l1(scores), scores / GUARD)


def test_softmax_is_positive_and_adds_up_to_one():
    phi = normalize_softmax(torch.tensor([0.0, torch.log(torch.tensor(3.0)).item()]))

    assert phi.tolist() == pytest.approx([0.25, 0.75])


def test_none_keeps_the_scores():
    scores = torch.randn(3)

    assert choose_normalization("none")(scores, GUARD) is scores


@pytest.mark.parametrize("word", NORMALIZATIONS)
@pytest.mark.parametrize("total", [0.5, 0.4 * GUARD])
def test_gradient(word, total):
    scores = torch.stack([scores_with_sum(total), scores_with_sum(-total)]).requires_grad_()

    assert torch.autograd.gradcheck(lambda s: choose_normalization(word)(s, GUARD), scores)


@pytest.mark.parametrize("word", NORMALIZATIONS)
def test_rows_are_independent(word):
    scores = torch.randn(3, 4)
    normalize = choose_normalization(word)

    assert torch.allclose(normalize(scores, GUARD)[1], normalize(scores[1], GUARD))


def test_an_unknown_word_lists_the_nearest_first():
    with pytest.raises(ValueError, match=r"Expected 'normalization' to be one of 'softmax'.*'l1'"):
        choose_normalization("soft-max")
