import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from torch_grama.datasets import DatasetError
from torch_grama.datasets.archive import extract

FILES = {"graphs/a.csv": b"1,2\n", "graphs/deep/b.csv": b"3" * 5000, "top.txt": b""}


def write_zip(path: Path, files: dict[str, bytes], mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def write_tar(path: Path, files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "/etc/hosts"
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(content))
    return path


WRITERS: list[tuple[Callable[..., Path], str]] = [
    (write_zip, "a.zip"),
    (write_tar, "a.tar"),
    (write_tar, "a.tar.gz"),
    (write_tar, "a.tgz"),
]


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_unpacks(tmp_path: Path, write: Callable[..., Path], name: str) -> None:
    archive = write(tmp_path / name, FILES)
    found = extract(archive, tmp_path / "out")
    assert found == [tmp_path / "out" / file for file in FILES]
    assert everything(tmp_path / "out") == FILES


def test_folders_of_an_archive_are_no_files(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as container:
        info = tarfile.TarInfo("./graphs")
        info.type = tarfile.DIRTYPE
        container.addfile(info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as container:
        container.writestr("graphs/", b"")
    assert extract(archive, tmp_path / "out") == []
    assert extract(tmp_path / "a.zip", tmp_path / "out") == []


def test_a_single_compressed_file(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "table.csv.gz", "wb") as stream:
        stream.write(b"1,2\n" * 10)
    assert extract(tmp_path / "table.csv.gz", tmp_path) == [tmp_path / "table.csv"]
    assert (tmp_path / "table.csv").read_bytes() == b"1,2\n" * 10
    (tmp_path / "table.csv.gz").rename(tmp_path / "table")
    with pytest.raises(DatasetError, match=r"does not end in '\.gz'"):
        extract(tmp_path / "table", tmp_path)


def test_older_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "top.txt").write_bytes(b"old")
    extract(write_zip(tmp_path / "a.zip", {"top.txt": b"new"}), tmp_path)
    assert (tmp_path / "top.txt").read_bytes() == b"new"


@pytest.mark.parametrize(("write", "name"), WRITERS)
@pytest.mark.parametrize(
    "member", ["../up.txt", "a/../../up.txt", "/up.txt", "..", "C:/up.txt", "a\\..\\..\\up.txt"]
)
def test_nothing_leaves_the_folder(
    tmp_path: Path, write: Callable[..., Path], name: str, member: str
) -> None:
    archive = write(tmp_path / name, {"good.txt": b"1", member: b"2"})
    before = everything(tmp_path)
    with pytest.raises(DatasetError, match="leads out of the folder"):
        extract(archive, tmp_path / "out")
    assert everything(tmp_path) == before
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = write_tar(tmp_path / "a.tar", {"link": b""}, kind)
    with pytest.raises(DatasetError, match="'link', which is a link or a device"):
        extract(archive, tmp_path / "out")


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"link": b"/etc/hosts"}, stat.S_IFLNK | 0o777)
    with pytest.raises(DatasetError, match="'link', which is a link or a device"):
        extract(archive, tmp_path / "out")
    regular = write_zip(tmp_path / "b.zip", {"file": b"1"}, stat.S_IFREG | 0o600)
    assert extract(regular, tmp_path / "out") == [tmp_path / "out" / "file"]


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_too_much_content(tmp_path: Path, write: Callable[..., Path], name: str) -> None:
    archive = write(tmp_path / name, {"a": b"0" * 600, "b": b"0" * 600})
    extract(archive, tmp_path / "fits", max_bytes=1200)
    with pytest.raises(DatasetError, match="expands to more than 1199 bytes"):
        extract(archive, tmp_path / "out", max_bytes=1199)
    with pytest.raises(DatasetError, match="more than 1 entries"):
        extract(archive, tmp_path / "out", max_members=1)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch_grama.datasets.archive._HARMLESS_BYTES", 2**20)
    inner = gzip.compress(bytes(64 * 2**20), mtime=0)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(inner, mtime=0))
    [unpacked] = extract(tmp_path / "bomb.gz", tmp_path)
    # Two layers in one step would be absurd; each alone stays below the ratio of deflate.
    assert unpacked.stat().st_size == len(inner)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("zeros", bytes(64 * 2**20))
    with pytest.raises(DatasetError, match="expands to more than"):
        extract(tmp_path / "bomb.zip", tmp_path / "out")


def test_the_same_name_twice(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as container:
        for content in (b"1", b"2"):
            info = tarfile.TarInfo("twice")
            info.size = 1
            container.addfile(info, io.BytesIO(content))
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_broken_archives(tmp_path: Path, write: Callable[..., Path], name: str) -> None:
    whole = write(tmp_path / name, {**FILES, "noise": bytes(range(256)) * 40}).read_bytes()
    end_of_content = -(-len(whole.rstrip(b"\0")) // 512) * 512 + 1024  # then comes padding
    for cut in range(0, len(whole) - 1, max(1, len(whole) // 60)):
        (tmp_path / name).write_bytes(whole[:cut])
        out = tmp_path / "out"
        if name == "a.tar" and cut >= end_of_content:
            extract(tmp_path / name, out)
            continue
        with pytest.raises(DatasetError):
            extract(tmp_path / name, out)
        assert not out.exists() or everything(out) == {}


def test_not_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"<html>")
    with pytest.raises(DatasetError, match="neither a zip"):
        extract(tmp_path / "a.zip", tmp_path / "out")
    with pytest.raises(DatasetError, match=r"no\.zip' cannot be unpacked"):
        extract(tmp_path / "no.zip", tmp_path / "out")
