"""The first look at a run: its numbers, and what they mean in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_grama.report.dynamics_figures import block_name
from torch_grama.report.figure_parts import known, mapping_of, mappings_of, number, row_of
from torch_grama.report.metric_scale import MetricScale, scale_of
from torch_grama.report.reach_figures import reach_text
from torch_grama.runs.run_files import RunFiles, as_number
from torch_grama.runs.words import clip, format_seconds

# Coefficients that sum to one have a pole at 1 up to rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Card:
    r"""The summary of a run.

    Attributes:
        name: Its name.
        what: Data and model.
        state: ``"finished"`` or how far it came.
        headline: The largest number, with its unit.
        caption: What that number is.
        facts: Further numbers, with their names.
        verdicts: Sentences about learning, reach and stability.
    """

    name: str
    what: str
    state: str
    headline: str
    caption: str
    facts: Sequence[tuple[str, str]]
    verdicts: Sequence[str]


def summarize_run(run: RunFiles) -> Card:
    r"""The card of a run."""
    metric = run.word("metric") or clip(mapping_of(run.facts.get("metric")).get("name", ""), 40)
    scale = scale_of(metric)
    unit = " %" if scale.factor == 100 else ""
    test, val = run.number("test"), run.number("val")
    history = known(run.columns.get(f"val/{metric}", ()))
    if val is None:
        val = scale.best(history)
    shown, part = (test, "test") if test is not None else (val, "validation")
    facts: list[tuple[str, str]] = []
    if test is not None and val is not None:
        facts.append((f"validation {scale.label}", scale.text(scale.factor * val) + unit))
    best, epochs = run.number("best_epoch"), run.number("epochs")
    if best is not None and epochs is not None:
        facts.append(("kept epoch", f"{best + 1:.0f} of {epochs:.0f}"))
    elif run.num_epochs:
        most = run.settings.get("trainer.max_epochs", "?")
        facts.append(("epochs so far", f"{run.num_epochs} of at most {most}"))
    parameters, seconds = run.number("parameters"), run.number("seconds")
    if parameters is not None:
        facts.append(("parameters", f"{parameters:,.0f}"))
    if seconds is not None:
        facts.append(("time", format_seconds(seconds)))
    influence = mapping_of(mapping_of(run.analysis.get("influence")).get("model"))
    if as_number(influence.get("influence_range")) is not None:
        facts.append(("influence range", f"{reach_text(influence)} hops"))
    return Card(
        name=run.name,
        what=", ".join(filter(None, [run.word("data", "data unknown"), name_model(run)])),
        state="finished" if run.is_finished else "unfinished",
        headline="-" if shown is None else scale.text(scale.factor * shown) + unit,
        caption="" if shown is None else f"{part} {scale.label}",
        facts=facts,
        verdicts=[*_learned(history, scale), *_stability(run)],
    )


def block_rows(run: RunFiles) -> list[dict[str, str]]:
    r"""The table of the blocks of a run, heading to text, the worst of all graphs; empty without an
    analysis.
    """
    rows = []
    for index, block in enumerate(mappings_of(run.analysis.get("blocks"))[:64]):
        loop = mapping_of(block.get("closed_loop"))
        memory = block.get("memory_length")
        lags = known(row_of(memory))
        lasting = isinstance(memory, list) and len(lags) < len(memory)
        rows.append(
            {
                "block": block_name(block, index),
                "backbone": clip(block.get("backbone", "-"), 40),
                "largest pole": _largest(block.get("radius")),
                "margin": _tidy(min(known(row_of(block.get("margin"))), default=None)),
                "Σ|φ| ≤ 1": _yes(block.get("satisfies_condition")),
                "stable": _yes(block.get("stable")),
                "memory": "unbounded" if lasting else f"{max(lags):.0f} lags" if lags else "-",
                "closed-loop bound": _largest(loop.get("bound")),
                "closed-loop radius": _largest(loop.get("radius")),
            }
        )
    return rows


def name_model(run: RunFiles) -> str:
    r"""The word of a model, together with its backbone."""
    name = run.word("model", "model unknown")
    backbone = run.settings.get("model.backbone", "")
    return name if not backbone or backbone in name else f"{name} ({backbone})"


def _learned(values: Sequence[float], scale: MetricScale) -> list[str]:
    best = scale.best(values)
    if best is None or len(values) < 2:
        return []
    if best == values[0]:
        return [f"Validation {scale.label} never became better than after the first epoch."]
    word = "rose" if scale.higher_is_better else "fell"
    first, last = (scale.text(scale.factor * value) for value in (values[0], best))
    return [f"Validation {scale.label} {word} from {first} to {last}."]


def _stability(run: RunFiles) -> list[str]:
    blocks = mappings_of(run.analysis.get("blocks"))
    if not blocks:
        return []
    flags = [value for block in blocks for value in _flags(block.get("stable"))]
    loops = [
        value
        for block in blocks
        for value in known(row_of(mapping_of(block.get("closed_loop")).get("radius")))
    ]
    said = "All blocks are stable on every graph looked at."
    if not all(flags):
        said = f"{flags.count(False)} of {len(flags)} pairs of block and graph are unstable."
    if loops:
        verb = "grows" if max(loops) > 1 + _ROUNDING else "stays bounded"
        said += f" With the backbone in the loop the state {verb} (radius {number(max(loops))})."
    return [said]


def _flags(value: object) -> list[bool]:
    return [bool(item) for item in value] if isinstance(value, list) else []


def _yes(value: object) -> str:
    flags = _flags(value)
    if not flags:
        return "-"
    if all(flags):
        return "yes"
    return f"{sum(flags)} of {len(flags)} graphs" if any(flags) else "no"


def _largest(value: object) -> str:
    return _tidy(max(known(row_of(value)), default=None))


def _tidy(value: float | None) -> str:
    if value is not None and abs(value) < _ROUNDING:
        return "0"
    return number(value, 4)
