"""Files are fetched whole or not at all, from servers of every kind, and looked for in order."""

import os
import shlex
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from scripted_server import (
    CONTENT,
    MD5,
    PAGE,
    Behaviour,
    Handler,
    Server,
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
from torch_grama.datasets.download import fetch
from torch_grama.datasets.entry import DataFile
from torch_grama.datasets.storage import Storage, cache_folder

pytestmark = pytest.mark.usefixtures("plain_network")


@pytest.mark.parametrize("published", [{"md5": MD5}, {"size": len(CONTENT)}])
def test_a_file_arrives_whole(server: Server, tmp_path: Path, published: dict[str, object]) -> None:
    seen: list[tuple[int, int | None]] = []
    file = remote(server.url(), **published)
    path = fetch(file, tmp_path / "new", progress=lambda *step: seen.append(step), sleep=never)
    assert path == tmp_path / "new" / "file.bin"
    assert only_file(tmp_path / "new") == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_answer_without_length(server: Server, tmp_path: Path) -> None:
    totals: list[int | None] = []
    url = server.url("/file", without_length)
    fetch(remote(url), tmp_path, progress=lambda _, total: totals.append(total), sleep=never)
    assert only_file(tmp_path) == CONTENT
    assert set(totals) == {None}


def test_what_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    file = remote(server.url())
    fetch(file, tmp_path)
    fetch(file, tmp_path)
    assert len(server.requests) == 1


def test_a_damaged_file_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1])
    fetch(remote(server.url()), tmp_path, sleep=never)
    assert only_file(tmp_path) == CONTENT


def test_a_damaged_file_stays_until_a_better_one_is_there(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(DownloadError, match="404"):
        fetch(remote(server.url("/file", status(404))), tmp_path, sleep=never)
    assert only_file(tmp_path) == b"old"


@pytest.mark.parametrize("fault", [truncate(100_000), reset(100_000), stall(100_000)])
def test_a_broken_transfer_is_continued(server: Server, tmp_path: Path, fault: Behaviour) -> None:
    waits: list[float] = []
    file = remote(server.url("/file", fault, ok))
    fetch(file, tmp_path, timeout=0.3, sleep=waits.append)
    assert only_file(tmp_path) == CONTENT
    assert len(server.requests) == 2
    continued_at = server.requests[1][1]
    assert continued_at is not None
    assert 0 < int(continued_at.removeprefix("bytes=").removesuffix("-")) <= 100_000
    assert waits == [1.0]


def test_nothing_is_continued_without_a_checksum(server: Server, tmp_path: Path) -> None:
    file = remote(server.url("/file", truncate(100), ok), size=len(CONTENT))
    fetch(file, tmp_path, sleep=lambda _: None)
    assert server.requests == [("/file", None), ("/file", None)]
    assert only_file(tmp_path) == CONTENT


@pytest.mark.parametrize("start", [1, 4096, len(CONTENT) - 1])
def test_the_part_of_an_earlier_run_is_continued(
    server: Server, tmp_path: Path, start: int
) -> None:
    (tmp_path / ".file.bin.part").write_bytes(CONTENT[:start])
    fetch(remote(server.url()), tmp_path, sleep=never)
    assert server.requests == [("/file", f"bytes={start}-")]
    assert only_file(tmp_path) == CONTENT


def test_a_whole_part_needs_no_network(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".file.bin.part").write_bytes(CONTENT)
    fetch(remote(server.url(), md5=MD5, size=len(CONTENT)), tmp_path, sleep=never)
    assert server.requests == []
    assert only_file(tmp_path) == CONTENT


@pytest.mark.parametrize("part", [b"x" * 500, CONTENT, CONTENT + b"more"])
@pytest.mark.parametrize("published", [{"md5": MD5}, {"md5": MD5, "size": 768_000}])
def test_a_part_that_does_not_fit_is_thrown_away(
    server: Server, tmp_path: Path, part: bytes, published: dict[str, object]
) -> None:
    (tmp_path / ".file.bin.part").write_bytes(part)
    fetch(remote(server.url(), **published), tmp_path, sleep=lambda _: None)
    assert only_file(tmp_path) == CONTENT


@pytest.mark.parametrize("answer", [without_range, another_range])
def test_a_server_that_cannot_continue(server: Server, tmp_path: Path, answer: Behaviour) -> None:
    (tmp_path / ".file.bin.part").write_bytes(CONTENT[:1000])
    fetch(remote(server.url("/file", answer, ok)), tmp_path, sleep=lambda _: None)
    assert only_file(tmp_path) == CONTENT


def test_a_corrupt_copy_is_fetched_once_more(server: Server, tmp_path: Path) -> None:
    fetch(remote(server.url("/file", corrupt, ok)), tmp_path, sleep=lambda _: None)
    assert only_file(tmp_path) == CONTENT


def test_a_server_that_keeps_another_file_is_given_up(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"not the published one: its md5 is [0-9a-f]{32}"):
        fetch(remote(server.url("/file", corrupt)), tmp_path, attempts=9, sleep=lambda _: None)
    assert len(server.requests) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_web_page_is_recognised(server: Server, tmp_path: Path) -> None:
    for published in ({"md5": MD5}, {"size": len(CONTENT)}):
        with pytest.raises(DownloadError, match="a web page instead of the file"):
            fetch(remote(server.url("/file", page), **published), tmp_path, sleep=never)
    assert list(tmp_path.iterdir()) == []


def test_a_web_page_may_be_what_is_wanted(server: Server, tmp_path: Path) -> None:
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
def test_what_cannot_get_better_is_tried_once(
    server: Server, tmp_path: Path, answer: Behaviour, sentence: str
) -> None:
    file = remote(server.url("/file", answer), md5=MD5, size=len(CONTENT))
    with pytest.raises(DownloadError, match=sentence) as caught:
        fetch(file, tmp_path, sleep=never)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert len(server.requests) == 1 or "infinite" in sentence
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "file.bin").exists()


