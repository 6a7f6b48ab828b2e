"""Hudi's own client of a table, reached through the session's JVM: for what is no write of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import SparkSession


class Jvm:
    """The few doors into Hudi's Java classes that lakeward uses."""

    def __init__(self, spark: SparkSession) -> None:
        context = cast("Any", spark.sparkContext)  # the only way to Java there is
        self.context: Any = context._jsc
        self.root: Any = context._jvm
        self.hudi: Any = context._jvm.org.apache.hudi

    @contextmanager
    def client(self, path: str, schema: str, options: Mapping[str, str]) -> Iterator[Any]:
        """Return a client of the table in a folder, with the options of a write; it is closed afterwards."""
        made = self.root.java.util.HashMap()
        for name, value in options.items():
            made.put(name, value)
        name = options["hoodie.table.name"]
        client = self.hudi.DataSourceUtils.createHoodieClient(self.context, schema, path, name, made)
        try:
            yield client
        finally:
            client.close()

    def table(self, client: Any) -> Any:
        """Return the table of a client as it is now."""
        return self.hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())

    @property
    def none(self) -> Any:
        """Hudi's own None."""
        return self.hudi.common.util.Option.empty()
