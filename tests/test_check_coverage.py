"""The floor of coverage, on reports written here."""

import json
from pathlib import Path

import pytest

from check_coverage import main


def write_report(
    folder: Path, files: dict[str, tuple[int, int]], source: str = "src/torch_grama"
) -> str:
    """Writes the part of coverage's JSON report that counts: lines run, lines there are."""
    content = {
        f"{source}/{name}": {"summary": {"covered_lines": run, "num_statements": lines}}
        for name, (run, lines) in files.items()
    }
    path = folder / "coverage.json"
    path.write_text(json.dumps({"files": content}))
    return str(path)


GOOD = {"nn/grama.py": (96, 100), "analysis/stability.py": (95, 100), "cli.py": (0, 50)}


def test_enough(tmp_path, capsys):
    assert main([write_report(tmp_path, GOOD)]) == 0
    out = capsys.readouterr().out
    assert "96.0 %" in out
    assert "too low" not in out
    assert "datasets" not in out


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("nn/grama.py", (94, 100)),
        ("nn/engine/scan.py", (0, 50)),  # 96 of 150
        ("analysis/stability.py", (9499, 10000)),
        ("datasets/load.py", (89, 100)),
    ],
)
def test_too_little(tmp_path, capsys, name, counts):
    assert main([write_report(tmp_path, GOOD | {name: counts})]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "too low" in line] == [name.split("/")[0]]
    assert f"{counts[1] - counts[0]} of {counts[1]:4d} not run in src/torch_grama/{name}" in (
        "\n".join(lines)
    )


def test_device_code_does_not_count(tmp_path):
    files = GOOD | {"nn/engine/triton_kernels.py": (0, 500)}
    assert main([write_report(tmp_path, files)]) == 0
    assert main([write_report(tmp_path, GOOD | {"nn/engine/kernels.py": (0, 500)})]) == 1


def test_clone_in_a_folder_of_the_same_name(tmp_path):
    assert main([write_report(tmp_path, GOOD, "/home/me/torch_grama/src/torch_grama")]) == 0


def test_files_of_a_room_are_added_up(tmp_path):
    files = GOOD | {"nn/short.py": (1, 10), "nn/long.py": (2000, 2000)}
    assert main([write_report(tmp_path, files)]) == 0


def test_a_room_that_was_not_measured_fails(tmp_path, capsys):
    assert main([write_report(tmp_path, {"nn/grama.py": (100, 100)})]) == 1
    assert "analysis" in capsys.readouterr().out


def test_data_sets_count_when_they_are_there(tmp_path):
    assert main([write_report(tmp_path, GOOD | {"datasets/load.py": (90, 100)})]) == 0


@pytest.mark.parametrize("text", ["", "[]", '{"files": {"a": {}}}', None])
def test_a_report_that_is_none(tmp_path, text):
    path = tmp_path / "coverage.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match="expected a JSON report of coverage"):
        main([str(path)])


def test_usage():
    with pytest.raises(SystemExit, match="usage: "):
        main([])
