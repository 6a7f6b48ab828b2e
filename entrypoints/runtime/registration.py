"""Registration of tables in catalogs of query engines, after the commits that created or changed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.ports import Registration, TableDescriber, TableDescription
from lakeward.core.reporting.alarms import Alarm
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.shapers import shaped

log = structlog.get_logger()

_AGAIN: Final = 60_000_000
"""Microseconds until a process retries a failed registration."""


@dataclass(slots=True)
class Registered:
    """The registration of one table by this process.

    `batch` and `descriptions` are those of the last success, `alarm` is the failure of the last attempt, and
    `tried` is its time in microseconds since 1970.
    """

    batch: int | None = None
    descriptions: Sequence[TableDescription] = ()
    alarm: Alarm | None = None
    tried: int = 0


@dataclass(slots=True)
class Registrar:
    """Registers a table if its batch changed since the last registration by this process, or if that failed.

    The current state of the table is registered, whichever process committed it. If registration fails, the batch
    stays applied, and the table has an alarm until registration succeeds.
    """

    container: Any
    done: dict[TableName, Registered] = field(default_factory=dict)

    def __call__(self, table: TableName, batch: int | None) -> Sequence[Alarm]:
        """Register a table whose last batch is `batch` (None: unknown); return the alarm if that failed."""
        registration = self.container.registration()
        if registration is None:
            return ()
        record, now = self.done.setdefault(table, Registered()), self.container.runtime().now()
        is_new = record.alarm is None and (batch is None or record.batch != batch)
        if is_new or self.is_due(table):
            record.tried = now
            self._try(table, record, registration)
            record.batch = batch
        return () if record.alarm is None else (record.alarm,)

    def is_due(self, table: TableName) -> bool:
        """Return True if a failed registration is due for a retry."""
        record = self.done.get(table)
        if record is None or record.alarm is None:
            return False
        now: int = self.container.runtime().now()
        return not 0 <= now - record.tried < _AGAIN

    def _try(self, table: TableName, record: Registered, registration: Registration) -> None:
        descriptions = list[TableDescription]()
        try:
            for description in chain(self._describe(table), self._describe_raw(table)):
                if record.alarm is not None or description not in record.descriptions:
                    registration.register(description)
                descriptions.append(description)
        except Exception as error:  # the batch is applied all the same
            before, record.alarm = record.alarm, _alarm(table, error)
            if record.alarm != before:
                log.warning("not registered", code="CATALOG-001", error=_error_text(error))
                log.debug("its stack trace", exc_info=True)
        else:
            record.descriptions, record.alarm = descriptions, None

    def _describe(self, table: TableName) -> Iterator[TableDescription]:
        """Yield the table with the comments of its source, and its quarantine table if the settings ask for it."""
        configured: Configuration = self.container.configured()
        lake: TableDescriber = self.container.target()
        description, settings = lake.describe(table), configured.settings.registration
        if description is not None:
            yield _with_comments(description, configured, table)
            if settings is not None and settings.quarantine:
                quarantine = lake.describe(table, quarantine=True)
                yield from () if quarantine is None else (quarantine,)

    def _describe_raw(self, table: TableName) -> Iterator[TableDescription]:
        """Yield the folders of the files of a table if the settings ask for raw tables; a joined table has none."""
        configured: Configuration = self.container.configured()
        settings, source = configured.settings.registration, self.container.source()
        if settings is not None and settings.raw is not None and table in configured.tables:
            read_secret = self.container.runtime().secret
            shaped_source = shaped(source, configured.rules(table), self.container.spark(), read_secret)
            dimension = shaped_source.written(configured.dimension(table, source.lateness, source.sequences))
            yield from source.describe_raw(dimension, settings.raw_namespace(dimension.source.schema))


def _with_comments(description: TableDescription, configured: Configuration, table: TableName) -> TableDescription:
    """Return a description whose missing comments are filled from the catalogue of the source."""
    comment, of_columns = configured.comments(table)
    columns = [
        replace(column, comment=column.comment or of_columns.get(column.name)) for column in description.columns
    ]
    return replace(description, comment=description.comment or comment, columns=tuple(columns))


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, LakewardError) else repr(error)


def _alarm(table: TableName, error: Exception) -> Alarm:
    """Return the alarm for an error; only the class of a foreign error, since notices send alarms to people."""
    what, found, todo = "this failed; the log of the run says more", type(error).__name__, ""
    if isinstance(error, LakewardError):
        what, found, todo = error.what, error.found or "", f"{error.todo} " if error.todo else ""
    return Alarm(
        "CATALOG-001",
        f"{table} is not registered as it is: {what}",
        found=found,
        todo=f"{todo}The rows are applied, and the next run tries again.",
    )
