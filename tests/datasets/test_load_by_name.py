from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import DatasetError, DatasetMissingError, graph_property, load
from torch_grama.datasets.transforms import RWSE

pytestmark = pytest.mark.usefixtures("own_folders")


def _own_file(folder: Path) -> Path:
    path = folder / "mine.pt"
    graph = Data(
        x=torch.rand(12, 3),
        edge_index=torch.tensor([list(range(11)), list(range(1, 12))]),
        y=torch.arange(12) % 2,
    )
    torch.save(graph, path)
    return path


def test_a_name(tmp_path: Path) -> None:
    first, second = (load("transfer-ring-4", tmp_path, variant="carry") for _ in range(2))
    assert first.graphs.fingerprint() == second.graphs.fingerprint()
    assert first.name == "transfer-ring-4-carry"
    assert np.array_equal(
        first.graphs.columns["x"].values, load("transfer-ring-4-carry").graphs.columns["x"].values
    )


def test_a_path(tmp_path: Path) -> None:
    path = _own_file(tmp_path)
    for name in (path, str(path)):
        task = load(name)
        assert task.num_outputs == 2
        assert task.graphs[0].num_nodes == 12


def test_a_word_wins_over_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _own_file(tmp_path).rename(tmp_path / "transfer-line-3")
    assert load("transfer-line-3").metric.name == "mse"


def test_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _own_file(tmp_path)
    assert load("mine.pt").graphs[0].num_nodes == 12


def test_options_of_own_files(tmp_path: Path) -> None:
    path = _own_file(tmp_path)
    fold = load(path, fractions=(0.5, 0.25, 0.25)).folds[0]
    assert int(fold.train.sum()) == 6
    with pytest.raises(DatasetError, match="did you mean 'fractions'"):
        load(path, fraction=(0.5, 0.25, 0.25))


def test_transforms(tmp_path: Path) -> None:
    task = load("transfer-line-3", tmp_path, transforms=[RWSE(4)])
    assert task.graphs[0].rwse.shape == (4, 4)
    own = load(_own_file(tmp_path), tmp_path, transforms=[RWSE(4)])
    assert own.graphs[0].rwse.shape == (12, 4)
    assert len(list((tmp_path / "compact").iterdir())) == 2


def test_nothing_of_that_name() -> None:
    with pytest.raises(DatasetError, match="no file or folder of that name"):
        load("nowhere")
    with pytest.raises(DatasetMissingError, match=r"folder/nowhere\.npz"):
        load("folder/nowhere.npz")


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_property, "SIZES", ((25, 3), (26, 2)))
    seen: list[tuple[str, int, int | None]] = []
    load("property-diameter", tmp_path, report=lambda *step: seen.append(step))
    assert seen[-1] == ("generating graphs", 5, 5)
