"""The table that `grama models` prints without loading a model.

``python tests/listed_tables.py`` writes it anew.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from torch_grama.experiments.models import list_models

PATH = Path(__file__).parent.parent / "src" / "torch_grama" / "experiments" / "models.json"


def build_table() -> str:
    """What should stand in the file."""
    rows = map(dataclasses.asdict, list_models())
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    PATH.write_text(build_table(), encoding="utf-8")
