"""A Kafka broker, through the client of Confluent (librdkafka)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import takewhile
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

from lakeward.adapters.sources.kafka.broker import NO_ID, Offsets, Records, Topic
from lakeward.adapters.sources.kafka.msk_tokens import MskTokens
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret, SecretName

T = TypeVar("T")
_Errors: TypeAlias = deque[KafkaError]

_NO_LOG: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""A logger that drops what librdkafka would write to standard error. Errors have what matters."""

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
"""The client settings that are secrets."""

_OFFSET_GONE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_READER: Final = {
    "group.id": "lakeward",  # the client requires one; no offset is committed or read with it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # the end of a partition is reported after this time
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.queue.backoff.ms": 10,  # after this time a full queue is filled again; a second by default
}


@dataclass
class KafkaBroker:
    """A broker that is connected to at the first call. Several threads may call it.

    If access is refused, secrets are read again. If one has changed, the call is repeated once.
    """

    options: KafkaOptions
    base: Path
    secret: Callable[[SecretName], Secret]
    _client_settings: tuple[dict[str, Any], _Errors] | None = field(default=None, repr=False)
    _admin_client: tuple[AdminClient, dict[str, Any]] | None = field(default=None, repr=False)
    _lock: RLock = field(default_factory=RLock)

    def topics(self) -> Collection[str]:
        """Return the names of all topics but the broker's own."""
        metadata = self._request(lambda: self._admin.list_topics(timeout=self.options.timeout))
        return [name for name in metadata.topics if not name.startswith("__")]

    def find(self, topic: str) -> Topic | None:
        """Return a topic with its committed offsets, or None if it does not exist."""
        try:
            description = self._request(
                lambda: _result_of(self._admin.describe_topics(TopicCollection([topic]), **self._request_options))
            )
        except _NoTopic:
            return None
        numbers = [one.id for one in description.partitions]
        low = self._list_offsets(topic, numbers, OffsetSpec.earliest())
        high = self._list_offsets(topic, numbers, OffsetSpec.latest())
        offsets = {number: Offsets(low[number], high[number]) for number in numbers}
        return Topic(topic, _topic_id(description.topic_id), offsets)

    def is_compacted(self, topic: str) -> bool:
        """Return True if the broker removes messages from the middle of a topic."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        configs = self._request(
            lambda: _result_of(self._admin.describe_configs([resource], **self._request_options))
        )
        return "compact" in configs["cleanup.policy"].value

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for each partition the first offset at or after a time, in milliseconds since 1970."""
        offsets = self._list_offsets(topic, partitions, OffsetSpec.for_timestamp(millis))
        return {number: offset for number, offset in offsets.items() if offset >= 0}

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        """Yield the committed messages of a range of offsets in order, in the batches in which they arrive."""
        used_settings, batches = self._settings, self._read(topic, partition, start, end)
        try:
            first_batch = next(batches, None)
        except _AccessRefused:
            if not self._has_newer_secrets(used_settings):
                raise
            batches = self._read(topic, partition, start, end)
            first_batch = next(batches, None)
        if first_batch is not None:
            yield first_batch
            yield from batches

    def _read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        settings, errors = self._access
        consumer = self._make_client(Consumer, {**settings, **_READER})
        with closing(consumer):
            consumer.assign([TopicPartition(topic, partition, start)])
            while True:
                messages = self._call(lambda: self._next(consumer, errors), errors)
                if in_range := [*takewhile(lambda one: one.error() is None and one.offset() < end, messages)]:
                    yield _to_records(in_range)
                if len(in_range) < len(messages):
                    self._check_end(messages[len(in_range)], topic, partition, end, errors)
                    return
                if in_range and in_range[-1].offset() == end - 1:  # do not wait for messages after the range
                    return

    def _next(self, consumer: Consumer, errors: _Errors) -> list[Message]:
        """Wait for a message, and return it with those that have arrived already.

        A refusal of the consumer group is ignored: a range is read without one.
        """
        message = consumer.poll(self.options.timeout)
        if message is None:
            raise self._refusal(errors) or self._unreachable_error(None, errors)
        messages = [message, *consumer.consume(_BATCH, 0)]
        no_group = KafkaError.GROUP_AUTHORIZATION_FAILED
        return [one for one in messages if one.error() is None or one.error().code() != no_group]

    def _check_end(self, message: Message, topic: str, partition: int, end: int, errors: _Errors) -> None:
        """Raise a LakewardError unless a message, or the end of the partition, lies after the range."""
        error = message.error()
        if error is None:
            return
        if error.code() in _OFFSET_GONE:
            raise _deleted_error(topic, partition)
        if error.code() != KafkaError._PARTITION_EOF:
            raise self._translate_error(KafkaException(error), errors)
        offset = message.offset()
        if offset is None or offset < end:
            raise _truncated_error(topic, partition, end, offset)

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a topic for a consumer group; raises SourceError if the broker refuses them."""
        partitions = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, partitions)]
        answer = self._request(
            lambda: _result_of(self._admin.alter_consumer_group_offsets(request, **self._request_options))
        )
        refused = [one for one in answer.topic_partitions if one.error is not None]
        if refused:
            raise SourceError(
                f"the broker does not take offsets of the consumer group {group}",
                found=f"{refused[0].topic}, partition {refused[0].partition}: {refused[0].error.str()}",
                todo="The next batch commits offsets again. If it stays so, name a group that no consumer uses.",
            )

    def _list_offsets(self, topic: str, numbers: Collection[int], spec: OffsetSpec) -> Mapping[int, int]:
        specs = {TopicPartition(topic, number): spec for number in numbers}
        isolation = IsolationLevel.READ_COMMITTED

        def ask() -> Mapping[int, int]:
            futures = self._admin.list_offsets(specs, isolation_level=isolation, **self._request_options)
            return {place.partition: one.result().offset for place, one in futures.items()}

        return self._request(ask)

    @property
    def _request_options(self) -> Mapping[str, Any]:
        return {"request_timeout": self.options.timeout}

    @property
    def _admin(self) -> AdminClient:
        with self._lock:
            if self._admin_client is None or self._admin_client[1] is not self._settings:
                self._admin_client = self._make_client(AdminClient, self._settings), self._settings
            return self._admin_client[0]

    def _make_client(self, client: Callable[..., T], settings: Mapping[str, Any]) -> T:
        """Return a client; raises ConfigError for a certificate file or a key that cannot be read."""
        try:
            return client(dict(settings), logger=_NO_LOG)
        except KafkaException as error:
            raise ConfigError(
                f"no client of the broker {self.options.servers} can be made",
                found=error.args[0].str(),
                todo="Correct [source.security]: the files that it names, and what the secrets hold.",
            ) from None

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings of clients, with the secrets as they were last read."""
        return self._access[0]

    @property
    def _access(self) -> tuple[dict[str, Any], _Errors]:
        """The settings of clients, and the queue in which such clients put errors of their background threads."""
        with self._lock:
            if self._client_settings is None:
                errors: _Errors = deque(maxlen=5)
                self._client_settings = self._read_settings(errors), errors
            return self._client_settings

    def _read_settings(self, errors: _Errors) -> dict[str, Any]:
        """Return the settings of a client; secrets are read now, and stored nowhere else."""
        security = self.options.security
        settings: dict[str, Any] = {
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
            tokens.token()  # an error of signing is raised here, not inside the client
            settings |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens}
        return {name: value for name, value in settings.items() if value is not None}

    def _reveal(self, name: SecretName | None) -> str | None:
        return None if name is None else self.secret(name).reveal().decode("utf-8", "surrogateescape")

    def _path(self, file: str | None) -> str | None:
        return None if file is None else str(self.base / file)

    def _request(self, ask: Callable[[], T]) -> T:
        """Return an answer of the broker; raises a LakewardError for errors of the client."""
        admin, (used_settings, errors) = self._admin, self._access
        try:
            return self._call(ask, errors, admin)
        except _AccessRefused:
            if not self._has_newer_secrets(used_settings):
                raise
            return self._call(ask, self._access[1], self._admin)

    def _has_newer_secrets(self, used_settings: dict[str, Any]) -> bool:
        """Return True if secrets differ from those in the settings that were refused.

        They are read again, unless another thread has done so.
        """
        with self._lock:
            if self._settings is not used_settings:  # another thread was refused, too, and has read them
                return True
            self._client_settings = None
            return any(self._settings.get(name) != used_settings.get(name) for name in _SECRET)

    def _call(self, ask: Callable[[], T], errors: _Errors, admin: AdminClient | None = None) -> T:
        try:
            answer = ask()
        except KafkaException as error:
            if admin is not None:
                admin.poll(0)  # delivers the errors of background threads
            raise self._translate_error(error, errors) from None
        if answer:
            errors.clear()
        return answer

    def _translate_error(self, error: KafkaException, errors: _Errors) -> LakewardError:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            todo = "Nothing of this batch was applied. The next run raises an alarm if messages are lost."
            return _NoTopic("a topic is not there any more", todo=todo)
        return self._refusal(errors, kafka_error) or self._unreachable_error(kafka_error, errors)

    def _refusal(self, errors: _Errors, *kafka_errors: KafkaError) -> _AccessRefused | None:
        """Return the error to raise if one of these errors, or of those in the background, is a refusal."""
        refusal = next((one for one in [*kafka_errors, *errors] if one.code() in _REFUSED), None)
        if refusal is None:
            return None
        return _AccessRefused(
            f"the broker {self.options.servers} refuses access",
            found=refusal.str(),
            todo="Correct [source.security], or allow the user to read and describe the topic.",
        )

    def _unreachable_error(self, kafka_error: KafkaError | None, errors: _Errors) -> StoreUnreachable:
        last = errors[-1] if errors else kafka_error
        return StoreUnreachable(
            f"the broker {self.options.servers} does not answer",
            found=f"no answer within {self.options.timeout} seconds" if last is None else last.str(),
            todo="Is the broker up, and does `servers` under [source] have an address that this machine reaches? "
            "Nothing of this batch was applied; the next run reads it again.",
        )


