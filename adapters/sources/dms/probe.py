"""Looking at a folder that DMS writes into and nobody configured yet: its tables, and what a sample of rows shows.

Nothing is known for certain from files. What is proposed is for a person to confirm.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.adapters.sources.csv.file_form import head_in_utf_8
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.csv.samples import Row, Sample, cells_of, delimiter_of, rows_of, texts, with_headers
from lakeward.adapters.sources.dms.paths.file_names import STANDARD, read_transactions
from lakeward.adapters.sources.dms.paths.place_discovery import find_places
from lakeward.adapters.sources.dms.transactions.layout import COMMIT_TIME
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import OWN_FOLDER, FileName, Place, Places, below
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError
from lakeward.core.ports import Stored
from lakeward.core.settings.proposals import Proposal, ProposedColumn, ProposedTable, proposed_key, proposed_type

SAMPLES: Final = 4
"""So many files of a full load, and so many of changes, are looked into."""

_COMMIT_TIME: Final = re.compile(COMMIT_TIME, re.ASCII)
_OPERATIONS: Final = {"I", "U", "D"}
_OP: Final = "op"
_BEFORE: Final = 3
"""A row of a file of transactions begins with the operation, the table and the schema."""

_ANY: Final = TableName("any", "any")
"""Files of transactions lie where they lie for every table."""


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
class DmsSourceProbe:
    """Looks at a folder as if DMS wrote it."""

    landing: Folder

    def look(self) -> Proposal | None:
        """Return what there is, or None where no file has a name that DMS gives."""
        entries = [*self.landing.store.list(self.landing.base, None)]
        folder = replace(self.landing, places=find_places(entries))
        listed = {table: _files(folder, table) for table in folder.tables()}
        listed = {table: files for table, files in listed.items() if files}
        shared = _transactions(entries)
        if not (listed or shared):
            return None
        heads = {table: _heads(folder, table, files) for table, files in listed.items()}
        delimiter = delimiter_of([head for own in heads.values() for head in own.values() if isinstance(head, str)])
        samples = {table: with_headers(_samples(own, delimiter), {_OP}) for table, own in heads.items()}
        every = [sample for own in samples.values() for sample in own]
        time = _time_column(every)
        tables = [
            _doubted(_table(folder, table, files, samples[table], time), heads[table])
            for table, files in listed.items()
        ]
        settings, reasons = _settings(folder.places.others, delimiter, time, every)
        if shared:
            at, found = PurePosixPath(shared[0]), _shared_heads(self.landing, shared)
            tables += _in_transactions(found.values(), delimiter, listed)
            settings["cdc_path"] = at.parent.as_posix()
            reasons["cdc_path"] = "; ".join((f"files of many tables lie there, as {at.name}", *_damaged(found)))
        return Proposal(kind="dms", tables=tables, settings=settings, reasons=reasons)


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


def _transactions(listed: Iterable[Stored]) -> Sequence[str]:
    """Return the files of transactions in the folder that has the most of them, the last ones first."""
    paths = [PurePosixPath(entry.name) for entry in listed if entry.size]
    found = [
        path
        for path in paths
        if len(path.parts) > 1 and read_transactions(path.name) is not None and not _is_hidden(path)
    ]
    if not found:
        return []
    most = max(counted := Counter(path.parent for path in found), key=lambda at: (counted[at], at))
    return sorted((path.as_posix() for path in found if path.parent == most), reverse=True)


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _shared_heads(landing: Folder, names: Sequence[str]) -> Mapping[str, str | SourceError]:
    """Return the beginnings of the files of transactions that are looked into."""
    place = Place(STANDARD, shared=PurePosixPath(names[0]).parent.as_posix())
    folder = replace(landing, places=Places(place))
    return {name: _head(folder, _ANY, name) for name in names[:SAMPLES]}


def _in_transactions(
    heads: Iterable[str | SourceError], delimiter: str, known: Collection[TableName]
) -> list[ProposedTable]:
    """Return the tables that files of transactions have rows of and that have no folder of their own."""
    found, spelled = defaultdict[TableName, list[Row]](list), {str(table).lower() for table in known}
    for row in (row for head in heads if isinstance(head, str) for row in rows_of(head, Dialect(delimiter))):
        operation, table, schema = row[:3] if len(row) > _BEFORE else (None, None, None)
        if operation in _OPERATIONS and isinstance(table, str) and isinstance(schema, str):
            found[TableName(schema, table)].append(row[_BEFORE:])
    return [_of_rows(table, rows) for table, rows in sorted(found.items()) if str(table).lower() not in spelled]


def _of_rows(table: TableName, rows: Sequence[Row]) -> ProposedTable:
    """Return a table that files of transactions alone have rows of; they never have a header."""
    plain = [row[1:] if isinstance(row[0], str) and _COMMIT_TIME.fullmatch(row[0]) else row for row in rows]
    widths = sorted({len(row) for row in plain})
    columns = [texts([row[place] for row in plain if len(row) > place]) for place in range(widths[-1])]
    said = f"rows have {' or '.join(map(str, widths))} columns, and no header says which"
    return ProposedTable(
        name=table,
        found="CSV, files of many tables, no header",
        columns=tuple(
            ProposedColumn(name=f"column_{number}", type=proposed_type(cells))
            for number, cells in enumerate(columns, 1)
        ),
        has_names=False,
        doubts=() if len(widths) == 1 else (said,),
    )


def _settings(
    place: Place, delimiter: str, time: str | None, samples: Sequence[Sample]
) -> tuple[dict[str, str], dict[str, str]]:
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
    return settings, reasons


def _chosen(files: Sequence[_File]) -> list[_File]:
    """Return the files that are looked into: the first of a full load, and the last changes."""
    ordered = sorted(files, key=lambda file: file.said.order)
    loads = [file for file in ordered if file.said.is_load]
    return [*loads[:SAMPLES], *[file for file in ordered if not file.said.is_load][-SAMPLES:]]


def _heads(folder: Folder, table: TableName, files: Sequence[_File]) -> Mapping[_File, str | SourceError]:
    """Return the beginnings of the CSV files that are looked into."""
    return {file: _head(folder, table, file.name) for file in _chosen(files) if file.is_csv}


def _head(folder: Folder, table: TableName, name: str) -> str | SourceError:
    """Return the beginning of a CSV file; of one that cannot be read, why."""
    try:
        return head_in_utf_8(folder, table, name)
    except SourceError as error:
        return error


def _samples(heads: Mapping[_File, str | SourceError], delimiter: str) -> list[Sample]:
    return [
        Sample(file.said.is_load, rows_of(head, Dialect(delimiter)))
        for file, head in heads.items()
        if isinstance(head, str)
    ]


def _doubted(table: ProposedTable, heads: Mapping[_File, str | SourceError]) -> ProposedTable:
    """Say of a table which of its files cannot be read; the others say what it is."""
    return replace(table, doubts=(*_damaged({file.name: head for file, head in heads.items()}), *table.doubts))


def _damaged(heads: Mapping[str, str | SourceError]) -> Sequence[str]:
    """Say which files cannot be read, and why."""
    return [f"{name} cannot be read: {head.found}" for name, head in heads.items() if not isinstance(head, str)]


def _has_op(sample: Sample) -> bool:
    if sample.header:
        return sample.header[0].lower() == _OP
    return bool(sample.rows) and all(row[0] in _OPERATIONS for row in sample.rows)


def _time_column(samples: Sequence[Sample]) -> str | None:
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
    folder: Folder, table: TableName, files: Sequence[_File], samples: Sequence[Sample], time: str | None
) -> ProposedTable:
    has = {file.said.is_load for file in files}
    kinds = " + ".join(word for word, is_load in (("full load", True), ("changes", False)) if is_load in has)
    if not any(file.is_csv for file in _chosen(files)):
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
        found = " or ".join(map(str, sorted(widths))) or "no"
        doubts.append(f"rows have {found} columns, and no header says which")
    own = [name for name in header if name.lower() != _OP and name != time]
    columns = own or [f"column_{number}" for number in range(1, max(widths, default=0) + 1)]
    cells = {name: [value for sample in plain for value in cells_of(sample, name, columns)] for name in columns}
    loaded = [row for sample in plain if sample.is_load for row in sample.rows if len(row) == len(columns)]
    return ProposedTable(
        name=table,
        found=f"CSV, {kinds}, {'header' if header else 'no header'}",
        columns=tuple(ProposedColumn(name=name, type=proposed_type(cells[name])) for name in columns),
        key=proposed_key(table.table, columns, [texts(row) for row in loaded]) if header else (),
        has_names=bool(header),
        doubts=tuple(doubts),
    )


def _without_added(sample: Sample, time: str | None) -> Sample:
    """Leave out the columns that DMS adds."""
    added = int(_has_op(sample)) + (time is not None)
    return replace(sample, rows=[row[added:] for row in sample.rows], header=sample.header[added:])


def _of_parquet(folder: Folder, table: TableName, files: Sequence[_File], kinds: str) -> ProposedTable:
    """Return a table whose files say their columns and types themselves."""
    name = _chosen(files)[-1].name
    try:
        found = pq.read_schema(folder.path(table, name)).names
    except (pa.ArrowException, OSError, LakewardError) as error:
        return ProposedTable(name=table, found=f"Parquet, {kinds}", doubts=(f"{name} cannot be read: {error}",))
    columns = tuple(ProposedColumn(name=column) for column in found if column.lower() != _OP)
    return ProposedTable(name=table, found=f"Parquet, {kinds}", columns=columns)
