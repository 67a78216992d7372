"""What the name of a row says about the model: ``grama-gcn-naive``, ``gps+rwse``."""

from __future__ import annotations

import re
from collections.abc import Collection

from torch_grama.nn.arguments import choose, list_nearest_first
from torch_grama.nn.backbone import BACKBONES

# What may stand at the end of a word, such as -l16s4, -width64, -depth8.
SIZES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"-l(\d+)s(\d+)", ("model.seq_len", "model.num_blocks")),
    (r"-width(\d+)", ("model.hidden_channels",)),
    (r"-depth(\d+)", ("model.num_layers",)),
)
ENCODINGS: dict[str, dict[str, object]] = {
    "rwse": {"data.rwse": 20},
    "lappe": {"data.lap_pe": 10},
    "deg": {"data.local_degrees": True},
}
GRAMA = "grama-"
NAIVE = "-naive"
AGAIN = "-reevaluated"  # the numbers of another evaluation of the same model
# Backbones with options that have a row of their own.
VARIANTS: dict[str, dict[str, object]] = {
    "gcn-root": {"model.backbone": "gcn", "model.backbone_options": {"root": True}},
    "gin-multi": {
        "model.backbone": "gin",
        "model.backbone_options": {"aggregation": "multi", "norm": None},
    },
    "gps-performer": {
        "model.backbone": "gps",
        "model.backbone_options": {"attention": "performer"},
    },
}


def settings_of_row(row: str, words: Collection[str]) -> dict[str, object]:
    r"""Turns the name of a row into settings.

    A row is a word of the catalogue, or ``grama-<backbone>`` (a name, or one of :data:`VARIANTS`)
    with ``-naive`` for coefficients that are free parameters. Sizes may follow, as in
    ``grama-gcn-l16s4``, ``gcn-width64`` and ``gcn-depth8``, and encodings after a plus, as in
    ``gps+rwse``.

    Example:
        >>> settings_of_row("grama-gcn+rwse", {"grama"})
        {'model.name': 'grama', 'model.backbone': 'gcn', 'data.rwse': 20}
    """
    word, *encodings = row.removesuffix(AGAIN).split("+")
    settings: dict[str, object] = {}
    sizes: dict[str, object] = {}
    if word not in words:
        for pattern, names in SIZES:
            if found := re.search(f"{pattern}$", word):
                word = word.removesuffix(found.group())
                sizes |= {name: int(n) for name, n in zip(names, found.groups(), strict=True)}
    if word in words:
        settings = {"model.name": word}
    elif word.startswith(GRAMA):
        backbone = word.removeprefix(GRAMA).removesuffix(NAIVE)
        plain: dict[str, dict[str, object]] = {name: {"model.backbone": name} for name in BACKBONES}
        settings = {
            "model.name": "grama",
            **choose(f"backbone of {row}", backbone, {**plain, **VARIANTS}),
        }
        if word.endswith(NAIVE):
            settings["model.coefficients"] = "naive"
    else:
        raise ValueError(
            f"Expected a model that `grama models` lists, such as {_nearest(word, words)}, or "
            f"'grama-' and a backbone (got {row!r})"
        )
    settings |= sizes
    for encoding in encodings:
        if encoding not in ENCODINGS:
            raise ValueError(
                f"Expected the encoding of {row!r} to be one of {', '.join(ENCODINGS)} "
                f"(got {encoding!r})"
            )
        settings |= ENCODINGS[encoding]
    return settings


def _nearest(word: str, words: Collection[str]) -> str:
    return ", ".join(list_nearest_first(word, words).split(", ")[:3])
