"""Keeps single messages of Lightning from the user's screen."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pytorch_lightning.strategies import DDPStrategy

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
    ("-----", "a table of processes"),
    ("Initializing distributed:", "likewise"),
    ("LOCAL_RANK:", "likewise"),
    ("You are using a CUDA device", "the precision is a setting"),
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


_LOGGERS = (
    "pytorch_lightning.accelerators.cuda",
    "pytorch_lightning.utilities.rank_zero",
    "lightning_fabric.utilities.rank_zero",
    "lightning_fabric.utilities.distributed",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    r"""Filters the listed messages, each for its reason, and no other."""
    quiet = _Quiet()
    with warnings.catch_warnings():
        _install(quiet)
        try:
            yield
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeFilter(quiet)


class QuietDDPStrategy(DDPStrategy):
    r"""Lightning's strategy for several processes, with the same filter in each of them."""

    def setup_environment(self) -> None:
        r"""Called first in a new process."""
        _install(_Quiet())
        super().setup_environment()


def _install(quiet: _Quiet) -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(quiet)
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=message)
