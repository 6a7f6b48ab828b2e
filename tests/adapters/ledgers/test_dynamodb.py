"""The ledger in DynamoDB: its laws, crashes and other writers at every request, and the requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from fake_dynamodb import FakeDynamoDb
from ledger_tables import LedgerTable

from lakeward.adapters.ledgers.dynamodb import ledger as module
from lakeward.adapters.ledgers.dynamodb.head import Head
from lakeward.adapters.ledgers.dynamodb.ledger import DynamoDbLedger
from lakeward.adapters.memory import MemoryLedger
from lakeward.core.errors import ConfigError, StoreUnreachable, TableError
from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ports import Ledger
from lakeward.plugins.testing import ledger_contract


class Fake:
    """Ledgers in a table that is a dictionary."""

    def __init__(self) -> None:
        self.client = FakeDynamoDb()

    def ledger(self, client: Any = None, pipeline: str = "shop") -> DynamoDbLedger:
        return DynamoDbLedger(self.client if client is None else client, "ledgers", pipeline, no_pause)


@pytest.fixture
def fake() -> Fake:
    return Fake()


TestDynamoDb = ledger_contract(lambda ledger_table: ledger_table.ledger)
TestFake = ledger_contract(lambda fake: fake.ledger)

TABLE = "shop.orders"
APPLIED, SEEN, VANISHED = ObjectState.APPLIED, ObjectState.SEEN, ObjectState.VANISHED


def record(order: int, state: ObjectState = SEEN, **rest: Any) -> ObjectRecord:
    return ObjectRecord(object=SourceObject(rest.pop("name", f"f{order}"), order, 10, 5), state=state, **rest)


FIRST = Notes(records=[record(n, first_seen=1) for n in range(1, 6)], batch=1, listed=1)
MANY = Notes(
    records=[record(n, APPLIED, batch=2) for n in range(1, 111)],
    states={VANISHED: ["f2", "f200"]},
    checked={"f3": 3, "f4": 4},
    batch=2,
    alarms=(),
)
"""More objects than one transaction of DynamoDB can write."""
OTHER = Notes(records=[record(3, APPLIED, batch=3), record(300)], states={VANISHED: ["f4"]}, listed=9, batch=3)
ANEW = Notes(replaces_all=True, records=[record(n, APPLIED, batch=1) for n in (1, 7)], checked={"f7": 1}, batch=1)


def known(ledger: Ledger) -> tuple[Account, Sequence[ObjectRecord]]:
    return ledger.account(TABLE), list(ledger.objects(TABLE))


def after(*notes: Notes) -> tuple[Account, Sequence[ObjectRecord]]:
    """Return the content of a ledger after these notes in order."""
    model = MemoryLedger()
    for one in notes:
        model.write(TABLE, one)
    return known(model)


class Meddled:
    """A client that calls a function before its n-th request."""

    def __init__(self, client: Any, number: int, does: Callable[[], object]) -> None:
        self.client, self.number, self.does, self.asked = client, number, does, 0

    @property
    def was_met(self) -> bool:
        return self.asked >= self.number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if name in ("meta", "close"):
            return found

        def ask(**request: Any) -> Any:
            self.asked += 1
            if self.asked == self.number:
                self.does()
            return found(**request)

        return ask


def crash() -> None:
    raise EndpointConnectionError(endpoint_url="https://dynamodb")


def no_pause(_seconds: float) -> None:
    """Do not wait."""


@pytest.fixture(params=[300_000, 4_000], ids=["in one item", "in parts"])
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with heads in one item, and with heads in several."""
    monkeypatch.setattr(module, "_PART", request.param)


def pipelines(fake: Fake) -> Iterator[tuple[int, str]]:
    """Yield the number of a request, and a pipeline with a first note, for one request after the other."""
    for number in count(1):
        name = f"shop-{number}"
        fake.ledger(pipeline=name).write(TABLE, FIRST)
        yield number, name


# A note is visible as a whole or not at all.


