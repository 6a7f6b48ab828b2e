"""Jars are what the lock says, are fetched once, and an error says what to do where they cannot be."""

from __future__ import annotations

import gc
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakeward.adapters.spark.session import jars
from lakeward.adapters.spark.session.jars import Jar, cache, fetch, is_cached, locked, select_jars
from lakeward.core.errors import SetupError
from lakeward.entrypoints.views.terminal import Download

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

CONTENT = b"a jar, more or less" * 10_000
JAR = Jar("org.example.tools:thing_2.13:1.0", "iceberg", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


@dataclass
class Mirror:
    """A Maven repository on this machine, and what was asked of it."""

    folder: Path
    asked: list[str] = field(default_factory=list)

    def put(self, content: bytes) -> None:
        file = self.folder / "org/example/tools/thing_2.13/1.0/thing_2.13-1.0.jar"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


@dataclass
class Progress:
    total: int = 0
    seen: int = 0
    is_closed: bool = False

    def update(self, size: int) -> None:
        self.seen += size

    def reset(self) -> None:
        self.seen = 0

    def close(self) -> None:
        self.is_closed = True


class Quiet(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, mirror: Mirror) -> None:
        self.mirror = mirror
        super().__init__(*arguments, directory=str(mirror.folder))  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        self.mirror.asked.append(self.path)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("LAKEWARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield tmp_path / "cache" / "jars"
    gc.collect()  # pooch leaves the connection of a refused request to it, with a warning


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mirror]:
    made = Mirror(tmp_path / "mirror")
    made.put(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, mirror=made)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("LAKEWARD_MAVEN", f"http://127.0.0.1:{server.server_port}/")
        yield made
        server.shutdown()
        thread.join()


def test_every_jar_of_the_lock_is_named_once_with_hash_and_size() -> None:
    listed = locked()
    assert len({jar.file for jar in listed}) == len(listed) > 0
    for jar in listed:
        assert re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", jar.coordinates)
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
        assert jar.size > 0


def test_the_lock_knows_what_each_format_and_catalog_needs() -> None:
    needed = locked(["iceberg", "sqlite"])
    assert [jar.coordinates.split(":")[1] for jar in needed] == ["iceberg-spark-runtime-4.1_2.13", "sqlite-jdbc"]
    assert locked([]) == []


def test_a_jar_is_fetched_from_maven_central_where_no_mirror_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEWARD_MAVEN", raising=False)
    assert JAR.url == f"{jars.CENTRAL}/org/example/tools/thing_2.13/1.0/thing_2.13-1.0.jar"


def test_the_cache_is_the_users_where_no_other_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAKEWARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache() == tmp_path / "xdg" / "lakeward" / "jars"


def test_a_jar_is_fetched_from_the_mirror_into_the_cache(mirror: Mirror, empty_cache: Path) -> None:
    assert not is_cached(JAR)
    assert fetch(JAR) == empty_cache / "thing_2.13-1.0.jar"
    assert fetch(JAR).read_bytes() == CONTENT
    assert is_cached(JAR)


def test_a_jar_that_is_there_touches_no_network(mirror: Mirror) -> None:
    fetch(JAR)
    fetch(JAR)
    assert len(mirror.asked) == 1


@pytest.mark.parametrize("ask", [fetch, is_cached])
def test_a_jar_that_was_damaged_in_the_cache_is_an_error(mirror: Mirror, ask: Callable[[Jar], object]) -> None:
    damaged = fetch(JAR)
    damaged.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(SetupError) as raised:
        ask(JAR)
    assert str(damaged) in raised.value.what
    assert JAR.sha256 in str(raised.value.found)
    assert len(mirror.asked) == 1


def test_fetching_tells_its_progress(mirror: Mirror) -> None:
    progress = Progress()
    fetch(JAR, progress)
    assert (progress.total, progress.seen, progress.is_closed) == (len(CONTENT), len(CONTENT), True)


def test_fetching_says_nothing_of_its_own(mirror: Mirror, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(JAR)
    assert capfd.readouterr() == ("", "")


def test_fetching_prints_one_line_without_a_terminal(mirror: Mirror, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(JAR, Download(JAR.file, JAR.size))
    assert capfd.readouterr() == ("", "fetching thing_2.13-1.0.jar (0 MB)\n")
    fetch(JAR, Download(JAR.file, JAR.size))
    assert capfd.readouterr() == ("", "")


def test_a_jar_of_another_content_is_refused_and_not_kept(mirror: Mirror, empty_cache: Path) -> None:
    mirror.put(CONTENT + b"something more")
    with pytest.raises(SetupError, match="is not the jar that lakeward was tested with") as refused:
        fetch(JAR)
    assert JAR.url in refused.value.what
    assert JAR.sha256 in str(refused.value.found)
    assert list(empty_cache.iterdir()) == []


def test_a_jar_that_the_mirror_lacks_is_named_with_its_address(mirror: Mirror, empty_cache: Path) -> None:
    missing = Jar("org.example:other:1.0", "iceberg", JAR.sha256, 1)
    with pytest.raises(SetupError, match=r"other-1\.0\.jar is not in .* and could not be fetched") as refused:
        fetch(missing)
    assert f"{missing.url}: 404" in str(refused.value.found)
    assert "LAKEWARD_MAVEN" in str(refused.value.todo)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "nowhere", "file:///tmp"])
def test_an_unreachable_mirror_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("LAKEWARD_MAVEN", address)
    with pytest.raises(SetupError, match="could not be fetched") as refused:
        fetch(JAR)
    assert "Connect to the network" in str(refused.value.todo)


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(mirror: Mirror, empty_cache: Path) -> None:
    empty_cache.parent.touch()
    with pytest.raises(SetupError, match="cannot be kept in") as refused:
        fetch(JAR)
    assert "LAKEWARD_CACHE" in str(refused.value.todo)


def test_a_factory_asks_for_groups_of_the_list_and_for_others_by_what_they_are() -> None:
    (own,) = locked(["postgresql"])
    assert [*select_jars({"postgresql", own.request, JAR.request})] == [
        own,
        Jar(JAR.coordinates, "source", JAR.sha256, 0),
    ]
