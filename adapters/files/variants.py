"""JSON needs the type VARIANT, which came with Spark 4.0: what reads it is refused where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakeward.adapters.files.form import MESSAGES
from lakeward.adapters.spark.line import line
from lakeward.core.errors import SetupError, SourceError

_FOUND: Final = "JSON is read through the type VARIANT, which keeps decimals to the digit and came with Spark 4.0"
_TODO: Final = (
    "Nothing was applied. Install `lakeward[spark]`, which has Spark 4.1, in a virtual environment of its own. "
    "Hudi tables need Spark 3.5: they take CSV and Parquet, and files of DMS."
)


def check_format(where: str, format_: str) -> None:
    """Raise SetupError for settings that name a format which this Spark cannot read; `where` they do."""
    if format_ in ("json", *MESSAGES) and line() == "3.5":
        what = f'{where}: Spark {line()} does not read files of `format = "{format_}"`'
        raise SetupError(what, found=_FOUND, todo=_TODO)


def check_files(table: str, names: Iterable[str]) -> None:
    """Raise SourceError where this Spark cannot read these files of JSON, which were found by their endings."""
    name = next(iter(names), None)
    if name is not None and line() == "3.5":
        raise SourceError(f"{table}: Spark {line()} does not read {name}", found=_FOUND, todo=_TODO)
