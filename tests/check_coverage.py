"""Fails when a room of the package has too few of its lines run by the tests.

python tests/check_coverage.py COVERAGE_JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath

PACKAGE = "torch_grama"


@dataclass(frozen=True)
class Room:
    """A folder of the package and the share of its lines that must be run, in percent."""

    name: str
    floor: float
    required: bool = True
    except_for: str = ""


ROOMS = (
    # Triton's device code is compiled, or run by its interpreter, where coverage cannot follow.
    Room("nn", 95, except_for="triton_*.py"),
    Room("analysis", 95),
    Room("datasets", 90, required=False),
    Room("runs", 95, required=False),
    # a CUDA graph needs a CUDA device
    Room("training", 90, required=False, except_for="captured_step.py"),
    Room("experiments", 90, required=False),
    Room("report", 90, required=False),
    Room("search", 90, required=False),
    Room("reproduce", 90, required=False),
    Room("cli", 90, required=False),
)


@dataclass(frozen=True)
class Row:
    """What was measured of a room, and its files with lines that were not run, worst first."""

    room: Room
    covered: int
    lines: int
    gaps: tuple[tuple[str, int, int], ...]

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.lines if self.lines else 0.0

    @property
    def fails(self) -> bool:
        return self.percent < self.room.floor and (self.lines > 0 or self.room.required)


def measure(files: Mapping[str, tuple[int, int]]) -> list[Row]:
    """Adds up lines that were run, and lines there are, of the files of each room."""
    rows = []
    for room in ROOMS:
        inside = [(path, *files[path]) for path in files if _is_inside(PurePath(path), room)]
        gaps = [(path, covered, lines) for path, covered, lines in inside if covered < lines]
        gaps.sort(key=lambda gap: gap[1] - gap[2])
        covered = sum(covered for _, covered, _ in inside)
        lines = sum(lines for _, _, lines in inside)
        rows.append(Row(room, covered, lines, tuple(gaps)))
    return rows


def read_report(path: Path) -> dict[str, tuple[int, int]]:
    """Reads lines that were run, and lines there are, of every file from coverage's JSON report."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        summaries = {name: file["summary"] for name, file in files.items()}
        return {
            name: (summary["covered_lines"], summary["num_statements"])
            for name, summary in summaries.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SystemExit(
            f"{path}: expected a JSON report of coverage (got {type(error).__name__}: {error}); "
            f"make one with `pytest --cov --cov-report=json:{path}`"
        ) from error


def format_table(rows: Sequence[Row]) -> str:
    """One line a room, and below a room that fails the files that it lacks."""
    lines = [f"{'lines run':24s} {'run':>6s} {'all':>6s} {'share':>8s} {'floor':>8s}"]
    for row in rows:
        if not row.lines and not row.room.required:
            continue
        name = row.room.name + (f" without {row.room.except_for}" if row.room.except_for else "")
        verdict = "  too low" if row.fails else ""
        lines.append(
            f"{name:24s} {row.covered:6d} {row.lines:6d} "
            f"{row.percent:6.1f} % {row.room.floor:6.1f} %{verdict}"
        )
        if row.fails:
            lines += [
                f"    {lines_of - covered:4d} of {lines_of:4d} not run in {path}"
                for path, covered, lines_of in row.gaps
            ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        raise SystemExit("usage: python tests/check_coverage.py COVERAGE_JSON")
    rows = measure(read_report(Path(arguments[0])))
    print(format_table(rows))
    return int(any(row.fails for row in rows))


def _is_inside(path: PurePath, room: Room) -> bool:
    # the innermost folder of that name: a clone may lie in one too
    _, _, within = f"/{path.as_posix()}".rpartition(f"/{PACKAGE}/")
    return within.startswith(f"{room.name}/") and not fnmatch(path.name, room.except_for)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
