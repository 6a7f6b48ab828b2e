"""The timeline of a Hudi table, read from its files; no Spark is needed.

A completed action is a file `<requested>_<completed>.<action>` with its metadata in Avro; older ones are archived
in Parquet files (hudi.apache.org/tech-specs-1point0/#timeline).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.errors import TableError
from lakeward.core.progress import Progress

PREFIX: Final = "lakeward."
PROGRESS: Final = f"{PREFIX}progress"
LAYOUT: Final = f"{PREFIX}layout"
RESTORED: Final = f"{PREFIX}restored"
"""What a commit of ours has in its metadata: how far the table is, how it was made, and what it went back to."""

METADATA: Final = ".hoodie"
"""The folder in that of a table in which Hudi keeps what it knows of it."""

_SCHEMA: Final = "schema"
_COMPLETED: Final = re.compile(r"(\d{17})_(\d{17})\.(commit|deltacommit|replacecommit)")
_TIMES: Final = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\..+")
_ARCHIVE: Final = "history"
_MANIFEST: Final = re.compile(r"manifest_(\d+)")
_WRITES: Final = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A completed write of a table, in the order of completion; times are texts as Hudi writes them."""

    completed: str
    requested: str
    metadata: bytes

    def content(self) -> Mapping[str, Any]:
        """Return all of its metadata: the files that it wrote, and what it replaced."""
        if not self.metadata:
            return {}
        [content] = fastavro.reader(io.BytesIO(self.metadata))
        return cast("Mapping[str, Any]", content)

    def said(self) -> Mapping[str, str]:
        """Return what the writer said with it, and the table's schema."""
        return self.content().get("extraMetadata") or {}

    def progress(self) -> Progress | None:
        """Return the progress that it carries, or None where it is another writer's, or a compaction."""
        line = self.said().get(PROGRESS)
        return None if line is None else Progress.from_json(line)

    def micros(self) -> int:
        """Return when it was completed, in microseconds since 1970."""
        return micros_of(self.completed)


def micros_of(instant: str) -> int:
    """Return a time as Hudi writes it, with its milliseconds, in microseconds since 1970."""
    at = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    return round(at.timestamp() * 1_000_000)


class Timeline:
    """What was completed on the table in a folder."""

    def __init__(self, table: Folder) -> None:
        self.folder = table.within(METADATA).within("timeline")

    @property
    def is_there(self) -> bool:
        """Whether the table was ever written to."""
        return next(self.instants(), None) is not None

    def newest(self) -> Instant | None:
        """Return the write that was completed last, whoever made it."""
        return next(self.instants(), None)

    def greatest(self) -> str:
        """Return the time up to which all that was completed can be read: a later write may be completed first."""
        return max((requested for _, requested, _ in self._named()), default="")

    def latest(self) -> str:
        """Return the latest time at which anything was requested or completed, whatever it is and became.

        Hudi takes a time without milliseconds, which it wrote formerly, for the end of its second.
        """
        names = (_TIMES.fullmatch(file.name) for file in self.folder.files())
        times = (at for found in names if found is not None for at in found.groups() if at is not None)
        return max((at.ljust(17, "9") for at in times), default="")

    def instants(self) -> Iterator[Instant]:
        """Return all writes, the newest first; those in the archive are read when they are asked for."""
        seen = set()
        for instant in self.active():
            seen.add(instant.requested)
            yield instant
        archived = [instant for instant in self._archived() if instant.requested not in seen]
        yield from sorted(archived, reverse=True)

    def active(self) -> Iterator[Instant]:
        """Return the writes that are not in the archive, the newest first."""
        for completed, requested, name in sorted(self._named(), reverse=True):
            if (content := self._read(name)) is not None:
                yield Instant(completed, requested, content)

    def _named(self) -> Iterator[tuple[str, str, str]]:
        """Return when the writes that are not in the archive were completed and requested, and their files."""
        for file in self.folder.files():
            if (match := _COMPLETED.fullmatch(file.name)) is not None:
                yield match[2], match[1], file.name

    def whole_from(self) -> str:
        """Return the time from which on the table can be read as it was: what it needed before may be removed."""
        found = ""
        for file in self.folder.files():
            if file.name.endswith(".clean.requested") and (content := self._read(file.name)):
                plan = cast("Mapping[str, Any]", next(fastavro.reader(io.BytesIO(content))))
                earliest = plan.get("earliestInstantToRetain") or {}
                found = max(found, earliest.get("timestamp") or plan["lastCompletedCommitTimestamp"])
        return found

    def _archived(self) -> Iterator[Instant]:
        for name in self._archives():
            try:
                with self.folder.open(f"{_ARCHIVE}/{name}") as opened:
                    rows = pq.read_table(opened).to_pylist()
            except (OSError, pa.ArrowInvalid) as error:
                raise self._unreadable(f"{_ARCHIVE}/{name}", error) from error
            for row in rows:
                if row["action"] in _WRITES:
                    yield Instant(row["completionTime"], row["instantTime"], row["metadata"] or b"")

    def _archives(self) -> Sequence[str]:
        """Return the files of the archive, by its newest manifest; one that a newer one replaced may be gone."""
        named = (file.name for file in self.folder.within(_ARCHIVE).files())
        found = sorted((int(match[1]), match[0]) for match in map(_MANIFEST.fullmatch, named) if match is not None)
        for _, name in reversed(found):
            if (content := self._read(f"{_ARCHIVE}/{name}")) is not None:
                return [entry["fileName"] for entry in json.loads(content)["files"]]
        return ()

    def newest_of_ours(self) -> tuple[Instant, Progress] | None:
        """Return the newest write that carries progress, with it."""
        found = ((instant, instant.progress()) for instant in self.instants())
        return next(((instant, progress) for instant, progress in found if progress is not None), None)

    def schema(self) -> str | None:
        """Return the Avro schema of the table, as JSON."""
        said: Iterator[Any] = (instant.said().get(_SCHEMA) for instant in self.instants())
        return next((schema for schema in said if schema), None)

    def _read(self, name: str) -> bytes | None:
        """Return what is in a file, or None where a writer has moved it into the archive meanwhile."""
        try:
            with self.folder.open(name) as opened:
                return opened.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: Exception) -> TableError:
        return TableError(
            f"the timeline of a Hudi table cannot be read: {self.folder}/{name}",
            found=str(error).splitlines()[0] if str(error) else type(error).__name__,
            todo="Nothing was applied. Mend that, and run again.",
        )
