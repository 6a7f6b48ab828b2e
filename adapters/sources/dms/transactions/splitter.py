"""Split transaction files, once for all tables: each row is written to the part of the table that it names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.sources.csv.layout import OPERATIONS, TIME, Layout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.transactions.layout import COMMIT_TIME, LEAD
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES, fields_of, read_rows, verbatim, without_cr
from lakeward.adapters.sources.rows.read_spec import escaped
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, TORN, VALUE
from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql.names import column, text
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict

TORN_PART: Final = "torn"
UNROUTED_PART: Final = "stray"
"""The part of rows that name no table."""

_TABLE: Final = "_lakeward_of_table"
_SCHEMA: Final = "_lakeward_of_schema"
_OP: Final = "_lakeward_op"
_LEAD: Final = "_lakeward_lead"
_PATH: Final = "_metadata.file_path"
_PIECES: Final = "_lakeward_pieces"
_WRITTEN: Final = f"{VALUE} string, {NAME} string, {LINE} bigint"
_WHOLE: Final = f"{_WRITTEN}, {_TABLE} string, {_SCHEMA} string, part string"


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits files. Rows of `configured` tables are recognised without an operation."""

    spark: SparkSession
    dialect: Dialect
    configured: Collection[TableName]

    def split(
        self, base: str, names: Mapping[str, str], target: str, *, has_crlf: bool, has_torn_rows: bool
    ) -> None:
        """Write the rows of files below `target`, in a part for each table; existing parts are added to.

        `names` are the object names of the files, by their paths below `base`. `has_crlf` says that lines end in CR
        LF, `has_torn_rows` that quoted fields may have line ends.
        """
        for name, value in WHOLE_FILES.items():
            self.spark.conf.set(name, value)
        paths = [f"{base}/{path}" for path in names]
        rows = read_rows(self.spark, paths, self.dialect, base, has_torn_rows=has_torn_rows)
        renames = " ".join(f"WHEN {text(path)} THEN {text(name)}" for path, name in names.items() if path != name)
        file_name = f"CASE {NAME} {renames} ELSE {NAME} END" if renames else NAME
        rows = (without_cr(rows) if has_crlf else rows).where(f"{VALUE} != ''")
        with_lead = self._with_lead_fields(rows).selectExpr(
            *(VALUE, f"{file_name} AS {NAME}", LINE, _TABLE, _SCHEMA), f"{self._part_expression()} AS part"
        )
        with_lead.write.mode("append").partitionBy("part").option("compression", "zstd").parquet(target)

    def _with_lead_fields(self, rows: DataFrame) -> DataFrame:
        """Add the first three fields of each row: operation, table and schema, NULL where a field is missing."""
        names = (_OP, _TABLE, _SCHEMA)
        delimiter, quote = text(self.dialect.delimiter), self.dialect.quote
        lead = f"substring_index({VALUE}, {delimiter}, {len(names)})"
        pieces = f"split({_LEAD}, {text(verbatim(self.dialect.delimiter))}, -1)"
        rows = rows.selectExpr("*", f"{lead} AS {_LEAD}").selectExpr("*", f"{pieces} AS {_PIECES}")
        pieces_sql = [f"get({_PIECES}, {index})" for index in range(len(names))]
        if not quote:
            return rows.selectExpr("*", *[f"{sql} AS {name}" for sql, name in zip(pieces_sql, names, strict=True)])
        d, q, doubled = verbatim(self.dialect.delimiter), verbatim(quote), text(quote * 2)
        field = f"(?:{q}((?:[^{q}]|{q}{q})*){q}|([^{q}{d}]*))"
        pattern = text(f"(?s)\\A{field}{d}{field}{d}{field}(?:{d}.*)?\\z")
        expressions = []
        for index, (sql, name) in enumerate(zip(pieces_sql, names, strict=True)):
            within, outside = (f"regexp_extract({VALUE}, {pattern}, {2 * index + n})" for n in (1, 2))
            unquoted = f"concat(replace({within}, {doubled}, {text(quote)}), {outside})"
            expressions.append(
                f"CASE WHEN contains({_LEAD}, {text(quote)}) THEN {unquoted} ELSE {sql} END AS {name}"
            )
        return rows.selectExpr("*", *expressions)

    def _part_expression(self) -> str:
        operations = ", ".join(map(text, OPERATIONS))
        lower = f"concat(length({_SCHEMA}), ':', lower({_SCHEMA}), lower({_TABLE}))"
        configured_names = ", ".join(
            text(f"{len(table.schema)}:{table.schema.lower()}{table.table.lower()}") for table in self.configured
        )
        is_known = f"{lower} IN ({configured_names})" if configured_names else "false"
        names = f"{is_valid_utf8(_LEAD)} AND {_TABLE} != '' AND {_SCHEMA} != ''"
        says = f"{names} AND ({_OP} IN ({operations}) OR {is_known})"
        key = f"md5(concat(length({_SCHEMA}), ':', {_SCHEMA}, {_TABLE}))"
        return f"CASE WHEN {TORN} THEN '{TORN_PART}' WHEN {says} THEN {key} ELSE '{UNROUTED_PART}' END"

    def shares(self, target: str) -> Sequence[tuple[str, TableName, int, int]]:
        """Return the name, table, number of rows and most frequent number of fields of each file and table."""
        rows = self.spark.read.schema(_WHOLE).parquet(escaped(target))
        of_tables = rows.where(f"part NOT IN ('{TORN_PART}', '{UNROUTED_PART}')")
        width = F.expr(f"mode({fields_of(self.dialect)})")
        counted = of_tables.groupBy(NAME, _SCHEMA, _TABLE).agg(F.count("*"), width)
        return [(row[0], TableName(row[1], row[2]), row[3], row[4]) for row in counted.collect()]

    def unrouted_rows(self, target: str, most: int) -> Sequence[tuple[str, int, str, bool]]:
        """Return at most `most` rows that name no table: file, row number, text, and whether a quote is open."""
        rows = self.spark.read.schema(_WHOLE).parquet(escaped(target))
        selected = rows.where(f"part IN ('{TORN_PART}', '{UNROUTED_PART}')").orderBy(NAME, LINE).limit(most)
        row_text = f"CASE WHEN {is_valid_utf8(VALUE)} THEN {VALUE} ELSE concat('0x', hex({VALUE})) END"
        return [(*row,) for row in selected.selectExpr(NAME, LINE, row_text, f"part = '{TORN_PART}'").collect()]


