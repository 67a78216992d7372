"""Graph transfer: a value must travel a number of hops along a line, ring or crossed ring."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactGraphs, column
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Topology = Literal["line", "ring", "crossed-ring"]
Variant = Literal["paper", "legacy", "carry"]

TOPOLOGIES: tuple[Topology, ...] = ("line", "ring", "crossed-ring")
VARIANTS: tuple[Variant, ...] = ("paper", "legacy", "carry")
COUNTS = (1000, 100, 100)
SEED = 1234
# Training, validation and test data never share a seed; these are the public generator's steps.
_SEED_STEPS = (0, 1111, 2222)


def generate_transfer(
    topology: Topology,
    distance: int,
    variant: Variant = "paper",
    seed: int = SEED,
    counts: tuple[int, int, int] = COUNTS,
) -> CompactGraphs:
    r"""Generates the graphs of one transfer task, training graphs first.

    All graphs of a task have the same edges. The source is node 0; the target is the last node of
    a line and node :math:`\ell` of a ring, :math:`\ell` hops away.

    - ``paper``: one input channel; the source has the value 1, the target 0, every other node an
      independent :math:`U[0, 0.5)` value. The label is the input with source and target swapped.
      No self-loops, no repeated edges, a line of :math:`\ell + 1` nodes.
    - ``legacy``: as the public generator of `SWAN <https://github.com/gravins/SWAN>`_ writes it:
      :math:`U[0, 1)` values, a line of :math:`\ell` nodes with a self-loop on each (so that its
      ends are :math:`\ell - 1` hops apart), two edges of a crossed ring listed twice, and
      validation graphs equal to the test graphs.
    - ``carry``: the source holds a fresh :math:`U[0, 1)` value that must appear at the target. All
      nodes have such a value, so the target's own input says nothing about its label, and
      predicting 1/2 there costs 1/12. The three channels are the value, a mark on the source and
      a mark on the target; ``label_mask`` marks the target, the one node to be judged. Unlike
      ``paper``, no node-wise function solves it.

    Args:
        topology (str): ``line``, ``ring`` or ``crossed-ring``.
        distance (int): Hops :math:`\ell` from source to target, at least 2.
        variant (str, optional): ``paper``, ``legacy`` or ``carry``. (default: :obj:`"paper"`)
        seed (int, optional): The same seed gives the same bytes. (default: :obj:`1234`)
        counts (tuple of int, optional): Training, validation and test graphs.
            (default: :obj:`(1000, 100, 100)`)

    Raises:
        ValueError: If a word is unknown or the distance is below 2.
    """
    if topology not in TOPOLOGIES:
        raise ValueError(f"Expected 'topology' to be one of {TOPOLOGIES} (got '{topology}')")
    if variant not in VARIANTS:
        raise ValueError(f"Expected 'variant' to be one of {VARIANTS} (got '{variant}')")
    if distance < 2:
        raise ValueError(f"Expected 'distance' to be at least 2 (got {distance})")
    edges, num_nodes = _edges(topology, distance, legacy=variant == "legacy")
    target = num_nodes - 1 if topology == "line" else distance
    total = sum(counts)
    draw = _legacy_values if variant == "legacy" else _values
    values = draw(num_nodes, counts, seed)
    if variant == "paper":
        values *= 0.5
    labels = values.copy()
    if variant == "carry":
        labels[:, target] = values[:, 0]
        marks = np.zeros((total, num_nodes, 2), dtype=np.float32)
        marks[:, 0, 0] = marks[:, target, 1] = 1.0
        inputs = np.concatenate([values[:, :, None], marks], axis=2)
    else:
        values[:, 0] = labels[:, target] = 1.0
        values[:, target] = labels[:, 0] = 0.0
        inputs = values[:, :, None]
    columns = {
        "x": column("node", inputs.reshape(total * num_nodes, -1)),
        "y": column("node", labels.reshape(-1, 1)),
    }
    if variant == "carry":
        columns["label_mask"] = column("node", inputs[:, :, 2].reshape(-1) == 1)
    return CompactGraphs.repeated(edges, num_nodes, total, columns)


def load_transfer(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    topology, distance, variant = entry.arguments
    graphs = generate_transfer(topology, distance, variant, seed)
    notes = {
        "paper": (
            "The swap can be learned node by node, since source and target are known by their "
            "values; use variant='carry' to make the value travel.",
        ),
        "legacy": (
            "Validation graphs equal the test graphs, as in the public generator.",
            *(("The ends of the line are one hop less apart.",) if topology == "line" else ()),
        ),
        "carry": (
            "Only the target counts ('label_mask'); predicting 1/2 there costs 1/12 = 0.0833.",
        ),
    }
    return entry.task(
        graphs,
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", graphs.columns["x"].values.shape[1]),
        notes=notes[variant],
        source=f"torch_grama.datasets.generate_transfer({topology!r}, {distance}, {variant!r}, "
        f"seed={seed})",
    )


def _edges(topology: Topology, distance: int, *, legacy: bool) -> tuple[NDArray[np.int64], int]:
    """Both directions of every edge, as often as the public generator has them, and the size."""
    if topology == "line":
        num_nodes = distance if legacy else distance + 1
        pairs = [(i, i + 1) for i in range(num_nodes - 1)]
        loops = [(i, i) for i in range(num_nodes)] if legacy else []
    else:
        num_nodes, loops = 2 * distance, []
        pairs = [(i, (i + 1) % num_nodes) for i in range(num_nodes)]
        if topology == "crossed-ring":
            pairs += [(i, num_nodes - 1 - i) for i in range(distance)]
            pairs += [(i, num_nodes + 1 - i) for i in range(2, distance)]
    directed = pairs + [(v, u) for u, v in pairs] + loops
    return np.array(sorted(directed if legacy else set(directed))).T, num_nodes


def _values(num_nodes: int, counts: tuple[int, int, int], seed: int) -> NDArray[np.float32]:
    """Uniform values [G, N]; RandomState's stream is frozen, so a seed keeps its meaning."""
    parts = [
        np.random.RandomState(seed + step).random_sample((count, num_nodes))
        for step, count in zip(_SEED_STEPS, counts, strict=True)
    ]
    # Rounding to float32 must not reach the open end of the interval.
    top = np.nextafter(np.float32(1), np.float32(0))
    return np.minimum(np.concatenate(parts).astype(np.float32), top)


def _legacy_values(num_nodes: int, counts: tuple[int, int, int], seed: int) -> NDArray[np.float32]:
    parts = []
    for step, count in zip((_SEED_STEPS[0], _SEED_STEPS[2], _SEED_STEPS[2]), counts, strict=True):
        generator = torch.Generator().manual_seed(seed + step)
        parts += [torch.rand(num_nodes, generator=generator).numpy() for _ in range(count)]
    return np.stack(parts)
