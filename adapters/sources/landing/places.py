"""Where a table's files lie below the landing folder, and what their names say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakeward.core.dimension import TableName

OWN_FOLDER: Final = "{schema}/{table}"
"""Where DMS writes the files of a table."""

_FIELD: Final = re.compile(r"\{(schema|table)\}")


_FORMAT: Final = re.compile(
    r"\.(?P<format>csv|parquet|json|jsonl|ndjson)(?:\.(?:gz|zst|bz2|snappy))?$", re.IGNORECASE
)
_JSON: Final = ("json", "jsonl", "ndjson")


@dataclass(frozen=True, slots=True)
class FileName:
    """A file as its name tells it; those of a full load sort before those of changes.

    One that `is_shared` has rows of many tables, each of which says its own.
    """

    is_load: bool
    order: int
    format: str
    is_shared: bool = False


def format_of(name: str) -> str:
    """Return the format of a file by its ending: parquet, json, else csv.

    >>> format_of("a.parquet"), format_of("a.jsonl.gz"), format_of("a.txt")
    ('parquet', 'json', 'csv')
    """
    ending = _FORMAT.search(name)
    found = "csv" if ending is None else ending[1].lower()
    return "json" if found in _JSON else found


def has_format(name: str) -> bool:
    """Whether the ending of a name is that of a known format."""
    return _FORMAT.search(name) is not None


def below(folder: str) -> str:
    """Return what the path of a file in a folder begins with; the landing folder itself is an empty text."""
    return f"{folder}/" if folder else ""


class Naming(Protocol):
    """What the names of a table's files say: nothing of all but `read`, unless they do."""

    def read(self, path: str, part: Part) -> FileName | None:
        """Return what the path of a file below a folder says, or None where it is none that is taken there."""
        ...

    def listed_from(self, name: str) -> str | None:
        """Return the text before which no file sorts that does not precede a name; None where that is not told."""
        return None

    def number(self, name: str) -> tuple[str, int] | None:
        """Return the series of a file of a full load, and its number there; None where it has none."""
        return None

    def written(self, order: int) -> int | None:
        """Return when a file of changes was written, in microseconds since 1970; None where its name tells none."""
        return None

    def partition(self, name: str) -> str | None:
        """Return the partition of a topic that a file is of; None where it is of none."""
        return None

    def partition_end(self, name: str) -> int | None:
        """Return the order behind all files of that partition."""
        return None


@dataclass(frozen=True, slots=True)
class Part:
    """A folder below the landing folder, and whether files of a full load and of changes are taken from it.

    One that `is_shared` has the files of many tables.
    """

    folder: str
    has_load: bool = True
    has_changes: bool = True
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where the full load and the changes of a table lie, as `{schema}/{table}`, and how the files are named.

    In the folder `shared` lie changes of all tables together, in files of their own. With `is_encoded` the folder
    of a table has the names that `encoded` returns.
    """

    names: Naming
    load: str = OWN_FOLDER
    changes: str = OWN_FOLDER
    shared: str | None = None
    is_encoded: bool = False

    @property
    def is_split(self) -> bool:
        """Whether the two lie apart; then a file's name is its path below the landing folder."""
        return self.load != self.changes

    def parts(self, table: TableName) -> Sequence[Part]:
        """Return the folders of a table."""
        named = encoded(table) if self.is_encoded else table
        load, changes = filled(self.load, named), filled(self.changes, named)
        shared = () if self.shared is None else (Part(self.shared, has_load=False, is_shared=True),)
        if not self.is_split:
            return (Part(load), *shared)
        return (Part(load, has_changes=False), Part(changes, has_load=False), *shared)

    def name(self, path: str, part: Part) -> str:
        """Return what a file below a folder is called: by its path there, or below the landing folder."""
        return below(part.folder) + path if self.is_split or part.is_shared else path

    def path(self, name: str, part: Part) -> str | None:
        """Return the path that a file of that name has below a folder, or None where it is not of it."""
        if not (self.is_split or part.is_shared):
            return name
        start = below(part.folder)
        return name.removeprefix(start) if name.startswith(start) else None

    def read(self, path: str, part: Part) -> FileName | None:
        """Return what the path of a file below a folder says, or None where it is none that is taken there."""
        return self.names.read(path, part)

    def known(self, table: TableName, name: str) -> FileName:
        """Return what the name of a file that was listed says."""
        for part in self.parts(table):
            path = self.path(name, part)
            if path is not None and (found := self.read(path, part)) is not None:
                return found
        raise ValueError(f"{name} is no name that a file of {table} has")


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all tables: of those that the settings say something of, and of the others."""

    others: Place
    own: Mapping[TableName, Place] = field(default_factory=dict)

    def of(self, table: TableName) -> Place:
        """Return the place of a table."""
        return self.own.get(table, self.others)


def filled(template: str, table: TableName) -> str:
    """Return the folder of a table.

    >>> filled("cdc/{schema}/{table}", TableName("shop", "orders"))
    'cdc/shop/orders'
    """
    return _FIELD.sub(lambda found: str(getattr(table, found[1])), template)


def encoded(table: TableName) -> TableName:
    """Return a table by names that stand for themselves in keys of S3, and in paths of Hadoop.

    Each byte of another character is `~` and two hexadecimal digits: no two tables have the same names.

    >>> encoded(TableName("SALES", "ORDER#1"))
    TableName(schema='SALES', table='ORDER~231')
    """
    return TableName(_encode(table.schema), _encode(table.table))


def _encode(name: str) -> str:
    plain = (one.isalnum() or one in "_-" or (one == "." and place > 0) for place, one in enumerate(name))
    return "".join(
        one if is_plain else "".join(f"~{byte:02x}" for byte in one.encode())
        for one, is_plain in zip(name, plain, strict=True)
    )


def table_of(template: str, folder: str) -> TableName | None:
    """Return the table that a folder is of, or None where it is not of that form.

    >>> table_of("cdc/{schema}/{table}", "cdc/shop/orders")
    TableName(schema='shop', table='orders')
    """
    parts = _FIELD.split(template)  # by turns a text, and the name of a field
    pattern = "".join(f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    found = re.fullmatch(pattern, folder)
    return None if found is None else TableName(found["schema"], found["table"])
