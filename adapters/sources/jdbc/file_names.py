"""Names of staged reads. A table's commits store them, and the next query begins where they say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final, Self

from lakeward.adapters.sources.files.paths.file_names import COUNTER_BITS
from lakeward.adapters.sources.jdbc.cursors import decode, encode
from lakeward.adapters.sources.landing.places import FileName, Naming, Part

PATTERN: Final = r"(?P<time>\d{17})~.*"
"""The names of staged files; the source of files takes the time of a snapshot from them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_PART: Final = re.compile(r"[^0-9A-Za-z.,_-]+")
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRead:
    """A folder of rows that were read at `time` (microseconds since 1970, whole milliseconds).

    It is a snapshot, or has the rows whose cursor was not below `since`. `reached` is the highest cursor of the
    table so far. `tail` is a digest of the rows that the next query would find if nothing changed. `position` is a
    position in the log of the database. `topic` is the id of the topic with the feed of the table.
    """

    time: int
    is_snapshot: bool
    since: int | None = None
    reached: int | None = None
    tail: str | None = None
    position: str | None = None
    topic: str | None = None

    def name(self, *, is_time: bool) -> str:
        """Return the name of the folder; `is_time` says that the cursor is a time."""
        moment = _EPOCH + timedelta(microseconds=self.time)
        cursors = {
            key: encode(value, is_time=is_time)
            for key, value in (("from", self.since), ("to", self.reached))
            if value is not None
        }
        position = None if self.position is None else _NO_PART.sub("-", self.position)
        fields = {**cursors, "tail": self.tail, "at": position, "topic": self.topic}
        parts = [f"{moment:%Y%m%d%H%M%S%f}"[:17], "snapshot" if self.is_snapshot else "changes"]
        return "~".join([*parts, *(f"{key}~{value}" for key, value in fields.items() if value)])

    @classmethod
    def of(cls, path: str) -> Self | None:
        """Return the read of a staged file or folder by its path, or None for another path."""
        try:
            time, kind, *fields = PurePosixPath(path).parts[0].split("~")
            if kind not in ("snapshot", "changes") or len(fields) % 2 or not re.fullmatch(r"\d{17}", time):
                return None
            moment = datetime.strptime(f"{time}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
            values = dict(zip(fields[::2], fields[1::2], strict=True))
            return cls(
                time=(moment - _EPOCH) // timedelta(microseconds=1),
                is_snapshot=kind == "snapshot",
                since=decode(values["from"]) if "from" in values else None,
                reached=decode(values["to"]) if "to" in values else None,
                tail=values.get("tail"),
                position=values.get("at"),
                topic=values.get("topic"),
            )
        except (ValueError, IndexError):
            return None


class StagedNames(Naming):
    """The names of staged files. Their order is the time of their read."""

    def read(self, path: str, _part: Part) -> FileName | None:
        """Return what the path of a staged file states, or None for another file."""
        staged = StagedRead.of(path) if path.endswith(".parquet") and "/" in path else None
        order = None if staged is None else (staged.time // _MILLI) << COUNTER_BITS
        return None if staged is None or order is None else FileName(staged.is_snapshot, order, "parquet")
