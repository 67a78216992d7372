"""Files are fetched whole or not at all, from servers of every kind, and looked for in order."""

import os
import shlex
import shutil
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripted_server import (
    CONTENT,
    MD5,
    PAGE,
    another_range,
    babble,
    corrupt,
    hang_up,
    never,
    ok,
    only_file,
    oversized,
    page,
    redirect,
    remote,
    reset,
    stall,
    status,
    truncate,
    without_length,
    without_range,
)

from grama_process import ForkedProcess
from torch_grama.datasets import DatasetError, DatasetMissingError, DownloadError
from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.storage import Storage, cache_folder, fetch


@pytest.mark.parametrize("published", [{"md5": MD5}, {"size": len(CONTENT)}])
def test_a_file_arrives_whole_and_once(server, tmp_path, published):
    seen = []
    file = remote(server.url(), **published)
    for _ in range(2):
        path = fetch(file, tmp_path / "new", progress=lambda *step: seen.append(step), sleep=never)
    assert path == tmp_path / "new" / "file.bin"
    assert only_file(tmp_path / "new") == CONTENT
    assert len(server.requests) == 1
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_an_answer_without_length(server, tmp_path):
    totals = []
    url = server.url("/file", without_length)
    fetch(remote(url), tmp_path, progress=lambda _, total: totals.append(total), sleep=never)
    assert only_file(tmp_path) == CONTENT
    assert set(totals) == {None}


def test_a_damaged_file_stays_until_a_better_one_is_there(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(DownloadError, match="404"):
        fetch(remote(server.url("/file", status(404))), tmp_path, sleep=never)
    assert only_file(tmp_path) == b"old"
    fetch(remote(server.url()), tmp_path, sleep=never)
    assert only_file(tmp_path) == CONTENT


@pytest.mark.parametrize("fault", [truncate(100_000), reset(100_000), stall(100_000)])
def test_a_broken_transfer_is_continued(server, tmp_path, fault):
    waits = []
    file = remote(server.url("/file", fault, ok))
    fetch(file, tmp_path, timeout=0.3, sleep=waits.append)
    assert only_file(tmp_path) == CONTENT
    assert len(server.requests) == 2
    continued_at = server.requests[1][1]
    assert continued_at is not None
    assert 0 < int(continued_at.removeprefix("bytes=").removesuffix("-")) <= 100_000
    assert waits == [1.0]


WHOLE = {"md5": MD5, "size": len(CONTENT)}


@pytest.mark.parametrize(
    ("part", "published", "script", "ranges"),
    [
        # what an earlier run left is continued, if it can be checked
        (CONTENT[:1], {"md5": MD5}, [ok], ["bytes=1-"]),
        (CONTENT[:-1], {"md5": MD5}, [ok], [f"bytes={len(CONTENT) - 1}-"]),
        (CONTENT[:9], {"size": len(CONTENT)}, [truncate(100), ok], [None, None]),
        (CONTENT, WHOLE, [], []),
        # what does not fit is thrown away
        *((part, {"md5": MD5}, [ok], None) for part in (b"x" * 500, CONTENT, CONTENT + b"more")),
        *((part, WHOLE, [ok], None) for part in (b"x" * 500, CONTENT + b"more")),
        (b"", {"md5": MD5}, [corrupt, ok], None),
        # servers that cannot continue
        (CONTENT[:1000], {"md5": MD5}, [without_range], ["bytes=1000-"]),
        (CONTENT[:1000], {"md5": MD5}, [another_range, ok], ["bytes=1000-", None]),
        (b"", {"md5": MD5.upper()}, [ok], [None]),
    ],
)
def test_parts_and_answers_that_end_in_the_whole_file(
    server, tmp_path, part, published, script, ranges
):
    if part:
        (tmp_path / ".file.bin.part").write_bytes(part)
    fetch(remote(server.url("/file", *script), **published), tmp_path, sleep=lambda _: None)
    assert only_file(tmp_path) == CONTENT
    assert ranges is None or [wanted for _, wanted in server.requests] == ranges


def test_a_web_page_may_be_what_is_wanted(server, tmp_path):
    fetch(DataFile("notes.html", (server.url("/file", page),)), tmp_path, sleep=never)
    assert (tmp_path / "notes.html").read_bytes() == PAGE


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (status(404), "the server answered 404 Not Found"),
        (status(403), "the server answered 403 Forbidden"),
        (oversized, "more than the published 768000 bytes"),
        (page, "web page"),
        (redirect("ftp://example.org/a"), "redirects to 'ftp://example.org/a'"),
        (redirect("file:///etc/hosts"), "'file:///etc/hosts' is not allowed"),
        (redirect("/file"), "the server answered 302 .* infinite loop"),
        (lambda handler: handler.send(b"short"), "offers 5 bytes where 768000 are published"),
    ],
)
def test_what_cannot_get_better_is_tried_once(server, tmp_path, answer, sentence):
    file = remote(server.url("/file", answer), md5=MD5, size=len(CONTENT))
    with pytest.raises(DownloadError, match=sentence) as caught:
        fetch(file, tmp_path, sleep=never)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert len(server.requests) == 1 or "infinite" in sentence
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "file.bin").exists()


