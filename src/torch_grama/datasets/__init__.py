"""Every data set of the paper, and the user's own graphs, in one form."""

from torch_grama.datasets.errors import (
    DatasetError,
    DatasetMissingError,
    DownloadError,
    UnsafePickleError,
)
from torch_grama.datasets.task_data import FeatureEncoding, Fold, GraphTaskData, Metric

__all__ = [
    "DatasetError",
    "DatasetMissingError",
    "DownloadError",
    "FeatureEncoding",
    "Fold",
    "GraphTaskData",
    "Metric",
    "UnsafePickleError",
]