class _AccessRefused(ConfigError):
    """The broker refuses the login or the operation."""


class _NoTopic(SourceError):
    """The topic does not exist."""


def _result_of(futures: Mapping[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result()


def _topic_id(uuid: Any) -> str:
    """Return the id of a topic in the form of a file name; `NO_ID` for none, or for one of zeros."""
    text = str(uuid) if uuid is not None else ""
    return text.replace("+", "-").replace("/", "_") if text.strip("A=") else NO_ID


def _to_records(messages: Sequence[Message]) -> Records:
    times = [one.timestamp() for one in messages]
    return Records(
        (
            [one.offset() for one in messages],
            [millis if kind != _NO_TIMESTAMP else None for kind, millis in times],
            [one.key() for one in messages],
            [one.value() for one in messages],
            [tuple(one.headers() or ()) for one in messages],
        )
    )


def _deleted_error(topic: str, partition: int) -> SourceError:
    return SourceError(
        f"messages of {topic}, partition {partition}, were deleted while they were read",
        todo="Nothing of this batch was applied. The next run names the lost offsets.",
    )


def _truncated_error(topic: str, partition: int, end: int, offset: int | None) -> SourceError:
    return SourceError(
        f"{topic}, partition {partition}, ends before the offset that the broker named",
        found=f"it ends at offset {offset}; the broker had named {end}",
        todo="Nothing of this batch was applied. Run again. If the error repeats, the broker has lost messages.",
    )
