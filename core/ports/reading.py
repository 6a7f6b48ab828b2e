"""What looks at a table whole, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakeward.core.events import Cell
from lakeward.core.history.check import Checked


class Verification(Protocol):
    """What looks at a table whole, as anybody may have written to it, and changes nothing."""

    def check_history(self, examples: int) -> Checked:
        """Hold all versions of a history against its rules; of each rule that is broken, name so many keys at most.

        The options of the history are those that its versions were made with. Raises TableError where the table
        cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is read of a table: all rows, or those of a history that were valid `at` an instant.

    These are what is believed now, or was after the batch `known`. Rows come `with_ours` where the columns that
    lakeward adds are wanted, too.
    """

    at: int | None = None
    known: int | None = None
    with_ours: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The first of the rows that were selected, with their columns, and how many `rows` there are."""

    rows: int
    columns: Sequence[str]
    first: Sequence[Mapping[str, Cell]]


class Reading(Protocol):
    """What reads a table as it is now, whoever has written to it, and changes nothing.

    The options of a history are those that its versions were made with. Raises TableError where it cannot be read.
    """

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return so many rows at most, in the order of their keys, and how many there are."""
        ...

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows as Parquet files into an empty folder of this machine; return how many there are."""
        ...
