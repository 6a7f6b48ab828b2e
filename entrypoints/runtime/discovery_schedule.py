"""When each table is looked at, whatever the queue tells: it may have lost a notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

FILE: Final = "looked_at_all"
"""In the folder `state`: when all tables were looked at, in microseconds since 1970, and which these were."""


def digest_of(settings: Any) -> str:
    """Return what stands for settings: another text for others.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}), digest_of({"a": 1}) == digest_of({"a": 2})
    (True, False)
    """
    return sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(slots=True)
class FullLooks:
    """All tables are looked at where they were not for `every` microseconds, as far as it is known.

    `tables` are those of the run, by name, each with a digest of the settings by which it is read. One that is not
    in the note, or is read by other settings than then, is looked at in any case. The note is in a `file`, for the
    next process, or without one in this process alone. Where the clock was set back, or the file is gone, all are
    looked at.
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
        """Whether all tables are to be looked at."""
        return self.last is None or not 0 <= self.now() - self.last < self.every

    @property
    def due(self) -> Sequence[str]:
        """The tables that are to be looked at, whatever the queue tells."""
        if self.is_due:
            return [*self.tables]
        return [table for table, digest in self.tables.items() if self.noted.get(table) != digest]

    def forget(self) -> None:
        """Let all tables be looked at next."""
        self.last, self.noted = None, {}

    def note(self, looked: Collection[str], again: Collection[str] = (), began: int | None = None) -> None:
        """Note that tables were looked at, and that others must be looked at `again`, whatever the queue tells.

        With a time at which it `began`, that was a look at all tables. Tables that the settings have no more are
        forgotten: their notices are lost until they are back.
        """
        before = (self.last, self.noted)
        if began is not None:
            self.last, self.noted = began, {}
        noted = {**self.noted, **{table: self.tables[table] for table in looked}}
        known = self.tables.keys() - again
        self.noted = {table: digest for table, digest in noted.items() if table in known}
        if self.file is not None and self.last is not None and before != (self.last, self.noted):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            note = {"began": self.last, "tables": dict(sorted(self.noted.items()))}
            self.file.write_text(json.dumps(note), "utf-8")
