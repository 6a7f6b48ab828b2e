"""What a driver or Spark says of a database becomes an error with an exit code, and without the password."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.catalogues.connection import ConnectionOptions
from lakeward.adapters.sources.jdbc.database.error_messages import failure_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret

OPTIONS = ConnectionOptions(url="jdbc:postgresql://db/shop?application_name=x", user="shop")


@dataclass
class Thrown:
    """An exception of Java, as py4j shows it; one without a state is none of a database."""

    kind: str
    message: str
    state: str | None = None
    cause: Thrown | None = None

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self.cause

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getName=lambda: self.kind)

    def getSQLState(self) -> str:  # noqa: N802
        if self.state is None:
            raise AttributeError("no such method")
        return self.state


class FromSpark(Exception):
    """What pyspark raises: it knows the exception of Java."""

    def __init__(self, origin: Thrown) -> None:
        super().__init__(origin.message)
        self._origin = origin


@pytest.mark.parametrize(
    ("thrown", "kind", "words"),
    [
        (Thrown("org.postgresql.util.PSQLException", "no hunter2", "28P01"), SourceError, "lets nobody in"),
        (Thrown("java.sql.SQLException", "Access denied hunter2", "28000"), SourceError, "lets nobody in"),
        (Thrown("org.postgresql.util.PSQLException", "hunter2 gone", "08006"), StoreUnreachable, "does not answer"),
        (Thrown("org.postgresql.util.PSQLException", "terminating", "57P01"), StoreUnreachable, "does not answer"),
        (Thrown("java.sql.SQLException", "No suitable driver", "08001"), ConfigError, "no driver"),
        (Thrown("java.net.UnknownHostException", "db"), StoreUnreachable, "does not answer"),
        (Thrown("java.net.SocketException", "None"), StoreUnreachable, "does not answer"),
        (Thrown("org.postgresql.util.PSQLException", "permission hunter2", "42501"), SourceError, "cannot be read"),
        (Thrown("org.apache.spark.SparkDateTimeException", "infinity"), SourceError, "cannot be read"),
    ],
)
def test_an_error_says_what_to_do_and_no_secret(thrown: Thrown, kind: type[LakewardError], words: str) -> None:
    job = Thrown("org.apache.spark.SparkException", "Job aborted: hunter2", cause=thrown)
    found = failure_of(FromSpark(job), TableName("shop", "item"), OPTIONS, Secret(b"hunter2"))
    assert isinstance(found, kind)
    assert words in found.what
    assert found.found not in (None, "", "None")
    assert found.todo
    assert "hunter2" not in str(found)
    assert "application_name" not in str(found)
