"""Rows of the quarantine: taken apart into cells, and read again once a person has mended them."""

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
_WAS: Final = "_lakeward_was_"
_OLD: Final = "_lakeward_old_"
_KNOWN: Final = "_lakeward_known"
_GIVEN: Final = "_lakeward_given"
_MOMENT: Final = "_lakeward_moment"
_PLACE: Final = "_lakeward_place"
"""Of a mended row: its number, its cells as texts, its old key as texts and typed, the commit time it had, the one
that it was given as a text and as a number, and the sequence that it was given."""

_ROW: Final = "_lakeward_written"
_PARSED: Final = "_lakeward_parsed"
_BROKEN: Final = "_lakeward_unfit"
"""Of a row that is read anew: its JSON, what that holds, and whether it does not fit."""


def is_parquet(entry: Entry) -> bool:
    """Whether a row is of a Parquet file: its text is JSON, and its cells are written plainly."""
    return format_of(entry.object) == "parquet"


def json_cells(row: str, reading: Reading) -> Cells:
    """Return the cells of a row that was written as JSON, by the names that columns have now."""
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
    """Return the cells of a row of a CSV file by columns of its table; none where they cannot be told apart."""
    found = fields(row, dialect)
    if found is None or len(found) != len(layout.columns):
        return Cells()
    cells = dict(zip(layout.columns, found, strict=True))
    before = {name: cells.pop(name) for name in layout.columns if name.startswith(BEFORE)}
    own = {name: cell for name, cell in cells.items() if not name.startswith("\0")}
    return Cells(own, {name.removeprefix(BEFORE): cell for name, cell in before.items()}, cells.get(OP))


def mended_rows(
    spark: SparkSession, reading: Reading, entries: Sequence[Entry], cells: Callable[[Entry], Cells]
) -> DataFrame:
    """Return mended rows as events; those of Parquet files are written plainly, whatever the settings say.

    A row that is not mended is read as it was written, by its `cells`; a column that its file
    lacks was not sent.
    """
    dimension = reading.dimension
    encodings = {column.name: "base64" for column in dimension.schema if column.type.name == "binary"}
    groups = {False: reading, True: replace(reading, source_zone="UTC", patterns=encodings, written={})}
    of_parquet = [entry for entry in entries if is_parquet(entry) and entry.repaired is None]
    written = _each(of_parquet, lambda entry: _as_in_parquet(reading, entry, cells(entry)))
    of_files = [entry for entry in entries if not is_parquet(entry) or entry.repaired is not None]
    known = _each(of_files, lambda entry: _as_written(reading, entry, cells))
    frames = [
        mended_events(spark, how, some)
        for is_plain, how in groups.items()
        if (some := [entry for entry in known if is_parquet(entry) is is_plain])
    ]
    frames += [events_of_json(spark, reading, written)] if written else []
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _each(entries: Sequence[Entry], read: Callable[[Entry], Entry]) -> list[Entry]:
    """Return rows as `read` returns each; raises its first MendError, with all rows that have one."""
    found, errors = [], []
    for entry in entries:
        try:
            found.append(read(entry))
        except RepairError as error:
            errors.append(error)
    if errors:
        errors[0].rows = frozenset().union(*(error.rows for error in errors))
        raise errors[0]
    return found


def _refuse_hex(reading: Reading, entry: Entry) -> None:
    """Refuse a mended row that still has the hexadecimal of a text which is not valid UTF-8."""
    if entry.repaired is None or not is_parquet(entry):
        return
    content, renames = json.loads(entry.text), reading.dimension.policies.renames
    noted = f", {content.get(NOT_UTF8, '')}, "
    for name, text_ in content.items():
        if f", {name}, " in noted and entry.repaired.cells.get(renames.get(name, name)) == text_:
            raise RepairError(
                f"{reading.dimension.name}: {entry.object}, row {entry.row} is not mended",
                found=f"{name} still has the bytes of its text in hexadecimal, {text_}",
                todo="Write the text that it should be, or { null = true }.",
                rows=[(entry.order, entry.row)],
            )


def _as_in_parquet(reading: Reading, entry: Entry, found: Cells) -> Entry:
    """Return a row of a Parquet file that is not mended, with its operation."""
    if (names_ := json.loads(entry.text).get(NOT_UTF8)) is not None:
        raise RepairError(
            f"{reading.dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
            found=f"the text in {names_} is not valid UTF-8, and its bytes stand in its file alone",
            todo="Fix the row: `lakeward quarantine fix`. Else let the source write it again, and give it up.",
            rows=[(entry.order, entry.row)],
        )
    _refuse_strange(reading.dimension, entry, found)
    _refuse_no_key(reading.dimension, entry, found)
    return replace(entry, operation=_operation_of(reading, entry, found).value)


