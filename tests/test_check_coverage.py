"""The floors of coverage, on files of twenty lines that are said to have been run."""

import subprocess
import sys
from pathlib import Path

import pytest
from coverage import Coverage

import check_coverage
import torch_grama
from check_coverage import FLOORS, check


def measure(folder: Path, changed: dict[str, int], data_file: Path | None = None) -> Coverage:
    """Files of twenty lines in every room, of which all, or as many as `changed` says, were run."""
    measured = Coverage(data_file=data_file and str(data_file), config_file=False)
    for name, run in ({f"{room}/file.py": 20 for room in FLOORS} | changed).items():
        path = folder / "torch_grama" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n" * 20)
        # of a room of which nothing was run, coverage knows nothing
        measured.get_data().add_lines({str(path): range(1, 1 + run)} if run else {})
    return measured


def test_every_room_has_a_floor():
    rooms = Path(torch_grama.__file__).parent.glob("*/__init__.py")
    assert {path.parent.name for path in rooms} == set(FLOORS)


@pytest.mark.parametrize(
    ("changed", "low"),
    [
        ({}, []),
        ({"nn/file.py": 18}, ["nn"]),
        ({"cli/file.py": 18}, []),
        ({"cli/file.py": 17, "search/file.py": 0}, ["cli", "search"]),
        ({"nn/engine/file.py": 18}, []),  # the files of a room are added up
        ({"nn/engine/triton_edges.py": 0, "training/captured_step.py": 0}, []),
    ],
)
def test_a_room_below_its_floor_fails(tmp_path, changed, low):
    assert [line.split()[0] for line in check(measure(tmp_path, changed))] == low


@pytest.mark.parametrize(("changed", "code"), [({}, 0), ({"nn/file.py": 0}, 1)])
def test_the_script_succeeds_where_no_room_is_below(tmp_path, changed, code):
    measure(tmp_path, changed, tmp_path / ".coverage").get_data().write()
    ended = subprocess.run([sys.executable, check_coverage.__file__], cwd=tmp_path)
    assert ended.returncode == code
