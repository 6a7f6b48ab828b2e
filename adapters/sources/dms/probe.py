"""The probe of a folder that DMS writes into and nobody has configured: its tables, and proposals from a few rows.

Files prove nothing for certain: a person confirms what is proposed.
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

from lakeward.adapters.sources.csv.file_form import read_utf8_head
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.csv.samples import Row, Sample, cells_of, delimiter_of, rows_of, split_headers, texts
from lakeward.adapters.sources.dms.paths.file_names import STANDARD, read_transactions
from lakeward.adapters.sources.dms.paths.place_discovery import find_places
from lakeward.adapters.sources.dms.transactions.layout import COMMIT_TIME
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import OWN_FOLDER, FileName, Place, Places, path_prefix
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError
from lakeward.core.ports import Stored
from lakeward.core.settings.proposals import Proposal, ProposedColumn, ProposedTable, proposed_key, proposed_type

SAMPLE_FILES: Final = 4
"""The number of full-load files, and of change files, that are read for each table."""

_COMMIT_TIME: Final = re.compile(COMMIT_TIME, re.ASCII)
_OPERATIONS: Final = {"I", "U", "D"}
_OP: Final = "op"
_LEAD_WIDTH: Final = 3
"""A row of a transaction file begins with the operation, the table and the schema."""

_ANY: Final = TableName("any", "any")
"""Transaction files lie in one folder, whichever table reads them."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file: its name, its path below its table's folder, and what the path states."""

    name: str
    path: str
    parsed: FileName

    @property
    def is_csv(self) -> bool:
        return self.parsed.format == "csv"


@dataclass(frozen=True, slots=True)
class DmsSourceProbe:
    """A folder, read as if DMS had written it."""

    landing: Folder

    def propose(self) -> Proposal | None:
        """Return the proposed settings, or None if no file has a name that DMS writes."""
        entries = list(self.landing.store.list(self.landing.base, None))
        folder = replace(self.landing, places=find_places(entries))
        files_of = {table: _list_files(folder, table) for table in folder.tables()}
        files_of = {table: files for table, files in files_of.items() if files}
        shared_files = _find_transaction_files(entries)
        if not (files_of or shared_files):
            return None
        heads = {table: _read_heads(folder, table, files) for table, files in files_of.items()}
        delimiter = delimiter_of([head for own in heads.values() for head in own.values() if isinstance(head, str)])
        samples = {table: split_headers(_parse_samples(own, delimiter), {_OP}) for table, own in heads.items()}
        all_samples = [sample for own in samples.values() for sample in own]
        time = _time_column(all_samples)
        tables = [
            _with_unreadable_files(_propose_table(folder, table, files, samples[table], time), heads[table])
            for table, files in files_of.items()
        ]
        settings, reasons = _propose_settings(folder.places.others, delimiter, time, all_samples)
        if shared_files:
            last, shared_heads = PurePosixPath(shared_files[0]), _read_shared_heads(self.landing, shared_files)
            tables += _propose_transaction_tables(shared_heads.values(), delimiter, files_of)
            settings["cdc_path"] = last.parent.as_posix()
            reasons["cdc_path"] = "; ".join(
                (f"files of many tables lie there, as {last.name}", *_describe_unreadable(shared_heads))
            )
        return Proposal(kind="dms", tables=tables, settings=settings, reasons=reasons)


def _list_files(folder: Folder, table: TableName) -> Sequence[_File]:
    listing, place = folder.list(table) or ((), ()), folder.places.of(table)
    folders = [path_prefix(part.folder) for part in place.parts(table)] if place.is_split else []
    return [
        _File(
            item.name,
            next(
                (
                    item.name.removeprefix(folder_prefix)
                    for folder_prefix in folders
                    if item.name.startswith(folder_prefix)
                ),
                item.name,
            ),
            place.known(table, item.name),
        )
        for item in listing[0]
    ]


