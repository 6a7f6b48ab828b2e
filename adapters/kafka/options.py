"""The settings of the source `kafka`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PositiveInt, model_validator

from lakeward.adapters.files.form import MessageForm
from lakeward.adapters.kafka.ranges import NAMES
from lakeward.plugins.options import NamedSecret

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")


def _topics(value: str | None) -> str | None:
    """Return where the messages of a table are; raises ValueError for what cannot be a topic."""
    if value is None:
        return None
    fields = sorted(re.findall(r"\{[^}]*\}", value))
    if fields not in ([], ["{schema}", "{table}"]):
        raise ValueError("must have {schema} and {table} in it, once each, or neither")
    if not _TOPIC.fullmatch(value.replace("{schema}", "s").replace("{table}", "t")):
        raise ValueError("must be the name of a topic: letters, digits, `.`, `_` and `-`")
    return value


def _start(value: str | None) -> str | None:
    """Return where a table begins; raises ValueError for what is no such place."""
    if value not in (None, "earliest", "latest"):
        parse_time(str(value))
    return value


def parse_time(value: str) -> int:
    """Return a time in milliseconds since 1970; raises ValueError for what is none, or has no zone."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError('must be "earliest", "latest" or a time, as "2026-11-21T10:00:00Z"') from error
    if found.tzinfo is None:
        raise ValueError('must have a zone, as "2026-11-21T10:00:00Z"')
    return int((found - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


class SecurityOptions(BaseModel):
    """How the broker is reached: TLS, and who asks."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="What the broker's listener speaks (security.protocol)."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="With SASL: how the password is proved."
    )
    username: str | None = Field(None, description="With SASL: who asks.")
    password: NamedSecret | None = Field(
        None, description='With SASL: where the password is, `{ env = "NAME" }` or `{ file = "PATH" }`.'
    )
    ca_file: str | None = Field(
        None,
        description="With TLS: the certificates that the broker's is signed by (PEM), relative to the settings "
        "file; without it those of the machine.",
    )
    certificate: str | None = Field(
        None, description="With TLS: the client's own certificate (PEM), if it needs one."
    )
    key: NamedSecret | None = Field(None, description="The private key of `certificate` (PEM), as a secret.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        has_sasl = self.protocol.startswith("SASL")
        told = (self.sasl_mechanism, self.username, self.password)
        if has_sasl and None in told:
            raise ValueError("a protocol with SASL takes `sasl_mechanism`, `username` and `password`")
        if not has_sasl and told != (None, None, None):
            raise ValueError("`sasl_mechanism`, `username` and `password` are for a protocol with SASL")
        if not self.protocol.endswith("SSL") and (self.ca_file, self.certificate, self.key) != (None, None, None):
            raise ValueError("`ca_file`, `certificate` and `key` are for a protocol with SSL")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together")
        return self


def _url(value: str | None) -> str | None:
    """Return the address of a registry without a slash at its end; raises ValueError for what is none."""
    if value is None:
        return None
    found = urlsplit(value)
    if found.scheme not in ("http", "https") or not found.hostname or found.query or found.fragment:
        raise ValueError('must be an address, as "https://registry:8081"')
    if "@" in found.netloc:
        raise ValueError("must have no login in it: set `username` and `password`")
    return value.rstrip("/")


class RegistryOptions(BaseModel):
    """The registry that has the schemas of messages in Avro."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["confluent", "glue"] = Field(
        "confluent",
        description="Whether it is one of Confluent, or one that answers as it does, or the Glue Schema Registry "
        "of AWS. The latter takes `pip install 'lakeward[glue]'` and no further keys: it is reached as the AWS "
        "command line reaches it.",
    )
    url: Annotated[str | None, AfterValidator(_url)] = Field(
        None,
        description="Where that of Confluent is, with the path of its API if it has one, as "
        "`http://registry:8080/apis/ccompat/v7` of Apicurio.",
    )
    username: str | None = Field(None, description="Who asks, where it wants to know (HTTP Basic).")
    password: NamedSecret | None = Field(
        None, description='Where the password is, `{ env = "NAME" }` or `{ file = "PATH" }`.'
    )
    ca_file: str | None = Field(
        None,
        description="The certificates that the registry's is signed by (PEM), relative to the settings file; "
        "without it those that come with Python's `certifi`.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.url is None) != (self.kind == "glue"):
            raise ValueError("a registry of Confluent takes `url`, and that of AWS takes none")
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if self.kind == "glue" and (self.username, self.ca_file) != (None, None):
            raise ValueError("`username`, `password` and `ca_file` are for a registry of Confluent")
        if self.ca_file is not None and not str(self.url).startswith("https:"):
            raise ValueError("`ca_file` is for an address that begins with https")
        return self


AVRO: Final = "debezium-avro"
"""The format of messages that land as those of `debezium`, once they are decoded."""


class _Messages(MessageForm):
    """What messages are."""

    format: Literal["debezium", "debezium-avro", "dms-json"] = Field(
        "debezium",
        description="What messages are: those of Debezium as JSON, or in Avro with a registry, or those of AWS DMS "
        "as JSON.",
    )


class KafkaTableOptions(_Messages):
    """What is so for the messages of one table alone, where it is not as [source] says."""

    topics: Annotated[str | None, AfterValidator(_topics)] = Field(None, description="The topic of this table.")


class _Where(BaseModel):
    """Which broker and topics are read; the table of settings begins with it."""

    servers: str = Field(
        pattern=r"^[^\s,]+:\d+(,[^\s,]+:\d+)*$",
        description="Where the broker is, as `kafka-1:9092,kafka-2:9092` (bootstrap.servers).",
    )
    topics: Annotated[str, AfterValidator(_topics)] = Field(
        description="The topic of a table, as `shop.{schema}.{table}`. Without {schema} and {table} all tables "
        "read one topic, and each takes the messages that name it."
    )
    start: Annotated[str | None, AfterValidator(_start)] = Field(
        None,
        description='Where a table begins that has no batch yet: `"earliest"` (what is still there), `"latest"` '
        '(what comes from now on), or a time, as `"2026-11-21T10:00:00Z"`. Without it a topic is read from its '
        "beginning, and one whose beginning is gone stops its table.",
    )
    group: str | None = Field(
        None,
        min_length=1,
        description="A consumer group that is told after each commit how far its topic is applied, for monitors "
        "of lag; may have {schema} and {table}. It is never asked.",
    )
    security: SecurityOptions = Field(
        default_factory=SecurityOptions, description="TLS and SASL; see `[source.security]`."
    )
    registry: RegistryOptions | None = Field(
        None, description='With `format = "debezium-avro"`: what has the schemas; see `[source.registry]`.'
    )


class KafkaOptions(_Messages, _Where):
    """Messages from topics of Kafka."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str | None = Field(
        None,
        description="The folder in which messages lie as files until they are applied, relative to the settings "
        "file; by default `kafka` in the folder `state`.",
    )
    landing: Literal["removed", "kept"] = Field(
        "removed", description="What becomes of these files once they are applied."
    )
    max_messages: PositiveInt = Field(1_000_000, description="How many messages one batch takes at the most.")
    max_bytes: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        description="How many bytes of messages one batch takes at the most (at least one message), as 256MiB.",
    )
    max_seconds: PositiveInt = Field(
        60, description="After so many seconds a batch takes no further messages from the broker."
    )
    timeout: PositiveInt = Field(30, description="Seconds without an answer after which the broker counts as away.")

    def to_files_options(self, path: str) -> Mapping[str, Any]:
        """Return the settings of the source of files that reads what lands in a folder."""
        limits = {"max_files": 1_000_000, "max_bytes": self.max_bytes}
        return {**_to_files(self), "path": path, "folder": self.topics, **limits}


def to_table_options(own: KafkaTableOptions) -> Mapping[str, Any]:
    """Return what a table says of itself as settings of the source of files."""
    told = {key: value for key, value in _to_files(own).items() if key != "names"}
    return told if own.topics is None else {**told, "folder": own.topics}


def _to_files(said: _Messages) -> dict[str, Any]:
    form = {key: getattr(said, key) for key in said.model_fields_set if key in MessageForm.model_fields}
    has_format = isinstance(said, KafkaOptions) or "format" in said.model_fields_set
    told = {"format": "debezium" if said.format == AVRO else said.format} if has_format else {}
    return {**form, **told, "line": "record", "names": NAMES}
