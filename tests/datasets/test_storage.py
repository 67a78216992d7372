import os
from dataclasses import replace

import pytest
import torch
from published_files import place
from scripted_server import CONTENT, MD5
from torch_geometric.data import Data

from torch_grama.datasets.catalogue import find
from torch_grama.datasets.compact import CompactFile, CompactGraphs
from torch_grama.datasets.entry import DataFile, Source
from torch_grama.datasets.errors import DatasetMissingError
from torch_grama.datasets.storage import Storage


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GRAMA_OFFLINE", "1")


def _entry(*sources):
    return replace(find("transfer-line-3"), name="made-up", sources=sources)


def _builder(calls):
    """Makes a graph whose one number is the size of a file, and notes that it was asked to."""

    def build(source, paths):
        calls.append(source.name)
        graph = Data(x=torch.full((1, 1), float(len(paths[0].read_bytes()))))
        return CompactFile(CompactGraphs.from_data([graph]))

    return build


ONE = Source("one", (DataFile("set/raw/a.txt", ("https://example.org/a.txt",)),))
TWO = Source("two", (DataFile("set/b.txt"), DataFile("set/c.txt")))
ODD = Source("odd", (DataFile("set/d.txt"),), modules=("a_module_nobody_has",))


class TestFolders:
    def test_root_or_the_named_cache(self, tmp_path, monkeypatch):
        assert Storage(tmp_path / "mine").root == tmp_path / "mine"
        assert Storage().root == tmp_path / "cache"
        monkeypatch.delenv("GRAMA_CACHE")
        assert Storage().root == tmp_path / "xdg" / "torch_grama"

    def test_never_to_the_shared_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GRAMA_DATA", str(tmp_path / "shared"))
        storage = Storage(tmp_path / "shared")
        assert storage.root == tmp_path / "cache"
        place(tmp_path / "shared", "set/raw/a.txt").touch()
        assert storage.obtain(_entry(ONE))[1] == [tmp_path / "shared/set/raw/a.txt"]


class TestSources:
    def test_a_source_needs_all_its_files(self, tmp_path):
        storage = Storage(tmp_path)
        place(tmp_path, "set/b.txt").touch()
        assert storage.find_source([TWO]) is None
        place(tmp_path, "set/c.txt").touch()
        assert storage.find_source([ONE, TWO])[0] is TWO

    def test_what_is_missing_is_said(self, tmp_path):
        place(tmp_path, "set/d.txt").touch()
        for sources, sentence in (
            ([ONE, TWO], rf"GRAMA_OFFLINE.* put the file at '{tmp_path / 'set/raw/a.txt'}'"),
            ([TWO], "put 'set/b.txt' and 'set/c.txt' into"),
            ([ODD], "takes a_module_nobody_has"),
        ):
            with pytest.raises(DatasetMissingError, match=sentence):
                Storage(tmp_path).obtain(_entry(*sources))


def test_fetched_once_prepared_once(tmp_path, server):
    seen = []
    built = []
    for md5 in (MD5, None):
        root = tmp_path / str(md5)
        file = DataFile("set/raw/a.txt", (server.url(),), md5)
        storage = Storage(root, lambda *step: seen.append(step))
        for _ in range(2):
            made = storage.prepared(_entry(Source("one", (file,))), 1, _builder(built))
            assert made.graphs[0].x.item() == len(CONTENT)
        assert (root / "set/raw/a.txt").read_bytes() == CONTENT
    assert len(server.requests) == 2
    assert len(built) == 2
    assert {step[0] for step in seen} == {"a.txt", "a.txt (no checksum is documented)"}


def test_prepared_once_until_the_file_changes_and_kept_without_it(tmp_path):
    calls = []

    def prepared(version=1):
        made = Storage(tmp_path).prepared(_entry(ONE, TWO), version, _builder(calls))
        return float(made.graphs[0].x)

    raw = place(tmp_path, "set/raw/a.txt")
    raw.write_text("xxx")
    assert prepared() == prepared() == 3
    assert calls == ["one"]
    raw.write_text("xxxxx")
    os.utime(raw, ns=(1, 1))
    assert prepared() == 5
    raw.unlink()
    assert prepared() == 5
    assert calls == ["one", "one"]
    with pytest.raises(DatasetMissingError):
        prepared(version=2)