def _find_transaction_files(listed: Iterable[Stored]) -> Sequence[str]:
    """Return the transaction files of the folder that has most of them, the newest first."""
    paths = [PurePosixPath(entry.name) for entry in listed if entry.size]
    candidates = [
        path
        for path in paths
        if len(path.parts) > 1 and read_transactions(path.name) is not None and not _is_hidden(path)
    ]
    if not candidates:
        return []
    fullest_folder = max(counts := Counter(path.parent for path in candidates), key=lambda at: (counts[at], at))
    return sorted((path.as_posix() for path in candidates if path.parent == fullest_folder), reverse=True)


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _read_shared_heads(landing: Folder, names: Sequence[str]) -> Mapping[str, str | SourceError]:
    """Return the beginnings of the sampled transaction files, or the error for a file that cannot be read."""
    place = Place(STANDARD, shared=PurePosixPath(names[0]).parent.as_posix())
    folder = replace(landing, places=Places(place))
    return {name: _read_head(folder, _ANY, name) for name in names[:SAMPLE_FILES]}


def _propose_transaction_tables(
    heads: Iterable[str | SourceError], delimiter: str, landed: Collection[TableName]
) -> list[ProposedTable]:
    """Return the tables with rows in transaction files and without a folder of their own."""
    rows_of_table, match_table = defaultdict[TableName, list[Row]](list), {str(table).lower() for table in landed}
    for row in (row for head in heads if isinstance(head, str) for row in rows_of(head, Dialect(delimiter))):
        operation, table, schema = row[:3] if len(row) > _LEAD_WIDTH else (None, None, None)
        if operation in _OPERATIONS and isinstance(table, str) and isinstance(schema, str):
            rows_of_table[TableName(schema, table)].append(row[_LEAD_WIDTH:])
    return [
        _propose_unnamed_columns(table, rows)
        for table, rows in sorted(rows_of_table.items())
        if str(table).lower() not in match_table
    ]


def _propose_unnamed_columns(table: TableName, rows: Sequence[Row]) -> ProposedTable:
    """Return a table that only transaction files have; they never have a header."""
    own_rows = [row[1:] if isinstance(row[0], str) and _COMMIT_TIME.fullmatch(row[0]) else row for row in rows]
    widths = sorted({len(row) for row in own_rows})
    columns = [texts([row[place] for row in own_rows if len(row) > place]) for place in range(widths[-1])]
    doubt = f"rows have {' or '.join(map(str, widths))} columns, and no header says which"
    return ProposedTable(
        name=table,
        evidence="CSV, files of many tables, no header",
        columns=tuple(
            ProposedColumn(name=f"column_{number}", type=proposed_type(cells))
            for number, cells in enumerate(columns, 1)
        ),
        has_names=False,
        cautions=() if len(widths) == 1 else (doubt,),
    )


