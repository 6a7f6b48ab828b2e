"""A broker of Kafka, through the client of Confluent (librdkafka)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from lakeward.adapters.sources.kafka.broker import NO_ID, Offsets, Record, Topic
from lakeward.adapters.sources.kafka.msk_tokens import MskTokens
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret, SecretName

T = TypeVar("T")
_Errors: TypeAlias = deque[KafkaError]

_QUIET: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""librdkafka would write what it says to standard error; what matters of it is in errors."""

_BATCH: Final = 500
_NO_TIMESTAMP: Final = 0
_REFUSED: Final = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError._SSL,
)
_SECRET: Final = ("sasl.password", "ssl.key.pem")
"""The settings of a client that are secrets."""

_OFFSET_GONE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_READER: Final = {
    "group.id": "lakeward",  # the client needs one; nothing is ever committed or asked by it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # the end of a partition is told after so long
    "queued.max.messages.kbytes": 16 * 1024,
}


@dataclass
class KafkaBroker:
    """A broker, to which the first question connects. It may be asked by several threads.

    Where access is refused, secrets are read again: one may have been changed since, and is tried once.
    """

    options: KafkaOptions
    base: Path
    secret: Callable[[SecretName], Secret]
    _known: tuple[dict[str, Any], _Errors] | None = field(default=None, repr=False)
    _administers: tuple[AdminClient, dict[str, Any]] | None = field(default=None, repr=False)
    _lock: RLock = field(default_factory=RLock)

    def topics(self) -> Collection[str]:
        """Return the names of all topics but the broker's own."""
        found = self._ask(lambda: self._admin.list_topics(timeout=self.options.timeout))
        return [name for name in found.topics if not name.startswith("__")]

    def find(self, topic: str) -> Topic | None:
        """Return a topic with its committed offsets, or None where there is none of that name."""
        try:
            said = self._ask(
                lambda: _result_of(self._admin.describe_topics(TopicCollection([topic]), **self._patience))
            )
        except _NoTopic:
            return None
        numbers = [one.id for one in said.partitions]
        low = self._list_offsets(topic, numbers, OffsetSpec.earliest())
        high = self._list_offsets(topic, numbers, OffsetSpec.latest())
        offsets = {number: Offsets(low[number], high[number]) for number in numbers}
        return Topic(topic, _id_of(said.topic_id), offsets)

    def is_compacted(self, topic: str) -> bool:
        """Return whether the broker removes messages from the midst of a topic."""
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._ask(lambda: _result_of(self._admin.describe_configs([wanted], **self._patience)))
        return "compact" in found["cleanup.policy"].value

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for partitions the first offset at or after a time, in milliseconds since 1970."""
        found = self._list_offsets(topic, partitions, OffsetSpec.for_timestamp(millis))
        return {number: offset for number, offset in found.items() if offset >= 0}

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Record]:
        """Yield the committed messages of a range of offsets, in their order."""
        tried, records = self._settings, self._read(topic, partition, start, end)
        try:
            first = next(records, None)
        except _Refused:
            if not self._has_newer_secrets(tried):
                raise
            records = self._read(topic, partition, start, end)
            first = next(records, None)
        if first is not None:
            yield first
            yield from records

    def _read(self, topic: str, partition: int, start: int, end: int) -> Generator[Record]:
        settings, errors = self._access
        consumer = self._make(Consumer, {**settings, **_READER})
        with closing(consumer):
            consumer.assign([TopicPartition(topic, partition, start)])
            while True:
                for message in self._asked(lambda: self._next(consumer, errors), errors):
                    if self._is_behind(message, topic, partition, end, errors):
                        return
                    yield _record(message)
                    if message.offset() == end - 1:  # else the end would be waited for
                        return

    def _next(self, consumer: Consumer, errors: _Errors) -> list[Message]:
        """Wait for a message, and return it with those that have come already.

        That no group may be used says nothing: a range is read without one.
        """
        first = consumer.poll(self.options.timeout)
        if first is None:
            raise self._refused(errors) or self._away(None, errors)
        found = [first, *consumer.consume(_BATCH, 0)]
        no_group = KafkaError.GROUP_AUTHORIZATION_FAILED
        return [one for one in found if one.error() is None or one.error().code() != no_group]

    def _is_behind(self, message: Message, topic: str, partition: int, end: int, errors: _Errors) -> bool:
        """Return whether a message, or the end of the partition, lies behind the range."""
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            offset = message.offset()
            if error is not None and (offset is None or offset < end):
                raise _cut_off(topic, partition, end, offset)
            return offset is None or offset >= end
        if error.code() in _OFFSET_GONE:
            raise _deleted_meanwhile(topic, partition)
        raise self._in_words(KafkaException(error), errors)

    def tell(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Tell a consumer group how far a topic is applied."""
        places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, places)]
        self._ask(lambda: _result_of(self._admin.alter_consumer_group_offsets(asked, **self._patience)))

    def _list_offsets(self, topic: str, numbers: Collection[int], spec: OffsetSpec) -> Mapping[int, int]:
        asked = {TopicPartition(topic, number): spec for number in numbers}
        committed = IsolationLevel.READ_COMMITTED

        def ask() -> Mapping[int, int]:
            found = self._admin.list_offsets(asked, isolation_level=committed, **self._patience)
            return {place.partition: one.result().offset for place, one in found.items()}

        return self._ask(ask)

    @property
    def _patience(self) -> Mapping[str, Any]:
        return {"request_timeout": self.options.timeout}

    @property
    def _admin(self) -> AdminClient:
        with self._lock:
            if self._administers is None or self._administers[1] is not self._settings:
                self._administers = self._make(AdminClient, self._settings), self._settings
            return self._administers[0]

    def _make(self, client: Callable[..., T], settings: Mapping[str, Any]) -> T:
        """Return a client; raises ConfigError for a file of certificates or a key that cannot be read."""
        try:
            return client(dict(settings), logger=_QUIET)
        except KafkaException as error:
            raise ConfigError(
                f"no client of the broker {self.options.servers} can be made",
                found=error.args[0].str(),
                todo="Correct [source.security]: the files that it names, and what the secrets hold.",
            ) from None

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings of clients, with the secrets as they were read last."""
        return self._access[0]

    @property
    def _access(self) -> tuple[dict[str, Any], _Errors]:
        """The settings of clients, and where those that have them put what they are told in the background."""
        with self._lock:
            if self._known is None:
                errors: _Errors = deque(maxlen=5)
                self._known = self._read_settings(errors), errors
            return self._known

    def _read_settings(self, errors: _Errors) -> dict[str, Any]:
        """Return the settings of a client; secrets are read now, and kept nowhere else."""
        security = self.options.security
        found: dict[str, Any] = {
            "bootstrap.servers": self.options.servers,
            "security.protocol": security.protocol,
            "sasl.mechanism": security.sasl_mechanism,
            "sasl.username": security.username,
            "sasl.password": self._reveal(security.password),
            "ssl.ca.location": self._path(security.ca_file),
            "ssl.certificate.location": self._path(security.certificate),
            "ssl.key.pem": self._reveal(security.key),
            "error_cb": errors.append,
        }
        if security.region is not None:
            tokens = MskTokens(security.region)
            tokens.token()  # what cannot be signed is told here, and not to the client
            found |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens}
        return {name: value for name, value in found.items() if value is not None}

    def _reveal(self, name: SecretName | None) -> str | None:
        return None if name is None else self.secret(name).reveal().decode("utf-8", "surrogateescape")

    def _path(self, file: str | None) -> str | None:
        return None if file is None else str(self.base / file)

    def _ask(self, ask: Callable[[], T]) -> T:
        """Return an answer of the broker; raises what its errors are in words."""
        admin, (tried, errors) = self._admin, self._access
        try:
            return self._asked(ask, errors, admin)
        except _Refused:
            if not self._has_newer_secrets(tried):
                raise
            return self._asked(ask, self._access[1], self._admin)

    def _has_newer_secrets(self, tried: dict[str, Any]) -> bool:
        """Return whether secrets are others than those that were tried: they are read again, unless they were."""
        with self._lock:
            if self._settings is not tried:  # another thread was refused as well
                return True
            self._known = None
            return any(self._settings.get(name) != tried.get(name) for name in _SECRET)

    def _asked(self, ask: Callable[[], T], errors: _Errors, admin: AdminClient | None = None) -> T:
        try:
            found = ask()
        except KafkaException as error:
            if admin is not None:
                admin.poll(0)  # what it was told in the background comes now
            raise self._in_words(error, errors) from None
        if found:
            errors.clear()
        return found

    def _in_words(self, error: KafkaException, errors: _Errors) -> LakewardError:
        said: KafkaError = error.args[0]
        if said.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            todo = "Nothing of this batch was applied. The next run says what that means."
            return _NoTopic("a topic is not there any more", todo=todo)
        return self._refused(errors, said) or self._away(said, errors)

    def _refused(self, errors: _Errors, *said: KafkaError) -> _Refused | None:
        """Return what to say where one of these errors, or of those in the background, is a refusal."""
        refusal = next((one for one in [*said, *errors] if one.code() in _REFUSED), None)
        if refusal is None:
            return None
        return _Refused(
            f"the broker {self.options.servers} refuses access",
            found=refusal.str(),
            todo="Correct [source.security], or let the user read the topic, and describe it.",
        )

    def _away(self, said: KafkaError | None, errors: _Errors) -> StoreUnreachable:
        last = errors[-1] if errors else said
        return StoreUnreachable(
            f"the broker {self.options.servers} does not answer",
            found=f"nothing came in {self.options.timeout} seconds" if last is None else last.str(),
            todo="Is it up, and does `servers` under [source] name it as it is reached from here? A run that it "
            "stops has applied nothing of its batch, and the next one reads that again.",
        )


class _Refused(ConfigError):
    """The broker lets nobody in, or not at that."""


class _NoTopic(SourceError):
    """There is no such topic."""


def _result_of(futures: Mapping[Any, Any]) -> Any:
    (found,) = futures.values()
    return found.result()


def _id_of(told: Any) -> str:
    """Return the id of a topic, as it may stand in the name of a file; one without it tells nothing, or zeros."""
    text = str(told) if told is not None else ""
    return text.replace("+", "-").replace("/", "_") if text.strip("A=") else NO_ID


def _record(message: Message) -> Record:
    kind, millis = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(
        message.offset(), millis if kind != _NO_TIMESTAMP else None, message.key(), message.value(), headers
    )


def _deleted_meanwhile(topic: str, partition: int) -> SourceError:
    return SourceError(
        f"messages of {topic}, partition {partition}, were deleted while they were read",
        todo="Nothing of this batch was applied. The next run says which are gone.",
    )


def _cut_off(topic: str, partition: int, end: int, offset: int | None) -> SourceError:
    return SourceError(
        f"{topic}, partition {partition}, ends before the offset that the broker named",
        found=f"it ends at {offset}, and should at {end}",
        todo="Nothing of this batch was applied. Run again; if it stays so, messages were lost at the broker.",
    )
