"""Metrics for Prometheus: its text format, and an HTTP server with the newest values.

The format is written without the library `prometheus_client`, which would have to be installed and packed into
jobs: it is one line for each value.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final

from lakeward.core.errors import SetupError
from lakeward.core.reporting.figures import METRICS, Number, PipelineFigures

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PATH: Final = "/metrics"

_REQUEST_TIMEOUT: Final = 10
"""Seconds in which a client must send its request."""

_OTHER_NAMES: Final = {"seconds": "work_seconds"}
"""Metrics that need another name in Prometheus, where names have no context."""


def prometheus_text(figures: PipelineFigures) -> str:
    """Return metrics in the text format of Prometheus, version 0.0.4."""
    return "".join(f"{line}\n" for line in _lines(figures))


def _lines(figures: PipelineFigures) -> Iterator[str]:
    labels = {"pipeline": figures.pipeline}
    pipeline_metrics: Iterable[tuple[str, str, Number | None]] = (
        ("run_seconds", "Seconds since the run began.", figures.seconds),
        ("tables_waiting", "Tables that wait for their turn.", figures.waiting),
    )
    for name, help_text, value in pipeline_metrics:
        yield from _family(f"lakeward_{name}", "gauge", help_text, [(labels, value)])
    for metric in METRICS:
        name = f"lakeward_{_OTHER_NAMES.get(metric.name, metric.name)}" + "_total" * (metric.kind == "counter")
        samples = [({**labels, "table": table.table}, metric.of(table)) for table in figures.tables]
        yield from _family(name, metric.kind, metric.words, samples)


def _family(
    name: str, kind: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], Number | None]]
) -> Iterator[str]:
    """Yield the lines of a metric: its description, and a line for each known value with its labels."""
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        if value is not None:
            label_text = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
            yield f"{name}{{{label_text}}} {value}"


def _escape(text: str) -> str:
    r"""Escape a label value.

    >>> print(_escape('a"b\\c\nd'))
    a\"b\\c\nd
    """
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """An HTTP server that shows the newest `figures` at `/metrics` while its context lasts, in threads of its own.

    The server answers only GET and HEAD. Port 0 is any free port. Raises SetupError if address and port cannot be
    used.
    """

    def __init__(self, address: str, port: int, figures: PipelineFigures) -> None:
        self.figures = figures
        try:
            self._server = _server_of(self, address, port)
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"metrics cannot be served at {address}, port {port}",
                found=getattr(error, "strerror", None) or str(error),
                todo="Set another port with --metrics, or another `address` under [metrics]. Another process "
                "may use the port.",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        address = str(self._server.server_address[0])
        return f"http://{f'[{address}]' if ':' in address else address}:{self._server.server_port}{PATH}"

    def __enter__(self) -> MetricsServer:
        """Start to answer requests."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Stop answering requests, and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _server_of(metrics: MetricsServer, address: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "lakeward", "", _REQUEST_TIMEOUT

        def do_GET(self) -> None:
            """Answer with the newest figures."""
            exists = self.path.partition("?")[0] == PATH
            body = prometheus_text(metrics.figures) if exists else f"The metrics are at {PATH}\n"
            content = body.encode()
            self.send_response(200 if exists else 404)
            self.send_header("Content-Type", CONTENT_TYPE if exists else "text/plain")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            """Answer with the headers only."""
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing, since metrics are requested every few seconds."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def handle_error(self, *_: object) -> None:
            """Log nothing, since a client may close the connection early."""

    return Server((address, port), Handler)
