"""Completes the settings of a table by the catalogue of the source, and checks what can be checked without data."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeward.core.checks.batch_checks import cannot_rename_within
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, SchemaConflict
from lakeward.core.history.options import History
from lakeward.core.schema import Column, Schema, find_case_clash, parse_type
from lakeward.core.schema_changes.evolution import names_within
from lakeward.core.settings.source_catalogue import Answer, DeclaredTable, SourceTable, complete, key_differs
from lakeward.core.shaping.quality_rules import check as check_quality
from lakeward.core.shaping.shape import SYSTEM_PREFIX, Shape, shape, source_key, table_key
from lakeward.core.shaping.shaped_source import TableRules
from lakeward.entrypoints.settings.models.column_rules import column_rules
from lakeward.entrypoints.settings.models.quality_rules import quality_rules
from lakeward.entrypoints.settings.models.tables import ColumnSettings, TableSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTable:
    """Settings of a table completed by the catalogue, or the `error` of completing them."""

    table: TableSettings
    rules: TableRules
    shape: Shape
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    cautions: tuple[str, ...] = ()
    error: LakewardError | None = None


def with_catalogue(name: TableName, table: TableSettings, answers: Sequence[Answer]) -> CompletedTable:
    """Complete the settings of a table by the catalogue; raises ConfigError for a contradiction."""
    if not answers or not table.catalogue.ask:
        rules = rules_of(table)
        return CompletedTable(table=table, rules=rules, shape=check_table(name, table, rules))
    declared = DeclaredTable(
        columns=rules_of(table).source,
        key=tuple(table.key),
        left_out=tuple(table.catalogue.left_out),
        renames=table.schema_.rename,
    )
    completed = complete(declared, answers)
    columns = {c.name: table.columns.get(c.name) or ColumnSettings(type=str(c.type)) for c in completed.schema}
    table = table.model_copy(update={"columns": columns})
    rules, cautions = rules_of(table), completed.cautions
    if "key" not in table.model_fields_set:
        key = _table_key(name, shape(rules.columns, rules.source), completed.key)
        table = table.model_copy(update={"key": [*key]})
        table_shape = check_table(name, table, rules)
    else:
        table_shape = check_table(name, table, rules)
        differs = key_differs(source_key(table_shape, table.key), completed.key)
        cautions = (*cautions, differs) if differs else cautions
    return CompletedTable(
        table=table,
        rules=rules,
        shape=table_shape,
        orders=completed.orders,
        announced=completed.announced,
        cautions=cautions,
    )


def _table_key(name: TableName, table_shape: Shape, key: Sequence[str]) -> tuple[str, ...]:
    """Return a key of the source by the names of the columns in the table; raises ConfigError if that fails."""
    try:
        return table_key(table_shape, key)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.what}", found=error.found, todo=error.todo) from error


def rules_of(table: TableSettings) -> TableRules:
    """Return the rules of a table and the declared columns of its source."""
    declared = [Column(column, parse_type(c.type)) for column, c in table.columns.items()]
    return TableRules(
        columns=column_rules(table.rules),
        quality=quality_rules(table.quality),
        source=Schema(tuple(declared)),
    )


def check_table(name: TableName, table: TableSettings, rules: TableRules) -> Shape:
    """Return the columns of a table after its rules, as far as they are declared.

    Raises ConfigError for names, keys or rules that cannot be, and SchemaConflict for columns that differ only in
    case.
    """
    for part in name:
        if ".." in part or any(c in "/\\" or unicodedata.category(c) == "Cc" for c in part):
            raise ConfigError(
                f"{name}: {part!r} cannot name a table",
                todo="Names have no control characters, path separators or `..`.",
            )
    for column in table.columns:
        if not column or any(unicodedata.category(c) == "Cc" for c in column):
            raise ConfigError(f"{name}: {column!r} cannot name a column")
        if column.lower().startswith(SYSTEM_PREFIX):
            raise ConfigError(
                f"{name}: the column {column!r} begins with {SYSTEM_PREFIX}",
                todo="These names are reserved for columns that lakeward adds. Let DMS rename it.",
            )
    _check_case(name, table.columns)
    _check_renames(name, table, rules.source)
    if len(set(table.key)) < len(table.key):
        raise ConfigError(f"{name}: the key names a column twice", found=", ".join(table.key))
    if not table.columns:
        return shape((), rules.source)
    try:
        table_shape = shape(rules.columns, rules.source)
        source_key(table_shape, table.key)
        check_quality(rules.quality, table_shape.schema, table.key)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.what}", found=error.found, todo=error.todo) from error
    return table_shape


def check_history(name: TableName, completed: CompletedTable, history: History | None, *, is_asked: bool) -> None:
    """Raise ConfigError if the history of a table cannot be kept with its key and columns.

    Unknown columns are not checked: the files may contain them. A missing key is not checked if the catalogue
    `is_asked` and has not answered yet.
    """
    key, columns = completed.table.key, completed.shape.schema
    if history is not None and ((key and columns) or not (key or is_asked)):
        history.check(str(name), columns, key)


def comments_of(completed: CompletedTable, source: SourceTable) -> tuple[str | None, Mapping[str, str]]:
    """Return the comments of a source table: its own, and those of columns made from one source column."""
    source_comments = {column.name: column.comment for column in source.columns if column.comment}
    comments = {
        name: source_comments.get(*roots) for name, roots in completed.shape.needs.items() if len(roots) == 1
    }
    return source.comment, {name: comment for name, comment in comments.items() if comment}


def _check_case(name: TableName, columns: Iterable[str]) -> None:
    """Raise SchemaConflict for names that differ only in case: headers are read in any case, as by most engines.

    It is no ConfigError, because a source table may have such columns.
    """
    clash = find_case_clash(columns)
    if clash is not None:
        raise SchemaConflict(
            f"{name}: two columns differ only in case",
            found=f"found {clash[0]} and {clash[1]}",
            todo="Nothing of this batch was applied; other tables go on. Let DMS rename one (a transformation rule "
            "`rename-column`).",
        )


def _check_renames(name: TableName, table: TableSettings, columns: Iterable[Column]) -> None:
    """Raise ConfigError for settings that use the old name of a renamed column, or that rename a nested field."""
    named = {"key": table.key, "columns": table.columns, "history.kinds": table.history.kinds}
    named["track"] = table.track if isinstance(table.track, list) else table.track["all_but"]
    named["history.validity"] = [] if isinstance(table.history.validity, str) else table.history.validity.values()
    for old, new in table.schema_.rename.items():
        if names_within(old, new, tuple(columns)):
            raise cannot_rename_within(name, old, new)
        for where, names in named.items():
            if old in names:
                raise ConfigError(
                    f"{name}: `{where}` names {old!r}, which is called {new!r} now, as `schema.rename` says",
                    todo=f"Name it {new!r} there, too; or take it out of `rename`, if {old!r} is another column.",
                )
