"""Copies of local files below a prefix of a bucket, for Spark's workers on other machines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import structlog

from lakeward.adapters.sources.landing.bucket_store import BucketStore
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places, encoded_folder
from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError

log = structlog.get_logger()


@dataclass(slots=True)
class StagedCopies:
    """The copies of a folder's files that Spark reads. A copy has the name of its file, in a folder of its table.

    The local folder is the only record of the files: a copy whose file is gone is not needed.
    """

    folder: Folder
    prefix: StagingPrefix
    _may_have_unneeded: dict[TableName, bool] = field(default_factory=dict)
    """Whether a table may have unneeded copies; True for a table that this process has not checked."""
    _applied: dict[TableName, set[str]] = field(default_factory=dict)
    """The names of applied files whose copies may still exist."""
    _locks: dict[TableName, Lock] = field(default_factory=dict)

    def share(self, table: TableName, names: Sequence[str]) -> Folder:
        """Copy files of a table, and return the folder of the copies; raises as `StagingPrefix.upload` does."""
        try:
            for name in names:
                self.prefix.upload(Path(self.folder.landing_path(table, name)), f"{encoded_folder(table)}/{name}")
        finally:
            self._may_have_unneeded[table] = True  # set after copying: a check meanwhile may have missed the copies
        places = Places(replace(self.folder.places.others, is_encoded=True))
        return Folder(self.prefix.url, places, store=BucketStore(self.prefix.client))

    def clean(self, table: TableName, applied: Collection[str] = ()) -> None:
        """Remove unneeded copies of a table after a commit, which does not depend on it.

        These are the copies of files that were `applied`, by name, and of files that are gone, as after a run that
        was killed. If S3 does not answer, the next commit tries again. Tables do not wait for each other.
        """
        with self._locks.setdefault(table, Lock()):
            applied_names = self._applied.setdefault(table, set())
            applied_names.update(applied)
            if self._may_have_unneeded.get(table, True):
                self._may_have_unneeded[table] = False  # set before the check: `share` may set it again meanwhile
                try:
                    self.prefix.remove([*self.find_unneeded(table, applied_names)])
                except (LakewardError, OSError) as error:
                    self._may_have_unneeded[table] = True
                    log.warning("copies of applied files stay for now", table=str(table), reason=str(error))
                    return
            applied_names.clear()

    def clean_all(self, table: TableName, *, is_dry: bool) -> Sequence[str]:
        """Remove what `clean` removes, and return it; with `is_dry` only return it.

        Raises if S3 does not answer.
        """
        names = [*self.find_unneeded(table)]
        if not is_dry:
            self.prefix.remove(names)
        return [self.prefix.path(name) for name in names]

    def find_unneeded(self, table: TableName, applied: Collection[str] = ()) -> Iterator[str]:
        """Yield the names of unneeded copies of a table; raises as the prefix does."""
        home, folder = encoded_folder(table), Path(self.folder.base, table.schema, table.table)
        for one in self.prefix.list(home):
            name = one.name.removeprefix(f"{home}/")
            if name in applied or not (folder / name).exists():
                yield one.name

