"""What a joined table cannot show: rows without a key, and the unknown row where another one has its key.

Nothing is left out without a word: each commit notes it, and runs and `status` say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.core.events import key_of
from lakeward.core.joined.declared import Joined
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.rows import Tables
from lakeward.core.text.numbers import format_count


@dataclass(frozen=True, slots=True)
class Unshown:
    """What a joined table cannot show of the rows that its driving source has at the commit that was read.

    So many are `keyless`: a column that they are told apart by is NULL, which equals nothing. With `unknown`, one
    of them has the key of the row that stands for whatever has none, and is shown in its place.
    """

    keyless: int = 0
    unknown: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Unshown:
        """Return what was written by name; what an earlier version did not write is nothing."""
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})

    def words(self, joined: Joined) -> Sequence[str]:
        """Return what to know of it, a sentence each."""
        found, driving = [], joined.sources[joined.driving]
        if self.keyless:
            rows = format_count(self.keyless, "row")
            columns = " or ".join(driving.on)
            found.append(
                f"{rows} of {joined.driving} ({driving.table}) left out: NULL in {columns}, and NULL is no key. "
                "A rule of that table (`default`) gives what comes a value."
            )
        if self.unknown:
            found.append(
                f"{joined.driving} ({driving.table}) has a row with the key of the unknown row, which is shown in "
                "its place: what points at nothing points there. Give the unknown row a key that none has "
                "(`unknown`)."
            )
        return found


def unshown(joining: Joining, tables: Tables) -> Unshown:
    """Return what a joined table cannot show of the rows, or versions, of its driving source."""
    driving = joining.joined.driving
    keys = [
        key_of(known.cells, joining.found_by(driving)) for of_key in tables[driving].values() for known in of_key
    ]
    unknown = joining.unknown
    return Unshown(keys.count(None), unknown is not None and unknown[0] in keys)
