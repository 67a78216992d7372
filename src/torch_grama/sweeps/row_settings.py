"""What the name of a row says about the model: ``grama-gcn-naive``, ``gps+rwse``."""

from __future__ import annotations

from collections.abc import Collection

ENCODINGS: dict[str, dict[str, object]] = {
    "rwse": {"data.rwse": 20},
    "lappe": {"data.lap_pe": 10},
}
GRAMA = "grama-"
NAIVE = "-naive"


def settings_of_row(row: str, words: Collection[str]) -> dict[str, object]:
    r"""Turns the name of a row into settings.

    A row is a word of the catalogue, or ``grama-<backbone>`` with ``-naive`` for coefficients that
    are free parameters; encodings follow after a plus, as in ``gps+rwse``.

    Args:
        row (str): The name.
        words (collection of str): The words of the catalogue.

    Returns:
        Settings under dotted names.

    Raises:
        ValueError: If it names no model or no encoding that is known here.

    Example:
        >>> settings_of_row("grama-gcn-naive+rwse", {"grama"})
        {'model.name': 'grama', 'model.backbone': 'gcn', 'model.coefficients': 'naive', \
'data.rwse': 20}
    """
    word, *encodings = row.split("+")
    settings: dict[str, object]
    if word in words:
        settings = {"model.name": word}
    elif word.startswith(GRAMA):
        backbone = word.removeprefix(GRAMA)
        settings = {"model.name": "grama", "model.backbone": backbone.removesuffix(NAIVE)}
        if backbone.endswith(NAIVE):
            settings["model.coefficients"] = "naive"
    else:
        raise ValueError(
            f"Expected a model that `grama models` lists, or 'grama-' and a backbone (got {row!r})"
        )
    for encoding in encodings:
        if encoding not in ENCODINGS:
            raise ValueError(
                f"Expected the encoding of {row!r} to be one of {', '.join(ENCODINGS)} "
                f"(got {encoding!r})"
            )
        settings |= ENCODINGS[encoding]
    return settings
