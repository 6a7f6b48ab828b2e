"""Objects of equal content: where no number tells a change from its copy, only a person can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakeward.core.ledger import SourceObject
    from lakeward.core.plan import MergePlan


class Twin(NamedTuple):
    """An object, and one before it that has the same content."""

    object: str
    of: str


def first_twin(plan: MergePlan, seen: Iterable[SourceObject]) -> Twin | None:
    """Return the first object of a batch whose content another has, of the batch or of those seen, or None.

    Where sequences are unique, copies are told one by one; files of one full load of a table
    with a key are so, too, by the key.
    """
    if plan.dimension.unique_sequences or plan.releases:
        return None
    known = {content: item.name for item in seen if (content := _content(item)) is not None}
    for found in plan.facts.objects:
        item, content = found.object, _content(found.object)
        if content is None or not found.rows or (found.is_load and plan.dimension.key):
            continue
        if known.setdefault(content, item.name) != item.name:
            return Twin(item.name, known[content])
    return None


def _content(item: SourceObject) -> tuple[int, str] | None:
    return None if item.etag is None or not item.size else (item.size, item.etag)
