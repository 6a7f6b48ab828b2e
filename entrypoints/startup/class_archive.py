"""Writer of the class data archive of the JVM: it runs a small pipeline, and Java dumps the loaded classes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style
from lakeward.adapters.spark.session import class_archive
from lakeward.core.dimension import TableName
from lakeward.core.errors import SetupError
from lakeward.core.events import Operation
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.schema import Column, Schema, Type
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import FILE, load

_TABLE: Final = TableName("shop", "orders")
_TIME: Final = "committed_at"
_TYPES: Final = {
    "id": Type("bigint"),
    "status": Type("string"),
    "price": Type("decimal", 12, 2),
    "ordered_on": Type("date"),
    "shipped_at": Type("timestamp"),
}
_SETTINGS: Final = f"""
[pipeline]
name = "archive"
[source]
kind = "dms"
path = "landing/"
timestamp_column = "{_TIME}"
max_files = 1
[target]
kind = "iceberg"
warehouse = "lake/"
[tables."{_TABLE}"]
key = ["id"]
[tables."{_TABLE}".columns]
"""


def make_archive(folder: Path) -> Path:
    """Run a pipeline in an empty folder, and return the archive of the classes that Java loaded.

    Raises SetupError if Java wrote no archive.
    """
    _write(folder)
    container = Container(configured=load(folder / FILE))
    spark = container.spark()
    spark.archives = True
    apply_changes(container.job(table=_TABLE, notices=[]))
    spark.stop()
    archive = None if spark.archive is None else class_archive.keep(spark.archive)
    if archive is None:
        raise SetupError(
            "Java wrote no archive of its classes",
            found=(folder / "state" / "spark.log").read_text("utf-8", errors="replace").strip()[-500:] or None,
            todo="Runs work without it, and start more slowly. Check the free space of the cache folder.",
        )
    return archive


def _write(folder: Path) -> None:
    """Write a full load and a change of each kind, so that Java loads the classes that most batches need."""
    columns = "\n".join(f'{name} = "{type_}"' for name, type_ in _TYPES.items())
    (folder / FILE).write_text(_SETTINGS + columns, encoding="utf-8")
    schema = Schema(tuple(Column(name, type_) for name, type_ in _TYPES.items()))
    writer = DmsWriter(folder / "landing", _TABLE, schema, Style(timestamp_column=_TIME))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(key, "open", Decimal(key), at.date(), at) for key in range(1, 4)]
    writer.load(rows, at)
    later = at + timedelta(minutes=1)
    changes = [
        Change(Operation.UPDATE, (1, "paid", Decimal(1), at.date(), later), later),
        Change(Operation.DELETE, rows[1], later),
        Change(Operation.INSERT, (9, "open", None, None, None), later),
    ]
    writer.changes(changes, later)
