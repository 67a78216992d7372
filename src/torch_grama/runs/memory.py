"""How much memory there is, and whether an error says that it was too little."""

from __future__ import annotations

from pathlib import Path

_WORDS = ("out of memory", "allocate memory", "not enough memory", "unable to allocate")


def free_memory() -> int | None:
    r"""Bytes that can be had without pushing others out; :obj:`None` where nobody says."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):  # pragma: no cover - systems other than Linux
        pass
    return None  # pragma: no cover


def is_out_of_memory(error: BaseException) -> bool:
    r"""Whether memory ran out, of a device or of the machine: torch says it in words alone."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _WORDS)
