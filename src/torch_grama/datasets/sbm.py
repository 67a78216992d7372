"""Stochastic block models in the style of PATTERN and CLUSTER."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.raw_arrays import Array
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

SEED = 41
PATTERN_COUNTS = (10_000, 2_000, 2_000)
CLUSTER_COUNTS = (10_000, 1_000, 1_000)
NUM_PATTERNS = 100
_SMALLEST, _LARGEST = 5, 34
_VERSION = 1
_NOTES = (
    "Generated from the published description; these are not the official files.",
    "The benchmark weighs classes equally in its accuracy; here every node counts alike.",
)
_Graph = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]  # adjacency, x, y


def generate_pattern(
    seed: int = SEED, counts: tuple[int, int, int] = PATTERN_COUNTS, report: Report | None = None
) -> CompactGraphs:
    r"""Generates graphs that hide a pattern, training graphs first.

    Five communities of :math:`U\{5, \dots, 34\}` nodes with edge probability 0.5 inside and 0.35
    between them. One of 100 patterns is added: a random graph of :math:`U\{5, \dots, 34\}` nodes
    with edge probability 0.5, joined to every other node with probability 0.5. Every node has one
    of three signals; those of a pattern are fixed together with its edges. The label says whether
    a node belongs to the pattern. Each pattern appears equally often in every part.

    Args:
        seed (int, optional): The same seed gives the same bytes. (default: :obj:`41`)
        counts (tuple of int, optional): Graphs of each part, multiples of 100.
            (default: :obj:`(10000, 2000, 2000)`)
        report (callable, optional): Told about the progress. (default: :obj:`None`)

    Raises:
        ValueError: If a count is not a multiple of 100.
    """
    if any(count % NUM_PATTERNS for count in counts):
        raise ValueError(f"Expected 'counts' to be multiples of {NUM_PATTERNS} (got {counts})")
    random = np.random.RandomState(seed)
    patterns = []
    for _ in range(NUM_PATTERNS):
        size = int(random.randint(_SMALLEST, _LARGEST + 1))
        patterns.append((_block_model(np.zeros(size, np.int64), 0.5, 0.5, random), size))
    signals = [random.randint(0, 3, size=size) for _, size in patterns]

    def graphs() -> Iterator[_Graph]:
        for count in counts:
            for number in range(count):
                index = number * NUM_PATTERNS // count
                (hidden, size), signal = patterns[index], signals[index]
                member = _communities(5, random)
                whole = np.zeros((len(member) + size,) * 2, dtype=bool)
                whole[: len(member), : len(member)] = _block_model(member, 0.5, 0.35, random)
                whole[len(member) :, len(member) :] = hidden
                joined = random.random_sample((len(member), size)) < 0.5
                whole[: len(member), len(member) :] = joined
                whole[len(member) :, : len(member)] = joined.T
                x = np.concatenate([random.randint(0, 3, size=len(member)), signal])
                y = (np.arange(len(whole)) >= len(member)).astype(np.int64)
                yield whole, x, y

    return CompactGraphs.from_matrices(_shuffled(graphs(), sum(counts), random, report))


def generate_cluster(
    seed: int = SEED, counts: tuple[int, int, int] = CLUSTER_COUNTS, report: Report | None = None
) -> CompactGraphs:
    r"""Generates graphs of six communities, one node of each being known, training graphs first.

    Communities have :math:`U\{5, \dots, 34\}` nodes and edge probability 0.55 inside and 0.25
    between them. The feature of one random node of community :math:`i` is :math:`i + 1`, that of
    all other nodes 0; the label is the community.

    Args:
        seed (int, optional): The same seed gives the same bytes. (default: :obj:`41`)
        counts (tuple of int, optional): Graphs of each part. (default: :obj:`(10000, 1000, 1000)`)
        report (callable, optional): Told about the progress. (default: :obj:`None`)
    """
    random = np.random.RandomState(seed)

    def graphs() -> Iterator[_Graph]:
        for _ in range(sum(counts)):
            member = _communities(6, random)
            x = np.zeros_like(member)
            for community in range(6):
                x[random.choice(np.flatnonzero(member == community))] = community + 1
            yield _block_model(member, 0.55, 0.25, random), x, member

    return CompactGraphs.from_matrices(_shuffled(graphs(), sum(counts), random, report))


def load_sbm(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    is_pattern = entry.name == "sbm-pattern"
    generate = generate_pattern if is_pattern else generate_cluster
    counts = PATTERN_COUNTS if is_pattern else CLUSTER_COUNTS
    made = storage.generated(
        f"{entry.name}-seed{seed}-v{_VERSION}",
        lambda: CompactFile(generate(seed, counts, storage.report)),
    )
    return entry.task(
        made.graphs,
        [consecutive_fold(counts)],
        FeatureEncoding("categorical", 1, (3,) if is_pattern else (7,)),
        notes=_NOTES,
        source=f"torch_grama.datasets.{generate.__name__}(seed={seed})",
    )


def _communities(number: int, random: np.random.RandomState) -> NDArray[np.int64]:
    sizes = random.randint(_SMALLEST, _LARGEST + 1, size=number)
    return np.repeat(np.arange(number), sizes)


def _block_model(
    member: NDArray[np.int64], inside: float, between: float, random: np.random.RandomState
) -> NDArray[np.bool_]:
    chance = np.where(member[:, None] == member[None, :], inside, between)
    upper = np.triu(random.random_sample(chance.shape) < chance, k=1)
    return upper | upper.T


def _shuffled(
    graphs: Iterator[_Graph], total: int, random: np.random.RandomState, report: Report | None
) -> Iterator[tuple[NDArray[np.bool_], dict[str, Array]]]:
    for done, (adjacency, x, y) in enumerate(graphs, start=1):
        order = random.permutation(len(x))
        yield adjacency[np.ix_(order, order)][None], {"x": x[order, None], "y": y[order]}
        if report is not None and (done % 100 == 0 or done == total):
            report("generating graphs", done, total)
