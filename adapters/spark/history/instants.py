"""SQL for the instants from which events count in a history, and for instants in the validity columns.

`lakeward.core.history.instants` defines their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_LOAD, LEAVES_VALUES
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation, Position
from lakeward.core.history.instants import (
    instant_of_run,
    instant_range,
    open_end_detail,
    out_of_range_detail,
    valid_instant_range,
)
from lakeward.core.history.options import TIMES, ByColumn, ByRun, History
from lakeward.core.schema import Schema, Type

_IS_KEYED_EVENT: Final = f"{IS_EVENT} AND {names.OPERATION} != '{Operation.TRUNCATE.value}'"


def add_instants(
    frame: DataFrame, dimension: Dimension, epoch: int, ran: int, *, is_first: bool = False
) -> DataFrame:
    """Add to events the instant from which they count, unless they have one already: `instant_of` as SQL.

    `ran` is the time of the run in microseconds since 1970. With `is_first` the batch is the first of its table.
    """
    history = dimension.history
    if history is None:
        return frame
    instant = _instant(history, dimension.schema, ran)
    if (is_first or epoch == 1) and history.first_load is not None:
        instant = f"CASE WHEN {IS_LOAD} THEN {history.first_load}L ELSE {instant} END"
    if names.INSTANT in frame.columns:
        instant = f"coalesce({names.INSTANT}, {instant})"
    return frame.withColumn(names.INSTANT, F.expr(instant))


def undated_reason(frame: DataFrame, dimension: Dimension) -> str | None:
    """Return SQL for why an event has no valid instant although it needs one; NULL for all other events.

    The result is None if every event has one: `lakeward.core.history.instants.undated_detail` as SQL.
    """
    history = dimension.history
    if history is None:
        return None
    explanations = (
        []
        if history.validity_columns.open_end is None
        else [_reaches_open_end(history, history.validity_columns.open_end)]
    )
    if history.validity_columns.type.name not in (*TIMES, "bigint"):
        explanations.append(_out_of_range(history))
    if isinstance(history.validity, ByColumn):
        explanations.append(_missing_date(frame, dimension, history, history.validity.column))
    return f"coalesce({', '.join(explanations)})" if explanations else None


def _reaches_open_end(history: History, end: int) -> str:
    return f"CASE WHEN {names.INSTANT} >= {end}L AND {_IS_KEYED_EVENT} THEN {text(open_end_detail(history))} END"


def _out_of_range(history: History) -> str:
    least, most = instant_range(history.validity_columns.type)
    is_outside = f"{names.INSTANT} NOT BETWEEN {least}L AND {most}L AND {_IS_KEYED_EVENT}"
    return f"CASE WHEN {is_outside} THEN {text(out_of_range_detail(history))} END"


def _missing_date(frame: DataFrame, dimension: Dimension, history: History, column: str) -> str:
    frame_columns = set(frame.columns)
    is_known_column = dimension.schema.find(column) is not None  # False where the files lack the column
    is_unset = "false" if is_known_column else "true"
    too_large = (
        f"WHEN {quoted(column)} IS NOT NULL THEN {text(out_of_range_detail(history))}" if is_known_column else ""
    )
    if names.UNSET in frame_columns:
        is_unset = f"({is_unset} OR coalesce(array_contains({names.UNSET}, {text(column)}), false))"
    is_update = f"{names.OPERATION} = '{Operation.UPDATE.value}'"
    explanation = f"the column {column}, from which versions are dated,"
    key_change = f"WHEN {names.OLD} IS NOT NULL THEN {text(f'{explanation} was not sent with a change of the key')}"
    return (
        f"CASE WHEN {names.INSTANT} IS NOT NULL OR NOT coalesce({IS_EVENT} AND {LEAVES_VALUES}, false) THEN NULL "
        f"{too_large} WHEN NOT {is_unset} THEN {text(f'{explanation} is NULL')} "
        f"WHEN NOT {is_update} THEN {text(f'{explanation} was not sent with a new row')} "
        f"{key_change if names.OLD in frame_columns else ''} END"
    )


def _instant(history: History, schema: Schema, ran: int) -> str:
    """Return SQL for the instant from which an event counts."""
    time = of_time(f"coalesce({names.TIME}, {ran}L)", history)
    match history.validity:
        case ByRun():
            return of_time(f"{ran}L", history)
        case ByColumn(column=name):
            column = schema.find(name)
            value = "bigint(NULL)" if column is None else of_cell(quoted(name), column.type, history)
            if instant_of_run(history, ran) is None:
                return value
            is_removal = f"{names.OPERATION} IN ('{Operation.DELETE.value}', '{Operation.TRUNCATE.value}')"
            return f"CASE WHEN {is_removal} THEN {time} ELSE {value} END"
        case _:
            return time


def truncate_instants(frames: Sequence[DataFrame | None], epoch: int) -> Mapping[Position, int | None]:
    """Return the instants from which truncates count, given as frames of events.

    Frames without the instant column, as before a first batch, are skipped.
    """
    place = (names.SEQUENCE, names.OBJECT, names.ROW)
    rows = [
        row
        for frame in frames
        if frame is not None and names.INSTANT in frame.columns
        for row in frame.select(*place, names.INSTANT).collect()
    ]
    return {Position(epoch, int(s), o, r): instant for s, o, r, instant in rows}


def of_time(micros: str, history: History) -> str:
    """Return SQL for the instant of a time in microseconds since 1970."""
    if not history.by_day:
        return f"bigint({micros})"
    local = f"from_utc_timestamp(timestamp_micros({micros}), {text(history.zone)})"
    return f"bigint(unix_date(to_date({local})))"


def of_cell(value: str, type_: Type, history: History) -> str:
    """Return SQL for the instant in a column: a time without zone is taken unchanged, a number as a number."""
    match type_.name:
        case "timestamp":
            return of_time(f"unix_micros({value})", history)
        case "timestamp_ntz":
            return instant_of_value(value, type_) if not history.by_day else f"bigint(unix_date(to_date({value})))"
        case "date" | "int" | "bigint":
            return instant_of_value(value, type_)
        case "decimal":
            return f"try_cast({value} AS bigint)"
        case _:
            return "bigint(NULL)"


def of_countable(instant: str, history: History) -> str:
    """Return SQL for an instant, NULL if no version may be valid from it on."""
    if history.validity_columns.open_end is None and history.validity_columns.type.name in (*TIMES, "bigint"):
        return instant
    least, most = valid_instant_range(history)
    return f"CASE WHEN {instant} BETWEEN {least}L AND {most}L THEN {instant} END"


def instant_of_value(value: str, type_: Type) -> str:
    """Return SQL for the instant that a value of a validity column shows; a time without zone is in UTC."""
    match type_.name:
        case "date":
            return f"bigint(unix_date({value}))"
        case "timestamp":
            return f"unix_micros({value})"
        case "timestamp_ntz":
            return f"unix_micros(CAST({value} AS timestamp))"
        case _:
            return f"bigint({value})"


def as_validity_value(instant: str, type_: Type) -> str:
    """Return SQL for an instant as a value of the type of the validity columns."""
    match type_.name:
        case "date":
            return f"date_from_unix_date(int({instant}))"
        case "timestamp":
            return f"timestamp_micros({instant})"
        case "timestamp_ntz":
            return f"CAST(timestamp_micros({instant}) AS timestamp_ntz)"
        case _:
            return f"CAST({instant} AS {ddl(type_)})"
