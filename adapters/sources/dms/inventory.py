"""The inventory of a DMS landing folder: its tables, and warnings about them, without reading rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.transactions.layout import match_table
from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_tables import ObjectTables
from lakeward.adapters.sources.landing.places import Part
from lakeward.core.dimension import TableName
from lakeward.core.text.suggestions import nearest


@dataclass
class DmsSourceInventory:
    """The landing folder as it is when first listed, and the index of the transaction files that were read."""

    options: DmsOptions
    folder: Folder
    staged: StagedTables | None = None

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder, or rows in transaction files that were read."""
        return sorted({*self._tables, *self._transaction_rows})

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return warnings of the whole source: no landing folder, or transaction rows of unconfigured tables."""
        row_counts = self._transaction_rows
        configured = {match_table(table, row_counts) for table in tables}
        unconfigured = {table: n for table, n in row_counts.items() if table not in configured}
        listed = ", ".join(f"{n:,} of {table}" for table, n in sorted(unconfigured.items()))
        notes = [f"Files of transactions have rows of tables nobody configured: {listed}."] if unconfigured else []
        return [*self.folder.warnings(), *notes]

    def match_objects(self, tables: Collection[TableName]) -> ObjectTables:
        """Return a function that returns the tables, among these, that read the object of a URL."""
        return ObjectTables(self.folder, tables)

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what an operator should know about a table, whatever its next batch is."""
        notes = (
            self._missing_folder_cautions(table) if self._has_folder(table) else [self._no_folder_caution(table)]
        )
        if self.options.operations != "all":
            notes.append(
                f'Deletes are lost: the endpoint leaves them out (`operations = "{self.options.operations}"`), and '
                "rows that the source deletes stay in the lake."
            )
        if self._transaction_file is not None:
            notes.append(
                f"Changes are in files of many tables ({self._transaction_file}), which are not read: name their "
                "folder by `cdc_path` under [source]."
            )
        return notes

    def _has_folder(self, table: TableName) -> bool:
        if self.staged is None:
            return self.folder.has_folder(table)
        own_folders = [part.folder.lower() for part in self._own_parts(table)]
        has_rows = match_table(table, self._transaction_rows) is not None
        return has_rows or any(folder.lower() in own_folders for folder in self.folder.folders(table))

    def _own_parts(self, table: TableName) -> Sequence[Part]:
        return [part for part in self.folder.places.of(table).parts(table) if not part.is_shared]

    def _missing_folder_cautions(self, table: TableName) -> list[str]:
        """Return a caution for each folder of the table that does not exist."""
        cautions = []
        for part in self.folder.missing_folders(table):
            content = "of its changes" if part.has_changes else "of its full load"
            description = "of the files of transactions" if part.is_shared else content
            cautions.append(
                f"The folder {description} is not there ({part.folder or '.'}), and nothing is read from it."
            )
        return cautions

    def _no_folder_caution(self, table: TableName) -> str:
        folders = " or ".join(dict.fromkeys(part.folder or "." for part in self._own_parts(table)))
        caution = f"It has no folder yet ({folders}): DMS makes none for an empty table."
        return " ".join(filter(None, (caution, nearest(str(table), map(str, self._tables)))))

    @cached_property
    def _tables(self) -> Sequence[TableName]:
        return self.folder.tables()

    @property
    def _transaction_rows(self) -> Mapping[TableName, int]:
        return {} if self.staged is None else self.staged.tables()

    @cached_property
    def _transaction_file(self) -> str | None:
        """Return a transaction file near the landing folder; None if there is none, or if `cdc_path` is set."""
        return None if self.options.cdc_path is not None else self.folder.find_by_prefix("CDC_TXN-")
