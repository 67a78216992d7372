"""What the files of a run say, read without trust and without torch."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch_grama.runs.metrics_file import whole_rows
from torch_grama.runs.run_folder import ANALYSIS, COEFFICIENTS, CONFIG, FACTS, METRICS, RESULT
from torch_grama.runs.safe_files import (
    UnsafeFileError,
    format_size,
    open_inside,
    read_json,
    read_yaml,
)

FILES = (CONFIG, RESULT, METRICS, ANALYSIS, COEFFICIENTS, FACTS)

# The largest sizes that are read, in bytes.
LIMITS = {
    CONFIG: 256_000,
    RESULT: 1_000_000,
    FACTS: 4_000_000,
    METRICS: 64_000_000,
    ANALYSIS: 16_000_000,
    COEFFICIENTS: 64_000_000,
}
# Points of a curve and epochs of the coefficients that are kept; a longer history is thinned.
MAX_POINTS = 600
MAX_EPOCHS = 60
_MAX_SETTINGS = 400
_MAX_TEXT = 300
_MAX_COLUMNS = 40
_MAX_LINE = 20_000


@dataclass(frozen=True)
class RunFiles:
    r"""One run as its files tell it; what is missing or refused is empty, and said in ``notes``.

    Attributes:
        folder: The folder.
        name: Its name.
        settings: Every setting of ``config.yaml`` as dotted name and text.
        environment: Versions and hardware, likewise.
        result: The result; empty for an unfinished run.
        facts: What is known of the data.
        columns: The columns of ``metrics.csv``; :obj:`None` stands for no number.
        num_epochs: Rows that it has.
        analysis: What ``grama analyze`` wrote; empty if it did not.
        coefficients: The coefficients while training, one entry an epoch.
        files: Name and size of the files that are there.
        notes: One sentence for everything that was not read.
    """

    folder: Path
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    result: Mapping[str, object] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    num_epochs: int = 0
    analysis: Mapping[str, object] = field(default_factory=dict)
    coefficients: Sequence[Mapping[str, object]] = ()
    files: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    @property
    def is_finished(self) -> bool:
        r"""Whether there is a result."""
        return bool(self.result)

    def word(self, name: str, default: str = "") -> str:
        r"""A text of the result, or of the settings where there is no result yet."""
        value = self.result.get(name)
        if not isinstance(value, str):
            value = self.settings.get(f"{name}.name", default)
        return clip(value)

    def number(self, name: str) -> float | None:
        r"""A number of the result; infinite and undefined ones count as none."""
        return as_number(self.result.get(name))


def read_run_files(folder: str | Path, *, brief: bool = False) -> RunFiles:
    r"""Reads whatever of a run is there and can be trusted to be data.

    Args:
        folder (str or Path): The folder of the run.
        brief (bool, optional): Whether to leave out the analysis and the coefficients, which are
            large. (default: :obj:`False`)

    Raises:
        UnsafeFileError: There is no folder, or no file of a run in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UnsafeFileError(f"There is no folder '{folder}'; name the folder of a run")
    notes: list[str] = []
    config = _try(lambda: read_yaml(folder, CONFIG, LIMITS[CONFIG]), notes)
    result = _try(lambda: read_json(folder, RESULT, LIMITS[RESULT]), notes)
    facts = _try(lambda: read_json(folder, FACTS, LIMITS[FACTS]), notes)
    columns, count = _read_metrics(folder, notes)
    analysis: dict[str, object] = {}
    coefficients: list[dict[str, object]] = []
    if not brief:
        analysis = _try(lambda: read_json(folder, ANALYSIS, LIMITS[ANALYSIS]), notes)
        coefficients = _read_coefficients(folder, notes)
    files = _list_files(folder)
    if not files and not notes:
        raise UnsafeFileError(
            f"'{folder}' holds no run: expected {CONFIG} or {RESULT} in it, as `grama train` "
            f"writes them"
        )
    environment = config.pop("environment", {})
    settings = flatten(config)
    if len(settings) >= _MAX_SETTINGS:
        notes.append(f"'{CONFIG}' has many settings; the first {_MAX_SETTINGS} are shown")
    return RunFiles(
        folder=folder,
        name=clip(folder.resolve().name, 120),
        settings=settings,
        environment=flatten(environment) if isinstance(environment, dict) else {},
        result=result,
        facts=facts,
        columns=columns,
        num_epochs=count,
        analysis=analysis,
        coefficients=coefficients,
        files=files,
        notes=[clip(note) for note in notes],
    )


