"""Model words, one file a family of models."""

from __future__ import annotations

from torch_grama.baselines.graph_model import GraphModel
from torch_grama.experiments.model_entry import ModelEntry


def entry_of(build: type[GraphModel], family: str) -> ModelEntry:
    r"""Returns the entry of a class, from the card beside it."""
    return ModelEntry(build=build, family=family, **vars(build.card))
