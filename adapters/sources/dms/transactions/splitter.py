"""Reading files of transactions once, for all tables: each row goes to the part of the table that it names."""

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
STRAY_PART: Final = "stray"
"""The parts of rows that are of no table: a piece of one whose quote is not closed, and one that names none."""

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
    """Splits files; `configured` are the tables whose rows need no operation to be known."""

    spark: SparkSession
    dialect: Dialect
    configured: Collection[TableName]

    def split(
        self, base: str, names: Mapping[str, str], target: str, *, has_crlf: bool, has_torn_rows: bool
    ) -> None:
        """Write the rows of files below `target`, in a part for each table; what is there already stays.

        `names` are what the files are called, by their paths below `base`.
        """
        for name, value in WHOLE_FILES.items():
            self.spark.conf.set(name, value)
        paths = [f"{base}/{path}" for path in names]
        rows = read_rows(self.spark, paths, self.dialect, base, has_torn_rows=has_torn_rows)
        others = " ".join(f"WHEN {text(path)} THEN {text(name)}" for path, name in names.items() if path != name)
        called = f"CASE {NAME} {others} ELSE {NAME} END" if others else NAME
        rows = (without_cr(rows) if has_crlf else rows).where(f"{VALUE} != ''")
        told = self._told(rows).selectExpr(
            *(VALUE, f"{called} AS {NAME}", LINE, _TABLE, _SCHEMA), f"{self._part()} AS part"
        )
        told.write.mode("append").partitionBy("part").option("compression", "zstd").parquet(target)

    def _told(self, rows: DataFrame) -> DataFrame:
        """Add what each row begins with: operation, table and schema, NULL where there is no such field."""
        names = (_OP, _TABLE, _SCHEMA)
        delimiter, quote = text(self.dialect.delimiter), self.dialect.quote
        lead = f"substring_index({VALUE}, {delimiter}, {len(names)})"
        pieces = f"split({_LEAD}, {text(verbatim(self.dialect.delimiter))}, -1)"
        rows = rows.selectExpr("*", f"{lead} AS {_LEAD}").selectExpr("*", f"{pieces} AS {_PIECES}")
        plain = [f"get({_PIECES}, {index})" for index in range(len(names))]
        if not quote:
            return rows.selectExpr("*", *[f"{sql} AS {name}" for sql, name in zip(plain, names, strict=True)])
        bare, mark, doubled = verbatim(self.dialect.delimiter), verbatim(quote), text(quote * 2)
        field = f"(?:{mark}((?:[^{mark}]|{mark}{mark})*){mark}|([^{mark}{bare}]*))"
        pattern = text(f"(?s)\\A{field}{bare}{field}{bare}{field}(?:{bare}.*)?\\z")
        found = []
        for index, (sql, name) in enumerate(zip(plain, names, strict=True)):
            within, outside = (f"regexp_extract({VALUE}, {pattern}, {2 * index + n})" for n in (1, 2))
            unquoted = f"concat(replace({within}, {doubled}, {text(quote)}), {outside})"
            found.append(f"CASE WHEN contains({_LEAD}, {text(quote)}) THEN {unquoted} ELSE {sql} END AS {name}")
        return rows.selectExpr("*", *found)

    def _part(self) -> str:
        operations = ", ".join(map(text, OPERATIONS))
        lower = f"concat(length({_SCHEMA}), ':', lower({_SCHEMA}), lower({_TABLE}))"
        known = ", ".join(
            text(f"{len(table.schema)}:{table.schema.lower()}{table.table.lower()}") for table in self.configured
        )
        is_known = f"{lower} IN ({known})" if known else "false"
        names = f"{is_valid_utf8(_LEAD)} AND {_TABLE} != '' AND {_SCHEMA} != ''"
        says = f"{names} AND ({_OP} IN ({operations}) OR {is_known})"
        key = f"md5(concat(length({_SCHEMA}), ':', {_SCHEMA}, {_TABLE}))"
        return f"CASE WHEN {TORN} THEN '{TORN_PART}' WHEN {says} THEN {key} ELSE '{STRAY_PART}' END"

    def shares(self, target: str) -> Sequence[tuple[str, TableName, int, int]]:
        """Return for each file and table the number of rows, and how many fields most of them have."""
        rows = self.spark.read.schema(_WHOLE).parquet(escaped(target))
        of_tables = rows.where(f"part NOT IN ('{TORN_PART}', '{STRAY_PART}')")
        width = F.expr(f"mode({fields_of(self.dialect)})")
        counted = of_tables.groupBy(NAME, _SCHEMA, _TABLE).agg(F.count("*"), width)
        return [(row[0], TableName(row[1], row[2]), row[3], row[4]) for row in counted.collect()]

    def unrouted_rows(self, target: str, most: int) -> Sequence[tuple[str, int, str, bool]]:
        """Return the rows of no table, at most so many: file, row, text, and whether its quote is open."""
        rows = self.spark.read.schema(_WHOLE).parquet(escaped(target))
        found = rows.where(f"part IN ('{TORN_PART}', '{STRAY_PART}')").orderBy(NAME, LINE).limit(most)
        shown = f"CASE WHEN {is_valid_utf8(VALUE)} THEN {VALUE} ELSE concat('0x', hex({VALUE})) END"
        return [(*row,) for row in found.selectExpr(NAME, LINE, shown, f"part = '{TORN_PART}'").collect()]


def rows_of(spark: SparkSession, parts: Mapping[str, Collection[str]]) -> DataFrame:
    """Return the rows of files that lie in parts, as `read_rows` gives them.

    A part may have rows of a file that was read again since: of each, only what is wanted of it is returned.
    """
    wanted = {f"{PurePath(part).parent.name}/{name}": name for part, names in parts.items() for name in names}
    pairs, names = (", ".join(map(text, sorted(found))) for found in (wanted.keys(), wanted.values()))
    place = f"element_at(split({_PATH}, '/'), -3)"  # above the part and its file
    rows = spark.read.schema(_WRITTEN).parquet(*map(escaped, sorted(parts)))
    rows = rows.where(f"{NAME} IN ({names}) AND concat({place}, '/', {NAME}) IN ({pairs})")
    return rows.selectExpr(VALUE, NAME, LINE, f"false AS {TORN}")


def refuse_shifted(dimension: Dimension, name: str, layout: Layout, rows: DataFrame) -> None:
    """Stop where rows of a file are as wide as rows without the commit time, and all have it in their first column.

    So it is with rows that have the time, and a column less than the table. In a column of another type than text
    the time is no value, and the rows go into quarantine. Raises SchemaConflict.
    """
    own = [dimension.schema.find(called) for called in layout.columns[len(LEAD) :]]
    first = own[0] if own and TIME not in layout.columns else None
    if first is None or first.type.name != "string":
        return
    if rows.agg(F.min(column(first.name).rlike(f"^{COMMIT_TIME}$"))).collect()[0][0]:
        raise SchemaConflict(
            f"{dimension.name}: its rows in {name} have fewer columns than the table",
            found=f"all of them have a commit time where {first.name} is in rows without one",
            todo="Nothing of this batch was applied; other tables go on. Declare the columns as they are now "
            "under [tables], or keep the file back.",
        )
