"""The client, against a broker that runs: what of a topic it tells, and what it says where it gets no answer."""

from __future__ import annotations

import json
import os
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from brokers import PASSWORD, SASL, RunningBroker
from servers import free_port

from lakeward.adapters.sources.kafka.broker import Broker, Offsets, Record
from lakeward.adapters.sources.kafka.msk_tokens import MskTokens
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.errors import ConfigError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret, SecretName

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.client import KafkaBroker


def client(servers: str, secret: str = PASSWORD, **options: Any) -> KafkaBroker:
    from lakeward.adapters.sources.kafka.client import KafkaBroker  # noqa: PLC0415  # line 3.5 has no client

    def read(name: SecretName) -> Secret:
        assert str(name) == "env:WORD"
        return Secret(secret.encode())

    settings = KafkaOptions.model_validate({"servers": servers, "topics": "{schema}.{table}", **options})
    return KafkaBroker(settings, Path(), read)


def values(broker: Broker, topic: str, start: int = 0, end: int | None = None) -> list[tuple[int, bytes | None]]:
    found = broker.find(topic)
    assert found is not None
    read = broker.read(topic, 0, start, found.partitions[0].high if end is None else end)
    return [(one.offset, one.value) for one in chain.from_iterable(read)]


def test_a_topic_is_told_with_its_offsets(kafka_broker: RunningBroker) -> None:
    broker = client(kafka_broker.servers)
    kafka_broker.create("told", partitions=2)
    kafka_broker.send("told", b"a", b"b", partition=1)
    found = broker.find("told")
    assert found is not None
    assert (found.name, dict(found.partitions)) == ("told", {0: Offsets(0, 0), 1: Offsets(0, 2)})
    assert re.fullmatch(r"[\w-]{22}", found.id)
    assert "told" in broker.topics()
    assert broker.find("never.made") is None
    kafka_broker.create("told", partitions=1)
    anew = broker.find("told")
    assert anew is not None
    assert (anew.id == found.id, dict(anew.partitions)) == (False, {0: Offsets(0, 0)})


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("S+5oknnHTFS3Szv2hj/adw", "S-5oknnHTFS3Szv2hj_adw"),
        ("AAAAAAAAAAAAAAAAAAAAAA", "none"),
        (None, "none"),
    ],
)
def test_the_id_of_a_topic_may_stand_in_a_name(told: str | None, found: str) -> None:
    pytest.importorskip("confluent_kafka")
    from lakeward.adapters.sources.kafka.client import _topic_id  # noqa: PLC0415

    assert _topic_id(told) == found


def test_messages_come_as_they_were_sent(kafka_broker: RunningBroker) -> None:
    kafka_broker.create("sent")
    headers = [("h", b"1"), ("h", None), ("i", b"\xff")]
    kafka_broker.send("sent", b"v\xff", key=b"k", headers=headers, timestamp=1_700_000_000_000)
    kafka_broker.send("sent", None, key=b"k", timestamp=1_700_000_001_000)
    kafka_broker.send("sent", b"", timestamp=1_700_000_002_000)
    broker = client(kafka_broker.servers)
    assert [*chain.from_iterable(broker.read("sent", 0, 0, 3))] == [
        Record(0, 1_700_000_000_000, b"k", b"v\xff", (("h", b"1"), ("h", None), ("i", b"\xff"))),
        Record(1, 1_700_000_001_000, b"k", None),
        Record(2, 1_700_000_002_000, None, b""),
    ]
    assert values(broker, "sent", 1, 2) == [(1, None)]
    assert broker.offsets_at("sent", [0], 1_700_000_000_500) == {0: 1}
    assert broker.offsets_at("sent", [0], 1_800_000_000_000) == {}


def test_what_no_transaction_committed_is_not_read(kafka_broker: RunningBroker) -> None:
    kafka_broker.create("transactions")
    broker = client(kafka_broker.servers)
    producer = kafka_broker.producer(**{"transactional.id": "one"})
    producer.init_transactions(20)
    for value, is_committed in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(10)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(10)
    found = broker.find("transactions")
    assert found is not None
    assert found.partitions[0] == Offsets(0, 8)  # each transaction ends with a marker
    assert values(broker, "transactions") == [(0, b"a"), (4, b"c")]
    assert values(broker, "transactions", 6) == []
    producer.begin_transaction()
    producer.produce("transactions", b"e")
    producer.flush(10)
    found = broker.find("transactions")
    assert found is not None
    assert found.partitions[0].high == 8, "a transaction that goes on counts"
    producer.abort_transaction(10)


def test_an_offset_that_is_gone_is_never_passed_over(kafka_broker: RunningBroker) -> None:
    kafka_broker.create("gone")
    kafka_broker.send("gone", *[b"x"] * 10)
    kafka_broker.delete_before("gone", 6)
    broker = client(kafka_broker.servers)
    found = broker.find("gone")
    assert found is not None
    assert found.partitions[0] == Offsets(6, 10)
    with pytest.raises(SourceError, match="deleted while they were read"):
        list(broker.read("gone", 0, 2, 10))
    with pytest.raises(SourceError):
        list(broker.read("gone", 0, 12, 14))


