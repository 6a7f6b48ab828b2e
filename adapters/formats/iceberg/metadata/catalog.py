"""One catalog, used from Spark and from PyIceberg.

Spark writes the tables. PyIceberg reads what commits carry, so that `lakeward status` starts no JVM, and writes the
side tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError

from lakeward.adapters.aws.s3.access import JARS, Access, find_access, is_url, normal_url
from lakeward.adapters.aws.s3.transient_errors import is_of_arrow, transient_error
from lakeward.adapters.formats.iceberg.metadata.catalog_errors import failures, unreadable
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.shared.storage.table_folders import identifier, slug, warehouse
from lakeward.adapters.spark.session.compatibility import line
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError

_FILE_IO: Final = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
_WITH_FEW_JARS: Final = {
    "s3.client-factory-impl": "org.apache.iceberg.aws.s3.DefaultS3FileIOAwsClientFactory",
    "http-client.type": "urlconnection",
}
"""Iceberg's access to S3, without clients of Glue, KMS, DynamoDB and HTTP, which are 60 MB of jars."""


class IcebergCatalog:
    """The catalog of a lake; tables are named as at the source."""

    def __init__(self, options: IcebergOptions, base: Path) -> None:
        self.options = options
        self.name = options.catalog_name
        warehouse_setting = options.warehouse
        self.assigns_places = options.is_table_bucket
        self.is_local = not self.assigns_places and (
            "://" not in warehouse_setting or warehouse_setting.startswith("file://")
        )
        self.is_in_s3 = is_url(warehouse_setting) or self.assigns_places
        local = Path(warehouse_setting.removeprefix("file://"))
        self.folder = warehouse((base / local).absolute()) if self.is_local else base.absolute()
        external = normal_url(warehouse_setting) if is_url(warehouse_setting) else warehouse_setting.rstrip("/")
        self.warehouse = f"file://{self.folder}" if self.is_local else external

    def identifier(self, table: TableName, suffix: str = "") -> tuple[str, str]:
        """Return namespace and name of a table, or of its side table with a suffix."""
        return identifier(table, self.options.namespace, suffix)

    def location(self, table: TableName, suffix: str = "") -> str | None:
        """Return where a table is created, or None if its catalog decides. No name leads out of the warehouse."""
        if self.assigns_places:
            return None
        namespace, name = self.identifier(table, suffix)
        return f"{self.warehouse}/{slug(namespace)}/{slug(name)}"

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """The Spark settings of the catalog."""
        prefix = f"spark.sql.catalog.{self.name}"
        properties = {"type": self.options.catalog, **self.options.catalog_properties}
        if self.options.catalog == "sqlite":
            properties = {
                "type": "jdbc",
                "uri": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
                "jdbc.schema-version": "V1",
            }
        properties = {**self._file_io, "warehouse": self.warehouse, **properties, "cache-enabled": "false"}
        return {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{prefix}.{name}": value for name, value in properties.items()},
        }

    @property
    def jars(self) -> tuple[str, ...]:
        """The groups of jars that a Spark session needs for the catalog."""
        of_catalog = {"sqlite": ("sqlite",)}.get(self.options.catalog, ())
        return ("iceberg", *of_catalog, *self._sdk)

    @property
    def _sdk(self) -> tuple[str, ...]:
        """The group with the AWS SDK that Iceberg needs: all of it for Glue, a few of its jars for S3.

        Signed requests to a REST catalog need all of it as well. Spark 3.5 reads S3 with an older SDK, which
        Iceberg cannot use.
        """
        is_signed = self.options.catalog_properties.get("rest.sigv4-enabled") == "true"
        if self.options.catalog == "glue" or is_signed or (self.is_in_s3 and line() == "3.5"):
            return ("aws",)
        return (JARS,) if self.is_in_s3 else ()

    @cached_property
    def _access(self) -> Access | None:
        return find_access() if self.is_in_s3 else None

    @property
    def _file_io(self) -> Mapping[str, str]:
        """The properties for S3. Java also gets the classes of Iceberg that access it."""
        if self._access is None:
            return {}
        classes = _WITH_FEW_JARS if JARS in self.jars else {}
        return {**self._access.iceberg_properties, **_FILE_IO, **classes}

    def prepare(self, table: TableName) -> None:
        """Create the warehouse and a table's namespace. Raises TableError if that is not allowed."""
        if self.is_local or self.options.catalog == "sqlite":
            self._make_folder()
        if self._access is not None and not self.assigns_places:
            self._access.check(self.warehouse)
        with suppress(NamespaceAlreadyExistsError, IntegrityError):  # another table's thread may be making it
            self._reader.create_namespace_if_not_exists(self.identifier(table)[0])

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise TableError(
                f"the warehouse {self.folder} is no folder",
                todo="Correct `warehouse` under [target], or move the file away.",
            ) from error
        except OSError as error:
            raise TableError(
                f"the warehouse {self.folder} cannot be made",
                found=str(error),
                todo="Grant permission to write there, or correct `warehouse` under [target].",
            ) from error

    @cached_property
    def _reader(self) -> Catalog:
        own = {} if self._access is None else dict(self._access.iceberg_properties)
        if self.options.catalog == "sqlite":
            uri = f"sqlite:///{self.folder / 'catalog.db'}"
            return load_catalog(self.name, type="sql", uri=uri, warehouse=self.warehouse, **own)
        own |= {"type": self.options.catalog, "warehouse": self.warehouse}
        return load_catalog(self.name, **{**own, **self.options.catalog_properties})

    def create(
        self,
        table: TableName,
        suffix: str,
        schema: Schema,
        partitions: PartitionSpec,
        properties: Mapping[str, str],
    ) -> Table:
        """Create a side table."""
        location = self.location(table, suffix)
        name = self.identifier(table, suffix)
        return self._reader.create_table(name, schema, location, partitions, properties=dict(properties))

    def drop_unwritten(self, table: TableName) -> bool:
        """Drop a table unless somebody has written to it; return whether it was dropped."""
        name = self.identifier(table)
        if self._reader.load_table(name).current_snapshot() is not None:
            return False
        if self.assigns_places:
            self._reader.purge_table(name)  # a table bucket keeps no files of a table that is gone
        else:
            self._reader.drop_table(name)
        return True

    def io(self, table: TableName) -> FileIO:
        """Return the file access of a table that exists."""
        return self._reader.load_table(self.identifier(table)).io

    def load(self, table: TableName, suffix: str = "") -> Table | None:
        """Return a table as PyIceberg loads it, or None if it does not exist.

        Raises TableError if it cannot be read.
        """
        if self.options.catalog == "sqlite" and not (self.folder / "catalog.db").exists():
            return None
        try:
            return self._reader.load_table(self.identifier(table, suffix))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise TableError(
                f"{table}: the catalog knows the table, and its files are gone",
                found=str(error),
                todo="Put the warehouse back, or drop the table from the catalog to load it anew.",
            ) from error
        except failures(OSError, ValueError) as error:
            if is_of_arrow(error):
                raise transient_error(str(table), str(error)) from error
            raise unreadable(table, self.options, error) from error
