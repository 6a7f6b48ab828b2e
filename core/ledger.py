"""What is known of the objects of a source, and which of them a batch takes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from lakeward.core.errors import AlarmRaised, SourceError


@dataclass(frozen=True, slots=True)
class SourceObject:
    """A file of a source table.

    `order` is its place among the table's objects, read from its name; `size` is in
    bytes, `modified` in microseconds since 1970.
    """

    name: str
    order: int
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may take: at least one object, whatever its size."""

    files: int = 1000
    bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Taken:
    """The objects of the next batch, in order, and what waits behind them.

    `others` are the names of files beside them that are none of the source's; `late` are
    those of the batch that lie before one that was applied already.
    """

    objects: tuple[SourceObject, ...] = ()
    files_left: int = 0
    bytes_left: int = 0
    others: tuple[str, ...] = ()
    late: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of the batch."""
        return sum(item.size for item in self.objects)


def take(
    table: str,
    listed: Iterable[SourceObject],
    seen: Mapping[str, SourceObject],
    limits: Limits,
    floor: int | None = None,
) -> Taken:
    """Choose the next objects: unseen ones, in order, within the limits.

    `floor` is the order at or below which nothing may appear any more. Raises AlarmRaised
    LEDGER-001 for an unseen object there, which is neither skipped nor applied, and
    LEDGER-002 for a seen object of another size.
    """
    ordered = sorted(listed, key=lambda item: (item.order, item.name))
    _refuse_equal_orders(table, ordered)
    _refuse_rewritten(table, ordered, seen)
    unseen = [item for item in ordered if item.name not in seen]
    _refuse_late(table, unseen, seen, floor)
    highest = max((item.order for item in seen.values()), default=None)
    chosen: list[SourceObject] = []
    size = 0
    for item in unseen[: limits.files]:
        size += item.size
        if chosen and size > limits.bytes:
            break
        chosen.append(item)
    left = unseen[len(chosen) :]
    late = tuple(item.name for item in chosen if highest is not None and item.order < highest)
    return Taken(tuple(chosen), len(left), sum(item.size for item in left), late=late)


def until_changed(taken: Taken, now: Mapping[str, SourceObject]) -> Taken:
    """Return the objects before the first that changed while it was read; the rest waits."""
    kept: list[SourceObject] = []
    for item in taken.objects:
        if now.get(item.name) != item:
            break
        kept.append(item)
    left = taken.objects[len(kept) :]
    files, size = taken.files_left + len(left), taken.bytes_left + sum(item.size for item in left)
    late = tuple(item.name for item in kept if item.name in taken.late)
    return Taken(tuple(kept), files, size, taken.others, late)


def _refuse_equal_orders(table: str, ordered: list[SourceObject]) -> None:
    for one, other in pairwise(ordered):
        if one.order == other.order:
            raise SourceError(
                f"{table}: the order of two files cannot be told from their names",
                found=f"found {one.name} and {other.name}",
                todo="Remove the one that does not belong there. Nothing of the table was applied.",
            )


def _refuse_rewritten(table: str, ordered: list[SourceObject], seen: Mapping[str, SourceObject]) -> None:
    for item in ordered:
        before = seen.get(item.name)
        if before is not None and before.size != item.size:
            raise AlarmRaised(
                "LEDGER-002",
                f"{table}: {item.name} was rewritten after it was applied",
                found=f"it had {before.size:,} bytes when it was applied and has {item.size:,} now",
                todo="Nothing was applied. If rows were added to it, put them into a file of their own, "
                "named as the next one, and put the old file back.",
            )


def _refuse_late(
    table: str, unseen: list[SourceObject], seen: Mapping[str, SourceObject], floor: int | None
) -> None:
    late = [item for item in unseen if floor is not None and item.order <= floor]
    if late:
        passed = [item for item in seen.values() if floor is not None and item.order <= floor]
        last = max(passed, key=lambda item: item.order).name if passed else "the last file"
        names = ", ".join(item.name for item in late[:3]) + (" …" if len(late) > 3 else "")
        raise AlarmRaised(
            "LEDGER-001",
            f"{table}: {len(late)} file(s) appeared below the mark",
            found=f"found {names}, which do not sort after {last}, and nothing may come before that any more",
            todo="Nothing was applied: with the `lateness` of the table they cannot be put in their place. "
            "If they hold nothing new, remove them; else load the table again.",
        )
