"""A model built for a data set, with everything its features need first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch.nn import Module

from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData
from torch_grama.experiments.catalogue import DEFAULT_MODEL, find_model
from torch_grama.experiments.config import ConfigError, ModelConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.grama import reads_edge_attr, reads_edge_weights
from torch_grama.experiments.models import build_model
from torch_grama.experiments.options import options_of
from torch_grama.nn import AtomEncoder, BondEncoder, CategoricalEncoder, PositionEncoder
from torch_grama.training.input_stage import InputStage, Standardize, UnitRows

MOST_PE_CHANNELS = 16
"""Width to which positional encodings are mapped before they join the features."""


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
    options: dict[str, object] = dict(config.options)
    in_channels, node_encoder = _encode(facts.node_encoding, width, AtomEncoder)
    if in_channels == 0:
        raise ConfigError(
            "Expected node features (the data set has none); add degrees with "
            "`--data.local_degrees true`"
        )
    # a sequence goes to a model that reads one; to others its elements are laid side by side
    if facts.seq_len == 0 and reads_series_alone(config.name):
        raise ConfigError(
            f"Expected a series on every node for the model '{config.name}' (the data set has "
            f"none); choose another name from `grama models`"
        )
    flatten = facts.seq_len > 0 and not entry.takes_sequence
    if flatten:
        in_channels *= facts.seq_len
    elif facts.seq_len > 0 and "seq_len" in known:
        given = options.get("seq_len")
        if given not in (None, facts.seq_len):
            raise ConfigError(
                f"Expected 'model.seq_len' to be {facts.seq_len}, the length of the data's "
                f"sequences (got {given}); leave it out"
            )
        options["seq_len"] = facts.seq_len
    pe_encoder = None
    if facts.pe_channels > 0:
        pe_width = min(MOST_PE_CHANNELS, width)
        pe_encoder = PositionEncoder(facts.pe_channels, pe_width)
        in_channels += pe_width
    # edges: weights go where the model looks for them, or become one more attribute
    stated = {**entry.defaults, **options}
    backbone, variant = str(stated.get("backbone", "")), stated.get("backbone_options") or {}
    assert isinstance(variant, Mapping)
    uses_attr = entry.takes_edge_attr and reads_edge_attr(backbone)
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
    input_dropout = float(str(options.pop("input_dropout", 0.0)))
    if not 0 <= input_dropout < 1:
        raise ConfigError(
            f"Expected 'model.input_dropout' to be at least 0 and below 1 (got {input_dropout})"
        )
    num_layers = options.pop("num_layers", None)
    depth = num_layers if num_layers is None else int(str(num_layers))
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
        node_scale=_scale(facts.node_encoding.num_columns, node_encoder is None and standardize),
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
    part = data.folds[fold].train
    if part.dtype == torch.bool:
        graph = data.graphs[0]
        x, y = graph["x"][part], graph["y"][part]
    else:
        graphs = [data.graphs[int(number)] for number in part]
        x, y = (torch.cat([graph[name] for graph in graphs]) for name in ("x", "y"))
    if isinstance(stage.node_scale, Standardize):
        stage.node_scale.fit(x)
    if stage.output_scale is not None:
        stage.output_scale.fit(y)


def _scale(channels: int, wanted: bool | str) -> Standardize | UnitRows | None:
    if wanted == "rows":
        return UnitRows()
    return Standardize(channels) if wanted and wanted != "largest" else None


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
