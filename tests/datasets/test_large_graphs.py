"""City-Networks and GraphLand: archives written by the test, read by the classes of PyG."""

import tarfile

import pytest
import torch
from published_files import place, saved, write_tar, write_zip

from torch_grama.datasets import DatasetError, DatasetMissingError, load

needs_filter = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="PyG unpacks cities with Python 3.11.4 or newer"
)


def _write_city(root):
    masks = torch.arange(6)
    content = {
        "node_features_augmented": torch.rand(6, 4),
        "node_features": torch.rand(6, 2),
        "edge_indices": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        "10-chunk_16-hop_node_labels": masks % 3,
        "train_mask": masks < 2,
        "valid_mask": (masks >= 2) & (masks < 4),
        "test_mask": masks >= 4,
    }
    members = {f"paris/{name}.pt": saved(value) for name, value in content.items()}
    write_tar(root / "city-networks" / "paris.tar.gz", members)


@needs_filter
def test_a_city_is_read_from_its_archive(tmp_path):
    _write_city(tmp_path)
    for augmented, width in ((True, 4), (False, 2)):
        data = load("city-paris", tmp_path, augmented=augmented)
        assert data.graphs[0].x.shape == (6, width)
        assert data.num_outputs == 3
        assert [int(part.sum()) for part in data.folds[0].parts] == [2, 2, 2]
    assert load("city-paris", tmp_path).graphs[0].x.size(1) == 4  # again, from what is prepared


def test_a_graph_of_graphland_is_read_from_its_archive(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    rows = range(8)
    files = {
        "info.yaml": "task: binary_classification\ntarget_name: banned\n"
        "numerical_features_names: [age]\nfraction_features_names: []\n"
        "categorical_features_names: [country]\n",
        "features.csv": "id,age,country\n" + "".join(f"{n},{n * n},{n % 3}\n" for n in rows),
        "targets.csv": "id,banned\n" + "".join(f"{n},{'' if n == 7 else n % 2}\n" for n in rows),
        "split_masks_RL.csv": "id,train,val,test\n"
        + "".join(f"{n},{n < 4},{4 <= n < 6},{n >= 6}\n" for n in rows),
        "edgelist.csv": "source,target\n" + "".join(f"{n},{n + 1}\n" for n in range(7)),
    }
    members = {f"tolokers-2/{name}": text for name, text in files.items()}
    write_zip(tmp_path / "graphland" / "tolokers-2.zip", members)
    data = load("tolokers-2", tmp_path)
    assert data.graphs[0].num_edges == 14
    assert data.graphs[0].y.tolist() == [0, 1, 0, 1, 0, 1, 0, 0]
    # node 7 has no label, so it is in no part
    assert [int(part.sum()) for part in data.folds[0].parts] == [4, 2, 1]
    assert data.metric.name == "average_precision"
    assert data.num_outputs == 2


@needs_filter
def test_a_damaged_archive_is_named(tmp_path):
    place(tmp_path, "city-networks/paris.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DatasetError, match="'city-paris' as CityNetwork reads"):
        load("city-paris", tmp_path)
    _write_city(tmp_path)
    assert load("city-paris", tmp_path).graphs[0].num_nodes == 6


def test_an_older_pyg_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("torch_geometric.datasets.GraphLandDataset", None)
    with pytest.raises(DatasetMissingError, match=r"torch_geometric>=2\.8"):
        load("tolokers-2", tmp_path)


def test_an_older_python_is_told_what_a_city_needs(tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with pytest.raises(DatasetMissingError, match=r"'city-la' takes Python 3\.11\.4 or newer"):
        load("city-la", tmp_path)
