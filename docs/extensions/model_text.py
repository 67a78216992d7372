"""All models side by side, one table a family."""

from __future__ import annotations

from markdown_text import code, plain, table
from torch_grama.experiments.models import ModelFacts, list_models

HEADER = ["Word", "Update", "Parameters", "A layer costs", "Edge attributes", "Reference"]
WIDTH, DEPTH = 64, 8


def describe_models() -> str:
    """Returns a table for each family and, below it, where its models leave their papers."""
    families: dict[str, list[ModelFacts]] = {}
    for model in list_models(hidden_channels=WIDTH, num_layers=DEPTH):
        families.setdefault(model.family, []).append(model)
    parts = []
    for family, models in families.items():
        rows = [
            (
                code(model.name),
                code(model.equation),
                "–" if model.parameters is None else f"{model.parameters:,}",
                code(model.cost),
                "yes" if model.takes_edge_attr else "no",
                plain(model.reference),
            )
            for model in models
        ]
        heading = family.replace("_", "-")
        text = f"## {heading[:1].upper()}{heading[1:]}\n\n{table(HEADER, rows)}"
        parts.append(text + departures_text(models))
    return "\n".join(parts)


def departures_text(models: list[ModelFacts]) -> str:
    """Returns what differs from the papers, once for models that share it."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for model in models:
        if model.departures:
            shared.setdefault(model.departures, []).append(code(model.name))
    if not shared:
        return ""
    lines = [f"- {', '.join(names)}: {plain(' '.join(said))}" for said, names in shared.items()]
    summary = "<details>\n<summary>Where they leave their papers</summary>\n\n"
    return f"\n{summary}{chr(10).join(lines)}\n\n</details>\n"
