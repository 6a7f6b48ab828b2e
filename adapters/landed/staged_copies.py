"""Copies of files of a folder on this machine's disk, below a prefix of a bucket, for Spark's workers elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import structlog

from lakeward.adapters.landed.bucket import BucketStore
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.staging_prefix import StagingPrefix
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError

log = structlog.get_logger()


@dataclass(slots=True)
class StagedCopies:
    """The files of a folder as Spark reads them. A copy has the path of its file below the folder.

    The folder alone says which files there are: a copy whose file is gone is of no use to anybody.
    """

    folder: Folder
    prefix: StagingPrefix
    _to_look_at: dict[TableName, bool] = field(default_factory=dict)
    """Whether a table may have copies that are of no use; one that was not looked at by this process may."""
    _applied: dict[TableName, set[str]] = field(default_factory=dict)
    """Applied files whose copies may be there still."""
    _lock: Lock = field(default_factory=Lock)

    def share(self, table: TableName, names: Sequence[str]) -> Folder:
        """Copy files of a table, and return the folder of the copies; raises as `upload` does."""
        with self._lock:
            self._to_look_at[table] = True
        for name in names:
            path = self.folder.landed(table, name)
            self.prefix.upload(Path(path), self._name(path))
        return Folder(self.prefix.url, self.folder.places, store=BucketStore(self.prefix.client))

    def clean(self, table: TableName, applied: Collection[str] = ()) -> None:
        """Remove copies of a table that nobody needs any more, after a commit: the table is right without it.

        These are those of files that were `applied`, by name, and those whose files are gone, as a run leaves them
        that was killed. Where S3 does not answer, the next commit tries again.
        """
        with self._lock:
            known = self._applied.setdefault(table, set())
            known.update(applied)
            if not self._to_look_at.get(table, True):
                known.clear()
                return
            try:
                self.prefix.remove([*self.useless(table, known)])
            except (LakewardError, OSError) as error:
                log.warning("copies of applied files stay for now", table=str(table), reason=str(error))
                return
            self._to_look_at[table] = False
            known.clear()

    def clean_all(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what `clean` removes, or only name it; raises where S3 does not answer."""
        found = [*self.useless(table)]
        if not is_dry:
            self.prefix.remove(found)
        return [self.prefix.path(name) for name in found]

    def useless(self, table: TableName, applied: Collection[str] = ()) -> Iterator[str]:
        """Return the names of copies of a table that nobody needs any more; raises as the prefix does."""
        done = set()
        for name in applied:
            with suppress(LakewardError):
                done.add(self._name(self.folder.landed(table, name)))
        for one in self.prefix.list(f"{table.schema}/{table.table}"):
            if one.name in done or not (Path(self.folder.base) / one.name).exists():
                yield one.name

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self.folder.base}/")
