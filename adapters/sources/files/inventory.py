"""What the landing folder says of the tables, without reading them."""

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
    """The landing folder as it is when it is first looked at."""

    options: FilesOptions
    folder: Folder
    of_tables: Mapping[TableName, FilesOptions] = field(default_factory=dict)

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder; none where all share one, which no name tells."""
        return self._tables

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return that the folder is missing: each file is of one table, or says itself what its rows are."""
        return self.folder.words()

    def match_objects(self, tables: Collection[TableName]) -> ObjectTables:
        """Return what tells which of these tables read an object, by its URL."""
        return ObjectTables(self.folder, tables)

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what to know of a table whatever its next batch is."""
        found = [] if self.folder.is_there(table) else [self._no_folder(table)]
        options = self.of_tables.get(table, self.options)
        if not options.orders_rows:
            found.append("No `order_by` is set: the rows of a key count in the order of files and lines.")
        return [*found, *options.message_cautions()]

    def _no_folder(self, table: TableName) -> str:
        folders = " or ".join(dict.fromkeys(part.folder for part in self.folder.places.of(table).parts(table)))
        words = f"It has no folder yet ({folders})."
        return " ".join(filter(None, (words, nearest(str(table), map(str, self._tables)))))

    @cached_property
    def _tables(self) -> Sequence[TableName]:
        return self.folder.tables() if "{schema}" in self.options.folder else ()
