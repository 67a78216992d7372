"""Words of models as the cases of a test."""

import pytest

from torch_grama.experiments.catalogue import MODELS


def each_model(words=MODELS):
    """Words; those that only set other options of a class than one before are for long runs."""
    seen, cases = set(), []
    for word in words:
        entry = MODELS[word]
        kind = (entry.build, entry.defaults.get("backbone"))
        cases.append(pytest.param(word, marks=[pytest.mark.long] if kind in seen else []))
        seen.add(kind)
    return cases
