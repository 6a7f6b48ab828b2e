"""The databases of the tests, one of each for a module."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import servers


@pytest.fixture(scope="module")
def postgresql() -> Iterator[servers.Server]:
    with in_a_folder(servers.postgresql) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[servers.Server]:
    with in_a_folder(servers.mariadb) as server:
        yield server


@contextmanager
def in_a_folder(start: Callable[[Path], AbstractContextManager[servers.Server]]) -> Iterator[servers.Server]:
    """Start a server in a folder with a short name, for its socket, that its user may enter."""
    with tempfile.TemporaryDirectory(prefix="lw", ignore_cleanup_errors=True) as made:
        folder = Path(made) / "db"
        folder.mkdir()
        Path(made).chmod(0o755)
        with start(folder) as server:
            yield server
