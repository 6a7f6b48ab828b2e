"""Messages of other tables among the objects of a table: how many, and which tables they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_NAMES: Final = 10
"""The number of names that are stored: they are part of each commit, which must stay small."""

_MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class OtherTables:
    """The number of messages that name another table, and the most frequent names among them.

    `names` are pairs of a name and its number of messages, the most frequent first, at most `MOST_NAMES`. With
    `is_shared` several tables read the same objects, so such messages are expected.
    """

    messages: int
    names: tuple[tuple[str, int], ...]
    is_shared: bool = False

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> OtherTables:
        """Return the value from its JSON form in a commit."""
        names = tuple((str(name), int(number)) for name, number in written["names"])
        return cls(int(written["messages"]), names, bool(written["is_shared"]))

    def __add__(self, other: OtherTables) -> OtherTables:
        """Return the sum of both; `is_shared` is that of the later one, `other`."""
        counts = Counter(dict(self.names)) + Counter(dict(other.names))
        names = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMES]
        return OtherTables(self.messages + other.messages, tuple(names), other.is_shared)

    def __str__(self) -> str:
        """Return the names with their numbers of messages.

        >>> str(OtherTables(12, (("shop.item", 10), ("shop.order", 2))))
        'shop.item (10), shop.order (2)'
        """
        first_names = self.names[:_MOST_SHOWN]
        more = " …" if sum(number for _, number in first_names) < self.messages else ""
        return ", ".join(f"{name} ({number:,})" for name, number in first_names) + more


def add_others(before: OtherTables | None, new: OtherTables | None) -> OtherTables | None:
    """Return the sum of the messages of other tables of two batches, or None where neither has any."""
    return before + new if before is not None and new is not None else new or before


def words_of(others: OtherTables | None, table: str, *, has_rows: bool) -> list[str]:
    """Return what to tell people about messages of other tables.

    `has_rows` says whether the files have rows of the table. Where several tables read the same objects, nothing is
    said as long as there are rows.

    >>> words_of(OtherTables(1, (("shop.item", 1),)), "shop.order", has_rows=True)
    ['1 message of another table was skipped: shop.item (1)']
    """
    if others is None:
        return []
    if not has_rows:
        return [f"Its files have no message of {table}. They have messages of {others}: is `{table}` misspelt?"]
    if others.is_shared:
        return []
    if others.messages == 1:
        return [f"1 message of another table was skipped: {others}"]
    return [f"{others.messages:,} messages of other tables were skipped: {others}"]
