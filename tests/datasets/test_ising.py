"""The long-range Ising model: fields written out, and a sampler with the right distribution."""

import itertools

import numpy as np
import pytest

from torch_grama.datasets import ising, load
from torch_grama.datasets.ising import (
    couplings,
    generate_ising,
    local_fields,
    oracle_errors,
    sample_spins,
)


def test_fields_are_the_sums_of_the_formula():
    side, sigma = 6, 0.6
    spins = (np.random.RandomState(0).randint(0, 2, (1, side, side)) * 2 - 1).astype(np.int8)
    fields = local_fields(spins, couplings(side, sigma))[0]
    places = list(itertools.product(range(side), repeat=2))
    for a, b in places:
        total = 0.0
        for c, d in places:
            if (a, b) != (c, d):
                row, line = (min(abs(k), side - abs(k)) for k in (a - c, b - d))
                total += spins[0, c, d] / (row**2 + line**2) ** ((2 + sigma) / 2)
        assert fields[a, b] == pytest.approx(spins[0, a, b] * total)


def test_the_sampler_draws_from_the_distribution_of_boltzmann():
    # 2 x 2 spins: all 16 states can be counted
    strength, temperature = couplings(2, 1.5), 3.0
    states = np.array(list(itertools.product((-1, 1), repeat=4))).reshape(16, 2, 2)
    energy = -local_fields(states, strength).sum(axis=(1, 2)) / 2
    weight = np.exp(-energy / temperature)
    drawn = sample_spins(2, 1.5, temperature, 40, np.random.RandomState(1), chains=500)
    codes = ((drawn.reshape(-1, 4) > 0) * [8, 4, 2, 1]).sum(axis=1)
    share = np.bincount(codes, minlength=16) / len(codes)
    assert np.allclose(share, weight / weight.sum(), atol=0.012)


def test_graphs_are_tori_and_chains_stay_in_one_part():
    graphs = generate_ising(16, "hard", counts=(8, 4, 4))
    graph = graphs[0]
    assert len(graphs) == 16
    assert graph.num_edges == 4 * 256
    assert graph.is_undirected()
    assert graph.is_coalesced() or graph.coalesce().num_edges == 4 * 256
    assert set(graph.x.unique().tolist()) == {-1.0, 1.0}
    spins = graph.x.reshape(1, 16, 16).numpy().astype(np.int8)
    assert np.allclose(graph.y.reshape(16, 16), local_fields(spins, couplings(16, 0.6)), atol=1e-4)
    again = generate_ising(16, "hard", counts=(8, 4, 4))
    assert (again.columns["x"].values == graphs.columns["x"].values).all()


def test_an_oracle_that_knows_more_errs_less():
    graphs = generate_ising(16, "easy", counts=(8, 4, 4))
    spins = graphs.columns["x"].values.reshape(-1, 16, 16).astype(np.int8)
    errors = oracle_errors(spins, "easy", (1, 2, 4, 8, 15))
    assert list(errors.values()) == sorted(errors.values(), reverse=True)
    y = graphs.columns["y"].values.reshape(spins.shape)
    assert np.abs(local_fields(spins, couplings(16, 1.5)) - y).max() < 1e-4


def test_the_set_is_kept_and_says_what_an_oracle_reaches(tmp_path, monkeypatch):
    monkeypatch.setattr(ising, "COUNTS", (8, 4, 4))
    data = load("ising-16-hard", tmp_path)
    assert data.metric.name == "log10_mse"
    assert [len(part) for part in data.folds[0].parts] == [8, 4, 4]
    assert "oracle" in data.notes[1]
    assert len(list((tmp_path / "compact").iterdir())) == 1
