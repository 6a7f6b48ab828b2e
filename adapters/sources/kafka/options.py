"""The settings of the source `kafka`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.sources.files.form import MessageForm, once_each
from lakeward.adapters.sources.kafka.access import RegistryOptions, SecurityOptions
from lakeward.adapters.sources.kafka.staging.plain_records import DELETE, OPERATION
from lakeward.adapters.sources.kafka.topics import SEPARATOR, fits_file_name
from lakeward.adapters.sources.staging.location import SETTING, staging_url

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")


def _topics(value: str | None) -> str | None:
    """Return the topic of a table, or its template; raises ValueError for what cannot be a topic."""
    if value is None:
        return None
    fields = sorted(re.findall(r"\{[^}]*\}", value))
    if fields not in ([], ["{schema}", "{table}"]):
        raise ValueError("must have {schema} and {table} in it, once each, or neither")
    if not _TOPIC.fullmatch(value.replace("{schema}", "s").replace("{table}", "t")):
        raise ValueError("must be the name of a topic: letters, digits, `.`, `_` and `-`")
    return value


def _own_topics(value: str | list[str] | None) -> str | None:
    """Return the topics of a table with a comma between; raises ValueError for what cannot be topics."""
    if not isinstance(value, list):
        return _topics(value)
    if not 0 < len({*value}) == len(value):
        raise ValueError("must be one topic or more, each once")
    if len(value) > 1 and not fits_file_name(value):
        raise ValueError("are too many: the names and ids of all of them must fit into the name of a file")
    if any("{" in name for name in value):
        raise ValueError("must be names of topics, without {schema} and {table}")
    return SEPARATOR.join(_topics(name) or "" for name in value)


def _start(value: str | None) -> str | None:
    """Return the setting `start`; raises ValueError for any other value."""
    if value not in (None, "earliest", "latest"):
        parse_time(str(value))
    return value


def parse_time(value: str) -> int:
    """Return a time in milliseconds since 1970; raises ValueError for another text, or a time without a zone."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError('must be "earliest", "latest" or a time, as "2026-11-21T10:00:00Z"') from error
    if moment.tzinfo is None:
        raise ValueError('must have a zone, as "2026-11-21T10:00:00Z"')
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


DEBEZIUM: Final = "debezium"
"""The format of messages of Debezium in JSON."""

AVRO: Final = "debezium-avro"
"""The format of Avro messages. They are decoded, and land as those of `debezium`."""

ROWS: Final = "json"
"""The format of plain records, which land as rows."""


class _MessageOptions(MessageForm):
    """The format of messages."""

    format: Literal["debezium", "debezium-avro", "dms-json", "json"] = Field(
        "debezium",
        description="The format of messages: those of Debezium as JSON, or in Avro with a registry, those of AWS "
        "DMS as JSON, or `json`: plain records, whose values are the rows.",
    )
    record_key: Annotated[list[str], AfterValidator(once_each)] = Field(
        default_factory=list,
        description="With `json`: the columns that are read from the key of a record. The key is a JSON object or, "
        "of one column, the value itself. A record without a value deletes the row of its key. Without "
        "`record_key` all columns are in the value.",
    )
    order_by: str | None = Field(
        None,
        description="With `json`: the column, or the path of a field in it, that orders the records of a key: a "
        "time, a date or a whole number. Without it the order of arrival is used.",
    )
    time: str | None = Field(
        None,
        description="With `json`: the column with the time of a change, or the path of a field in it, by which "
        "lateness is decided; without it `order_by`, if that is a time.",
    )

    @model_validator(mode="after")
    def _fits_format(self) -> Self:
        names = sorted({"record_key", "order_by", "time"} & self.model_fields_set)
        if names and self.format != ROWS:
            raise ValueError(f'`{names[0]}` is for `format = "json"` alone')
        return self


def refuse_without_transactions(messages: _MessageOptions) -> None:
    """Raise ValueError for several topics, and for messages that do not name their transaction."""
    if SEPARATOR in str(getattr(messages, "topics", "")):
        raise ValueError(
            "`transactions` is for tables of one topic: each connector has a topic of transactions of its own"
        )
    if messages.format not in (DEBEZIUM, AVRO) or messages.form != "envelope":
        raise ValueError(
            "`transactions` is for envelopes of Debezium: other messages do not say of which transaction they are"
        )


