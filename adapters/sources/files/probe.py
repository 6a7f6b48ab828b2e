"""The probe of a folder of plain files that is not configured yet: it proposes tables from a sample of rows.

Nothing is certain from files alone, so a person must confirm the proposal.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.adapters.sources.csv.file_form import read_utf8_head
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.csv.samples import Sample, cells_of, delimiter_of, rows_of, split_headers
from lakeward.adapters.sources.files.paths.file_names import FileNames, natural_sort_key
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places, format_of, has_format
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.schema import Type
from lakeward.core.settings.proposals import Proposal, ProposedColumn, ProposedTable, proposed_key, proposed_type

SAMPLES: Final = 4
"""How many files of a table are sampled: the last ones."""

MOST_ROWS: Final = 1000
"""How many rows of each file are sampled."""

_DATE_FOLDER: Final = re.compile(r"[\d_-]+|.*=.*")
"""The name of a folder within that of a table: a date, or `dt=2026-11-21` as written by Hive."""

_OPERATIONS: Final = {"I", "U", "D"}
_ORDERS: Final = ("timestamp_ntz", "date")


@dataclass(frozen=True, slots=True)
class FilesSourceProbe:
    """The probe of a folder with CSV, JSON lines or Parquet in folders `schema/table`, or `table` of one schema."""

    landing: Folder

    def propose(self) -> Proposal | None:
        """Return the proposal, or None if no folder has files of a known format."""
        tables = _tables(self.landing)
        if not tables:
            return None
        proposed = [self._propose(table, at, names) for (table, at), names in sorted(tables.items())]
        return Proposal(kind="files", tables=proposed, is_named=False)

    def _propose(self, table: TableName, at: str, names: Sequence[str]) -> ProposedTable:
        own = {} if at == f"{table.schema}/{table.table}" else {"folder": at}
        folder = replace(self.landing, places=Places(Place(FileNames(), at, at)))
        chosen, formats = sorted(names, key=natural_sort_key)[-SAMPLES:], {format_of(name) for name in names}
        kinds = " and ".join(
            {"csv": "CSV", "json": "JSON lines", "parquet": "Parquet"}[one] for one in sorted(formats)
        )
        if len(formats) > 1:
            cautions = ("its files have several formats: is it one table?",)
            return ProposedTable(name=table, evidence=kinds, source=own, cautions=cautions)
        propose = {"csv": _of_csv, "json": _of_json, "parquet": _of_parquet}[formats.pop()]
        try:
            return propose(folder, table, chosen, own)
        except (pa.ArrowException, OSError, ValueError, LakewardError) as error:
            cautions = (f"its files cannot be read: {error}",)
            return ProposedTable(name=table, evidence=kinds, source=own, cautions=cautions)


def _tables(landing: Folder) -> Mapping[tuple[TableName, str], Sequence[str]]:
    """Return the files of each table, as paths below its folder, by its name and its folder below the root."""
    within = defaultdict[int, dict[tuple[TableName, str], list[str]]](lambda: defaultdict(list))
    for entry in landing.store.list(landing.base, None):
        *folders, name = PurePosixPath(entry.name).parts
        if not (entry.size and has_format(name)) or any(part[0] in "._" for part in (*folders, name)):
            continue
        above = next((place for place, part in enumerate(folders) if _DATE_FOLDER.fullmatch(part)), len(folders))
        depth = min(above, 2)
        if depth:
            schema, table = folders[:2] if depth > 1 else (PurePosixPath(landing.base).name, folders[0])
            at = "/".join(folders[:depth])
            within[depth][TableName(schema, table), at].append("/".join((*folders[depth:], name)))
    return within[max(within)] if within else {}


def _of_csv(folder: Folder, table: TableName, names: Sequence[str], own: Mapping[str, str]) -> ProposedTable:
    heads = [read_utf8_head(folder, table, name) for name in names]
    delimiter = delimiter_of(heads)
    dialect = Dialect(delimiter, null_text="")
    samples = split_headers([Sample(is_load=True, rows=rows_of(head, dialect)[:MOST_ROWS]) for head in heads])
    header = next((sample.header for sample in reversed(samples) if sample.header), ())
    widths = {len(row) for sample in samples for row in sample.rows}
    cautions = []
    if not header and len(widths) != 1:
        cautions.append(
            f"rows have {' or '.join(map(str, sorted(widths))) or 'no'} columns, and no header says which"
        )
    columns = [*header] or [f"column_{number}" for number in range(1, max(widths, default=0) + 1)]
    cells = {name: [value for sample in samples for value in cells_of(sample, name, columns)] for name in columns}
    return _proposed(
        table,
        f"CSV, {'header' if header else 'no header'}",
        {name: proposed_type(values) for name, values in cells.items()},
        cells,
        source={**own, **({} if delimiter == "," else {"delimiter": delimiter})},
        has_names=bool(header),
        cautions=cautions,
    )


def _of_json(folder: Folder, table: TableName, names: Sequence[str], own: Mapping[str, str]) -> ProposedTable:
    heads = [read_utf8_head(folder, table, name) for name in names]
    lines = [line for head in heads for line in head.splitlines()[:MOST_ROWS] if line.strip()]
    rows = [parsed for line in lines if isinstance(parsed := _json(line), dict)]
    if len(rows) < len(lines):
        cautions = ("not every line of its files is a JSON object: files must have one a line",)
        return ProposedTable(name=table, evidence="JSON", source=own, cautions=cautions)
    if rows and all("payload" in row or {"op", "after"} <= row.keys() for row in rows):
        cautions = (
            'its lines look like messages of Debezium: `format = "debezium"` (docs/reference/plain-files.md)',
        )
        return ProposedTable(name=table, evidence="JSON lines, messages", source=own, cautions=cautions)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    cells = {name: [_text(row.get(name)) for row in rows] for name in columns}
    return _proposed(
        table, "JSON lines", {name: _type(parsed) for name, parsed in values.items()}, cells, source=own
    )


def _json(line: str) -> Any:
    """Return the JSON value of a line, with numbers as they are written; None if it is no JSON."""
    try:
        return json.loads(line.removeprefix("\ufeff"), parse_float=_Number, parse_int=_Number)
    except ValueError:
        return None


class _Number(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _type(values: Sequence[Any]) -> Type:
    """Return the type of the values of a key; a text of digits remains a text, and a nested value is one."""
    if values and all(isinstance(value, bool) for value in values):
        return Type("boolean")
    type_ = proposed_type([_text(value) for value in values])
    is_number = all(isinstance(value, _Number) for value in values)
    return type_ if is_number or type_.name in _ORDERS else Type("string")


def _of_parquet(folder: Folder, table: TableName, names: Sequence[str], own: Mapping[str, str]) -> ProposedTable:
    """Return the proposal for a table of Parquet files, which have names and types of their columns."""
    with folder.open(table, names[-1]) as file:
        names_of_file = pq.read_schema(file).names
    columns = tuple(ProposedColumn(name=column) for column in names_of_file)
    return ProposedTable(name=table, evidence="Parquet", columns=columns, source=own, cautions=(_NO_ORDER,))


_NO_ORDER: Final = "name the column that orders the rows of a key by `order_by`; without it files and lines do"


def _proposed(
    table: TableName,
    evidence: str,
    types: Mapping[str, Type],
    cells: Mapping[str, Sequence[str | None]],
    *,
    source: Mapping[str, str],
    has_names: bool = True,
    cautions: Sequence[str] = (),
) -> ProposedTable:
    """Return the proposal for a table, with the key, order and operation that its columns suggest."""
    orders = [name for name, type_ in types.items() if type_.name in _ORDERS]
    operations = [
        f'{name} has words of operations: `operation = {{ column = "{name}", delete = ["D"] }}` under its `source`'
        for name, values in cells.items()
        if has_names and "D" in values and {*values} <= _OPERATIONS
    ]
    order = f"{_NO_ORDER} (is it {' or '.join(orders)}?)" if orders and has_names else _NO_ORDER
    rows = [*zip(*cells.values(), strict=True)] if len({len(values) for values in cells.values()}) == 1 else []
    return ProposedTable(
        name=table,
        evidence=evidence,
        columns=tuple(ProposedColumn(name=name, type=type_) for name, type_ in types.items()),
        key=proposed_key(table.table, [*types], rows) if has_names else (),
        has_names=has_names,
        cautions=(*cautions, *operations, order),
        source=source,
    )