@pytest.mark.parametrize("fault", [hang_up, babble])
def test_an_answer_that_is_none(server: Server, tmp_path: Path, fault: Behaviour) -> None:
    with pytest.raises(DownloadError, match="the connection broke"):
        fetch(remote(server.url("/file", fault)), tmp_path, attempts=2, sleep=lambda _: None)
    fetch(remote(server.url("/file", fault, ok)), tmp_path, sleep=lambda _: None)
    assert only_file(tmp_path) == CONTENT


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_what_may_get_better_is_tried_again(server: Server, tmp_path: Path, code: int) -> None:
    waits: list[float] = []
    url = server.url("/file", status(code), status(code), ok)
    fetch(remote(url), tmp_path, sleep=waits.append)
    assert only_file(tmp_path) == CONTENT
    assert waits == [1.0, 2.0]


def test_the_server_says_when_to_come_back(server: Server, tmp_path: Path) -> None:
    waits: list[float] = []
    url = server.url("/file", status(503, Retry_After="7"), status(503, Retry_After="9999"), ok)
    fetch(remote(url), tmp_path, sleep=waits.append)
    assert waits == [7.0, 60.0]


def test_attempts_end(server: Server, tmp_path: Path) -> None:
    waits: list[float] = []
    with pytest.raises(DownloadError, match="500"):
        fetch(remote(server.url("/file", status(500))), tmp_path, attempts=3, sleep=waits.append)
    assert len(server.requests) == 3
    assert waits == [1.0, 2.0]


def test_mirrors_are_tried_in_order(server: Server, tmp_path: Path) -> None:
    urls = server.url("/a", status(404)), server.url("/b", page), server.url("/c"), "http://[::1]/"
    fetch(remote(*urls), tmp_path, sleep=never)
    assert [path for path, _ in server.requests] == ["/a", "/b", "/c"]
    assert only_file(tmp_path) == CONTENT


def test_a_mirror_continues_what_another_began(server: Server, tmp_path: Path) -> None:
    urls = server.url("/a", truncate(5000)), server.url("/b")
    fetch(remote(*urls), tmp_path, sleep=never)
    assert server.requests == [("/a", None), ("/b", "bytes=5000-")]


def test_every_mirror_is_named_when_all_fail(server: Server, tmp_path: Path) -> None:
    urls = server.url("/a", status(404)), server.url("/b", status(500))
    with pytest.raises(DownloadError) as caught:
        fetch(remote(*urls), tmp_path, attempts=1, sleep=never)
    for part in (f"{urls[0]}: the server answered 404", f"{urls[1]}: the server answered 500"):
        assert part in str(caught.value)


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    fetch(remote(server.url("/old", redirect(server.url("/new")))), tmp_path, sleep=never)
    assert only_file(tmp_path) == CONTENT


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"
        with pytest.raises(DownloadError, match="the connection failed"):
            fetch(remote(url), tmp_path, attempts=2, sleep=lambda _: None)