class KafkaTableOptions(_MessageOptions):
    """Options of one table's messages, where they differ from those of [source]."""

    topics: Annotated[str | list[str] | None, AfterValidator(_own_topics)] = Field(
        None,
        description="The topic of this table, or a list of several, which must not be changed. If only arrival "
        "orders messages, those of a topic that is listed later are later.",
    )


class _BrokerOptions(BaseModel):
    """The broker and the topics to read; these settings come first in the reference."""

    servers: str = Field(
        pattern=r"^[^\s,]+:\d+(,[^\s,]+:\d+)*$",
        description="The addresses of the broker, as `kafka-1:9092,kafka-2:9092` (bootstrap.servers).",
    )
    topics: Annotated[str, AfterValidator(_topics)] = Field(
        description="The topic of a table, as `shop.{schema}.{table}`. Without {schema} and {table} all tables "
        "read one topic, and each takes the messages that name it, and, where it is the only table, those that "
        "name none."
    )
    start: Annotated[str | None, AfterValidator(_start)] = Field(
        None,
        description='Where a table without a batch begins: `"earliest"` (the first message that still exists), '
        '`"latest"` (messages from now on), or a time, as `"2026-11-21T10:00:00Z"`. Without it a topic is read '
        "from its beginning, and a topic that has lost its beginning stops its table.",
    )
    group: str | None = Field(
        None,
        min_length=1,
        description="A consumer group whose offsets are committed after each commit of a table, for monitors of "
        "lag; may have {schema} and {table}. Its offsets are never read.",
    )
    transactions: str | None = Field(
        None,
        pattern=f"^{_TOPIC.pattern}$",
        description="The topic in which Debezium records transactions, as `shop.transaction` (the prefix of "
        "its topics and `.transaction`; `provide.transaction.metadata=true`). With it a commit ends between "
        "transactions.",
    )
    security: SecurityOptions = Field(
        default_factory=SecurityOptions, description="TLS and SASL; see `[source.security]`."
    )
    registry: RegistryOptions | None = Field(
        None, description='With `format = "debezium-avro"`: the schema registry; see `[source.registry]`.'
    )


class KafkaOptions(_MessageOptions, _BrokerOptions):
    """Messages from topics of Kafka."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str | None = Field(
        None,
        description="The folder of messages that are not applied yet, relative to the settings file; by default "
        "`kafka` in the folder `state`.",
    )
    staging: Annotated[str | None, AfterValidator(staging_url)] = Field(None, description=SETTING)
    landing: Literal["removed", "kept"] = Field(
        "removed", description="Whether applied files of messages are removed or kept."
    )
    max_messages: PositiveInt = Field(1_000_000, description="The most messages of one batch.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="The most bytes of messages of one batch, which has at least one message, as 256MiB.",
    )
    max_seconds: PositiveInt = Field(
        60, description="Seconds after which a batch reads no further messages from the broker."
    )
    timeout: PositiveInt = Field(30, description="Seconds to wait for an answer of the broker.")

    @model_validator(mode="after")
    def _check_topics(self) -> Self:
        if self.format == ROWS and "{schema}" not in self.topics:
            raise ValueError(
                "`topics` without {schema} and {table} is for messages, which say which table they are of"
            )
        return self

    @model_validator(mode="after")
    def _check_transactions(self) -> Self:
        if self.transactions is not None:
            refuse_without_transactions(self)
        return self

    def to_files_options(self, path: str) -> Mapping[str, Any]:
        """Return the settings of the source of files that reads the staged files in a folder."""
        limits = {"max_files": 1_000_000, "max_bytes": self.max_bytes}
        return {**_to_files(self), "path": path, "folder": self.topics, **limits}


def to_table_options(options: KafkaTableOptions) -> Mapping[str, Any]:
    """Return the options of a table as settings of the source of files."""
    return _to_files(options) if options.topics is None else {**_to_files(options), "folder": options.topics}


def _to_files(options: _MessageOptions) -> dict[str, Any]:
    form = {key: getattr(options, key) for key in options.model_fields_set if key in _FILES_KEYS}
    if options.format == ROWS:
        return {**form, "format": ROWS, "operation": {"column": OPERATION, "delete": [DELETE]}}
    return {**form, "format": DEBEZIUM if options.format == AVRO else options.format, "line": "record"}


_FILES_KEYS: Final = {*MessageForm.model_fields, "order_by", "time"}
"""The settings that are passed to the source of files unchanged."""
