"""Looking at a folder that DMS writes into and nobody configured yet: its tables, and what a sample of rows shows.

Nothing is known for certain from files. What is proposed is for a person to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.adapters.dms.apart import find_places
from lakeward.adapters.landed.csv import Dialect, Field, records
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.places import OWN_FOLDER, FileName, Place, below
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.proposals import Proposal, ProposedColumn, ProposedTable, proposed_key, proposed_type

DELIMITERS: Final = (",", ";", "\t", "|")
SAMPLES: Final = 4
"""So many files of a full load, and so many of changes, are looked into."""

_COMMIT_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}", re.ASCII)
_OPERATIONS: Final = {"I", "U", "D"}
_NAME: Final = re.compile(r"[^\W\d][\w $#.-]*")

Row = Sequence[Field]


@dataclass(frozen=True, slots=True)
class _File:
    """A file: its name, its path below the folder that it was found in, and what that says."""

    name: str
    path: str
    said: FileName

    @property
    def is_csv(self) -> bool:
        return self.said.format == "csv"


@dataclass(frozen=True, slots=True)
class _Sample:
    """The first rows of a file; `header` are the names that it begins with, if it does."""

    is_load: bool
    rows: Sequence[Row]
    header: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DmsScout:
    """Looks at a folder as if DMS wrote it."""

    root: Path

    def look(self) -> Proposal | None:
        """Return what there is, or None where no file has a name that DMS gives."""
        folder = Folder(self.root, find_places(self.root))
        listed = {table: _files(folder, table) for table in folder.tables()}
        listed = {table: files for table, files in listed.items() if files}
        if not listed:
            return None
        csv = [(table, file.name) for table, files in listed.items() for file in _chosen(files) if file.is_csv]
        delimiter = _delimiter([folder.head(table, name) for table, name in csv])
        samples = {
            table: _with_headers(_samples(folder, table, files, delimiter)) for table, files in listed.items()
        }
        every = [sample for own in samples.values() for sample in own]
        time = _time_column(every)
        tables = [_table(folder, table, files, samples[table], time) for table, files in listed.items()]
        return Proposal(kind="dms", tables=tables, **_settings(folder.places.others, delimiter, time, every))


def _files(folder: Folder, table: TableName) -> Sequence[_File]:
    found, place = folder.list(table) or ((), ()), folder.places.of(table)
    folders = [below(part.folder) for part in place.parts(table)] if place.is_split else []
    return [
        _File(
            item.name,
            next((item.name.removeprefix(own) for own in folders if item.name.startswith(own)), item.name),
            place.known(table, item.name),
        )
        for item in found[0]
    ]


def _settings(
    place: Place, delimiter: str, time: str | None, samples: Sequence[_Sample]
) -> Mapping[str, Mapping[str, str]]:
    settings, reasons = dict[str, str](), dict[str, str]()
    if (place.load, place.changes) != (OWN_FOLDER, OWN_FOLDER):
        settings |= {"load": place.load, "changes": place.changes}
        reasons |= dict.fromkeys(settings, "files of the same tables were found there: confirm it")
    if delimiter != ",":
        settings["delimiter"], reasons["delimiter"] = delimiter, "the first rows of the files have it"
    if time is not None:
        settings["timestamp_column"] = time
        reasons["timestamp_column"] = "the first column looks like the commit time that DMS adds: confirm it"
    changes = [sample for sample in samples if not sample.is_load and sample.rows]
    if changes and not any(map(_has_op, changes)):
        settings["operations"] = "inserts_and_updates"
        reasons["operations"] = (
            "files of changes have no operation: `inserts` with CdcInsertsOnly. Deletes are lost"
        )
    return {"settings": settings, "reasons": reasons}


def _chosen(files: Sequence[_File]) -> list[_File]:
    """Return the files that are looked into: the first of a full load, and the last changes."""
    ordered = sorted(files, key=lambda file: file.said.order)
    loads = [file for file in ordered if file.said.is_load]
    return [*loads[:SAMPLES], *[file for file in ordered if not file.said.is_load][-SAMPLES:]]


def _delimiter(heads: Sequence[str]) -> str:
    """Return the delimiter by which the rows have the most columns, as many in each row."""

    def columns(delimiter: str) -> int:
        widths = []
        for head in heads:
            found = {len(row) for row in _rows(head, delimiter)}
            widths.append(found.pop() if len(found) == 1 else 1)
        return min(widths, default=1)

    return max(DELIMITERS, key=columns)


def _rows(head: str, delimiter: str) -> list[Row]:
    found = [record.fields for record in records(head, Dialect(delimiter)) if record.text.strip("\r")]
    return [tuple(_without_cr(field) for field in row) for row in found if row is not None]


def _without_cr(field: Field) -> Field:
    return field.removesuffix("\r") if isinstance(field, str) else field


def _samples(folder: Folder, table: TableName, files: Sequence[_File], delimiter: str) -> list[_Sample]:
    chosen = [file for file in _chosen(files) if file.is_csv]
    return [_Sample(file.said.is_load, _rows(folder.head(table, file.name), delimiter)) for file in chosen]


def _with_headers(samples: Sequence[_Sample]) -> list[_Sample]:
    """Tell headers from rows: they are names, and each file of the table begins with much the same."""
    firsts = [sample.rows[0] for sample in samples if sample.rows]
    if not firsts or not all(_may_be_header(row) for row in firsts):
        return [*samples]
    is_said = any(str(row[0]).lower() == "op" for row in firsts)
    common = set.intersection(*[{str(name).lower() for name in row} for row in firsts])
    repeats = len(firsts) > 1 and len(common) > max(map(len, firsts)) / 2
    if not (is_said or repeats or any(_differs(sample.rows) for sample in samples if sample.rows)):
        return [*samples]
    return [
        replace(sample, header=[str(name) for name in sample.rows[0]], rows=sample.rows[1:])
        if sample.rows
        else sample
        for sample in samples
    ]


def _may_be_header(row: Row) -> bool:
    names = [field for field in row if isinstance(field, str) and _NAME.fullmatch(field)]
    return len({name.lower() for name in names}) == len(row)


def _differs(rows: Sequence[Row]) -> bool:
    """Tell whether the first row is a text where all others have another type."""
    columns = list(zip(*[row for row in rows[1:] if len(row) == len(rows[0])], strict=True))
    return any(str(proposed_type(_texts(column))) != "string" for column in columns)


def _texts(column: Sequence[Field]) -> list[str | None]:
    return [field if isinstance(field, str) else None for field in column]


def _has_op(sample: _Sample) -> bool:
    if sample.header:
        return sample.header[0].lower() == "op"
    return bool(sample.rows) and all(row[0] in _OPERATIONS for row in sample.rows)


def _time_column(samples: Sequence[_Sample]) -> str | None:
    """Return the column of the commit time, where each file has one in the place that DMS puts it."""
    names = set()
    for sample in samples:
        place = int(_has_op(sample))
        cells = [row[place] for row in sample.rows if len(row) > place]
        if not sample.rows:
            continue
        if not all(isinstance(cell, str) and _COMMIT_TIME.fullmatch(cell) for cell in cells):
            return None
        names.add(sample.header[place] if sample.header else "commit_time")
    return names.pop() if len(names) == 1 else None


def _table(
    folder: Folder, table: TableName, files: Sequence[_File], samples: Sequence[_Sample], time: str | None
) -> ProposedTable:
    has = {file.said.is_load for file in files}
    kinds = " + ".join(word for word, is_load in (("full load", True), ("changes", False)) if is_load in has)
    if not samples:
        return _of_parquet(folder, table, files, kinds)
    header = next((sample.header for sample in reversed(samples) if sample.header), ())
    doubts = []
    if not any(not sample.is_load or _has_op(sample) for sample in samples):
        doubts.append("no file of changes yet: whether the endpoint writes Op and a commit time cannot be seen")
    if all(file.said.is_load and "/" in file.path for file in files):
        inner = sorted({file.path.split("/")[0] for file in files})
        doubts.append(
            f"all its files lie in folders within ({', '.join(inner[:3])}): is {table} a table of segments?"
        )
    plain = [_without_added(sample, time) for sample in samples]
    widths = {len(row) for sample in plain for row in sample.rows}
    if not header and len(widths) != 1:
        doubts.append(f"rows have {' or '.join(map(str, sorted(widths)))} columns, and no header says which")
    own = [name for name in header if name.lower() != "op" and name != time]
    columns = own or [f"column_{number}" for number in range(1, max(widths, default=0) + 1)]
    cells = {name: [value for sample in plain for value in _values(sample, name, columns)] for name in columns}
    loaded = [row for sample in plain if sample.is_load for row in sample.rows if len(row) == len(columns)]
    return ProposedTable(
        name=table,
        found=f"CSV, {kinds}, {'header' if header else 'no header'}",
        columns=tuple(ProposedColumn(name=name, type=proposed_type(cells[name])) for name in columns),
        key=proposed_key(table.table, columns, [_texts(row) for row in loaded]) if header else (),
        has_names=bool(header),
        doubts=tuple(doubts),
    )


def _without_added(sample: _Sample, time: str | None) -> _Sample:
    """Leave out the columns that DMS adds."""
    added = int(_has_op(sample)) + (time is not None)
    return replace(sample, rows=[row[added:] for row in sample.rows], header=sample.header[added:])


def _values(sample: _Sample, name: str, columns: Sequence[str]) -> list[str | None]:
    names = sample.header or columns
    if name not in names:
        return []
    place = list(names).index(name)
    return _texts([row[place] for row in sample.rows if len(row) == len(names)])


def _of_parquet(folder: Folder, table: TableName, files: Sequence[_File], kinds: str) -> ProposedTable:
    """Return a table whose files say their columns and types themselves."""
    name = _chosen(files)[-1].name
    try:
        found = pq.read_schema(folder.path(table, name)).names
    except (pa.ArrowException, OSError, LakewardError) as error:
        return ProposedTable(name=table, found=f"Parquet, {kinds}", doubts=(f"{name} cannot be read: {error}",))
    columns = tuple(ProposedColumn(name=column) for column in found if column.lower() != "op")
    return ProposedTable(name=table, found=f"Parquet, {kinds}", columns=columns)
