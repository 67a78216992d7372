"""What the files of a run say, read without trust and without torch; and where runs lie."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from torch_grama.runs.metrics_file import parse_metrics, read_metrics
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import (
    ANALYSIS,
    COEFFICIENTS,
    CONFIG,
    FACTS,
    LIMITS,
    METRICS,
    RESULT,
    RunError,
    RunFolder,
)
from torch_grama.runs.safe_files import Record, as_number, count_from_one, open_inside, read_mapping
from torch_grama.runs.words import clip, format_bytes

# Points of a curve and epochs of the coefficients that are kept; a longer history is thinned.
MAX_POINTS = 600
MAX_EPOCHS = 60
_MAX_ROWS = 40_000
_MAX_COLUMNS = 40
_MAX_SETTINGS = 400
# How deep and how many runs are looked for: folders of reproductions are five deep, and differ
# within their last five parts.
_MAX_DEPTH = 6
_MAX_RUNS = 2000


@dataclass(frozen=True)
class RunFiles:
    r"""One run as its files tell it; what is missing or refused is empty, and said in ``notes``."""

    folder: Path  #: the folder
    name: str  #: its name
    #: every setting of ``config.yaml`` as dotted name and text
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  #: versions and hardware, likewise
    result: Record = field(default_factory=Record)  #: the result; empty for an unfinished run
    facts: Record = field(default_factory=Record)  #: what is known of the data
    #: the columns of ``metrics.csv``; :obj:`None` stands for no number
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    num_epochs: int = 0  #: rows that it has
    #: what ``grama analyze`` wrote; empty if it did not
    analysis: Record = field(default_factory=Record)
    coefficients: Sequence[Record] = ()  #: the coefficients while training, one entry per epoch
    files: Sequence[tuple[str, str]] = ()  #: name and size of the files that are there
    notes: Sequence[str] = ()  #: one sentence for everything that was not read

    @property
    def is_finished(self) -> bool:
        return bool(self.result)

    @property
    def model(self) -> str:
        r"""The word of its model, together with the backbone."""
        backbone = self.settings.get("model.backbone")
        return name_model(self.word("model", "model unknown"), {"backbone": backbone})

    def word(self, name: str, default: str = "") -> str:
        r"""A text of the result, or of the settings where there is no result yet."""
        return self.result.word(name, self.settings.get(f"{name}.name", default))

    def number(self, name: str) -> float | None:
        r"""A number of the result; infinite and undefined ones count as none."""
        return self.result.number(name)


def read_run_files(folder: str | Path, *, brief: bool = False) -> RunFiles:
    r"""Reads whatever of a run is there and can be trusted to be data; briefly without the analysis
    and the coefficients, which are large.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"There is no folder '{folder}'; name the folder of a run")
    notes: list[str] = []

    def read(name: str) -> dict[str, object]:
        try:
            return read_mapping(folder, name)
        except FileNotFoundError:
            return {}
        except RunError as error:
            notes.append(f"{error}.")
            return {}

    config, result, facts = map(read, (CONFIG, RESULT, FACTS))
    columns, count = _read_metrics(folder, notes)
    files = _list_files(folder)
    if not files and not notes:
        raise RunError(
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
        result=Record(count_from_one(result, "best_epoch")),
        facts=Record(facts),
        columns=columns,
        num_epochs=count,
        analysis=Record({} if brief else read(ANALYSIS)),
        coefficients=[] if brief else _read_coefficients(folder, notes),
        files=files,
        notes=[clip(note) for note in notes],
    )


def is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (CONFIG, RESULT))


def find_runs(folder: Path) -> list[Path]:
    r"""All folders below, or the folder itself, that hold a run, newest first; links are not
    followed.
    """
    return sorted(islice(_walk(folder, 0), _MAX_RUNS), key=_changed, reverse=True)


def expand_folders(folders: Sequence[Path]) -> list[Path]:
    r"""Runs stay as they are; a folder of runs, such as one of folds, becomes its runs."""
    expanded: list[Path] = []
    for folder in folders:
        inside = [] if is_run(folder) else sorted(find_runs(folder))
        expanded += inside or [folder]
    return list(dict.fromkeys(expanded))


def name_apart(runs: Sequence[RunFiles]) -> list[RunFiles]:
    r"""Puts as many outer folders before a name as it takes to tell the runs apart, as in
    ``gcn/fold0-seed0`` and ``grama-gcn/fold0-seed0``; a name that is alone stays as it is.
    """
    groups: dict[str, set[tuple[str, ...]]] = {}
    for run in runs:
        groups.setdefault(run.name, set()).add(run.folder.resolve().parts)
    lengths = {name: _count_parts(places) for name, places in groups.items()}
    return [
        replace(run, name=clip("/".join(run.folder.resolve().parts[-lengths[run.name] :]), 120))
        if lengths[run.name] > 1
        else run
        for run in runs
    ]


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
        return clip(", ".join(map(_as_text, value[:50])))
    return clip(value)


