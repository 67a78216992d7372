"""Every data set of the paper, tasks of certain range, and the user's own graphs, in one form.

The names below are loaded when they are first asked for, so that the ``grama`` command can list
data sets, and say that a file is not there, without waiting for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_grama.datasets.catalogue import CATALOGUE, load
    from torch_grama.datasets.compact import CompactGraphs
    from torch_grama.datasets.echo import generate_echo
    from torch_grama.datasets.entry import Entry, Published
    from torch_grama.datasets.errors import (
        DatasetError,
        DatasetMissingError,
        DownloadError,
        UnsafePickleError,
    )
    from torch_grama.datasets.graph_property import generate_property
    from torch_grama.datasets.graph_transfer import generate_transfer
    from torch_grama.datasets.ising import generate_ising
    from torch_grama.datasets.own_data import from_frames, load_path
    from torch_grama.datasets.range_tasks import generate_barbell, generate_range
    from torch_grama.datasets.sbm import generate_cluster, generate_pattern
    from torch_grama.datasets.task_data import (
        Column,
        FeatureEncoding,
        Fold,
        GraphTaskData,
        Metric,
        TableForm,
    )
    from torch_grama.datasets.transforms import RWSE, LapPE, LocalDegreeProfile, apply_transforms

__all__ = [
    "CATALOGUE",
    "RWSE",
    "Column",
    "CompactGraphs",
    "DatasetError",
    "DatasetMissingError",
    "DownloadError",
    "Entry",
    "FeatureEncoding",
    "Fold",
    "GraphTaskData",
    "LapPE",
    "LocalDegreeProfile",
    "Metric",
    "Published",
    "TableForm",
    "UnsafePickleError",
    "apply_transforms",
    "from_frames",
    "generate_barbell",
    "generate_cluster",
    "generate_echo",
    "generate_ising",
    "generate_pattern",
    "generate_property",
    "generate_range",
    "generate_transfer",
    "load",
    "load_path",
]

_HOMES = {
    "catalogue": ("CATALOGUE", "load"),
    "compact": ("CompactGraphs",),
    "echo": ("generate_echo",),
    "entry": ("Entry", "Published"),
    "errors": ("DatasetError", "DatasetMissingError", "DownloadError", "UnsafePickleError"),
    "graph_property": ("generate_property",),
    "graph_transfer": ("generate_transfer",),
    "ising": ("generate_ising",),
    "own_data": ("from_frames", "load_path"),
    "range_tasks": ("generate_barbell", "generate_range"),
    "sbm": ("generate_cluster", "generate_pattern"),
    "task_data": ("Column", "FeatureEncoding", "Fold", "GraphTaskData", "Metric", "TableForm"),
    "transforms": ("RWSE", "LapPE", "LocalDegreeProfile", "apply_transforms"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