@pytest.mark.parametrize(
    ("script", "waits"),
    [
        *(([status(code)] * 2, [1.0, 2.0]) for code in (408, 429, 500, 503)),
        ([hang_up], [1.0]),
        ([babble], [1.0]),
        # the server says when to come back
        ([status(503, Retry_After="7"), status(503, Retry_After="9999")], [7.0, 60.0]),
    ],
)
def test_what_may_get_better_is_tried_again(server, tmp_path, script, waits):
    waited = []
    fetch(remote(server.url("/file", *script, ok)), tmp_path, sleep=waited.append)
    assert only_file(tmp_path) == CONTENT
    assert waited == waits


@pytest.mark.parametrize(
    ("answer", "published", "sentence", "requests"),
    [
        (corrupt, {"md5": MD5}, r"not the published one: its md5 is [0-9a-f]{32}", 2),
        (lambda handler: handler.send(b""), {"md5": None}, "it is empty", 2),
        (hang_up, {"md5": MD5}, "the connection broke", 3),
        (babble, {"md5": MD5}, "the connection broke", 3),
        (status(500), {"md5": MD5}, "500", 3),
        (truncate(100), {"size": len(CONTENT)}, "ended after 100 of 768000 bytes", 3),
    ],
)
def test_attempts_end_and_leave_nothing(server, tmp_path, answer, published, sentence, requests):
    waits = []
    file = remote(server.url("/file", answer), **published)
    with pytest.raises(DownloadError, match=sentence):
        fetch(file, tmp_path, attempts=3, sleep=waits.append)
    assert len(server.requests) == requests
    assert waits == [1.0, 2.0][: requests - 1]
    assert list(tmp_path.iterdir()) == []


def test_mirrors_are_tried_in_order(server, tmp_path):
    moved = redirect(server.url("/new"))
    answers = {"/a": status(404), "/b": page, "/c": truncate(5000), "/d": moved}
    fetch(remote(*(server.url(*item) for item in answers.items())), tmp_path, sleep=never)
    assert [path for path, _ in server.requests] == [*answers, "/new"]
    assert server.requests[-1][1] == "bytes=5000-"  # a mirror continues what another began
    assert only_file(tmp_path) == CONTENT


def test_every_mirror_is_named_when_all_fail(server, tmp_path):
    urls = server.url("/a", status(404)), server.url("/b", status(500))
    with pytest.raises(DownloadError) as caught:
        fetch(remote(*urls), tmp_path, attempts=1, sleep=never)
    for part in (f"{urls[0]}: the server answered 404", f"{urls[1]}: the server answered 500"):
        assert part in str(caught.value)


@pytest.mark.usefixtures("plain_network")
def test_nobody_listens(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"
        with pytest.raises(DownloadError, match="the connection failed"):
            fetch(remote(url), tmp_path, attempts=2, sleep=lambda _: None)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DatasetError, match="Cannot write into"):
        fetch(remote(server.url()), tmp_path / "taken" / "folder", sleep=never)
    (tmp_path / ".file.bin.part").mkdir()
    with pytest.raises(DatasetError, match="Cannot write"):
        fetch(remote(server.url(), size=9), tmp_path, sleep=never)


def test_many_threads_fetch_once(server, tmp_path):
    file = remote(server.url())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fetch(file, tmp_path, sleep=never), range(8)))
    assert found == [tmp_path / "file.bin"] * 8
    assert len(server.requests) == 1
    assert only_file(tmp_path) == CONTENT


def _say_and_fetch(file, folder):
    print("ready", flush=True)
    print(fetch(file, folder))


