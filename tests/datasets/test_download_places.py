"""Where files are looked for, where they go, and what is said when they are missing."""

import os
from pathlib import Path

import pytest
from scripted_server import CONTENT, MD5, Server, never, remote, status

from torch_grama.datasets import DatasetMissingError, DownloadError
from torch_grama.datasets.download import cache_folder, fetch, locate, obtain
from torch_grama.datasets.entry import DataFile

pytestmark = pytest.mark.usefixtures("plain_network")


def test_root_wins_over_grama_data_and_both_over_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, named, cache = tmp_path / "root", tmp_path / "named", cache_folder()
    monkeypatch.setenv("GRAMA_DATA", str(named))
    assert locate("set/file.bin", root) is None
    for folder in (cache, named, root):
        (folder / "set").mkdir(parents=True)
        (folder / "set" / "file.bin").write_bytes(CONTENT)
        assert locate("set/file.bin", root) == folder / "set" / "file.bin"
    assert locate("set", root) == root / "set"


def test_the_cache_lies_in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "torch_grama"


def test_a_local_file_needs_no_network(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin").write_bytes(b"my own")
    path = obtain(remote(server.url(), path="set/file.bin", md5=MD5), tmp_path / "root", "cora")
    assert path.read_bytes() == b"my own"
    assert server.requests == []


def test_what_is_missing_goes_to_root_and_never_to_grama_data(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path / "named"))
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    assert obtain(file, tmp_path / "root", "cora") == tmp_path / "root/set/file.bin"
    assert not (tmp_path / "named").exists()


def test_offline_says_what_to_put_where(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMA_OFFLINE", "1")
    target = tmp_path / "set" / "file.bin"
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    with pytest.raises(DatasetMissingError) as caught:
        obtain(file, tmp_path, "cora")
    for part in ("GRAMA_OFFLINE", f"put the file at '{target}'", "`grama data get cora`"):
        assert part in str(caught.value)
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setenv("GRAMA_OFFLINE", "0")
    obtain(file, tmp_path, "cora")
    assert target.read_bytes() == CONTENT


def test_a_failed_fetch_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    url = server.url("/file", status(404))
    with pytest.raises(DatasetMissingError, match="answered 404") as caught:
        obtain(remote(url, path="set/file.bin", md5=MD5), tmp_path, "cora", sleep=never)
    assert f"put the file at '{tmp_path / 'set' / 'file.bin'}'" in str(caught.value)
    assert isinstance(caught.value.__cause__, DownloadError)


def test_a_file_without_address(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError, match=r"no address of it is published.*put the file"):
        obtain(DataFile("set/file.bin"), tmp_path, "cora")


def test_the_permissions_are_those_of_any_new_file(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(server.url()), tmp_path)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_folder_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError) as failure:
        obtain(DataFile("set/file.bin"), cache_folder(), "cora")
    assert str(failure.value).count(f"'{cache_folder()}'") == 1
