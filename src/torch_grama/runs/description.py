"""What a run is and how far it came, from its files alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch_grama.runs.metrics_file import read_metrics
from torch_grama.runs.record import Record
from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import CONFIG, FACTS, RunFolder
from torch_grama.runs.safe_files import read_mapping


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