def test_two_processes_fetch_once(server, tmp_path):
    def held(handler):
        handler.server.released.wait(60)
        ok(handler)

    file = DataFile("file.bin", (server.url("/file", held),), md5=MD5)
    (folder := tmp_path / "folder").mkdir()
    processes = [ForkedProcess(_say_and_fetch, file, folder) for _ in range(2)]
    for process in processes:
        process.wait_until(lambda process=process: process.read()[0] == "ready\n")
    server.released.set()
    answers = [process.communicate()[0].removeprefix("ready\n") for process in processes]
    assert answers == [f"{folder / 'file.bin'}\n"] * 2
    assert len(server.requests) == 1
    assert only_file(folder) == CONTENT


@pytest.fixture
def secure(server, tmp_path):
    """The server's encrypted address, and the certificate that it signed itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = shlex.split(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return f"https://localhost:{server.server_port}/file", certificate


def test_a_certificate_nobody_signed_is_refused(server, secure, tmp_path):
    with pytest.raises(DownloadError, match="certificate of the server was not accepted"):
        fetch(remote(secure[0]), tmp_path / "data", sleep=never)
    assert server.requests == []


def test_a_trusted_certificate_is_accepted_and_encryption_not_given_up_on_the_way(
    server, secure, tmp_path, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1]))
    fetch(remote(secure[0]), tmp_path / "data", sleep=never)
    assert only_file(tmp_path / "data") == CONTENT
    server.scripts["/file"] = [redirect("http://127.0.0.1/file")]
    with pytest.raises(DownloadError, match="which is not encrypted"):
        fetch(remote(secure[0]), tmp_path / "other", sleep=never)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"path": "/etc/hosts"}, "inside a data folder"),
        ({"path": "../up"}, "inside a data folder"),
        ({"path": "a/../../b"}, "inside a data folder"),
        ({"path": ""}, "inside a data folder"),
        ({"md5": "abc"}, "32 hexadecimal digits"),
        ({"md5": "g" * 32}, "32 hexadecimal digits"),
        ({"urls": ("ftp://example.org/a",), "md5": MD5}, "'https' address"),
        ({"urls": ("http://example.org/a",)}, "together with a checksum"),
        ({"urls": ("file:///etc/hosts",), "md5": MD5}, "'https' address"),
    ],
)
def test_a_remote_file_is_checked(arguments, sentence):
    sound = {"path": "a", "urls": ("https://example.org/a",)}
    DataFile(**sound)
    with pytest.raises(ValueError, match=sentence):
        DataFile(**{**sound, **arguments})


def test_root_wins_over_grama_data_and_both_over_the_cache(tmp_path, monkeypatch):
    root, named, cache = tmp_path / "root", tmp_path / "named", cache_folder()
    monkeypatch.setenv("GRAMA_DATA", str(named))
    storage, file = Storage(root), DataFile("set/file.bin")
    assert storage.find(file) is None
    for folder in (cache, named, root):
        (folder / "set").mkdir(parents=True)
        (folder / "set" / "file.bin").write_bytes(CONTENT)
        assert storage.find(file) == folder / "set" / "file.bin"
    assert storage.find(DataFile("set")) == root / "set"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "torch_grama"


def test_a_local_file_needs_no_network(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin").write_bytes(b"my own")
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    storage = Storage(tmp_path / "root")
    assert storage.get(file, "cora").read_bytes() == b"my own"
    assert server.requests == []
    # what is missing goes to root, never to GRAMA_DATA
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path / "named"))
    assert storage.get(file, "cora") == tmp_path / "root/set/file.bin"
    assert not (tmp_path / "named").exists()


def test_offline_says_what_to_put_where(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMA_OFFLINE", "1")
    target = tmp_path / "set" / "file.bin"
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    with pytest.raises(DatasetMissingError) as caught:
        Storage(tmp_path).get(file, "cora")
    for part in ("GRAMA_OFFLINE", f"put the file at '{target}'", "`grama data get cora`"):
        assert part in str(caught.value)
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setenv("GRAMA_OFFLINE", "0")
    Storage(tmp_path).get(file, "cora")
    assert target.read_bytes() == CONTENT


def test_a_failed_fetch_says_what_to_put_where(server, tmp_path):
    for url, reason in (((server.url("/file", status(404)),), "404"), ((), "no address")):
        with pytest.raises(DatasetMissingError, match=reason) as caught:
            Storage(tmp_path).get(DataFile("set/file.bin", url, MD5), "cora")
        assert f"put the file at '{tmp_path / 'set' / 'file.bin'}'" in str(caught.value)
        assert isinstance(caught.value.__cause__, DownloadError) == bool(url)
    with pytest.raises(DatasetMissingError) as caught:  # a folder is named once
        Storage(cache_folder()).get(DataFile("set/file.bin"), "cora")
    assert str(caught.value).count(f"'{cache_folder()}'") == 1
