"""Listings of a table, and the selection of its next objects."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, select_objects

select: Final = partial(select_objects, "shop.orders")
"""Select the next objects of a listing."""


def file(order: int, name: str = "", *, size: int = 10, modified: int = 0, etag: str | None = None) -> SourceObject:
    """Return a listed object."""
    return SourceObject(name or f"file{order}", order, size, modified, etag)


def by_name(*objects: SourceObject) -> dict[str, SourceObject]:
    """Return objects by their names."""
    return {item.name: item for item in objects}


def applied(*objects: SourceObject, **rest: Any) -> ObjectHistory:
    return ObjectHistory(applied=by_name(*objects), last_applied=objects[-1].name if objects else None, **rest)


def alarm_of(listed: list[SourceObject], history: ObjectHistory = ObjectHistory(), **rest: Any) -> AlarmRaised:  # noqa: B008
    """Return the alarm that a listing raises, which must say what to do."""
    with pytest.raises(AlarmRaised) as caught:
        select(listed, history, **rest)
    assert caught.value.todo
    assert caught.value.about
    return caught.value
