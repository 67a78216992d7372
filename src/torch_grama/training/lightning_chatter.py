"""Keeps single messages of Lightning from the user's screen."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# (start of the message, why it is of no use here)
_MESSAGES = (
    ("GPU available:", "the first line of a run names the device"),
    ("TPU available:", "likewise"),
    ("HPU available:", "likewise"),
    ("Using bfloat16 Automatic Mixed Precision", "the configuration says so"),
    ("Using 16bit Automatic Mixed Precision", "likewise"),
    ("`Trainer.fit` stopped:", "the outcome says why a run ended"),
    ("Restoring states from the checkpoint", "the first line of a run says where it goes on"),
    ("Restored all states from the checkpoint", "likewise"),
    ("💡 Tip:", "advertisement"),
    ("distributed_backend=", "a table of processes"),
    ("Initializing distributed:", "likewise"),
    ("----", "likewise"),
    ("All distributed processes registered", "likewise"),
    ("LOCAL_RANK:", "likewise"),
    ("`weights_only` was not set", "loading is always of weights only"),
)
_WARNINGS = (
    # Lightning's own call of a function that torch will drop
    r".*isinstance\(treespec, LeafSpec\).* is deprecated",
)


class _Quiet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage().lstrip()
        return not any(text.startswith(start) for start, _ in _MESSAGES)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    r"""Filters the listed messages, each for its reason, and no other."""
    names = ("pytorch_lightning.utilities.rank_zero", "lightning.fabric", "lightning_fabric")
    loggers = [logging.getLogger(name) for name in names]
    quiet = _Quiet()
    for logger in loggers:
        logger.addFilter(quiet)
    try:
        with warnings.catch_warnings():
            for message in _WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(quiet)
