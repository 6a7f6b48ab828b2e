"""Path columns: columns whose values are in the path of a file, in folders named `name=value` as by Hive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.spark.frames.source_rows import KEY_MISFIT, MISFIT, NAME, VALUE, before_column
from lakeward.adapters.spark.sql.casts import misfit
from lakeward.adapters.spark.sql.inline_rows import as_json, inline
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Schema

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value in the folder name by which Hive and Spark mean NULL."""

_CELL: Final = "_lakeward_path_cell_"
_REST: Final = "Nothing of this batch was applied; other tables go on."


def folder_values(name: str) -> Sequence[tuple[str, str | None]]:
    """Return the columns that the folders of a file's path name, in lower case, with their decoded values.

    Raises ValueError for a value that is no UTF-8.

    >>> folder_values("dt=2026-01-01/City=K%C3%B6ln/part-0.csv")
    [('dt', '2026-01-01'), ('city', 'Köln')]
    """
    folders = [part.split("=", 1) for part in PurePosixPath(name).parts[:-1] if "=" in part.lstrip("=")]
    pairs = [(unquote(column).lower(), unquote(value, errors="strict")) for column, value in folders]
    return [(column, None if value == HIVE_NULL else value) for column, value in pairs]


def _values(table: TableFiles, name: str) -> Sequence[tuple[str, str | None]]:
    """Return the `folder_values` of a file of a table, those of the table's folder itself included."""
    inner, place = folder_values(name), table.folder.places.of(table.dimension.source)
    folders = [part.folder for part in place.parts(table.dimension.source) if not part.is_shared]
    is_below = len(folders) == 1 and not place.is_split
    outer = folder_values(f"{table.folder.base}/{folders[0]}/-") if is_below else ()
    return [*(pair for pair in outer if pair[0] not in dict(inner)), *inner]


def path_columns(table: TableFiles) -> Sequence[Column]:
    """Return the columns that are taken from the path; raises ConfigError for one that is not declared."""
    columns = []
    for name in table.options.path_columns:
        column = table.dimension.schema.find(name)
        if column is None:
            raise ConfigError(
                f"{table.dimension.name}: `path_columns` names {name!r}, which is not declared",
                found="its columns are " + (", ".join(table.dimension.schema.names) or "those of its files"),
                todo=f'Declare its type under [tables."{table.dimension.name}".columns]. Where the files have the '
                "column themselves, take it out of `path_columns`.",
            )
        columns.append(column)
    return columns


def without_path_columns(table: TableFiles) -> TableFiles:
    """Return the table without its path columns, as its files have it."""
    of_path = path_columns(table)
    if not of_path:
        return table
    own = Schema(tuple(column for column in table.dimension.schema if column not in of_path))
    names = {column.name for column in of_path}
    unset = {setting: None for setting in ("order_by", "time") if getattr(table.options, setting) in names}
    options = table.options.model_copy(update=unset)
    return replace(table, dimension=replace(table.dimension, schema=own), options=options)


def with_path_schema(dimension: Dimension, declared: Schema, of_path: Sequence[Column]) -> Dimension:
    """Return the dimension of files with the path columns added, in the order of declaration."""
    own = [column for column in dimension.schema if column not in of_path]
    if not of_path:
        return dimension
    places = {name: place for place, name in enumerate(declared.names)}
    every = sorted([*own, *of_path], key=lambda column: places.get(column.name, len(places)))
    return replace(dimension, schema=Schema(tuple(every)))


def lost_path_columns(table: TableFiles, name: str, has: Collection[str]) -> Sequence[str]:
    """Return the columns whose values are only in the path of a file, and which are no path columns any more.

    `has` are the names of the values in a row of the file. No value of a message is from a path.
    """
    if table.options.is_messages:
        return ()
    try:
        called = {column for column, _ in _values(table, name)}
    except ValueError:
        return ()
    listed = (column for column in table.dimension.schema if column.name.lower() in called)
    return [c.name for c in listed if c.name not in has and c.name not in table.options.path_columns]


def path_cells(table: TableFiles, name: str) -> Mapping[str, str | None]:
    """Return the values of the path columns of a file, as texts.

    Raises SchemaConflict if the path has no value of a column, several, or one that is no UTF-8.
    """
    of_path = path_columns(table)
    if not of_path:
        return {}
    try:
        values = _values(table, name)
    except ValueError as error:
        raise _conflict(table, name, f"a value in its path is no UTF-8: {error}") from error
    cells = {}
    for column in of_path:
        matches = [value for called, value in values if called == column.name.lower()]
        if len(matches) != 1:
            count = "no folder" if not matches else "several folders"
            raise _conflict(table, name, f"its path has {count} `{column.name}=…`")
        cells[column.name] = matches[0]
    return cells


def _conflict(table: TableFiles, name: str, reason: str) -> SchemaConflict:
    return SchemaConflict(
        f"{table.dimension.name}: the path of {name} does not tell the columns that `path_columns` names",
        found=reason,
        todo=f"{_REST} Put the file into such a folder, or take the column out of `path_columns`.",
    )


