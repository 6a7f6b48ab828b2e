"""Checks of a listing for signs of loss: until a person decides, nothing of the table is applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lakeward.core.errors import AlarmRaised, SourceError
from lakeward.core.ledger.full_loads import newest_snapshot, older_objects, places_of_snapshots
from lakeward.core.text.numbers import format_count

if TYPE_CHECKING:
    from lakeward.core.ledger.full_loads import Naming, Numbering
    from lakeward.core.ledger.objects import SourceObject
    from lakeward.core.ledger.selection import ObjectHistory


def refuse_equal_orders(table: str, ordered: Sequence[SourceObject]) -> None:
    """Raise SourceError where two objects have the same order."""
    for item, following in pairwise(ordered):
        if item.order == following.order:
            raise SourceError(
                f"{table}: the order of two files cannot be told from their names",
                found=f"found {item.name} and {following.name}",
                todo="Remove the one that does not belong there; files of two topics or tasks need a folder each. "
                "Nothing of this batch was applied.",
            )


def refuse_other_places(table: str, ordered: Iterable[SourceObject], history: ObjectHistory) -> None:
    """Raise SourceError where an applied object has another order now, or a new one has an applied one's.

    The order is part of the position of each row: rows would count as older, as newer, or as duplicates of others.
    """
    names = {item.order: item.name for item in history.applied.values()}
    for item in ordered:
        before = history.applied.get(item.name)
        if before is not None and before.order != item.order:
            found = f"{item.name} was applied at the place {before.order}, and is at {item.order} now"
        elif before is None and item.order in names and item.version not in history.earlier_versions:
            found = f"{item.name} is at the place at which {names[item.order]} was applied"
        else:
            continue
        raise SourceError(
            f"{table}: the order of its files is not the one in which files were applied",
            found=found,
            todo="Nothing of this batch was applied. Were `names` or `source_zone` changed? Put them back, or drop "
            "the table and its side tables, and load it anew (docs/how-to/reload.md#dropping-a-table). Else "
            "remove the file, or give it a name of its own.",
        )


def refuse_equal_snapshots(table: str, objects: Iterable[SourceObject], naming: Naming) -> None:
    """Raise SourceError where two snapshots with names of their own have the same place."""
    places = sorted(places_of_snapshots(objects, naming).items(), key=lambda pair: pair[1])
    for (name, place), (other_name, other_place) in pairwise(places):
        if place == other_place:
            raise SourceError(
                f"{table}: the order of two snapshots cannot be told from their names",
                found=f"found {name} and {other_name}, which tell the same time or number",
                todo="Nothing was applied. Remove the one that does not belong there, or let `names` tell them "
                "apart.",
            )


def refuse_late(table: str, unseen: Sequence[SourceObject], history: ObjectHistory, naming: Naming) -> None:
    """Raise LEDGER-001 for unseen objects where none may appear: at or below the watermark, or in a complete load.

    The watermark is an order of objects (`floor` of the history). In a partition of a topic it is the last applied
    object of that partition that lies at or below it.
    """
    is_load_applied = bool(history.earlier_versions and history.applied)
    late_names = _below_floor(unseen, history, naming)
    late = [item for item in unseen if item.name in late_names or (is_load_applied and naming.is_load(item.name))]
    if not late:
        return
    last = next(iter(late_names.values()), "")
    below = f"; nothing may come before {last} any more"
    of_load = " of the full load, which was complete when it was applied"
    names = [item.name for item in late]
    raise AlarmRaised(
        "LEDGER-001",
        f"{table}: {format_count(len(late), 'file')} appeared below the low watermark",
        found=f"found {_some(names)}{below if late_names else of_load}",
        todo="Nothing was applied: with the `lateness` of the table they cannot be put in their place. "
        "If they hold nothing new, remove them, or leave them out for good: "
        f"`lakeward ack {table} LEDGER-001`. Else load the table anew: `lakeward reload {table}` where it has full "
        "loads; where its files are changes alone, as docs/reference/alarms.md says.",
        about=names,
    )


def _below_floor(unseen: Iterable[SourceObject], history: ObjectHistory, naming: Naming) -> Mapping[str, str]:
    """Return the names of objects at or below the watermark, each with the applied object that it is late for."""
    floor = history.object_watermark
    below = [] if floor is None else [item for item in unseen if item.order <= floor]
    applied = (
        [item for item in history.applied.values() if floor is not None and item.order <= floor] if below else []
    )
    last: dict[int | None, SourceObject] = {}
    for item in sorted(applied, key=lambda item: item.order):
        last[naming.partition_end(item.name)] = item
    late = {}
    for item in below:
        end = naming.partition_end(item.name)
        if end is None or (end in last and item.order <= last[end].order):
            late[item.name] = last[end].name if end in last else "the last file"
    return late


def refuse_changes(table: str, changes: Sequence[SourceObject]) -> None:
    """Raise SourceError for changes of a table whose full loads are snapshots: they have no common order."""
    if changes:
        raise SourceError(
            f"{table}: there are files of changes, and its full loads are snapshots",
            found=f"found {_some([item.name for item in changes])}",
            todo='Nothing was applied. Take `full_loads = "snapshot"` out of the settings of the table where a '
            "task captures changes, or move these files away.",
        )


def refuse_older_snapshot(
    table: str, objects: Sequence[SourceObject], history: ObjectHistory, naming: Naming
) -> None:
    """Raise LEDGER-001 for a snapshot that is older than the one that the table shows."""
    newest, about = (
        newest_snapshot(history, naming),
        [item.name for item in older_objects(objects, history, naming)],
    )
    if newest is not None and about:
        is_before = min(item.order for item in objects) < newest.order
        why = "sorts before" if is_before else "was written anew or touched since it was applied before"
        raise AlarmRaised(
            "LEDGER-001",
            f"{table}: a snapshot came that is older than what the table shows",
            found=f"found {_some(about)}, which {why} {newest.name}",
            todo="Nothing was applied: it would set the table back. Move it away, give it a name behind the "
            "others if it is newer than they are, or leave it out for good: "
            f'`lakeward ack {table} LEDGER-001`. All such are left out with `older_snapshots = "skip"`; a history '
            "of files whose names tell their time takes them at their place (docs/reference/plain-files.md).",
            about=about,
        )


def refuse_rewritten(table: str, ordered: Iterable[SourceObject], history: ObjectHistory) -> None:
    """Raise LEDGER-002 for applied objects whose size or content has changed."""
    acknowledged = history.acknowledged_names("LEDGER-002")
    changed = [
        (before, item)
        for item in ordered
        if (before := history.applied.get(item.name)) is not None
        and _is_rewritten(before, item)
        and item.version not in acknowledged
    ]
    if changed:
        before, item = changed[0]
        more = format_count(len(changed) - 1, "other file was", "other files were")
        others = f"; {more} rewritten, too" if len(changed) > 1 else ""
        is_size = before.size != item.size
        raise AlarmRaised(
            "LEDGER-002",
            f"{table}: {item.name} was rewritten after it was applied",
            found=(
                f"it had {before.size:,} bytes when it was applied and has {item.size:,} now"
                if is_size
                else f"it has {item.size:,} bytes as before, and another content"
            )
            + others,
            todo="Nothing was applied. If rows were added to it, put them into a file of their own, "
            "named as the next one, and put the old file back. If what it holds now does not matter: "
            f"`lakeward ack {table} LEDGER-002`.",
            about=[item.version for _, item in changed],
        )


def _is_rewritten(before: SourceObject, now: SourceObject) -> bool:
    """Return True if size or etag differ."""
    is_other = before.etag is not None and now.etag is not None and before.etag != now.etag
    return before.size != now.size or is_other


def refuse_gone(table: str, names: Collection[str], history: ObjectHistory) -> None:
    """Raise LEDGER-003 for objects that were seen and are gone before they were applied."""
    acknowledged = history.acknowledged_names("LEDGER-003")
    lowest = None if history.start is None else history.object_watermark
    missing = [
        item.name
        for item in sorted(history.waiting.values(), key=lambda item: item.order)
        if item.name not in names
        and item.name not in history.applied
        and item.name not in acknowledged
        and (lowest is None or item.order > lowest)
        and (history.start is None or item.name >= history.start)
    ]
    if missing:
        raise AlarmRaised(
            "LEDGER-003",
            f"{table}: {format_count(len(missing), 'file is gone that was', 'files are gone that were')} not "
            "applied yet",
            found=f"an earlier run saw {_some(missing)}",
            todo="Nothing was applied. Put them back, from an archive, say, and run again. Where they are lost, "
            "load the table anew: "
            f"`lakeward reload {table}` where it has full loads; where its files are changes alone, as "
            f"docs/reference/alarms.md says. If what they held does not matter: `lakeward ack {table} LEDGER-003`.",
            about=missing,
        )


def refuse_gap(table: str, unseen: Iterable[SourceObject], history: ObjectHistory, numbering: Numbering) -> None:
    """Raise LEDGER-004 where numbers of a full load are missing before an object that would be applied next."""
    numbered = [(place, item.name) for item in unseen if (place := numbering(item.name)) is not None]
    if not numbered:
        return
    numbers: dict[str, set[int]] = defaultdict(set)
    for series, number in [place for place, _ in numbered] + [
        p for n in history.applied if (p := numbering(n)) is not None
    ]:
        numbers[series].add(number)
    acknowledged = [
        place for name in history.acknowledged_names("LEDGER-004") if (place := numbering(name)) is not None
    ]
    gaps = []
    for (series, number), name in sorted(numbered):
        if number == 1 or number - 1 in numbers[series]:
            continue
        lowest = max((highest for of, highest in acknowledged if of == series), default=0)
        below = max((other for other in numbers[series] if other < number), default=0)
        if number - 1 > max(below, lowest):
            gaps.append((name, number - 1 - max(below, lowest)))
    if gaps:
        name, missing = gaps[0]
        raise AlarmRaised(
            "LEDGER-004",
            f"{table}: the numbers of its full load have a gap",
            found=f"{format_count(missing, 'file')} before {name} {'is' if missing == 1 else 'are'} missing"
            + (f", and {format_count(len(gaps) - 1, 'more gap')} behind it" if len(gaps) > 1 else ""),
            todo="Nothing was applied. If they are still being copied, run again when they are there. If they are "
            f"lost, start the full load again; if there never were any: `lakeward ack {table} LEDGER-004`.",
            about=[name for name, _ in gaps],
        )


def refuse_emptied(table: str, names: Collection[str], history: ObjectHistory) -> None:
    """Raise LEDGER-005 where none of the applied objects is there any more."""
    if (
        not history.applied
        or history.last_applied is None
        or history.last_applied in history.acknowledged_names("LEDGER-005")
    ):
        return
    if not any(name in history.applied for name in names):
        new = f"its folder has {format_count(len(names), 'new file')}" if names else "its folder is empty"
        raise AlarmRaised(
            "LEDGER-005",
            f"{table}: none of its files is there any more, but "
            f"{format_count(len(history.applied), 'was', 'were')} applied",
            found=f"{new}; the last that was applied is {history.last_applied}. A TRUNCATE at the source makes DMS "
            "delete the files of the table; so does a rule that cleans the folder up",
            todo="Nothing was changed: no file is never read as no rows. If the table was truncated: "
            f"`lakeward truncate {table} --at now`. If it is written anew: `lakeward reload {table}` where it has "
            "full loads; where its files are changes alone, as docs/reference/alarms.md says. "
            f"If the files were moved away on purpose: `lakeward ack {table} LEDGER-005`.",
            about=[history.last_applied],
        )


def refuse_missed(
    table: str, unseen: Iterable[SourceObject], archived: str | None, history: ObjectHistory, naming: Naming
) -> None:
    """Raise LEDGER-006 where a new table has unapplied objects in the archive; a full load needs none."""
    if (
        archived is None
        or archived in history.acknowledged_names("LEDGER-006")
        or any(naming.is_load(i.name) for i in unseen)
    ):
        return
    raise AlarmRaised(
        "LEDGER-006",
        f"{table}: it begins, and the archive has files of it that it never applied",
        found=f"the first is {archived}",
        todo="Nothing was applied. Put the files back into the landing folder, and run again; another table that "
        "has applied them passes over them. Or let the source write a full load. If the table may begin without "
        f"them: `lakeward ack {table} LEDGER-006`.",
        about=[archived],
    )


def _some(names: Sequence[str]) -> str:
    """Return up to three names in one line."""
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
