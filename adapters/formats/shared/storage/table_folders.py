"""Names of the folders of tables, for any names at the source."""

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
    """Return a folder of this machine that can hold tables.

    Raises ConfigError if its path changes when it is written as a URL: formats name their files by URLs.
    """
    special_characters = _OF_URLS.search(str(folder))
    if special_characters is not None:
        raise ConfigError(
            f"the warehouse {folder} cannot hold tables",
            found=f"its path has '{special_characters[0]}', which has another meaning in the URLs of files",
            todo="Name another folder under [target], with an absolute path where that of the settings has it.",
        )
    return folder


def slug(name: str) -> str:
    """Return a name as a folder: unchanged if a folder may have it, else with a hash, so that no two names collide.

    >>> slug("orders"), slug("odd name").startswith("odd_name-")
    ('orders', True)
    """
    plain = _SAFE.sub("_", name)
    if plain == name and not name.startswith("."):
        return name
    return f"{plain.lstrip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def identifier(table: TableName, namespace: str, suffix: str = "") -> tuple[str, str]:
    """Return namespace and name of a table, or of its side table with a suffix."""
    return namespace.format(schema=table.schema, table=table.table), table.table + suffix


def refuse_shared(tables: Iterable[TableName], namespace: str) -> None:
    """Raise ConfigError for a namespace by which two tables, or a table and a side table, would be one table."""
    names_by_place: dict[tuple[str, str], TableName] = {}
    for name, suffix in product(tables, ("", CHANGES, QUARANTINE)):
        place = identifier(name, namespace, suffix)
        other = names_by_place.setdefault(place, name)
        if other != name:
            meet = identifier(name, namespace) == identifier(other, namespace)
            side_tables = "" if meet else f", and each table has side tables {CHANGES} and {QUARANTINE}"
            raise ConfigError(
                f"{other} and {name} would become the same table {'.'.join(place)}",
                found=f"`namespace` under [target] is {namespace!r}{side_tables}",
                todo="Let it hold {schema}, so that tables of different schemas stay apart.",
            )