def read_parts(spark: SparkSession, parts: Mapping[str, Collection[str]]) -> DataFrame:
    """Return the rows of files that are staged in parts, in the form of `read_rows`.

    A part may also have rows of a file that was read again since; only the wanted pairs of place and file are
    returned.
    """
    wanted = {f"{PurePath(part).parent.name}/{name}": name for part, names in parts.items() for name in names}
    pairs, names = (", ".join(map(text, sorted(texts))) for texts in (wanted.keys(), wanted.values()))
    place = f"element_at(split({_PATH}, '/'), -3)"  # above the part and its file
    rows = spark.read.schema(_WRITTEN).parquet(*map(escaped, sorted(parts)))
    rows = rows.where(f"{NAME} IN ({names}) AND concat({place}, '/', {NAME}) IN ({pairs})")
    return rows.selectExpr(VALUE, NAME, LINE, f"false AS {TORN}")


def refuse_shifted_columns(dimension: Dimension, name: str, layout: Layout, rows: DataFrame) -> None:
    """Raise SchemaConflict where all rows have a commit time in the first column of a layout without one.

    Such rows have the commit time and lack a column of the table. Only a text column is checked: in a column of
    another type the time is no value, and the rows go into quarantine.
    """
    columns = [dimension.schema.find(called) for called in layout.columns[len(LEAD) :]]
    first = columns[0] if columns and TIME not in layout.columns else None
    if first is None or first.type.name != "string":
        return
    if rows.agg(F.min(column(first.name).rlike(f"^{COMMIT_TIME}$"))).collect()[0][0]:
        raise SchemaConflict(
            f"{dimension.name}: its rows in {name} have fewer columns than the table",
            found=f"all of them have a commit time where {first.name} is in rows without one",
            todo="Nothing of this batch was applied; other tables go on. Declare the columns as they are now "
            "under [tables], or keep the file back.",
        )
