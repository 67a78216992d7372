import os
import threading
from pathlib import Path

import pytest
from scripted_server import Server

_REAL = os.environ.get("GRAMA_DATA")


@pytest.fixture(autouse=True)
def own_folders(request, monkeypatch, tmp_path_factory):
    """No test reads or writes the user's folders, except the shared one where it asks for it."""
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("GRAMA_DATA", raising=False)
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GRAMA_CACHE", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


@pytest.fixture(scope="session")
def real_data():
    """The folder with the published files."""
    if not _REAL:
        pytest.skip("GRAMA_DATA names no folder with the published files")
    return Path(_REAL)


@pytest.fixture
def server(plain_network):
    """A server that is running; its scripts say how it answers."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def plain_network(monkeypatch):
    """A network without proxy, which may be asked."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "GRAMA_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
