"""Hudi's Java client of a table, called through the session's JVM for operations that write no rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from filelock import Timeout
from pyspark.sql import SparkSession

_MOMENT: Final = 0.05
"""Seconds between two attempts to take a lock."""


class Jvm:
    """The calls into Hudi's Java classes that lakeward needs."""

    def __init__(self, spark: SparkSession) -> None:
        context = cast("Any", spark.sparkContext)  # PySpark has no public way to Java
        self.context: Any = context._jsc
        self.root: Any = context._jvm
        self.hudi: Any = context._jvm.org.apache.hudi

    @contextmanager
    def client(self, path: str, schema: str, options: Mapping[str, str]) -> Iterator[Any]:
        """Yield a client of the table in a folder, with the options of a write; it is closed afterwards."""
        java_options = self.root.java.util.HashMap()
        for name, value in options.items():
            java_options.put(name, value)
        name = options["hoodie.table.name"]
        client = self.hudi.DataSourceUtils.createHoodieClient(self.context, schema, path, name, java_options)
        try:
            yield client
        finally:
            client.close()

    def table(self, client: Any) -> Any:
        """Return the table of a client as of now."""
        return self.hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())

    @contextmanager
    def locked(self, file: Path, patience: float) -> Iterator[None]:
        """Hold a lock that ends with the JVM, which may go on writing after its Python process was killed.

        Raises Timeout if another process has it for `patience` seconds.
        """
        channel = self.root.java.io.RandomAccessFile(str(file), "rw").getChannel()
        try:
            deadline = time.monotonic() + patience
            while channel.tryLock() is None:
                if time.monotonic() > deadline:
                    raise Timeout(str(file))
                time.sleep(_MOMENT)
            yield
        finally:
            channel.close()

    def set_properties(self, path: str, wanted: Mapping[str, str], unwanted: Iterable[str]) -> None:
        """Set and remove properties of the table in a folder, in one step."""
        conf = self.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(self.context.hadoopConfiguration())
        builder = self.hudi.common.table.HoodieTableMetaClient.builder()
        meta = builder.setConf(conf).setBasePath(path).build()
        properties, removed = self.root.java.util.Properties(), self.root.java.util.HashSet()
        for name, value in wanted.items():
            properties.setProperty(name, value)
        for name in unwanted:
            removed.add(name)
        config = self.hudi.common.table.HoodieTableConfig
        config.updateAndDeleteProps(meta.getStorage(), meta.getMetaPath(), properties, removed)

    @property
    def none(self) -> Any:
        """Hudi's None."""
        return self.hudi.common.util.Option.empty()
