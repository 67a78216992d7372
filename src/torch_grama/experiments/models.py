"""Models built by word, and all of them side by side as ``grama models`` prints them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from torch.nn import Module

from torch_grama.baselines.graph_model import Card, choose_pooling
from torch_grama.experiments.catalogue import MODELS, find_model
from torch_grama.experiments.grama import Pooling
from torch_grama.experiments.options import Option, options_of
from torch_grama.nn.arguments import list_nearest_first
from torch_grama.training.input_stage import InputStage

# What a data set decides.
GIVEN_BY_DATA = ("in_channels", "out_channels", "readout", "edge_dim", "num_nodes")
# Layers of a model for which no depth is given.
_DEPTH = 4
# Of the one graph that a model with weights for each node is listed for.
_NODES = 1000


def model_options(name: str) -> dict[str, Option]:
    r"""Returns the options that a model takes, with their types and defaults."""
    entry = find_model(name)
    shared = options_of(apply_shared_options, skip=["model"])
    own = options_of(entry.build, GIVEN_BY_DATA)
    options = own | {word: option for word, option in shared.items() if word not in own}
    return options | {
        word: replace(options[word], default=value)
        for word, value in entry.defaults.items()
        if word in options
    }


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
            (:func:`apply_shared_options`).

    Raises:
        ValueError: The word or an option is unknown, or a value cannot be.

    Example:
        >>> build_model("grama", 7, 32, 2, num_layers=8, backbone="gcn")
        GRAMA(7, 32, 2, seq_len=4, num_blocks=2, backbone=GCNConv)
    """
    entry, known = find_model(name), model_options(name)
    for option, value in options.items():
        if (advice := entry.explain_old(option, value)) is not None:
            raise ValueError(advice)
        if option not in known and option not in GIVEN_BY_DATA:
            raise ValueError(
                f"The model '{name}' has no option '{option}'; its options are "
                f"{list_nearest_first(option, known)}"
            )
    if not entry.takes_edge_attr:
        options.pop("edge_dim", None)
    own = options_of(entry.build)
    settings = {**entry.defaults, **options}
    shared = {word: settings.pop(word) for word in [*settings] if word not in own}
    if num_layers is None and not isinstance(own["num_layers"].default, int | None):
        num_layers = _DEPTH
    model = entry.build(
        in_channels, hidden_channels, out_channels, num_layers, readout=readout, **settings
    )
    return apply_shared_options(model, **shared)  # type: ignore[arg-type]


def apply_shared_options(
    model: Module, *, pooling: Pooling = "mean", input_dropout: float = 0.0
) -> Module:
    r"""Gives a model that has just been built the options that all models have.

    Args:
        model (Module): The model.
        pooling (str, optional): What the readout of a graph takes of its nodes.
            (default: :obj:`"mean"`)
        input_dropout (float, optional): Dropout of the node features, before the model.
            (default: :obj:`0.0`)

    Raises:
        ValueError: A value cannot be.
    """
    if pooling != "mean":
        choose_pooling(model, pooling)
    return InputStage(model, input_dropout=input_dropout) if input_dropout else model


def count_parameters(model: Module) -> int:
    r"""Returns the number of learnable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@dataclass(frozen=True, kw_only=True)
class ModelFacts(Card):
    r"""One line of the list of models: its card and its size."""

    name: str  # the word
    family: str  # the heading
    # learnable parameters at the width and depth asked for; None if the model does not exist at
    # these
    parameters: int | None


def list_models(
    hidden_channels: int = 64,
    num_layers: int = 8,
    in_channels: int = 64,
    out_channels: int = 10,
    readout: Literal["node", "graph"] = "node",
) -> list[ModelFacts]:
    r"""Lists every model that can be built by word, with its size at one width and depth.

    Args:
        hidden_channels (int, optional): Width. (default: :obj:`64`)
        num_layers (int, optional): Depth. (default: :obj:`8`)
        in_channels (int, optional): Width of the node features. (default: :obj:`64`)
        out_channels (int, optional): Width of the output. (default: :obj:`10`)
        readout (str, optional): ``"node"`` or ``"graph"``. (default: :obj:`"node"`)
    """
    sizes = in_channels, hidden_channels, out_channels, num_layers
    listed = []
    for name, entry in MODELS.items():
        extra = {"num_nodes": _NODES} if "num_nodes" in options_of(entry.build) else {}
        try:
            parameters = count_parameters(build_model(name, *sizes, readout, **extra))
        except ValueError:  # such as a depth that its construction does not have
            parameters = None
        card = {item.name: getattr(entry, item.name) for item in fields(Card)}
        listed.append(ModelFacts(**card, name=name, family=entry.family, parameters=parameters))
    return listed
