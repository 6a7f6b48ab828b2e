"""The inventory of a landing folder: its tables, found without reading files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_tables import ObjectTables
from lakeward.core.dimension import TableName
from lakeward.core.text.suggestions import nearest


@dataclass
class FilesSourceInventory:
    """The tables of a landing folder, as it is when it is first listed."""

    options: FilesOptions
    folder: Folder
    of_tables: Mapping[TableName, FilesOptions] = field(default_factory=dict)

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder; none if all tables share one."""
        return self._tables

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return a warning if the landing folder is missing; files name their tables, so there is no other one."""
        return self.folder.warnings()

    def match_objects(self, tables: Collection[TableName]) -> ObjectTables:
        """Return the matcher that finds which of these tables read an object, by its URL."""
        return ObjectTables(self.folder, tables)

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return warnings about a table that hold for any batch."""
        warnings = [] if self.folder.has_folder(table) else [self._no_folder(table)]
        options = self.of_tables.get(table, self.options)
        if not options.orders_rows:
            warnings.append("No `order_by` is set: the rows of a key count in the order of files and lines.")
        return [*warnings, *options.message_cautions()]

    def _no_folder(self, table: TableName) -> str:
        folders = " or ".join(dict.fromkeys(part.folder for part in self.folder.places.of(table).parts(table)))
        words = f"It has no folder yet ({folders})."
        return " ".join(filter(None, (words, nearest(str(table), map(str, self._tables)))))

    @cached_property
    def _tables(self) -> Sequence[TableName]:
        return self.folder.tables() if "{schema}" in self.options.folder else ()
