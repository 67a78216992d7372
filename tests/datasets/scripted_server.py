"""A server on this machine that does with each request what a test wants."""

import hashlib
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from torch_grama.datasets.entry import DataFile

CONTENT = bytes(range(256)) * 3000
MD5 = hashlib.md5(CONTENT).hexdigest()
PAGE = b"\xef\xbb\xbf \n<!DOCTYPE html><html><body>Please sign in</body></html>"


class Handler(BaseHTTPRequestHandler):
    """Does with each request what the next entry of the server's script says."""

    server: "Server"

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Range")))
        script = self.server.scripts.get(self.path, [])
        behaviour = script.pop(0) if len(script) > 1 else (script or [ok])[0]
        behaviour(self)

    def send(self, body, status=200, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def first_byte(self):
        wanted = self.headers.get("Range")
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.scripts = {}
        self.released = threading.Event()

    def url(self, path="/file", *script):
        self.scripts[path] = list(script)
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, *arguments):
        pass  # the client hangs up on purpose


def ok(handler):
    start = handler.first_byte()
    if start >= len(CONTENT):
        handler.send(b"", 416, Content_Range=f"bytes */{len(CONTENT)}")
    elif start:
        span = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        handler.send(CONTENT[start:], 206, Content_Range=span)
    else:
        handler.send(CONTENT)


def without_range(handler):
    handler.send(CONTENT)


def another_range(handler):
    handler.send(CONTENT[7:], 206, Content_Range=f"bytes 7-{len(CONTENT) - 1}/{len(CONTENT)}")


def without_length(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(CONTENT)


def corrupt(handler):
    handler.send(CONTENT[:-1] + b"?")


def page(handler):
    handler.send(PAGE, Content_Type="text/html")


def oversized(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(CONTENT + b"more")


def truncate(count):
    return lambda handler: handler.send(CONTENT[:count], length=len(CONTENT))


def stall(count):
    def behave(handler):
        handler.send(CONTENT[:count], length=len(CONTENT))
        handler.server.released.wait(30)

    return behave


def reset(count):
    """Dies in the middle of a chunk, the way a killed server does."""

    def behave(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(f"{len(CONTENT):x}\r\n".encode() + CONTENT[:count])
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.connection.close()

    return behave


def hang_up(handler):
    handler.close_connection = True


def babble(handler):
    handler.wfile.write(b"hello\r\n\r\n")


def status(code, **headers):
    return lambda handler: handler.send(b"<html>no</html>", code, **headers)


def redirect(target):
    return lambda handler: handler.send(b"", 302, Location=target)


def remote(*urls, path="file.bin", **published):
    return DataFile(path, urls, **(published or {"md5": MD5}))


def never(seconds):
    raise AssertionError(f"waited {seconds} s")


def only_file(folder):
    """The content of the one file that a fetch may leave."""
    assert [path.name for path in folder.iterdir()] == ["file.bin"]
    return (folder / "file.bin").read_bytes()
