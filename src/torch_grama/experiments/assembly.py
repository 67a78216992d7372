"""A model built for a data set, with everything its features need first."""

from __future__ import annotations

from torch.nn import Module

from torch_grama.datasets.task_data import FeatureEncoding
from torch_grama.experiments.catalogue import build_model, find_model, model_options
from torch_grama.experiments.config import ModelConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.errors import ConfigError
from torch_grama.nn import (
    AtomEncoder,
    BondEncoder,
    CategoricalEncoder,
    InputStage,
    PositionEncoder,
)

MOST_PE_CHANNELS = 16
"""Width to which positional encodings are mapped before they join the features."""


def assemble_model(config: ModelConfig, facts: DataFacts, out_channels: int) -> InputStage:
    r"""Builds a model by word for a data set.

    Args:
        config (ModelConfig): Which model, and its options.
        facts (DataFacts): What the data set is like.
        out_channels (int): Width of the output.

    Raises:
        ConfigError: An option has a value that it cannot have, or the data has no features.
    """
    entry = find_model(config.name)
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
    flatten = facts.seq_len > 0 and not entry.takes_sequence
    if flatten:
        in_channels *= facts.seq_len
    elif facts.seq_len > 0 and "seq_len" in model_options(config.name):
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
    # edges
    uses_attr = entry.takes_edge_attr and options.get("backbone") != "gcn"
    edge_dim, edge_encoder = 0, None
    if uses_attr:
        edge_dim, edge_encoder = _encode(facts.edge_encoding, width, BondEncoder)
    weight_as_attr = facts.has_edge_weight and uses_attr and _reads_no_weights(options, edge_dim)
    edge_dim += int(weight_as_attr)
    if uses_attr and edge_dim > 0:
        options["edge_dim"] = edge_dim
    num_layers = options.pop("num_layers", None)
    try:
        model = build_model(
            config.name,
            in_channels,
            width,
            out_channels,
            num_layers if num_layers is None else int(str(num_layers)),
            facts.level,
            **options,
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{error} (the model '{config.name}')") from error
    return InputStage(
        model,
        node_encoder,
        edge_encoder,
        pe_encoder,
        flatten,
        drop_edge_attr=not uses_attr,
        weight_as_attr=weight_as_attr,
    )


def count_parameters(model: Module) -> int:
    r"""Returns the number of learnable parameters.

    Args:
        model (Module): The model.
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


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


def _reads_no_weights(options: dict[str, object], edge_dim: int) -> bool:
    """GRAMA's gated backbone reads attributes alone, as does its local one beside attributes."""
    backbone = options.get("backbone")
    return backbone == "gatedgcn" or (backbone in ("gps", "gps-performer") and edge_dim > 0)