def test_a_group_is_told(kafka_broker: RunningBroker) -> None:
    kafka_broker.create("group", partitions=2)
    assert not kafka_broker.committed_offsets("monitors", "group"), "this waits for the coordinator of groups"
    client(kafka_broker.servers).commit_offsets("monitors", "group", {0: 5, 1: 7})
    assert kafka_broker.committed_offsets("monitors", "group") == {0: 5, 1: 7}


def test_offsets_that_the_broker_refuses_are_an_error(kafka_broker: RunningBroker) -> None:
    """It answers for each partition: here there is no such one, or a consumer of the group is at work."""
    kafka_broker.create("refused")
    with pytest.raises(SourceError, match="does not take offsets of the consumer group monitors"):
        client(kafka_broker.servers).commit_offsets("monitors", "refused", {7: 1})


def test_a_broker_that_is_away_is_tried_again_later() -> None:
    broker = client(f"127.0.0.1:{free_port()}", timeout=1)
    with pytest.raises(StoreUnreachable, match="does not answer") as raised:
        broker.find("any")
    assert raised.value.retryable


def test_certificates_that_cannot_be_read_are_a_mistake_in_the_settings() -> None:
    pytest.importorskip("confluent_kafka")
    broker = client("127.0.0.1:1", security={"protocol": "SSL", "ca_file": "not-there.pem"})
    with pytest.raises(ConfigError, match=r"source\.security"):
        broker.topics()


def unsigned() -> tuple[str, int]:
    """Return a token that the broker of tests believes, and until when in milliseconds, as the library does."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": "reader", "iat": now, "exp": now + 600}
    head, claims = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{claims}.", int((now + 600) * 1000)


IAM: Mapping[str, Any] = {"protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM", "region": "eu-central-1"}


def by_iam(servers: str, **options: Any) -> Broker:
    """Return a client that signs in by tokens, at a listener without TLS: settings name none."""
    found = client(servers, security=IAM, **options)
    security = found.options.security.model_copy(update={"protocol": "SASL_PLAINTEXT"})
    found.options = found.options.model_copy(update={"security": security})
    return found


def test_a_broker_is_read_with_tokens_that_iam_signs(
    kafka_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of tests believes tokens which nobody signed, and none that AWS signs."""
    provider = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    kafka_broker.create("iam")
    kafka_broker.send("iam", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "word of aws")
    token, until = MskTokens("eu-central-1").token()
    signed = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert signed.startswith("https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert 0 < until - time.time() <= 900
    refused = by_iam(kafka_broker.guarded, timeout=3)
    with pytest.raises(ConfigError, match="refuses access") as raised:
        refused.find("iam")
    assert "word of aws" not in str(raised.value)
    monkeypatch.setattr(provider, "generate_auth_token", lambda region: {"eu-central-1": unsigned()}[region])
    assert values(by_iam(kafka_broker.guarded), "iam") == [(0, b"x")]


def test_without_credentials_no_token_is_signed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match="no credentials"):
        client("127.0.0.1:1", security=IAM).topics()


def test_a_password_is_proved_and_never_shown(kafka_broker: RunningBroker) -> None:
    kafka_broker.create("guarded")
    kafka_broker.send("guarded", b"x")
    assert values(client(kafka_broker.guarded, security=SASL), "guarded") == [(0, b"x")]
    wrong = client(kafka_broker.guarded, "another word", security=SASL, timeout=3)
    with pytest.raises(ConfigError, match="refuses access") as raised:
        wrong.find("guarded")
    assert "another word" not in str(raised.value) + repr(wrong)


def test_a_password_that_was_changed_is_read_again_once(kafka_broker: RunningBroker) -> None:
    """By whatever is asked first; one that is still wrong is not tried for ever."""
    kafka_broker.create("changed")
    kafka_broker.send("changed", b"x")

    def having(*words: str) -> tuple[KafkaBroker, list[str]]:
        # A refusal is told once the time is over: long enough for a machine that is busy.
        found, rest = client(kafka_broker.guarded, security=SASL, timeout=5), [*words]
        found.secret = lambda _: Secret(rest.pop(0).encode())
        return found, rest

    broker, rest = having("old", PASSWORD)
    assert (values(broker, "changed"), rest) == ([(0, b"x")], [])
    broker, rest = having("old", PASSWORD)
    readers = [broker.read("changed", 0, 0, 1) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        found = [one.value for read in pool.map(list, readers) for records in read for one in records]
    assert (found, rest) == ([b"x", b"x"], []), "both were refused, and one of them asked"
    broker, rest = having("old", "older", "never asked for")
    with pytest.raises(ConfigError, match="refuses access"):
        broker.find("changed")
    assert rest == ["never asked for"]