def _propose_settings(
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


def _select_samples(files: Sequence[_File]) -> list[_File]:
    """Return the files that are read: the first of the full load, and the last changes."""
    ordered = sorted(files, key=lambda file: file.parsed.order)
    loads = [file for file in ordered if file.parsed.is_load]
    return [*loads[:SAMPLE_FILES], *[file for file in ordered if not file.parsed.is_load][-SAMPLE_FILES:]]


def _read_heads(folder: Folder, table: TableName, files: Sequence[_File]) -> Mapping[_File, str | SourceError]:
    """Return the beginnings of the sampled CSV files."""
    return {file: _read_head(folder, table, file.name) for file in _select_samples(files) if file.is_csv}


def _read_head(folder: Folder, table: TableName, name: str) -> str | SourceError:
    """Return the beginning of a CSV file, or the error for a file that cannot be read."""
    try:
        return read_utf8_head(folder, table, name)
    except SourceError as error:
        return error


def _parse_samples(heads: Mapping[_File, str | SourceError], delimiter: str) -> list[Sample]:
    return [
        Sample(file.parsed.is_load, rows_of(head, Dialect(delimiter)))
        for file, head in heads.items()
        if isinstance(head, str)
    ]


def _with_unreadable_files(table: ProposedTable, heads: Mapping[_File, str | SourceError]) -> ProposedTable:
    """Return a proposed table that also names its unreadable files as doubts."""
    return replace(
        table, cautions=(*_describe_unreadable({file.name: head for file, head in heads.items()}), *table.cautions)
    )


def _describe_unreadable(heads: Mapping[str, str | SourceError]) -> Sequence[str]:
    """Return a text for each file that cannot be read, with the reason."""
    return [f"{name} cannot be read: {head.found}" for name, head in heads.items() if not isinstance(head, str)]


def _has_op(sample: Sample) -> bool:
    if sample.header:
        return sample.header[0].lower() == _OP
    return bool(sample.rows) and all(row[0] in _OPERATIONS for row in sample.rows)


def _time_column(samples: Sequence[Sample]) -> str | None:
    """Return the name of the commit-time column if every file has one where DMS puts it, else None."""
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


def _propose_table(
    folder: Folder, table: TableName, files: Sequence[_File], samples: Sequence[Sample], time: str | None
) -> ProposedTable:
    load_flags = {file.parsed.is_load for file in files}
    kinds = " + ".join(kind for kind, is_load in (("full load", True), ("changes", False)) if is_load in load_flags)
    if not any(file.is_csv for file in _select_samples(files)):
        return _propose_parquet_table(folder, table, files, kinds)
    header = next((sample.header for sample in reversed(samples) if sample.header), ())
    cautions = []
    if not any(not sample.is_load or _has_op(sample) for sample in samples):
        cautions.append("no file of changes yet: whether the endpoint writes Op and a commit time cannot be seen")
    if all(file.parsed.is_load and "/" in file.path for file in files):
        inner = sorted({file.path.split("/")[0] for file in files})
        cautions.append(
            f"all its files lie in folders within ({', '.join(inner[:3])}): is {table} a table of segments?"
        )
    own_samples = [_drop_added_columns(sample, time) for sample in samples]
    widths = {len(row) for sample in own_samples for row in sample.rows}
    if not header and len(widths) != 1:
        width_texts = " or ".join(map(str, sorted(widths))) or "no"
        cautions.append(f"rows have {width_texts} columns, and no header says which")
    own = [name for name in header if name.lower() != _OP and name != time]
    columns = own or [f"column_{number}" for number in range(1, max(widths, default=0) + 1)]
    cells = {
        name: [value for sample in own_samples for value in cells_of(sample, name, columns)] for name in columns
    }
    loaded = [row for sample in own_samples if sample.is_load for row in sample.rows if len(row) == len(columns)]
    return ProposedTable(
        name=table,
        evidence=f"CSV, {kinds}, {'header' if header else 'no header'}",
        columns=tuple(ProposedColumn(name=name, type=proposed_type(cells[name])) for name in columns),
        key=proposed_key(table.table, columns, [texts(row) for row in loaded]) if header else (),
        has_names=bool(header),
        cautions=tuple(cautions),
    )


def _drop_added_columns(sample: Sample, time: str | None) -> Sample:
    """Return a sample without the columns that DMS adds."""
    added = int(_has_op(sample)) + (time is not None)
    return replace(sample, rows=[row[added:] for row in sample.rows], header=sample.header[added:])


def _propose_parquet_table(folder: Folder, table: TableName, files: Sequence[_File], kinds: str) -> ProposedTable:
    """Return a table of Parquet files, which have their own column names and types."""
    name = _select_samples(files)[-1].name
    try:
        column_names = pq.read_schema(folder.path(table, name)).names
    except (pa.ArrowException, OSError, LakewardError) as error:
        return ProposedTable(
            name=table, evidence=f"Parquet, {kinds}", cautions=(f"{name} cannot be read: {error}",)
        )
    columns = tuple(ProposedColumn(name=column) for column in column_names if column.lower() != _OP)
    return ProposedTable(name=table, evidence=f"Parquet, {kinds}", columns=columns)
