"""Every data set of the paper, and the user's own graphs, in one form."""

from torch_grama.datasets.catalogue import CATALOGUE, load
from torch_grama.datasets.compact import CompactGraphs
from torch_grama.datasets.entry import Entry, Published
from torch_grama.datasets.errors import (
    DatasetError,
    DatasetMissingError,
    DownloadError,
    UnsafePickleError,
)
from torch_grama.datasets.graph_property import generate_property
from torch_grama.datasets.graph_transfer import generate_transfer
from torch_grama.datasets.own_data import load_path
from torch_grama.datasets.sbm import generate_cluster, generate_pattern
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric
from torch_grama.datasets.transforms import RWSE, LapPE, LocalDegreeProfile, apply_transforms

__all__ = [
    "CATALOGUE",
    "RWSE",
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
    "UnsafePickleError",
    "apply_transforms",
    "generate_cluster",
    "generate_pattern",
    "generate_property",
    "generate_transfer",
    "load",
    "load_path",
]
