"""Rows that a joined table cannot show: those without a key, and the unknown row where a source row has its key.

Each commit notes them, and runs and `status` report them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.text.numbers import format_count


@dataclass(frozen=True, slots=True)
class OmittedRows:
    """The rows of the driving source that a joined table could not show at a commit.

    `keyless` is the number of rows with NULL in a key column, which equals nothing. With `unknown`, a source row
    has the key of the unknown row and is shown in its place.
    """

    keyless: int = 0
    unknown: bool = False

    def warnings(self, joined: JoinDeclaration) -> Sequence[str]:
        """Return warnings about the omitted rows, a text each."""
        texts, driving = [], joined.sources[joined.driving]
        if self.keyless:
            rows, columns = format_count(self.keyless, "row"), " or ".join(driving.on)
            texts.append(
                f"{rows} of {joined.driving} ({driving.table}) left out: NULL in {columns}, and NULL is no key. "
                "A rule of that table (`default`) gives what comes a value."
            )
        if self.unknown:
            texts.append(
                f"{joined.driving} ({driving.table}) has a row with the key of the unknown row, which is shown in "
                "its place: what points at nothing points there. Give the unknown row a key that none has "
                "(`unknown`)."
            )
        return texts
