"""The ledger in a DynamoDB table, which outlives the machines that run the pipeline.

All items of one table of a pipeline have one partition key, `ledger`: the pipeline and the table, as
`shop/shop.orders`. The sort key `item` is one of

- `head`: the account of the table, and the number of its newest note;
- `object/GENERATION/HASH`: an object, by the hash of its name, since a name may be longer than a key;
- `checked/GENERATION/HASH`: the time at which an applied object was found unchanged;
- `part/NOTE/WRITER/…`: a piece of a head that is longer than an item may be.

**A note takes effect by one conditional write.** A writer reads the head, computes the changes of its note, and
replaces the head on the condition that it is still the one that was read. If two write at once, one of them finds
another head and starts again from it. The new head has the account and all objects that the note changes, in parts
that are written first if they are many. Only then the items of the objects are written, and the head is replaced by
a settled one without the changes. A reader of an unsettled head applies its changes to the items; a writer writes
those items first. So a note of any size is visible as a whole or not at all, wherever its writer crashes. (A
transaction of DynamoDB would do that for 100 items.)

**No older note overwrites a newer one.** A process may sleep, and write the items of its note after others have
written newer notes. So each item has the number of its note, and is not replaced by an older one. A note that
rebuilds the ledger of a table begins a new generation, in which earlier items do not count. Writing the same twice
changes nothing.

**Reading** takes the head, then items, then the head again. If its number has changed, a note was written in
between, and everything is read again. Items are written after their head, so an unchanged number means that nothing
of a newer note was read.

**By state** objects are found by the local index `by_state`, whose key is `GENERATION/STATE`. A local index can be
read consistently, a global one cannot. With the state in the sort key, the item of an object would move with its
state, and a late writer could restore the moved one. The price: the ledger of one table has at most 10 GB, some 20
million objects. By name, objects are found by their key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, TypeVar
from uuid import uuid4

from lakeward.adapters.ledgers.dynamodb.head import Head, record_of_document, record_to_document
from lakeward.adapters.ledgers.dynamodb.partition import Item, Partition, pauses
from lakeward.core.errors import StoreUnreachable, TableError
from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState
from lakeward.core.ledger.writer import account_after, records_after

T = TypeVar("T")

_HEAD: Final = "head"
_VERSION: Final = 1
_PART: Final = 300_000
"""ASCII characters in an item, which may have 400 KB."""

_RECENT: Final = 20
"""How many earlier writers a head has. A writer whose response was lost finds itself among them: others write no
more notes than that while a request is repeated.
"""


@dataclass(frozen=True, slots=True)
class DynamoDbLedger:
    """The ledger of a `pipeline`; threads, and processes on any machine, may share it."""

    client: Any = field(repr=False)
    table: str
    pipeline: str
    pause: Callable[[float], None] = time.sleep

    def account(self, table: str) -> Account:
        """Return the account of a table, empty if there are no notes."""

        def read(partition: Partition, head: Head) -> Account:
            waiting = _objects(partition, head, (ObjectState.SEEN,), None)
            return replace(
                head.account,
                waiting={record.object.name: record.object for record in waiting},
                checked={**_checked(partition, head), **head.checked},
            )

        return self._read(table, read)

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Return the objects of a table in order; all are read before the first is returned."""
        wanted = None if names is None else frozenset(names)
        return iter(self._read(table, lambda partition, head: _objects(partition, head, states, wanted)))

    def write(self, table: str, notes: Notes) -> None:
        """Write notes, all or none; notes that are written again because a response was lost count once."""
        partition, by = self._partition(table), uuid4().hex
        for pause in pauses():
            head = _read_head(partition)
            if head is not None:
                _settle(partition, head)
                if head.by == by:
                    _sweep(partition, head)
                if by in (head.by, *head.recent):
                    return
                after = _after(partition, head, notes, by)
                if _replace_head(partition, head, after):
                    _settle(partition, after)
                    _sweep(partition, after)
                    return
            self.pause(pause)
        raise _overtaken(table)

    def _read(self, table: str, read: Callable[[Partition, Head], T]) -> T:
        """Return a result that was read while no note was written."""
        partition = self._partition(table)
        for pause in pauses():
            head = _read_head(partition)
            if head is not None:
                result = read(partition, head)
                if _number(partition.read(_HEAD)) == head.note:
                    return result
            self.pause(pause)
        raise _overtaken(table)

    def _partition(self, table: str) -> Partition:
        return Partition(self.client, self.table, f"{self.pipeline}/{table}", self.pause)


def _overtaken(table: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"the ledger of {table} is written by others all the time",
        todo="Run again. Do several pipelines of one name share a table of DynamoDB? Give each its own name.",
    )


# The head.


def _number(item: Item | None) -> int:
    return 0 if item is None else int(item["note"]["N"])


def _read_head(partition: Partition) -> Head | None:
    """Return the head; None if its parts were deleted meanwhile, since there is a newer head."""
    head_item = partition.read(_HEAD)
    if head_item is None:
        return Head()
    _check_version(partition, head_item)
    head = Head(note=_number(head_item), by=head_item["by"]["S"], generation=head_item["generation"]["S"])
    if "content" in head_item:
        return head.with_content(head_item["content"]["S"])
    names = _parts(head, head_item["stage"]["S"], int(head_item["parts"]["N"]))
    parts = {item["item"]["S"]: item["content"]["S"] for item in partition.read_each(names)}
    return head.with_content("".join(parts[name] for name in names)) if len(parts) == len(names) else None


