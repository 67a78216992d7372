"""Small files in the form of published ones, and what every reader does with those it refuses."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from torch_grama.datasets import DatasetError, load


def assert_refused(name: str, root: Path, sentence: str, **options: object) -> str:
    with pytest.raises(DatasetError, match=sentence) as caught:
        load(name, root, **options)
    return str(caught.value)


class Boom:
    """Pickles as a call that would be heard."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("boom",))


def place(root: Path, name: str) -> Path:
    """Where a file lies below a folder, which is made."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    return root / name


def saved(value: object) -> bytes:
    torch.save(value, stream := io.BytesIO())
    return stream.getvalue()


def write_zip(path: Path, members: Mapping[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