@pytest.mark.usefixtures("part")
def test_a_long_note_is_visible_as_a_whole_or_not_at_all_wherever_its_writer_crashes(fake: Fake) -> None:
    seen = []
    for number, name in pipelines(fake):
        client = Meddled(fake.client, number, crash)
        another = fake.ledger(pipeline=name)
        try:
            fake.ledger(client, name).write(TABLE, MANY)
        except StoreUnreachable:
            seen.append(known(another))
            assert seen[-1] in (after(FIRST), after(FIRST, MANY)), number
            is_in = seen[-1] == after(FIRST, MANY)
            another.write(TABLE, OTHER)
            assert known(another) == (after(FIRST, MANY, OTHER) if is_in else after(FIRST, OTHER)), number
            another.write(TABLE, MANY)
            assert known(another) == (after(FIRST, MANY, OTHER, MANY) if is_in else after(FIRST, OTHER, MANY)), (
                number
            )
        if not client.was_met:
            break
    assert after(FIRST) in seen
    assert after(FIRST, MANY) in seen


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize("theirs", [OTHER, MANY, ANEW], ids=["other", "many", "anew"])
def test_concurrent_notes_are_applied_in_order_wherever_the_first_writer_sleeps(fake: Fake, theirs: Notes) -> None:
    orders = set()
    for number, name in pipelines(fake):
        another = fake.ledger(pipeline=name)
        client = Meddled(fake.client, number, lambda: another.write(TABLE, theirs))  # noqa: B023  # called here
        fake.ledger(client, name).write(TABLE, MANY)
        if not client.was_met:
            break
        found = known(another)
        before, behind = after(FIRST, theirs, MANY), after(FIRST, MANY, theirs)
        assert found in (before, behind), number
        orders |= {order for order, one in (("before", before), ("behind", behind)) if found == one}
    assert orders == {"before", "behind"}


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize("theirs", [MANY, ANEW], ids=["many", "anew"])
@pytest.mark.parametrize(
    "read",
    [
        lambda ledger: ledger.account(TABLE),
        lambda ledger: list(ledger.objects(TABLE)),
        lambda ledger: list(ledger.objects(TABLE, SEEN, VANISHED)),
        lambda ledger: list(ledger.objects(TABLE, names=["f1", "f2", "f7", "f90"])),
    ],
    ids=["account", "all", "states", "names"],
)
def test_a_concurrent_reader_sees_no_half_note(fake: Fake, theirs: Notes, read: Callable[[Ledger], Any]) -> None:
    model = MemoryLedger()
    model.write(TABLE, FIRST)
    answers = [read(model)]
    model.write(TABLE, theirs)
    answers.append(read(model))
    for number, name in pipelines(fake):
        another = fake.ledger(pipeline=name)
        client = Meddled(fake.client, number, lambda: another.write(TABLE, theirs))  # noqa: B023  # called here
        assert read(fake.ledger(client, name)) in answers, number
        if not client.was_met:
            break


def test_a_late_writer_does_not_restore_older_items(fake: Fake) -> None:
    for number, name in pipelines(fake):
        another = fake.ledger(pipeline=name)

        def meanwhile() -> None:
            for notes in (OTHER, ANEW, OTHER):
                another.write(TABLE, notes)  # noqa: B023  # called here

        client = Meddled(fake.client, number, meanwhile)
        fake.ledger(client, name).write(TABLE, MANY)
        if not client.was_met:
            break
        found = known(another)
        assert found in (after(FIRST, MANY, OTHER, ANEW, OTHER), after(FIRST, OTHER, ANEW, OTHER, MANY)), number


@pytest.mark.usefixtures("part")
def test_a_writer_may_sleep_while_another_crashes(fake: Fake) -> None:
    for slept in count(1):
        for crashed in count(1):
            fake.client.items.clear()
            fake.ledger().write(TABLE, FIRST)
            theirs = Meddled(fake.client, crashed, crash)

            def meanwhile() -> None:
                with suppress(StoreUnreachable):
                    fake.ledger(theirs).write(TABLE, ANEW)  # noqa: B023  # called here

            mine = Meddled(fake.client, slept, meanwhile)
            fake.ledger(mine).write(TABLE, MANY)
            if not mine.was_met:
                return
            found, whole = known(fake.ledger()), [after(FIRST, MANY, ANEW), after(FIRST, ANEW, MANY)]
            assert found in (whole if not theirs.was_met else [*whole, after(FIRST, MANY)]), (slept, crashed)
            if not theirs.was_met:
                break


