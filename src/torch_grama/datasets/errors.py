"""What a reader of data raises: one sentence that names the file, the fault and the remedy."""

from __future__ import annotations

from types import TracebackType


class DatasetError(ValueError):
    r"""The data is there but cannot be used as it is.

    Args:
        message (str): The sentence.
        remedy (str, optional): The option that makes the data readable, such as ``ignore=[age]``.
            (default: none does)
    """

    def __init__(self, message: str = "", *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    @property
    def faults(self) -> tuple[DatasetError, ...]:
        r"""All faults that were found."""
        return (self,)


class DatasetFaults(DatasetError):
    r"""Several faults at once; the message says the first, and where all of them are told."""

    def __init__(self, faults: list[DatasetError], path: object) -> None:
        count = f"{len(faults) - 1} more {'fault' if len(faults) == 2 else 'faults'}"
        first = str(faults[0]).rstrip(".")
        super().__init__(f"{first} ({count}: `grama data check {path}` lists all).")
        self._faults = tuple(faults)

    @property
    def faults(self) -> tuple[DatasetError, ...]:
        return self._faults

    def __reduce__(self) -> tuple[object, ...]:
        return DatasetError, (str(self),)


class DatasetMissingError(DatasetError):
    r"""A file that is needed lies in no local folder and could not be fetched."""


class DownloadError(DatasetError):
    r"""Every source of a file failed, or delivered something other than the published file."""


class UnsafePickleError(DatasetError):
    r"""A pickle asks for an object outside the short list that data files need."""


class Faults:
    r"""Gathers faults, so that a user is told all of them at once.

    As a context it keeps a :class:`DatasetError` that is raised inside, and goes on after it.
    """

    def __init__(self) -> None:
        self._found: list[DatasetError] = []

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, DatasetError):
            return False
        self._found += error.faults
        return True

    def check(self, path: object) -> None:
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise DatasetFaults(self._found, path)


def shown(text: object, most: int = 60) -> str:
    r"""Text out of a file as it may stand in a sentence: in quotes, escaped, and cut.

    Example:
        >>> print(shown("a\x1b[2Jb"), shown("x" * 100, most=5))
        'a\x1b[2Jb' 'xxxxx...'
    """
    word = str(text)
    return f"'{escaped(word[:most])}{'...' if len(word) > most else ''}'"


def escaped(text: str) -> str:
    r"""Text without characters that a terminal obeys or that hide others."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
