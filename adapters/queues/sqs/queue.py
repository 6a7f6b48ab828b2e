"""Messages of SQS as notices: received until there are none, deleted once the last table of each is done."""

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

AT_ONCE: Final = 1000
"""Messages that are received at once, at the most; the next time goes on."""

_OF_REQUEST: Final = 10
"""Messages of one request, at the most: SQS takes and gives no more."""

_TRIES: Final = 3
_SECOND: Final = 1_000_000


@dataclass(slots=True)
class _Message:
    """A message in work: the tables that are not done with it, and when SQS shows it to others again."""

    tables: set[str]
    hidden_until: int
    has_failed: bool = False


@dataclass(slots=True)
class SqsQueue:
    """A queue of SQS, asked by a `client` of boto3.

    The receipt of a notice is the number of tables of its message and the handle of that, as `2:AQEB`. `tables_at`
    tells which tables read an object, by its URL. Names of tables are compared without case.

    A message is hidden for `visibility` seconds; more is asked for in the second half of these, by the clock `now`.
    One that tells of several tables is deleted once the last is done, and given back then if one failed. Where it
    is not known any more which are done, it comes again.
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
        """Return the notices of the messages that wait; those of no table are deleted.

        A message that cannot be read is left to the queue: it comes again until its redrive policy moves it.
        """
        self._forget_shown()
        until, messages = self._hidden_until(), list[Mapping[str, Any]]()
        try:
            for message in self._received():
                messages.append(message)
            contents = {message["ReceiptHandle"]: read_message(message["Body"]) for message in messages}
            objects = {url for content in contents.values() if content is not None for url in content.objects}
            places = {url: self.tables_at(url) for url in objects}
        except Exception:
            self._show_again([message["ReceiptHandle"] for message in messages])
            raise
        for message in messages:
            if contents[message["ReceiptHandle"]] is None:
                self._warn_of(message["MessageId"])
        known = {handle: content for handle, content in contents.items() if content is not None}
        return self._notices(known, places, until)

    def _notices(
        self, contents: Mapping[str, MessageContent], places: Mapping[str, Collection[str]], until: int
    ) -> Sequence[Notice]:
        """Return the notices of messages by handle, which are hidden `until` then, and delete those of no table.

        `places` are the tables that read each object.
        """
        names = {table.lower(): table for table in self.tables}
        notices, ended, of_no_table = list[Notice](), list[str](), list[str]()
        for handle, content in contents.items():
            of_no_table += [url for url in content.objects if not places[url]]
            of_no_table += [name for name in content.tables if name.lower() not in names]
            of_objects = (name for url in content.objects for name in places[url])
            found = {names[one.lower()] for one in (*content.tables, *of_objects) if one.lower() in names}
            if found:
                with self._lock:
                    self._messages[handle] = _Message({*found}, until)
                notices += [Notice(name, f"{len(found)}:{handle}") for name in sorted(found)]
            else:
                ended.append(handle)
        try:
            self._delete(ended)
        except LakewardError as error:
            log.warning("messages of no table could not be deleted, and come again", error=error.what)
        if of_no_table:
            log.warning("messages of no table", messages=len(of_no_table), example=of_no_table[0])
        return notices

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete the messages that no other table is at work with."""
        self._settle(notices, has_failed=False)

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Show the messages again that no other table is at work with."""
        self._settle(notices, has_failed=True)

    def extend(self, notices: Sequence[Notice]) -> None:
        """Hide messages for longer; what SQS refuses to hide, as beyond twelve hours, comes again."""
        until, half = self._hidden_until(), self.visibility * _SECOND // 2
        with self._lock:
            handles = dict.fromkeys(_handle_of(notice) for notice in notices)
            due = [one for one in handles if self._hidden(one) <= until - half]
        hidden, _ = self._hide(due, self.visibility)
        with self._lock:
            for handle in hidden:
                if handle in self._messages:
                    self._messages[handle].hidden_until = until

    def _forget_shown(self) -> None:
        """Forget messages that nobody keeps hidden any more: they have another handle when they come again."""
        with self._lock:
            now = self.now()
            self._messages = {one: m for one, m in self._messages.items() if m.hidden_until > now}

    def _hidden_until(self) -> int:
        return self.now() + self.visibility * _SECOND

    def _hidden(self, handle: str) -> int:
        message = self._messages.get(handle)
        return 0 if message is None else message.hidden_until

    def _received(self) -> Iterator[Mapping[str, Any]]:
        """Yield messages until there are none, or so many that others should have their turn."""
        asked = {"MaxNumberOfMessages": _OF_REQUEST, "VisibilityTimeout": self.visibility}
        for number in range(AT_ONCE // _OF_REQUEST):
            try:
                answer = self._asked(self.client.receive_message, WaitTimeSeconds=self.wait, **asked)
            except StoreUnreachable:
                if number == 0:
                    raise
                return  # those that were received are worked on
            if not answer.get("Messages"):
                return
            yield from answer["Messages"]

    def _settle(self, notices: Sequence[Notice], *, has_failed: bool) -> None:
        delete, show = dict[str, None](), dict[str, None]()
        with self._lock:
            for notice in notices:
                handle = _handle_of(notice)
                message = self._messages.get(handle)
                if message is None:
                    if not _is_of_one_table(notice):
                        continue  # another of its tables may be in work: it comes again
                    message = _Message({notice.table}, 0)
                message.tables.discard(notice.table)
                message.has_failed |= has_failed
                if not message.tables:
                    self._messages.pop(handle, None)
                    (show if message.has_failed else delete)[handle] = None
        self._delete([*delete])
        self._hide([*show], 0)

    def _delete(self, handles: Sequence[str]) -> None:
        _, left = self._try_each(self.client.delete_message_batch, handles, {})
        if left:
            log.warning("messages could not be deleted, and come again", messages=len(left))

    def _show_again(self, handles: Sequence[str]) -> None:
        """Show messages that were received and not told of; where that fails they come again by themselves."""
        try:
            self._hide(handles, 0)
        except LakewardError as error:
            log.warning("messages that were received come again later", messages=len(handles), error=error.what)

    def _hide(self, handles: Sequence[str], seconds: int) -> tuple[Sequence[str], Sequence[str]]:
        return self._try_each(self.client.change_message_visibility_batch, handles, {"VisibilityTimeout": seconds})

    def _try_each(
        self, ask: Callable[..., Mapping[str, Any]], handles: Sequence[str], values: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Ask for messages, ten at once, and again for those of which SQS says that it failed itself.

        Return those for which it was done, and those for which SQS failed to the last. Those that it refuses for
        good are neither: they are gone, or have another handle by now, as somebody else received them.
        """
        done, left = list[str](), [*handles]
        for _ in range(_TRIES):
            failed = []
            for start in range(0, len(left), _OF_REQUEST):
                some = left[start : start + _OF_REQUEST]
                entries = [
                    {"Id": str(number), "ReceiptHandle": handle, **values} for number, handle in enumerate(some)
                ]
                answer = self._asked(ask, Entries=entries)
                refused = {some[int(one["Id"])]: one for one in answer.get("Failed", ())}
                failed += [handle for handle, one in refused.items() if not one.get("SenderFault")]
                done += [handle for handle in some if handle not in refused]
            left = failed
        return done, left

    def _asked(self, ask: Callable[..., Mapping[str, Any]], **request: Any) -> Mapping[str, Any]:
        from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors  # noqa: PLC0415  # who has a client has boto3

        with explain_sqs_errors(f"the queue {self.url}"):
            return ask(QueueUrl=self.url, **request)

    def _warn_of(self, message: str) -> None:
        """Say once that there are such messages: a queue of something else has many."""
        (log.debug if self._has_warned else log.warning)(
            "a message of no known form is left in the queue", message=message, todo="see docs/reference/queues.md"
        )
        self._has_warned = True


def _handle_of(notice: Notice) -> str:
    return notice.receipt.partition(":")[2]


def _is_of_one_table(notice: Notice) -> bool:
    return notice.receipt.startswith("1:")
