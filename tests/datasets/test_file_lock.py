import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from torch_grama.datasets import file_lock as module
from torch_grama.datasets.file_lock import file_lock

both_ways = pytest.mark.parametrize("use_fcntl", [True, False])


def never(seconds: float) -> None:
    raise AssertionError("waited for a lock that is free")


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@both_ways
def test_one_at_a_time(tmp_path: Path, use_fcntl: bool) -> None:
    path = tmp_path / "lock"
    inside: list[int] = []
    most: list[int] = []
    pause = threading.Event()

    def work() -> None:
        for _ in range(20):
            with file_lock(path, use_fcntl=use_fcntl, sleep=lambda _: None):
                inside.append(1)
                most.append(len(inside))
                pause.wait(0.0005)  # gives the others the chance to break in
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []


@both_ways
def test_a_failure_inside_frees_the_lock(tmp_path: Path, use_fcntl: bool) -> None:
    path = tmp_path / "lock"
    with pytest.raises(KeyError), file_lock(path, use_fcntl=use_fcntl):
        raise KeyError
    with file_lock(path, use_fcntl=use_fcntl, sleep=never):
        assert path.exists()


def test_a_lock_left_by_a_dead_process_is_free_with_flock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("whatever")
    with file_lock(tmp_path / "lock", use_fcntl=True):
        pass


def test_a_lock_file_names_its_owner_and_is_taken_over_when_the_owner_is_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps([socket.gethostname(), dead_process()]))
    with file_lock(path, use_fcntl=False, sleep=never):
        assert json.loads(path.read_text()) == [socket.gethostname(), os.getpid()]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "age", "gone"),
    [
        (json.dumps([socket.gethostname(), os.getpid()]), 1e9, False),
        (json.dumps(["elsewhere", 1]), 60.0, False),
        (json.dumps(["elsewhere", 1]), 3601.0, True),
        (json.dumps([socket.gethostname(), 10**30]), 1.0, False),
        (json.dumps([socket.gethostname(), "x"]), 1.0, False),
        ("", 1.0, False),
        ("", 11.0, True),
        ("7", 11.0, True),
    ],
    ids=["alive", "elsewhere", "long ago", "no such", "no number", "new", "empty", "no list"],
)
def test_who_is_believed(tmp_path: Path, content: str, age: float, gone: bool) -> None:
    path = tmp_path / "lock"
    path.write_text(content)
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))

    def give_up(seconds: float) -> None:
        raise InterruptedError

    if gone:
        with file_lock(path, use_fcntl=False, sleep=never):
            pass
        assert not path.exists()
    else:
        with pytest.raises(InterruptedError), file_lock(path, use_fcntl=False, sleep=give_up):
            pass
        assert path.read_text() == content


def test_a_new_owner_is_not_robbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps([socket.gethostname(), dead_process()]))
    fresh = json.dumps([socket.gethostname(), os.getpid()])
    rename = Path.rename

    def faster(self: Path, target: Path) -> Path:
        self.write_text(fresh)  # somebody else took it over between the look and the rename
        return rename(self, target)

    def give_up(seconds: float) -> None:
        raise InterruptedError

    monkeypatch.setattr(Path, "rename", faster)
    with pytest.raises(InterruptedError), file_lock(path, use_fcntl=False, sleep=give_up):
        pass
    assert path.read_text() == fresh
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_locks_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(handle: int, operation: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(module.fcntl, "flock", unsupported)
    with file_lock(tmp_path / "lock"):
        assert json.loads((tmp_path / "lock").read_text())[1] == os.getpid()
    assert list(tmp_path.iterdir()) == []


@both_ways
def test_a_folder_that_is_not_there(tmp_path: Path, use_fcntl: bool) -> None:
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "no" / "lock", use_fcntl=use_fcntl):
        pass


def test_an_interrupt_while_waiting_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    close = os.close

    def interrupt(handle: int, operation: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.fcntl, "flock", interrupt)
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), close(handle)))
    with pytest.raises(KeyboardInterrupt), file_lock(tmp_path / "lock"):
        pass
    assert len(closed) == 1


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_a_lock_that_vanishes_while_being_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    read_bytes = Path.read_bytes

    def vanish(self: Path) -> bytes:
        if path.exists():
            path.unlink()
            raise error
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", vanish)
    waits: list[float] = []
    with file_lock(path, use_fcntl=False, sleep=waits.append):
        assert path.exists()
    assert len(waits) == (error is PermissionError)


def test_another_process_takes_the_stale_lock_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps([socket.gethostname(), dead_process()]))

    def slower(self: Path, target: Path) -> Path:
        self.unlink()
        raise FileNotFoundError

    monkeypatch.setattr(Path, "rename", slower)
    waits: list[float] = []
    with file_lock(path, use_fcntl=False, sleep=waits.append):
        pass
    assert len(waits) == 1
