"""Rows in quarantine as commands find, name and show them."""

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
class Kept:
    """What is in quarantine of one table.

    `dimension` has the columns of the table, `rows` those that its rows have at the source, or
    why nobody can tell. `incomplete` are events that wait for their row.
    """

    name: TableName
    dimension: Dimension
    rows: Dimension | RepairError
    entries: Sequence[Entry]
    incomplete: Sequence[Entry] = ()

    def at_the_source(self) -> Dimension:
        """Return the dimension with the columns that rows have at the source; raises MendError where none can."""
        if isinstance(self.rows, RepairError):
            raise self.rows
        return self.rows

    def why_not(self, entry: Entry) -> str | None:
        """Return why a row cannot be fixed that another of its reason could be; None where that is not so."""
        if Reason(entry.reason) not in FIXABLE:
            return None
        if isinstance(self.rows, RepairError):
            return f"{self.rows.found}. {self.rows.todo}"
        found = why_not(self.rows, entry)
        return None if found is None else ". ".join(found)

    def is_fixable(self, entry: Entry) -> bool:
        """Whether a row can be fixed."""
        return Reason(entry.reason) in FIXABLE and self.why_not(entry) is None

    def advice(self, entry: Entry) -> str:
        """Return what can be done about a row."""
        if entry.is_waiting:
            return WAIT
        reason = self.why_not(entry)
        if reason is not None and is_as_written(entry):
            return f"let the table follow and replay the row, or give it up; it cannot be fixed: {reason}"
        if reason is not None:
            return f"it cannot be fixed: {reason}"
        if Reason(entry.reason) is Reason.NO_KEY and self.dimension.match is Match.IMAGE:
            return COMPARE
        is_replayable = self.rows == self.dimension and is_readable_again(self.dimension, entry)
        return REPLAY if is_replayable else ADVICE[Reason(entry.reason)]


COMPARE: Final = (
    "see why its image is that of no row: compare the table with its source, and load it anew where they differ"
)
REPLAY: Final = "correct the settings where they were wrong, and replay the row; or fix it, or give it up"
WAIT: Final = "it waits for its row; or let the source write the whole row again"


def kept_of(job: Job[Any], *, incomplete: bool = False) -> Kept:
    """Return what is in quarantine of the table of a job, and what is `incomplete`; no engine is started."""

    def kept(standing: TableState) -> Kept:
        dimension = dimension_as_stored(job, standing)
        try:
            rows: Dimension | RepairError = job.source.written(dimension)
        except RepairError as error:
            rows = error
        found = job.opened.quarantine
        parts = found.incomplete(standing.progress) if incomplete else ()
        return Kept(dimension.name, dimension, rows, found.entries(standing.progress), parts)

    return read_consistently(job.dimension.name, job.opened.table.standing, kept)


def key_parts(entry: Entry) -> list[str] | None:
    """Return the parts of a key, or None where it is not known."""
    return None if entry.key is None else parts_of(entry.key)


def parts_of(key: str) -> list[str]:
    """Return the parts of a key that is a list in JSON."""
    return [str(part) for part in json.loads(key)]


def key_words(entry: Entry) -> str:
    """Return a key as a person writes it; of a key change both."""
    if entry.key is None:
        return "–"
    return " → ".join(words_of(key) for key in (entry.other_key, entry.key) if key is not None)


def words_of(key: str) -> str:
    """Return a key that is a list in JSON as a person writes it."""
    return " ".join(parts_of(key))


def place(entry: Entry) -> str:
    """Return where a row is from."""
    return f"{entry.object}:{entry.row}"


def named(entry: Entry) -> str:
    """Return how a command names a row: by the key that it holds, as a shell takes it, else by its place."""
    if not entry.is_held:
        return shlex.join(["--at", place(entry)])
    return arguments(key_parts(entry) or ())


def state(entry: Entry) -> str:
    """Return whether later events wait behind a row, or it is mended, or final, or waits for its row itself."""
    if entry.is_waiting:
        return "waiting"
    if entry.repaired is not None:
        return "mended"
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
"""What `document` has."""


def document(table: TableName, entry: Entry, advice: str | None = None) -> dict[str, Any]:
    """Return a row as programs get it."""
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
        "waits": entry.waits,
    }
