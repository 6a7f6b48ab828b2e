"""Sets of texts that Python and Spark SQL test alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.adapters.spark.sql.names import quoted, text


@dataclass(frozen=True, slots=True)
class TextSet:
    """A set of texts. A text is in it if one of these holds:

    - it is one of the `words`;
    - it has both characters of one of the `pairs`, in this order;
    - split at slashes, it has one of the `parts`, or a part that begins with one of the `beginnings`.
    """

    words: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()
    parts: Sequence[str] = ()
    beginnings: Sequence[str] = ()

    def has(self, value: str) -> bool:
        """Return whether a text is in the set."""
        if value in self.words or any(second in value.partition(first)[2] for first, second in self.pairs):
            return True
        return any(part in self.parts or part.startswith((*self.beginnings,)) for part in value.split("/"))

    def sql(self, column: str) -> str:
        """Return SQL for whether the text of a column is in the set; NULL where the column is NULL."""
        conditions, name = list[str](), quoted(column)
        if self.words:
            conditions.append(f"{name} IN ({', '.join(map(text, self.words))})")
        conditions += [f"{name} LIKE {text(f'%{first}%{second}%')}" for first, second in self.pairs]
        of_part = [f"part = {text(part)}" for part in self.parts]
        of_part += [f"startswith(part, {text(beginning)})" for beginning in self.beginnings]
        if of_part:
            conditions.append(f"exists(split({name}, '/', -1), part -> {' OR '.join(of_part)})")
        return f"({' OR '.join(conditions)})"
