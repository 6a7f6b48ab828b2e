"""A small JVM next to Spark, for questions that only a Java driver can answer.

Spark cannot be used: it starts with the settings, and these are complete only after the catalogue has answered.
This JVM starts in a second, has only the drivers on its class path, and ends after the question.
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
"""Seconds in which Java must end."""


@contextmanager
def jvm(jars: Sequence[Path]) -> Iterator[Any]:
    """Start Java with these jars, and end it after the context. A random token protects the connection."""
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
    """Wait until Java has ended; kill it if it hangs, for example because its database does."""
    try:
        process.wait(_PATIENCE)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _bridge() -> Path:
    """Return the jar of py4j from the installed pyspark."""
    spec = find_spec("pyspark")
    places = [] if spec is None else [Path(place) for place in spec.submodule_search_locations or ()]
    jars = [jar for place in places for jar in sorted(place.glob("jars/py4j-*.jar"))]
    if not jars:
        raise SetupError(
            "pyspark is not installed, and its bridge to Java is needed to ask a database",
            todo="pip install 'lakeward[spark]'. Or describe the tables in a file: "
            "docs/reference/catalogue.md#files",
        )
    return jars[0]
