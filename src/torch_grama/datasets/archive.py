"""Archives unpacked without trusting what they say about themselves."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from torch_grama.datasets.errors import DatasetError

_CHUNK = 1 << 20
# Text compresses 5 to 20 times, an array of zeros 1,000 times; a bomb starts far above.
_HARMLESS_BYTES = 256 * 2**20
_LARGEST_RATIO = 1100


def extract(
    archive: Path, folder: Path, *, max_bytes: int = 64 * 2**30, max_members: int = 2_000_000
) -> list[Path]:
    r"""Unpacks a zip, tar (plain or compressed) or gz file, told apart by their content.

    Everything is unpacked beside its final place first and moved when all of it is there, so that
    a refused or broken archive leaves the folder as it was. Only plain files and folders inside
    :obj:`folder` are accepted.

    Args:
        archive (Path): The archive.
        folder (Path): Where the files go; created if need be. A ``.gz`` of a single file gives a
            file named like the archive without its ending.
        max_bytes (int, optional): Most bytes the files may have together. (default: 64 GiB)
        max_members (int, optional): Most entries. (default: :obj:`2_000_000`)

    Returns:
        The files, in the order of the archive.

    Raises:
        DatasetError: The archive is broken, of another kind, or asks for something unsafe.
    """
    archive, folder = Path(archive), Path(folder)
    written: dict[PurePosixPath, None] = {}
    try:
        size = archive.stat().st_size
        limit = min(max_bytes, max(_HARMLESS_BYTES, _LARGEST_RATIO * size))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".extract-", dir=folder) as scratch:
            total = 0
            for count, (name, stream) in enumerate(_members(archive), start=1):
                if count > max_members:
                    raise _refusal(archive, f"holds more than {max_members} entries")
                relative = _safe_name(archive, name)
                if stream is None:
                    continue
                target = Path(scratch, *relative.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                total = _copy(archive, stream, target, total, limit)
                written[relative] = None
            for relative in written:
                final = folder.joinpath(*relative.parts)
                final.parent.mkdir(parents=True, exist_ok=True)
                Path(scratch, *relative.parts).replace(final)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise DatasetError(
            f"'{archive}' is a broken archive ({error}): remove it and fetch it again."
        ) from error
    except (OSError, NotImplementedError, RuntimeError, ValueError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"'{archive}' cannot be unpacked into '{folder}' ({error}): fetch it again, or unpack "
            f"it by hand."
        ) from error
    return [folder.joinpath(*relative.parts) for relative in written]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _members(archive: Path) -> Iterator[tuple[str, _Readable | None]]:
    """Yields the name and content of every file, and the name alone of every folder."""
    with archive.open("rb") as stream:
        magic = stream.read(4)
    if magic[:2] == b"PK":
        yield from _zip_members(archive)
    elif tarfile.is_tarfile(archive):
        yield from _tar_members(archive)
    elif magic[:2] == b"\x1f\x8b":
        name = archive.name.removesuffix(".gz")
        if name == archive.name:
            raise _refusal(archive, "is a gz file whose name does not end in '.gz'")
        with gzip.open(archive) as content:
            yield name, content
    else:
        raise DatasetError(
            f"'{archive}' is neither a zip, nor a tar, nor a gz file: remove it and fetch it again."
        )


def _zip_members(archive: Path) -> Iterator[tuple[str, _Readable | None]]:
    with zipfile.ZipFile(archive) as container:
        for info in container.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refusal(archive, f"holds '{info.filename}', which is a link or a device")
            if info.is_dir():
                yield info.filename, None
                continue
            with container.open(info) as content:
                yield info.filename, content


def _tar_members(archive: Path) -> Iterator[tuple[str, _Readable | None]]:
    with tarfile.open(archive) as container:
        for info in container:
            if info.isdir():
                yield info.name, None
            elif info.isreg():
                content = container.extractfile(info)
                assert content is not None
                with contextlib.closing(content):
                    yield info.name, content
            else:
                raise _refusal(archive, f"holds '{info.name}', which is a link or a device")
        # An archive ends in two empty blocks, of which the first is read; without them, or
        # without the checksum of a compressed one, something was cut off.
        assert container.fileobj is not None
        end = container.fileobj.read(_CHUNK)
        if end[: tarfile.BLOCKSIZE] != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("it is cut off")
        while end:
            end = container.fileobj.read(_CHUNK)


def _safe_name(archive: Path, name: str) -> PurePosixPath:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or set(name) & set("\\:\0"):
        raise _refusal(archive, f"holds '{name}', which leads out of the folder")
    return relative


def _copy(archive: Path, stream: _Readable, target: Path, total: int, limit: int) -> int:
    with target.open("xb") as sink:
        while chunk := stream.read(_CHUNK):
            total += len(chunk)
            if total > limit:
                raise _refusal(archive, f"expands to more than {limit} bytes")
            sink.write(chunk)
    return total


def _refusal(archive: Path, fault: str) -> DatasetError:
    return DatasetError(
        f"'{archive}' is refused because it {fault}: use the archive from its publisher."
    )
