"""Metrics for Prometheus: its text format, and an HTTP server with the newest values.

The format is written here because it needs only a line for each value. The library `prometheus_client` would have
to be installed, and packed into jobs, for a registry of metrics that already are plain values.
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

_PATIENCE: Final = 10
"""Seconds in which a client must send its request."""
_OF_ITSELF: Final = {"seconds": "work_seconds"}
"""Names of metrics that are not clear without their context, and their names here."""


def prometheus_text(figures: PipelineFigures) -> str:
    """Return metrics in the text format of Prometheus, version 0.0.4."""
    return "".join(f"{line}\n" for line in _lines(figures))


def _lines(figures: PipelineFigures) -> Iterator[str]:
    of_pipeline = {"pipeline": figures.pipeline}
    own: Iterable[tuple[str, str, Number | None]] = (
        ("run_seconds", "Seconds since the run began.", figures.seconds),
        ("tables_waiting", "Tables that wait for their turn.", figures.waiting),
    )
    for name, words, value in own:
        yield from _family(f"lakeward_{name}", "gauge", words, [(of_pipeline, value)])
    for metric in METRICS:
        name = f"lakeward_{_OF_ITSELF.get(metric.name, metric.name)}" + "_total" * (metric.kind == "counter")
        samples = [({**of_pipeline, "table": table.table}, metric.of(table)) for table in figures.tables]
        yield from _family(name, metric.kind, metric.words, samples)


def _family(
    name: str, kind: str, words: str, samples: Iterable[tuple[Mapping[str, str], Number | None]]
) -> Iterator[str]:
    """Yield the description of a metric, and its known values."""
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        if value is not None:
            named = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"{name}{{{named}}} {value}"


def _escaped(text: str) -> str:
    r"""Return a label value, escaped.

    >>> print(_escaped('a"b\\c\nd'))
    a\"b\\c\nd
    """
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Serves the newest `figures` at `/metrics` in the context, in threads of its own. The server only reads.

    Port 0 is any free port. Raises SetupError if the address cannot be used.
    """

    def __init__(self, address: str, port: int, figures: PipelineFigures) -> None:
        self.figures = figures
        try:
            self._server = _server_of(self, address, port)
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"metrics cannot be shown at {address}, port {port}",
                found=getattr(error, "strerror", None) or str(error),
                todo="Does another process have that port? Take another one with --metrics, or another `address` "
                "under [metrics].",
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
        """Stop to answer, and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _server_of(metrics: MetricsServer, address: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "lakeward", "", _PATIENCE

        def do_GET(self) -> None:
            """Answer with the newest figures."""
            is_there = self.path.partition("?")[0] == PATH
            body = prometheus_text(metrics.figures).encode() if is_there else f"It is {PATH}\n".encode()
            self.send_response(200 if is_there else 404)
            self.send_header("Content-Type", CONTENT_TYPE if is_there else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            """Answer without the figures themselves."""
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing: metrics are read every few seconds."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def handle_error(self, *_: object) -> None:
            """Log nothing if a client closes the connection early."""

    return Server((address, port), Handler)
