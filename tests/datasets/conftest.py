import os
from pathlib import Path

import pytest

_REAL = os.environ.get("GRAMA_DATA")


@pytest.fixture
def own_folders(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """No test reads or writes the user's folders, except the shared one where it asks for it."""
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("GRAMA_DATA", raising=False)
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GRAMA_CACHE", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the published files."""
    if not _REAL:
        pytest.skip("GRAMA_DATA names no folder with the published files")
    return Path(_REAL)
