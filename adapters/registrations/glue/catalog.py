"""Register tables that have no catalog of their own in the Glue Data Catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import structlog

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.adapters.registrations.glue.entries import Entry, entry_of
from lakeward.adapters.registrations.glue.lake_formation import LakeFormation
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.ports import TableDescription

PAGE: Final = "docs/how-to/aws/catalogs.md"
PIPELINE: Final = "lakeward.pipeline"
"""The parameter of an entry with the name of the pipeline that created it."""

_OF_OTHERS: Final = ("Owner", "Retention")
"""Fields of an entry, besides its parameters, that others may have set."""

_OF_FORMATS: Final = ("spark.sql.sources.", "hudi.", "skip.header.line.count", "table_type")
"""Prefixes of parameters that only the table format sets."""

log = structlog.get_logger()


@dataclass(frozen=True)
class GlueCatalog:
    """Entries of tables in a Glue catalog; new entries have the name of the `pipeline`.

    The defaults are: for `database` the namespace of the table, for `region` the configured one, for `catalog_id`
    the catalog of the account.
    """

    pipeline: str
    database: str | None = None
    region: str | None = None
    catalog_id: str | None = None
    access: LakeFormation | None = None

    @cached_property
    def client(self) -> Any:
        """The client of Glue."""
        return client_of("glue", self.region)

    def place(self, identifier: tuple[str, str]) -> tuple[str, str]:
        """Return database and name of an entry, in lower case as Glue requires."""
        namespace, name = identifier
        return (self.database or namespace).lower(), name.lower()

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError if two tables would have the same entry."""
        if self.access is not None:
            self.access.check(tables)
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for table in tables:
            other = found.setdefault(self.place(table), table)
            if other != table:
                raise ConfigError(
                    f"{'.'.join(other)} and {'.'.join(table)} would be one table in the Glue Data Catalog",
                    found=f"Glue writes names in small letters: {'.'.join(self.place(table))}",
                    todo="Leave `database` under [registration] out, so that each namespace has a database of its "
                    "own; or give one of the tables another name.",
                )

    def register(self, table: TableDescription) -> None:
        """Create or update the entry of a table, and then its permissions.

        Iceberg creates the entries of its tables itself.
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
                f"{what} cannot be made: the table is not in S3",
                found=f"it is {table.location}",
                todo="Name a `warehouse` in S3 under [target], or leave [registration] out.",
            )
        entry = entry_of(table)
        with self._translating_errors(what):
            found = self._find(database, name)
            if found is None:
                self._make(database, entry)
                is_changed = True
            else:
                self._refuse_others(found, entry, what)
                is_changed = self._update(database, found, entry)
                _warn_of_move(found, entry, what)
            if entry.partition_keys:
                is_changed |= self._update_partitions(database, entry)
        return is_changed

    @contextmanager
    def _translating_errors(self, what: str) -> Iterator[None]:
        with translate_errors(what, PAGE, "written"):
            known = self.client.exceptions
            try:
                yield
            except (known.ConcurrentModificationException, known.AlreadyExistsException) as error:
                raise StoreUnreachable(
                    f"{what} was changed by another process at the same time",
                    found=str(error),
                    todo="Nothing is lost: the next run looks again.",
                ) from error

    @property
    def _catalog_arguments(self) -> Mapping[str, str]:
        return {} if self.catalog_id is None else {"CatalogId": self.catalog_id}

    def _find(self, database: str, name: str) -> Mapping[str, Any] | None:
        try:
            answer = self.client.get_table(DatabaseName=database, Name=name, **self._catalog_arguments)
        except self.client.exceptions.EntityNotFoundException:
            return None
        found: Mapping[str, Any] = answer["Table"]
        return found

    def _make(self, database: str, entry: Entry) -> None:
        try:
            self.client.get_database(Name=database, **self._catalog_arguments)
        except self.client.exceptions.EntityNotFoundException:
            with suppress(self.client.exceptions.AlreadyExistsException):  # created by the thread of another table
                self.client.create_database(DatabaseInput={"Name": database}, **self._catalog_arguments)
        self.client.create_table(
            DatabaseName=database, TableInput=self._written(entry, {}), **self._catalog_arguments
        )

    def _refuse_others(self, found: Mapping[str, Any], entry: Entry, what: str) -> None:
        """Raise ConfigError if an entry belongs to another table, or to something that lakeward does not write."""
        parameters = found.get("Parameters", {})
        if parameters.get(PIPELINE) == self.pipeline:
            return
        format_, own = _format_of(parameters), _format_of(entry.parameters)
        location = _location_of(found)
        if format_ == own and _plain(location) == _plain(entry.location):
            return
        raise ConfigError(
            f"{what} is another table, and was left as it is",
            found=f"that is {'a table of ' + format_ if format_ else found.get('TableType', 'a table')} "
            f"at {location or 'no location'}, and this one is {own} at {entry.location}",
            todo="Delete it there if nobody needs it, or name another `database` under [registration].",
        )

    def _written(self, entry: Entry, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new content of an entry, with the additions of others."""
        others = {
            name: value for name, value in found.get("Parameters", {}).items() if not name.startswith(_OF_FORMATS)
        }
        return {
            **{name: found[name] for name in _OF_OTHERS if name in found},
            "Name": entry.name,
            "TableType": "EXTERNAL_TABLE",
            "Description": entry.comment,
            "StorageDescriptor": {**found.get("StorageDescriptor", {}), **entry.storage},
            "PartitionKeys": [*entry.partition_keys],
            "Parameters": {**others, **entry.parameters, PIPELINE: self.pipeline},
        }

    def _update(self, database: str, found: Mapping[str, Any], entry: Entry) -> bool:
        """Update an entry that is not correct; return True if it was written."""
        written = self._written(entry, found)
        if _compared(found) == _compared(written):
            return False
        version = {"VersionId": found["VersionId"]} if "VersionId" in found else {}
        self.client.update_table(
            DatabaseName=database, TableInput=written, SkipArchive=True, **version, **self._catalog_arguments
        )
        return True

    def _update_partitions(self, database: str, entry: Entry) -> bool:
        """Make the partition entries equal to the partitions of the table, with its columns.

        Return True if any was written.
        """
        table = {"DatabaseName": database, "TableName": entry.name, **self._catalog_arguments}
        pages = self.client.get_paginator("get_partitions").paginate(**table)
        found = {tuple(one["Values"]): one["StorageDescriptor"] for page in pages for one in page["Partitions"]}
        wanted = entry.partitions
        missing = [values for values in wanted if values not in found]
        obsolete = [values for values in found if values not in wanted]
        both = [values for values in wanted if values in found]
        changed = [values for values in both if _of_storage(found[values]) != _of_storage(wanted[values])]
        for some in _in_parts(missing, 100):
            inputs = [{"Values": [*values], "StorageDescriptor": wanted[values]} for values in some]
            _check(self.client.batch_create_partition(PartitionInputList=inputs, **table))
        for some in _in_parts(obsolete, 25):
            named = [{"Values": [*values]} for values in some]
            _check(self.client.batch_delete_partition(PartitionsToDelete=named, **table))
        for some in _in_parts(changed, 100):
            storages = {values: {**found[values], **wanted[values]} for values in some}
            inputs = [{"Values": [*values], "StorageDescriptor": storage} for values, storage in storages.items()]
            entries = [{"PartitionValueList": one["Values"], "PartitionInput": one} for one in inputs]
            _check(self.client.batch_update_partition(Entries=entries, **table))
        return bool(missing or obsolete or changed)


