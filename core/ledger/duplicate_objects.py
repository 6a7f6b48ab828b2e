"""Objects of equal content: where no key tells a row from its copy, only a person can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakeward.core.ledger.objects import SourceObject
    from lakeward.core.plan import MergePlan


class DuplicateObject(NamedTuple):
    """An object, and one before it that has the same content."""

    object: str
    of: str


def first_twin(plan: MergePlan, seen: Iterable[SourceObject]) -> DuplicateObject | None:
    """Return the first object of a batch whose content another has, of the batch or of those seen, or None.

    Of a table with a key none is told: a source that does the same thing twice writes the same
    again. Without one, each copy is rows of its own.
    """
    if plan.dimension.key or plan.releases:
        return None
    known = {content: item.name for item in seen if (content := _content(item)) is not None}
    for found in plan.facts.objects:
        item, content = found.object, _content(found.object)
        if content is None or not found.rows:
            continue
        if known.setdefault(content, item.name) != item.name:
            return DuplicateObject(item.name, known[content])
    return None


def _content(item: SourceObject) -> tuple[int, str] | None:
    return None if item.etag is None or not item.size else (item.size, item.etag)
