"""The corpus: small feeds and the tables that they must give, in files that any tool can read.

`docs/extend/corpus.md` describes the files. The expected tables are written by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any, Final

from lakeward.core.dimension import ORDERED, Dimension, Lateness, Unbounded
from lakeward.core.events import LOAD_SEQUENCE, UNSET, Cell, ChangeEvent, Operation, Position, Sequences, key_of
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins.testing.bench import Law, Trial
from lakeward.plugins.testing.moments import item_in_words
from lakeward.plugins.testing.player import ABOUT_THE_COMMIT, CRASHES, Lake, Player
from lakeward.plugins.testing.scripts import NAME, TOLERANT, Script

_FOLDER: Final = files("lakeward.plugins.testing") / "corpus"
_LATENESS: Final[Mapping[str, Lateness]] = {"ordered": ORDERED, "unbounded": Unbounded()}

Image = Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """The events of one batch in position order, the columns of its files, and the rows of the table after it.

    If `is_crashed`, the process that applies it crashes at any step, and another one applies it again.
    """

    files: tuple[str, ...]
    columns: Schema
    epoch: int
    events: tuple[ChangeEvent, ...]
    rows: tuple[Image, ...]
    is_crashed: bool


@dataclass(frozen=True)
class Case:
    """A case of the corpus: its folder and the contents of its `case.json`."""

    folder: Traversable
    head: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def title(self) -> str:
        """The property that must hold, in a sentence."""
        return str(self.head["title"])

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key. None for an append-only table."""
        return tuple(self.head["key"])

    @property
    def needs(self) -> frozenset[str]:
        """The names of the capabilities that a table needs."""
        return frozenset(self.head.get("needs", ()))

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns by which the table is partitioned, if its format has partitions."""
        return tuple(self.head.get("partition_by", ()))

    @cached_property
    def deliveries(self) -> Sequence[Delivered]:
        """The deliveries, each with the rows that the table must have after it."""
        return list(self._read())

    def _read(self) -> Iterator[Delivered]:
        columns, epoch = _schema(self.head["columns"]), 1
        for number, listed in enumerate(self.head["deliveries"], 1):
            columns = _schema(listed["columns"]) if "columns" in listed else columns
            epoch = listed.get("epoch", epoch)
            events = [event for file in listed["files"] for event in self._events(file, columns, epoch)]
            yield Delivered(
                files=tuple(listed["files"]),
                columns=columns,
                epoch=epoch,
                events=tuple(sorted(events, key=lambda event: event.position)),
                rows=tuple(_lines(self.folder / "expected" / f"{number}.jsonl")),
                is_crashed=listed.get("crash", False),
            )

    def _events(self, file: str, columns: Schema, epoch: int) -> Iterator[ChangeEvent]:
        number = int(PurePosixPath(file).stem)
        for row, line in enumerate(_lines((self.folder / "feed").joinpath(*file.split("/"))), 1):
            operation, time = Operation(line["op"]), line.get("sequence")
            cells, before = dict(line.get("row", {})), line.get("before")
            if operation is Operation.UPDATE:
                cells = {**dict.fromkeys(columns.names, UNSET), **cells}
            yield ChangeEvent(
                operation=operation,
                position=Position(epoch, LOAD_SEQUENCE if time is None else time, number, row),
                key=key_of(cells, self.key) or (),
                cells=cells,
                old_key=None if before is None else key_of(before, self.key),
                transaction=line.get("transaction"),
                time=time,
            )

    @property
    def script(self) -> Script:
        """The case as a script of the kit."""
        dimension = Dimension(
            name=NAME,
            schema=_schema(self.head["columns"]),
            key=self.key,
            lateness=_LATENESS[self.head["lateness"]],
            sequences=Sequences(self.head.get("sequences", Sequences.TIMES.value)),
            tolerance=TOLERANT,
        )
        epochs = [delivery.epoch for delivery in self.deliveries]
        return Script(
            dimension,
            [delivery.events for delivery in self.deliveries],
            [event for delivery in self.deliveries for event in delivery.events],
            in_part=not self.needs.isdisjoint(item.value for item in PARTIAL),
            reloaded_with=epochs.index(2) if 2 in epochs else None,
            columns={number: delivery.columns for number, delivery in enumerate(self.deliveries)},
        )

    def check(self, lake: Lake, end: tuple[str, str] | None = None) -> None:
        """Play the case on an empty lake. Raises AssertionError if its table differs from the expected one.

        If processes of the case crash, they do so at step `end`.
        """
        player = Player(self.script, lake)
        for number, delivery in enumerate(self.deliveries, 1):
            player.deliver(end if delivery.is_crashed else None)
            rows = [cells for cells, _ in player.moments[-1].rows.values()]
            if lines := list(_differing(rows, delivery.rows)):
                delivered = [f"    {item_in_words(item)}" for item in player.delivered]
                where = f"{self.name}: after delivery {number} the table is not that of expected/{number}.jsonl:"
                raise AssertionError("\n".join([where, *lines, "  delivered until then:", *delivered]))


def corpus() -> Sequence[Case]:
    """Return the cases of the corpus, by name."""
    folders = sorted((item for item in _FOLDER.iterdir() if item.is_dir()), key=lambda item: item.name)
    return [Case(item, json.loads((item / "case.json").read_text("utf-8"))) for item in folders]


def _schema(columns: Mapping[str, str]) -> Schema:
    return Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))


def _lines(file: Traversable) -> Iterator[Any]:
    return map(json.loads, file.read_text("utf-8").splitlines())


def _differing(actual: Sequence[Image], expected: Sequence[Image]) -> Iterator[str]:
    """Describe surplus and missing rows. Equal rows are counted."""
    one, other = (Counter(map(_as_line, rows)) for rows in (actual, expected))
    yield from (f"  it has {row}" for row in sorted((one - other).elements()))
    yield from (f"  it lacks {row}" for row in sorted((other - one).elements()))


def _as_line(row: Image) -> str:
    return json.dumps(dict(row), sort_keys=True, default=repr)


def _holds(case: Case, trial: Trial) -> None:
    is_crashed = any(delivery.is_crashed for delivery in case.deliveries)
    every = ABOUT_THE_COMMIT if trial.is_packed else CRASHES
    for end in every if is_crashed else [None]:
        bench = trial.make()
        is_parted = case.partition_by and bench.partitioned is not None
        lake = bench.partitioned(case.partition_by) if is_parted else bench.lake  # type: ignore[misc]
        case.check(lake, end)


LAWS: Final = tuple(
    Law(name=f"corpus_{case.name}", statement=case.title, check=partial(_holds, case), needs=case.needs, once=True)
    for case in corpus()
)
"""A law for each case, so that closed ones are listed by name."""
