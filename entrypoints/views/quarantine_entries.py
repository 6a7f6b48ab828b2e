"""Rows in quarantine as commands read, name and print them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.core.dimension import Dimension, Match, TableName
from lakeward.core.errors import RepairError
from lakeward.core.merge.change_log import Reason
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.pipeline.discovery import dimension_as_stored
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Entry, TableState
from lakeward.core.quarantine.repair import ADVICE, FIXABLE, why_not
from lakeward.core.quarantine.replay import is_as_written, is_readable_again
from lakeward.entrypoints.views import documents
from lakeward.entrypoints.views.safe_text import arguments


@dataclass(frozen=True, slots=True)
class QuarantinedTable:
    """The quarantine of one table.

    `dimension` has the columns of the table, `rows` the columns that its rows have at the source, or the error that
    says why they are unknown. `incomplete` are partial events that wait for their row.
    """

    name: TableName
    dimension: Dimension
    rows: Dimension | RepairError
    entries: Sequence[Entry]
    incomplete: Sequence[Entry] = ()

    def at_the_source(self) -> Dimension:
        """Return the dimension with the columns of rows at the source; raises RepairError if they are unknown."""
        if isinstance(self.rows, RepairError):
            raise self.rows
        return self.rows

    def why_not(self, entry: Entry) -> str | None:
        """Return why this row cannot be fixed although its reason allows it; None if no such obstacle exists."""
        if Reason(entry.reason) not in FIXABLE:
            return None
        if isinstance(self.rows, RepairError):
            return f"{self.rows.found}. {self.rows.todo}"
        reason = why_not(self.rows, entry)
        return None if reason is None else ". ".join(reason)

    def is_fixable(self, entry: Entry) -> bool:
        """Return True if a row can be fixed."""
        return Reason(entry.reason) in FIXABLE and self.why_not(entry) is None

    def advice(self, entry: Entry) -> str:
        """Return what an operator can do about a row."""
        if entry.is_waiting:
            return WAIT
        reason = self.why_not(entry)
        if reason is not None and is_as_written(entry):
            return f"let the table follow and replay the row, or discard it; it cannot be fixed: {reason}"
        if reason is not None:
            return f"it cannot be fixed: {reason}"
        if Reason(entry.reason) is Reason.NO_KEY and self.dimension.match is Match.IMAGE:
            return COMPARE
        is_replayable = self.rows == self.dimension and is_readable_again(self.dimension, entry)
        return REPLAY if is_replayable else ADVICE[Reason(entry.reason)]


COMPARE: Final = (
    "its image matches no row: compare the table with its source, and reload the table if they differ"
)
REPLAY: Final = "correct the settings if they were wrong, and replay the row; or fix it, or discard it"
WAIT: Final = "it waits for its row; or let the source write the whole row again"


def read_quarantine(job: Job[Any], *, incomplete: bool = False) -> QuarantinedTable:
    """Read the quarantine of the table of a job, with `incomplete` events if asked for; Spark is not started."""

    def read(state: TableState) -> QuarantinedTable:
        dimension = dimension_as_stored(job, state)
        try:
            rows: Dimension | RepairError = job.source.written(dimension)
        except RepairError as error:
            rows = error
        quarantine = job.opened.quarantine
        parts = quarantine.incomplete(state.progress) if incomplete else ()
        return QuarantinedTable(dimension.name, dimension, rows, quarantine.entries(state.progress), parts)

    return read_consistently(job.dimension.name, job.opened.table.state, read)


def key_parts(entry: Entry) -> list[str] | None:
    """Return the parts of a row's key; None if the key is unknown."""
    return None if entry.key is None else parts_of(entry.key)


def parts_of(key: str) -> list[str]:
    """Return the parts of a key, given as a JSON list."""
    return [str(part) for part in json.loads(key)]


def key_words(entry: Entry) -> str:
    """Return the key of a row as a person writes it; of a key change both keys."""
    if entry.key is None:
        return "–"
    return " → ".join(words_of(key) for key in (entry.other_key, entry.key) if key is not None)


def words_of(key: str) -> str:
    """Return a key, given as a JSON list, as a person writes it."""
    return " ".join(parts_of(key))


def place(entry: Entry) -> str:
    """Return the origin of a row as `FILE:ROW`."""
    return f"{entry.object}:{entry.row}"


def named(entry: Entry) -> str:
    """Return the arguments that name a row in a command, quoted for a shell: its held key, else `--at FILE:ROW`."""
    if not entry.is_held:
        return shlex.join(["--at", place(entry)])
    return arguments(key_parts(entry) or ())


def state(entry: Entry) -> str:
    """Return the state of a row: `waiting` (for its own row), `repaired`, `held` (its key) or `final`."""
    if entry.is_waiting:
        return "waiting"
    if entry.repaired is not None:
        return "repaired"
    return "held" if entry.is_held else "final"


COLUMNS: Final = (
    *(
        "table",
        "key",
        "old_key",
        "holds",
        "state",
        "reason",
        "detail",
        "advice",
        "object",
        "row",
        "operation",
        "position",
    ),
    *("time", "batch", "since", "text", "waits"),
)
"""The fields of `document`, which are the columns of an export."""


def document(table: TableName, entry: Entry, advice: str | None = None) -> dict[str, Any]:
    """Return a row for a JSON document."""
    return {
        "table": str(table),
        "key": key_parts(entry),
        "old_key": None if entry.other_key is None else parts_of(entry.other_key),
        "holds": [parts_of(key) for key in entry.held_keys],
        "state": state(entry),
        "reason": entry.reason,
        "detail": entry.detail,
        "advice": advice or ADVICE[Reason(entry.reason)],
        "object": entry.object,
        "row": entry.row,
        "operation": entry.operation,
        "position": entry.position,
        "time": documents.time(entry.time),
        "batch": entry.batch,
        "since": documents.time(entry.since or None),
        "text": entry.text,
        "waits": entry.waiting_events,
    }
