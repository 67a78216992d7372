"""What a finished run found."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError


@dataclass(frozen=True)
class Result:
    r"""The numbers of one finished run.

    Attributes:
        data: Name or path of the data set.
        model: Word of the model.
        metric: Name of the metric.
        higher_is_better: The direction in which it improves.
        val: The metric on the validation part, at the best epoch.
        test: The metric on the test part with the weights of that epoch; :obj:`None` if it was
            not looked at.
        best_epoch: The epoch whose weights were kept, from 0.
        epochs: Number of epochs that were run.
        seed: Where the randomness started.
        fold: Which division of the data.
        parameters: Number of learnable parameters.
        seconds: Time spent, over all sessions of the run.
        losses: The losses on the parts, by name.
        versions: Library to version.
        hardware: The machine in words.
        revision: Revision of the code, if known.
    """

    data: str
    model: str
    metric: str
    higher_is_better: bool
    val: float
    test: float | None
    best_epoch: int
    epochs: int
    seed: int
    fold: int
    parameters: int
    seconds: float
    losses: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None

    def to_dict(self) -> dict[str, object]:
        r"""Returns it as plain data."""
        return asdict(self)

    def save(self, path: Path) -> None:
        r"""Writes it, whole or not at all.

        Args:
            path (Path): The file.
        """
        content = json.dumps(_without_nan(self.to_dict()), indent=2, ensure_ascii=False)
        write_atomically(path, f"{content}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        r"""Reads a result back.

        Args:
            path (Path): The file.

        Raises:
            RunError: The file is missing or is no result.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            known = {item.name for item in fields(cls)}
            values = {key: value for key, value in content.items() if key in known}
            for name in ("val", "test"):
                if values.get(name) in ("nan", "inf", "-inf"):
                    values[name] = float(values[name])
            return cls(**values)
        except FileNotFoundError as error:
            raise RunError(f"'{path}' is not there: the run is not finished") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise RunError(
                f"'{path}' is no result of a run ({error}): delete it and run `grama train "
                f"--resume {path.parent}`"
            ) from error


def _without_nan(value: object) -> object:
    """JSON knows no NaN and no infinity: they are written as words."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
