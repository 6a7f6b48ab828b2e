"""A registry of schemas that tests start for themselves, which answers as those of Confluent do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class StubRegistry:
    """Answers by the id of a schema; `asked` are the ids, `logins` the header of who asked, each time.

    `breaks` is how often it fails before it answers.
    """

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    breaks: int = 0

    def put(self, id_: int, schema: Any, **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.answers[str(id_)] = (200, {"schema": text, **more})

    def register(self, path: str, schema: str) -> tuple[int, Any]:
        """Take a schema as Apicurio's converter sends it; one that is there keeps its id."""
        ids = [int(id_) for id_, (_, told) in self.answers.items() if told["schema"] == schema]
        id_ = ids[0] if ids else len(self.answers) + 1
        self.put(id_, schema)
        group = path.removeprefix("/apis/registry/v2/groups/").partition("/")[0]
        names = {"groupId": group, "id": str(id_), "version": "1", "type": "AVRO", "state": "ENABLED"}
        return 200, {**names, "contentId": id_, "globalId": id_}

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

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(*made.register(self.path, sent.decode()))

        def reply(self, status: int, told: Any) -> None:
            body = (told if isinstance(told, str) else json.dumps(told)).encode()
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
