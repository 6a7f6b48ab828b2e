"""What the landing folder says of the tables, without reading them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.transactions.layout import spelled
from lakeward.adapters.sources.dms.transactions.staged_tables import Staged
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_tables import ObjectTables
from lakeward.adapters.sources.landing.places import Part
from lakeward.core.dimension import TableName
from lakeward.core.text.suggestions import nearest


@dataclass
class DmsSourceInventory:
    """The landing folder as it is when it is first looked at, and what files of transactions were found to hold."""

    options: DmsOptions
    folder: Folder
    staged: Staged | None = None

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder, or rows in files of transactions that were read."""
        return sorted({*self._tables, *self._in_transactions})

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return that the folder is missing, or which rows in files of transactions nobody configured."""
        there = self._in_transactions
        read = {spelled(table, there) for table in tables}
        rows = {table: n for table, n in there.items() if table not in read}
        listed = ", ".join(f"{n:,} of {table}" for table, n in sorted(rows.items()))
        found = [f"Files of transactions have rows of tables nobody configured: {listed}."] if rows else []
        return [*self.folder.words(), *found]

    def match_objects(self, tables: Collection[TableName]) -> ObjectTables:
        """Return what tells which of these tables read an object, by its URL."""
        return ObjectTables(self.folder, tables)

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what to know of a table whatever its next batch is."""
        found = self._words_of_missing(table) if self._is_there(table) else [self._no_folder(table)]
        if self.options.operations != "all":
            found.append(
                f'Deletes are lost: the endpoint leaves them out (`operations = "{self.options.operations}"`), and '
                "rows that the source deletes stay in the lake."
            )
        if self._transactions is not None:
            found.append(
                f"Changes are in files of many tables ({self._transactions}), which are not read: name their "
                "folder by `cdc_path` under [source]."
            )
        return found

    def _is_there(self, table: TableName) -> bool:
        if self.staged is None:
            return self.folder.is_there(table)
        own = [part.folder.lower() for part in self._own_parts(table)]
        is_in = spelled(table, self._in_transactions) is not None
        return is_in or any(folder.lower() in own for folder in self.folder.folders(table))

    def _own_parts(self, table: TableName) -> Sequence[Part]:
        return [part for part in self.folder.places.of(table).parts(table) if not part.is_shared]

    def _words_of_missing(self, table: TableName) -> list[str]:
        """Return which of several folders of a table are not there."""
        found = []
        for part in self.folder.missing(table):
            own = "of its changes" if part.has_changes else "of its full load"
            which = "of the files of transactions" if part.is_shared else own
            found.append(f"The folder {which} is not there ({part.folder or '.'}), and nothing is read from it.")
        return found

    def _no_folder(self, table: TableName) -> str:
        folders = " or ".join(dict.fromkeys(part.folder or "." for part in self._own_parts(table)))
        words = f"It has no folder yet ({folders}): DMS makes none for an empty table."
        return " ".join(filter(None, (words, nearest(str(table), map(str, self._tables)))))

    @cached_property
    def _tables(self) -> Sequence[TableName]:
        return self.folder.tables()

    @property
    def _in_transactions(self) -> Mapping[TableName, int]:
        return {} if self.staged is None else self.staged.tables()

    @cached_property
    def _transactions(self) -> str | None:
        """Return a file of the endpoint's CdcPath, if there is one near and the settings do not name its folder."""
        return None if self.options.cdc_path is not None else self.folder.beginning("CDC_TXN-")
