import pickle

import pytest
import torch
from published_files import Boom, assert_refused, place, saved, write_zip
from torch_geometric.datasets import GNNBenchmarkDataset

from torch_grama.datasets import load


def _graphs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [
        {
            "x": torch.rand(n, 1, generator=generator),
            "pos": torch.rand(n, 2, generator=generator),
            "edge_index": torch.randint(0, n, (2, 2 * n), generator=generator),
            "edge_attr": torch.rand(2 * n, generator=generator),
            "y": torch.tensor([n - 3]),
        }
        for n in range(3, 3 + count)
    ]


CONTENT = [_graphs(3, 0), _graphs(2, 1), _graphs(1, 2)]


def _write(root, content=CONTENT):
    path = place(root, "superpixels/MNIST/raw/MNIST_v2.pt")
    path.write_bytes(saved(content))
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_graphs_and_parts(tmp_path, zipped):
    if zipped:
        archive = tmp_path / "superpixels/MNIST/raw/MNIST_v2.zip"
        write_zip(archive, {"MNIST_v2.pt": saved(CONTENT)})
    else:
        _write(tmp_path)
    task = load("mnist", tmp_path)
    assert task.name == "mnist-superpixels"
    assert len(task.graphs) == 6
    for graph, expected in zip(task.graphs, [*CONTENT[0], *CONTENT[1], *CONTENT[2]], strict=True):
        assert torch.equal(graph.x, torch.cat([expected["x"], expected["pos"]], dim=1))
        assert torch.equal(graph.edge_index, expected["edge_index"])
        assert torch.equal(graph.edge_attr, expected["edge_attr"].unsqueeze(1))
        assert torch.equal(graph.y, expected["y"])
    assert [part.tolist() for part in task.folds[0].parts] == [[0, 1, 2], [3, 4], [5]]
    assert task.node_encoding.num_columns == 3


def test_files_are_those_of_pyg(tmp_path):
    _write(tmp_path)
    theirs = GNNBenchmarkDataset(str(tmp_path / "superpixels"), "MNIST", split="val")
    ours = load("mnist", tmp_path)
    for number, expected in zip(ours.folds[0].val.tolist(), theirs, strict=True):
        assert torch.equal(ours.graphs[number].edge_index, expected.edge_index)
        assert torch.equal(ours.graphs[number].x[:, 1:], expected.pos)


@pytest.mark.parametrize(
    "content",
    [
        {"train": []},
        [[], []],
        [[{"x": torch.ones(2, 1)}], [], []],
        [[{**CONTENT[0][0], "edge_index": torch.tensor([[0], [9]])}], [], []],
    ],
)
def test_wrong_content(tmp_path, content):
    path = _write(tmp_path, content)
    assert_refused("mnist", tmp_path, "MNIST_v2")
    assert path.exists()


def test_nothing_in_the_file_is_run(tmp_path, capsys):
    path = _write(tmp_path)
    for content in (pickle.dumps(Boom()), saved([Boom()]), b"", path.read_bytes()[:200]):
        path.write_bytes(content)
        assert_refused("mnist", tmp_path, "MNIST_v2")
    assert "boom" not in capsys.readouterr().out
