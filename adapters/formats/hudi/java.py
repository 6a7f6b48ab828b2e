"""Hudi's own client of a table, reached through the session's JVM: for what is no write of rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from filelock import Timeout
from pyspark.sql import SparkSession

_MOMENT: Final = 0.05
"""Seconds between two looks at a lock."""


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

    @contextmanager
    def locked(self, file: Path, patience: float) -> Iterator[None]:
        """Hold a lock that ends with Java: one whose Python was killed may go on with the write in hand.

        Raises Timeout where that of another process has it for so many seconds.
        """
        channel = self.root.java.io.RandomAccessFile(str(file), "rw").getChannel()
        try:
            until = time.monotonic() + patience
            while channel.tryLock() is None:
                if time.monotonic() > until:
                    raise Timeout(str(file))
                time.sleep(_MOMENT)
            yield
        finally:
            channel.close()

    def set_properties(self, path: str, wanted: Mapping[str, str], unwanted: Iterable[str]) -> None:
        """Write properties of the table in a folder, and take others away, at once."""
        conf = self.hudi.hadoop.fs.HadoopFSUtils.getStorageConfWithCopy(self.context.hadoopConfiguration())
        builder = self.hudi.common.table.HoodieTableMetaClient.builder()
        meta = builder.setConf(conf).setBasePath(path).build()
        properties, gone = self.root.java.util.Properties(), self.root.java.util.HashSet()
        for name, value in wanted.items():
            properties.setProperty(name, value)
        for name in unwanted:
            gone.add(name)
        config = self.hudi.common.table.HoodieTableConfig
        config.updateAndDeleteProps(meta.getStorage(), meta.getMetaPath(), properties, gone)

    @property
    def none(self) -> Any:
        """Hudi's own None."""
        return self.hudi.common.util.Option.empty()
