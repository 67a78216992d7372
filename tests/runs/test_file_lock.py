import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from torch_grama.runs.atomic_file import file_lock


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        for _ in range(20):
            with file_lock(tmp_path / "it"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert os.listdir(tmp_path) == []


def test_a_lock_left_by_a_failure_or_a_dead_process_is_free(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), file_lock(tmp_path / "it"):
        raise RuntimeError
    code = "import os, sys, filelock; filelock.FileLock(sys.argv[1]).acquire(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / ".it.lock")], check=True)
    with file_lock(tmp_path / "it"):
        assert os.listdir(tmp_path) == [".it.lock"]
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "no" / "it"):
        pass
