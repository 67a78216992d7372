"""A machine of Ray that dies ends the wait for it, with a sentence."""

import os
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest
from sweep_cases import write_space

from grama_process import GramaProcess
from torch_grama.cli import main
from torch_grama.search import ray_session
from torch_grama.search.ray_session import RayLostError, run_on_ray, set_environment, watch_machines


def machine(alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": resources if alive else {}}


@pytest.mark.parametrize(
    ("machines", "is_lost"),
    [
        ([machine(CPU=2, GPU=1)], False),
        ([machine(False), machine(CPU=2, GPU=1)], False),
        ([machine(False), machine(CPU=8)], True),
        ([machine(CPU=1, GPU=1), machine(CPU=1, GPU=1)], True),  # a trial lies on one machine
        ([], True),
    ],
)
def test_no_machine_with_room_is_waited_for_a_minute(monkeypatch, machines, is_lost):
    ray = pytest.importorskip("ray")
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ray, "nodes", lambda: machines)
    look = watch_machines(2, 1)
    for _ in range(10):
        now[0] += 6
        look()
    now[0] += 6
    if is_lost:
        with pytest.raises(
            RayLostError, match=r"for 66 seconds none had 2 cores and 1 GPU .*again"
        ):
            look()
        machines[:] = [machine(CPU=2, GPU=1)]  # it came back
    now[0] += 6
    look()


@pytest.mark.parametrize("patience", [0.0, 0.6])
def test_a_head_that_is_gone_ends_the_process_with_a_sentence(monkeypatch, capsys, patience):
    monkeypatch.setattr(ray_session, "_BETWEEN", 0.02)
    ended, begin = threading.Event(), time.monotonic()
    monkeypatch.setattr(os, "_exit", lambda status: ended.set())
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        watch = threading.Thread(target=ray_session._watch_head, args=(address, patience, ended))
        watch.start()
        assert not ended.wait(0.3)
    watch.join(10)
    assert ended.is_set()
    assert time.monotonic() - begin > max(0.3, patience)
    assert f"grama: Ray's head at {address} is gone" in capsys.readouterr().err


@pytest.mark.long
def test_a_killed_head_ends_a_sweep_with_a_sentence(tmp_path):
    write_space(tmp_path / "space.yaml", {}, epochs=10**6)
    process = GramaProcess("sweep", str(tmp_path / "space.yaml"), "--out", str(tmp_path / "out"))
    process.wait_until(lambda: list(tmp_path.rglob("metrics.csv")))
    for child in psutil.Process(process.pid).children(recursive=True):
        if child.name() == "gcs_server":
            child.kill()
    _, err = process.communicate(60)
    assert process.returncode == 1
    assert "is gone (`gcs_server`" in err
    assert "rpc_client" not in err


@pytest.mark.long
@pytest.mark.parametrize("what", ["calls", "sweep"])
def test_a_killed_machine_ends_the_wait(tmp_path, monkeypatch, capsys, what):
    monkeypatch.setattr(ray_session, "_PATIENCE", 5.0)
    set_environment("a cluster")
    from ray.cluster_utils import Cluster

    cluster = Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    lost = cluster.add_node(num_cpus=1, object_store_memory=10**8)

    def kill_once_it_works() -> None:
        while not any(path.name in ("begun", "metrics.csv") for path in tmp_path.rglob("*")):
            time.sleep(0.2)
        cluster.remove_node(lost, allow_graceful=False)

    threading.Thread(target=kill_once_it_works, daemon=True).start()

    def work(begun: Path) -> None:
        begun.touch()
        time.sleep(600)

    try:
        if what == "calls":
            with pytest.raises(RayLostError, match="none had 1 core"):
                list(run_on_ray([(work, (tmp_path / "begun",))], cluster.address))
        else:
            write_space(tmp_path / "space.yaml", {}, epochs=10**6)
            words = [str(tmp_path / "space.yaml"), "--ray-address", cluster.address]
            assert main(["sweep", *words, "--out", str(tmp_path / "out")]) == 2
            assert "none had 1 core" in capsys.readouterr().err
            assert (tmp_path / "out" / "sweep.csv").is_file()
    finally:
        cluster.shutdown()
