"""Recomputing a block in the backward pass instead of keeping its intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn import Module
from torch.utils.checkpoint import checkpoint

from torch_grama.nn.grama_block import GRAMABlock
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.node_sequence import NodeSequence


def checkpoint_block(
    block: GRAMABlock,
    step: Callable[..., Any],
    sequence: NodeSequence,
    graph: GraphInput,
    *options: object,
) -> Any:
    r"""Runs a step of a block, and runs it again when its gradient is wanted.

    The second run finds the matrices of the graph where the first one found them, and leaves the
    running statistics of batch norms alone: the batch has been counted.

    Args:
        block (GRAMABlock): The block.
        step (callable): The method of the block to run.
        sequence (NodeSequence): The sequence that the block receives.
        graph (GraphInput): The graph.
        *options (object): Further arguments of the method.
    """
    block.prepare(graph)
    if torch.compiler.is_compiling():
        return checkpoint(step, sequence, graph, *options, use_reentrant=False)
    return checkpoint(
        step,
        sequence,
        graph,
        *options,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), _buffers_kept(block)),
    )


@contextmanager
def _buffers_kept(module: Module) -> Iterator[None]:
    # .data: autograd may have saved a buffer, and need not hear of a change that is undone
    kept = [(buffer, buffer.data.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.data.copy_(value)