def as_number(value: object) -> float | None:
    r"""A finite number, or :obj:`None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def clip(text: object, length: int = _MAX_TEXT) -> str:
    r"""A text of bounded length."""
    text = str(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def flatten(value: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    r"""Nested settings as dotted names and texts, up to a number and a length of them."""
    flat: dict[str, str] = {}
    for key, item in value.items():
        name = clip(f"{prefix}{key}", 120)
        if isinstance(item, dict) and item and name.count(".") < 8:
            flat |= flatten(item, f"{name}.")
        else:
            flat[name] = _as_text(item)
        if len(flat) >= _MAX_SETTINGS:
            break
    return dict(list(flat.items())[:_MAX_SETTINGS])


def thin(length: int, most: int) -> list[int]:
    r"""Numbers of evenly spread entries of a list, the first and the last among them."""
    if length <= most:
        return list(range(length))
    return sorted({round(i * (length - 1) / (most - 1)) for i in range(most)})


def _as_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        parts = [_as_text(item) for item in value[:50]]
        return clip(", ".join(parts))
    return clip(value)


def _try(read: Callable[[], dict[str, object]], notes: list[str]) -> dict[str, object]:
    try:
        return read()
    except FileNotFoundError:
        return {}
    except UnsafeFileError as error:
        notes.append(f"{error}.")
        return {}


def _read_metrics(folder: Path, notes: list[str]) -> tuple[dict[str, list[float | None]], int]:
    try:
        with (
            open_inside(folder, METRICS, LIMITS[METRICS]) as stream,
            io.TextIOWrapper(stream, "utf-8", "replace", newline="") as text,
        ):
            rows = _rows(text)
    except FileNotFoundError:
        return {}, 0
    except UnsafeFileError as error:
        notes.append(f"{error}.")
        return {}, 0
    except csv.Error as error:
        notes.append(f"'{METRICS}' is no table: {error}.")
        return {}, 0
    if not rows or "epoch" not in rows[0]:
        if rows:
            notes.append(f"'{METRICS}' has no column 'epoch' and is not drawn.")
        return {}, 0
    head, *body = whole_rows(rows)
    chosen = [body[index] for index in thin(len(body), MAX_POINTS)]
    columns = {
        clip(name, 60): [_parse(row[place]) for row in chosen]
        for place, name in enumerate(head[:_MAX_COLUMNS])
    }
    last = columns["epoch"][-1] if body else None
    return columns, len(body) if last is None else int(last) + 1


def _rows(text: io.TextIOWrapper) -> list[list[str]]:
    r"""The rows of a table; of a very long one, every second, fourth and so on."""
    kept: list[list[str]] = []
    stride = 1
    for number, row in enumerate(csv.reader(_lines(text))):
        if number == 0 or (number - 1) % stride == 0:
            kept.append(row)
        if len(kept) > 40_000:
            kept = kept[:1] + kept[1::2]
            stride *= 2
    return kept


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise csv.Error(f"a line has more than {_MAX_LINE:,} letters")
        yield line


def _parse(text: str) -> float | None:
    try:
        return as_number(float(text))
    except ValueError:
        return None


def _read_coefficients(folder: Path, notes: list[str]) -> list[dict[str, object]]:
    lines: list[bytes] = []
    try:
        with open_inside(folder, COEFFICIENTS, LIMITS[COEFFICIENTS]) as stream:
            lines = stream.readlines()
    except FileNotFoundError:
        return []
    except UnsafeFileError as error:
        notes.append(f"{error}.")
    found = []
    for index in thin(len(lines), MAX_EPOCHS):
        try:
            value = json.loads(lines[index])
        except (ValueError, RecursionError):
            continue  # a line that is being written
        if isinstance(value, dict) and as_number(value.get("epoch")) is not None:
            found.append(value)
    return found


def _list_files(folder: Path) -> list[tuple[str, str]]:
    files = []
    for name in FILES:
        try:
            with open_inside(folder, name, None) as stream:
                stream.seek(0, io.SEEK_END)
                files.append((name, format_size(stream.tell())))
        except (FileNotFoundError, UnsafeFileError):
            continue
    return files
