"""Places of a table's files below the landing folder, and what file names state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakeward.core.dimension import TableName

OWN_FOLDER: Final = "{schema}/{table}"
"""The folder in which DMS writes the files of a table."""

_FIELD: Final = re.compile(r"\{(schema|table)\}")


_FORMAT: Final = re.compile(
    r"\.(?P<format>csv|parquet|json|jsonl|ndjson)(?:\.(?:gz|zst|bz2|snappy))?$", re.IGNORECASE
)
_JSON: Final = ("json", "jsonl", "ndjson")


@dataclass(frozen=True, slots=True)
class FileName:
    """What a file's name states; full-load files sort before change files.

    A file that `is_shared` has rows of many tables, and each row names its table.
    """

    is_load: bool
    order: int
    format: str
    is_shared: bool = False


def format_of(name: str) -> str:
    """Return the format of a file by its ending: parquet or json, else csv.

    >>> format_of("a.parquet"), format_of("a.jsonl.gz"), format_of("a.txt")
    ('parquet', 'json', 'csv')
    """
    ending = _FORMAT.search(name)
    format_name = "csv" if ending is None else ending[1].lower()
    return "json" if format_name in _JSON else format_name


def has_format(name: str) -> bool:
    """Return True if a name has the ending of a known format."""
    return _FORMAT.search(name) is not None


def path_prefix(folder: str) -> str:
    """Return the prefix of paths of files in a folder; it is empty for the landing folder itself."""
    return f"{folder}/" if folder else ""


class Naming(Protocol):
    """Reads the names of a table's files; by default only `read` returns anything."""

    def read(self, path: str, part: Part) -> FileName | None:
        """Return what the path of a file below a folder states, or None if such files are not read there."""
        ...

    def listed_from(self, name: str) -> str | None:
        """Return a text that sorts before all files that do not precede a name; None if nothing is known of it."""
        return None

    def number(self, name: str) -> tuple[str, int] | None:
        """Return the series of a full-load file and its number in it; None if it has none."""
        return None

    def written(self, order: int) -> int | None:
        """Return when a change file was written, in microseconds since 1970; None if its name has no time."""
        return None

    def partition(self, name: str) -> str | None:
        """Return the partition of a topic to which a file belongs, or None."""
        return None

    def partition_end(self, name: str) -> int | None:
        """Return an order that is above all files of that partition."""
        return None


@dataclass(frozen=True, slots=True)
class Part:
    """A folder below the landing folder, and whether full-load files and change files are read from it.

    A folder that `is_shared` has the files of many tables.
    """

    folder: str
    has_load: bool = True
    has_changes: bool = True
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The folder templates of a table's full load and changes, as `{schema}/{table}`, and the names of its files.

    The folder `shared` has files with changes of all tables. With `is_encoded` the folder of a table has the names
    that `encode_names` returns.
    """

    names: Naming
    load: str = OWN_FOLDER
    changes: str = OWN_FOLDER
    shared: str | None = None
    is_encoded: bool = False

    @property
    def is_split(self) -> bool:
        """True if full load and changes lie apart; then a file's name is its path below the landing folder."""
        return self.load != self.changes

    def parts(self, table: TableName) -> Sequence[Part]:
        """Return the folders of a table."""
        named = encode_names(table) if self.is_encoded else table
        load, changes = fill_template(self.load, named), fill_template(self.changes, named)
        shared = () if self.shared is None else (Part(self.shared, has_load=False, is_shared=True),)
        if not self.is_split:
            return (Part(load), *shared)
        return (Part(load, has_changes=False), Part(changes, has_load=False), *shared)

    def name(self, path: str, part: Part) -> str:
        """Return the name of a file by its path below a folder."""
        return path_prefix(part.folder) + path if self.is_split or part.is_shared else path

    def path(self, name: str, part: Part) -> str | None:
        """Return the path below a folder of the file with a name, or None if the file is not in that folder."""
        if not (self.is_split or part.is_shared):
            return name
        start = path_prefix(part.folder)
        return name.removeprefix(start) if name.startswith(start) else None

    def read(self, path: str, part: Part) -> FileName | None:
        """Return what the path of a file below a folder states, or None if such files are not read there."""
        return self.names.read(path, part)

    def known(self, table: TableName, name: str) -> FileName:
        """Return what the name of a listed file states; raises ValueError for any other name."""
        for part in self.parts(table):
            path = self.path(name, part)
            if path is not None and (file_name := self.read(path, part)) is not None:
                return file_name
        raise ValueError(f"{name} is no name that a file of {table} has")


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all tables: of those with settings of their own, and of the others."""

    others: Place
    own: Mapping[TableName, Place] = field(default_factory=dict)

    def of(self, table: TableName) -> Place:
        """Return the place of a table."""
        return self.own.get(table, self.others)


def fill_template(template: str, table: TableName) -> str:
    """Return the folder of a table by a template.

    >>> fill_template("cdc/{schema}/{table}", TableName("shop", "orders"))
    'cdc/shop/orders'
    """
    return _FIELD.sub(lambda match: str(getattr(table, match[1])), template)


def encode_names(table: TableName) -> TableName:
    """Return a table with names that are safe in keys of S3 and in paths of Hadoop.

    Each byte of any other character becomes `~` and two hexadecimal digits, so no two tables have the same names.

    >>> encode_names(TableName("SALES", "ORDER#1"))
    TableName(schema='SALES', table='ORDER~231')
    """
    return TableName(_encode(table.schema), _encode(table.table))


def encoded_folder(table: TableName) -> str:
    """Return the folder of a table whose names are encoded.

    >>> encoded_folder(TableName("SALES", "ORDER#1"))
    'SALES/ORDER~231'
    """
    return fill_template(OWN_FOLDER, encode_names(table))


def _encode(name: str) -> str:
    plain = (one.isalnum() or one in "_-" or (one == "." and place > 0) for place, one in enumerate(name))
    return "".join(
        one if is_plain else "".join(f"~{byte:02x}" for byte in one.encode())
        for one, is_plain in zip(name, plain, strict=True)
    )


def table_of(template: str, folder: str) -> TableName | None:
    """Return the table of a folder, or None if the folder does not have the form of the template.

    >>> table_of("cdc/{schema}/{table}", "cdc/shop/orders")
    TableName(schema='shop', table='orders')
    """
    parts = _FIELD.split(template)  # alternates between text and the name of a field
    pattern = "".join(f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    match = re.fullmatch(pattern, folder)
    return None if match is None else TableName(match["schema"], match["table"])
