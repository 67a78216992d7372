"""Long-range Ising model: the local field of every spin of a periodic grid."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import CompactFile, CompactGraphs, column
from torch_grama.datasets.entry import Entry
from torch_grama.datasets.splits import consecutive_fold
from torch_grama.datasets.storage import Report, Storage
from torch_grama.datasets.task_data import FeatureEncoding, GraphTaskData

Kind = Literal["easy", "hard"]
Spins = NDArray[np.int8]  # [C, L, L]
Floats = NDArray[np.float64]

SIGMAS: dict[Kind, float] = {"easy": 1.5, "hard": 0.6}
# Where the susceptibility of the finite grid peaks, measured with this sampler.
TEMPERATURES: dict[tuple[int, Kind], float] = {
    (16, "easy"): 5.4,
    (16, "hard"): 9.0,
    (32, "easy"): 5.5,
    (32, "hard"): 10.2,
}
COUNTS = (8000, 1000, 1000)
SEED = 1234
_VERSION = 1
_NUM_CHAINS = 500
_WARM_UP = 100
_STEPS = 5  # updates of all clusters between two configurations of a chain


def couplings(side: int, sigma: float) -> Floats:
    r"""The strengths :math:`1 / r^{2 + \sigma}` by displacement ``[L, L]``; 0 to itself.

    :math:`r` is the straight distance on the torus, the shortest of all periodic images.
    """
    step = np.minimum(np.arange(side), side - np.arange(side))
    square = (step[:, None] ** 2 + step**2).astype(np.float64)
    square[0, 0] = np.inf
    return np.asarray(square ** -(1 + sigma / 2))


def sample_spins(
    side: int,
    sigma: float,
    temperature: float,
    samples: int,
    random: np.random.RandomState,
    chains: int = _NUM_CHAINS,
    report: Report | None = None,
) -> Spins:
    r"""Draws configurations of independent chains, those of a chain one after another.

    Chains start at random and are updated by clusters (Swendsen and Wang, 1987). Which of the
    :math:`L^4 / 2` pairs are bonds is drawn in time linear in the number of spins (Fukui and Todo,
    2009): a Poisson number of candidates, each a random spin and a displacement drawn by its
    coupling, of which those between equal spins count.
    """
    size = side * side
    strength = couplings(side, sigma)
    # whole numbers, so that no choice hangs on the last digit of a sum
    ends = np.rint(np.cumsum(strength) / strength.sum() * 2**53).astype(np.int64)
    rate = size * strength.sum() / temperature
    spins = (random.randint(0, 2, size=chains * size) * 2 - 1).astype(np.int8)
    kept = np.empty((samples, chains, side, side), dtype=np.int8)
    for sweep in range(_WARM_UP + samples * _STEPS):
        count = int(random.poisson(rate * chains))
        first = random.randint(0, chains * size, size=count)
        draws = (random.random_sample(count) * 2**53).astype(np.int64)
        move = np.searchsorted(ends, draws, side="right")
        chain, (row, line) = first // size, np.divmod(first % size, side)
        row, line = (row + move // side) % side, (line + move % side) % side
        second = chain * size + row * side + line
        spins = _flip_clusters(spins, first, second, random)
        number, left = divmod(sweep + 1 - _WARM_UP, _STEPS)
        if number > 0 and left == 0:
            kept[number - 1] = spins.reshape(chains, side, side)
        if report is not None:
            report("sampling spins", sweep + 1, _WARM_UP + samples * _STEPS)
    return kept.transpose(1, 0, 2, 3).reshape(-1, side, side)


def _flip_clusters(
    spins: Spins, first: NDArray[np.int64], second: NDArray[np.int64], random: np.random.RandomState
) -> Spins:
    # Not above: it takes a while to import, and only sampling takes it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    bonds = spins[first] == spins[second]
    first, second = first[bonds], second[bonds]
    shape = (len(spins), len(spins))
    joined = csr_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=shape)
    _, cluster = connected_components(joined, directed=False)
    # the coin of a cluster is that of its first spin, however clusters are numbered
    leader = np.empty(len(spins), dtype=np.int64)
    leader[cluster[::-1]] = np.arange(len(spins))[::-1]
    coin = (random.randint(0, 2, size=len(spins)) * 2 - 1).astype(np.int8)
    return np.asarray(spins * coin[leader[cluster]])


def generate_ising(
    side: int,
    kind: Kind,
    seed: int = SEED,
    counts: tuple[int, int, int] = COUNTS,
    report: Report | None = None,
) -> CompactGraphs:
    r"""Generates configurations of the long-range Ising model with the field of every spin.

    .. math::
        y_i = s_i \sum_{j \ne i} s_j / r_{ij}^{2 + \sigma}, \qquad s_i = \pm 1

    on a periodic grid of :math:`L \times L` spins with four neighbours each, at the pseudo-critical
    temperature, where spins are correlated over all distances: half the energy that a flip of the
    spin costs. :math:`\sigma` is 1.5 for ``easy`` and 0.6 for ``hard``, where far spins weigh more.
    See `LRIM: a Physics-Based Benchmark for Provably Evaluating Long-Range Capabilities in Graph
    Learning <https://openreview.net/forum?id=IAZXEX1dVV>`_.

    Where it is silent, this is chosen here: :math:`r` is the straight distance to the nearest
    periodic image; the temperature is that where the susceptibility of this very grid peaks; every
    chain of the sampler gives configurations to one part of the split only.

    Args:
        side (int): Spins :math:`L` of a side, 16 or 32.
        kind (str): ``easy`` or ``hard``.
        seed (int, optional): The same seed gives the same spins, and targets up to the rounding of
            sums. (default: :obj:`1234`)
        counts (tuple of int, optional): Training, validation and test configurations.
            (default: :obj:`(8000, 1000, 1000)`)
        report (callable, optional): Told about the progress. (default: :obj:`None`)

    Raises:
        ValueError: If the size or the kind is unknown.
    """
    temperature = TEMPERATURES.get((side, kind))
    if temperature is None:
        raise ValueError(
            f"Expected a grid of {sorted(TEMPERATURES)} by side and kind (got {(side, kind)})"
        )
    total = sum(counts)
    chains = math.gcd(_NUM_CHAINS, *counts)
    random = np.random.RandomState(seed)
    spins = sample_spins(side, SIGMAS[kind], temperature, total // chains, random, chains, report)
    place = np.arange(side * side).reshape(side, side)
    near = [np.roll(place, move, axis) for axis in (0, 1) for move in (1, -1)]
    edges = np.stack([np.tile(place.ravel(), 4), np.stack(near).ravel()])
    fields = local_fields(spins, couplings(side, SIGMAS[kind]))
    columns = {
        "x": column("node", spins.reshape(-1, 1), "float32"),
        "y": column("node", fields.reshape(-1, 1).astype(np.float32)),
    }
    return CompactGraphs.repeated(edges.astype(np.int16), side * side, total, columns)


def local_fields(spins: Spins, strength: Floats) -> Floats:
    r"""The targets of configurations ``[C, L, L]`` for given strengths by displacement."""
    spectrum = np.fft.rfft2(strength)
    fields = np.fft.irfft2(np.fft.rfft2(spins) * spectrum, s=strength.shape)
    return np.asarray(spins * fields)


def oracle_errors(
    spins: Spins, kind: Kind, hops: tuple[int, ...] = (1, 2, 4, 8)
) -> dict[int, float]:
    r"""The log10 of the squared error of whoever knows all spins within some hops.

    It sums the true terms within reach and adds the mean of what is missing.
    """
    side = spins.shape[1]
    strength = couplings(side, SIGMAS[kind])
    step = np.minimum(np.arange(side), side - np.arange(side))
    return {
        reach: float(np.log10(local_fields(spins, strength * (step[:, None] + step > reach)).var()))
        for reach in hops
    }


def load_ising(entry: Entry, storage: Storage, *, seed: int = SEED) -> GraphTaskData:
    """Samples the configurations once; the name of the entry states size and kind."""
    side, kind = entry.arguments
    content = storage.generated(
        f"{entry.name}-seed{seed}-v{_VERSION}",
        lambda: CompactFile(generate_ising(side, kind, seed, COUNTS, storage.report)),
    )
    spins = content.graphs.columns["x"].values[-COUNTS[2] * side * side :].reshape(-1, side, side)
    errors = oracle_errors(spins.astype(np.int8), kind)
    row = ", ".join(f"{value:.2f} with {reach}" for reach, value in errors.items())
    return entry.task(
        content.graphs,
        [consecutive_fold(COUNTS)],
        FeatureEncoding("float", 1),
        notes=(
            "Regenerated, not the published files.",
            f"An oracle that knows all spins within some hops has a test error of {row} hops.",
        ),
        source=f"torch_grama.datasets.generate_ising({side}, {kind!r}, seed={seed})",
    )