def test_an_unfinished_file_without_checksum_is_removed(server: Server, tmp_path: Path) -> None:
    file = remote(server.url("/file", truncate(100)), size=len(CONTENT))
    with pytest.raises(DownloadError, match="ended after 100 of 768000 bytes"):
        fetch(file, tmp_path, attempts=2, sleep=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_answer_is_no_file(server: Server, tmp_path: Path) -> None:
    url = server.url("/file", lambda handler: handler.send(b""))
    with pytest.raises(DownloadError, match="it is empty"):
        fetch(DataFile("file.bin", (url,)), tmp_path, sleep=lambda _: None)


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DatasetError, match="Cannot write into"):
        fetch(remote(server.url()), tmp_path / "taken" / "folder", sleep=never)
    (tmp_path / ".file.bin.part").mkdir()
    with pytest.raises(DatasetError, match="Cannot write"):
        fetch(remote(server.url(), size=9), tmp_path, sleep=never)


def test_many_threads_fetch_once(server: Server, tmp_path: Path) -> None:
    file = remote(server.url())
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch(file, tmp_path, sleep=never)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "file.bin"] * 8
    assert len(server.requests) == 1
    assert only_file(tmp_path) == CONTENT


def _say_and_fetch(file: DataFile, folder: Path) -> None:
    print("ready", flush=True)
    print(fetch(file, folder))


def test_two_processes_fetch_once(server: Server, tmp_path: Path) -> None:
    def held(handler: Handler) -> None:
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
def secure(server: Server, tmp_path: Path) -> tuple[str, Path]:
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


def test_a_certificate_nobody_signed_is_refused(
    server: Server, secure: tuple[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(DownloadError, match="certificate of the server was not accepted"):
        fetch(remote(secure[0]), tmp_path / "data", sleep=never)
    assert server.requests == []


def test_a_trusted_certificate_is_accepted(
    secure: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1]))
    fetch(remote(secure[0]), tmp_path / "data", sleep=never)
    assert only_file(tmp_path / "data") == CONTENT


def test_encryption_is_not_given_up_on_the_way(
    server: Server, secure: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1]))
    server.scripts["/file"] = [redirect("http://127.0.0.1/file")]
    with pytest.raises(DownloadError, match="which is not encrypted"):
        fetch(remote(secure[0]), tmp_path / "data", sleep=never)


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
def test_a_remote_file_is_checked(arguments: dict[str, object], sentence: str) -> None:
    sound: dict[str, object] = {"path": "a", "urls": ("https://example.org/a",)}
    DataFile(**sound)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=sentence):
        DataFile(**{**sound, **arguments})  # type: ignore[arg-type]


def test_checksums_may_be_written_in_capitals(server: Server, tmp_path: Path) -> None:
    fetch(remote(server.url(), md5=MD5.upper()), tmp_path, sleep=never)
    assert only_file(tmp_path) == CONTENT


def test_root_wins_over_grama_data_and_both_over_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, named, cache = tmp_path / "root", tmp_path / "named", cache_folder()
    monkeypatch.setenv("GRAMA_DATA", str(named))
    storage, file = Storage(root), DataFile("set/file.bin")
    assert storage.find(file) is None
    for folder in (cache, named, root):
        (folder / "set").mkdir(parents=True)
        (folder / "set" / "file.bin").write_bytes(CONTENT)
        assert storage.find(file) == folder / "set" / "file.bin"
    assert storage.find(DataFile("set")) == root / "set"


def test_the_cache_lies_in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "torch_grama"


def test_a_local_file_needs_no_network(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin").write_bytes(b"my own")
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    path = Storage(tmp_path / "root").get(file, "cora")
    assert path.read_bytes() == b"my own"
    assert server.requests == []


def test_what_is_missing_goes_to_root_and_never_to_grama_data(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMA_DATA", str(tmp_path / "named"))
    file = remote(server.url(), path="set/file.bin", md5=MD5)
    assert Storage(tmp_path / "root").get(file, "cora") == tmp_path / "root/set/file.bin"
    assert not (tmp_path / "named").exists()


def test_offline_says_what_to_put_where(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_failed_fetch_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    url = server.url("/file", status(404))
    with pytest.raises(DatasetMissingError, match="answered 404") as caught:
        Storage(tmp_path).get(remote(url, path="set/file.bin", md5=MD5), "cora")
    assert f"put the file at '{tmp_path / 'set' / 'file.bin'}'" in str(caught.value)
    assert isinstance(caught.value.__cause__, DownloadError)


def test_a_file_without_address(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError, match=r"no address of it is published.*put the file"):
        Storage(tmp_path).get(DataFile("set/file.bin"), "cora")


def test_the_permissions_are_those_of_any_new_file(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(server.url()), tmp_path)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_folder_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError) as failure:
        Storage(cache_folder()).get(DataFile("set/file.bin"), "cora")
    assert str(failure.value).count(f"'{cache_folder()}'") == 1
