"""How much memory a training step will need, measured on small pieces before the first."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Module

from torch_grama.runs.words import format_bytes
from torch_grama.training.graph_batch import GraphBatch

# Copies of the parameters: themselves, gradients, and what the optimiser keeps.
_PARAMETER_COPIES = {"adam": 4, "adamw": 4, "sgd": 3}
_PROBE_NODES = 64
_PROBE_DEGREE = 4


def estimate_memory(
    forward: Callable[[Module, GraphBatch], Tensor],
    model: Module,
    batch: GraphBatch,
    optimizer: str = "adamw",
) -> int:
    r"""Estimates the bytes of a training step: parameters, gradients, optimiser, batch, and what
    the forward pass keeps for the backward pass.

    The latter is measured on probes of a few nodes, as :math:`a + b N + c N^2 + d E`, and
    extrapolated to the batch; for a model that refuses any graph but its own, on the batch itself.
    Model and random numbers are left as they were.

    Args:
        forward (callable): Runs a model on a batch.
        model (Module): The model.
        batch (GraphBatch): A training batch.
        optimizer (str, optional): Name of the optimiser. (default: :obj:`"adamw"`)
    """
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    data = sum(t.numel() * t.element_size() for t in _tensors(batch))
    fixed = held * _PARAMETER_COPIES.get(optimizer, 4) + data
    size = min(_PROBE_NODES, max(1, batch.num_nodes // 4))
    if batch.num_nodes < 4 or (batch.num_edges == 0 and batch.num_nodes < 8):
        return fixed
    with torch.random.fork_rng(devices=[]):

        def measure(num_nodes: int, num_edges: int) -> float:
            # a copy each: a model may keep what it saw of its first graph
            probe = copy.deepcopy(model).cpu().train()
            piece = _piece(batch, num_nodes, num_edges)
            return _saved_bytes(lambda: forward(probe, piece), probe)

        try:
            one, two, four = (measure(size * times, 0) for times in (1, 2, 4))
        except ValueError:
            # a model that serves one graph alone takes no part of it: that graph is measured
            whole = batch.to(torch.device("cpu"))
            probe = copy.deepcopy(model).cpu().train()
            return int(fixed + _saved_bytes(lambda: forward(probe, whole), probe))
        edges = _PROBE_DEGREE * size
        per_edge = 0.0
        if batch.num_edges:
            edges = min(edges, batch.num_edges)
            per_edge = max(0.0, (measure(size, edges) - one) / edges)
    # the parabola through the three probes without edges
    curve = max(0.0, ((four - two) / 2 - (two - one)) / (3 * size * size))
    if curve * size * size < 0.01 * one:
        curve = 0.0  # rounding of allocations, not attention
    slope = max(0.0, (two - one) / size - 3 * size * curve)
    nodes = batch.num_nodes
    # attention is within a graph, so that its square is of one graph's nodes
    per_graph = nodes / (batch.batch_size or 1)
    constant = max(0.0, one - slope * size - curve * size * size)
    activations = constant + slope * nodes + curve * nodes * per_graph + per_edge * batch.num_edges
    return int(fixed + activations)


def available_memory(device: torch.device) -> int | None:
    r"""Free bytes of a device, or of this process's machine or container; :obj:`None` if unknown.

    Args:
        device (torch.device): Where training will run.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    limits = [_free_in_container(), _free_on_machine()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def memory_warning(needed: int, available: int | None, loader: str) -> str | None:
    r"""A sentence if a step needs more memory than there is, with what can be done about it.

    Args:
        needed (int): Estimated bytes.
        available (int, optional): Free bytes.
        loader (str): How batches are made.
    """
    if available is None or needed <= available:
        return None
    knobs = {
        "full": "trainer.loader='subgraphs'",
        "graphs": "a smaller trainer.batch_size",
        "subgraphs": "a smaller trainer.batch_size or trainer.num_neighbors",
    }[loader]
    return (
        f"A training step needs about {format_bytes(needed)} and {format_bytes(available)} are "
        f"free: expect to run out of memory; try {knobs}, model.recompute=true, a smaller "
        "model.hidden_channels or model.seq_len, or trainer.precision='bf16' on a GPU"
    )


def _saved_bytes(forward: Callable[[], Tensor], model: Module) -> float:
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor), torch.enable_grad():
        out = forward()
    del out
    return float(sum(seen.values()))


def _piece(batch: GraphBatch, num_nodes: int, num_edges: int) -> GraphBatch:
    """Some of a batch's own rows, as one graph with edges made up between them."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(num_nodes) % batch.num_nodes
    kept = torch.arange(num_edges)

    def take(values: Tensor | None, index: Tensor) -> Tensor | None:
        return None if values is None else values[index.to(values.device)].cpu()

    x = take(batch.x, rows)
    assert x is not None
    return GraphBatch(
        x=x,
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=generator),
        edge_weight=take(batch.edge_weight, kept),
        edge_attr=take(batch.edge_attr, kept),
        batch=torch.zeros(num_nodes, dtype=torch.long),
        batch_size=1,
        rwse=take(batch.rwse, rows),
        lap_vectors=take(batch.lap_vectors, rows),
    )


def _tensors(batch: GraphBatch) -> list[Tensor]:
    return [value for value in vars(batch).values() if isinstance(value, Tensor)]


def _free_on_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        return None if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError):
        return None
