"""A small server for this machine alone that shows the runs of a folder."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

from torch_grama.report.page import Page, build_page, make_policy
from torch_grama.report.page_cards import Card, summarize_run
from torch_grama.report.rendering import read_asset, render
from torch_grama.runs.run_files import find_runs, is_run, read_run_files
from torch_grama.runs.run_folder import LIMITS, RunError
from torch_grama.runs.safe_files import open_inside

LOOPBACK = "127.0.0.1"
_MAX_COMPARED = 24
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_HTML = "text/html; charset=utf-8"
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
# A run whose files changed within this many seconds counts as running.
_FRESH = 120.0
_MAX_LISTED = 300
_MAX_PAGES = 4
_FILES = (*LIMITS, "checkpoints/last.ckpt")
Signature = tuple[tuple[int, int], ...]


class WatchServer(ThreadingHTTPServer):
    r"""Serves the runs of a folder on the loopback address.

    Every string from a file is escaped, no file outside the folder is read, and nothing in it is
    run. Requests whose ``Host`` is another name are refused, so that no page of the web can read
    the runs by giving its own name this address.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, root: str | Path, port: int = 0) -> None:
        self.runs = WatchedRuns(root)
        super().__init__((LOOPBACK, port), WatchHandler)
        names = (LOOPBACK, "localhost")
        self.hosts = {f"{name}:{self.server_port}" for name in names}
        if self.server_port == 80:
            self.hosts |= set(names)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"

    def server_bind(self) -> None:
        # without asking for the name of this machine, which may take seconds
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # a client that went away is no matter
            print(f"grama: a request failed ({type(error).__name__}: {error})", file=sys.stderr)


