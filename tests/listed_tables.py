"""The tables that `grama models` and `grama data list` print without loading a model or a data set.

``python tests/listed_tables.py`` writes them anew.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from torch_grama.datasets.catalogue import CATALOGUE
from torch_grama.datasets.names import published_entries
from torch_grama.experiments.models import list_models

PACKAGE = Path(__file__).parent.parent / "src" / "torch_grama"


def build_tables() -> dict[Path, str]:
    """The files and what should stand in them."""
    entries = []
    for name, entry in CATALOGUE.items():
        if name not in published_entries():
            facts = dataclasses.asdict(dataclasses.replace(entry, loader=None, options={}))
            facts["metric"] = entry.metric.name
            entries.append({key: value for key, value in facts.items() if key not in _CODE})
    return {
        PACKAGE / "datasets" / "generated.json": _write(entries),
        PACKAGE / "experiments" / "models.json": _write(map(dataclasses.asdict, list_models())),
    }


_CODE = ("loader", "options")


def _write(rows: object) -> str:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    for path, text in build_tables().items():
        path.write_text(text, encoding="utf-8")
