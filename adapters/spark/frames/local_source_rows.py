"""Convert the rows of a reader in this process to the event frame, as an Arrow table.

The rows of one file are an Arrow table with the columns that the Spark readers add
(`adapters.spark.frames.source_rows`), except for the place of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_casts import arrow_type, typed
from lakeward.adapters.spark.frames.source_rows import (
    ARRIVAL_BITS,
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MALFORMED,
    MISFIT,
    MOST_DIGITS,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    TRANSACTION_TEXT,
    UPSERT,
    VALUE,
    RowSettings,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.core.dimension import Match
from lakeward.core.events import LOAD_SEQUENCE, Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.schema import Type

NAMES: Final = pa.list_(pa.field("element", pa.string()))
"""The type of the list of columns that were not sent."""

NO_OLD_KEY: Final = pa.struct({"nothing": pa.int32()})
"""The type of the old key in a table without a key."""

Texts: TypeAlias = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class FilePlace:
    """What a file gives its rows: its order among the files of the table, its rank in the batch, and its kind."""

    order: int
    rank: int
    is_load: bool
    has_op: bool


def why_spark(telling: RowSettings) -> str | None:
    """Return which setting only Spark can read; None if everything can be read here."""
    indicator = telling.dimension.schema.find(telling.indicator) if telling.indicator is not None else None
    if indicator is not None:
        return f"the column {indicator.name} tells the operation"
    return None


def to_events(rows: pa.Table, file: FilePlace, telling: RowSettings, also: Sequence[str] = ()) -> pa.Table:
    """Return the event frame of the rows of one file, like `adapters.spark.frames.source_rows.to_events`."""
    count = rows.num_rows
    unset = rows.column(names.UNSET)
    operations = pa.array(_operations(rows, file, telling), pa.string())
    times = typed(_combined(rows, TIME_TEXT), Type("timestamp"), TextFormat()).cast(pa.int64())
    numbers = _numbers(rows.column(SEQUENCE_TEXT).to_pylist(), telling)
    reasons, details = _reasons(rows, _problems(rows, file, telling, operations, times, numbers))
    is_reject = pc.fill_null(pc.not_equal(reasons, SKIPPED), False)
    value, lines = rows.column(VALUE), rows.column(LINE)
    columns = {name: rows.column(name) for name in telling.dimension.schema.names}
    columns |= {
        names.OPERATION: operations,
        names.SEQUENCE: _sequences(file, telling, times, numbers),
        names.OBJECT: _constant(file.order, count),
        names.ROW: lines,
        names.ARRIVAL: pc.add(lines, file.rank << ARRIVAL_BITS),
        names.TIME: times,
        names.REASON: reasons,
        names.DETAIL: details,
        names.TEXT: value if telling.dimension.keeps_text else pc.if_else(is_reject, value, None),
    }
    if telling.in_part:
        is_sent_in_part = pc.invert(pc.is_in(operations, pa.array(["delete", "truncate", None])))
        columns[names.UNSET] = pc.if_else(is_sent_in_part, unset, pa.scalar(None, unset.type))
        columns[names.OLD] = old_keys(rows, file, telling, operations)
        has_text = telling.transaction == TRANSACTION_TEXT
        columns[names.TRANSACTION] = rows.column(TRANSACTION_TEXT) if has_text else times.cast(pa.string())
    if telling.dimension.match is Match.IMAGE:
        columns[names.IMAGE] = _images(rows, telling, operations)
    columns[TORN] = rows.column(TORN)
    columns[MALFORMED] = pc.and_(rows.column(BROKEN).is_valid(), pc.invert(rows.column(BLANK)))
    return pa.table({**columns, **{name: rows.column(name) for name in also}})


def _combined(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()


def _constant(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)


def _operations(rows: pa.Table, file: FilePlace, telling: RowSettings) -> Texts:
    """Return the operation of each row by its Op column, None if it is unknown."""
    words = rows.column(OP_TEXT).to_pylist()
    if file.is_load:
        return ["read" if not file.has_op or (word or "") in ("", "I") else None for word in words]
    changes = _changes_without_word(rows, telling)
    if not file.has_op:
        return changes
    meanings = {word: None if meaning == UPSERT else meaning for word, meaning in telling.operations.items()}
    operations: list[str | None] = []
    for word, change in zip(words, changes, strict=True):
        if word in meanings:
            operations.append(meanings[word] or change)
        else:
            is_change = telling.takes_other_words and word is not None and not _is_nested(word)
            operations.append(change if is_change else None)
    return operations


def _changes_without_word(rows: pa.Table, telling: RowSettings) -> Sequence[str]:
    """Return the operations of changes without a word for one."""
    if telling.without_op != "read" or not rows.column(names.UNSET).null_count < rows.num_rows:
        return [telling.without_op] * rows.num_rows
    return ["read" if sent_all else "update" for sent_all in rows.column(names.UNSET).is_null().to_pylist()]


def _is_nested(word: str) -> bool:
    return word.lstrip(" ").startswith(("{", "["))


_LOG_PLACE: Final = re.compile(rf"(?=.{{1,{MOST_DIGITS}}}\Z)0*[1-9][0-9]*\Z", re.ASCII)
_NUMBER: Final = re.compile(r"-?[0-9]{1,38}\Z", re.ASCII)


def _numbers(texts: Texts, telling: RowSettings) -> Sequence[int | None]:
    """Return the sequences of texts, None for a text that is not a sequence."""
    form = _NUMBER if telling.is_any_number else _LOG_PLACE
    return [int(text) if text is not None and form.match(text) else None for text in texts]


def _sequences(file: FilePlace, telling: RowSettings, times: pa.Array, numbers: Sequence[int | None]) -> pa.Array:
    is_wide = telling.dimension.sequences.are_wide
    type_ = arrow_type(names.sequence_type(telling.dimension.sequences))
    if file.is_load:
        return pa.repeat(pa.scalar(Decimal(LOAD_SEQUENCE) if is_wide else LOAD_SEQUENCE, type_), len(times))
    if telling.sequence_column is not None:
        places = [LOAD_SEQUENCE if number is None else number for number in numbers]
        return pa.array(map(Decimal, places) if is_wide else places, type_)
    if not telling.goes_by_time:
        return _constant(0, len(times)).cast(type_)
    return pc.fill_null(times, LOAD_SEQUENCE).cast(type_)


@dataclass(frozen=True, slots=True)
class _Problem:
    """One kind of problem: which rows have it, the reason, and a function for the explanation of a row."""

    wrong: pa.Array
    reason: str
    detail: Callable[[int], str | None]


def _problems(
    rows: pa.Table,
    file: FilePlace,
    telling: RowSettings,
    operations: pa.Array,
    times: pa.Array,
    numbers: Sequence[int | None],
) -> Sequence[_Problem]:
    """Return the problems that rows can have, in order of precedence."""
    unreadable = Reason.UNREADABLE.value
    return [
        _Problem(rows.column(BLANK), SKIPPED, lambda _row: ""),
        _Problem(rows.column(BROKEN).is_valid(), unreadable, _text_of(rows, BROKEN)),
        _Problem(rows.column(KEY_MISFIT).is_valid(), unreadable, _text_of(rows, KEY_MISFIT)),
        *_key_problems(rows, telling, operations),
        *(() if file.is_load else _order_problems(rows, telling, times, numbers)),
        _Problem(
            operations.is_null(),
            Reason.OPERATION.value,
            lambda row: _no_operation(rows.column(OP_TEXT)[row].as_py()),
        ),
        _Problem(rows.column(MISFIT).is_valid(), Reason.CAST.value, _text_of(rows, MISFIT)),
    ]


def _text_of(rows: pa.Table, name: str) -> Callable[[int], str | None]:
    """Return a function that explains a row by the text in a column."""
    return lambda row: rows.column(name)[row].as_py()


def _key_problems(rows: pa.Table, telling: RowSettings, operations: pa.Array) -> Iterator[_Problem]:
    """Yield a problem for each key column: it may be NULL in a truncate alone."""
    has_key = pc.fill_null(pc.not_equal(operations, Operation.TRUNCATE.value), True)
    for name in telling.dimension.key:
        lacks_key = pc.and_(rows.column(name).is_null(), has_key)
        yield _Problem(lacks_key, Reason.NULL_KEY.value, _constant_text(f"the key column {name} is NULL"))


def _order_problems(
    rows: pa.Table, telling: RowSettings, times: pa.Array, numbers: Sequence[int | None]
) -> Iterator[_Problem]:
    """Yield the problems of changes that have no commit time, or no place in the order."""
    no_time = times.is_null()
    if not telling.goes_by_time:  # a change need not have a commit time
        no_time = pc.and_(no_time, rows.column(TIME_TEXT).is_valid())
    yield _Problem(
        no_time,
        Reason.SEQUENCE.value,
        lambda row: _explanation_of(rows.column(TIME_TEXT)[row].as_py(), "is not a commit time"),
    )
    if telling.sequence_column is not None:
        explanation = f"is not a number of up to {MOST_DIGITS} digits above 0 (column {telling.sequence_column})"
        if telling.is_any_number:
            explanation = f"says nothing of the order ({telling.sequence_column})"
        no_place = pa.array([number is None for number in numbers], pa.bool_())
        yield _Problem(no_place, Reason.SEQUENCE.value, _no_place(rows, telling.sequence_column, explanation))


def _no_place(rows: pa.Table, column: str, words: str) -> Callable[[int], str]:
    """Return a function that explains why a row has no place in the order; `column` should have it."""

    def explain(row: int) -> str:
        misfit = rows.column(MISFIT)[row].as_py()
        if misfit is not None and misfit.endswith(f"(column {column})"):
            return f"{misfit}, so that nothing says its place in the order"
        return _explanation_of(rows.column(SEQUENCE_TEXT)[row].as_py(), words)

    return explain


def _constant_text(words: str) -> Callable[[int], str]:
    return lambda _row: words


def _no_operation(word: str | None) -> str:
    if word is not None and _is_nested(word):
        return _explanation_of(
            word, "is an object or a list, and not an operation: name the field in it by its path"
        )
    return _explanation_of(word, "is not an operation")


def _explanation_of(value: str | None, words: str) -> str:
    return f"{'NULL' if value is None else f'{chr(34)}{value}{chr(34)}'} {words}"


def _reasons(rows: pa.Table, problems: Sequence[_Problem]) -> tuple[pa.Array, pa.Array]:
    """Return the first problem of each row, None if it has none, and the explanations."""
    reasons: list[str | None] = [None] * rows.num_rows
    details: list[str | None] = [None] * rows.num_rows
    for problem in problems:
        for row in pc.indices_nonzero(problem.wrong).to_pylist():
            if reasons[row] is None:
                reasons[row] = problem.reason
                details[row] = None if problem.reason == SKIPPED else problem.detail(row)
    return pa.array(reasons, pa.string()), pa.array(details, pa.string())


def old_keys(rows: pa.Table, file: FilePlace, telling: RowSettings, operations: pa.Array) -> pa.Array:
    """Return the old key of each row, NULL if its key did not change."""
    key = [(c.name, rows.column(before_column(i)), rows.column(c.name)) for i, c in enumerate(telling.key_columns)]
    if not key:
        return pa.nulls(rows.num_rows, NO_OLD_KEY)
    parts = {name: _as_array(pc.coalesce(before, now)) for name, before, now in key}
    key_differs = pa.repeat(pa.scalar(False), rows.num_rows)
    for name, _, now in key:
        key_differs = pc.or_kleene(key_differs, _are_different(parts[name], _as_array(now)))
    may_change_key = pc.fill_null(pc.equal(operations, "update"), not file.is_load)
    has_changed_key = pc.fill_null(pc.and_kleene(may_change_key, key_differs), False)
    return pa.StructArray.from_arrays(list(parts.values()), list(parts), mask=pc.invert(has_changed_key))


def _are_different(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return which values differ. NaN equals NaN, as in Spark (SQL reference, NaN semantics)."""
    differs = pc.not_equal(first, second)
    if not pa.types.is_floating(first.type):
        return differs
    return pc.and_not_kleene(differs, pc.and_kleene(pc.is_nan(first), pc.is_nan(second)))


def _images(rows: pa.Table, telling: RowSettings, operations: pa.Array) -> pa.Array:
    """Return the row before each update or delete, NULL if it was not sent whole."""
    is_delete = pc.equal(operations, "delete")
    is_whole_delete = pc.and_kleene(is_delete, rows.column(names.UNSET).is_null())
    is_change = pc.is_in(operations, pa.array(["update", "delete"]))
    has_image = pc.and_kleene(is_change, pc.coalesce(rows.column(HAS_IMAGE), is_whole_delete))
    parts = {}
    for index, item in enumerate(telling.before_columns):
        own = rows.column(item.name)
        own = pc.if_else(pc.fill_null(is_delete, False), own, pa.scalar(None, own.type))
        parts[item.name] = _as_array(pc.coalesce(rows.column(before_column(index)), own))
    lacks_image = _as_array(pc.invert(pc.fill_null(has_image, False)))
    return pa.StructArray.from_arrays(list(parts.values()), list(parts), mask=lacks_image)


def _as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
