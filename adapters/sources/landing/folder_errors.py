"""Errors of files in a landing folder: names that cannot be stored or read, and content that cannot be read."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError

_ORDERS: Final = 1 << 63
"""The bound of orders, which are whole numbers of 64 bits."""


def ambiguous_file_error(table: TableName, name: str) -> ConfigError:
    """Return the error of a file that is in both folders of its table."""
    return ConfigError(
        f"{table}: {name} is both of its full load and of its changes",
        todo=f'Let `load` and `changes` under [tables."{table}".source], or the names of files there, '
        "part the two.",
    )


def outside_error(table: TableName, name: str) -> SourceError:
    """Return the error of a path that leads out of the landing folder."""
    return SourceError(
        f"{table}: {name} leads out of the landing folder",
        todo="Nothing of this batch was applied; other tables go on. Put the files below the landing folder "
        "rather than a link to them, or make it the `path` under [source].",
    )


def compression_error(table: TableName, name: str) -> SourceError:
    """Return the error of a file with a compression that this process cannot read."""
    return SourceError(
        f"{table}: {name} cannot be read",
        found=f"it is packed as {PurePosixPath(name).suffix}, and how it begins cannot be seen",
        todo="Nothing of this batch was applied; other tables go on. Pack the file by gzip (.gz) or bzip2 (.bz2), "
        "or not at all.",
    )


def unreadable_folder_error(table: TableName, error: OSError) -> SourceError:
    """Return the error of a folder that cannot be listed."""
    return SourceError(
        f"{table}: its folder cannot be read",
        found=str(error),
        todo="Grant permission to read it. Other tables go on.",
    )


def unreadable_file_error(table: TableName, name: str, error: Exception) -> SourceError:
    """Return the error of a file that cannot be opened or read."""
    return SourceError(
        f"{table}: {name} cannot be read",
        found=str(error),
        todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole one.",
    )


def refuse_colon(table: TableName, name: str, path: str, *, is_on_disk: bool) -> None:
    """Raise SourceError for a file whose path has a colon where Spark cannot read it.

    Hadoop reads the text before a colon as a scheme: in the name of the checksum file of a file on a disk, and in
    each part of a path that has characters of a pattern.
    """
    own = PurePosixPath(name)
    is_pattern = any(character in path for character in "[]{}*?\\")
    if ":" not in path or not (is_pattern or (is_on_disk and ":" in own.name)):
        return
    with_what = "a colon and one of []{}*?\\" if is_pattern else "a colon in the name of the file"
    raise SourceError(
        f"{table}: Spark cannot read {name}",
        found=f"its path has {with_what}",
        todo="Nothing of this batch was applied; other tables go on. Rename it without the colon, to "
        f"{name.replace(':', '-')} say, or move it away. Let its writer leave colons out.",
    )


def refuse_unstorable(table: TableName, name: str, order: int) -> None:
    """Raise SourceError for a file whose name or order cannot be stored in tables and ledgers."""
    if not -_ORDERS <= order < _ORDERS:
        raise SourceError(
            f"{table}: {name} has no place in the order of files",
            found="the number in its name is above 2^63, or its time behind the year 2248",
            todo="Nothing of this batch was applied; other tables go on. Move the file away, or let `names` take "
            "another part of the name for its counter or its time.",
        )
    if printable_name(name) != name:
        raise SourceError(
            f"{table}: the name of a file is no text",
            found=f"{printable_name(name)}, of which bytes are no UTF-8",
            todo="Nothing of this batch was applied; other tables go on. Rename the file, or move it away.",
        )


def printable_name(name: str) -> str:
    r"""Return a name for printing: bytes that are not UTF-8 become \xNN.

    >>> print(printable_name("a\udcff.csv"))
    a\xff.csv
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
