"""The ledger in a DynamoDB table, which outlives the machines that run the pipeline.

All items of one table of a pipeline have one partition key, `ledger`: the pipeline and the table, as
`shop/shop.orders`. The sort key `item` is one of

- `head`: the account of the table, and the number of its newest note;
- `object/GENERATION/HASH`: an object, by the hash of its name, since a name may be longer than a key;
- `checked/GENERATION/HASH`: the time at which an applied object was found unchanged;
- `part/NOTE/WRITER/…`: a piece of a head that is longer than an item may be.

**A note takes effect by one conditional write.** A writer reads the head, computes the changes of its note, and
replaces the head on the condition that it is still the one that was read. If two write at once, one of them finds
another head and starts again from it. The new head has the account and all objects that the note changes; a long
head is written in parts, before the head itself. Only then the items of the objects are written, and the head is
replaced by a settled one without the changes. A reader of an unsettled head applies its changes to the items; a
writer writes those items first. So a note of any size is visible as a whole or not at all, wherever its writer
crashes. (A transaction of DynamoDB can do that only for 100 items.)

**No older note overwrites a newer one.** A process may sleep, and write the items of its note after others have
written newer notes. So each item has the number of its note, and is not replaced by an older one. A note that
rebuilds the ledger of a table begins a new generation, in which earlier items do not count. A repeated write
changes nothing.

**Reading** takes the head, then items, then the head again. If its number has changed, a note was written in
between, and everything is read again. Items are written after their head, so an unchanged number means that nothing
of a newer note was read.

**Objects of a state** are found by the local index `by_state`, whose key is `GENERATION/STATE`; objects of a name
are found by their sort key. A local index can be read consistently, a global one cannot. A sort key with the
state would change with it, and a late writer could create the item of an earlier state again. With a local index
DynamoDB limits the ledger of one table to 10 GB, some 20 million objects.
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
"""The largest number of ASCII characters in an item, which DynamoDB limits to 400 KB."""

_RECENT: Final = 20
"""The number of earlier writers in a head. A writer whose response was lost finds itself among them, since others
write fewer notes while a request is repeated.
"""


@dataclass(frozen=True, slots=True)
class DynamoDbLedger:
    """The ledger of a `pipeline` in the DynamoDB table `table`; threads and machines may share it.

    `client` is one of boto3; `pause` waits for a number of seconds. All methods raise StoreUnreachable if DynamoDB
    does not answer, ConfigError if it refuses, and TableError for a ledger of a newer version.
    """

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
        selected = None if names is None else frozenset(names)
        return iter(self._read(table, lambda partition, head: _objects(partition, head, states, selected)))

    def write(self, table: str, notes: Notes) -> None:
        """Write notes, all or none. Notes whose write is repeated because a response was lost count once."""
        partition, by = self._partition(table), uuid4().hex
        for pause in pauses():
            head = _read_head(partition)
            if head is not None:
                _settle(partition, head)
                if head.by == by:
                    _delete_obsolete(partition, head)
                if by in (head.by, *head.recent):
                    return
                next_head = _apply_notes(partition, head, notes, by)
                if _replace_head(partition, head, next_head):
                    _settle(partition, next_head)
                    _delete_obsolete(partition, next_head)
                    return
            self.pause(pause)
        raise _contention_error(table)

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
        raise _contention_error(table)

    def _partition(self, table: str) -> Partition:
        return Partition(self.client, self.table, f"{self.pipeline}/{table}", self.pause)


def _contention_error(table: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"the ledger of {table} is written by others all the time",
        todo="Run again. If several pipelines of one name share a table of DynamoDB, give each its own name.",
    )


# The head.


def _number(item: Item | None) -> int:
    return 0 if item is None else int(item["note"]["N"])


def _read_head(partition: Partition) -> Head | None:
    """Return the head; None if its parts were deleted meanwhile, because there is a newer head."""
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


def _check_version(partition: Partition, head_item: Item) -> None:
    version = int(head_item["version"]["N"])
    if version > _VERSION:
        raise TableError(
            f"the ledger {partition.name} in the DynamoDB table {partition.table} cannot be used",
            found=f"it is of version {version}, and this lakeward writes version {_VERSION}",
            todo="Run the lakeward that wrote it, or a newer one. Or delete the items of this ledger: the next run "
            "creates it again. Only facts that are stored nowhere else are lost (docs/reference/ledger.md).",
        )


def _replace_head(partition: Partition, current: Head, head: Head) -> bool:
    """Replace the current head by another one; return False if the stored head is not the current one."""
    content, stage = head.to_content(), "settled" if head.is_settled else "noted"
    attributes: Mapping[str, Any] = {
        "version": {"N": str(_VERSION)},
        "note": {"N": str(head.note)},
        "by": {"S": head.by},
        "generation": {"S": head.generation},
    }
    if len(content) <= _PART:
        attributes = {**attributes, "content": {"S": content}}
    else:
        pieces = [content[start : start + _PART] for start in range(0, len(content), _PART)]
        for name, piece in zip(_parts(head, stage, len(pieces)), pieces, strict=True):
            partition.write(name, {"content": {"S": piece}})
        attributes = {**attributes, "stage": {"S": stage}, "parts": {"N": str(len(pieces))}}
    expected = None if current.note == 0 else {"note": {"N": str(current.note)}, "by": {"S": current.by}}
    return partition.replace(_HEAD, attributes, expected)


def _parts(head: Head, stage: str, number: int) -> Sequence[str]:
    """Return the names of the parts of a head. They contain the writer, so a repeated write changes nothing."""
    return [f"part/{head.note:020d}/{head.by}/{stage}/{part:06d}" for part in range(number)]


def _apply_notes(partition: Partition, head: Head, notes: Notes, by: str) -> Head:
    """Return the head after the notes of the writer `by`. All changes of `head` must be in their items."""
    names = {record.object.name for record in notes.records}
    names.update(name for changed in notes.states.values() for name in changed)
    records = () if notes.replaces_all else _objects(partition, head.settle(), (), names)
    stored = {record.object.name: record for record in records}
    after = records_after(stored, notes)
    return Head(
        note=head.note + 1,
        by=by,
        recent=(head.by, *head.recent)[:_RECENT],
        generation=_new_generation(head.note + 1, by) if notes.replaces_all or head.note == 0 else head.generation,
        account=replace(account_after(head.account, notes), checked={}),
        records=[record for name, record in after.items() if stored.get(name) != record],
        checked=notes.checked,
    )


def _settle(partition: Partition, head: Head) -> None:
    """Write the object changes of a head into their items, and replace the head by a settled one."""
    if head.is_settled:
        return
    objects = {_object_name(head, record.object.name): _object_item(head, record) for record in head.records}
    checked = {
        _item_name("checked", head, name): {"content": {"S": json.dumps([name, modified])}}
        for name, modified in head.checked.items()
    }
    partition.write_newer(head.note, {**objects, **checked})
    _replace_head(partition, head, head.settle())


def _delete_obsolete(partition: Partition, head: Head) -> None:
    """Delete obsolete items after a note that has parts or begins a generation.

    The parts of earlier notes are obsolete, and those of the unsettled head of this note.
    """
    if len(head.to_content()) > _PART:
        partition.delete([*partition.names_between("part/", f"part/{head.note:020d}/")])
        unsettled = f"part/{head.note:020d}/{head.by}/noted"
        partition.delete([*partition.names_between(f"{unsettled}/", f"{unsettled}0")])  # in ASCII, 0 follows /
    if head.note > 1 and head.generation == _new_generation(head.note, head.by):
        for kind in ("checked", "object"):
            partition.delete([*partition.names_between(f"{kind}/", f"{kind}/{head.generation}/")])


# Objects.


def _new_generation(note: int, by: str) -> str:
    """Return the generation that a note begins; it is unique even if a person deletes items."""
    return f"{note:020d}-{by}"


def _item_name(kind: str, head: Head, name: str) -> str:
    return f"{kind}/{head.generation}/{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _object_name(head: Head, name: str) -> str:
    return _item_name("object", head, name)


def _state_value(head: Head, state: ObjectState) -> str:
    return f"{head.generation}/{state.value}"


def _object_item(head: Head, record: ObjectRecord) -> Item:
    content = json.dumps(record_to_document(record))
    return {"state": {"S": _state_value(head, record.state)}, "content": {"S": content}}


def _objects(
    partition: Partition, head: Head, states: Sequence[ObjectState], names: Collection[str] | None
) -> Sequence[ObjectRecord]:
    """Return objects in order: a change in the head overrides the item of its object."""
    items = _items(partition, head, states, names)
    records = (record_of_document(json.loads(item["content"]["S"])) for item in items)
    stored = {record.object.name: record for record in records}
    changed = {
        record.object.name: record for record in head.records if names is None or record.object.name in names
    }
    selected = [record for record in {**stored, **changed}.values() if not states or record.state in states]
    return sorted(selected, key=lambda record: (record.object.order, record.object.name))


def _items(
    partition: Partition, head: Head, states: Sequence[ObjectState], names: Collection[str] | None
) -> Iterator[Item]:
    """Yield the items of the objects with these names, or in these states; all if neither is given."""
    if names is not None:
        yield from partition.read_each([_object_name(head, name) for name in names])
    elif states:
        for state in states:
            yield from partition.read_state(_state_value(head, state))
    else:
        yield from partition.read_all(f"object/{head.generation}/")


def _checked(partition: Partition, head: Head) -> Mapping[str, int]:
    """Return the times of checks in the items, by object name."""
    items = partition.read_all(f"checked/{head.generation}/")
    return dict(json.loads(item["content"]["S"]) for item in items)
