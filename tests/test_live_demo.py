"""`make demo-live` runs until rows are visible. After an interrupt none of its processes is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import live_demo
import pytest
import servers


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder with a short name, for a socket, that the user of PostgreSQL may enter."""
    with tempfile.TemporaryDirectory(prefix="lw") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def list_processes(word: str) -> list[str]:
    """Return the command lines of processes that contain a word."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        found += [line] if word in line else []
    return found


@pytest.mark.spark
@pytest.mark.long
def test_a_shop_is_shown_until_an_interrupt_that_leaves_nothing_behind(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = place / "servers"
    temporary.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(temporary))
    with subprocess.Popen(
        [sys.executable, live_demo.__file__],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        lines, seen = [], 0
        while seen < 6:
            lines.append(demo.stdout.readline())
            assert lines[-1], "it has ended: " + "".join(lines)
            seen += "messages wait" in lines[-1]
        assert len(list_processes(str(temporary))) >= 3
        shown = [line for line in lines if "lakeward status" in line or "lakeward explain" in line]
        assert len(shown) == 2
        for line in shown:
            assert subprocess.run(line.split(), cwd=place / live_demo.FOLDER, check=False).returncode == 0
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
        rest = demo.stdout.read()
    assert demo.returncode == 0, rest
    assert "Traceback" not in rest
    assert "all is stopped" in rest
    assert list_processes(str(place)) == []
    assert list(temporary.iterdir()) == []


def test_an_interrupt_of_a_command_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command turns an interrupt into an exit code, and prints no document."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakeward.entrypoints.commands.status.open_settings", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live_demo.status()


@pytest.mark.parametrize("is_protected", [True, False])
def test_a_client_of_a_server_gets_no_signal_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, is_protected: bool
) -> None:
    monkeypatch.setattr(servers, "in_own_sessions", is_protected)
    session = servers.answer_of([sys.executable, "-c", "import os; print(os.getsid(0))"])
    assert (int(session) != os.getsid(0)) is is_protected


def test_without_java_the_demo_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAKEWARD_SERVERS", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="Install Java 17"):
        servers.find_java()
