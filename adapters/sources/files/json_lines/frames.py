"""JSON lines as Spark frames: objects as rows, and lines as messages with key, topic and headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.files.named_fields import find_field, json_field, root_of, why_ambiguous
from lakeward.adapters.sources.messages.decoded import NULL, Decoded, bare, to_rows
from lakeward.adapters.sources.messages.json.spark_functions import register_functions
from lakeward.adapters.sources.messages.message import (
    BODY,
    KEY,
    NEW_KEY,
    NEW_KEY_HEADER,
    OLD_KEY,
    OLD_KEY_HEADER,
    TOPIC,
    cell,
    has,
    header,
    parsed_object,
    why_broken,
    with_parsed,
)
from lakeward.adapters.sources.rows.csv_frames import LINE_NUMBER
from lakeward.adapters.sources.rows.read_spec import Reading, below, escaped
from lakeward.adapters.spark.execution.parallelism import spread_lines
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE
from lakeward.adapters.spark.sql.names import text

UNDECLARED: Final = "_lakeward_strange"
"""The undeclared names in a row; NULL if there are none."""

_OBJECT: Final = "_lakeward_object_of_line"
_PARSED: Final = "_lakeward_parsed_line"
_RECORD: Final = "_lakeward_record"


def read_lines(spark: SparkSession, paths: Sequence[str], reading: Reading) -> DataFrame:
    """Return the lines of files with file and number; each file is one partition, so that lines can be counted."""
    register_functions(spark)
    value = f"CASE WHEN {LINE_NUMBER} = 1 AND startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END"
    lines = spark.read.text([escaped(path) for path in paths], lineSep="\n").selectExpr(
        f"{value} AS {VALUE}", f"{below(reading.base, paths)} AS {NAME}", f"{LINE_NUMBER} AS {LINE}"
    )
    return spread_lines(lines, len(paths), LINE)


def as_messages(lines: DataFrame, line: str) -> DataFrame:
    """Return lines as messages.

    With `line` = "value" a line is the value of a message without key, topic and headers. Otherwise it is a record,
    which has these as fields; a line without the field `value` is taken for a value.
    """
    if line == "value":
        nothing = [f"string(NULL) AS {name}" for name in (KEY, TOPIC, OLD_KEY, NEW_KEY)]
        return lines.selectExpr("*", f"{VALUE} AS {BODY}", *nothing)
    records = with_parsed(lines, {_PARSED: VALUE}).selectExpr("*", f"{parsed_object(_PARSED)} AS {_RECORD}")
    is_record = f"{has(_RECORD, 'value')}"
    body = f"CASE WHEN {is_record} THEN {cell(_RECORD, 'value')} ELSE {VALUE} END"
    headers = cell(_RECORD, "headers")
    return records.selectExpr(
        *lines.columns,
        f"{body} AS {BODY}",
        f"{cell(_RECORD, 'key')} AS {KEY}",
        f"{cell(_RECORD, 'topic')} AS {TOPIC}",
        f"{header(headers, OLD_KEY_HEADER)} AS {OLD_KEY}",
        f"{header(headers, NEW_KEY_HEADER)} AS {NEW_KEY}",
    )


def json_rows(lines: DataFrame, reading: Reading, named: Mapping[str, str], *, keeps_absent: bool) -> DataFrame:
    """Return JSON objects as rows.

    With `keeps_absent` a column that an object lacks was not sent, otherwise it is NULL. `named` are the columns
    and fields that the settings name, by setting (`lakeward.adapters.sources.files.named_fields`).
    """
    schema, key = reading.dimension.schema, reading.dimension.key
    frame = with_parsed(lines, {_PARSED: VALUE}).selectExpr("*", f"{parsed_object(_PARSED)} AS {_OBJECT}")
    renames = reading.dimension.policies.renames
    called = {c.name: [c.name, *(old for old, new in renames.items() if new == c.name)] for c in schema}
    cells = {name: f"coalesce({', '.join(cell(_OBJECT, n) for n in names)})" for name, names in called.items()}
    absent = {
        name: " AND ".join(f"NOT {has(_OBJECT, n)}" for n in names)
        for name, names in called.items()
        if name not in key
    }
    renamed = [names for names in called.values() if len(names) > 1]
    both = " ".join(
        f"WHEN {' + '.join(f'int({has(_OBJECT, n)})' for n in names)} > 1 THEN {text(why_ambiguous(names))}"
        for names in renamed
    )
    fields = {setting: json_field(_OBJECT, name, called) for setting, name in named.items()}
    decoded = Decoded(
        cells=cells,
        unset={name: f"({sql})" for name, sql in absent.items()} if keeps_absent else {},
        operation=fields["operation"].text if "operation" in fields else NULL,
        broken=f"CASE WHEN {_OBJECT} IS NULL THEN {why_broken(VALUE, 'the line is not a JSON object')} {both} END",
        blank=f"{bare(VALUE)} = ''",
        texts=(VALUE,),
    )
    operation = named.get("operation")
    of_none = [] if operation is None or find_field(schema, operation) else [operation, root_of(operation)]
    own = strange(_OBJECT, [*(n for names in called.values() for n in names), *of_none])
    flags = [flag for setting, field in fields.items() for flag in field.flags(_OBJECT, setting)]
    return to_rows(frame, reading, decoded, reading.written, own, *flags)


def strange(of: str, expected: Sequence[str], not_columns: str | None = None) -> str:
    """Return the names in an object that are not `expected` and do not match `not_columns`, as SQL."""
    listed = f"array({', '.join(map(text, expected))})"
    names = f"array_except(map_keys({of}), {listed})"
    if not_columns is not None:
        pattern = text(rf"\A(?s:{not_columns})\z")
        names = f"filter({names}, name -> NOT name RLIKE {pattern})"
    return f"nullif(array_sort({names}), CAST(array() AS array<string>)) AS {UNDECLARED}"
