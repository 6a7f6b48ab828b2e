"""Queues of SQS: their laws, messages of S3, dead letters, and the requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from queues_of_aws import VISIBILITY, Sqs
from structlog.testing import capture_logs

from lakeward.adapters.queues.sqs import queue as module
from lakeward.adapters.queues.sqs.queue import SqsQueue
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.ports import Notice
from lakeward.plugins.testing import QueueUnderTest, queue_contract
from lakeward.plugins.testing.laws.queues import TABLES

EVENTS = Path(__file__).parents[2] / "aws" / "s3" / "events"
ORDERS, LINES = TABLES


def in_sqs(sqs: Sqs) -> QueueUnderTest:
    return sqs.bell()


def in_fifo(fifo: Sqs) -> QueueUnderTest:
    return fifo.bell()


TestStandard = queue_contract(in_sqs)
TestFifo = queue_contract(in_fifo)


def tables(notices: Sequence[Notice]) -> list[str]:
    return sorted(notice.table for notice in notices)


def of(notices: Sequence[Notice], table: str) -> list[Notice]:
    return [notice for notice in notices if notice.table == table]


def test_an_object_belongs_to_the_tables_that_read_its_place(sqs: Sqs) -> None:
    sqs.places["s3://amzn-s3-demo-bucket/HappyFace.jpg"] = [ORDERS]
    sqs.send((EVENTS / "s3_put.json").read_text("utf-8"))
    (notice,) = sqs.open().receive()
    assert notice.table == ORDERS


def test_messages_are_received_and_deleted_in_batches(sqs: Sqs) -> None:
    for _ in range(25):
        sqs.ring(ORDERS)
    sqs.asked.clear()
    queue = sqs.open()
    received = queue.receive()
    assert tables(received) == [ORDERS] * 25
    queue.acknowledge(received)
    assert sqs.asked == ["ReceiveMessage"] * 4 + ["DeleteMessageBatch"] * 3
    sqs.pass_time(1.0)
    assert queue.receive() == []


def test_one_receive_returns_at_most_the_limit(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECEIVED", 20)
    for _ in range(25):
        sqs.ring(ORDERS)
    queue = sqs.open()
    assert [len(queue.receive()) for _ in range(3)] == [20, 5, 0]


@pytest.mark.parametrize("event", ["s3_test_event", "sns_test_event", "s3_delete", "s3_put"])
def test_messages_of_no_table_are_deleted(sqs: Sqs, event: str) -> None:
    sqs.send((EVENTS / f"{event}.json").read_text("utf-8"))
    with capture_logs() as logs:
        assert sqs.open().receive() == []
    of_no_table = [(entry["log_level"], entry["messages"], entry["example"]) for entry in logs]
    assert of_no_table == ([("warning", 1, "s3://amzn-s3-demo-bucket/HappyFace.jpg")] if event == "s3_put" else [])
    sqs.pass_time(1.0)
    assert sqs.texts(sqs.url) == []


def test_a_message_of_an_unconfigured_table_is_of_no_table(sqs: Sqs) -> None:
    sqs.ring("shop.other")
    with capture_logs() as logs:
        assert sqs.open().receive() == []
    warnings = [(entry["event"], entry["log_level"], entry["example"]) for entry in logs]
    assert warnings == [("messages of no table", "warning", "shop.other")]


def test_names_of_tables_are_compared_without_case(sqs: Sqs) -> None:
    sqs.ring(ORDERS.upper())
    sqs.ring(ORDERS)
    assert tables(sqs.open().receive()) == [ORDERS] * 2


def test_messages_of_unknown_form_stay_for_the_redrive_policy_with_one_warning(sqs: Sqs) -> None:
    sqs.send("Hello")
    sqs.send("{}")
    queue = sqs.open()
    with capture_logs() as logs:
        for _ in range(6):
            assert queue.receive() == []
            sqs.pass_time(1.0)
    assert [entry["log_level"] for entry in logs].count("warning") == 1
    assert (sqs.texts(sqs.url), sorted(sqs.texts(sqs.dead))) == ([], ["Hello", "{}"])


@pytest.fixture
def shared(sqs: Sqs) -> Sqs:
    sqs.places["s3://amzn-s3-demo-bucket/a/1.csv"] = [ORDERS, LINES]
    sqs.send((EVENTS / "s3_two_records.json").read_text("utf-8"))
    return sqs


def test_a_message_of_two_tables_is_deleted_after_both_were_processed(shared: Sqs) -> None:
    queue = shared.open()
    received = queue.receive()
    assert tables(received) == sorted(TABLES)
    shared.asked.clear()
    queue.acknowledge(of(received, ORDERS))
    assert shared.asked == []
    queue.acknowledge(of(received, LINES))
    assert shared.asked == ["DeleteMessageBatch"]


@pytest.mark.parametrize("failed", TABLES)
def test_a_message_of_two_tables_is_received_again_for_both_if_one_failed(shared: Sqs, failed: str) -> None:
    queue = shared.open()
    received = queue.receive()
    for table in TABLES:
        (queue.give_back if table == failed else queue.acknowledge)(of(received, table))
    assert tables(queue.receive()) == sorted(TABLES)


def test_a_message_of_two_tables_is_hidden_until_the_last_was_processed(shared: Sqs) -> None:
    queue = shared.open()
    received = queue.receive()
    queue.give_back(of(received, ORDERS))
    for _ in range(3):
        shared.pass_time(0.6)
        queue.extend(of(received, LINES))
        assert shared.open().receive() == []


@pytest.mark.parametrize("ends", ["acknowledge", "give_back"])
def test_a_forgotten_message_of_two_tables_is_not_deleted_with_the_first(shared: Sqs, ends: str) -> None:
    queue = shared.open()
    received = queue.receive()
    shared.pass_time(1.0)
    queue._forget_shown()
    shared.asked.clear()
    for table in TABLES:
        getattr(queue, ends)(of(received, table))
    assert shared.asked == []
    assert tables(queue.receive()) == sorted(TABLES)


def test_a_message_of_one_table_can_be_deleted_by_another_process(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    received = sqs.open().receive()
    sqs.open().acknowledge(received)
    sqs.pass_time(1.0)
    assert sqs.open().receive() == []


def test_a_message_that_fails_too_often_is_a_dead_letter(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    queue = sqs.open()
    for _ in range(5):
        received = queue.receive()
        assert tables(received) == [ORDERS]
        queue.give_back(received)
    assert queue.receive() == []
    assert sqs.texts(sqs.dead) == [json.dumps({"table": ORDERS})]


def test_a_message_group_waits_for_its_first_message_and_others_do_not(fifo: Sqs) -> None:
    queue = fifo.open()
    fifo.ring(ORDERS)
    first = queue.receive()
    fifo.ring(ORDERS)
    fifo.ring(LINES)
    assert tables(queue.receive()) == [LINES]
    queue.acknowledge(first)
    assert tables(queue.receive()) == [ORDERS]


def test_a_message_that_another_process_received_is_no_error(fifo: Sqs) -> None:
    fifo.ring(ORDERS)
    slow, quick = fifo.open(), fifo.open()
    first = slow.receive()
    fifo.pass_time(1.0)
    second = quick.receive()
    quick.acknowledge(second)
    slow.extend(first)
    slow.acknowledge(first)
    slow.give_back(first)
    fifo.pass_time(1.0)
    assert quick.receive() == []


# Requests, and responses with errors.


def test_messages_are_hidden_again_after_half_of_their_time(sqs: Sqs) -> None:
    for _ in range(11):
        sqs.ring(ORDERS)
    queue = sqs.open()
    received = queue.receive()
    asked = []
    for _ in range(10):
        sqs.asked.clear()
        sqs.pass_time(0.2)
        queue.extend(received)
        asked.append(len(sqs.asked))
    assert asked == [0, 0, 2] + [0, 0, 2] * 2 + [0]


class Failing:
    """A client whose operation gives these responses first."""

    def __init__(self, client: Any, operation: str, answers: Sequence[Callable[[Any], Any]]) -> None:
        self.client, self.operation, self.answers = client, operation, [*answers]
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return self.ask if name == self.operation else getattr(self.client, name)

    def ask(self, **request: Any) -> Any:
        self.asked.append(request)
        if self.answers:
            return self.answers.pop(0)(request)
        return getattr(self.client, self.operation)(**request)


def failing(sqs: Sqs, operation: str, *answers: Callable[[Any], Any]) -> SqsQueue:
    queue = sqs.open()
    queue.client = Failing(sqs.client, operation, answers)
    return queue


def fails(*numbers: int, sender: bool = False) -> Callable[[Any], Any]:
    code = "ReceiptHandleIsInvalid" if sender else "InternalError"
    return lambda _: {"Failed": [{"Id": str(one), "SenderFault": sender, "Code": code} for one in numbers]}


def test_only_failed_deletes_are_requested_again(sqs: Sqs) -> None:
    for _ in range(3):
        sqs.ring(ORDERS)
    queue = failing(sqs, "delete_message_batch", fails(1))
    received = queue.receive()
    queue.acknowledge(received)
    asked = [[entry["ReceiptHandle"] for entry in request["Entries"]] for request in queue.client.asked]
    handles = [notice.receipt.removeprefix("1:") for notice in received]
    assert asked == [handles, handles[1:2]]


def test_deletes_that_fail_in_every_attempt_are_a_warning(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    queue = failing(sqs, "delete_message_batch", fails(0), fails(0), fails(0))
    with capture_logs() as logs:
        queue.acknowledge(queue.receive())
    assert [entry["log_level"] for entry in logs] == ["warning"]
    sqs.pass_time(1.0)
    assert tables(queue.receive()) == [ORDERS]


def test_refused_deletes_are_not_requested_again(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    queue = failing(sqs, "delete_message_batch", fails(0, sender=True))
    with capture_logs() as logs:
        queue.acknowledge(queue.receive())
    assert (len(queue.client.asked), logs) == (1, [])


def unreachable(_request: Any) -> Any:
    raise StoreUnreachable("the network is gone")


def denied(_request: Any) -> Any:
    raise ConfigError("access is denied")


@pytest.mark.parametrize("answer", [unreachable, denied])
def test_a_failed_delete_of_messages_of_no_table_hides_no_others(sqs: Sqs, answer: Callable[[Any], Any]) -> None:
    sqs.ring("shop.other")
    sqs.ring(ORDERS)
    queue = failing(sqs, "delete_message_batch", answer)
    with capture_logs() as logs:
        assert tables(queue.receive()) == [ORDERS]
    assert [entry["log_level"] for entry in logs] == ["warning"] * 2


def test_received_messages_are_shown_again_if_their_tables_cannot_be_found(sqs: Sqs) -> None:
    sqs.ring(LINES)
    sqs.send((EVENTS / "s3_put.json").read_text("utf-8"))
    queue = sqs.open()

    def away(_url: str) -> list[str]:
        raise StoreUnreachable("the bucket is away")

    queue.tables_at = away
    with pytest.raises(StoreUnreachable, match="the bucket"):
        queue.receive()
    assert len(sqs.texts(sqs.url)) == 2


def test_received_messages_are_shown_again_if_a_later_request_is_refused(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    queue = failing(sqs, "receive_message", lambda request: sqs.client.receive_message(**request), denied)
    with pytest.raises(ConfigError):
        queue.receive()
    assert len(sqs.texts(sqs.url)) == 1


def test_messages_that_were_not_hidden_again_are_requested_again(sqs: Sqs) -> None:
    for _ in range(2):
        sqs.ring(ORDERS)
    queue = failing(sqs, "change_message_visibility_batch", fails(1), fails(0), fails(0))
    received = queue.receive()
    sqs.pass_time(0.6)
    queue.extend(received)
    queue.client.asked.clear()
    queue.extend(received)
    asked = [[entry["ReceiptHandle"] for entry in request["Entries"]] for request in queue.client.asked]
    assert asked == [[received[1].receipt.removeprefix("1:")]]


def test_messages_received_before_a_failure_are_returned(sqs: Sqs) -> None:
    for _ in range(11):
        sqs.ring(ORDERS)
    queue = failing(sqs, "receive_message", lambda request: sqs.client.receive_message(**request), unreachable)
    assert len(queue.receive()) == 10


def test_a_failure_of_the_first_request_is_an_error(sqs: Sqs) -> None:
    with pytest.raises(StoreUnreachable):
        failing(sqs, "receive_message", unreachable).receive()


def test_the_settings_set_wait_and_visibility(sqs: Sqs) -> None:
    queue = failing(sqs, "receive_message", lambda _: {})
    queue.wait = 7
    queue.receive()
    (request,) = queue.client.asked
    assert (request["WaitTimeSeconds"], request["VisibilityTimeout"]) == (7, VISIBILITY)


def test_messages_are_forgotten_at_the_end_of_their_visibility(sqs: Sqs) -> None:
    sqs.ring(ORDERS)
    queue = sqs.open()
    for _ in range(3):
        assert len(queue.receive()) == 1
        assert len(queue._messages) == 1
        sqs.pass_time(1.0)
