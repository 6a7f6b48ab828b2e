"""Receive messages of SQS as notices, and delete each message after its last table was processed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import structlog

from lakeward.adapters.aws.s3.events import MessageContent, read_message
from lakeward.core.errors import LakewardError, StoreUnreachable
from lakeward.core.ports import Notice

log = structlog.get_logger()

MAX_RECEIVED: Final = 1000
"""The largest number of messages that one `receive` returns."""

_BATCH: Final = 10
"""The largest number of messages in one request (limit of SQS)."""

_ATTEMPTS: Final = 3
"""How often a request is sent in all if SQS fails."""

_SECOND: Final = 1_000_000


@dataclass(slots=True)
class _Message:
    """A received message: its tables that are not processed yet, and the time until which it is hidden.

    The time is in microseconds since 1970. `has_failed` is True after one of its tables failed.
    """

    tables: set[str]
    hidden_until: int
    has_failed: bool = False


@dataclass(slots=True)
class SqsQueue:
    """A queue of SQS with a `client` of boto3.

    The receipt of a notice is the number of tables of its message and the handle of the message, such as `2:AQEB`.
    `tables_at` returns the tables that read an object, by its URL. Table names are compared without case.

    A message is hidden for `visibility` seconds. `extend` hides it again once half of this time is over by the
    clock `now`, which returns microseconds. A message for several tables is deleted after the last one was
    processed, and shown again if one failed. A message that this process has forgotten is shown again by SQS.
    `wait` are the seconds for which SQS waits for messages.
    """

    client: Any = field(repr=False)
    url: str
    tables: Collection[str]
    tables_at: Callable[[str], Collection[str]]
    now: Callable[[], int]
    visibility: int
    wait: int
    _messages: dict[str, _Message] = field(default_factory=dict, init=False, repr=False)
    _has_warned: bool = field(default=False, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def receive(self) -> Sequence[Notice]:
        """Return the notices of waiting messages. Messages for no table are deleted.

        A message of an unknown form stays in the queue until the redrive policy moves it. Raises StoreUnreachable
        if SQS does not answer, ConfigError if it refuses.
        """
        self._forget_shown()
        until, messages = self._hidden_until(), list[Mapping[str, Any]]()
        try:
            for message in self._receive_messages():
                messages.append(message)
            contents = {message["ReceiptHandle"]: read_message(message["Body"]) for message in messages}
            objects = {url for content in contents.values() if content is not None for url in content.objects}
            places = {url: self.tables_at(url) for url in objects}
        except Exception:
            self._show_again([message["ReceiptHandle"] for message in messages])
            raise
        for message in messages:
            if contents[message["ReceiptHandle"]] is None:
                self._warn_of_unknown_form(message["MessageId"])
        readable = {handle: content for handle, content in contents.items() if content is not None}
        return self._notices(readable, places, until)

    def _notices(
        self, contents: Mapping[str, MessageContent], places: Mapping[str, Collection[str]], until: int
    ) -> Sequence[Notice]:
        """Return the notices of messages, and delete messages for no table.

        `contents` are the messages by handle, hidden until the time `until`. `places` are the tables that read each
        object.
        """
        names = {table.lower(): table for table in self.tables}
        notices, obsolete, of_no_table = list[Notice](), list[str](), list[str]()
        for handle, content in contents.items():
            of_no_table += [url for url in content.objects if not places[url]]
            of_no_table += [name for name in content.tables if name.lower() not in names]
            of_objects = (name for url in content.objects for name in places[url])
            tables = {names[name.lower()] for name in (*content.tables, *of_objects) if name.lower() in names}
            if tables:
                with self._lock:
                    self._messages[handle] = _Message({*tables}, until)
                notices += [Notice(name, f"{len(tables)}:{handle}") for name in sorted(tables)]
            else:
                obsolete.append(handle)
        try:
            self._delete(obsolete)
        except LakewardError as error:
            log.warning("messages of no table could not be deleted: they are received again", error=error.what)
        if of_no_table:
            log.warning("messages of no table", messages=len(of_no_table), example=of_no_table[0])
        return notices

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete the messages of tables that were processed, except those that other tables still need."""
        self._settle(notices, has_failed=False)

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Show the messages of tables that failed again, except those that other tables still need."""
        self._settle(notices, has_failed=True)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Hide messages for longer. One that SQS refuses to hide, as after twelve hours, is received again."""
        until, half = self._hidden_until(), self.visibility * _SECOND // 2
        with self._lock:
            handles = dict.fromkeys(_handle_of(notice) for notice in notices)
            due = [handle for handle in handles if self._hidden_until_of(handle) <= until - half]
        hidden, _ = self._hide(due, self.visibility)
        with self._lock:
            for handle in hidden:
                if handle in self._messages:
                    self._messages[handle].hidden_until = until

    def _forget_shown(self) -> None:
        """Forget messages that are no longer hidden: when they are received again, they have another handle."""
        with self._lock:
            now = self.now()
            hidden = {handle: message for handle, message in self._messages.items() if message.hidden_until > now}
            self._messages = hidden

    def _hidden_until(self) -> int:
        return self.now() + self.visibility * _SECOND

    def _hidden_until_of(self, handle: str) -> int:
        message = self._messages.get(handle)
        return 0 if message is None else message.hidden_until

    def _receive_messages(self) -> Iterator[Mapping[str, Any]]:
        """Receive and yield messages until there are none, or their number reaches the limit."""
        request = {"MaxNumberOfMessages": _BATCH, "VisibilityTimeout": self.visibility}
        for number in range(MAX_RECEIVED // _BATCH):
            try:
                response = self._request(self.client.receive_message, WaitTimeSeconds=self.wait, **request)
            except StoreUnreachable:
                if number == 0:
                    raise
                return  # process the messages received so far
            if not response.get("Messages"):
                return
            yield from response["Messages"]

    def _settle(self, notices: Sequence[Notice], *, has_failed: bool) -> None:
        """Note that the tables of notices ended, and delete or show the messages that no other table needs."""
        delete, show = dict[str, None](), dict[str, None]()
        with self._lock:
            for notice in notices:
                handle = _handle_of(notice)
                message = self._messages.get(handle)
                if message is None:
                    if not _is_of_one_table(notice):
                        continue  # another table may still need it: SQS shows it again
                    message = _Message({notice.table}, 0)
                message.tables.discard(notice.table)
                message.has_failed |= has_failed
                if not message.tables:
                    self._messages.pop(handle, None)
                    (show if message.has_failed else delete)[handle] = None
        self._delete([*delete])
        self._hide([*show], 0)

    def _delete(self, handles: Sequence[str]) -> None:
        _, failed = self._request_for_each(self.client.delete_message_batch, handles, {})
        if failed:
            log.warning("messages could not be deleted: they are received again", messages=len(failed))

    def _show_again(self, handles: Sequence[str]) -> None:
        """Show received messages again. If that fails, SQS shows them again at the end of their time."""
        try:
            self._hide(handles, 0)
        except LakewardError as error:
            log.warning(
                "received messages could not be shown again: they are received again later",
                messages=len(handles),
                error=error.what,
            )

    def _hide(self, handles: Sequence[str], seconds: int) -> tuple[Sequence[str], Sequence[str]]:
        """Hide messages for these seconds from now on; return the handles as `_request_for_each` does."""
        values = {"VisibilityTimeout": seconds}
        return self._request_for_each(self.client.change_message_visibility_batch, handles, values)

    def _request_for_each(
        self, operation: Callable[..., Mapping[str, Any]], handles: Sequence[str], values: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Request an operation on messages, ten at a time, and repeat what failed on the side of SQS.

        Return the handles that succeeded, and those that failed in every attempt. Handles that SQS refuses are in
        neither: the message was deleted, or was received by another process and has another handle.
        """
        succeeded, remaining = list[str](), [*handles]
        for _ in range(_ATTEMPTS):
            failed = []
            for start in range(0, len(remaining), _BATCH):
                batch = remaining[start : start + _BATCH]
                entries = [
                    {"Id": str(number), "ReceiptHandle": handle, **values} for number, handle in enumerate(batch)
                ]
                response = self._request(operation, Entries=entries)
                errors = {batch[int(error["Id"])]: error for error in response.get("Failed", ())}
                failed += [handle for handle, error in errors.items() if not error.get("SenderFault")]
                succeeded += [handle for handle in batch if handle not in errors]
            remaining = failed
        return succeeded, remaining

    def _request(self, operation: Callable[..., Mapping[str, Any]], **request: Any) -> Mapping[str, Any]:
        from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors  # noqa: PLC0415  # boto3 is optional

        with explain_sqs_errors(f"the queue {self.url}"):
            return operation(QueueUrl=self.url, **request)

    def _warn_of_unknown_form(self, message: str) -> None:
        """Warn of a message of an unknown form, only once: a queue with another purpose has many."""
        (log.debug if self._has_warned else log.warning)(
            "a message of no known form is left in the queue", message=message, todo="see docs/reference/queues.md"
        )
        self._has_warned = True


def _handle_of(notice: Notice) -> str:
    return notice.receipt.partition(":")[2]


def _is_of_one_table(notice: Notice) -> bool:
    return notice.receipt.startswith("1:")
