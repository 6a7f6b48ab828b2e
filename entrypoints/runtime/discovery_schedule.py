"""Schedule of full discoveries: every table is examined from time to time, since a queue may lose a notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

FILE: Final = "looked_at_all"
"""File in the folder `state`: time of the last full discovery (microseconds since 1970) and its tables."""


def digest_of(settings: Any) -> str:
    """Return a short digest of settings: equal settings have equal digests.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}), digest_of({"a": 1}) == digest_of({"a": 2})
    (True, False)
    """
    return sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(slots=True)
class DiscoverySchedule:
    """Decides which tables a run examines even if the queue has no notice for them.

    All tables are due if the last full discovery is at least `every` microseconds ago, if the clock was set back,
    or if nothing is noted. `tables` maps each table of the run to a digest of the settings by which it is read. A
    table that is not noted, or was noted with another digest, is always due. The note is kept in `file` for the
    next process; without `file` it is kept in memory.
    """

    every: int
    now: Callable[[], int]
    tables: Mapping[str, str]
    file: Path | None = None
    last: int | None = None
    noted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None:
            try:
                note = json.loads(self.file.read_text("utf-8"))
                self.last, self.noted = int(note["began"]), {**note["tables"]}
            except (OSError, ValueError, KeyError, TypeError):
                self.forget()

    @property
    def is_due(self) -> bool:
        """True if all tables are due."""
        return self.last is None or not 0 <= self.now() - self.last < self.every

    @property
    def due(self) -> Sequence[str]:
        """The tables that are examined even if the queue has no notice for them."""
        if self.is_due:
            return [*self.tables]
        return [table for table, digest in self.tables.items() if self.noted.get(table) != digest]

    def forget(self) -> None:
        """Make all tables due."""
        self.last, self.noted = None, {}

    def note(self, examined: Collection[str], again: Collection[str] = (), began: int | None = None) -> None:
        """Note that the tables `examined` were examined, and that the tables `again` stay due.

        `began` is the start of a full discovery in microseconds since 1970, or None if not all tables were
        examined. Tables that the settings no longer have are removed from the note, since their notices are lost
        until the tables are configured again.
        """
        before = (self.last, self.noted)
        if began is not None:
            self.last, self.noted = began, {}
        noted = {**self.noted, **{table: self.tables[table] for table in examined}}
        not_due = self.tables.keys() - again
        self.noted = {table: digest for table, digest in noted.items() if table in not_due}
        if self.file is not None and self.last is not None and before != (self.last, self.noted):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            note = {"began": self.last, "tables": dict(sorted(self.noted.items()))}
            self.file.write_text(json.dumps(note), "utf-8")