def _as_written(reading: Reading, entry: Entry, cells: Callable[[Entry], Cells]) -> Entry:
    """Return a row that is not mended as one that is, into what it says; what it lacks was not sent."""
    _refuse_hex(reading, entry)
    if entry.repaired is not None:
        return entry
    dimension, found = reading.dimension, cells(entry)
    if not found.after:
        raise RepairError(
            f"{dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
            found="its file is gone, was written anew since, or names columns that the table has not: its cells "
            "cannot be told",
            todo="Put the file back, and let the table follow. Else fix the row: `lakeward quarantine fix`.",
            rows=[(entry.order, entry.row)],
        )
    _refuse_strange(dimension, entry, found)
    _refuse_no_key(dimension, entry, found)
    operation = _operation_of(reading, entry, found)
    absent = None if operation in (Operation.INSERT, Operation.READ) else UNSET
    sent = {name: found.after.get(name, absent) for name in dimension.schema.names}
    left = {name: cell for name, cell in found.before.items() if name in dimension.key and isinstance(cell, str)}
    old_key = left if left and entry.other_key is not None else None
    return replace(entry, repaired=RepairedRow(operation=operation, cells=sent, old_key=old_key))


def _operation_of(reading: Reading, entry: Entry, found: Cells) -> Operation:
    """Return the operation of a row that is not mended; one that was not known is read again from its cells."""
    if entry.operation is not None:
        was_whole = entry.operation == Operation.READ.value and reading.may_be_whole_or_not
        return Operation.UPDATE if was_whole and UNSET in found.after.values() else Operation(entry.operation)
    word = found.after.get(reading.op_column) if found.operation is None else found.operation
    indicator = None if reading.indicator is None else found.after.get(reading.indicator)
    is_whole = UNSET not in found.after.values() and found.after.keys() >= set(reading.dimension.schema.names)
    said, told = (cell if isinstance(cell, str) else None for cell in (word, indicator))
    operation = reading.operation_of(said, told, is_whole=is_whole)
    if operation is None or operation not in (Operation.READ, *operations(reading.dimension, entry)):
        raise RepairError(
            f"{reading.dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
            found="its operation is not known under the settings as they are now, or its text does not have it",
            todo="Say in the settings what the word means. Else fix the row: `lakeward quarantine fix`.",
            rows=[(entry.order, entry.row)],
        )
    return operation


def _refuse_strange(dimension: Dimension, entry: Entry, found: Cells) -> None:
    """Refuse to read a row anew without a value of it that no column of the table takes."""
    for name, cell in found.after.items():
        is_own = name.startswith("\0") or dimension.schema.find(name) is not None
        if cell is None or is_own or dimension.policies.of(Kind.ADD, [name]) is Policy.IGNORE:
            continue
        raise RepairError(
            f"{dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
            found=f"it has a value in {name}, and the table has no such column",
            todo="Let the table follow (docs/explanation/schema-changes.md), or name in `rename` what the column "
            "is called now. Else fix the row, or give it up.",
            rows=[(entry.order, entry.row)],
        )


def _refuse_no_key(dimension: Dimension, entry: Entry, found: Cells) -> None:
    """Refuse to read a row anew that has no value for its key, as where it is written in another form than now."""
    lacks = [name for name in dimension.key if not isinstance(found.after.get(name), str)]
    if lacks and entry.operation != Operation.TRUNCATE.value:
        raise RepairError(
            f"{dimension.name}: {entry.object}, row {entry.row} cannot be read anew",
            found=f"under the settings as they are now it has no value in {lacks[0]}, of the key",
            todo="Set what tells the form of the source back. Else fix the row: `lakeward quarantine fix`.",
            rows=[(entry.order, entry.row)],
        )


def mended_events(spark: SparkSession, reading: Reading, entries: Sequence[Entry]) -> DataFrame:
    """Return mended rows, of files of one format, as events; their cells are read as those of the files are.

    Raises MendError, naming every cell that does not fit.
    """
    schema, in_part = reading.dimension.schema, bool(reading.in_part) or any(map(_is_in_part, entries))
    _refuse_nested(reading)
    _refuse_parts(reading, entries)
    cells = {column.name: f"{_CELL}{number}" for number, column in enumerate(schema)}
    then = {column.name: f"{_WAS}{number}" for number, column in enumerate(reading.key_columns)}
    typed = {name: _typed(reading, name, cell) for name, cell in cells.items()}
    before = {name: _typed(reading, name, cell) for name, cell in then.items()}
    moment = f"unix_micros({to_type(_GIVEN, Type('timestamp'), TextFormat())})"
    frame = _as_texts(spark, reading, entries, [*cells.values(), *then.values()]).selectExpr(
        "*",
        *[f"{sql} AS {quoted(name)}" for name, sql in typed.items()],
        *[f"{sql} AS {_OLD}{then[name]}" for name, sql in before.items()],
        f"{moment} AS {_MOMENT}",
    )
    place = _MOMENT if reading.goes_by_time else "bigint(NULL)"
    place = reading.sequence(_PLACE) if reading.dimension.sequences.are_wide else place
    _refuse_misfits(frame, reading, entries, _misfits(reading, cells, then))
    return frame.selectExpr(
        *[quoted(name) for name in schema.names],
        names.OPERATION,
        f"coalesce({place}, {names.SEQUENCE}) AS {names.SEQUENCE}",
        *(names.OBJECT, names.ROW),
        f"bigint({_ENTRY}) AS {names.ARRIVAL}",
        f"coalesce({_MOMENT}, {_KNOWN}) AS {names.TIME}",
        *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        *(_in_part({name: _OLD + cell for name, cell in then.items()}) if in_part and then else ()),
    )