def with_path_values(rows: DataFrame, table: TableFiles, names: Sequence[str], *, is_parquet: bool) -> DataFrame:
    """Return rows with their path columns; `names` are the names of the files.

    A value that does not fit its type is reported like a value in a row.
    """
    of_path, reading = path_columns(table), table.reading
    if not of_path:
        return rows
    start, cells = len(table.folder.base.rstrip("/")) + 1, [f"{_CELL}{n}" for n in range(len(of_path))]
    listed = [(table.path_of(name)[start:], *path_cells(table, name).values()) for name in names]
    frame = inline(table.spark(), dict.fromkeys((NAME, *cells), "string"), listed)
    typed = {c: reading.typed(cell, c) for c, cell in zip(of_path, cells, strict=True)}
    wrong = {c: misfit(cell, c, typed[c]) for c, cell in zip(of_path, cells, strict=True)}
    key = reading.dimension.key
    before = [f"CAST(NULL AS {ddl(c.type)}) AS {before_column(n)}" for n, c in enumerate(reading.before_columns)]
    replaced = {KEY_MISFIT, MISFIT, *(before_column(n) for n in range(len(before)))}
    filled = rows.join(F.broadcast(frame), NAME).selectExpr(
        *[quoted(name) for name in rows.columns if name not in replaced],
        *[f"{sql} AS {quoted(c.name)}" for c, sql in typed.items()],
        _first(KEY_MISFIT, [sql for c, sql in wrong.items() if c.name in key]),
        _first(MISFIT, [sql for c, sql in wrong.items() if c.name not in key]),
        *before,
        *cells,
    )
    return (_with_path_text(filled, of_path) if is_parquet else filled).drop(*cells)


def _first(name: str, texts: Sequence[str]) -> str:
    return f"coalesce({', '.join([name, *texts, 'string(NULL)'])}) AS {name}"


def _with_path_text(rows: DataFrame, of_path: Sequence[Column]) -> DataFrame:
    """Return rows of Parquet files, whose text is JSON, with the values of path columns added to the JSON.

    A value that does not fit is added as it is written, so that a replay does not take it for NULL.
    """
    parts = [_inner(VALUE)]
    for number, column in enumerate(of_path):
        name, cell = quoted(column.name), f"{_CELL}{number}"
        written = f"CASE WHEN {name} IS NULL THEN {as_json([f'{cell} AS {name}'])} ELSE {as_json([name])} END"
        parts.append(_inner(written))
    text = f"concat('{{', array_join(filter(array({', '.join(parts)}), part -> part != ''), ','), '}}')"
    return rows.withColumn(VALUE, F.expr(text))


def _inner(json: str) -> str:
    return f"substring({json}, 2, length({json}) - 2)"


def column_only_in_path(table: TableFiles, name: str, lacking: Sequence[str]) -> SchemaConflict:
    """Return the error for columns that only the path of a file has: they would be NULL in every row."""
    listed = ", ".join(f'"{column}"' for column in (*table.options.path_columns, *lacking))
    todo = (
        f"Set `path_columns = [{listed}]` for its files: the values are then from the path, and no file has them."
    )
    if table.options.is_messages:
        todo = f"No value of a message is from a path: take {', '.join(lacking)} out of `columns`, or call the "
        todo += "folder otherwise."
    return SchemaConflict(
        f"{table.dimension.name}: {name} lacks a column that its path has",
        found=f"its path has a folder `{lacking[0]}=…`, and the file has no value of {lacking[0]}",
        todo=f"{_REST} {todo}",
    )


def column_in_file_and_path(dimension: Dimension, name: str, column: str) -> SchemaConflict:
    """Return the error for a file with a column that is taken from its path."""
    return SchemaConflict(
        f"{dimension.name}: {name} has the column {column}, which `path_columns` names",
        found="nothing says which of the two values is meant",
        todo=f"{_REST} Take it out of `path_columns`, or let the writer leave it out of the file.",
    )


def hidden_columns(table: TableFiles, name: str) -> Sequence[str]:
    """Return the columns of the settings that folders of a file's path name and `path_columns` does not."""
    try:
        named = {column for column, _ in _values(table, name)}
    except ValueError:
        named = set()
    columns = (*table.dimension.schema.names, *table.dimension.key, *_ordering(table))
    return [c for c in dict.fromkeys(columns) if c.lower() in named and c not in table.options.path_columns]


def _ordering(table: TableFiles) -> Sequence[str]:
    return [name for name in (table.options.order_by, table.options.time) if name is not None]


def count_unused_path_values(declared: Schema, files: Schema, paths: Mapping[str, int]) -> Mapping[str, int]:
    """Return warnings about values in paths that no column takes, each with the number of its rows.

    `paths` has the number of rows of each file. There is no warning if columns are declared.
    """
    rows: Counter[str] = Counter()
    for path, number in paths.items() if not len(declared) else ():
        with suppress(ValueError):
            for column, _ in folder_values(path):
                rows[column] += number
    names = {name.lower() for name in files.names}
    return {
        f"A folder of the path has a value of {column!r}, and the table has no such column: declare it, and set "
        "`path_columns`, or the value is lost.": number
        for column, number in rows.items()
        if column not in names and number
    }
