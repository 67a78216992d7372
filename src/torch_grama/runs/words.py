"""Sizes and times as a person says them, and texts of bounded length."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    r"""Bytes as a person says them."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return (
                f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
            )
        count /= 1000
    return f"{count:.1f} GB"


def format_seconds(seconds: float) -> str:
    r"""A time span as a person says it."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clip(text: object, length: int = 300) -> str:
    r"""A text of bounded length."""
    text = str(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"
