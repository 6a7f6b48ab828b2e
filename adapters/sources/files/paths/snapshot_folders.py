"""Snapshots that are folders: which folder is the snapshot of a file, and which folders are ambiguous."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError

_NAMES: Final = ("year", "y", "month", "m", "day", "d", "hour", "h", "date", "dt", "ds", "time")
"""The names of folders of dates, as in `dt=2026-11-21` or `year=2026/month=11`."""

_YEAR, _TWO = r"\d{4}", r"\d{1,2}"
_DATE: Final = re.compile(
    rf"{_YEAR}(/{_TWO}){{1,3}}|{_YEAR}-?\d\d(/{_TWO}){{1,2}}|{_YEAR}-?\d\d-?\d\d/{_TWO}([-:.]?\d\d){{0,2}}"
)


def snapshot_folder(path_columns: Collection[str]) -> Callable[[str], str]:
    """Return a function that returns the folder of a file's snapshot, by the file's path below the table's folder.

    It is the folder of the file, or the one above the folders of `path_columns`, which are parts of a snapshot.
    Folders of dates are no parts.

    >>> snapshot_folder(["region"])("2026-11-21/region=eu/part-0.csv")
    '2026-11-21'
    """
    return partial(_snapshot_folder, {name.lower() for name in path_columns})


def _snapshot_folder(path_columns: Collection[str], path: str) -> str:
    folders = list(PurePosixPath(path).parent.parts)
    while len(folders) > 1:
        name, is_named, _ = folders[-1].lower().partition("=")
        if not is_named or name not in path_columns or name in _NAMES:
            break
        folders.pop()
    return "/".join(folders)


def refuse_nested(table: TableName, snapshots: Iterable[str]) -> None:
    """Raise SourceError for a nested folder that may be a snapshot or a part of one.

    Nested folders are certainly snapshots only if they form a date together, as `2026/11/21`.
    """
    nested = next((folder for folder in sorted(snapshots) if "/" in folder and not _is_date(folder)), None)
    if nested is not None:
        raise SourceError(
            f"{table}: whether the folder {nested} is a snapshot, or a part of one, cannot be told",
            found="it lies in another folder, and the two form no date together",
            todo="Nothing of this batch was applied. Let each snapshot have one folder below that of the table, or "
            "folders of a date, as 2026/11/21. A folder within it, as region=eu, is a part of the snapshot where "
            '`path_columns` names its column: path_columns = ["region"].',
        )


def _is_date(folder: str) -> bool:
    parts = [part.rpartition("=") for part in folder.split("/")]
    if any(is_named and name.lower() not in _NAMES for name, is_named, _ in parts):
        return False
    return _DATE.fullmatch("/".join(value for _, _, value in parts)) is not None
