"""Folders of tables, whatever these are called at the source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Final

from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

_SAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_OF_URLS: Final = re.compile(r"[#?\[\]]|%[0-9A-Fa-f]{2}")


def warehouse(folder: Path) -> Path:
    """Return a folder of this machine in which tables may lie.

    Raises ConfigError where its path is another in a URL, by which formats name their files.
    """
    found = _OF_URLS.search(str(folder))
    if found is not None:
        raise ConfigError(
            f"the warehouse {folder} cannot hold tables",
            found=f"its path has '{found[0]}', which is something else in a URL, and by these files are named",
            todo="Name another folder under [target], with an absolute path where that of the settings has it.",
        )
    return folder


def slug(name: str) -> str:
    """Return a name as a folder: itself where it is harmless, else with a hash, so that none collide.

    >>> slug("orders"), slug("odd name").startswith("odd_name-")
    ('orders', True)
    """
    plain = _SAFE.sub("_", name)
    if plain == name and not name.startswith("."):
        return name
    return f"{plain.lstrip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def identifier(table: TableName, namespace: str, suffix: str = "") -> tuple[str, str]:
    """Return namespace and name of a table, or of one that stands beside it."""
    return namespace.format(schema=table.schema, table=table.table), table.table + suffix


def refuse_shared(tables: Iterable[TableName], namespace: str) -> None:
    """Refuse a namespace that sends two tables, or one and what stands beside another, to one table."""
    found: dict[tuple[str, str], TableName] = {}
    for name, suffix in product(tables, ("", CHANGES, QUARANTINE)):
        place = identifier(name, namespace, suffix)
        other = found.setdefault(place, name)
        if other != name:
            meet = identifier(name, namespace) == identifier(other, namespace)
            beside = "" if meet else f", and lakeward keeps {CHANGES} and {QUARANTINE} beside each table"
            raise ConfigError(
                f"{other} and {name} would become the same table {'.'.join(place)}",
                found=f"`namespace` under [target] is {namespace!r}{beside}",
                todo="Let it hold {schema}, so that tables of different schemas stay apart.",
            )
