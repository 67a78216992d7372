"""A hash of the data that a folder was started with, so that it goes on with no other."""

from __future__ import annotations

from pathlib import Path

from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import SEAL, RunError
from torch_grama.runs.safe_files import read_plain


def seal_data(folder: Path, values: str) -> None:
    r"""Keeps a hash of data in a folder that has none, and refuses another than it has; an empty
    one is that of any data.
    """
    try:
        before = read_plain(folder / SEAL, 1000).decode(errors="replace")
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SEAL, values.encode())
    except OSError as error:
        raise RunError(f"'{folder / SEAL}' cannot be read ({error.strerror})") from error
    else:
        check_same_data(before, values, folder)


def check_same_data(before: str, now: str, folder: object) -> None:
    r"""Refuses data whose hash is not that of the data before; an empty one is not compared."""
    if before and now and before != now:
        raise RunError(
            f"The data is not what '{folder}' was started with: restore it, or start anew in "
            f"another folder"
        )
