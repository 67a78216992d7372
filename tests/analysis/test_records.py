import dataclasses
import json
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.analysis.records import plain_matrix, plain_number, plain_or_none, read_record


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_five_digits_are_kept(value):
    found = plain_number(value)
    assert found == pytest.approx(value, rel=5e-5, abs=1e-300)
    assert plain_number(found) == found


def test_lists_have_the_shape_of_the_tensor():
    values = torch.arange(12.0).view(3, 4)
    assert plain_matrix(values) == values.tolist()
    assert plain_number(torch.tensor(1 / 3)) == 0.33333


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_json_cannot_say(value):
    assert plain_or_none(value) is None
    with pytest.raises(ValueError, match="Expected a finite number"):
        plain_number(value)


@dataclass(frozen=True)
class Inner:
    value: float
    flags: list[bool]


@dataclass(frozen=True)
class Outer:
    name: str
    count: int | None
    rows: list[list[float]]
    parts: dict[str, Inner]
    maybe: list[float | None]
    inner: Inner | None = None


record = Outer(
    "é\u2028</script>", None, [[1.0, 2.5], []], {"a": Inner(1e-9, [True])}, [None, 3.0], None
)


def test_round_trip():
    for one in (record, dataclasses.replace(record, inner=Inner(2.0, []), count=3)):
        content = json.loads(json.dumps(dataclasses.asdict(one)))
        assert read_record(Outer, content, "Outer") == one
    # whole numbers are numbers
    assert read_record(Inner, {"value": 1, "flags": []}, "") == Inner(1.0, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, r"expected str at Outer.name \(got int\)"),
        ({"count": True}, r"expected int at Outer.count \(got bool\)"),
        ({"count": 1.5}, r"expected int at Outer.count \(got float\)"),
        ({"rows": [[1.0], ["x"]]}, r"expected float at Outer.rows\[1\]\[0\] \(got str\)"),
        ({"rows": [[math.nan]]}, r"expected float at Outer.rows\[0\]\[0\] \(got float\)"),
        ({"rows": 5}, r"expected list\[list\[float\]\] at Outer.rows \(got int\)"),
        ({"parts": {"b": 1}}, r"expected Inner at Outer.parts.b \(got int\)"),
        ({"parts": {"b": {"value": 1}}}, r"at Outer.parts.b \(missing: \['flags'\], unknown: none"),
        ({"extra": 1}, r"at Outer \(missing: none, unknown: \['extra'\]\)"),
    ],
)
def test_wrong_content_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        read_record(Outer, dataclasses.asdict(record) | change, "Outer")
