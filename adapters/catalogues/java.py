"""A small JVM beside Spark, for what only a driver in Java knows.

Spark cannot be asked: it is started with what the settings say, and they are not whole
before the catalogue has answered. This one starts in a second, has the drivers alone on
its class path, and ends with the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakeward.adapters.spark.session.java import check_java
from lakeward.core.errors import SetupError

_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
_PATIENCE: Final = 20
"""Seconds that Java has to end."""


@contextmanager
def jvm(jars: Sequence[Path]) -> Iterator[Any]:
    """Start Java with these jars; it ends with the context. Only who knows a random word may talk to it."""
    port, word, process = launch_gateway(
        jarpath=str(_bridge()),
        classpath=":".join(map(str, jars)),
        javaopts=list(_OPTIONS),
        java_path=str(check_java()),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=word))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.stdout.close()
        _end(process)


def _end(process: Popen[bytes]) -> None:
    """Wait until Java has ended; one that hangs, because its database does, is ended."""
    try:
        process.wait(_PATIENCE)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _bridge() -> Path:
    """Return the jar of py4j that pyspark brings."""
    spec = find_spec("pyspark")
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    found = [jar for place in places for jar in sorted(place.glob("jars/py4j-*.jar"))]
    if not found:
        raise SetupError(
            "pyspark is not installed, and its bridge to Java is needed to ask a database",
            todo="pip install 'lakeward[spark]'. Or describe the tables in a file: "
            "docs/reference/catalogue.md#files",
        )
    return found[0]
