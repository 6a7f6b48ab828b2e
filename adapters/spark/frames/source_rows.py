"""Convert the rows of any reader to the event frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import Dimension, Match
from lakeward.core.events import LOAD_SEQUENCE, Operation, Sequences
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import Capability
from lakeward.core.schema import Column, Type

NAME: Final = "_lakeward_name"
LINE: Final = "_lakeward_line"
VALUE: Final = "_lakeward_value"
OP_TEXT: Final = "_lakeward_op_text"
TIME_TEXT: Final = "_lakeward_time_text"
TRANSACTION_TEXT: Final = "_lakeward_transaction_text"
SEQUENCE_TEXT: Final = "_lakeward_sequence_text"
BROKEN: Final = "_lakeward_broken"
KEY_MISFIT: Final = "_lakeward_key_misfit"
MISFIT: Final = "_lakeward_misfit"
BLANK: Final = "_lakeward_blank"
TORN: Final = "_lakeward_torn"
MALFORMED: Final = "_lakeward_malformed"
"""Columns that the readers add to a row: the path of the file below the landing folder; the row number in it; the
source text; Op, commit time, transaction and sequence as texts; what is wrong with the row, its key or another
column; whether it is an empty line; whether it is a part of a row. `MALFORMED` is a column of the event frame:
whether the row as a whole cannot be read.
"""

HAS_IMAGE: Final = "_lakeward_has_image"
"""Column: whether a row has all columns from before the change. It is NULL where only a delete has them, as its
cells.
"""

_NUMBER: Final = "_lakeward_number"
"""Column: the sequence as a number, NULL if it is not one."""

_SOURCE_TEXT: Final = "_lakeward_written"
"""Column: the source text of rows that need it, else NULL. So Spark builds no text for other rows."""

UPSERT: Final = "upsert"
"""The meaning of an operation word that writes a row, whether or not there was one."""

IS_LOAD, RANK, HAS_OP = "_lakeward_is_load", "_lakeward_rank", "_lakeward_has_op"
"""Columns that a file gives its rows: whether they are from a full load; the rank of the file in the batch; whether
they have an Op column.
"""

ARRIVAL_BITS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """How the rows of a table say which events they are.

    - `timestamp_column`, `sequence_column`: the columns of the commit time and the sequence, if any
    - `is_any_number`: whether a sequence may be 0 or negative
    - `operations`: the meaning of each operation word
    - `takes_other_words`: whether any other word is a change like one without a word; an object or list is none
    - `without_op`: the operation of a change without a word
    - `indicator`: a column whose values `indicator_values` say delete, update and insert
    - `transaction`: SQL for the name of the transaction
    - `may_need`: the capabilities that partial rows may need
    """

    dimension: Dimension
    timestamp_column: str | None = None
    sequence_column: str | None = None
    source_zone: str = "UTC"
    patterns: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, str] = field(default_factory=dict)
    takes_other_words: bool = False
    without_op: str = "read"
    indicator: str | None = None
    indicator_values: Sequence[str] = ("D", "U", "I")
    is_any_number: bool = False
    transaction: str = f"string({names.TIME})"
    may_need: frozenset[Capability] = frozenset()

    @property
    def goes_by_time(self) -> bool:
        """Whether changes have a commit time and are ordered by it."""
        return self.timestamp_column is not None and self.dimension.sequences is not Sequences.ARRIVAL

    @property
    def key_columns(self) -> Sequence[Column]:
        """The columns of the key, in key order."""
        columns = [self.dimension.schema.find(name) for name in self.dimension.key]
        return [column for column in columns if column is not None]

    @property
    def before_columns(self) -> Sequence[Column]:
        """The columns whose values before a change are needed: those of the key, or all for image match."""
        return list(self.dimension.schema) if self.dimension.match is Match.IMAGE else self.key_columns

    @property
    def in_part(self) -> frozenset[Capability]:
        """The capabilities that partial rows may need."""
        return self.may_need

    @property
    def may_be_whole_or_not(self) -> bool:
        """Whether a row without an operation word is a read if it is whole, and an update if not."""
        may_lack_word = not self.operations or self.takes_other_words or UPSERT in self.operations.values()
        return may_lack_word and self.without_op == "read" and bool(self.dimension.key)

    def format_of(self, name: str) -> TextFormat:
        """Return the text format of a column."""
        return TextFormat(self.patterns.get(name), self.source_zone)

    def typed(self, cell: str, column: Column) -> str:
        """Return SQL for the typed value of a cell, NULL if it does not fit."""
        return to_type(cell, column.type, self.format_of(column.name))

    def operation_of(self, word: str | None, indicator: str | None, *, is_whole: bool) -> Operation | None:
        """Return the operation that a word means, None if it means none; the same as the SQL in `to_events`.

        `indicator` is the value of the indicator column. `is_whole` says whether all columns were sent.
        """
        if indicator is not None:
            operations = (Operation.DELETE, Operation.UPDATE, Operation.INSERT)
            return dict(zip(self.indicator_values, operations, strict=True)).get(indicator)
        change = "update" if self.without_op == "read" and not is_whole else self.without_op
        is_word = word is not None and not word.lstrip(" ").startswith(("{", "["))
        other = UPSERT if self.takes_other_words and is_word else None
        meaning = other if word is None else self.operations.get(word, other)
        return None if meaning is None else Operation(change if meaning == UPSERT else meaning)

    def sequence(self, value: str) -> str:
        """Return SQL for the sequence in a text, NULL if it has none."""
        return to_number(value) if self.is_any_number else to_sequence(value)


MOST_DIGITS: Final = 35
"""The number of digits of $AR_H_CHANGE_SEQ."""


_DIGITS: Final = r"\A0*[1-9][0-9]*\z"


def to_sequence(value: str) -> str:
    """Return SQL for the sequence in a text: digits only, and not all 0; else NULL."""
    is_number = f"length({value}) <= {MOST_DIGITS} AND {value} RLIKE {text(_DIGITS)}"
    return f"CASE WHEN {is_number} THEN try_cast({value} AS decimal(38,0)) END"


_NUMBER_TEXT: Final = r"\A-?[0-9]{1,38}\z"


def to_number(value: str) -> str:
    """Return SQL for the sequence in a text: a whole number; else NULL."""
    return f"CASE WHEN {value} RLIKE {text(_NUMBER_TEXT)} THEN try_cast({value} AS decimal(38,0)) END"


def is_nested(value: str) -> str:
    """Return SQL for whether a text begins like an object or a list of JSON."""
    return f"left(ltrim({value}), 1) IN ('{{', '[')"


def before_column(index: int) -> str:
    """Return the name of the column with the value of a `before_columns` column before the change."""
    return f"_lakeward_before_{index}"


def to_events(rows: DataFrame, files: DataFrame, telling: RowSettings, also: Sequence[str] = ()) -> DataFrame:
    """Return the event frame of rows as a reader returned them; `also` are further columns to keep.

    Commit times are in UTC: in a zone with summer time one hour occurs twice a year, and commit times must be in
    order. Values that are used more than once become columns first, since Spark may evaluate a repeated expression
    each time.
    """
    micros = to_type(TIME_TEXT, Type("timestamp"), TextFormat())
    problems = _problems(telling)
    explanations = " ".join(f"WHEN {wrong} THEN {explanation}" for wrong, _, explanation in problems)
    reasons = " ".join(f"WHEN {wrong} THEN '{reason}'" for wrong, reason, _ in problems)
    is_reject = f"{names.REASON} != '{SKIPPED}'"
    has_text = "true" if telling.dimension.keeps_text else is_reject
    with_operations = rows.join(F.broadcast(files), NAME).selectExpr(
        "*",
        f"{_operation(telling)} AS {names.OPERATION}",
        f"unix_micros({micros}) AS {names.TIME}",
        f"{telling.sequence(SEQUENCE_TEXT)} AS {_NUMBER}",
    )
    with_reasons = with_operations.selectExpr("*", f"CASE {reasons} END AS {names.REASON}")
    with_text = with_reasons.selectExpr("*", f"CASE WHEN {has_text} THEN {VALUE} END AS {_SOURCE_TEXT}")
    return with_text.selectExpr(
        *[quoted(name) for name in telling.dimension.schema.names],
        names.OPERATION,
        f"{_sequence(telling)} AS {names.SEQUENCE}",
        names.OBJECT,
        f"{LINE} AS {names.ROW}",
        f"shiftleft({RANK}, {ARRIVAL_BITS}) + {LINE} AS {names.ARRIVAL}",
        names.TIME,
        names.REASON,
        f"CASE WHEN {is_reject} THEN CASE {explanations} END END AS {names.DETAIL}",
        f"{_as_text()} AS {names.TEXT}",
        *(_partial_row_columns(telling) if telling.in_part else ()),
        *([_image(telling)] if telling.dimension.match is Match.IMAGE else ()),
        TORN,
        f"{BROKEN} IS NOT NULL AND NOT {BLANK} AS {MALFORMED}",
        *also,
    )


def _sequence(telling: RowSettings) -> str:
    """Return SQL for the sequence of a row: the lowest one for a row of a load, and for a change without one."""
    change_sequence = names.TIME if telling.goes_by_time else "0L"
    if telling.sequence_column is not None:
        change_sequence = _NUMBER
    type_ = names.sequence_type(telling.dimension.sequences)
    lowest = f"CAST('{LOAD_SEQUENCE}' AS {type_})"  # the least bigint cannot be written as a literal
    return f"CASE WHEN {IS_LOAD} THEN {lowest} ELSE coalesce({change_sequence}, {lowest}) END"


def _partial_row_columns(telling: RowSettings) -> Sequence[str]:
    """Return SQL for what was not sent, the old key, and the transaction.

    A row with an unknown operation may be an update, so it has an old key too and holds both keys.
    """
    key = [(before_column(index), quoted(item.name)) for index, item in enumerate(telling.key_columns)]
    key_differs = " OR ".join(f"coalesce({before}, {name}) != {name}" for before, name in key) or "false"
    fields = ", ".join(
        f"{text(c.name)}, coalesce({b}, {n})" for c, (b, n) in zip(telling.key_columns, key, strict=True)
    )
    may_change_key = f"({names.OPERATION} = 'update' OR ({names.OPERATION} IS NULL AND NOT {IS_LOAD}))"
    old = f"CASE WHEN {may_change_key} AND ({key_differs}) THEN named_struct({fields}) END"
    return (
        f"CASE WHEN {names.OPERATION} NOT IN ('delete', 'truncate') THEN {names.UNSET} END AS {names.UNSET}",
        f"{old if key else 'CAST(NULL AS struct<nothing:int>)'} AS {names.OLD}",
        f"{telling.transaction} AS {names.TRANSACTION}",
    )


def _image(telling: RowSettings) -> str:
    """Return SQL for the row before an update or delete, NULL if it was not sent whole."""
    is_delete, before = f"{names.OPERATION} = 'delete'", [*enumerate(telling.before_columns)]
    own = {c.name: f"CASE WHEN {is_delete} THEN {quoted(c.name)} END" for _, c in before}
    fields = ", ".join(f"{text(c.name)}, coalesce({before_column(i)}, {own[c.name]})" for i, c in before)
    is_whole = f"coalesce({HAS_IMAGE}, {is_delete} AND {names.UNSET} IS NULL)"
    is_change = f"{names.OPERATION} IN ('update', 'delete') AND {is_whole}"
    return f"CASE WHEN {is_change} THEN named_struct({fields}) END AS {names.IMAGE}"


def _as_text() -> str:
    """Return SQL for the source text.

    Bytes that are not UTF-8 are shown in hexadecimal, since readers refuse them as text.
    """
    return f"CASE WHEN {is_valid_utf8(_SOURCE_TEXT)} THEN {_SOURCE_TEXT} ELSE concat('0x', hex({_SOURCE_TEXT})) END"


def _operation(telling: RowSettings) -> str:
    """Return SQL for the operation by the Op column. Rows of a full load are reads, not inserts.

    A change without Op says only which values it leaves: cells that were not sent keep their values.
    """
    words = telling.operations.items()
    read = f"CASE WHEN NOT {HAS_OP} OR coalesce({OP_TEXT}, '') IN ('', 'I') THEN 'read' END"
    change = f"'{telling.without_op}'"
    if telling.without_op == "read":
        change = f"CASE WHEN {names.UNSET} IS NULL THEN 'read' ELSE 'update' END"
    meanings = [(word, change if meaning == UPSERT else f"'{meaning}'") for word, meaning in words]
    by_word = " ".join(f"WHEN {OP_TEXT} = {text(word)} THEN {meaning}" for word, meaning in meanings)
    other = f"WHEN NOT {is_nested(OP_TEXT)} THEN {change}" if telling.takes_other_words else ""
    by_op = f"CASE WHEN {IS_LOAD} THEN {read} WHEN NOT {HAS_OP} THEN {change} {by_word} {other} END"
    indicator = _indicator(telling)
    if indicator is None:
        return by_op
    delete, update, insert = map(text, telling.indicator_values)
    by_indicator = f"WHEN {IS_LOAD} AND {indicator} IN ({update}, {insert}) THEN 'read' "
    by_indicator += f"WHEN {indicator} = {update} THEN 'update'"
    return (
        f"CASE WHEN {indicator} IS NULL THEN {by_op} WHEN {indicator} = {delete} THEN 'delete' {by_indicator} "
        f"WHEN {indicator} = {insert} THEN 'insert' END"
    )


def _indicator(telling: RowSettings) -> str | None:
    """Return SQL for the value of the indicator column, None if the files lack it."""
    column = telling.dimension.schema.find(telling.indicator) if telling.indicator is not None else None
    return None if column is None else f"string({quoted(column.name)})"


def _problems(telling: RowSettings) -> list[tuple[str, str, str]]:
    """Return the problems that a row can have, in order of precedence: SQL condition, reason, SQL explanation."""
    problems = [
        (BLANK, SKIPPED, "''"),
        (f"{BROKEN} IS NOT NULL", Reason.UNREADABLE.value, BROKEN),
        (f"{KEY_MISFIT} IS NOT NULL", Reason.UNREADABLE.value, KEY_MISFIT),
    ]
    for name in telling.dimension.key:
        words = text(f"the key column {name} is NULL")
        is_null = f"{quoted(name)} IS NULL AND {names.OPERATION} IS DISTINCT FROM '{Operation.TRUNCATE.value}'"
        problems.append((is_null, Reason.NULL_KEY.value, words))
    no_time = f"NOT {IS_LOAD} AND {names.TIME} IS NULL"
    if not telling.goes_by_time:  # a change need not have a commit time
        no_time += f" AND {TIME_TEXT} IS NOT NULL"
    problems.append((no_time, Reason.SEQUENCE.value, _explanation_of(TIME_TEXT, "is not a commit time")))
    if telling.sequence_column is not None:
        no_place = f"NOT {IS_LOAD} AND {_NUMBER} IS NULL"
        words = f"is not a number of up to {MOST_DIGITS} digits above 0 (column {telling.sequence_column})"
        if telling.is_any_number:
            words = f"says nothing of the order ({telling.sequence_column})"
        unknown = _explanation_of(SEQUENCE_TEXT, words)
        is_sequence_misfit = f"endswith({MISFIT}, {text(f'(column {telling.sequence_column})')})"
        misfit = f"concat({MISFIT}, {text(', so that nothing says its place in the order')})"
        unknown = f"CASE WHEN {is_sequence_misfit} THEN {misfit} ELSE {unknown} END"
        problems.append((no_place, Reason.SEQUENCE.value, unknown))
    indicator = _indicator(telling)
    operation_text = OP_TEXT if indicator is None else f"coalesce({indicator}, {OP_TEXT})"
    nested = _explanation_of(
        operation_text, "is an object or a list, and not an operation: name the field in it by its path"
    )
    plain = _explanation_of(operation_text, "is not an operation")
    unknown_operation = f"CASE WHEN {is_nested(operation_text)} THEN {nested} ELSE {plain} END"
    problems.append((f"{names.OPERATION} IS NULL", Reason.OPERATION.value, unknown_operation))
    problems.append((f"{MISFIT} IS NOT NULL", Reason.CAST.value, MISFIT))
    return problems


def _explanation_of(value: str, words: str) -> str:
    return f"concat(coalesce(concat('\"', {value}, '\"'), 'NULL'), {text(' ' + words)})"
