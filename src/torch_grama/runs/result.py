"""What a finished run found."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import LIMITS, RESULT, RunError
from torch_grama.runs.safe_files import count_from_one, read_plain
from torch_grama.runs.words import clip


@dataclass(frozen=True)
class Result:
    r"""The numbers of one finished run."""

    data: str  #: name or path of the data set
    model: str  #: word of the model
    metric: str  #: name of the metric
    higher_is_better: bool  #: the direction in which it improves
    val: float  #: the metric on the validation part, at the best epoch
    #: the metric on the test part with the weights of that epoch; None if it was not looked at
    test: float | None
    best_epoch: int  #: the epoch whose weights were kept, from 1
    epochs: int  #: number of epochs that were run
    seed: int  #: where the randomness started
    fold: int  #: which split of the data
    parameters: int  #: number of learnable parameters
    seconds: float  #: time spent, over all sessions of the run
    #: ``max_epochs``, ``patience`` or ``min_lr``: why training ended; empty in files of old
    stop_reason: str = ""
    #: what predictors that learn next to nothing reach on the test part, by name
    trivial: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)  #: the losses on the parts, by name
    versions: Mapping[str, str] = field(default_factory=dict)  #: library to version
    hardware: Mapping[str, str] = field(default_factory=dict)  #: the machine in words
    revision: str | None = None  #: revision of the code, if known
    first_epoch: int = 1  #: the number of the first epoch; files of older versions do not say it
    changes: Sequence[str] = ()  #: settings that were changed when the run was resumed

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return asdict(self)

    def save(self, path: Path) -> None:
        r"""Writes it, whole or not at all.

        Args:
            path (Path): The file.
        """
        write_atomically(path, f"{to_json(self.to_dict(), indent=2)}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        r"""Reads a result back.

        Args:
            path (Path): The file.

        Raises:
            RunError: The file is missing or is no result.
        """
        try:
            content = count_from_one(json.loads(read_plain(path, LIMITS[RESULT])), "best_epoch")
            known = {item.name for item in fields(cls)}
            values = {key: value for key, value in content.items() if key in known}
            for name in ("val", "test"):
                if values.get(name) in ("nan", "inf", "-inf"):
                    values[name] = float(values[name])
            values["changes"] = tuple(values.get("changes", ()))
            result = cls(**values)
            wrong = [
                name for name, kinds in _KINDS.items() if type(vars(result)[name]) not in kinds
            ]
            if wrong:
                raise TypeError(f"'{wrong[0]}' is {clip(repr(values[wrong[0]]), 60)}")
            return result
        except FileNotFoundError as error:
            raise RunError(f"'{path}' is not there: the run is not finished") from error
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(
                f"'{path}' is no result of a run ({error}): delete it and run `grama train "
                f"--resume {path.parent}`"
            ) from error


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("data", "model", "metric"), (str,)),
    **dict.fromkeys(("best_epoch", "epochs", "seed", "fold", "parameters"), (int,)),
    **dict.fromkeys(("losses", "versions"), (dict,)),
    "hardware": (dict, str),
    **dict.fromkeys(("val", "seconds"), (float, int)),
    "test": (float, int, type(None)),
    "revision": (str, type(None)),
    "higher_is_better": (bool,),
}


def to_json(value: object, indent: int | None = None) -> str:
    r"""Returns plain data as JSON, which knows no NaN and no infinity: they become words."""
    return json.dumps(_without_nan(value), indent=indent, ensure_ascii=False)


def deviation(values: Sequence[float]) -> float | None:
    r"""Returns the sample deviation; :obj:`None` for fewer than two values, NaN if one is no
    finite number.
    """
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _without_nan(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
