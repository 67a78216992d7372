import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.analysis.plain_numbers import (
    plain_cube,
    plain_flags,
    plain_matrix,
    plain_number,
    plain_or_none,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_five_digits_are_kept(value):
    found = plain_number(value)
    assert found == pytest.approx(value, rel=5e-5, abs=1e-300)
    assert plain_number(found) == found


def test_lists_have_the_shape_of_the_tensor():
    values = torch.arange(24.0).view(2, 3, 4)
    assert plain_cube(values) == values.tolist()
    assert plain_matrix(values[0]) == values[0].tolist()
    assert plain_flags(torch.tensor([True, False])) == [True, False]
    assert plain_number(torch.tensor(1 / 3)) == 0.33333


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_json_cannot_say(value):
    assert plain_or_none(value) is None
    with pytest.raises(ValueError, match="Expected a finite number"):
        plain_number(value)
