import re

import pytest
import torch
from torch_geometric.data import Data

from torch_grama.datasets import DatasetError, DatasetMissingError, graph_property, load
from torch_grama.datasets.catalogue import ALIASES, CATALOGUE, find, resolve
from torch_grama.datasets.range_tasks import REACHES, TOPOLOGIES
from torch_grama.datasets.transforms import RWSE

PAPER = {
    *(f"transfer-{t}-{d}" for t in ("line", "ring", "crossed-ring") for d in (3, 5, 10, 50)),
    *("property-diameter", "property-sssp", "property-eccentricity"),
    *("sbm-pattern", "sbm-cluster", "peptides-func", "peptides-struct", "malnet-tiny"),
    *("roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions"),
    *("zinc", "ogbg-molhiv", "cora", "citeseer", "pubmed"),
    *("mnist-superpixels", "cifar10-superpixels", "chickenpox", "pedalme", "wikimath"),
}
LONG_RANGE = {
    *("barbell-10", "barbell-20", "barbell-50", "echo-sssp", "echo-ecc", "echo-diam"),
    *(f"range-{reach}-{topology}-10" for reach in REACHES for topology in TOPOLOGIES),
    *(f"ising-{side}-{kind}" for side in (16, 32) for kind in ("easy", "hard")),
    *("city-paris", "city-shanghai", "city-la", "city-london"),
}
GRAPHLAND = {
    *("hm-categories", "pokec-regions", "web-topics", "tolokers-2", "city-reviews", "artnet-exp"),
    *("web-fraud", "hm-prices", "avazu-ctr", "city-roads-m", "city-roads-l", "twitch-views"),
    *("artnet-views", "web-traffic"),
}


def test_every_set_of_the_paper_is_there():
    assert set(CATALOGUE) == PAPER | LONG_RANGE | GRAPHLAND
    assert set(ALIASES.values()) <= PAPER
    assert not set(ALIASES) & PAPER


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entries_are_complete(entry):
    assert CATALOGUE[entry.name] is entry
    assert entry.published.num_graphs
    assert entry.published.split
    assert all((entry.summary, entry.origin, entry.licence))
    assert re.search(r"\b20\d\d\b", entry.citation)
    assert not entry.class_names or len(entry.class_names) == entry.num_outputs
    assert entry.metric.higher_is_better == (entry.kind in ("classification", "multilabel"))
    if entry.sources:  # it can be fetched, and read as installed
        assert entry.disk_bytes > 0
        assert any(all(f.urls for f in s.files) and not s.modules for s in entry.sources)


def test_files_without_a_documented_checksum_are_named():
    assert find("tolokers").unchecked_files == ()
    assert find("wikimath").unchecked_files == ("temporal/wikivital_mathematics.json",)
    assert find("peptides-func").unchecked_files == ("peptides-functional/raw/peptidesfunc.zip",)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Cora", "cora"),
        ("Roman_Empire", "roman-empire"),
        (" ZINC-12k ", "zinc"),
        ("MNIST", "mnist-superpixels"),
        ("transfer-ring-25", "transfer-ring-25"),
        ("transfer-line-10-carry", "transfer-line-10-carry"),
        ("property-sssp-true", "property-sssp-true"),
        ("Range_Shell_Grid_4", "range-shell-grid-4"),
        ("City-Roads-M", "city-roads-m"),
    ],
)
def test_words(word, name):
    assert find(word).name == name


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("minesweper", "'minesweeper'"),
        ("peptides", "'peptides-func'"),
        *((f"transfer-{rest}", "transfer-ring-10") for rest in ("line", "star-5", "line-1")),
        *((f"transfer-line-{rest}", "transfer-ring-10") for rest in ("x", "3-mail")),
        *((f"property-{rest}", "property-diameter") for rest in ("girth", "sssp-false")),
        *((f"barbell-{rest}", "barbell-50") for rest in ("1", "x")),
        *((f"range-{rest}", "range-shell-grid-10") for rest in ("line-power-3", "shell-grid-3-x")),
        ("range-power-line-11", "1 to 10"),
        ("ising-17-easy", "'ising-16-easy'"),
        ("xyzzy", "grama data list"),
        ("", "grama data list"),
    ],
)
def test_unknown_words_list_the_nearest(word, hint):
    with pytest.raises(DatasetError, match=re.escape(hint)):
        find(word)


