"""Write the status of each table after a run back to the settings stores that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.ports import StatusBoard, TableStatus
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import Configuration


def write_back(container: Any, runs: Iterable[TableRun]) -> Sequence[str]:
    """Write the status of the tables of a run; return a sentence for each store that failed. It fails no run."""
    configured: Configuration = container.configured()
    statuses = [_status(run, container.runtime().now()) for run in runs]
    words = []
    for options in configured.settings.settings.stores:
        own = {key: value for key, value in options.items() if key != "kind"}
        try:
            store = container.registry().settings_stores.build(options["kind"], own, container.runtime())
            if isinstance(store, StatusBoard):
                store.write(statuses)
        except LakewardError as error:
            details = f" ({error.found})" if error.found else ""
            words.append(f"The status of tables could not be written back: {error.what}{details}.")
    return words


def _status(run: TableRun, now: int) -> TableStatus:
    is_loaded = run.progress is not None and run.progress.batch > 0 and run.awaited is None
    error = None if run.error is None else str(run.error) or type(run.error).__name__
    return TableStatus(table=_entry_name(run.table), at=now, is_loaded=is_loaded, error=error)


def _entry_name(table: TableName) -> str:
    """Return the name of the table's entry. Entries that name no table have the schema `?`."""
    return table.table if table.schema == "?" else str(table)