def _format_of(parameters: Mapping[str, str]) -> str:
    """Return the format of an entry, as Spark, Athena or a crawler writes it; '' if there is none."""
    named = ("spark.sql.sources.provider", "table_type", "classification")
    return next((parameters[name].lower() for name in named if name in parameters), "")


def _location_of(entry: Mapping[str, Any]) -> str:
    """Return the location of an entry; '' for a view."""
    location: str = entry.get("StorageDescriptor", {}).get("Location", "")
    return location


def _warn_of_move(found: Mapping[str, Any], entry: Entry, what: str) -> None:
    """Log a warning if an entry has a new location: another pipeline of the same name may have created it."""
    before = _location_of(found)
    if _plain(before) != _plain(entry.location):
        log.warning(
            "a registered table has another place now",
            table=what,
            before=before or "no location",
            now=entry.location,
            todo="Nothing, if it moved. If another pipeline is called the same, give one of them another name, or "
            "another `database` under [registration]: the entry is that of who wrote last.",
        )


def _compared(entry: Mapping[str, Any]) -> Sequence[object]:
    """Return the parts of an entry that lakeward sets, for comparison; Glue omits empty values."""
    named = (entry.get("Description") or "", entry.get("TableType"), entry.get("Parameters", {}))
    keys = [_of_column(column) for column in entry.get("PartitionKeys", ())]
    return (*named, keys, _of_storage(entry.get("StorageDescriptor", {})))


def _of_storage(storage: Mapping[str, Any]) -> Sequence[object]:
    serde = storage.get("SerdeInfo", {})
    return (
        [_of_column(column) for column in storage.get("Columns", ())],
        *[storage.get(name) for name in ("Location", "InputFormat", "OutputFormat")],
        serde.get("SerializationLibrary"),
        serde.get("Parameters"),
    )


def _of_column(column: Mapping[str, Any]) -> Sequence[object]:
    return column.get("Name"), column.get("Type"), column.get("Comment") or ""


def _in_parts(every: Sequence[tuple[str, ...]], most: int) -> Iterator[Sequence[tuple[str, ...]]]:
    """Yield the partitions in groups of at most `most`, the limit of a request."""
    return (every[at : at + most] for at in range(0, len(every), most))


def _plain(location: str) -> str:
    return location.rstrip("/").replace("s3a://", "s3://").replace("s3n://", "s3://")


def _check(answer: Mapping[str, Any]) -> None:
    """Raise LakewardError if Glue refused some partitions of a request; it has accepted the others."""
    errors = answer.get("Errors", ())
    if errors:
        detail = errors[0].get("ErrorDetail", {})
        raise LakewardError(
            "partitions cannot be registered in the Glue Data Catalog",
            found=f"Glue says {detail.get('ErrorMessage') or detail.get('ErrorCode')}, of {len(errors)} partitions",
            todo=f"The next run tries again. {PAGE} has the permissions.",
        )
