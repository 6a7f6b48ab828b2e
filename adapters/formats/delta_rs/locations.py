"""Locations of tables without a catalog: each is a folder of the warehouse, on a disk or in a bucket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakeward.adapters.aws.s3.access import (
    JARS,
    Access,
    bucket_and_key,
    find_access,
    is_url,
    normal_url,
    refuse_other_scheme,
)
from lakeward.adapters.formats.shared.storage.folder import DiskFolder, Folder
from lakeward.adapters.formats.shared.storage.table_folders import identifier, slug, warehouse
from lakeward.adapters.spark.session.errors import short_message, unreachable
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, TableError

_PLAIN: Final = re.compile(r"s3://[A-Za-z0-9/_.=-]+")
"""URLs that boto3, Spark and delta-rs read alike, whether they decode them or not."""


@dataclass(frozen=True)
class Places:
    """The folders of tables, by their names at the source."""

    warehouse: str
    namespace: str
    base: Path

    def __post_init__(self) -> None:
        refuse_other_scheme(self.warehouse, "warehouse")
        if is_url(self.warehouse):
            _refuse_odd(normal_url(self.warehouse))
        else:
            warehouse(self._on_disk)

    @property
    def _on_disk(self) -> Path:
        return (self.base / self.warehouse.removeprefix("file://")).absolute()

    @cached_property
    def access(self) -> Access | None:
        """The access to S3, or None if the warehouse is on a disk."""
        return find_access() if is_url(self.warehouse) else None

    @cached_property
    def folder(self) -> Folder:
        """The folder of the warehouse."""
        if self.access is None:
            return DiskFolder(self._on_disk)
        from lakeward.adapters.formats.shared.storage.bucket import BucketFolder  # noqa: PLC0415  # boto3 is for who has a bucket

        return BucketFolder(normal_url(self.warehouse), self.access)

    @property
    def jars(self) -> tuple[str, ...]:
        """The groups of jars that Spark needs to access it."""
        return () if self.access is None else (JARS,)

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """The Spark settings to access it."""
        return {} if self.access is None else s3a_settings(self.access)

    @cached_property
    def options(self) -> Mapping[str, str] | None:
        """The options of delta-rs to access it."""
        return (
            None if self.access is None else self.access.object_store_options(bucket_and_key(str(self.folder))[0])
        )

    def name(self, table: TableName, suffix: str = "") -> tuple[str, str]:
        """Return namespace and name of a table, or of its side table with a suffix."""
        return identifier(table, self.namespace, suffix)

    def apart(self, table: TableName) -> AbstractContextManager[object]:
        """Lock a table of a bucket against other processes of lakeward; on a disk the log itself refuses them.

        In a bucket, Delta's own `LogStore` would let a commit overwrite another one made meanwhile.
        """
        return nullcontext() if self.access is None else self.at(table).lock(str(table))

    def at(self, table: TableName, suffix: str = "") -> Folder:
        """Return the folder of a table. No name leads out of the warehouse."""
        namespace, name = self.name(table, suffix)
        return self.folder.within(slug(namespace)).within(slug(name))

    def of(self, table: TableName, suffix: str = "") -> str:
        """Return the path or URL of a table for Spark and Delta."""
        return str(self.at(table, suffix))

    def load(self, table: TableName, suffix: str = "") -> DeltaTable | None:
        """Return the current version of a table, read without Spark, or None if it does not exist.

        A missing log is noticed before delta-rs is asked, which would retry for minutes if S3 does not answer.
        Raises TableError if the table cannot be read.
        """
        if self.at(table, suffix).within("_delta_log").holds() is None:
            return None
        try:
            return self.open_version(table, suffix)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            if (unreachable_error := unreachable(str(table), error)) is not None:
                raise unreachable_error from error
            raise TableError(
                f"{table}: the table {self.of(table, suffix)} cannot be read",
                found=short_message(error),
                todo="Nothing was applied. Mend that, and run again.",
            ) from error

    def open_version(self, table: TableName, suffix: str = "", version: int | None = None) -> DeltaTable:
        """Return an existing table at a version, or as of now; raises the errors of delta-rs."""
        return DeltaTable(self.of(table, suffix), version=version, storage_options=self._storage_options)

    def create_table(
        self, table: TableName, suffix: str, schema: Schema, partition_by: str | None, properties: Mapping[str, str]
    ) -> DeltaTable:
        """Create a table; raises the errors of delta-rs."""
        return DeltaTable.create(
            self.of(table, suffix),
            schema,
            partition_by=None if partition_by is None else [partition_by],
            configuration=dict(properties),
            storage_options=self._storage_options,
        )

    @property
    def _storage_options(self) -> dict[str, str] | None:
        return None if self.options is None else dict(self.options)

    def prepare(self, table: TableName) -> None:
        """Create the folder of a table's namespace. Raises an error if that is not allowed."""
        namespace, _ = self.name(table)
        self.folder.within(slug(namespace)).prepare()


def _refuse_odd(url: str) -> None:
    if not _PLAIN.fullmatch(url):
        raise ConfigError(
            f"the warehouse {url} cannot hold tables",
            found="its prefix has other characters than letters, digits, `_`, `-`, `.` and `=`: they are encoded "
            "in URLs, by which formats name their files",
            todo="Name another prefix under [target].",
        )
