"""A web server as the webhook of a chat: it records posts, and answers with a chosen status."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

TOKEN = "T0KEN-that-is-no-ones-business"  # noqa: S105  # of this test


@dataclass
class Hook:
    """The address of the webhook, its posts, and the status of its answers."""

    url: str = ""
    status: int = 200
    location: str | None = None
    posted: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    silence: threading.Event | None = None

    @property
    def texts(self) -> list[str]:
        """The texts that people read in the chat."""
        return [unescape(one["text"]) for one in self.posted]


class _Handler(BaseHTTPRequestHandler):
    hook: ClassVar[Hook]

    def do_POST(self) -> None:  # its name is the library's
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.hook.silence is not None:
            self.hook.silence.wait(60)
        self.hook.headers.append({**self.headers, "path": self.path})
        self.hook.posted.append(json.loads(body))
        self.send_response(self.hook.status)
        if self.hook.location is not None:
            self.send_header("Location", self.hook.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """Return a webhook whose URL, with a token, is in the environment as LAKEWARD_WEBHOOK."""
    found = Hook()
    handler = type("Handler", (_Handler,), {"hook": found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    found.url = f"http://127.0.0.1:{server.server_port}/services/{TOKEN}"
    monkeypatch.setenv("LAKEWARD_WEBHOOK", found.url)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def closed_port() -> int:
    """Return a port without a server."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
