"""How the files of a table are read, and the place of each file, from which its rows get their positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.messages.json.wire_format import Wire, Writing, value_of
from lakeward.adapters.spark.frames.source_rows import HAS_OP, IS_LOAD, NAME, RANK, RowSettings
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import to_type
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import text
from lakeward.core.merge.facts import Capability
from lakeward.core.schema import Column, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(RowSettings):
    """How the files of a table are read.

    `base` is a folder that contains all of them. `op_column` is the column with the operation. Columns whose names
    begin with `before_prefix` have values before the change. With `is_padded` texts have trailing blanks. `written`
    says how the cells of JSON columns are written, by column.
    """

    dialect: Dialect = field(default_factory=Dialect)
    op_column: str = "Op"
    before_prefix: str | None = None
    base: str = "/"
    is_padded: bool = False
    written: Mapping[str, Writing] = field(default_factory=dict)

    @property
    def in_part(self) -> frozenset[Capability]:
        """The capabilities that rows may need if they are not sent whole."""
        settings = {Capability.UNSET: self.dialect.no_sup_text, Capability.KEY_CHANGE: self.before_prefix}
        return self.may_need | {need for need, setting in settings.items() if setting is not None}

    def typed(self, cell: str, column: Column) -> str:
        """Return the typed value of a cell as SQL, NULL if it does not fit.

        In a column whose decimals are base64, a text with a point is a number.
        """
        if column.name in self.written:
            written = self.written[column.name]
            value = value_of(cell, column.type, written)
            if written.wire is not Wire.UNSCALED or column.type.name != "decimal":
                return value
            plain = value_of(cell, column.type, replace(written, wire=Wire.PLAIN))
            return f"CASE WHEN {cell} LIKE '%.%' AND {cell} NOT LIKE '{{%' THEN {plain} ELSE {value} END"
        return to_type(self.unpadded(cell, column.type), column.type, self.format_of(column.name))

    def unpadded(self, value: str, type_: Type) -> str:
        """Return a value without the trailing blanks that the endpoint adds to texts, as SQL."""
        return f"rtrim({value})" if self.is_padded and type_.name == "string" else value


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """A file of a batch with its order and its rank.

    `order` is the order of the object among all of its table, `rank` its place in the batch from 0. `is_load` says
    that its rows are of a full load, `has_op` that they have an operation.
    """

    path: str
    order: int
    rank: int
    is_load: bool
    has_op: bool


def escaped(path: str) -> str:
    r"""Escape the characters of a path that have a meaning in Hadoop's glob patterns.

    >>> escaped("a[1]")
    'a\\[1\\]'
    """
    return "".join("\\" + c if c in "[]{}*?\\" else c for c in path)


def below(base: str, paths: Sequence[str]) -> str:
    """Return the path of a row's file below the folder `base`, as SQL.

    `paths` are the paths of all files that are read. If they lie in one folder, only the file name is computed for
    each row, which is cheaper.
    """
    start = base.rstrip("/") + "/"
    folders = {path.rpartition("/")[0] + "/" for path in paths}
    if len(folders) == 1 and (folder := folders.pop()).startswith(start):
        name = _decoded("_metadata.file_name")
        return name if folder == start else f"concat({text(folder[len(start) :])}, {name})"
    decoded = _decoded("_metadata.file_path")
    return f"substring({decoded}, locate({text(start)}, {decoded}) + {len(start)})"


def _decoded(uri: str) -> str:
    """Return the decoded form of a path, or a part of one, that Spark gives as part of a URI, as SQL."""
    return f"CASE WHEN contains({uri}, '%') THEN url_decode(replace({uri}, '+', '%2B')) ELSE {uri} END"


def file_frame(spark: SparkSession, files: Sequence[NumberedFile], reading: Reading) -> DataFrame:
    """Return a small frame with the place of each file, to be joined with rows by the file's name."""
    types = {NAME: "string", names.OBJECT: "bigint", RANK: "bigint", IS_LOAD: "boolean", HAS_OP: "boolean"}
    start = len(reading.base.rstrip("/")) + 1
    return inline(spark, types, [(f.path[start:], f.order, f.rank, f.is_load, f.has_op) for f in files])
