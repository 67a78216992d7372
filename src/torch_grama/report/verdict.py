"""What the numbers of a run mean, in a plain sentence each."""

from __future__ import annotations

from statistics import fmean

from torch_grama.report.figure_parts import known
from torch_grama.report.held_results import MetricScale, scale_of
from torch_grama.runs.run_files import RunFiles
from torch_grama.runs.safe_files import Record

# Coefficients that sum to one have a pole at 1 up to rounding.
ROUNDING = 1e-6
# What a loss must rise by, as a share of its least value, until one speaks of overfitting; and the
# ratio of validation to training loss at the best epoch.
_RISE, _GAP = 0.1, 1.5
# What the training loss must rise by, or be in the end, until one speaks of divergence.
_TIMES, _HUGE = 10.0, 1e18
# The last part of a training in which the best epoch lies when more epochs may help.
_LATE = 0.9
_TRIVIAL = {
    "copy": "repeating the input",
    "degree table": "the mean of nodes with the same degree",
    "zero": "always zero",
    "last value": "the last value",
}
_CONSTANT = {
    "classification": "the most frequent class",
    "multilabel": "the same answer for all",
    "regression": "the same value for all",
}


def judge_run(run: RunFiles) -> list[str]:
    r"""Says whether a finished run is better than the trivial answer, whether it stopped early or
    was still improving, and whether it overfits; what the files do not tell is left out.

    Args:
        run (RunFiles): The run.
    """
    if not run.is_finished:
        return []
    scale = scale_of(run.word("metric"))
    return [*_usefulness(run, scale), *_end(run, scale), *_overfitting(run)]


def judge_stability(analysis: Record) -> list[str]:
    r"""Says in one sentence whether states stay bounded, the backbone in the loop if that was
    measured.

    Args:
        analysis (Record): What ``grama analyze`` wrote.
    """
    blocks = analysis.parts("blocks")
    if not blocks:
        return []
    stable: dict[float | None, bool] = {}  # by the number of the block, on all graphs and steps
    for block in blocks:
        number = block.number("block")
        stable[number] = stable.get(number, True) and all(block.items("stable"))
    flags = list(stable.values())
    loops = [v for block in blocks for v in known(block.part("closed_loop").row("radius"))]
    alone = "the coefficients of all blocks are stable"
    if not all(flags):
        alone = f"the coefficients of {flags.count(False)} of {len(flags)} blocks are unstable"
    if not loops:
        return [f"Without the backbone, {alone}."]
    largest = max(loops)
    grows = largest > 1 + ROUNDING
    start = "States grow" if grows else "States stay bounded"
    link = "although" if grows == all(flags) else "and"
    return [
        f"{start}: one step with the backbone changes them by a factor of up to {largest:.3g}, "
        f"{link} {alone} by themselves."
    ]


def _usefulness(run: RunFiles, scale: MetricScale) -> list[str]:
    trivial, own = run.result.part("trivial"), run.number("test")
    scores = {name: value for name in trivial if (value := trivial.number(name)) is not None}
    if not scores or own is None:
        return []
    name = (max if scale.higher_is_better else min)(scores, key=scores.__getitem__)
    rival = scores[name]
    gain = own - rival if scale.higher_is_better else rival - own
    kind = run.facts.word("kind")
    what = _CONSTANT.get(kind, name) if name == "constant" else _TRIVIAL.get(name, name)
    texts = [scale.text(scale.factor * value) for value in (own, rival)]
    if scale.factor == 100:
        amount = f"{100 * gain:.1f} points"
    elif run.word("metric") == "log10_mse":
        amount = f"{100 * (1 - 10**-gain):.0f} % of the error"
    elif rival > 0 and not scale.higher_is_better:
        amount = f"{100 * gain / rival:.0f} % of the error"
    else:
        amount = f"{gain:.3g}"
    head = f"Better than the trivial answer ({what}) by {amount}"
    if gain <= 0:
        head = f"No better than the trivial answer ({what})"
    return [f"{head}: test {scale.label} {texts[0]} against {texts[1]}."]


def _end(run: RunFiles, scale: MetricScale) -> list[str]:
    best, epochs = run.number("best_epoch"), run.number("epochs")
    if not best or not epochs:
        return []
    reason = run.result.word("stop_reason")
    if reason == "patience":
        return [
            f"Stopped early after epoch {epochs:.0f}: validation {scale.label} had not improved "
            f"since epoch {best:.0f}."
        ]
    if reason == "min_lr":
        return [
            f"Stopped early after epoch {epochs:.0f}: the learning rate had reached its minimum; "
            f"the best epoch was {best:.0f}."
        ]
    # with a validation every few epochs, the last one may come before the last epoch
    between = run.settings.get("trainer.check_val_every", "")
    if best > min(_LATE * epochs, epochs - (int(between) if between.isdecimal() else 1)):
        return [
            f"Still improving at the end: epoch {best:.0f} of {epochs:.0f} was the best; more "
            f"epochs may help (trainer.max_epochs)."
        ]
    return [
        f"Trained for all {epochs:.0f} epochs; epoch {best:.0f} was the best, so more would hardly "
        f"help."
    ]


def _overfitting(run: RunFiles) -> list[str]:
    train, val = (known(run.columns.get(f"{part}/loss", ())) for part in ("train", "val"))
    if len(val) < 2 or not train:
        return []
    least = min(val)
    after = val[val.index(least) + 1 :]
    last = fmean(after[-5:]) if after else least
    if train[-1] > min(_TIMES * train[0], _HUGE):
        rose = f"rose from {train[0]:.3g} to" if train[-1] > train[0] else "ended at"
        return [
            f"Training diverged: the training loss {rose} {train[-1]:.3g}. Lower the learning rate "
            f"(optimizer.lr) or limit the gradient (trainer.gradient_clip)."
        ]
    if last > train[-1] and last > (1 + _RISE) * least > 0 and train[-1] < train[0]:
        return [
            f"Overfitting later on: validation loss rose from {least:.3g} to {last:.3g} while "
            f"training loss fell to {train[-1]:.3g}; the weights of the best epoch were kept. "
            f"Dropout, weight decay or more data may help."
        ]
    if 0 < _GAP * train[-1] < last:
        return [
            f"Some overfitting: the loss ended at {last:.3g} on validation and {train[-1]:.3g} in "
            f"training."
        ]
    return [
        f"No overfitting: the loss ended at {last:.3g} on validation and {train[-1]:.3g} in "
        f"training."
    ]
