import numpy
import pytest
import torch

from torch_grama.nn.functional import (
    coefficients_with_poles,
    normalize_l1,
    normalize_sum,
)


def poles(phi):
    return numpy.roots(numpy.concatenate([[1.0], -phi.numpy()]))


radii = pytest.mark.parametrize("radius", [0.5, 0.7, 0.95, 0.999, 1.0])
orders = pytest.mark.parametrize("order", [2, 3, 4, 7, 16])


@radii
@pytest.mark.parametrize("order", [1, 2, 3, 4, 7, 16])
def test_without_normalisation_all_poles_lie_on_the_circle(order, radius):
    found = poles(coefficients_with_poles(order, radius, "none"))

    assert len(found) == order
    assert abs(found) == pytest.approx(radius, rel=1e-9)


@radii
@orders
def test_without_normalisation_the_poles_are_evenly_spread(order, radius):
    angles = numpy.sort(numpy.angle(poles(coefficients_with_poles(order, radius, "none"))))

    assert numpy.diff(angles) == pytest.approx(2 * numpy.pi / order)


@radii
@orders
def test_with_sum_one_pole_is_one_and_the_others_lie_on_the_circle(order, radius):
    found = sorted(
        poles(coefficients_with_poles(order, radius, "sum")), key=lambda pole: abs(pole - 1)
    )

    assert found[0] == pytest.approx(1)
    assert abs(numpy.array(found[1:])) == pytest.approx(radius, rel=1e-9)


@radii
@orders
def test_with_l1_the_dominant_pole_is_real_and_at_the_radius(order, radius):
    found = poles(coefficients_with_poles(order, radius, "l1"))

    dominant = found[numpy.argmax(abs(found))]
    assert dominant == pytest.approx(radius, rel=1e-9)


@radii
@orders
@pytest.mark.parametrize(("word", "normalize"), [("sum", normalize_sum), ("l1", normalize_l1)])
def test_the_normalisation_leaves_them_as_they_are(order, radius, word, normalize):
    phi = coefficients_with_poles(order, radius, word)

    assert torch.allclose(normalize(phi), phi, atol=1e-12)


def test_sum_of_order_one_is_the_only_coefficient():
    assert coefficients_with_poles(1, 0.9, "sum").tolist() == [1.0]


def test_result_is_float64():
    assert coefficients_with_poles(3, 0.9, "none").dtype == torch.float64


@pytest.mark.parametrize(("order", "normalization"), [(3, "softmax"), (1, "l1")])
def test_no_freedom_is_an_error(order, normalization):
    with pytest.raises(ValueError, match=rf"leaves room.*initial_poles=0.9.*'{normalization}'"):
        coefficients_with_poles(order, 0.9, normalization)


@pytest.mark.parametrize("radius", [0.49, 1.0001, -1, float("nan"), float("inf")])
def test_radius_out_of_range_is_an_error(radius):
    with pytest.raises(ValueError, match=r"'initial_poles' to be between 0\.5 and 1"):
        coefficients_with_poles(3, radius, "sum")
