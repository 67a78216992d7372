"""The states of a GRAMA model after every recurrence, seen from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis.model_input import ModelInput
from torch_grama.nn import GRAMA, ARMACoefficients, GRAMABlock
from torch_grama.nn.encoders import append_positions


@dataclass(frozen=True, eq=False)
class BlockTrace:
    r"""What went into one block and what came out of it.

    Attributes:
        block: The block.
        given: The states it received :math:`(L, N, F)`, oldest first.
        states: The states it made :math:`(R, N, F)`, oldest first, as it hands them on: after norm
            and activation.
        coefficients: The coefficients it used.
    """

    block: GRAMABlock
    given: Tensor
    states: Tensor
    coefficients: ARMACoefficients


def find_grama(model: Module) -> GRAMA | None:
    r"""Returns the GRAMA model inside a model, which may be wrapped, or :obj:`None`."""
    return next((module for module in model.modules() if isinstance(module, GRAMA)), None)


def demand_grama(model: Module) -> GRAMA:
    r"""Returns the GRAMA model inside a model.

    Raises:
        ValueError: If there is none.
    """
    grama = find_grama(model)
    if grama is None:
        raise ValueError(
            f"Expected a GRAMA model or a module that holds one (got {type(model).__name__}); "
            f"influence and smoothness of other models have functions of their own"
        )
    return grama


@torch.no_grad()
def encode_input(model: Module, inputs: ModelInput) -> ModelInput:
    r"""Returns what the recurrence of a model works on: floating-point features of nodes and edges.

    A wrapper around the model is run as it is, and what it passes to the model is taken; then the
    model's own encoders of nodes and edges are applied. The model must be in evaluation mode.
    """
    grama = demand_grama(model)
    if grama is not model:
        inputs = _listen(model, grama, inputs)
    x, edge_attr = inputs.x, inputs.edge_attr
    if grama.node_encoder is not None:
        x = grama.node_encoder(x)
    if edge_attr is not None and grama.edge_encoder is not None:
        edge_attr = grama.edge_encoder(edge_attr)
    if edge_attr is not None and grama.edge_lin is not None:
        edge_attr = grama.edge_lin(edge_attr)
    return replace(inputs, x=x, edge_attr=edge_attr)


def trace_blocks(model: Module, encoded: ModelInput) -> list[BlockTrace]:
    r"""Runs the blocks of a GRAMA model one by one and keeps their states.

    Every block is called by its public forward pass, so that training does not pay for this: the
    states are those of the model in evaluation mode. Gradients and forward-mode derivatives with
    respect to the features pass through.

    Args:
        model (Module): A GRAMA model, or a wrapper around one, in evaluation mode.
        encoded (ModelInput): The input, see :func:`encode_input`.
    """
    grama = demand_grama(model)
    x = encoded.x
    if encoded.pe is not None and grama.pe_encoder is not None:
        x = append_positions(x, grama.pe_encoder(encoded.pe), grama.embedding.sequence_first)
    states, residuals = grama.embedding(x)
    graph = (encoded.edge_index, encoded.edge_weight, encoded.edge_attr)
    traces = []
    for block in cast(Iterable[GRAMABlock], grama.blocks):
        given = states
        states, residuals, used = block(
            given, residuals, *graph, encoded.batch, encoded.batch_size, return_coefficients=True
        )
        traces.append(BlockTrace(block, given, states, used))
    return traces


def _listen(model: Module, grama: GRAMA, inputs: ModelInput) -> ModelInput:
    r"""Runs a wrapper and returns the arguments with which it calls the model inside."""
    heard: list[ModelInput] = []

    def hear(_: Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        heard.append(ModelInput(*arguments, **keywords))

    handle = grama.register_forward_pre_hook(hear, with_kwargs=True)
    try:
        inputs.run(model)
    finally:
        handle.remove()
    if not heard:
        raise ValueError(
            f"Expected {type(model).__name__} to call the GRAMA model inside it (got no call)"
        )
    return heard[-1]
