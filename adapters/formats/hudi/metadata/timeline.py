"""The timeline of a Hudi table, read from its files without Spark.

A completed action is a file `<requested>_<completed>.<action>` with its metadata in Avro. Older ones are archived
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
"""The metadata of a commit of ours: progress, layout, and the instant that a rollback went back to."""

METADATA: Final = ".hoodie"
"""The folder in a table's folder in which Hudi stores metadata."""

_SCHEMA: Final = "schema"
_COMPLETED: Final = re.compile(r"(\d{17})_(\d{17})\.(commit|deltacommit|replacecommit)")
_TIMES: Final = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\..+")
_ARCHIVE: Final = "history"
_MANIFEST: Final = re.compile(r"manifest_(\d+)")
_WRITES: Final = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A completed write of a table, ordered by completion. Times are texts as Hudi writes them."""

    completed: str
    requested: str
    metadata: bytes

    def content(self) -> Mapping[str, Any]:
        """Return all of its metadata: the files that it wrote, and those that it replaced."""
        if not self.metadata:
            return {}
        [content] = fastavro.reader(io.BytesIO(self.metadata))
        return cast("Mapping[str, Any]", content)

    def extra_metadata(self) -> Mapping[str, str]:
        """Return the extra metadata that the writer added, with the table's schema."""
        return self.content().get("extraMetadata") or {}

    def progress(self) -> Progress | None:
        """Return its progress, or None for another writer's write or a compaction."""
        text = self.extra_metadata().get(PROGRESS)
        return None if text is None else Progress.from_json(text)

    def micros(self) -> int:
        """Return when it was completed, in microseconds since 1970."""
        return micros_of(self.completed)


def micros_of(instant: str) -> int:
    """Return a time that Hudi writes with milliseconds, in microseconds since 1970."""
    at = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    return round(at.timestamp() * 1_000_000)


class Timeline:
    """The completed writes of the table in a folder."""

    def __init__(self, table: Folder) -> None:
        self.folder = table.within(METADATA).within("timeline")

    @property
    def is_there(self) -> bool:
        """Whether the table was ever written to."""
        return next(self.instants(), None) is not None

    def newest(self) -> Instant | None:
        """Return the write that was completed last, by whichever writer."""
        return next(self.instants(), None)

    def greatest(self) -> str:
        """Return the time up to which all completed writes can be read. A later write may be completed first."""
        return max((requested for _, requested, _ in self._completed_files()), default="")

    def latest(self) -> str:
        """Return the latest time at which anything was requested or completed, of any action and outcome.

        Hudi reads a time without milliseconds, which it used to write, as the end of its second.
        """
        names = (_TIMES.fullmatch(file.name) for file in self.folder.files())
        times = (at for match in names if match is not None for at in match.groups() if at is not None)
        return max((at.ljust(17, "9") for at in times), default="")

    def instants(self) -> Iterator[Instant]:
        """Yield all writes, newest first. Archived ones are read only if they are needed."""
        active_instants = set()
        for instant in self.active():
            active_instants.add(instant.requested)
            yield instant
        archived = [instant for instant in self._archived() if instant.requested not in active_instants]
        yield from sorted(archived, reverse=True)

    def active(self) -> Iterator[Instant]:
        """Yield the writes that are not archived, newest first."""
        for completed, requested, name in sorted(self._completed_files(), reverse=True):
            if (content := self._read(name)) is not None:
                yield Instant(completed, requested, content)

    def _completed_files(self) -> Iterator[tuple[str, str, str]]:
        """Yield completion time, request time and file of the writes that are not archived."""
        for file in self.folder.files():
            if (match := _COMPLETED.fullmatch(file.name)) is not None:
                yield match[2], match[1], file.name

    def readable_from(self) -> str:
        """Return the time from which on old states can be read; files of earlier ones may be removed."""
        latest = ""
        for file in self.folder.files():
            if file.name.endswith(".clean.requested") and (content := self._read(file.name)):
                plan = cast("Mapping[str, Any]", next(fastavro.reader(io.BytesIO(content))))
                earliest = plan.get("earliestInstantToRetain") or {}
                latest = max(latest, earliest.get("timestamp") or plan["lastCompletedCommitTimestamp"])
        return latest

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
        """Return the files of the archive from its newest manifest that exists."""
        named = (file.name for file in self.folder.within(_ARCHIVE).files())
        manifests = sorted(
            (int(match[1]), match[0]) for match in map(_MANIFEST.fullmatch, named) if match is not None
        )
        for _, name in reversed(manifests):
            if (content := self._read(f"{_ARCHIVE}/{name}")) is not None:
                return [entry["fileName"] for entry in json.loads(content)["files"]]
        return ()

    def newest_with_progress(self) -> tuple[Instant, Progress] | None:
        """Return the newest write that carries progress, with its progress."""
        with_progress = ((instant, instant.progress()) for instant in self.instants())
        return next(((instant, progress) for instant, progress in with_progress if progress is not None), None)

    def schema(self) -> str | None:
        """Return the Avro schema of the table, as JSON."""
        schemas: Iterator[Any] = (instant.extra_metadata().get(_SCHEMA) for instant in self.instants())
        return next((schema for schema in schemas if schema), None)

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if a writer has moved it into the archive meanwhile."""
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