def _read_metrics(folder: Path, notes: list[str]) -> tuple[dict[str, list[float | None]], int]:
    try:
        with open_inside(folder, METRICS, LIMITS[METRICS]) as stream:
            head, rows = parse_metrics(stream, _MAX_ROWS)
        if head and "epoch" not in head[:_MAX_COLUMNS]:
            raise RunError(f"'{METRICS}' has no column 'epoch' and is not drawn")
    except FileNotFoundError:
        return {}, 0
    except (RunError, csv.Error) as error:
        known = isinstance(error, RunError)
        notes.append(f"{error}." if known else f"'{METRICS}' is no table: {error}.")
        return {}, 0
    if not head:
        return {}, 0
    chosen = [rows[index] for index in thin(len(rows), MAX_POINTS)]
    columns = {
        clip(name, 60): [_parse(row[place]) for row in chosen]
        for place, name in enumerate(head[:_MAX_COLUMNS])
    }
    last = columns["epoch"][-1] if chosen else None
    return columns, len(rows) if last is None else int(last)


def _parse(text: str) -> float | None:
    try:
        return as_number(float(text))
    except ValueError:
        return None


def _read_coefficients(folder: Path, notes: list[str]) -> list[Record]:
    try:
        with open_inside(folder, COEFFICIENTS, LIMITS[COEFFICIENTS]) as stream:
            lines = stream.readlines()
    except FileNotFoundError:
        return []
    except RunError as error:
        notes.append(f"{error}.")
        return []
    found = []
    for index in thin(len(lines), MAX_EPOCHS):
        try:
            value = count_from_one(json.loads(lines[index]), "epoch")
        except (ValueError, RecursionError, AttributeError):
            continue  # a line that is being written
        if Record(value).number("epoch") is not None:
            found.append(Record(value))
    return found


def _list_files(folder: Path) -> list[tuple[str, str]]:
    files = []
    for name in LIMITS:
        try:
            with open_inside(folder, name, None) as stream:
                files.append((name, format_bytes(stream.seek(0, io.SEEK_END))))
        except (FileNotFoundError, RunError):
            continue
    return files


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    if depth == _MAX_DEPTH:
        return
    try:
        with os.scandir(folder) as entries:
            inner = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return
    for name in inner:
        yield from _walk(folder / name, depth + 1)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _count_parts(places: set[tuple[str, ...]]) -> int:
    """How many parts from the end it takes until no two places are alike."""
    for length in range(1, _MAX_DEPTH):
        if len({place[-length:] for place in places}) == len(places):
            return length
    return _MAX_DEPTH


def describe_run(folder: str | Path) -> dict[str, object]:
    r"""Describes a run's settings and progress from its files alone.

    Args:
        folder (str or Path): The folder of the run.

    Raises:
        RunError: There is no run, or its settings or its result cannot be read.
    """
    run = RunFolder(folder)
    run.check()
    config = read_mapping(run.path, CONFIG)
    config.pop("environment", None)
    data, model, trainer = (Record(config.get(name)) for name in ("data", "model", "trainer"))
    rows = read_metrics(run.metrics)
    facts: dict[str, object] = {
        "run": str(run.path),
        "state": "finished" if run.is_finished else "unfinished",
        "data": data.word("name"),
        "fold": int(data.number("fold") or 0),
        "model": name_model(model.word("name"), config.get("model")),
        "seed": config.get("seed"),
        "epochs": len(rows),
        "max_epochs": int(trainer.number("max_epochs") or 0),
        "last": rows[-1] if rows else {},
    }
    if run.facts.is_file():
        known = Record(read_mapping(run.path, FACTS))
        facts |= {
            "task": f"{known.word('level')} {known.word('kind')}",
            "metric": known.part("metric").word("name"),
            "parameter_budget": known.number("parameter_budget"),
        }
    if run.is_finished:
        result = Result.load(run.result)
        facts |= {
            "parameters": result.parameters,
            "val": result.val,
            "test": result.test,
            "best_epoch": result.best_epoch,
            "seconds": result.seconds,
            "hardware": dict(result.hardware),
            "versions": dict(result.versions),
            "revision": result.revision,
        }
    facts["config"] = config
    return facts


def name_model(name: str, options: object) -> str:
    r"""Names a model in a word or two: GRAMA together with its backbone."""
    backbone = options.get("backbone") if isinstance(options, Mapping) else None
    return name if backbone is None or str(backbone) in name else f"{name} ({backbone})"
