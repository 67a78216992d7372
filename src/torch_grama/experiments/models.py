"""Models built by word, alone or for a data set, and all of them side by side."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from torch.nn import Module

from torch_grama.baselines.graph_model import Card, choose_pooling
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData
from torch_grama.experiments.catalogue import DEFAULT_MODEL, MODELS, find_model
from torch_grama.experiments.config import ConfigError, ModelConfig, Option, options_of
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.grama import Pooling, reads_edge_attr, reads_edge_weights
from torch_grama.nn import AtomEncoder, BondEncoder, CategoricalEncoder, PositionEncoder
from torch_grama.runs.words import name_nearest
from torch_grama.training.graph_batch import training_values
from torch_grama.training.input_stage import InputStage, Standardize, UnitRows

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
                f"{name_nearest(option, known)}"
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
) -> list[ModelFacts]:
    r"""Lists every model that can be built by word, with its size at one width and depth.

    Args:
        hidden_channels (int, optional): Width. (default: :obj:`64`)
        num_layers (int, optional): Depth. (default: :obj:`8`)
        in_channels (int, optional): Width of the node features. (default: :obj:`64`)
        out_channels (int, optional): Width of the output. (default: :obj:`10`)
    """
    sizes = in_channels, hidden_channels, out_channels, num_layers
    listed = []
    for name, entry in MODELS.items():
        extra: dict[str, Any] = {}
        if "num_nodes" in options_of(entry.build):
            extra["num_nodes"] = _NODES
        try:
            parameters = count_parameters(build_model(name, *sizes, **extra))
        except ValueError:  # such as a depth that its construction does not have
            parameters = None
        card = {item.name: getattr(entry, item.name) for item in fields(Card)}
        listed.append(ModelFacts(**card, name=name, family=entry.family, parameters=parameters))
    return listed


# Width to which positional encodings are mapped before they join the features.
_MOST_PE_CHANNELS = 16


def reads_edge_features(config: ModelConfig) -> bool:
    r"""Whether a model takes features of edges into account."""
    entry = find_model(config.name)
    backbone = {**entry.defaults, **config.options}.get("backbone", "")
    return entry.takes_edge_attr and reads_edge_attr(str(backbone))


def assemble_model(
    config: ModelConfig, facts: DataFacts, out_channels: int, *, standardize: bool | str = False
) -> InputStage:
    r"""Builds a model by word for a data set. Where it is standardised, :func:`measure_scales` then
    measures the scales; ``"rows"`` brings the features of each node to length 1, ``"largest"``
    divides quantities by the largest and leaves features alone.
    """
    entry = find_model(config.name)
    known = options_of(entry.build)
    width = config.hidden_channels
    if width < 1:
        raise ConfigError(f"Expected 'model.hidden_channels' to be at least 1 (got {width})")
    options: dict[str, Any] = dict(config.options)
    in_channels, node_encoder = _encode(facts.node_encoding, width, AtomEncoder)
    if in_channels == 0:
        raise ConfigError(
            "Expected node features (the data set has none); add degrees with "
            "`--data.local_degrees true`"
        )
    if facts.seq_len == 0 and reads_series_alone(config.name):
        raise ConfigError(
            f"Expected a series on every node for the model '{config.name}' (the data set has "
            f"none); choose another name from `grama models`"
        )
    # a sequence goes to a model that reads one; for others, and where GRAMA is to make a sequence
    # of another length, its elements are laid side by side
    asked = options.get("seq_len")
    same = asked in (None, facts.seq_len)
    flatten = facts.seq_len > 0 and not (
        entry.takes_sequence and (same or reads_series_alone(config.name))
    )
    if flatten:
        in_channels *= facts.seq_len
    elif facts.seq_len > 0 and "seq_len" in known:
        if not same:
            raise ConfigError(
                f"Expected 'model.seq_len' to be {facts.seq_len}, the length of the data's "
                f"sequences (got {asked}); leave it out"
            )
        options["seq_len"] = facts.seq_len
    pe_encoder = None
    if facts.pe_channels > 0:
        pe_width = min(_MOST_PE_CHANNELS, width)
        pe_encoder = PositionEncoder(facts.pe_channels, pe_width, facts.num_eigenvectors)
        in_channels += pe_encoder.out_channels
    # edges: weights go where the model looks for them, or become one more attribute
    stated: dict[str, Any] = {**entry.defaults, **options}
    backbone, variant = stated.get("backbone", ""), stated.get("backbone_options") or {}
    uses_attr = reads_edge_features(config)
    edge_dim, edge_encoder = 0, None
    if uses_attr:
        edge_dim, edge_encoder = _encode(facts.edge_encoding, width, BondEncoder)
    takes_weight = getattr(entry.build, "takes_edge_weight", True) and reads_edge_weights(
        backbone, variant, edge_dim > 0
    )
    weight_as_attr = facts.has_edge_weight and uses_attr and not takes_weight
    if edge_dim + weight_as_attr > 0:
        options["edge_dim"] = edge_dim + weight_as_attr
    if "num_nodes" in known and facts.num_graphs == 1:
        options["num_nodes"] = round(facts.mean_nodes)
    input_dropout, depth = options.pop("input_dropout", 0.0), options.pop("num_layers", None)
    if not 0 <= input_dropout < 1:
        raise ConfigError(
            f"Expected 'model.input_dropout' to be at least 0 and below 1 (got {input_dropout})"
        )
    try:
        model = build_model(
            config.name, in_channels, width, out_channels, depth, facts.level, **options
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{error} (the model '{config.name}')") from error
    drop_edge_weight = not getattr(model, "takes_edge_weight", True) and not weight_as_attr
    if facts.has_edge_weight and (drop_edge_weight or getattr(model, "ignores_edge_weight", False)):
        warnings.warn(
            f"The model '{config.name}' does not use edge weights, so those of the data are "
            f"ignored; choose a model that uses them, such as 'gcn' or 'grama', if they matter",
            stacklevel=2,
        )
    node_scale: Standardize | UnitRows | None = None
    if standardize and standardize != "largest" and node_encoder is None:
        columns = facts.node_encoding.num_columns
        node_scale = UnitRows() if standardize == "rows" else Standardize(columns)
    return InputStage(
        model,
        node_encoder,
        edge_encoder,
        pe_encoder,
        flatten,
        drop_edge_attr=not uses_attr,
        drop_edge_weight=drop_edge_weight,
        weight_as_attr=weight_as_attr,
        input_dropout=input_dropout,
        node_scale=node_scale,
        output_scale=(
            Standardize(out_channels, by_largest=standardize == "largest")
            if standardize and facts.kind in ("regression", "forecast")
            else None
        ),
    )


def reads_series_alone(name: str) -> bool:
    r"""Whether a model is made for series of features and reads nothing else."""
    entry = find_model(name)
    return entry.takes_sequence and entry.family != find_model(DEFAULT_MODEL).family


def measure_scales(stage: InputStage, data: GraphTaskData, fold: int) -> None:
    r"""Measures the scales of features and targets on the training part of a fold."""
    if isinstance(stage.node_scale, Standardize):
        stage.node_scale.fit(training_values(data, fold, "x"))
    if stage.output_scale is not None:
        stage.output_scale.fit(training_values(data, fold, "y"))


def _encode(
    encoding: FeatureEncoding, width: int, ogb: type[AtomEncoder] | type[BondEncoder]
) -> tuple[int, Module | None]:
    """The width that a model sees, and what makes it."""
    if encoding.kind == "none":
        return 0, None
    if encoding.kind == "float":
        return encoding.num_columns, None
    if encoding.kind == "categorical":
        return width, CategoricalEncoder(encoding.sizes, width)
    return width, ogb(width)