class SendsTwice:
    """A client that sends each write twice, as if the response was lost; others may act in between."""

    def __init__(self, client: Any, between: Callable[[], object] = lambda: None) -> None:
        self.client = client
        self.between = between

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if name not in ("put_item", "transact_write_items", "batch_write_item"):
            return found

        def ask(**request: Any) -> Any:
            found(**request)
            self.between()
            return found(**request)

        return ask


@pytest.mark.usefixtures("part")
def test_a_write_whose_response_was_lost_counts_once(fake: Fake) -> None:
    ledger = fake.ledger(SendsTwice(fake.client))
    for notes in (FIRST, MANY, ANEW):
        ledger.write(TABLE, notes)
    assert known(fake.ledger()) == after(FIRST, MANY, ANEW)
    assert fake.client.items[f"shop/{TABLE}", "head"]["note"] == {"N": "3"}


def test_a_write_whose_response_was_lost_counts_once_after_a_later_note(fake: Fake) -> None:
    applied = Notes(records=[replace(record(1), state=ObjectState.APPLIED, batch=1)], batch=1)
    others = [lambda: fake.ledger().write(TABLE, applied)]
    ledger = fake.ledger(SendsTwice(fake.client, lambda: others and others.pop()()))
    ledger.write(TABLE, Notes(records=[record(1)]))
    assert known(fake.ledger()) == after(Notes(records=[record(1)]), applied)


def test_an_account_may_be_longer_than_an_item(ledger_table: LedgerTable) -> None:
    acked = {"LEDGER-001": frozenset(f"a name of a file that came too late, {n:06d}" for n in range(9_000))}
    for notes in (Notes(acknowledged=acked), Notes(batch=2)):
        ledger_table.ledger().write(TABLE, notes)
    assert ledger_table.ledger().account(TABLE) == Account(acknowledged=acked, batch=2)
    notes_with_parts = {name.split("/")[1] for name in ledger_table.items("part/")}
    assert len(notes_with_parts) == 1, "parts of an earlier note are left"
    ledger_table.ledger().write(TABLE, Notes(acknowledged={}))
    assert ledger_table.ledger().account(TABLE) == Account(batch=2)


