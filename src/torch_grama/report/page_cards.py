"""The first look at a run: its numbers, and what they mean in a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_grama.report.dynamics_figures import block_name
from torch_grama.report.figure_parts import known, number
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.reach_figures import reach_text
from torch_grama.report.verdict import ROUNDING, judge_run, judge_stability
from torch_grama.runs.record import Row
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.words import format_seconds

MEANINGS = {
    "largest pole": "the factor per step by which a state fades or grows, without the backbone",
    "margin": "how far this is below 1",
    "Σ|φ| ≤ 1": "whether the coefficients alone prove stability",
    "stable": "whether no pole lies outside the circle",
    "memory": "steps until less than 0.001 of an input is left",
    "closed-loop radius": "the measured factor per step, with the backbone",
    "closed-loop bound": "an upper limit of the closed-loop radius",
}
"""What the columns of the table of blocks mean."""


@dataclass(frozen=True)
class Card:
    r"""The summary of a run."""

    name: str  #: its name
    what: str  #: data and model
    state: str  #: ``"finished"`` or how far it came
    headline: str  #: the largest number, with its unit
    caption: str  #: what that number is
    facts: Sequence[tuple[str, str, str]]  #: further numbers: name, value and what it means
    verdicts: Sequence[str]  #: sentences about learning, reach and stability


def summarize_run(run: RunFiles) -> Card:
    r"""The card of a run."""
    metric = run.word("metric") or run.facts.part("metric").word("name", "", 40)
    scale = scale_of(metric)
    unit = " %" if scale.factor == 100 else ""
    test, val = run.number("test"), run.number("val")
    history = known(run.columns.get(f"val/{metric}", ()))
    if val is None:
        val = scale.best(history)
    shown, part = (test, "test") if test is not None else (val, "validation")
    facts: list[tuple[str, str, str]] = []
    if test is not None and val is not None:
        text = scale.text(scale.factor * val) + unit
        facts.append((f"validation {scale.label}", text, "the score that chose the best epoch"))
    best, epochs = run.number("best_epoch"), run.number("epochs")
    if best is not None and epochs is not None:
        text = f"{best:.0f} of {epochs:.0f}"
        facts.append(("best epoch", text, "all numbers here are of its weights"))
    elif run.num_epochs:
        most = run.settings.get("trainer.max_epochs", "?")
        facts.append(("epochs so far", f"{run.num_epochs} of at most {most}", "it is not done"))
    parameters, seconds = run.number("parameters"), run.number("seconds")
    if parameters is not None:
        facts.append(("parameters", f"{parameters:,.0f}", "numbers that training sets"))
    if seconds is not None:
        facts.append(("time", format_seconds(seconds), "training and evaluation"))
    influence = run.analysis.part("influence").part("model")
    if influence.number("influence_range") is not None:
        text = f"{reach_text(influence)} hops"
        facts.append(("influence range", text, "how far away the nodes are that count, on average"))
    return Card(
        name=run.name,
        what=", ".join(filter(None, [run.word("data", "data unknown"), name_model(run)])),
        state="finished" if run.is_finished else "unfinished",
        headline="-" if shown is None else scale.text(scale.factor * shown) + unit,
        caption="" if shown is None else f"{part} {scale.label}",
        facts=facts,
        verdicts=[*judge_run(run), *judge_stability(run.analysis)],
    )


def block_rows(run: RunFiles) -> list[dict[str, str]]:
    r"""The table of the blocks of a run, heading to text, the worst of all graphs; empty without an
    analysis.
    """
    rows = []
    for index, block in enumerate(run.analysis.parts("blocks")[:64]):
        memory, loop = block.row("memory_length"), block.part("closed_loop")
        lags = known(memory)
        lasting = len(lags) < len(memory)
        rows.append(
            {
                "block": block_name(block, index),
                "backbone": block.word("backbone", "-", 40),
                "largest pole": _extreme(max, block.row("radius")),
                "margin": _extreme(min, block.row("margin")),
                "Σ|φ| ≤ 1": _yes(block.items("satisfies_condition")),
                "stable": _yes(block.items("stable")),
                "memory": "unbounded" if lasting else f"{max(lags):.0f} lags" if lags else "-",
                "closed-loop bound": _extreme(max, loop.row("bound")),
                "closed-loop radius": _extreme(max, loop.row("radius")),
            }
        )
    return rows


def name_model(run: RunFiles) -> str:
    r"""The word of a model, together with its backbone."""
    name = run.word("model", "model unknown")
    backbone = run.settings.get("model.backbone", "")
    return name if not backbone or backbone in name else f"{name} ({backbone})"


def _yes(values: Sequence[object]) -> str:
    yes = sum(map(bool, values))
    if 0 < yes < len(values):
        return f"{yes} of {len(values)} graphs"
    return "-" if not values else "yes" if yes else "no"


def _extreme(choose: Callable[[Sequence[float]], float], values: Row) -> str:
    value = choose(known(values)) if known(values) else None
    return "0" if value is not None and abs(value) < ROUNDING else number(value, 4)
