"""Sibling tables: several tables of one source table, by `mode = ["mirror", "history"]` or `reads`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.models.tables import TableSettings
from lakeward.entrypoints.settings.patterns import OF_MIRRORS, is_pattern, plain, quoted, table_name

_OF_HISTORIES: Final = ("track", "history")
_SUFFIX: Final = "_history"


def split_modes(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings in which each table has one mode: a table with two modes becomes two tables.

    The history reads the same source table as its mirror. Raises ConfigError for other modes, and if the history
    would have no valid name or that of another table. Values of `mode` that are no list are returned unchanged.
    """
    split: dict[str, Any] = {}
    for name, own in tables.items():
        if not (isinstance(own, Mapping) and isinstance(own.get("mode"), list)):
            split[name] = own
            continue
        _refuse_other_modes(name, own["mode"])
        shared = {key: value for key, value in own.items() if key not in ("mode", "history_table")}
        split[name] = {key: value for key, value in shared.items() if key not in _OF_HISTORIES}
        if is_pattern(name):
            continue  # its tables inherit it
        table = table_name(name)
        history = TableName(table.schema, _name_of_history(table, own))
        _refuse_used_name(table, history, [*tables, *split])
        history_keys = {key: value for key, value in shared.items() if key not in OF_MIRRORS}
        split[quoted(history)] = {**history_keys, "mode": "history", "reads": own.get("reads", name)}
    return split


def _refuse_other_modes(name: str, modes: Sequence[Any]) -> None:
    if sorted(map(str, modes)) != ["history", "mirror"]:
        raise ConfigError(
            f"{name}: these modes cannot be combined",
            found=f"mode = {json.dumps(modes, default=str)}",
            todo='Write `mode = ["mirror", "history"]` for both, or one of them: `mode = "mirror"`.',
        )


def _name_of_history(table: TableName, own: Mapping[str, Any]) -> str:
    name = own.get("history_table", table.table + _SUFFIX)
    if not isinstance(name, str) or not name or ("history_table" in own and "." in name):
        raise ConfigError(
            f"{table}: `history_table` is no name of a table",
            found=f"{name!r}",
            todo="Write it as a text, without the schema, or leave it out.",
        )
    return name


def _refuse_used_name(table: TableName, history: TableName, tables: Iterable[str]) -> None:
    others = [name for name in tables if not is_pattern(name) and plain(table_name(name)) == plain(history)]
    if others:
        raise ConfigError(
            f"{table}: its history would have the name of another table, {history}",
            found=f'[tables."{others[0]}"]',
            todo="Give it another name: `history_table`. Or, if that section is for the history: write "
            f'`mode = "history"` and `reads = "{table}"` there, and `mode = "mirror"` here.',
        )


def source_names_of(
    tables: Mapping[TableName, TableSettings], skipped: Collection[TableName]
) -> Mapping[TableName, TableName]:
    """Return the name of each table at the source; raises ConfigError if siblings contradict each other.

    Names that differ only in case are one source table, unless a name is exactly that of a `skipped` table.
    """
    spellings = {plain(name): name for name in tables}
    names: dict[TableName, TableName] = {}
    for name, table in tables.items():
        source = _source_name(name, table)
        names[name] = source if source in skipped else spellings.setdefault(plain(source), source)
    first: dict[TableName, TableName] = {}
    for name in sorted(tables, key=lambda name: names[name] != name):
        other = first.setdefault(names[name], name)
        if tables[name].source != tables[other].source or formats_of(tables[name]) != formats_of(tables[other]):
            raise ConfigError(
                f"{name} and {other} read the same source table with different options",
                found=f"both read {names[name]}",
                todo="Let `source`, and the formats of `columns`, be the same in both.",
            )
    return names


def _source_name(name: TableName, table: TableSettings) -> TableName:
    if table.reads is not None and is_pattern(table.reads):
        raise ConfigError(
            f"{name}: `reads` names one table of the source, and this is a pattern",
            found=f'reads = "{table.reads}"',
            todo="Name it as schema.table.",
        )
    return name if table.reads is None else table_name(table.reads)


def formats_of(table: TableSettings) -> Mapping[str, str]:
    """Return the formats of the columns that have one."""
    return {name: column.format for name, column in table.columns.items() if column.format is not None}
