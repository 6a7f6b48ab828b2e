"""Sibling tables: several tables of one source table, by `mode = ["mirror", "history"]` or `reads`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.models.sections import TableSettings
from lakeward.entrypoints.settings.patterns import OF_MIRRORS, is_pattern, plain, quoted, table_name

_OF_HISTORIES: Final = ("track", "history")
_SUFFIX: Final = "_history"


def with_both(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings in which each table has one mode: one of two modes becomes two tables.

    The history stands beside its mirror and reads the same table of the source. Raises ConfigError where it would
    have no name, or that of another, and for other modes than these two. What is no list of modes stays as it is.
    """
    found: dict[str, Any] = {}
    for name, own in tables.items():
        if not (isinstance(own, Mapping) and isinstance(own.get("mode"), list)):
            found[name] = own
            continue
        _refuse_other_modes(name, own["mode"])
        shared = {key: value for key, value in own.items() if key not in ("mode", "history_table")}
        found[name] = {key: value for key, value in shared.items() if key not in _OF_HISTORIES}
        if is_pattern(name):
            continue  # its tables inherit it
        table = table_name(name)
        history = TableName(table.schema, _name_of_history(table, own))
        _refuse_taken(table, history, [*tables, *found])
        kept = {key: value for key, value in shared.items() if key not in OF_MIRRORS}
        found[quoted(history)] = {**kept, "mode": "history", "reads": own.get("reads", name)}
    return found


def _refuse_other_modes(name: str, modes: Sequence[Any]) -> None:
    if sorted(map(str, modes)) != ["history", "mirror"]:
        raise ConfigError(
            f"{name}: there is no such pair of modes",
            found=f"mode = {json.dumps(modes, default=str)}",
            todo='Say `mode = ["mirror", "history"]` for both, or one of them: `mode = "mirror"`.',
        )


def _name_of_history(table: TableName, own: Mapping[str, Any]) -> str:
    said = own.get("history_table", table.table + _SUFFIX)
    if not isinstance(said, str) or not said or ("history_table" in own and "." in said):
        raise ConfigError(
            f"{table}: `history_table` is no name of a table",
            found=f"{said!r}",
            todo="Write it as a text, without the schema, or leave it out.",
        )
    return said


def _refuse_taken(table: TableName, history: TableName, tables: Iterable[str]) -> None:
    others = [name for name in tables if not is_pattern(name) and plain(table_name(name)) == plain(history)]
    if others:
        raise ConfigError(
            f"{table}: its history would be called {history}, as another table is",
            found=f'[tables."{others[0]}"]',
            todo="Give it another name: `history_table`. Or, where that section is for the history: say "
            f'`mode = "history"` and `reads = "{table}"` there, and `mode = "mirror"` here.',
        )


def read_by(
    tables: Mapping[TableName, TableSettings], skipped: Collection[TableName]
) -> Mapping[TableName, TableName]:
    """Return the name of each table at the source; raises ConfigError if siblings contradict each other.

    Names are compared without case, unless one is exactly that of a table that is `skipped`.
    """
    said = {name: _read(name, table) for name, table in tables.items()}
    spelled = {plain(name): name for name in tables}
    found = {
        name: read if read in skipped else spelled.setdefault(plain(read), read) for name, read in said.items()
    }
    first: dict[TableName, TableName] = {}
    for name in sorted(tables, key=lambda name: found[name] != name):
        other = first.setdefault(found[name], name)
        if tables[name].source != tables[other].source or _formats(tables[name]) != _formats(tables[other]):
            raise ConfigError(
                f"{name} and {other} read the same table of the source, and say different things of its files",
                found=f"both read {found[name]}",
                todo="Let `source`, and the formats of `columns`, be the same in both.",
            )
    return found


def _read(name: TableName, table: TableSettings) -> TableName:
    if table.reads is not None and is_pattern(table.reads):
        raise ConfigError(
            f"{name}: `reads` names one table of the source, and this stands for many",
            found=f'reads = "{table.reads}"',
            todo="Name it as schema.table.",
        )
    return name if table.reads is None else table_name(table.reads)


def _formats(table: TableSettings) -> Mapping[str, str]:
    return {name: column.format for name, column in table.columns.items() if column.format is not None}
