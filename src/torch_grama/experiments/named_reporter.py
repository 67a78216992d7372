"""A reporter that knows a model by its word."""

from __future__ import annotations

import dataclasses

from torch_grama.training.progress import (
    EpochReport,
    FitStart,
    Reporter,
    ReportName,
    build_reporter,
)


class NamedReporter:
    r"""Passes everything on to another reporter, and says the model's word for its class.

    Args:
        report (str or Reporter): The other one.
        model (str): What the model is called.
    """

    def __init__(self, report: ReportName | Reporter, model: str) -> None:
        self._reporter = build_reporter(report)
        self._model = model

    def begin(self, start: FitStart) -> None:
        r"""Called before the first step."""
        self._reporter.begin(dataclasses.replace(start, model=self._model))

    def epoch(self, report: EpochReport) -> None:
        r"""Called after every epoch."""
        self._reporter.epoch(report)

    def note(self, text: str) -> None:
        r"""Called with what the user should know."""
        self._reporter.note(text)

    def end(self) -> None:
        r"""Called once, whatever happened."""
        self._reporter.end()
