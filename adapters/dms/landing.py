"""What the landing folder says of the tables, without reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeward.adapters.dms.options import DmsOptions
from lakeward.adapters.landed.folder import Folder
from lakeward.core.dimension import TableName
from lakeward.core.nearest import nearest


@dataclass
class DmsLanding:
    """The landing folder as it is when it is first looked at."""

    options: DmsOptions
    folder: Folder

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a folder."""
        return self._tables

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what to know of a table whatever its next batch is."""
        found = [] if self.folder.is_there(table) else [self._no_folder(table)]
        if self.options.operations != "all":
            found.append(
                f'Deletes are lost: the endpoint leaves them out (`operations = "{self.options.operations}"`), and '
                "rows that the source deletes stay in the lake."
            )
        if self._transactions is not None:
            found.append(
                f"Changes are in files of many tables ({self._transactions}), which are not read. "
                "Set PreserveTransactions=false."
            )
        return found

    def _no_folder(self, table: TableName) -> str:
        folders = " or ".join(dict.fromkeys(part.folder for part in self.folder.places.of(table).parts(table)))
        words = f"It has no folder yet ({folders}): DMS makes none for an empty table."
        return " ".join(filter(None, (words, nearest(str(table), map(str, self._tables)))))

    @cached_property
    def _tables(self) -> Sequence[TableName]:
        return self.folder.tables()

    @cached_property
    def _transactions(self) -> str | None:
        """Return a file of the endpoint's CdcPath, if there is one in the landing folder or in a folder there."""
        return self.folder.beginning("CDC_TXN-")
