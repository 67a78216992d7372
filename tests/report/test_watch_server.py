"""The server: what it shows, what it refuses, and that it bears many and malformed requests."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from run_folders import write_run

from torch_grama.cli import main
from torch_grama.report.watch_server import WatchedRuns, WatchServer, format_age
from torch_grama.runs.safe_files import RunError

EVIL = "<script>alert(1)<|script>\"'&"


def write_runs(folder):
    write_run(folder / "runs" / "first")
    write_run(folder / "runs" / "suite" / "a b" / "second", analysis=False)
    write_run(folder / "runs" / "third", finished=False, analysis=False)
    (folder / "secret.txt").write_text("secret words")
    return folder / "runs"


@contextlib.contextmanager
def serve(root):
    with WatchServer(root) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def root(tmp_path):
    return write_runs(tmp_path)


@pytest.fixture
def server(root):
    """One whose runs a test changes."""
    with serve(root) as server:
        yield server


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """One for all tests that only ask."""
    with serve(write_runs(tmp_path_factory.mktemp("calm"))) as server:
        yield server


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace"), answer.headers
    finally:
        connection.close()


def send_raw(server, data):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_the_list_has_every_run_with_its_state(server):
    status, text, _ = ask(server, "/")
    assert status == 200
    for word in ("/run/first", "/run/suite/a%20b/second", "finished", "running", "90.00 %"):
        assert word in text
    assert text.index("/run/third") < text.index("/run/first")  # what is running comes first


def test_a_run_that_stands_still_is_stopped(server, root):
    for path in (root / "third").iterdir():
        os.utime(path, (1e9, 1e9))
    _, text, _ = ask(server, "/list")
    assert "<td>stopped</td>" in text
    assert "<td>running</td>" not in text


def test_a_new_epoch_is_seen(server, root):
    assert "epochs so far 10 of" in ask(server, "/list")[1]
    with (root / "third" / "metrics.csv").open("a") as stream:
        stream.write("10,11,0.1,0.1,0.99,0.001,10\n")
    text = ask(server, "/list")[1]
    assert "epochs so far 11 of" in text
    assert "99.00 %" in text


@pytest.mark.parametrize("path", ["/run/first", "/run/first/", "/run/suite/a%20b/second"])
def test_every_run_has_its_report(calm, path):
    status, text, headers = ask(calm, path)
    assert status == 200
    assert '<section id="summary"' in text
    assert 'href="/"' in text
    assert "sha256-" in headers["Content-Security-Policy"]


def test_several_runs_are_compared(calm):
    status, text, _ = ask(calm, "/compare?run=first&run=suite/a+b/second&run=first")
    assert status == 200
    assert "2 runs: first, second" in text
    assert ask(calm, "/compare")[0] == 404


@pytest.mark.parametrize("fault", [ValueError("a fault of ours"), KeyError("a fault of ours")])
def test_a_fault_of_the_server_is_told_as_one(server, monkeypatch, capsys, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr(server.runs, "page", fail)
    assert ask(server, "/run/first")[0] == 500
    assert ask(server, "/")[0] == 200
    assert f"a request failed ({type(fault).__name__}" in capsys.readouterr().err


def test_a_page_is_made_once_until_a_file_changes(root, monkeypatch):
    runs = WatchedRuns(root)
    folder = runs.find("first")
    page = runs.page([folder])
    assert runs.page([folder]) is page
    (folder / "result.json").write_text("{}")
    assert runs.page([folder]) is not page


def test_files_are_text_and_nothing_else(calm):
    status, text, headers = ask(calm, "/file/first/result.json")
    assert status == 200
    assert json.loads(text)["test"] == 0.9
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "path",
    [
        "/file/first/../../secret.txt",
        "/file/first/..%2f..%2fsecret.txt",
        "/file/..%2fsecret.txt",
        "/file/%2e%2e/secret.txt",
        "/file/first/secret.txt",
        "/file/first/checkpoints/last.ckpt",
        "/run/..",
        "/run/../..",
        "/run/%2e%2e%2f",
        "/run//etc",
        "/run/first%00",
        "/run/first%5c..",
        "/run/" + "a/" * 2000,
        "/run/" + "a" * 5000,
        "/compare?run=../..",
        "/compare?run=",
        "/nothing",
        "/file/first/",
        "/file/",
    ],
)
def test_what_lies_outside_is_not_there(calm, path):
    status, text, _ = ask(calm, path)
    assert status == 404
    assert "secret words" not in text


def test_links_out_are_not_followed(server, root, tmp_path):
    write_run(tmp_path / "outside", analysis=False)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "first" / "data.json").unlink()
    (root / "first" / "data.json").symlink_to(tmp_path / "secret.txt")
    assert "link" not in ask(server, "/list")[1].replace("<link", "")
    assert ask(server, "/run/link")[0] == 404
    assert ask(server, "/file/link/result.json")[0] == 404
    assert ask(server, "/file/first/data.json")[0] == 404
    status, text, _ = ask(server, "/run/first")
    assert status == 200
    assert "leads out of its folder" in text
    assert "secret words" not in text


def test_evil_names_are_escaped(server, root):
    folder = write_run(root / EVIL, data=EVIL, model="<img src=x onerror=alert(1)>")
    for path in ("/", "/list", f"/run/{quote(folder.name)}"):
        status, text, _ = ask(server, path)
        assert status == 200
        assert "<script>alert" not in text
        assert "<img" not in text.partition("<script")[0]
        assert "&lt;script&gt;alert" in text


def test_every_answer_has_the_headers(calm):
    for path in ("/", "/list", "/run/first", "/file/first/config.yaml", "/nothing"):
        _, _, headers = ask(calm, path)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1", "localhost:1"]
)
def test_other_names_for_this_machine_are_refused(calm, host):
    status, text, _ = ask(calm, "/", Host=host)
    assert status == 421
    assert "/run/first" not in text
    assert ask(calm, "/", Host=f"LocalHost:{calm.server_port}")[0] == 200
    assert calm.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"])
def test_other_methods_are_refused(calm, method):
    assert ask(calm, "/", method)[0] == 501


def test_head_has_no_content(calm):
    status, text, headers = ask(calm, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 100


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"rubbish\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://[bad/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"GET /compare?" + b"run=a&" * 500 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
        bytes(range(256)) * 20,
    ],
    ids=range(16),
)
def test_malformed_requests_are_refused_and_the_server_goes_on(calm, data, capsys):
    host = f"127.0.0.1:{calm.server_port}".encode()
    try:
        answer = send_raw(calm, data.replace(b"HOST", host))
    except OSError:  # let go in the middle of it
        answer = b""
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert b"Traceback" not in answer
    assert ask(calm, "/list")[0] == 200
    assert capsys.readouterr().err == ""


def test_two_hundred_requests_at_once(calm):
    paths = ["/", "/list", "/run/first", "/file/first/config.yaml"] * 50
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda path: ask(calm, path)[0], paths))
    assert answers == [200] * 200


def test_clients_that_go_away_are_no_matter(calm, capsys):
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", calm.server_port))
        host = f"127.0.0.1:{calm.server_port}"
        connection.sendall(f"GET /run/first HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    assert ask(calm, "/list")[0] == 200
    assert capsys.readouterr().err == ""


def test_a_folder_without_runs_says_how_to_make_one(tmp_path):
    with pytest.raises(RunError, match="There is no folder"):
        WatchedRuns(tmp_path / "none")
    assert WatchedRuns(tmp_path).list_runs() == ([], 0)


def test_the_folder_may_be_a_run_itself(tmp_path):
    runs = WatchedRuns(write_run(tmp_path / "run"))
    listed, _ = runs.list_runs()
    assert [run.path for run in listed] == ["."]
    assert runs.find(".") == runs.root


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "just now"), (90, "2 min ago"), (7200, "2 h ago"), (2e5, "2 d ago")]
)
def test_ages_in_words(seconds, text):
    assert format_age(seconds) == text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["none"], "There is no folder"), ([".", "--port", "70000"], "between 0 and 65535")],
)
def test_the_command_refuses_in_one_sentence(capsys, arguments, sentence):
    assert main(["watch", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(server, root, capsys):
    assert main(["watch", str(root), "--port", str(server.server_port)]) == 2
    assert "is not free" in capsys.readouterr().err


def test_the_command_serves_until_it_is_stopped_without_torch(root):
    program = (
        "import sys; sys.modules['torch'] = None; from torch_grama.cli import main;"
        f"sys.exit(main(['watch', {str(root)!r}, '--port', '0']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = process.stdout.readline().split()[0]
            port = int(address.rstrip("/").rpartition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(600)
            process.kill()
        assert process.returncode == 0
