"""Lists of numbers out of JSON that may hold anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_grama.runs.run_files import as_number

Row = list[float | None]
Matrix = list[Row]
Cube = list[Matrix]

# More rows than any figure here shows.
_MAX = 4096


def row_of(value: object) -> Row:
    r"""A list of numbers, :obj:`None` for what is none; empty for what is no list."""
    if not isinstance(value, list):
        return []
    return [round_off(as_number(item)) for item in value[:_MAX]]


def matrix_of(value: object) -> Matrix:
    r"""A list of equally long lists of numbers; empty for anything else."""
    if not isinstance(value, list):
        return []
    rows = [row_of(item) for item in value[:_MAX]]
    return rows if rows and all(len(row) == len(rows[0]) for row in rows) else []


def cube_of(value: object) -> Cube:
    r"""A list of such lists of one shape; empty for anything else."""
    if not isinstance(value, list):
        return []
    matrices = [matrix_of(item) for item in value[:_MAX]]
    if not matrices or any(not matrix for matrix in matrices):
        return []
    shape = (len(matrices[0]), len(matrices[0][0]))
    same = all((len(matrix), len(matrix[0])) == shape for matrix in matrices)
    return matrices if same else []


def mapping_of(value: object) -> Mapping[str, object]:
    r"""A mapping; empty for anything else."""
    return value if isinstance(value, dict) else {}


def mappings_of(value: object) -> list[Mapping[str, object]]:
    r"""The mappings in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def known(values: Sequence[float | None]) -> list[float]:
    r"""The numbers of a list without its gaps."""
    return [value for value in values if value is not None]


def mean_of(values: Sequence[float | None]) -> float | None:
    r"""The mean of the numbers of a list, or :obj:`None` without any."""
    there = known(values)
    return sum(there) / len(there) if there else None


def columns_of(matrix: Matrix) -> Matrix:
    r"""The transpose."""
    return [list(column) for column in zip(*matrix, strict=True)]


def round_off(value: float | None) -> float | None:
    r"""Four digits: more than a figure shows."""
    return None if value is None else float(f"{value:.4g}")
