"""All models side by side, one table per family."""

from __future__ import annotations

import json
from importlib.resources import files

from equation_text import to_latex, typeset
from markdown_text import code, plain, table
from torch_grama.experiments.models import ModelFacts

HEADER = ["Name", "Update", "Parameters", "Cost per layer"]


def describe_models() -> str:
    """Returns a table for each family and, below it, the papers and what differs from them."""
    families: dict[str, list[ModelFacts]] = {}
    listed = files("torch_grama") / "experiments" / "models.json"  # as `grama models` prints it
    for facts in json.loads(listed.read_text(encoding="utf-8")):
        model = ModelFacts(**{**facts, "departures": tuple(facts["departures"])})
        families.setdefault(model.family, []).append(model)
    parts = []
    for family, models in families.items():
        rows = [
            (
                code(model.name),
                typeset(model.equation),
                "–" if model.parameters is None else f"{model.parameters:,}",
                cost_text(model.cost),
            )
            for model in models
        ]
        heading = family.replace("_", "-")
        text = f"## {heading[:1].upper()}{heading[1:]}\n\n{table(HEADER, rows)}"
        papers = shared_lines({model.name: (model.reference,) for model in models})
        departures = shared_lines({model.name: model.departures for model in models})
        takers = ", ".join(code(model.name) for model in models if model.takes_edge_attr)
        parts.append(f"{text}\n{papers}\nUse edge attributes: {takers or 'none'}.\n")
        if departures:
            summary = "<details>\n<summary>What differs from the papers</summary>"
            parts.append(f"{summary}\n\n{departures}\n</details>\n")
    return "\n".join(parts)


def cost_text(cost: str) -> str:
    """Typesets a cost; what follows a comma says in words what its letters are."""
    formula, comma, words = cost.partition(",")
    latex = to_latex(formula).replace(r"\Vert", r"\vert")  # bars of a cost count a set
    return f"${latex}${comma}{plain(words)}"


def shared_lines(said: dict[str, tuple[str, ...]]) -> str:
    """Returns a list of what is said of models, once for models that share it."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, sentences in said.items():
        if sentences:
            shared.setdefault(sentences, []).append(code(name))
    return "".join(f"- {', '.join(names)}: {plain(' '.join(s))}\n" for s, names in shared.items())
