"""Quarantined rows: split into cells for an operator, and read again after they were repaired."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.layout import BEFORE, OP, Layout
from lakeward.adapters.sources.csv.parser import Dialect, fields
from lakeward.adapters.sources.landing.places import format_of
from lakeward.adapters.sources.rows.parquet_frames import NOT_UTF8
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import NESTED, TextFormat, misfit, to_type
from lakeward.adapters.spark.sql.inline_rows import inline, of_json
from lakeward.adapters.spark.sql.limits import is_outside
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import UNSET, Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Cells, Entry, RepairedRow
from lakeward.core.quarantine.repair import operations
from lakeward.core.schema import Column, Type
from lakeward.core.schema_changes.evolution import Kind, Policy
from lakeward.core.text.numbers import format_count

_ENTRY: Final = "_lakeward_entry"
_CELL: Final = "_lakeward_cell_"
_OLD_TEXT: Final = "_lakeward_was_"
_OLD: Final = "_lakeward_old_"
_OLD_TIME: Final = "_lakeward_known"
_NEW_TIME: Final = "_lakeward_given"
_NEW_MICROS: Final = "_lakeward_moment"
_NEW_SEQUENCE: Final = "_lakeward_place"
"""Columns of a repaired row: its number, its cells as texts, its old key as texts and typed, its commit time of
before, the commit time of the operator as a text and as a number, and the sequence of the operator."""

_ROW: Final = "_lakeward_written"
_PARSED: Final = "_lakeward_parsed"
_BROKEN: Final = "_lakeward_unfit"
"""Columns of a row that is read again: its JSON, the parsed JSON, and the text of a row that does not fit."""


def is_parquet(entry: Entry) -> bool:
    """Return whether a row is of a Parquet file: its text is JSON, with the cells as plain texts."""
    return format_of(entry.object) == "parquet"


def json_cells(row: str, reading: Reading) -> Cells:
    """Return the cells of a row in JSON, by the present names of columns."""
    content = json.loads(row, parse_int=str, parse_float=str)
    content.pop(NOT_UTF8, None)
    texts = {name: _plain_text(value) for name, value in content.items()}
    prefix, renames = reading.before_prefix, reading.dimension.policies.renames
    then = {} if prefix is None else {name: prefix + name for name in texts if prefix + name in texts}
    return Cells(
        {renames.get(name, name): text for name, text in texts.items() if name not in then.values()},
        {renames.get(name, name): texts[before] for name, before in then.items() if texts[before] is not None},
    )


def _plain_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def csv_cells(row: str, layout: Layout, dialect: Dialect) -> Cells:
    """Return the cells of a row of a CSV file by column; none if the row cannot be split into these columns."""
    values = fields(row, dialect)
    if values is None or len(values) != len(layout.columns):
        return Cells()
    cells = dict(zip(layout.columns, values, strict=True))
    before = {name: cells.pop(name) for name in layout.columns if name.startswith(BEFORE)}
    own = {name: cell for name, cell in cells.items() if not name.startswith("\0")}
    return Cells(own, {name.removeprefix(BEFORE): cell for name, cell in before.items()}, cells.get(OP))


def replayed_events(
    spark: SparkSession, reading: Reading, entries: Sequence[Entry], cells: Callable[[Entry], Cells]
) -> DataFrame:
    """Return quarantined rows as events.

    A repaired row has the cells of the operator. Any other is read again from its text: `cells` returns its cells,
    and a column that its file lacks counts as not sent. Cells of Parquet files are plain texts in UTC, whatever
    formats the settings have. Raises RepairError for rows that cannot be read or do not fit.
    """
    dimension = reading.dimension
    encodings = {column.name: "base64" for column in dimension.schema if column.type.name == "binary"}
    groups = {False: reading, True: replace(reading, source_zone="UTC", patterns=encodings, written={})}
    of_parquet = [entry for entry in entries if is_parquet(entry) and entry.repaired is None]
    written = _each(of_parquet, lambda entry: _as_in_parquet(reading, entry, cells(entry)))
    of_files = [entry for entry in entries if not is_parquet(entry) or entry.repaired is not None]
    rows = _each(of_files, lambda entry: _as_written(reading, entry, cells))
    frames = [
        repaired_events(spark, how, some)
        for is_plain, how in groups.items()
        if (some := [entry for entry in rows if is_parquet(entry) is is_plain])
    ]
    frames += [events_of_json(spark, reading, written)] if written else []
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _each(entries: Sequence[Entry], read: Callable[[Entry], Entry]) -> list[Entry]:
    """Return the result of `read` for each row; raises its first RepairError, with all rows that fail."""
    results, errors = [], []
    for entry in entries:
        try:
            results.append(read(entry))
        except RepairError as error:
            errors.append(error)
    if errors:
        errors[0].rows = frozenset().union(*(error.rows for error in errors))
        raise errors[0]
    return results


def _refuse_hex(reading: Reading, entry: Entry) -> None:
    """Raise RepairError for a repaired row that still has the hexadecimal form of a text with invalid UTF-8."""
    if entry.repaired is None or not is_parquet(entry):
        return
    content, renames = json.loads(entry.text), reading.dimension.policies.renames
    noted = f", {content.get(NOT_UTF8, '')}, "
    for name, text_ in content.items():
        if f", {name}, " in noted and entry.repaired.cells.get(renames.get(name, name)) == text_:
            raise RepairError(
                f"{reading.dimension.name}: {entry.object}, row {entry.row} is not repaired",
                found=f"{name} still has the bytes of its text in hexadecimal, {text_}",
                todo="Write the text that it should be, or { null = true }.",
                rows=[(entry.order, entry.row)],
            )


def _as_in_parquet(reading: Reading, entry: Entry, cells: Cells) -> Entry:
    """Return an unrepaired row of a Parquet file with its operation; raises RepairError if it cannot be read."""
    if (names_ := json.loads(entry.text).get(NOT_UTF8)) is not None:
        raise unreadable_row(
            reading.dimension,
            entry,
            f"the text in {names_} is not valid UTF-8, and only its file has its bytes",
            "Fix the row: `lakeward quarantine fix`. Else let the source write it again, and give it up.",
        )
    _refuse_undeclared(reading.dimension, entry, cells)
    _refuse_no_key(reading.dimension, entry, cells)
    return replace(entry, operation=_operation_of(reading, entry, cells).value)


def _as_written(reading: Reading, entry: Entry, cells: Callable[[Entry], Cells]) -> Entry:
    """Return an unrepaired row as if it were repaired with its own cells; a column that it lacks was not sent.

    Raises RepairError if it cannot be read.
    """
    _refuse_hex(reading, entry)
    if entry.repaired is not None:
        return entry
    dimension, row_cells = reading.dimension, cells(entry)
    if not row_cells.after:
        raise unreadable_row(
            dimension,
            entry,
            "its file is gone, was rewritten, or names columns that the table does not have: its cells are unknown",
            "Put the file back, and let the table follow. Else fix the row: `lakeward quarantine fix`.",
        )
    _refuse_undeclared(dimension, entry, row_cells)
    _refuse_no_key(dimension, entry, row_cells)
    operation = _operation_of(reading, entry, row_cells)
    absent = None if operation in (Operation.INSERT, Operation.READ) else UNSET
    sent = {name: row_cells.after.get(name, absent) for name in dimension.schema.names}
    old = {name: cell for name, cell in row_cells.before.items() if name in dimension.key and isinstance(cell, str)}
    old_key = old if old and entry.other_key is not None else None
    return replace(entry, repaired=RepairedRow(operation=operation, cells=sent, old_key=old_key))


def _operation_of(reading: Reading, entry: Entry, cells: Cells) -> Operation:
    """Return the operation of an unrepaired row: the known one, or the one that its cells have under the settings.

    Raises RepairError if the operation is unknown or cannot be applied to the row.
    """
    if entry.operation is not None:
        was_whole = entry.operation == Operation.READ.value and reading.may_be_whole_or_not
        return Operation.UPDATE if was_whole and UNSET in cells.after.values() else Operation(entry.operation)
    word = cells.after.get(reading.op_column) if cells.operation is None else cells.operation
    indicator = None if reading.indicator is None else cells.after.get(reading.indicator)
    is_whole = UNSET not in cells.after.values() and cells.after.keys() >= set(reading.dimension.schema.names)
    operation_word, indicator_word = (cell if isinstance(cell, str) else None for cell in (word, indicator))
    operation = reading.operation_of(operation_word, indicator_word, is_whole=is_whole)
    if operation is None or operation not in (Operation.READ, *operations(reading.dimension, entry)):
        raise unreadable_row(
            reading.dimension,
            entry,
            "its operation is not known under the present settings, or its text does not have it",
            "Say in the settings what the word means. Else fix the row: `lakeward quarantine fix`.",
        )
    return operation


def _refuse_undeclared(dimension: Dimension, entry: Entry, cells: Cells) -> None:
    """Raise RepairError for a row with a value that no column of the table takes, so that it would be lost."""
    for name, cell in cells.after.items():
        is_own = name.startswith("\0") or dimension.schema.find(name) is not None
        if cell is None or is_own or dimension.policies.of(Kind.ADD, [name]) is Policy.IGNORE:
            continue
        raise unreadable_row(
            dimension,
            entry,
            f"it has a value in {name}, and the table has no such column",
            "Let the table follow (docs/explanation/schema-changes.md), or name in `rename` what the column is "
            "called now. Else fix the row, or give it up.",
        )


def _refuse_no_key(dimension: Dimension, entry: Entry, cells: Cells) -> None:
    """Raise RepairError for a row without a value in its key, as when the settings describe another form now."""
    lacks = [name for name in dimension.key if not isinstance(cells.after.get(name), str)]
    if lacks and entry.operation != Operation.TRUNCATE.value:
        raise unreadable_row(
            dimension,
            entry,
            f"under the present settings it has no value in {lacks[0]}, of the key",
            "Restore the settings of the source's form. Else fix the row: `lakeward quarantine fix`.",
        )


def unreadable_row(dimension: Dimension, entry: Entry, found: str, todo: str) -> RepairError:
    """Return the error for a row that was not repaired and cannot be read again; `found` says why."""
    return RepairError(
        f"{dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
        found=found,
        todo=todo,
        rows=[(entry.order, entry.row)],
    )


def repaired_events(spark: SparkSession, reading: Reading, entries: Sequence[Entry]) -> DataFrame:
    """Return repaired rows as events; `reading` says how their cells are written.

    Raises RepairError with every cell that does not fit.
    """
    schema, in_part = reading.dimension.schema, bool(reading.in_part) or any(map(_is_in_part, entries))
    _refuse_nested(reading)
    _refuse_parts(reading, entries)
    cells = {column.name: f"{_CELL}{number}" for number, column in enumerate(schema)}
    then = {column.name: f"{_OLD_TEXT}{number}" for number, column in enumerate(reading.key_columns)}
    typed = {name: _typed(reading, name, cell) for name, cell in cells.items()}
    before = {name: _typed(reading, name, cell) for name, cell in then.items()}
    moment = f"unix_micros({to_type(_NEW_TIME, Type('timestamp'), TextFormat())})"
    frame = _as_texts(spark, reading, entries, [*cells.values(), *then.values()]).selectExpr(
        "*",
        *[f"{sql} AS {quoted(name)}" for name, sql in typed.items()],
        *[f"{sql} AS {_OLD}{then[name]}" for name, sql in before.items()],
        f"{moment} AS {_NEW_MICROS}",
    )
    place = _NEW_MICROS if reading.goes_by_time else "bigint(NULL)"
    place = reading.sequence(_NEW_SEQUENCE) if reading.dimension.sequences.are_wide else place
    _refuse_misfits(frame, reading, entries, _misfits(reading, cells, then))
    return frame.selectExpr(
        *[quoted(name) for name in schema.names],
        names.OPERATION,
        f"coalesce({place}, {names.SEQUENCE}) AS {names.SEQUENCE}",
        *(names.OBJECT, names.ROW),
        f"bigint({_ENTRY}) AS {names.ARRIVAL}",
        f"coalesce({_NEW_MICROS}, {_OLD_TIME}) AS {names.TIME}",
        *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        *(_in_part({name: _OLD + cell for name, cell in then.items()}) if in_part and then else ()),
    )


def events_of_json(spark: SparkSession, reading: Reading, entries: Sequence[Entry]) -> DataFrame:
    """Return unrepaired rows of Parquet files, which are JSON in quarantine, as events.

    Raises RepairError with every row that does not fit.
    """
    schema, renames = reading.dimension.schema, reading.dimension.policies.renames
    called = {c.name: [c.name, *(old for old, new in renames.items() if new == c.name)] for c in schema}
    written = [json.loads(entry.text) for entry in entries]
    lacking = [[n for n in schema.names if not any(name in row for name in called[n])] for row in written]
    types = {name: ddl(_as_in_json(c.type)) for c in schema for name in called[c.name]}
    numbers = dict.fromkeys((_ENTRY, names.SEQUENCE, names.OBJECT, names.ROW, names.TIME), "bigint")
    numbers[names.SEQUENCE] = str(names.sequence_type(reading.dimension.sequences))
    rows = [
        [n, e.sequence, e.order, e.row, e.time, e.operation, json.dumps(lacks), e.text]
        for n, (e, lacks) in enumerate(zip(entries, lacking, strict=True))
    ]
    frame = inline(spark, {**numbers, **dict.fromkeys((names.OPERATION, names.UNSET, _ROW), "string")}, rows)
    frame = frame.selectExpr("*", f"{of_json(_ROW, types, _BROKEN)} AS {_PARSED}")
    values, wrong = {}, [f"{_PARSED}.{_BROKEN} IS NOT NULL"]
    for item in schema:
        candidates = ", ".join(f"{_PARSED}.{quoted(name)}" for name in called[item.name])
        values[item.name] = f"CAST(coalesce({candidates}) AS {ddl(item.type)})"
        outside = is_outside(values[item.name], item.type)
        wrong += [] if outside is None else [outside]
    _refuse_broken(frame.where(" OR ".join(wrong)), reading, entries)
    typed = [f"{value} AS {quoted(name)}" for name, value in values.items()]
    unset = f"nullif(from_json({names.UNSET}, 'array<string>'), array())"
    return frame.selectExpr(
        *typed,
        *(names.OPERATION, names.SEQUENCE, names.OBJECT, names.ROW, names.TIME),
        f"bigint({_ENTRY}) AS {names.ARRIVAL}",
        *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        *([f"CASE WHEN {names.OPERATION} = 'update' THEN {unset} END AS {names.UNSET}"] if any(lacking) else []),
    )


def _refuse_broken(broken: DataFrame, reading: Reading, entries: Sequence[Entry]) -> None:
    """Raise RepairError if there are rows whose values do not fit; their number is limited by what was replayed."""
    wrong = broken.select(_ENTRY).collect()
    if wrong:
        places = [entries[row[_ENTRY]] for row in wrong]
        raise RepairError(
            f"{reading.dimension.name}: {format_count(len(wrong), 'row does', 'rows do')} not fit the table",
            found="; ".join(f"{entry.object}, row {entry.row}" for entry in places),
            todo="Nothing was changed. Fix the rows, or give them up.",
            rows=[(entry.order, entry.row) for entry in places],
        )


def _as_in_json(type_: Type) -> Type:
    """Return the type of a value in JSON, in which keys of maps are texts."""
    parts = tuple(Column(part.name, _as_in_json(part.type)) for part in type_.parts)
    if type_.name == "map":
        parts = (Column("key", Type("string")), *parts[1:])
    return replace(type_, parts=parts)


def _is_in_part(entry: Entry) -> bool:
    return entry.repaired is not None and UNSET in entry.repaired.cells.values()


def _misfits(reading: Reading, cells: Mapping[str, str], then: Mapping[str, str]) -> Sequence[str]:
    """Return why each cell, and each text of an old key, does not fit its column, as SQL."""
    now = [misfit(cells[c.name], c) for c in reading.dimension.schema if c.type.name != "string"]
    before = [c for c in reading.key_columns if c.type.name != "string"]
    return [*now, *[misfit(then[c.name], c, _OLD + then[c.name]) for c in before]]


def _typed(reading: Reading, name: str, cell: str) -> str:
    return reading.typed(cell, reading.dimension.schema.find(name) or Column(name, Type("string")))


def _in_part(then: Mapping[str, str]) -> Sequence[str]:
    """Return the unsent columns, the old key and the transaction, as SQL with names, as the readers of files do."""
    moves = " OR ".join(f"coalesce({before}, {quoted(name)}) != {quoted(name)}" for name, before in then.items())
    fields = ", ".join(f"{text(name)}, coalesce({before}, {quoted(name)})" for name, before in then.items())
    return (
        f"CASE WHEN {names.OPERATION} != 'delete' THEN from_json({names.UNSET}, 'array<string>') END "
        f"AS {names.UNSET}",
        f"CASE WHEN {names.OPERATION} = 'update' AND ({moves}) THEN named_struct({fields}) END AS {names.OLD}",
        f"string(coalesce({_NEW_MICROS}, {_OLD_TIME})) AS {names.TRANSACTION}",
    )


def _as_texts(spark: SparkSession, reading: Reading, entries: Sequence[Entry], cells: Sequence[str]) -> DataFrame:
    numbers = dict.fromkeys((_ENTRY, names.SEQUENCE, names.OBJECT, names.ROW, _OLD_TIME), "bigint")
    numbers[names.SEQUENCE] = str(names.sequence_type(reading.dimension.sequences))
    texts = (_NEW_TIME, _NEW_SEQUENCE, names.OPERATION, names.UNSET, *cells)
    rows: list[list[str | int | None]] = []
    for number, entry in enumerate(entries):
        if entry.repaired is not None:
            place = [number, entry.sequence, entry.order, entry.row, entry.time]
            rows.append([*place, *_texts_of(reading, entry.repaired)])
    return inline(spark, {**numbers, **dict.fromkeys(texts, "string")}, rows)


def _texts_of(reading: Reading, repaired: RepairedRow) -> Sequence[str | None]:
    before = repaired.old_key or {}
    cells = [repaired.cells[name] for name in reading.dimension.schema.names]
    cells += [before.get(column.name) for column in reading.key_columns]
    unset = [name for name, cell in repaired.cells.items() if cell is UNSET]
    sent = [None if cell is UNSET else cell for cell in cells]
    decided = [repaired.time, repaired.sequence, repaired.operation.value]
    return [*decided, json.dumps(unset) if unset else None, *sent]


def _refuse_parts(reading: Reading, entries: Sequence[Entry]) -> None:
    """Raise RepairError for an unsent cell or an old key of a source that never has these."""
    for entry in entries:
        is_read_again = Reason(entry.reason) is Reason.SCHEMA  # what its file lacks was not sent
        cells = () if entry.repaired is None or is_read_again else entry.repaired.cells.values()
        moves = entry.repaired is not None and entry.repaired.old_key is not None
        for is_there, need, setting in (
            (UNSET in cells, Capability.UNSET, "no_sup_value"),
            (moves, Capability.KEY_CHANGE, "before_image_prefix"),
        ):
            if is_there and need not in reading.in_part:
                raise RepairError(
                    f"{reading.dimension.name}: {entry.object}, row {entry.row} cannot be so",
                    found="a cell is not sent" if need is Capability.UNSET else "it has an old key",
                    todo=f"The source sends no such thing while `{setting}` is not set under [source].",
                    rows=[(entry.order, entry.row)],
                )


def _refuse_nested(reading: Reading) -> None:
    for column in reading.dimension.schema:
        if column.type.name in NESTED:
            raise RepairError(
                f"{reading.dimension.name}: the column {column.name} is a {column.type}, which has no form as text",
                todo="A row of this table cannot be fixed here. Let the source write it again, and give it up.",
            )


def _refuse_misfits(frame: DataFrame, reading: Reading, entries: Sequence[Entry], wrong: Sequence[str]) -> None:
    """Raise RepairError for cells that do not fit their columns; their number is limited by what was repaired."""
    words, is_none = text('" is not a commit time'), f"{_NEW_TIME} IS NOT NULL AND {_NEW_MICROS} IS NULL"
    no_time = f"CASE WHEN {is_none} THEN concat('\"', {_NEW_TIME}, {words}) END"
    sequence = reading.sequence(_NEW_SEQUENCE)
    words, is_none = text('" is not a sequence'), f"{_NEW_SEQUENCE} IS NOT NULL AND {sequence} IS NULL"
    no_place = f"CASE WHEN {is_none} THEN concat('\"', {_NEW_SEQUENCE}, {words}) END"
    listed = f"filter(array({', '.join([*wrong, no_time, no_place])}), reason -> reason IS NOT NULL)"
    rows = frame.selectExpr(_ENTRY, f"{listed} AS reasons").where("size(reasons) > 0").collect()
    if rows:
        places = [(entries[row[_ENTRY]], row["reasons"]) for row in rows]
        raise RepairError(
            f"{reading.dimension.name}: {format_count(len(rows), 'repaired row does', 'repaired rows do')} not "
            "fit the table",
            found="\n".join(f"{entry.object}, row {entry.row}: {'; '.join(reasons)}" for entry, reasons in places),
            todo="Nothing was changed. Correct the cells, and take the file again.",
            rows=[(entry.order, entry.row) for entry, _ in places],
        )
