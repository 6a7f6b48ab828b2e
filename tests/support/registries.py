"""Schema registries of the tests: a real one, and a stub."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from brokers import QUICK, fetch_jars
from servers import ANSWER, find_java, free_port, running


@dataclass(frozen=True)
class Registry:
    """A running registry: its address for Confluent's API, and that for Apicurio's converter."""

    url: str
    of_converter: str


@contextmanager
def apicurio(folder: Path) -> Iterator[Registry]:
    """Start Apicurio's registry in a folder; it keeps its schemas in memory."""
    java, (archive,) = find_java(), fetch_jars("registry")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (runner,) = folder.glob("*-runner.jar")
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    made = Registry(f"{at}/apis/ccompat/v7", f"{at}/apis/registry/v2")

    def answers() -> bool:
        try:
            return requests.get(f"{made.url}/subjects", timeout=ANSWER).ok
        except requests.RequestException:
            return False

    where = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with running([java, *QUICK, "-Xmx512m", *where, "-jar", str(runner)], folder / "registry.log", answers):
        yield made


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with apicurio(tmp_path_factory.mktemp("registry")) as made:
        yield made


@dataclass
class StubRegistry:
    """Schemas by id. `asked` has the requested ids, and `logins` the authorization headers.

    `breaks` is the number of failures before it answers.
    """

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    breaks: int = 0

    def put(self, id_: int, schema: Any, **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.answers[str(id_)] = (200, {"schema": text, **more})

    def answer(self, path: str, headers: Mapping[str, str]) -> tuple[int, Any]:
        id_ = path.removeprefix("/schemas/ids/")
        self.asked.append(id_)
        self.logins.append(headers.get("Authorization"))
        if self.breaks:
            self.breaks -= 1
            return 503, {"error_code": 50301, "message": "later"}
        return self.answers.get(id_, (404, {"error_code": 40403, "message": "Schema not found"}))


@contextmanager
def stub_registry() -> Iterator[StubRegistry]:
    """Start a registry without schemas, and end it."""
    made = StubRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(*made.answer(self.path, self.headers))

        def reply(self, status: int, content: Any) -> None:
            body = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as the base calls it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
