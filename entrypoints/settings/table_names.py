"""Checks of the names of tables in the settings: each table of the lake has a name of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.patterns import is_pattern, plain, table_name

SIDE_TABLE_SUFFIXES: Final = ("__changes", "__quarantine")
"""Suffixes of the side tables that lakeward keeps for each table."""


def refuse_duplicate_names(file: Path, names: Iterable[str]) -> None:
    """Raise ConfigError if two names under [tables] are the same table, or differ only in case."""
    spellings: dict[TableName, list[str]] = defaultdict(list)
    for name in names:
        spellings[plain(table_name(name))].append(name)
    duplicates = [name for alike in spellings.values() if len(alike) > 1 for name in alike]
    if duplicates:
        raise ConfigError(
            f"{file}: names under [tables] are the same table, or differ only in case",
            found=", ".join(duplicates),
            todo="The lake can have one table of that name. Set `skip = true` for the other.",
        )


def refuse_name_of_joined(text: str, others: Iterable[TableName]) -> None:
    """Raise ConfigError if the name of a joined table is a pattern, or that of one of the `others`."""
    name = table_name(text)
    if is_pattern(text) or plain(name) in map(plain, others):
        raise ConfigError(
            f"{name}: a joined table cannot have this name",
            found="its name is a pattern" if is_pattern(text) else "another table has that name",
            todo="Give it a name of its own. Names of tables in the lake are compared without case.",
        )


def refuse_names_of_side_tables(tables: Collection[TableName]) -> None:
    """Raise ConfigError if a table has the name of a side table of another one."""
    for name in tables:
        for suffix in SIDE_TABLE_SUFFIXES:
            other = TableName(name.schema, name.table.removesuffix(suffix))
            if name.table.endswith(suffix) and other in tables:
                raise ConfigError(
                    f"{name}: the name is that of a side table of {other}",
                    todo="Put the two in separate lakes, each with a settings file.",
                )
