"""CSV files as Spark frames: one read for all files of a layout.

The rules are those of `lakeward.adapters.sources.csv.parser`, and the results must be equal. Here they are SQL
expressions, so that no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakeward.adapters.sources.csv.layout import BEFORE, OP, SEQUENCE, TIME, Layout
from lakeward.adapters.sources.csv.parser import BOM, STRAY_QUOTE, Dialect
from lakeward.adapters.sources.csv.repeated_header import repeat_of
from lakeward.adapters.sources.rows.read_spec import Reading, below, escaped
from lakeward.adapters.spark.execution.parallelism import spread_lines
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.session.compatibility import is_valid_utf8, read_text
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import misfit, to_type
from lakeward.adapters.spark.sql.names import column, quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import Column, Type

WHOLE_FILES: Final = {
    # A file is one partition and is not split, so that a line's number is its place in the partition.
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
}
_LINE_MASK: Final = (1 << 33) - 1  # of monotonically_increasing_id: what is below the partition's number
LINE_NUMBER: Final = f"((monotonically_increasing_id() & {_LINE_MASK}L) + 1)"
"""The number of a line from 1, as SQL. It requires that each file is one partition (`WHOLE_FILES`)."""

_PARSED: Final = "_lakeward_parsed"
_RAW: Final = "_lakeward_raw"

_END_OF_INPUT: Final = "\uffff"
"""The character that Spark's parser takes for the end of its input: it would read the rest as another row.

