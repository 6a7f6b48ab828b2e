"""The rows that a table would have after a feed of files, folded by the model."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from struct import pack, unpack
from typing import Any

from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.form import MESSAGES
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Match, TableName
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, Sequences, key_of
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.fold import FoldResult, apply
from lakeward.core.ports import Source
from lakeward.core.schema import Column, Schema, parse_type

Cells = Mapping[str, Cell]


@dataclass(frozen=True)
class FeedContents:
    """The contents of the files of a table: dimension with columns, events, and rejected rows."""

    dimension: Dimension
    files: Mapping[int, str]
    events: Sequence[ChangeEvent]
    rejects: Sequence[tuple[str, str]]
    skipped: int
    key_halves: int

    def of(self, pattern: str) -> FeedContents:
        events = [e for e in self.events if re.fullmatch(pattern, self.files[e.position.object])]
        return replace(self, events=events)

    @property
    def folded(self) -> FoldResult:
        return apply(self.dimension, {}, self.events)

    @property
    def rows(self) -> Mapping[Key, Cells]:
        return {key: row.cells for key, row in self.folded.rows.items() if not row.deleted}

    @property
    def types(self) -> Mapping[str, str]:
        return {column.name: str(column.type) for column in self.dimension.schema}


def read_feed(
    spark: SparkSession | None,
    folder: Path,
    table: str,
    key: Sequence[str],
    columns: Mapping[str, str],
    *,
    lateness: Lateness = ORDERED,
    patterns: Mapping[str, str] | None = None,
    match: Match = Match.KEY,
    others: Sequence[str] = (),
    **options: Any,
) -> FeedContents:
    """Read all files of a table, batch by batch, by Spark, or without Spark by plain Python.

    Tables of messages share one folder. `others` are further tables of it.
    """
    name = TableName(*table.split("."))
    shared = {"folder": ""} if options.get("format") in MESSAGES else {}
    own_options = FilesOptions.model_validate({"path": str(folder), **shared, **options})
    schema = Schema(tuple(Column(c, parse_type(text)) for c, text in columns.items()))
    dimension = Dimension(
        name=name, schema=schema, key=tuple(key), match=match, lateness=lateness, sequences=Sequences.PLACES
    )
    place = Folder(folder, Places(own_options.place()))
    small_batch = 20_000 if spark is None else 0
    tables = {name: patterns or {}, **{TableName(*other.split(".")): {} for other in others}}
    return read_whole(
        FilesSource(own_options, place, partial(session, spark), tables, small_batch=small_batch), dimension
    )


def read_whole(source: Source[Frame], dimension: Dimension) -> FeedContents:
    """Read all objects of a table, batch by batch."""
    halves = 0
    applied: dict[str, Any] = {}
    rows: list[Mapping[str, Any]] = []
    columns: dict[str, Column] = {}
    while (selection := source.select_objects(dimension, ObjectHistory(applied=applied))).objects:
        batch = source.read(dimension, selection, 1)
        rows += rows_of(batch.frame)
        halves += batch.facts.key_halves
        columns |= {column.name: column for column in batch.facts.schema}
        applied |= {item.object.name: item.object for item in batch.facts.objects}
        batch.close()
    dimension = replace(dimension, schema=Schema(tuple(columns.values())))
    return FeedContents(
        dimension=dimension,
        files={item.order: item.name for item in applied.values()},
        events=[_event(row, dimension) for row in rows if row[names.REASON] is None],
        rejects=[
            (row[names.REASON], row[names.DETAIL]) for row in rows if row[names.REASON] not in (None, SKIPPED)
        ],
        skipped=sum(row[names.REASON] == SKIPPED for row in rows),
        key_halves=halves,
    )


def session(spark: SparkSession | None) -> SparkSession:
    """Return the session for a source. Plain Python must not request it."""
    assert spark is not None, "Spark is not needed"
    return spark


def rows_of(frame: Frame) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a frame, without Spark if it is a local one."""
    if isinstance(frame, LocalFrame):
        return frame.rows.to_pylist()
    return [row.asDict(recursive=True) for row in frame.collect()]


def _event(row: Mapping[str, Any], dimension: Dimension) -> ChangeEvent:
    unset = row.get(names.UNSET) or ()
    cells = {name: UNSET if name in unset else row.get(name) for name in dimension.schema.names}
    old = row.get(names.OLD)
    place = key_of(cells, dimension.key) if dimension.key else (row[names.OBJECT], row[names.ROW])
    return ChangeEvent(
        operation=Operation(row[names.OPERATION]),
        position=Position(1, int(row[names.SEQUENCE]), row[names.OBJECT], row[names.ROW]),
        key=place or (),
        cells=cells,
        old_key=None if old is None else key_of(old, dimension.key),
        before=row.get(names.IMAGE),
        transaction=row.get(names.TRANSACTION),
        time=row[names.TIME],
    )


def expected(file: Path) -> list[dict[str, str | None]]:
    r"""Read an expected table: NULL is `\N`."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [{n: None if t == r"\N" else t for n, t in row.items()} for row in csv.DictReader(lines)]


def differences(rows: Mapping[Key, Cells], wanted: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Return the differences of rows from an expected table as texts. Values are compared by type."""
    expected = {tuple(map(str, key)): cells for key, cells in rows.items()}
    lines = []
    for row in wanted:
        texts = list(row.values())
        key = next((key for key in expected if list(key) == texts[: len(key)]), None)
        cells = {} if key is None else expected.pop(key)
        lines += [
            f"{texts[0]}: {name} is {cells.get(name)!r}, not {text!r}"
            for name, text in row.items()
            if not is_equal(cells.get(name), text)
        ]
    return [*lines, *(f"{key} is too many" for key in expected)]


def is_equal(value: Any, text: str | None) -> bool:
    """Return True if a value equals its text in an expected table."""
    match value, text:
        case (None, _) | (_, None):
            return value is None and text is None
        case (bool(), str()):
            return str(value).lower()[0] == text.lower()[0]
        case (float(), str()):
            return value == float(text) or value == unpack("f", pack("f", float(text)))[0]
        case (int() | Decimal(), str()):
            return Decimal(value) == Decimal(text)
        case (datetime(), str()):
            return value.replace(tzinfo=UTC) == datetime.fromisoformat(text).replace(tzinfo=UTC)
        case (date(), str()):
            return str(value) == text[:10]
        case (dict() | list(), str()):
            return bool(value == json.loads(text))
        case _:
            return str(value) == text