def events_of_json(spark: SparkSession, reading: Reading, entries: Sequence[Entry]) -> DataFrame:
    """Return rows of Parquet files, which stand in quarantine as JSON, as events, as they were written.

    Raises MendError, naming every row that does not fit.
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
        found = ", ".join(f"{_PARSED}.{quoted(name)}" for name in called[item.name])
        values[item.name] = f"CAST(coalesce({found}) AS {ddl(item.type)})"
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
    """Raise MendError where there are rows whose values do not fit; as many are looked at as a person replays."""
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
    """Return the type that JSON has for a value: its keys are texts."""
    parts = tuple(Column(part.name, _as_in_json(part.type)) for part in type_.parts)
    if type_.name == "map":
        parts = (Column("key", Type("string")), *parts[1:])
    return replace(type_, parts=parts)


def _is_in_part(entry: Entry) -> bool:
    return entry.repaired is not None and UNSET in entry.repaired.cells.values()


def _misfits(reading: Reading, cells: Mapping[str, str], then: Mapping[str, str]) -> Sequence[str]:
    """Return what is wrong with each cell, and with each text of an old key, by their columns."""
    now = [misfit(cells[c.name], c) for c in reading.dimension.schema if c.type.name != "string"]
    before = [c for c in reading.key_columns if c.type.name != "string"]
    return [*now, *[misfit(then[c.name], c, _OLD + then[c.name]) for c in before]]


def _typed(reading: Reading, name: str, cell: str) -> str:
    return reading.typed(cell, reading.dimension.schema.find(name) or Column(name, Type("string")))


def _in_part(then: Mapping[str, str]) -> Sequence[str]:
    """Return what was not sent, the key that was left, and the transaction, as the reader of files does."""
    moves = " OR ".join(f"coalesce({before}, {quoted(name)}) != {quoted(name)}" for name, before in then.items())
    fields = ", ".join(f"{text(name)}, coalesce({before}, {quoted(name)})" for name, before in then.items())
    return (
        f"CASE WHEN {names.OPERATION} != 'delete' THEN from_json({names.UNSET}, 'array<string>') END "
        f"AS {names.UNSET}",
        f"CASE WHEN {names.OPERATION} = 'update' AND ({moves}) THEN named_struct({fields}) END AS {names.OLD}",
        f"string(coalesce({_MOMENT}, {_KNOWN})) AS {names.TRANSACTION}",
    )


def _as_texts(spark: SparkSession, reading: Reading, entries: Sequence[Entry], cells: Sequence[str]) -> DataFrame:
    numbers = dict.fromkeys((_ENTRY, names.SEQUENCE, names.OBJECT, names.ROW, _KNOWN), "bigint")
    numbers[names.SEQUENCE] = str(names.sequence_type(reading.dimension.sequences))
    texts = (_GIVEN, _PLACE, names.OPERATION, names.UNSET, *cells)
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
    given = [repaired.time, repaired.sequence, repaired.operation.value]
    return [*given, json.dumps(unset) if unset else None, *sent]


def _refuse_parts(reading: Reading, entries: Sequence[Entry]) -> None:
    """Raise MendError for a cell that was not sent, or an old key, where the source has no such thing."""
    for entry in entries:
        is_anew = Reason(entry.reason) is Reason.SCHEMA  # what its file lacks was not sent
        cells = () if entry.repaired is None or is_anew else entry.repaired.cells.values()
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
    """Raise MendError for cells that do not fit their columns; as many rows are looked at as a person mended."""
    words = text('" is not a commit time')
    no_time = f"CASE WHEN {_GIVEN} IS NOT NULL AND {_MOMENT} IS NULL THEN concat('\"', {_GIVEN}, {words}) END"
    words, is_none = text('" is not a sequence'), f"{_PLACE} IS NOT NULL AND {reading.sequence(_PLACE)} IS NULL"
    no_place = f"CASE WHEN {is_none} THEN concat('\"', {_PLACE}, {words}) END"
    listed = f"filter(array({', '.join([*wrong, no_time, no_place])}), said -> said IS NOT NULL)"
    found = frame.selectExpr(_ENTRY, f"{listed} AS said").where("size(said) > 0").collect()
    if found:
        places = [(entries[row[_ENTRY]], row["said"]) for row in found]
        raise RepairError(
            f"{reading.dimension.name}: {format_count(len(found), 'mended row does', 'mended rows do')} not "
            "fit the table",
            found="\n".join(f"{entry.object}, row {entry.row}: {'; '.join(said)}" for entry, said in places),
            todo="Nothing was changed. Correct the cells, and take the file again.",
            rows=[(entry.order, entry.row) for entry, _ in places],
        )
