"""The first look at a run: its numbers, and what they mean in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_grama.report.dynamics_figures import block_name
from torch_grama.report.figure_parts import number
from torch_grama.report.metric_scale import scale_of
from torch_grama.report.number_lists import known, mapping_of, mappings_of, row_of
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


@dataclass(frozen=True)
class BlockRow:
    r"""A row of the table of blocks, all as text.

    Attributes:
        name: The block.
        backbone: Its backbone.
        radius: Largest modulus of its poles.
        margin: Smallest stability margin.
        condition: Whether the sufficient condition holds.
        stable: Whether it is stable.
        memory: Its memory.
        bound: Bound on the closed loop.
        measured: Measured radius of the closed loop.
    """

    name: str
    backbone: str
    radius: str
    margin: str
    condition: str
    stable: str
    memory: str
    bound: str
    measured: str


def summarize_run(run: RunFiles) -> Card:
    r"""The card of a run.

    Args:
        run (RunFiles): The run.
    """
    metric = run.word("metric") or _metric_of_facts(run)
    scale = scale_of(metric)
    unit = " %" if scale.factor == 100 else ""
    test, val = run.number("test"), run.number("val")
    if val is None:
        val = _best_so_far(run, metric, scale.higher_is_better)
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
    facts += _reach(run)
    return Card(
        name=run.name,
        what=", ".join(filter(None, [run.word("data", "data unknown"), name_model(run)])),
        state="finished" if run.is_finished else "unfinished",
        headline="-" if shown is None else scale.text(scale.factor * shown) + unit,
        caption="" if shown is None else f"{part} {scale.label}",
        facts=facts,
        verdicts=[*_learned(run, metric), *_stability(run)],
    )


def block_rows(run: RunFiles) -> list[BlockRow]:
    r"""The table of the blocks of a run; empty without an analysis.

    Args:
        run (RunFiles): The run.
    """
    rows = []
    for index, block in enumerate(mappings_of(run.analysis.get("blocks"))[:64]):
        loop = mapping_of(block.get("closed_loop"))
        memory = block.get("memory_length")
        lags = known(row_of(memory))
        lasting = isinstance(memory, list) and len(lags) < len(memory)
        rows.append(
            BlockRow(
                block_name(block, index),
                clip(block.get("backbone", "-"), 40),
                _largest(block.get("radius")),
                _tidy(min(known(row_of(block.get("margin"))), default=None)),
                _yes(block.get("satisfies_condition")),
                _yes(block.get("stable")),
                "unbounded" if lasting else f"{max(lags):.0f} lags" if lags else "-",
                _largest(loop.get("bound")),
                _largest(loop.get("radius")),
            )
        )
    return rows


def name_model(run: RunFiles) -> str:
    r"""The word of a model, together with its backbone."""
    name = run.word("model", "model unknown")
    backbone = run.settings.get("model.backbone", "")
    return name if not backbone or backbone in name else f"{name} ({backbone})"


def _metric_of_facts(run: RunFiles) -> str:
    return clip(mapping_of(run.facts.get("metric")).get("name", ""), 40)


def _best_so_far(run: RunFiles, metric: str, higher: bool) -> float | None:
    values = known(run.columns.get(f"val/{metric}", ()))
    return (max(values) if higher else min(values)) if values else None


def _reach(run: RunFiles) -> list[tuple[str, str]]:
    entry = mapping_of(mapping_of(run.analysis.get("influence")).get("model"))
    reach, error = (
        as_number(entry.get("influence_range")),
        as_number(entry.get("influence_range_error")),
    )
    if reach is None:
        return []
    bounds = "" if error is None else f" ± {number(error, 2)}"
    return [("influence range", f"{number(reach)}{bounds} hops")]


def _learned(run: RunFiles, metric: str) -> list[str]:
    values = known(run.columns.get(f"val/{metric}", ()))
    if len(values) < 2:
        return []
    scale = scale_of(metric)
    best = max(values) if scale.higher_is_better else min(values)
    first = values[0]
    texts = [scale.text(scale.factor * value) for value in (first, best)]
    if best == first:
        return [f"Validation {scale.label} never became better than after the first epoch."]
    word = "rose" if scale.higher_is_better else "fell"
    return [f"Validation {scale.label} {word} from {texts[0]} to {texts[1]}."]


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
