import dataclasses
import json
from dataclasses import dataclass

import pytest

from torch_grama.analysis.record_file import read_record, write_record


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


def test_round_trip(tmp_path):
    path = tmp_path / "new" / "record.json"
    write_record(record, path)
    assert read_record(Outer, path) == record
    full = dataclasses.replace(record, inner=Inner(2.0, []), count=3)
    write_record(full, path)
    assert read_record(Outer, path) == full
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]


def test_whole_numbers_are_numbers(tmp_path):
    path = tmp_path / "record.json"
    path.write_text('{"value": 1, "flags": []}')
    assert read_record(Inner, path) == Inner(1.0, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, r"expected str at Outer.name \(got int\)"),
        ({"count": True}, r"expected int at Outer.count \(got bool\)"),
        ({"count": 1.5}, r"expected int at Outer.count \(got float\)"),
        ({"rows": [[1.0], ["x"]]}, r"expected float at Outer.rows\[1\]\[0\] \(got str\)"),
        ({"rows": 5}, r"expected list\[list\[float\]\] at Outer.rows \(got int\)"),
        ({"parts": {"b": 1}}, r"expected an object at Outer.parts.b \(got int\)"),
        ({"parts": {"b": {"value": 1}}}, r"at Outer.parts.b \(missing: \['flags'\], unknown: none"),
        ({"extra": 1}, r"at Outer \(missing: none, unknown: \['extra'\]\)"),
    ],
)
def test_wrong_content_is_named(tmp_path, change, message):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(dataclasses.asdict(record) | change))
    with pytest.raises(ValueError, match=message):
        read_record(Outer, path)


@pytest.mark.parametrize("text", ["", "{", '{"value": NaN, "flags": []}', "[1, 2"])
def test_broken_files_are_refused(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"Expected JSON in .*record.json"):
        read_record(Inner, path)


def test_numbers_that_json_cannot_say_leave_the_old_file(tmp_path):
    path = tmp_path / "record.json"
    write_record(Inner(1.0, []), path)
    with pytest.raises(ValueError, match="JSON"):
        write_record(Inner(float("inf"), []), path)
    assert read_record(Inner, path) == Inner(1.0, [])
    assert len(list(tmp_path.iterdir())) == 1
