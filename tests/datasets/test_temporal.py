import json

import numpy as np
import pytest
import torch
from published_files import assert_refused, place

from torch_grama.datasets import load

EDGES = [[0, 1], [1, 0], [1, 2], [2, 2]]


def _series(steps=35, nodes=3):
    return np.arange(steps)[:, None] + 100.0 * np.arange(nodes)[None, :]


def _write(root, name, content):
    path = place(root, f"temporal/{name}")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def _pedalme(**changes):
    weights = [1.0, 0.5, 0.25, 2.0]
    return {"edges": EDGES, "weights": weights, "X": _series().tolist(), **changes}


def test_windows_in_time_order(tmp_path):
    _write(tmp_path, "pedalme_london.json", _pedalme())
    task = load("pedalme", tmp_path)
    assert (task.kind, task.level, len(task.graphs)) == ("forecast", "node", 31)
    for start, graph in enumerate(task.graphs):
        assert graph.x.shape == (3, 4, 1)
        assert graph.y.shape == (3, 1)
        # Oldest first: node n shows start, start + 1, ... and must give start + 4.
        expected = start + torch.arange(4.0)
        assert torch.equal(graph.x[2, :, 0], 200 + expected)
        assert graph.y[1] == 100 + start + 4
        assert graph.edge_weight.tolist() == [1.0, 0.5, 0.25, 2.0]
        assert graph.edge_index.t().tolist() == EDGES
    assert [len(part) for part in task.folds[0].parts] == [24, 3, 4]
    assert torch.cat(task.folds[0].parts).tolist() == list(range(31))


def test_options(tmp_path):
    _write(tmp_path, "pedalme_london.json", _pedalme())
    # a larger validation part is taken from the training part
    usual, larger = (load("pedalme", tmp_path, validation=share).folds[0] for share in (0.1, 0.5))
    assert larger.test.tolist() == usual.test.tolist()
    assert len(larger.val) == 14
    for fold in (usual, larger):
        assert torch.cat([fold.train, fold.val]).tolist() == list(range(27))
    task = load("pedalme", tmp_path, lags=2, ratio=0.5)
    assert len(task.graphs) == 33
    assert task.graphs[0].x.shape == (3, 2, 1)
    assert len(task.folds[0].test) == 17
    for bad in ({"lags": 0}, {"lags": 33}, {"ratio": 1.0}, {"ratio": 0.01}, {"validation": 1.0}):
        assert_refused("pedalme", tmp_path, r"lags|ratio|validation", **bad)


def test_chickenpox_has_unit_weights(tmp_path):
    content = {"edges": EDGES, "node_ids": {"A": 0}, "FX": _series(20).tolist()}
    _write(tmp_path, "chickenpox.json", content)
    task = load("chickenpox", tmp_path)
    assert task.graphs[0].edge_weight.tolist() == [1.0] * 4
    assert any("test included" in note for note in task.notes)
    expected = np.mean([np.mean((_series(20)[t]) ** 2) for t in (18, 19)])
    errors = [task.graphs[int(number)].y.square().mean() for number in task.folds[0].test]
    assert float(torch.stack(errors).mean()) == pytest.approx(expected)


def test_wikimath_is_scaled_per_node(tmp_path):
    random = np.random.RandomState(0)
    visits = random.randint(1, 500, size=(60, 3))
    content = {
        "edges": EDGES,
        "weights": [3, 1, 2, 5],
        "time_periods": 60,
        **{str(day): {"y": visits[day].tolist(), "index": day} for day in range(60)},
    }
    path = _write(tmp_path, "wikivital_mathematics.json", content)
    task = load("wikimath", tmp_path)
    assert len(task.graphs) == 52
    assert task.graphs[0].x.shape == (3, 8, 1)
    scaled = (visits - visits.mean(axis=0)) / visits.std(axis=0)
    assert np.allclose(task.graphs[5].y.flatten().numpy(), scaled[13], atol=1e-6)
    for change, message in (
        ({"17": None}, "1 days without visits"),
        ({str(day): {"y": [5, day, 2 * day]} for day in range(60)}, "same number of visits"),
        ({"time_periods": 61}, "60"),
    ):
        path.write_text(json.dumps({**content, **change}))
        assert_refused("wikimath", tmp_path, message)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[1, 2]",
        {"edges": EDGES, "weights": [1, 1, 1, 1]},
        _pedalme(edges=[[0, 7]], weights=[1.0]),
        _pedalme(weights=[1.0]),
        _pedalme(X=[[1.0, 2.0], [1.0]]),
        _pedalme(X=[["a", "b", "c"]] * 35),
        _pedalme(X=[[float("nan"), 0, 0]] * 35),
        _pedalme(edges=[0, 1]),
        _pedalme(X=[]),
    ],
)
def test_damaged_files(tmp_path, content):
    path = _write(tmp_path, "pedalme_london.json", content)
    assert_refused("pedalme", tmp_path, str(path))