def _check_version(partition: Partition, found: Item) -> None:
    version = int(found["version"]["N"])
    if version > _VERSION:
        raise TableError(
            f"the ledger {partition.name} in the DynamoDB table {partition.table} cannot be used",
            found=f"it is of version {version}, and this lakeward writes version {_VERSION}",
            todo="Run the lakeward that wrote it, or a newer one. Or delete the items of this ledger: the next run "
            "makes it anew. Only what it alone knew is lost (docs/reference/ledger.md).",
        )


def _replace_head(partition: Partition, found: Head, head: Head) -> bool:
    """Write a head in place of the found one; return False if another head is there."""
    content, stage = head.to_content(), "settled" if head.is_settled else "noted"
    known: Mapping[str, Any] = {
        "version": {"N": str(_VERSION)},
        "note": {"N": str(head.note)},
        "by": {"S": head.by},
        "generation": {"S": head.generation},
    }
    if len(content) <= _PART:
        known = {**known, "content": {"S": content}}
    else:
        pieces = [content[start : start + _PART] for start in range(0, len(content), _PART)]
        for name, piece in zip(_parts(head, stage, len(pieces)), pieces, strict=True):
            partition.write(name, {"content": {"S": piece}})
        known = {**known, "stage": {"S": stage}, "parts": {"N": str(len(pieces))}}
    expected = None if found.note == 0 else {"note": {"N": str(found.note)}, "by": {"S": found.by}}
    return partition.replace(_HEAD, known, expected)


def _parts(head: Head, stage: str, number: int) -> Sequence[str]:
    """Return the names of the parts of a head. They contain the writer, so a repeated write changes nothing."""
    return [f"part/{head.note:020d}/{head.by}/{stage}/{part:06d}" for part in range(number)]


def _after(partition: Partition, head: Head, notes: Notes, by: str) -> Head:
    """Return the head after a note, computed from a settled head."""
    named = {record.object.name for record in notes.records}
    named.update(name for names in notes.states.values() for name in names)
    found = () if notes.replaces_all else _objects(partition, head.settled(), (), named)
    known = {record.object.name: record for record in found}
    after = records_after(known, notes)
    return Head(
        note=head.note + 1,
        by=by,
        recent=(head.by, *head.recent)[:_RECENT],
        generation=_begun(head.note + 1, by) if notes.replaces_all or head.note == 0 else head.generation,
        account=replace(account_after(head.account, notes), checked={}),
        records=[record for name, record in after.items() if known.get(name) != record],
        checked=notes.checked,
    )


def _settle(partition: Partition, head: Head) -> None:
    """Write the items of a note that took effect, and replace its head by a settled one."""
    if head.is_settled:
        return
    objects = {_object(head, record.object.name): _object_item(head, record) for record in head.records}
    checked = {
        _place("checked", head, name): {"content": {"S": json.dumps([name, modified])}}
        for name, modified in head.checked.items()
    }
    partition.write_newer(head.note, {**objects, **checked})
    _replace_head(partition, head, head.settled())


def _sweep(partition: Partition, head: Head) -> None:
    """Delete obsolete items after a note that has parts or begins a generation.

    Parts of notes with the same or a lower number that did not take effect will never do so.
    """
    if len(head.to_content()) > _PART:
        partition.delete([*partition.names_between("part/", f"part/{head.note:020d}/")])
        noted = f"part/{head.note:020d}/{head.by}/noted"
        partition.delete([*partition.names_between(f"{noted}/", f"{noted}0")])
    if head.note > 1 and head.generation == _begun(head.note, head.by):
        for kind in ("checked", "object"):
            partition.delete([*partition.names_between(f"{kind}/", f"{kind}/{head.generation}/")])


# Objects.


def _begun(note: int, by: str) -> str:
    """Return the generation that a note begins; it is unique even if a person deletes items."""
    return f"{note:020d}-{by}"


def _place(kind: str, head: Head, name: str) -> str:
    return f"{kind}/{head.generation}/{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _object(head: Head, name: str) -> str:
    return _place("object", head, name)


def _state(head: Head, state: ObjectState) -> str:
    return f"{head.generation}/{state.value}"


def _object_item(head: Head, record: ObjectRecord) -> Item:
    content = json.dumps(record_to_document(record))
    return {"state": {"S": _state(head, record.state)}, "content": {"S": content}}


def _objects(
    partition: Partition, head: Head, states: Sequence[ObjectState], names: Collection[str] | None
) -> Sequence[ObjectRecord]:
    """Return objects in order: as the head has them, if it changes them, else as their items."""
    read = (record_of_document(json.loads(item["content"]["S"])) for item in _items(partition, head, states, names))
    stored = {record.object.name: record for record in read}
    changed = {one.object.name: one for one in head.records if names is None or one.object.name in names}
    selected = [record for record in {**stored, **changed}.values() if not states or record.state in states]
    return sorted(selected, key=lambda record: (record.object.order, record.object.name))


def _items(
    partition: Partition, head: Head, states: Sequence[ObjectState], names: Collection[str] | None
) -> Iterator[Item]:
    """Yield the items of objects that may be needed, and read as few others as possible."""
    if names is not None:
        yield from partition.read_each([_object(head, name) for name in names])
    elif states:
        for state in states:
            yield from partition.read_state(_state(head, state))
    else:
        yield from partition.read_all(f"object/{head.generation}/")


def _checked(partition: Partition, head: Head) -> Mapping[str, int]:
    items = partition.read_all(f"checked/{head.generation}/")
    return dict(json.loads(item["content"]["S"]) for item in items)