def test_variants_become_part_of_the_name():
    entry, options = resolve("transfer-line-5", {"variant": "carry", "seed": 3})
    assert (entry.name, options) == ("transfer-line-5-carry", {"seed": 3})
    assert entry.published.num_features == 3
    entry, _ = resolve("transfer-line-5-carry", {"variant": "paper"})
    assert entry.published.num_features == 1
    for labels in ("true", True):  # as YAML files and command lines read it
        assert resolve("property-sssp", {"labels": labels})[0].name == "property-sssp-true"
    with pytest.raises(DatasetError, match=r"to be 'published' or 'true' \(got 'false'\)"):
        resolve("property-sssp", {"labels": False})
    assert resolve("pedalme", {"ratio": 1, "lags": 3})[1] == {"ratio": 1.0, "lags": 3}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transfer-line-5", {"varient": "carry"}, "did you mean 'variant'"),
        ("transfer-line-5", {"variant": "mail"}, "'paper', 'legacy' or 'carry'"),
        ("transfer-line-5", {"seed": "x"}, "a whole number"),
        ("transfer-line-5", {"seed": 1.5}, "a whole number"),
        ("transfer-line-5", {"seed": True}, "a whole number"),
        ("cora", {"normalize": 1}, "to be true or false"),
        ("minesweeper", {"seed": 1}, "none"),
        ("pedalme", {"ratio": "half"}, "to be a number"),
    ],
)
def test_wrong_options(name, options, message):
    with pytest.raises(DatasetError, match=message):
        resolve(name, options)


def _own_file(folder):
    nodes = torch.arange(12)
    edge_index = torch.stack([nodes[:-1], nodes[1:]])
    torch.save(Data(x=torch.rand(12, 3), edge_index=edge_index, y=nodes % 2), folder / "mine.pt")
    return folder / "mine.pt"


def test_a_name(tmp_path):
    task = load("transfer-ring-4", tmp_path, variant="carry")
    assert task.name == "transfer-ring-4-carry"
    assert task.graphs.fingerprint() == load("transfer-ring-4-carry").graphs.fingerprint()


def test_a_path(tmp_path):
    path = _own_file(tmp_path)
    for task in (load(path), load(str(path))):
        assert (task.num_outputs, task.graphs[0].num_nodes) == (2, 12)


def test_a_word_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _own_file(tmp_path)
    assert load("mine.pt").graphs[0].num_nodes == 12
    (tmp_path / "mine.pt").rename(tmp_path / "transfer-line-3")
    assert load("transfer-line-3").metric.name == "mse"


def test_options_of_own_files(tmp_path):
    path = _own_file(tmp_path)
    fold = load(path, fractions=(0.5, 0.25, 0.25)).folds[0]
    assert int(fold.train.sum()) == 6
    with pytest.raises(DatasetError, match="did you mean 'fractions'"):
        load(path, fraction=(0.5, 0.25, 0.25))


def test_transforms(tmp_path):
    task = load("transfer-line-3", tmp_path, transforms=[RWSE(4)])
    assert task.graphs[0].rwse.shape == (4, 4)
    own = load(_own_file(tmp_path), tmp_path, transforms=[RWSE(4)])
    assert own.graphs[0].rwse.shape == (12, 4)
    assert len(list((tmp_path / "compact").iterdir())) == 2


def test_nothing_of_that_name():
    with pytest.raises(DatasetError, match="no file or folder of that name"):
        load("nowhere")
    with pytest.raises(DatasetMissingError, match=r"folder/nowhere\.npz"):
        load("folder/nowhere.npz")


def test_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_property, "SIZES", ((25, 3), (26, 2)))
    seen = []
    load("property-diameter", tmp_path, report=lambda *step: seen.append(step))
    assert seen[-1] == ("generating graphs", 5, 5)
