"""Find objects of equal content: in a table without a key only a person can tell a copy from new rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakeward.core.ledger.objects import SourceObject
    from lakeward.core.plan import MergePlan


class DuplicateObject(NamedTuple):
    """An object, and an earlier one of the same content."""

    object: str
    of: str


def find_duplicate_object(plan: MergePlan, earlier: Iterable[SourceObject]) -> DuplicateObject | None:
    """Return the first object of a batch that has the content of another object, or None.

    It is compared with the objects of the batch and those seen before, by size and etag. Tables with a key are not
    checked: repeating an upsert is harmless. Without a key each copy adds rows. An object without an etag, or
    without rows, is not compared.
    """
    if plan.dimension.key or plan.releases:
        return None
    names = {content: item.name for item in earlier if (content := _content(item)) is not None}
    for facts in plan.facts.objects:
        item, content = facts.object, _content(facts.object)
        if content is None or not facts.rows:
            continue
        if names.setdefault(content, item.name) != item.name:
            return DuplicateObject(item.name, names[content])
    return None


def _content(item: SourceObject) -> tuple[int, str] | None:
    return None if item.etag is None or not item.size else (item.size, item.etag)