def test_obsolete_items_are_deleted(ledger_table: LedgerTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART", 4_000)
    client = Meddled(ledger_table.client, 5, crash)
    with pytest.raises(StoreUnreachable):
        ledger_table.ledger(client).write(TABLE, MANY)
    assert ledger_table.items("part/") != []
    ledger_table.ledger().write(TABLE, FIRST)
    ledger_table.ledger().write(TABLE, MANY)
    assert ledger_table.items("part/") == []
    ledger_table.ledger().write(TABLE, ANEW)
    assert len(ledger_table.items()) == len(["head", "f1", "f7", "f7 checked"])


@pytest.mark.parametrize(
    "name", ["x/" * 2_000, "grün/ä €.csv", "cut \udcff off", ""], ids=["long", "of letters", "of no text", "empty"]
)
def test_any_object_name_is_stored(ledger_table: LedgerTable, name: str) -> None:
    found = record(1, name=name)
    ledger_table.ledger().write(TABLE, Notes(records=[found], checked={name: 1}))
    assert list(ledger_table.ledger().objects(TABLE, names=[name])) == [found]
    assert ledger_table.ledger().account(TABLE).checked == {name: 1}


def test_pipelines_share_a_table_and_do_not_see_each_other(ledger_table: LedgerTable) -> None:
    ledger_table.ledger(pipeline="a").write(TABLE, FIRST)
    ledger_table.ledger(pipeline="b").write(TABLE, ANEW)
    assert known(ledger_table.ledger(pipeline="a")) == after(FIRST)
    assert known(ledger_table.ledger(pipeline="b")) == after(ANEW)


def test_without_its_head_a_ledger_is_empty(ledger_table: LedgerTable) -> None:
    for notes in (FIRST, MANY):
        ledger_table.ledger().write(TABLE, notes)
    key = {"ledger": {"S": f"shop/{TABLE}"}, "item": {"S": "head"}}
    ledger_table.client.delete_item(TableName=ledger_table.table, Key=key)
    assert known(ledger_table.ledger()) == after()
    ledger_table.ledger().write(TABLE, OTHER)
    assert known(ledger_table.ledger()) == after(OTHER)


def test_a_ledger_of_a_newer_version_is_refused(ledger_table: LedgerTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VERSION", 9)
    ledger_table.ledger().write(TABLE, FIRST)
    monkeypatch.setattr(module, "_VERSION", 1)
    for use in (lambda ledger: ledger.account(TABLE), lambda ledger: ledger.write(TABLE, FIRST)):
        with pytest.raises(TableError, match=r"the ledger shop/shop\.orders .* cannot be used") as raised:
            use(ledger_table.ledger())
        assert "version 9" in str(raised.value.found)


def test_a_note_without_objects_is_a_read_and_a_write(ledger_table: LedgerTable) -> None:
    ledger_table.ledger().write(TABLE, Notes(has_ended=True))
    assert ledger_table.asked == ["GetItem", "PutItem"]


def test_a_small_note_is_five_requests(ledger_table: LedgerTable) -> None:
    ledger_table.ledger().write(TABLE, FIRST)
    ledger_table.asked.clear()
    ledger_table.ledger().write(TABLE, Notes(records=[record(1, APPLIED)]))
    assert ledger_table.asked == ["GetItem", "BatchGetItem", "PutItem", "TransactWriteItems", "PutItem"]
    ledger_table.asked.clear()
    ledger_table.ledger().write(TABLE, Notes(records=[record(1, APPLIED, first_seen=1)]))
    assert ledger_table.asked == ["GetItem", "BatchGetItem", "PutItem"], "what is known already is written again"


def test_only_the_requested_items_are_read(ledger_table: LedgerTable) -> None:
    for notes in (FIRST, MANY, Notes(records=[record(n) for n in (300, 301)])):
        ledger_table.ledger().write(TABLE, notes)
    ledger_table.asked.clear()
    ledger_table.items_read = 0
    list(ledger_table.ledger().objects(TABLE, names=["f5", "f300", "f999"]))
    assert (ledger_table.asked, ledger_table.items_read) == (["GetItem", "BatchGetItem", "GetItem"], 2)
    ledger_table.items_read = 0
    list(ledger_table.ledger().objects(TABLE, SEEN, VANISHED))
    assert ledger_table.items_read == len(["f300", "f301", "f2"])
    ledger_table.items_read = 0
    ledger_table.ledger().account(TABLE)
    assert ledger_table.items_read == len(["f300", "f301", "f3 checked", "f4 checked"])


def test_a_query_is_read_to_its_last_page(ledger_table: LedgerTable) -> None:
    """DynamoDB ends a page at one megabyte."""
    long = [record(n, name=f"{n:04d} {'x' * 9_000}") for n in range(250)]
    ledger_table.ledger().write(TABLE, Notes(records=long))
    ledger_table.asked.clear()
    assert list(ledger_table.ledger().objects(TABLE)) == long
    assert ledger_table.asked.count("Query") > 1


class Refuses:
    """A client whose operation gives another response a number of times."""

    def __init__(self, client: Any, operation: str, answer: Any, times: int) -> None:
        self.client, self.operation, self.answer, self.times = client, operation, answer, times

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if name != self.operation:
            return found

        def ask(**request: Any) -> Any:
            self.times -= 1
            if self.times < 0:
                return found(**request)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer(found, request)

        return ask


def cancelled(*codes: str) -> ClientError:
    reasons: Any = {"CancellationReasons": [{"Code": code} for code in codes]}
    details = {"Code": "TransactionCanceledException", "Message": f"[{', '.join(codes)}]"}
    return ClientError({"Error": details, **reasons}, "TransactWriteItems")


def half(found: Callable[..., Any], request: dict[str, Any]) -> Any:
    """Process half of the items, rounded down, and return the others as unprocessed."""
    ((table, asked),) = request["RequestItems"].items()
    keys = asked["Keys"] if isinstance(asked, dict) else asked
    now, later = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    if isinstance(asked, dict):
        done = found(RequestItems={table: {**asked, "Keys": now}}) if now else {"Responses": {}}
        return {**done, "UnprocessedKeys": {table: {**asked, "Keys": later}}}
    done = found(RequestItems={table: now}) if now else {}
    return {**done, "UnprocessedItems": {table: later}}


THREE = Notes(records=[record(n) for n in (1, 2, 3)])


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_postponed_requests_are_sent_again_after_a_pause(ledger_table: LedgerTable, code: str) -> None:
    paused: list[float] = []
    client = Refuses(ledger_table.client, "transact_write_items", cancelled("None", code, "None"), 3)
    ledger_table.ledger(client, pause=paused.append).write(TABLE, THREE)
    assert known(ledger_table.ledger()) == after(THREE)
    assert len(paused) == 3
    assert paused == sorted(paused)


def test_requests_that_are_postponed_for_too_long_are_an_error(ledger_table: LedgerTable) -> None:
    client = Refuses(ledger_table.client, "transact_write_items", cancelled("ThrottlingError", "None", "None"), 99)
    with pytest.raises(StoreUnreachable, match="has more to do than it can") as raised:
        ledger_table.ledger(client, pause=no_pause).write(TABLE, THREE)
    assert raised.value.retryable
    assert "PAY_PER_REQUEST" in str(raised.value.todo)
    assert known(ledger_table.ledger()) == after(THREE), "the note counts, and the next writer writes its items"


def test_a_transaction_that_cannot_succeed_is_an_error_at_once(ledger_table: LedgerTable) -> None:
    full = cancelled("ItemCollectionSizeLimitExceeded", "None", "None")
    client = Refuses(ledger_table.client, "transact_write_items", full, 1)
    with pytest.raises(ConfigError, match="is full for one table of the lake") as raised:
        ledger_table.ledger(client, pause=no_pause).write(TABLE, THREE)
    assert "ItemCollectionSizeLimitExceeded" in str(raised.value.found)


@pytest.mark.parametrize("operation", ["batch_get_item", "batch_write_item"])
def test_unprocessed_items_of_a_batch_are_requested_again(ledger_table: LedgerTable, operation: str) -> None:
    client = Refuses(ledger_table.client, operation, half, 4)
    ledger = ledger_table.ledger(client, pause=no_pause)
    for notes in (FIRST, MANY, ANEW):
        ledger.write(TABLE, notes)
    assert [one.object.name for one in ledger.objects(TABLE, names=["f1", "f7"])] == ["f1", "f7"]
    assert len(ledger_table.items()) == len(["head", "f1", "f7", "f7 checked"])
    client.times = 99
    with pytest.raises(StoreUnreachable, match="has more to do than it can"):
        ledger.write(TABLE, Notes(replaces_all=True)) if operation == "batch_write_item" else ledger.write(
            TABLE, THREE
        )


def test_a_ledger_under_constant_writes_is_an_error(ledger_table: LedgerTable) -> None:
    ledger = ledger_table.ledger(pause=no_pause)
    numbers = count(1)

    class Overtaken:
        def __getattr__(self, name: str) -> Any:
            if name == "put_item":
                ledger.write(TABLE, Notes(batch=next(numbers)))
            return getattr(ledger_table.client, name)

    with pytest.raises(StoreUnreachable, match="is written by others all the time"):
        ledger_table.ledger(Overtaken(), pause=no_pause).write(TABLE, FIRST)
    assert ledger.account(TABLE).batch > 1


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        ("get_item", lambda ledger: ledger.account(TABLE)),
        ("query", lambda ledger: ledger.account(TABLE)),
        ("put_item", lambda ledger: ledger.write(TABLE, FIRST)),
        ("transact_write_items", lambda ledger: ledger.write(TABLE, FIRST)),
        ("batch_get_item", lambda ledger: ledger.write(TABLE, FIRST)),
    ],
)
@pytest.mark.parametrize(
    ("code", "error", "expected"),
    [
        ("ProvisionedThroughputExceededException", StoreUnreachable, "DynamoDB does not answer"),
        ("AccessDeniedException", ConfigError, "access is denied"),
    ],
)
def test_errors_of_every_request_are_translated(
    ledger_table: LedgerTable, operation: str, use: Any, code: str, error: type[Exception], expected: str
) -> None:
    client_error = ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
    with pytest.raises(
        error, match=f"the DynamoDB table {ledger_table.table} in eu-central-1: {expected}"
    ) as raised:
        use(ledger_table.ledger(Refuses(ledger_table.client, operation, client_error, 1), pause=no_pause))
    assert isinstance(raised.value, StoreUnreachable) or "docs/reference/ledger.md" in str(raised.value)


def test_a_head_of_an_earlier_version_is_read() -> None:
    content = json.loads(Head(account=Account(batch=3)).to_content())
    del content["sent"]
    assert Head().with_content(json.dumps(content)).account == Account(batch=3)