class WatchHandler(BaseHTTPRequestHandler):
    r"""Answers one connection."""

    # a client that says nothing is let go
    timeout = 15
    server_version = "grama"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        r"""Says in a sentence what is wrong; nothing of the request is repeated."""
        self.close_connection = True
        try:
            phrase = HTTPStatus(code).phrase
        except ValueError:
            phrase = "Error"
        body = render("error.html.jinja", code=code, phrase=phrase)
        self._send(body.encode(), _HTML, _page_policy(()), status=code)

    def log_message(self, format: str, *args: object) -> None:
        r"""Keeps quiet: the terminal is the user's."""

    @property
    def _watch(self) -> WatchServer:
        return cast(WatchServer, self.server)

    def do_GET(self) -> None:
        r"""Answers with a page, a part of one, or a file."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].strip().lower() not in self._watch.hosts:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            split = urlsplit(self.path)
            path = unquote(split.path, errors="strict")
            names = parse_qs(split.query, max_num_fields=_MAX_COMPARED).get("run", [])
        except ValueError:  # an address that cannot be read
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            answer = self._find(path, names)
        except (RunError, FileNotFoundError):
            self.send_error(HTTPStatus.NOT_FOUND)
        except Exception:  # a fault of ours
            self._watch.handle_error(self.request, self.client_address)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            self._send(*answer)

    do_HEAD = do_GET

    def _find(self, path: str, names: Sequence[str]) -> tuple[bytes, str, str]:
        r"""Content, kind and policy of what an address names, and the runs that it lists."""
        watched = self._watch.runs
        if path == "/list":
            return self._list_part().encode(), _HTML, _page_policy(())
        if path == "/":
            html = render("watch.html.jinja", root=str(watched.root), part=self._list_part())
            return html.encode(), _HTML, _page_policy((read_asset("watch.js"),))
        if path == "/compare" or path.startswith("/run/"):
            if path != "/compare":
                names = [path.removeprefix("/run/").removesuffix("/")]
            folders = [watched.find(name) for name in dict.fromkeys(names)]
            if folders:
                page = watched.page(folders)
                return page.html.encode(), _HTML, f"{page.policy}; frame-ancestors 'none'"
        if path.startswith("/file/"):
            run, _, name = path.removeprefix("/file/").rpartition("/")
            folder = watched.find(run)
            if name in LIMITS:
                with open_inside(folder, name, LIMITS[name]) as stream:
                    content = stream.read(LIMITS[name] + 1)
                # as text, so that no browser takes it for a page
                return content, "text/plain; charset=utf-8", _NOTHING
        raise RunError("There is nothing of that name")

    def _list_part(self) -> str:
        runs, count = self._watch.runs.list_runs()
        return render("list.html.jinja", runs=runs, count=count)

    def _send(self, body: bytes, kind: str, policy: str, status: int = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _page_policy(scripts: Sequence[str]) -> str:
    policy = make_policy(scripts).replace("form-action 'none'", "form-action 'self'")
    return f"{policy}; connect-src 'self'; frame-ancestors 'none'"


@dataclass(frozen=True)
class ListedRun:
    r"""A line of the list."""

    path: str  #: where the run lies, relative to the folder that is watched
    address: str  #: the same as part of an address
    card: Card  #: its summary
    state: str  #: ``"finished"``, ``"running"`` or ``"stopped"``
    age: str  #: how long ago one of its files changed, in words


class WatchedRuns:
    r"""What a server shows of a folder of runs; safe to use from several threads."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise RunError(f"There is no folder '{root}'; name the folder that holds runs")
        self._building = threading.Lock()

    def list_runs(self) -> tuple[list[ListedRun], int]:
        found = find_runs(self.root)
        listed = []
        for folder in found[:_MAX_LISTED]:
            try:
                listed.append(self._listed(folder))
            except RunError:  # it went away meanwhile
                continue
        order = {"running": 0, "finished": 1, "stopped": 1}
        listed.sort(key=lambda run: order[run.state])
        return listed, len(found)

    def find(self, path: str) -> Path:
        names = [] if path in ("", ".") else path.split("/")
        if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
            raise RunError("There is no such run")
        try:
            folder = self.root.joinpath(*names).resolve()
            if folder.is_relative_to(self.root) and folder.is_dir() and is_run(folder):
                return folder
        except (OSError, ValueError, RuntimeError):  # a name that no file can have
            pass
        raise RunError("There is no such run")

    def page(self, folders: Sequence[Path]) -> Page:
        r"""The report of runs, built anew when one of their files changed."""
        with self._building:  # one at a time: the others find it made
            return _make_page(self.root, tuple(folders), tuple(map(_sign, folders)))

    def _listed(self, folder: Path) -> ListedRun:
        signature = _sign(folder)
        card = _make_card(folder, signature)
        age = max(0.0, time.time() - max((changed for changed, _ in signature), default=0) / 1e9)
        state = card.state
        if state != "finished":
            state = "running" if age < _FRESH else "stopped"
        path = folder.relative_to(self.root).as_posix()
        return ListedRun(path, quote(path), card, state, format_age(age))


@lru_cache(maxsize=4 * _MAX_LISTED)
def _make_card(folder: Path, signature: Signature) -> Card:
    return summarize_run(read_run_files(folder, brief=True))


@lru_cache(maxsize=_MAX_PAGES)
def _make_page(root: Path, folders: tuple[Path, ...], signatures: tuple[Signature, ...]) -> Page:
    runs = [read_run_files(folder) for folder in folders]
    places = {folder: quote(folder.relative_to(root).as_posix()) for folder in folders}
    links = {str(folder): f"/file/{place}" for folder, place in places.items()}
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return build_page(runs, title, links, home="/")


def format_age(seconds: float) -> str:
    for length, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {word} ago"
    return "just now"


def _sign(folder: Path) -> Signature:
    r"""Times and sizes of the files of a run."""
    signed = []
    for name in _FILES:
        try:
            facts = (folder / name).lstat()
        except OSError:
            continue
        signed.append((facts.st_mtime_ns, facts.st_size))
    return tuple(signed)