Rows with it are refused, so it serves as quote and as escape of a dialect without quotes.
"""

_UNQUOTED_EMPTY: Final = "\ue000\ue001"
_QUOTED: Final = "\ue002\ue003"
_QUOTED_NO_SUP: Final = "\ue002\ue004"
_NO_END: Final = "\ue005"
"""Placeholders within one parse: for an unquoted empty field, for the quoted text of NULL, for the quoted text of a
cell that was not sent, and for the end of a row in a dialect whose rows do not end in a line feed."""


def read_csv(
    spark: SparkSession, paths: Sequence[str], layout: Layout, reading: Reading, *, has_torn_rows: bool
) -> DataFrame:
    """Return the typed rows of CSV files of one layout, with the reasons of those that do not fit.

    With `has_torn_rows` rows may span several lines. Their lines are joined first, which shuffles the data once.
    Without it a line of such a row is flagged TORN.
    """
    at = layout.first_line
    lines = read_rows(spark, paths, reading.dialect, reading.base, has_torn_rows=has_torn_rows, first=at)
    return typed_rows(without_cr(lines) if layout.is_crlf else lines, layout, reading)


def read_rows(
    spark: SparkSession,
    paths: Sequence[str],
    dialect: Dialect,
    base: str,
    *,
    has_torn_rows: bool,
    first: int = 1,
) -> DataFrame:
    """Return the unparsed rows of CSV files from the line `first` on, each with its file and line."""
    # Patterns would turn bytes that are no UTF-8 into other ones, and take two line ends for one.
    value = f"CASE WHEN {LINE_NUMBER} = 1 AND startswith(value, '{BOM}') THEN substring(value, 2) ELSE value END"
    lines = read_text(spark, [escaped(path) for path in paths], dialect.row_end).selectExpr(
        f"{value} AS {VALUE}", f"{below(base, paths)} AS {NAME}", f"{LINE_NUMBER} AS {LINE}"
    )
    lines = spread_lines(lines, len(paths), LINE)
    if first > 1:
        lines = lines.where(f"{LINE} >= {first}")
    is_torn = f"{_quotes(dialect)} % 2 = 1" if dialect.quote else "false"
    if has_torn_rows:
        lines = _whole_rows(lines, is_torn, dialect.row_end)
    return lines.selectExpr(VALUE, NAME, LINE, f"{is_torn} AS {TORN}")


def without_cr(rows: DataFrame) -> DataFrame:
    """Return rows without the carriage returns at their ends."""
    ends = f"CASE WHEN endswith({VALUE}, '\\r') THEN left({VALUE}, length({VALUE}) - 1) ELSE {VALUE} END"
    return rows.withColumn(VALUE, F.expr(ends))


def typed_rows(rows: DataFrame, layout: Layout, reading: Reading) -> DataFrame:
    """Return the rows of `read_rows` typed, with the reasons of those that do not fit."""
    return _typed(_split(rows, layout, reading.dialect), layout, reading)


def _quotes(dialect: Dialect) -> str:
    """Return the number of quotes of a row, as SQL; counting bytes is faster than counting characters."""
    without = f"replace({VALUE}, {text(dialect.quote)}, '')"
    return f"((octet_length({VALUE}) - octet_length({without})) div {len(dialect.quote.encode())})"


def _whole_rows(lines: DataFrame, is_torn: str, row_end: str) -> DataFrame:
    """Join the lines of each row: a row ends at the first line at which its number of quotes is even."""
    so_far = Window.partitionBy(column(NAME)).orderBy(column(LINE))
    before = so_far.rowsBetween(Window.unboundedPreceding, -1)
    torn_before = F.coalesce(F.sum(F.expr(f"int({is_torn})")).over(before), F.lit(0))
    start = F.last(F.expr(f"CASE WHEN torn_before % 2 = 0 THEN {LINE} END"), ignorenulls=True).over(so_far)
    return (
        lines.withColumn("torn_before", torn_before)
        .withColumn("start", start)
        .groupBy(NAME, "start")
        .agg(F.expr(f"array_sort(collect_list(struct({LINE}, {VALUE})))").alias("pieces"))
        .selectExpr(NAME, f"start AS {LINE}", f"array_join(pieces.{VALUE}, {text(row_end)}) AS {VALUE}")
    )


def _split(lines: DataFrame, layout: Layout, dialect: Dialect) -> DataFrame:
    """Add the column `_RAW`: a struct with one text for each field, NULL if the row breaks the rules.

    The parsed row is a column of its own: within one expression Spark would parse again for each field.
    """
    keeps_rules = f"{is_valid_utf8(VALUE)} AND NOT contains({VALUE}, {text(_END_OF_INPUT)})"
    if dialect.quote:
        has_quote = f"contains({VALUE}, {text(dialect.quote)})"
        keeps_rules += f" AND (NOT {has_quote} OR {_is_well_quoted(dialect)})"
    width = range(len(layout.columns))
    schema = ", ".join([*(f"f{i} string" for i in width), "broken string"])
    options = {
        "sep": dialect.delimiter,
        "quote": dialect.quote or _END_OF_INPUT,
        "escape": dialect.quote or _END_OF_INPUT,
        # By default NUL escapes the escape, and would be taken out of a text.
        "charToEscapeQuoteEscaping": _END_OF_INPUT,
        "nullValue": _UNQUOTED_EMPTY,
        "emptyValue": "",
        "lineSep": "\n" if dialect.row_end == "\n" else _NO_END,
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "broken",
    }
    options_sql = ", ".join(f"{text(name)}, {text(value)}" for name, value in options.items())
    parse = f"from_csv({_with_marks(dialect)}, {text(schema)}, map({options_sql}))"
    fields = ", ".join(f"{_cell(f'{_PARSED}.f{i}', dialect)} AS f{i}" for i in width)
    if dialect.no_sup_text is not None:
        fields += "".join(f", {_PARSED}.f{i} <=> {text(dialect.no_sup_text)} AS u{i}" for i in width)
    is_whole = f"{_PARSED} IS NOT NULL AND {_PARSED}.broken IS NULL"
    return lines.selectExpr("*", f"CASE WHEN {keeps_rules} THEN {parse} END AS {_PARSED}").selectExpr(
        *(VALUE, NAME, LINE, TORN), f"CASE WHEN {is_whole} THEN struct({fields}) END AS {_RAW}"
    )


def _is_well_quoted(dialect: Dialect) -> str:
    """Return whether a row has quotes only around fields, and doubled within them, as SQL.

    If a row is split at its quotes, its pieces lie outside and inside of quotes in turn. Each piece outside must be
    empty (a doubled quote), or begin and end with a delimiter, except at the ends of the row.
    """
    pieces = f"split({VALUE}, {text(verbatim(dialect.quote))}, -1)"
    outside = f"filter(transform({pieces}, (p, i) -> struct(p AS p, i AS i)), x -> x.i % 2 = 0)"
    count = f"size({pieces})"
    begins = f"(x.i = 0 OR startswith(x.p, {text(dialect.delimiter)}))"
    ends = f"(x.i = {count} - 1 OR endswith(x.p, {text(dialect.delimiter)}))"
    return f"forall({outside}, x -> x.p = '' OR ({begins} AND {ends}))"


def fields_of(dialect: Dialect) -> str:
    """Return the number of fields of a row, as SQL."""
    unquoted = VALUE
    if dialect.quote:
        mark = verbatim(dialect.quote)
        unquoted = f"regexp_replace({VALUE}, {text(f'{mark}[^{mark}]*{mark}')}, '')"
    return f"(length({unquoted}) - length(replace({unquoted}, {text(dialect.delimiter)}, '')) + 1)"


def verbatim(characters: str) -> str:
    """Return a Java regular expression that matches exactly these characters."""
    return f"\\Q{characters}\\E"


def _with_marks(dialect: Dialect) -> str:
    """Replace quoted texts that equal the text of NULL or of an unsent cell by placeholders, as SQL.

    The parser returns quoted and unquoted fields alike, and only the unquoted ones have that meaning.
    """
    value = VALUE
    for meant, mark in ((dialect.null_text, _QUOTED), (dialect.no_sup_text, _QUOTED_NO_SUP)):
        if not dialect.quote or not meant:
            continue
        within = dialect.quote + meant + dialect.quote
        delimiter = verbatim(dialect.delimiter)
        pattern = f"(\\A|{delimiter}){verbatim(within)}(?={delimiter}|\\z)"
        # In Java's replacement text $ and \ have a meaning; options.py lets the quote be neither.
        marked = f"regexp_replace({value}, {text(pattern)}, {text(f'$1{dialect.quote}{mark}{dialect.quote}')})"
        value = f"CASE WHEN contains({VALUE}, {text(within)}) THEN {marked} ELSE {value} END"
    return value


def _cell(field: str, dialect: Dialect) -> str:
    meanings = []
    if dialect.null_text:
        null = text(dialect.null_text)
        meanings = [
            f"{field} IS NULL THEN ''",
            f"{field} = {null} THEN NULL",
            f"{field} = {text(_QUOTED)} THEN {null}",
        ]
    if dialect.no_sup_text is not None:
        not_sent = text(dialect.no_sup_text)
        meanings += [f"{field} = {not_sent} THEN NULL", f"{field} = {text(_QUOTED_NO_SUP)} THEN {not_sent}"]
    return f"CASE {' '.join(f'WHEN {meaning}' for meaning in meanings)} ELSE {field} END" if meanings else field


def _typed(rows: DataFrame, layout: Layout, reading: Reading) -> DataFrame:
    """Convert the fields to their types, and add the reasons of those that do not fit."""
    raw = {name: f"{_RAW}.f{index}" for index, name in enumerate(layout.columns)}
    schema, key = reading.dimension.schema, reading.dimension.key
    for c in schema:
        raw |= {name: reading.unpadded(raw[name], c.type) for name in (c.name, BEFORE + c.name) if name in raw}
    typed = {c.name: to_type(raw[c.name], c.type, reading.format_of(c.name)) for c in schema}
    typed_rows = rows.selectExpr("*", *[f"{sql} AS {quoted(name)}" for name, sql in typed.items()])
    misfits = {c.name: misfit(raw[c.name], c) for c in schema if c.type.name != "string"}
    before = {item.name: _before(raw, item, reading) for item in reading.before_columns}
    reasons = [*misfits.items(), *((name, reason) for name, (_, reason) in before.items())]
    repeat = repeat_of([f"{_RAW}.f{index}" for index in range(len(layout.columns))], layout.names)
    broken = f"CASE WHEN {_RAW} IS NULL THEN {_why_broken(layout, reading.dialect)} ELSE {repeat} END"
    return typed_rows.selectExpr(
        *[quoted(name) for name in schema.names],
        f"{raw.get(OP, 'string(NULL)')} AS {OP_TEXT}",
        f"{raw.get(TIME, 'string(NULL)')} AS {TIME_TEXT}",
        f"{reading.unpadded(raw.get(SEQUENCE, 'string(NULL)'), Type('string'))} AS {SEQUENCE_TEXT}",
        f"{_first([reason for name, reason in reasons if name in key])} AS {KEY_MISFIT}",
        f"{_first([reason for name, reason in reasons if name not in key])} AS {MISFIT}",
        f"{broken} AS {BROKEN}",
        f"{'true' if len(layout.columns) > 1 else 'false'} AND {VALUE} = '' AS {BLANK}",
        *(VALUE, LINE, NAME, TORN),
        f"{_not_sent(layout, reading)} AS {names.UNSET}",
        f"{_has_image(layout, reading)} AS {HAS_IMAGE}",
        *[f"{sql} AS {before_column(index)}" for index, (sql, _) in enumerate(before.values())],
    )


def _before(raw: Mapping[str, str], item: Column, reading: Reading) -> tuple[str, str]:
    """Return a column's value before an update, and the reason why it does not fit, both as SQL.

    The value is NULL for inserts and deletes; a row of an unknown operation may be an update.
    """
    if BEFORE + item.name not in raw or OP not in raw:
        return f"CAST(NULL AS {ddl(item.type)})", "string(NULL)"
    value = f"CASE WHEN coalesce({raw[OP]}, '') NOT IN ('I', 'D') THEN {raw[BEFORE + item.name]} END"
    typed = to_type(value, item.type, reading.format_of(item.name))
    return typed, misfit(value, item, typed)


def _not_sent(layout: Layout, reading: Reading) -> str:
    """Return the names of the columns that a row did not send, as SQL; NULL if it sent all."""
    if reading.dialect.no_sup_text is None:
        return "CAST(NULL AS array<string>)"
    own = [(i, name) for i, name in enumerate(layout.columns) if name in reading.dimension.schema.names]
    marked = ", ".join(f"CASE WHEN {_RAW}.u{index} THEN {text(name)} END" for index, name in own)
    return f"nullif(array_compact(array({marked})), CAST(array() AS array<string>))"


def _has_image(layout: Layout, reading: Reading) -> str:
    """Return whether a row sent all values before the change, as SQL; NULL if its file lacks columns for them."""
    places = {name: index for index, name in enumerate(layout.columns)}
    wanted = [places.get(BEFORE + item.name) for item in reading.before_columns]
    if OP not in places or None in wanted:
        return "boolean(NULL)"
    if reading.dialect.no_sup_text is None:
        return "true"
    return f"NOT ({' OR '.join([f'coalesce({_RAW}.u{index}, false)' for index in wanted] or ['false'])})"


def _first(texts: Sequence[str]) -> str:
    return f"coalesce({', '.join([*texts, 'string(NULL)'])})"


def _why_broken(layout: Layout, dialect: Dialect) -> str:
    """Return in words why a row cannot be split into fields, as SQL."""
    count, width = fields_of(dialect), len(layout.columns)
    return (
        f"CASE WHEN NOT {is_valid_utf8(VALUE)} THEN 'the row is not valid UTF-8' "
        f"WHEN contains({VALUE}, {text(_END_OF_INPUT)}) THEN 'the row has U+FFFF, which is no character' "
        f"WHEN {count} != {width} THEN concat('the row has ', {count}, ' fields where {width} are expected') "
        f"ELSE '{STRAY_QUOTE}' END"
    )
