"""Copies of files of a folder on this machine's disk, below a prefix of a bucket, for Spark's workers elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import structlog

from lakeward.adapters.sources.landing.bucket_store import BucketStore
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import OWN_FOLDER, Places, encoded, filled
from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError

log = structlog.get_logger()


@dataclass(slots=True)
class StagedCopies:
    """The files of a folder as Spark reads them. A copy has the name of its file, in a folder of its table.

    The folder alone says which files there are: a copy whose file is gone is of no use to anybody.
    """

    folder: Folder
    prefix: StagingPrefix
    _may_have_unneeded: dict[TableName, bool] = field(default_factory=dict)
    """Whether a table may have copies that nobody needs; one that was not looked at by this process may."""
    _applied: dict[TableName, set[str]] = field(default_factory=dict)
    """Applied files whose copies may be there still."""
    _locks: dict[TableName, Lock] = field(default_factory=dict)

    def share(self, table: TableName, names: Sequence[str]) -> Folder:
        """Copy files of a table, and return the folder of the copies; raises as `upload` does."""
        try:
            for name in names:
                self.prefix.upload(Path(self.folder.landed(table, name)), f"{_home(table)}/{name}")
        finally:
            self._may_have_unneeded[table] = True  # behind the copies: a look meanwhile need not have seen them
        places = Places(replace(self.folder.places.others, is_encoded=True))
        return Folder(self.prefix.url, places, store=BucketStore(self.prefix.client))

    def clean(self, table: TableName, applied: Collection[str] = ()) -> None:
        """Remove copies of a table that nobody needs any more, after a commit: the table is right without it.

        These are those of files that were `applied`, by name, and those whose files are gone, as a run leaves them
        that was killed. Where S3 does not answer, the next commit tries again. Other tables never wait for it.
        """
        with self._locks.setdefault(table, Lock()):
            known = self._applied.setdefault(table, set())
            known.update(applied)
            if self._may_have_unneeded.get(table, True):
                self._may_have_unneeded[table] = False  # ahead of the look: what is shared meanwhile says so again
                try:
                    self.prefix.remove([*self.find_unneeded(table, known)])
                except (LakewardError, OSError) as error:
                    self._may_have_unneeded[table] = True
                    log.warning("copies of applied files stay for now", table=str(table), reason=str(error))
                    return
            known.clear()

    def clean_all(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what `clean` removes, or only name it; raises where S3 does not answer."""
        found = [*self.find_unneeded(table)]
        if not is_dry:
            self.prefix.remove(found)
        return [self.prefix.path(name) for name in found]

    def find_unneeded(self, table: TableName, applied: Collection[str] = ()) -> Iterator[str]:
        """Return the names of copies of a table that nobody needs any more; raises as the prefix does."""
        home, folder = _home(table), Path(self.folder.base, table.schema, table.table)
        for one in self.prefix.list(home):
            name = one.name.removeprefix(f"{home}/")
            if name in applied or not (folder / name).exists():
                yield one.name


def _home(table: TableName) -> str:
    return filled(OWN_FOLDER, encoded(table))
