"""Register tables that have no catalog of their own in the Glue Data Catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import structlog

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.adapters.registrations.glue.entries import Entry, entry_of
from lakeward.adapters.registrations.glue.lake_formation import LakeFormation
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.ports import TableDescription
from lakeward.core.text.numbers import format_count

PAGE: Final = "docs/how-to/aws/catalogs.md"
PIPELINE: Final = "lakeward.pipeline"
"""The parameter of an entry with the name of the pipeline that wrote it last."""

_KEPT_FIELDS: Final = ("Owner", "Retention")
"""Fields of an entry, besides its parameters, that other programs may have set."""

_FORMAT_PREFIXES: Final = ("spark.sql.sources.", "hudi.", "skip.header.line.count", "table_type")
"""Prefixes of the parameters that depend on the table format; those of another format are removed."""

_MAX_WRITTEN: Final = 100
_MAX_DELETED: Final = 25
"""The largest number of partitions in one request that writes or deletes them (limits of Glue)."""

log = structlog.get_logger()


@dataclass(frozen=True)
class GlueCatalog:
    """Entries of tables in a Glue catalog, which are marked with the name of the `pipeline`.

    Without `database` the database of a table is its namespace. Without `region` and `catalog_id` they are the
    configured region and the catalog of the account. `access` sets tags and grants.
    """

    pipeline: str
    database: str | None = None
    region: str | None = None
    catalog_id: str | None = None
    access: LakeFormation | None = None

    @cached_property
    def client(self) -> Any:
        """The client of Glue."""
        return create_client("glue", self.region)

    def place(self, identifier: tuple[str, str]) -> tuple[str, str]:
        """Return database and name of an entry, in lower case as Glue requires."""
        namespace, name = identifier
        return (self.database or namespace).lower(), name.lower()

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError if two tables would have the same entry, or the settings of `access` name no table.

        A table is its namespace and name.
        """
        if self.access is not None:
            self.access.check(tables)
        tables_by_place: dict[tuple[str, str], tuple[str, str]] = {}
        for table in tables:
            other = tables_by_place.setdefault(self.place(table), table)
            if other != table:
                raise ConfigError(
                    f"{'.'.join(other)} and {'.'.join(table)} would be one table in the Glue Data Catalog",
                    found=f"names in Glue are in lower case, and both would be {'.'.join(self.place(table))}",
                    todo="Leave `database` under [registration] out, so that each namespace has a database of its "
                    "own. Or give one of the tables another name.",
                )

    def register(self, table: TableDescription) -> None:
        """Create or update the entry of a table, and then its tags and grants.

        Iceberg creates the entries of its tables itself. Raises ConfigError if the entry belongs to another table,
        the table cannot be registered or access is denied. Raises StoreUnreachable if AWS does not answer.
        """
        if table.format != "iceberg" and self._register(table):
            log.info("registered", as_=".".join(table.identifier))
        if self.access is not None and self.access.apply(table, self.place(table.identifier)):
            log.info("tags and grants added", table=".".join(table.identifier))

    def _register(self, table: TableDescription) -> bool:
        """Create or update the entry of a table; return True if anything was written."""
        database, name = self.place(table.identifier)
        what = f"{database}.{name} in the Glue Data Catalog"
        if not table.location.startswith("s3://"):
            raise ConfigError(
                f"{what} cannot be created: the table is not in S3",
                found=f"its location is {table.location}",
                todo="Set `warehouse` under [target] to a place in S3, or leave [registration] out.",
            )
        entry = entry_of(table)
        with self._translating_errors(what):
            current = self._find(database, name)
            if current is None:
                self._create(database, entry)
                is_changed = True
            else:
                self._refuse_others(current, entry, what)
                is_changed = self._update(database, current, entry)
                _warn_of_move(current, entry, what)
            if entry.partition_keys:
                is_changed |= self._update_partitions(database, entry)
        return is_changed

    @contextmanager
    def _translating_errors(self, what: str) -> Iterator[None]:
        with explain_errors(what, PAGE, "written"):
            exceptions = self.client.exceptions
            try:
                yield
            except (exceptions.ConcurrentModificationException, exceptions.AlreadyExistsException) as error:
                raise StoreUnreachable(
                    f"{what} was changed by another process at the same time",
                    found=str(error),
                    todo="Nothing is lost: the next run tries again.",
                ) from error

    @property
    def _catalog_arguments(self) -> Mapping[str, str]:
        return {} if self.catalog_id is None else {"CatalogId": self.catalog_id}

    def _find(self, database: str, name: str) -> Mapping[str, Any] | None:
        try:
            response = self.client.get_table(DatabaseName=database, Name=name, **self._catalog_arguments)
        except self.client.exceptions.EntityNotFoundException:
            return None
        current: Mapping[str, Any] = response["Table"]
        return current

    def _create(self, database: str, entry: Entry) -> None:
        """Create an entry, and the database if it does not exist."""
        try:
            self.client.get_database(Name=database, **self._catalog_arguments)
        except self.client.exceptions.EntityNotFoundException:
            with suppress(self.client.exceptions.AlreadyExistsException):  # created by the thread of another table
                self.client.create_database(DatabaseInput={"Name": database}, **self._catalog_arguments)
        self.client.create_table(
            DatabaseName=database, TableInput=self._table_input(entry, {}), **self._catalog_arguments
        )

    def _refuse_others(self, current: Mapping[str, Any], entry: Entry, what: str) -> None:
        """Raise ConfigError if the current entry belongs to another table, or to no table of these formats."""
        parameters = current.get("Parameters", {})
        if parameters.get(PIPELINE) == self.pipeline:
            return
        current_format, new_format = _format_of(parameters), _format_of(entry.parameters)
        location = _location_of(current)
        if current_format == new_format and _normal_location(location) == _normal_location(entry.location):
            return
        kind = f"a table of {current_format}" if current_format else current.get("TableType", "a table")
        raise ConfigError(
            f"{what} is another table, and was left as it is",
            found=f"the entry is {kind} at {location or 'no location'}, and this table is {new_format} at "
            f"{entry.location}",
            todo="Delete the entry if nobody needs it, or set another `database` under [registration].",
        )

    def _table_input(self, entry: Entry, current: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new content of an entry, with what other programs added to the current one."""
        others = {
            name: value
            for name, value in current.get("Parameters", {}).items()
            if not name.startswith(_FORMAT_PREFIXES)
        }
        return {
            **{name: current[name] for name in _KEPT_FIELDS if name in current},
            "Name": entry.name,
            "TableType": "EXTERNAL_TABLE",
            "Description": entry.comment,
            "StorageDescriptor": {**current.get("StorageDescriptor", {}), **entry.storage},
            "PartitionKeys": [*entry.partition_keys],
            "Parameters": {**others, **entry.parameters, PIPELINE: self.pipeline},
        }

    def _update(self, database: str, current: Mapping[str, Any], entry: Entry) -> bool:
        """Update an entry that is not correct; return True if it was written."""
        table_input = self._table_input(entry, current)
        if _compared_fields(current) == _compared_fields(table_input):
            return False
        version = {"VersionId": current["VersionId"]} if "VersionId" in current else {}
        self.client.update_table(
            DatabaseName=database, TableInput=table_input, SkipArchive=True, **version, **self._catalog_arguments
        )
        return True

    def _update_partitions(self, database: str, entry: Entry) -> bool:
        """Make the partition entries equal to the partitions of the table, with its columns.

        Return True if any was written.
        """
        table = {"DatabaseName": database, "TableName": entry.name, **self._catalog_arguments}
        pages = self.client.get_paginator("get_partitions").paginate(**table)
        current = {
            tuple(item["Values"]): item["StorageDescriptor"] for page in pages for item in page["Partitions"]
        }
        missing = {values: storage for values, storage in entry.partitions.items() if values not in current}
        obsolete = [values for values in current if values not in entry.partitions]
        changed = {
            values: {**current[values], **storage}
            for values, storage in entry.partitions.items()
            if values in current and _storage_fields(current[values]) != _storage_fields(storage)
        }
        for inputs in _in_groups(_partition_inputs(missing), _MAX_WRITTEN):
            _check(self.client.batch_create_partition(PartitionInputList=inputs, **table))
        for group in _in_groups([{"Values": [*values]} for values in obsolete], _MAX_DELETED):
            _check(self.client.batch_delete_partition(PartitionsToDelete=group, **table))
        for inputs in _in_groups(_partition_inputs(changed), _MAX_WRITTEN):
            entries = [{"PartitionValueList": item["Values"], "PartitionInput": item} for item in inputs]
            _check(self.client.batch_update_partition(Entries=entries, **table))
        return bool(missing or obsolete or changed)


def _partition_inputs(storages: Mapping[tuple[str, ...], Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return partitions in the form of the Glue API, from their storage descriptors by values."""
    return [{"Values": [*values], "StorageDescriptor": storage} for values, storage in storages.items()]


def _format_of(parameters: Mapping[str, str]) -> str:
    """Return the format of an entry, as Spark, Athena or a crawler writes it; '' if there is none."""
    names = ("spark.sql.sources.provider", "table_type", "classification")
    return next((parameters[name].lower() for name in names if name in parameters), "")


def _location_of(entry: Mapping[str, Any]) -> str:
    """Return the location of an entry; '' for a view."""
    location: str = entry.get("StorageDescriptor", {}).get("Location", "")
    return location


def _warn_of_move(current: Mapping[str, Any], entry: Entry, what: str) -> None:
    """Log a warning if an entry has a new location: another pipeline of the same name may have created it."""
    before = _location_of(current)
    if _normal_location(before) != _normal_location(entry.location):
        log.warning(
            "the entry of a registered table has a new location",
            table=what,
            before=before or "no location",
            now=entry.location,
            todo="Do nothing if the table moved. If another pipeline has the same name, rename one of them, or set "
            "another `database` under [registration]: the entry describes the table that was registered last.",
        )


def _compared_fields(entry: Mapping[str, Any]) -> Sequence[object]:
    """Return the fields of an entry that lakeward sets, for comparison; Glue omits empty values."""
    fields = (entry.get("Description") or "", entry.get("TableType"), entry.get("Parameters", {}))
    keys = [_column_fields(column) for column in entry.get("PartitionKeys", ())]
    return (*fields, keys, _storage_fields(entry.get("StorageDescriptor", {})))


def _storage_fields(storage: Mapping[str, Any]) -> Sequence[object]:
    serde = storage.get("SerdeInfo", {})
    return (
        [_column_fields(column) for column in storage.get("Columns", ())],
        *[storage.get(name) for name in ("Location", "InputFormat", "OutputFormat")],
        serde.get("SerializationLibrary"),
        serde.get("Parameters"),
    )


def _column_fields(column: Mapping[str, Any]) -> Sequence[object]:
    return column.get("Name"), column.get("Type"), column.get("Comment") or ""


def _in_groups(items: Sequence[Mapping[str, Any]], size: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield items in groups of at most `size`, the limit of a request."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _normal_location(location: str) -> str:
    """Return a location without its differences in spelling."""
    return location.rstrip("/").replace("s3a://", "s3://").replace("s3n://", "s3://")


def _check(response: Mapping[str, Any]) -> None:
    """Raise LakewardError if Glue refused some partitions of a request; it has accepted the others."""
    errors = response.get("Errors", ())
    if errors:
        detail = errors[0].get("ErrorDetail", {})
        raise LakewardError(
            "partitions cannot be registered in the Glue Data Catalog",
            found=f"Glue says {detail.get('ErrorMessage') or detail.get('ErrorCode')}; it refuses "
            f"{format_count(len(errors), 'partition')}",
            todo=f"Do nothing if the error is transient: the next run tries again. Else check the permissions that "
            f"{PAGE} lists.",
        )
