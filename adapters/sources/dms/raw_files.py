"""Descriptions of DMS folders as tables for other engines: raw rows, before any rule.

An engine reads a folder as one table, so its files must have the same columns: CSV by position, all of them texts,
and Parquet by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.sources.csv.layout import BEFORE, IGNORED, OP, SEQUENCE, TIME
from lakeward.adapters.sources.dms.file_columns import File
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import CsvForm, DescribedColumn, TableDescription
from lakeward.core.schema import Type

LOAD: Final = "__load"
"""The suffix of the table of a full load, where its folder is not that of the changes."""


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The raw files of tables; `inspect` returns a file with its layout or schema."""

    options: DmsOptions
    folder: Folder
    inspect: Callable[[Dimension, SourceObject], File]

    def describe(self, dimension: Dimension, namespace: str) -> Iterator[TableDescription]:
        """Yield the folders of a table in a namespace, by the newest file of the full load and of the changes.

        Raises SourceError where the files of a folder cannot be one table.
        """
        table, place = dimension.source, self.folder.places.of(dimension.source)
        listed, _ = self.folder.list(table) or ((), ())
        newest: dict[bool, SourceObject] = {}
        for item in sorted(listed, key=lambda item: item.order):
            name = place.known(table, item.name)
            if not name.is_shared:
                newest[name.is_load] = item
        for part in place.parts(table):
            kinds = [kind for kind, is_there in ((True, part.has_load), (False, part.has_changes)) if is_there]
            files = [
                self.inspect(dimension, newest[kind]) for kind in kinds if kind in newest and not part.is_shared
            ]
            if files:
                suffix = LOAD if place.is_split and part.has_load else ""
                location = f"{self.folder.base}/{part.folder}".rstrip("/")
                yield self._describe(dimension, files, (namespace, f"{table.table}{suffix}"), location)

    def _describe(
        self, dimension: Dimension, files: Sequence[File], identifier: tuple[str, str], location: str
    ) -> TableDescription:
        columns = [self._columns(file) for file in files]
        is_csv = [file.layout is not None for file in files]
        heads = [(*own, file.layout.has_header) for own, file in zip(columns, files, strict=True) if file.layout]
        if any(is_csv) and (not all(is_csv) or len({*map(str, heads)}) > 1):
            raise SourceError(
                f"{dimension.name}: its files cannot be one table for an engine that reads folders",
                found=f"{' and '.join(file.object.name for file in files)} do not have the same columns, by place: "
                "files of a full load have no Op unless the endpoint has IncludeOpForFullLoad",
                todo="Set it, or let the full load lie apart (`load` and `changes` under [source]), or leave `raw` "
                "under [registration] out.",
            )
        _check_types(dimension, files, columns)
        merged = {column.name: column for own in columns for column in own}
        layout = files[-1].layout
        return TableDescription(
            namespace=identifier[0],
            name=identifier[1],
            format="parquet" if layout is None else "csv",
            location=location,
            columns=tuple(merged.values()),
            csv=None if layout is None else self._form(has_header=layout.has_header),
            is_raw=True,
        )

    def _form(self, *, has_header: bool) -> CsvForm:
        o = self.options
        return CsvForm(delimiter=o.delimiter, quote=o.quote, null_text=o.null_text, has_header=has_header)

    def _columns(self, file: File) -> Sequence[DescribedColumn]:
        if file.layout is None:
            written: Mapping[str, str] = dict(file.written)
            schema = file.schema or ()
            return [DescribedColumn(name=written.get(one.name, one.name), type=one.type) for one in schema]
        return [DescribedColumn(name=self._name(column), type=Type("string")) for column in file.layout.columns]

    def _name(self, column: str) -> str:
        o = self.options
        added = {OP: o.op_column, TIME: o.timestamp_column, SEQUENCE: o.sequence_column}
        for prefix in (BEFORE, IGNORED):
            if column.startswith(prefix):
                return f"{o.before_image_prefix}{column.removeprefix(prefix)}"
        return added.get(column) or column


def _check_types(dimension: Dimension, files: Sequence[File], columns: Sequence[Sequence[DescribedColumn]]) -> None:
    """Raise SourceError where a column has two types in two files."""
    first_uses: dict[str, tuple[DescribedColumn, File]] = {}
    for file, own in zip(files, columns, strict=True):
        for column in own:
            before, other = first_uses.setdefault(column.name, (column, file))
            if before.type != column.type:
                raise SourceError(
                    f"{dimension.name}: its files cannot be one table for an engine that reads folders",
                    found=f"{column.name} is {before.type} in {other.object.name} and {column.type} in "
                    f"{file.object.name}",
                    todo="Load the table anew where its source has changed the type, or let the full load lie "
                    "apart (`load` and `changes` under [source]), or leave `raw` under [registration] out.",
                )
