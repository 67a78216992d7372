"""ECHO's graphs have the diameters and targets they claim, and published files are read."""

import hashlib
from dataclasses import replace
from functools import partial

import networkx as nx
import numpy as np
import pytest
import torch
from scripted_server import Handler
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from torch_grama.datasets import DatasetMissingError, echo
from torch_grama.datasets.catalogue import find
from torch_grama.datasets.echo import KINDS, draw_graphs, generate_echo
from torch_grama.datasets.entry import DataFile, Source
from torch_grama.datasets.storage import Storage


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_have_the_diameter_and_the_shape_of_their_kind(kind):
    random = np.random.RandomState(3)
    drawn = list(draw_graphs(kind, range(9, 12), 4, random))
    assert [int(hops.max()) for _, hops in drawn] == [d for d in (9, 10, 11) for _ in range(4)]
    for pairs, hops in drawn:
        graph = nx.Graph(pairs.T.tolist())
        assert sorted(graph) == list(range(len(hops)))
        assert nx.diameter(graph) == int(hops.max())
        assert graph.number_of_edges() == pairs.shape[1]
        if kind in ("tree", "caterpillar", "lobster"):
            assert nx.is_tree(graph)
        if kind in ("caterpillar", "lobster"):
            for _ in range(1 if kind == "caterpillar" else 2):
                graph.remove_nodes_from([n for n, degree in list(graph.degree) if degree == 1])
            assert max(degree for _, degree in graph.degree) <= 2
        if kind in ("line", "ladder", "grid"):
            assert max(degree for _, degree in graph.degree) <= (12 if kind == "line" else 4)


@pytest.fixture
def few_diameters(monkeypatch):
    monkeypatch.setattr(echo, "DIAMETERS", range(17, 20))


@pytest.mark.usefixtures("few_diameters")
def test_targets_are_distances_in_hops():
    graphs = generate_echo(shares=(1, 1, 1))
    assert len(graphs) == 6 * 3 * 3
    for graph in graphs[::7]:
        drawn = to_networkx(graph, to_undirected=True)
        source = int(graph.x[:, 0].argmax())
        assert float(graph.x[:, 0].sum()) == 1
        hops = nx.single_source_shortest_path_length(drawn, source)
        assert graph.sssp.flatten().tolist() == [hops[node] for node in range(len(drawn))]
        farthest = nx.eccentricity(drawn)
        assert graph.ecc.flatten().tolist() == [farthest[node] for node in range(len(drawn))]
        assert float(graph.diam) == max(farthest.values())
    for part in range(3):  # every part has every diameter of every kind equally often
        found = graphs.columns["diam"].values.reshape(3, 6, 3)[part]
        assert (np.sort(found, axis=1) == np.arange(17, 20)).all()


@pytest.mark.usefixtures("few_diameters")
def test_a_seed_gives_the_same_bytes():
    # on every platform and with every version of numpy, so they can be written down
    assert generate_echo(5, (1, 1, 1)).fingerprint()[:12] == "55565218eedb"
    assert generate_echo(6, (1, 1, 1)).fingerprint()[:12] != "55565218eedb"


@pytest.mark.usefixtures("few_diameters")
def test_three_tasks_share_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(echo, "SHARES", (1, 1, 1))
    loaded = {
        task: find(f"echo-{task}").load(Storage(tmp_path)) for task in ("sssp", "ecc", "diam")
    }
    assert len(list((tmp_path / "compact").iterdir())) == 1
    for task, data in loaded.items():
        assert data.metric.name == "mae"
        assert data.level == ("graph" if task == "diam" else "node")
        assert "Regenerated" in data.notes[0]
        assert "regenerated" in find(f"echo-{task}").summary
        assert [len(part) for part in data.folds[0].parts] == [18] * 3
    assert float(loaded["diam"].graphs[0].y) == float(loaded["ecc"].graphs[0].y.max())


def _published(folder, as_arrays):
    files = {}
    for number, part in enumerate(("train", "val", "test")):
        size = 3 + number
        x, y = np.random.rand(size, 2), np.arange(3.0 * size).reshape(size, 3)
        line = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        graph = Data(
            x=x if as_arrays else torch.from_numpy(x),
            edge_index=torch.cat([line, line.flip(0)], dim=1),
            y=torch.from_numpy(y),
        )
        torch.save([graph, graph], folder / "file.pt")
        files[part] = (folder / "file.pt").read_bytes()
    return files


def _hub(server, files, broken=""):
    """A hub: the address redirects to a store and says size and sha256 of what lies there."""
    addresses = []
    for part, content in files.items():
        stored = content[:-1] + b"?" if part == broken else content
        target = server.url(f"/store/{part}", partial(Handler.send, body=stored))
        facts = {
            "X_Linked_Size": str(len(content)),
            "X_Linked_Etag": f'"{hashlib.sha256(content).hexdigest()}"',
        }
        answer = partial(Handler.send, body=b"", status=302, Location=target, **facts)
        addresses.append(DataFile(f"echo-synth/{part}_data.pt", (server.url(f"/{part}", answer),)))
    return Source("hub", tuple(addresses))


@pytest.mark.parametrize("as_arrays", [False, True])
def test_published_files_are_fetched_and_read(server, tmp_path, as_arrays):
    source = _hub(server, _published(tmp_path, as_arrays))
    for task, place in (("ecc", 0), ("diam", 1), ("sssp", 2)):
        entry = replace(find(f"echo-{task}-published"), sources=(source,))
        data = entry.load(Storage(tmp_path / "root"))
        assert [len(part) for part in data.folds[0].parts] == [2, 2, 2]
        y = data.graphs[2].y.flatten().tolist()
        assert y == ([1.0] if task == "diam" else [3.0 * row + place for row in range(4)])
        assert data.graphs[0].x.shape == (3, 2)
        assert not any("Regenerated" in note for note in data.notes)
    assert len(server.requests) == 6  # three files, each behind one redirect


def test_a_file_that_is_not_what_the_hub_announces_is_refused(server, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    source = _hub(server, _published(tmp_path, False), broken="val")
    entry = replace(find("echo-ecc-published"), sources=(source,))
    with pytest.raises(DatasetMissingError, match="its sha256 is"):
        entry.load(Storage(tmp_path / "root"))
