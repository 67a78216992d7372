"""Every model that can be built by a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch.nn import Module

from torch_grama.experiments.constructor_options import ConstructorOption, constructor_options
from torch_grama.experiments.families import (
    differential_equation,
    forecasting,
    grama,
    heterophily,
    message_passing,
    multi_hop,
    state_space,
    transformer,
    tuned,
)
from torch_grama.experiments.model_entry import ModelEntry
from torch_grama.experiments.shared_options import apply_shared_options, shared_options
from torch_grama.nn.arguments import list_nearest_first

DEFAULT_MODEL = "grama"
"""The word of the model that is taken when none is named."""

MODELS: dict[str, ModelEntry] = {
    **grama.ENTRIES,
    **message_passing.ENTRIES,
    **tuned.ENTRIES,
    **differential_equation.ENTRIES,
    **heterophily.ENTRIES,
    **transformer.ENTRIES,
    **multi_hop.ENTRIES,
    **state_space.ENTRIES,
    **forecasting.ENTRIES,
}
"""Word to entry, in the order in which they are listed."""

# What a data set decides, or what cannot be written as data.
GIVEN_BY_DATA = (
    "in_channels",
    "out_channels",
    "readout",
    "edge_dim",
    "num_nodes",
)


def canonical_name(name: str) -> str:
    r"""Returns the form in which a word stands in the catalogue.

    Args:
        name (str): The word.
    """
    return name.strip().lower().replace("_", "-")


def model_options(name: str) -> dict[str, ConstructorOption]:
    r"""Returns the options that a model takes, with their types and defaults.

    Args:
        name (str): The word.

    Raises:
        ValueError: There is no such model; the nearest are listed first.
    """
    entry = find_model(name)
    options = constructor_options(entry.build, GIVEN_BY_DATA)
    options |= {word: option for word, option in shared_options().items() if word not in options}
    for word, value in entry.defaults.items():
        known = options.get(word)
        if known is not None:
            options[word] = ConstructorOption(word, known.annotation, value, known.help)
    return options


def find_model(name: str) -> ModelEntry:
    r"""Returns the entry of a word; case and underscores do not matter.

    Args:
        name (str): The word.

    Raises:
        ValueError: There is no such model; the nearest are listed first.
    """
    word = canonical_name(name)
    if word in MODELS:
        return MODELS[word]
    nearest = list_nearest_first(word, MODELS).split(", ")[:_SHOWN]
    raise ValueError(
        f"Expected 'model' to be one of the {len(MODELS)} words that `grama models` prints, such "
        f"as {', '.join(nearest)} (got {name!r})"
    )


# Words that an error names; all of them would fill the screen.
_SHOWN = 5


def build_model(
    name: str,
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    num_layers: int | None = None,
    readout: Literal["node", "graph"] = "node",
    **options: object,
) -> Module:
    r"""Builds a model by word.

    Args:
        name (str): A word that ``grama models`` lists.
        in_channels (int): Width of the node features.
        hidden_channels (int): Width inside.
        out_channels (int): Width of the output.
        num_layers (int, optional): Depth; for GRAMA the number of blocks times recurrences, in
            place of which :obj:`seq_len` and :obj:`num_blocks` may be given. (default: 8 for
            GRAMA, 4 for others)
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
        **options: Options of the model, and those that every model takes
            (:func:`~torch_grama.experiments.shared_options.apply_shared_options`).

    Raises:
        ValueError: The word or an option is unknown, or a value cannot be.

    Example:
        >>> build_model("grama", 7, 32, 2, num_layers=8, backbone="gcn")
        GRAMA(7, 32, 2, seq_len=4, num_blocks=2, backbone=GCNConv)
    """
    entry = find_model(name)
    check_option_names(name, options)
    if entry.takes_edge_attr is False:
        options.pop("edge_dim", None)
    settings: dict[str, object] = {**entry.defaults, **options}
    own = constructor_options(entry.build)
    shared = {
        word: settings.pop(word) for word in shared_options() if word in settings.keys() - own
    }
    if num_layers is None and _needs_depth(entry):
        num_layers = DEFAULT_DEPTH
    model = entry.build(
        in_channels, hidden_channels, out_channels, num_layers, readout=readout, **settings
    )
    return apply_shared_options(model, **shared)  # type: ignore[arg-type]


DEFAULT_DEPTH = 4
"""Layers of a model for which no depth is given."""


def check_option_names(name: str, options: Mapping[str, object]) -> None:
    r"""Refuses options that a model does not have.

    Args:
        name (str): The word of the model.
        options (mapping): The options.

    Raises:
        ValueError: An option is unknown; those of the model are listed, the nearest first.
    """
    known, explain_old = model_options(name), find_model(name).explain_old
    for option, value in options.items():
        if (advice := explain_old(option, value)) is not None:
            raise ValueError(advice)
        if option not in known and option not in GIVEN_BY_DATA:
            raise ValueError(
                f"The model '{name}' has no option '{option}'; its options are "
                f"{list_nearest_first(option, known)}"
            )


def _needs_depth(entry: ModelEntry) -> bool:
    option = constructor_options(entry.build).get("num_layers")
    return option is not None and not isinstance(option.default, int | None)
