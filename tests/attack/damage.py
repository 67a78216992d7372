"""Ways to damage files, drawn from a seed; and what a command answers to them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from torch_grama.cli import main

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**70, -0.5, 1e308, float("nan"), float("inf"), "", "x", "ü" * 300),
    *([], {}, [[]], {"a": {}}, [1, 2, 3], ["x"] * 50, "../../x", "/dev/zero", "\x1b[2J\0", "1e999"),
)
LONGEST = 10.0
"""Seconds that an answer may take, of the process."""


def counts(small: int, full: int) -> pytest.MarkDecorator:
    """How many tries: a few in every test run, all of them with ``-m long``."""
    return pytest.mark.parametrize(
        "tries", [small, pytest.param(full, marks=pytest.mark.long)], ids=["small", "full"]
    )


class Tally:
    """Counts tries, and collects what failed, so that one fault does not hide the others."""

    def __init__(self, attack: str) -> None:
        self.attack, self.tries, self.failures = attack, 0, []

    @contextlib.contextmanager
    def one(self, what: str) -> Iterator[None]:
        """One try."""
        self.tries += 1
        try:
            yield
        except (Exception, SystemExit) as error:
            trace = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(trace.filename).name}:{trace.lineno}"
            self.failures.append(f"{what}: {type(error).__name__} {str(error)[:200]} ({place})")

    def close(self) -> None:
        """Says how many there were, and fails if one did."""
        print(f"\n{self.attack}: {self.tries} tries, {len(self.failures)} failures")
        assert not self.failures, "\n".join(self.failures[:40])


def ask(*words: str) -> tuple[int, str, str]:
    """Runs a command here. Whatever it was given, it raises nothing and ends in time."""
    out, err = io.StringIO(), io.StringIO()
    begun = time.process_time()
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(1200)  # what waits takes no time of the process
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(words))
        except SystemExit as end:  # argparse
            status = int(end.code or 0)
        finally:
            signal.alarm(0)
    assert time.process_time() - begun < LONGEST, words
    assert "Traceback" not in err.getvalue()
    if status:
        assert err.getvalue().rstrip(), words
    return status, out.getvalue(), err.getvalue()


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError("the command hangs")


def damage_bytes(content: bytes, draw: random.Random) -> bytes:
    """Cuts, flips, drops, repeats or inserts."""
    if not content:
        return draw.randbytes(8)
    start, stop = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    way = draw.randrange(6)
    if way == 0:
        return content[:stop]
    if way == 1:
        changed = bytearray(content)
        for _ in range(draw.choice((1, 2, 8))):
            changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if way == 2:
        return content[:start] + content[stop:]
    if way == 3:
        return content[:stop] + content[start:]
    if way == 4:
        return content[:start] + draw.randbytes(8) + content[start:]
    return b""


def damage_value(value: Any, draw: random.Random) -> Any:
    """Replaces, drops, renames or adds one thing somewhere inside nested data."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        way = draw.randrange(8)
        if way == 0:
            return {name: item for name, item in value.items() if name != key}
        if way == 1:
            return {(f"{name}_" if name == key else name): item for name, item in value.items()}
        if way == 2:
            return {**value, "odd": draw.choice(ODD)}
        return {**value, key: damage_value(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], damage_value(value[place], draw), *value[place + 1 :]]
    if isinstance(value, torch.Tensor) and draw.random() < 0.7:
        changes: list[Callable[[], Any]] = [
            lambda: value[..., :0] if value.dim() else value,
            lambda: value.reshape(-1).repeat(2),
            lambda: value.double() if value.is_floating_point() else value.float(),
            lambda: value.to_sparse() if value.dim() else value,
            lambda: value[:1].expand(2**40, *value.shape[1:]) if value.dim() else value,
        ]
        return draw.choice(changes)()
    return draw.choice(ODD)


def damage_file(path: Path, draw: random.Random) -> str:
    """Damages one file of a run, and says how."""
    way = draw.choice(("bytes", "content", "content", "content", "special"))
    if way == "special":
        path.unlink()
        way = draw.choice(("gone", "folder", "pipe", "link"))
        if way == "folder":
            path.mkdir()
        elif way == "pipe":
            os.mkfifo(path)
        elif way == "link":
            path.symlink_to("/dev/zero")
        return way
    if way == "content":
        with contextlib.suppress(Exception):
            if path.suffix in (".json", ".jsonl"):
                content = damage_value(json.loads(path.read_text()), draw)
                path.write_text(json.dumps(content))
                return way
            if path.suffix == ".yaml":
                content = damage_value(yaml.safe_load(path.read_text()), draw)
                path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
                return way
            if path.suffix == ".ckpt":
                content = torch.load(path, weights_only=True)
                torch.save(damage_value(content, draw), path)
                return way
    path.write_bytes(damage_bytes(path.read_bytes(), draw))
    return "bytes"


def files_of(folder: Path, *apart: Path) -> dict[Path, bytes]:
    """Everything below a folder, but for what lies in some places."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(place) for place in apart)
    }


def pick(draw: random.Random, things: Sequence[Any], tries: int) -> list[Any]:
    """All of them where there are tries enough, otherwise some."""
    return list(things) if tries > 100 else draw.sample(list(things), min(2, len(things)))
