"""File in which an operator repairs rows of the quarantine: TOML with the cells as texts, by column."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import UNSET, Operation
from lakeward.core.ports import Cells, Entry, RepairedRow, Written
from lakeward.core.quarantine.repair import may_give, must_give, operations
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.views.quarantine_entries import place
from lakeward.entrypoints.views.safe_text import printable

_HEAD: Final = """\
# Rows of {table} that wait in quarantine. Correct their cells, and read the file back with
#
#   lakeward quarantine fix {table} --from {file}
#
# Cells are texts, as the source writes them. NULL is {{ null = true }}; {{ sent = false }} says that a cell was not
# sent. Each column needs a cell. Do not change the key. A row that is removed from the file is not changed.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the file: its origin and its repaired cells."""

    file: str
    row: int
    repaired: RepairedRow


def write(dimension: Dimension, rows: Sequence[tuple[Entry, Cells]], file: Path) -> None:
    """Write a new file with these rows and their known cells.

    `dimension` has the columns that the rows have at the source. Raises RepairError if the file exists or cannot be
    written.
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(_content(dimension, rows, file))
    except FileExistsError as error:
        raise RepairError(
            f"{file} exists", todo="Read it back with --from, name another file with --to, or move it away."
        ) from error
    except OSError as error:
        raise RepairError(f"{file} cannot be written", found=str(error)) from error


def _content(dimension: Dimension, rows: Sequence[tuple[Entry, Cells]], file: Path) -> str:
    parts = [_HEAD.format(table=dimension.name, file=file), f"table = {_text(str(dimension.name))}"]
    for entry, cells in rows:
        parts += ["", *_row(dimension, entry, cells)]
    return "\n".join(parts) + "\n"


def _row(dimension: Dimension, entry: Entry, cells: Cells) -> Iterator[str]:
    repaired, allowed = entry.repaired, operations(dimension, entry)
    yield "[[row]]"
    yield f"file = {_text(entry.object)}"
    yield f"row = {entry.row}"
    yield f"# {entry.reason}: {printable(entry.detail)}"
    yield f"# As it was written: {printable(entry.text)}"
    if repaired is not None or len(allowed) == 1:
        yield f"operation = {_text((allowed[0] if repaired is None else repaired.operation).value)}"
    else:
        yield f'operation = ""  # {", ".join(operation.value for operation in allowed)}: which of them?'
    yield from _place_lines(dimension, entry)
    yield "[row.cells]"
    values = cells.after if repaired is None else repaired.cells
    for column in dimension.schema:
        what = f"{column.type}, of the key" if column.name in dimension.key else str(column.type)
        yield _line(column.name, values, what)
    if entry.other_key is not None:
        yield "[row.old_key]"
        before = cells.before if repaired is None else repaired.old_key or {}
        key_values = {name: cell for name, cell in before.items() if isinstance(cell, str)}
        for name in dimension.key:
            yield _line(name, {**values, **key_values}, "before the change")


def _place_lines(dimension: Dimension, entry: Entry) -> Iterator[str]:
    """Yield the lines for the commit time and sequence of a row; optional ones are commented out."""
    repaired = entry.repaired
    values = {"time": repaired and repaired.time, "sequence": repaired and repaired.sequence}
    words = {"time": "the commit time, in UTC", "sequence": "its place in the order of the source: digits alone"}
    must, may = must_give(dimension, entry), may_give(dimension, entry)
    for name in (name for name in values if name in may):
        prefix = "" if name in must or values[name] else "# "
        yield f"{prefix}{name} = {_text(values[name] or '')}  # {words[name]}"


def _line(name: str, values: Mapping[str, Written], what: str) -> str:
    if name in values:
        return f"{_text(name)} = {_cell(values[name])}  # {printable(what)}"
    return f'# {_text(name)} = ""  # {printable(what)}; lakeward cannot tell which cell this is: write its value'


def _cell(value: Written) -> str:
    match value:
        case None:
            return "{ null = true }"
        case str():
            return _text(value)
        case _:
            return "{ sent = false }"


def _text(value: str) -> str:
    """Return a text as TOML writes it: as JSON does, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read(file: Path, dimension: Dimension) -> Sequence[Row]:
    """Read a file; raises RepairError, which names the place, if anything in it is wrong."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise RepairError(f"{file} cannot be read", found=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        todo = "https://toml.io/en/v1.0.0"
        raise RepairError(f"{file} is not valid TOML", found=str(error), todo=todo) from error
    _check_keys(str(file), content, ("table", "row"))
    if content.get("table") != str(dimension.name):
        raise RepairError(f"{file} is not of {dimension.name}", found=f"`table` is {content.get('table')!r}")
    listed = content.get("row")
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise RepairError(f"{file} has no rows", todo="Each begins with [[row]].")
    rows = [_read_row(file, row) for row in listed]
    for (name, row), times in Counter((row.file, row.row) for row in rows).items():
        if times > 1:
            raise RepairError(f"{file} has {name}, row {row}, twice", todo="Remove one of them.")
    return rows


def _read_row(file: Path, row: Mapping[str, Any]) -> Row:
    where = f"{file}: {row.get('file', 'a row')}:{row.get('row', '?')}"
    _check_keys(where, row, ("file", "row", "operation", "time", "sequence", "cells", "old_key"))
    for key, kind in (("file", str), ("row", int), ("operation", str), ("cells", dict)):
        if not isinstance(row.get(key), kind):
            raise RepairError(
                f"{where} has no valid `{key}`", todo="`lakeward quarantine fix` writes a new file."
            )
    place_in_order = {name: row.get(name) for name in ("time", "sequence")}
    for name, text in place_in_order.items():
        if text is not None and not (isinstance(text, str) and text):
            raise RepairError(f"{where}: `{name}` is not filled in", todo="Write it as a text, in quotes.")
    cells = {name: _read_cell(where, name, value) for name, value in row["cells"].items()}
    old_key = _read_old_key(where, row.get("old_key"))
    repaired = RepairedRow(
        operation=_operation(where, row["operation"]), cells=cells, old_key=old_key, **place_in_order
    )
    return Row(row["file"], row["row"], repaired)


def _read_cell(where: str, name: str, value: object) -> Written:
    if isinstance(value, str):
        return value
    if value == {"null": True}:
        return None
    if value == {"sent": False}:
        return UNSET
    raise RepairError(
        f"{where}: the cell {name} is neither a text nor NULL",
        found=f"found {value!r}",
        todo="Write it in quotes, as the source does, or as { null = true }, or { sent = false }.",
    )


def _read_old_key(where: str, value: object) -> Mapping[str, str] | None:
    if value is None:
        return None
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return value
    raise RepairError(
        f"{where}: [row.old_key] is invalid", found=f"found {value!r}", todo="Write texts, in quotes, by column."
    )


def _operation(where: str, text: str) -> Operation:
    names = [operation.value for operation in Operation]
    if text not in names:
        raise RepairError(
            f"{where}: {text!r} is not an operation" if text else f"{where}: `operation` is not filled in",
            found="the operations are " + ", ".join(names),
            todo=nearest(text, names),
        )
    return Operation(text)


def _check_keys(where: str, content: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in content:
        if key not in keys:
            listed = f"Cells belong under [row.cells]; the keys of a row are {', '.join(keys)}."
            raise RepairError(f"{where}: there is no key {key!r}", todo=nearest(key, keys) or listed)


def match(rows: Sequence[Row], entries: Sequence[Entry], table: str) -> list[Entry]:
    """Return the quarantined rows of the file, repaired; raises RepairError for a row that is not in quarantine."""
    by_place = {place(entry): entry for entry in entries}
    missing = [row for row in rows if f"{row.file}:{row.row}" not in by_place]
    if missing:
        named = "; ".join(f"{row.file}, row {row.row}" for row in missing)
        raise RepairError(
            f"{table}: {named} {'is' if len(missing) == 1 else 'are'} not in quarantine",
            todo="Nothing was changed. They may be settled already: see "
            f"`lakeward quarantine show {table}`, and remove them from the file.",
        )
    return [replace(by_place[f"{row.file}:{row.row}"], repaired=row.repaired) for row in rows]
