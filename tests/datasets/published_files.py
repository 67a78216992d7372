"""Small files in the form of published ones, and what every reader does with those it refuses."""

import io
import tarfile
import zipfile

import pytest
import torch

from torch_grama.datasets import DatasetError, load


def assert_refused(name, root, sentence, **options):
    with pytest.raises(DatasetError, match=sentence) as caught:
        load(name, root, **options)
    return str(caught.value)


def assert_same(found, expected, *names):
    """Two graphs have the same tensors of these names."""
    for name in names:
        assert found[name].dtype == expected[name].dtype
        assert torch.equal(found[name], expected[name]), name


def assert_same_masks(task, expected):
    """The splits of a task are the masks ``[N, K]`` of a graph."""
    for part in ("train", "val", "test"):
        masks = [getattr(fold, part) for fold in task.folds]
        assert torch.equal(torch.stack(masks, dim=1), expected[f"{part}_mask"])


class Boom:
    """Pickles as a call that would be heard."""

    def __reduce__(self):
        return (print, ("boom",))


def place(root, name):
    """Where a file lies below a folder, which is made."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    return root / name


def saved(value):
    torch.save(value, stream := io.BytesIO())
    return stream.getvalue()


def write_zip(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
