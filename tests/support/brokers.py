"""A Kafka broker of the tests (KRaft, one process).

A lock file next to this module pins its jars and those of Kafka Connect, and `make servers` fetches them. Without
the jars or Java the test is skipped. With `LAKEWARD_SERVERS=required`, which the gate sets, it
fails.
"""

from __future__ import annotations

import os
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from servers import find_java, free_port, give_up, running

from lakeward.adapters.spark.session.jars import Jar, fetch
from lakeward.core.errors import SetupError

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{guarded},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{guarded},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,OAUTHBEARER
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=\\
  org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";
listener.name.sasl_plaintext.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="kafka secret word";
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
log.cleaner.threads=1
num.network.threads=2
num.io.threads=2
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=1500
"""

_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
QUICK = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options for a fast start rather than high speed."""
PASSWORD = "kafka secret word"  # noqa: S105  # of a broker that lives for a test
SASL: Mapping[str, Any] = {
    "protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "username": "reader",
    "password": "env:WORD",
}
"""The settings of `security` that log in at the guarded address with that password."""


@dataclass
class RunningBroker:
    """A running broker: its addresses without a password, and with that of user `reader`."""

    servers: str
    guarded: str
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415  # the line of Spark 3.5 has no client

        return self._clients.setdefault("admin", AdminClient({"bootstrap.servers": self.servers, "log_level": 0}))

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic, or delete and create it again."""
        from confluent_kafka.admin import NewTopic  # noqa: PLC0415

        if topic in self.admin.list_topics(timeout=10).topics:
            self.delete(topic)
        config = {name.replace("_", "."): value for name, value in settings.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(10)
        self._wait(topic, partitions)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic], operation_timeout=10)[topic].result(10)
        self._wait(topic, 0)

    def _wait(self, topic: str, partitions: int) -> None:
        """Wait until the broker reports the current state of a topic: its first answer may be older."""
        for _ in range(200):
            found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
            if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} has not {partitions} partitions")

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete messages, as retention does."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        (result,) = self.admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        result.result(10)

    def producer(self, **settings: Any) -> Any:
        from confluent_kafka import Producer  # noqa: PLC0415

        return Producer({"bootstrap.servers": self.servers, "linger.ms": 0, **settings})

    def send(self, topic: str, *values: bytes | None, partition: int = 0, **message: Any) -> None:
        producer = self._clients.setdefault("producer", self.producer())
        for value in values:
            producer.produce(topic, value, partition=partition, **message)
        assert producer.flush(10) == 0

    def committed_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the committed offsets of a consumer group for a topic."""
        from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415

        (result,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return {one.partition: one.offset for one in result.result(10).topic_partitions if one.topic == topic}


class Archive(Jar):
    """An archive of all jars of a server, whose artifact has the classifier `all`."""

    @property
    def file(self) -> str:
        return super().file.removesuffix(".jar") + "-all.tar.gz"


def read_locks() -> list[Jar]:
    """Return the jars of all servers of the tests. `needed_by` has the servers of each."""
    locks = [tomllib.loads(file.read_text("utf-8")) for file in sorted(Path(__file__).parent.glob("*-jars.toml"))]
    archives = [Archive(**one) for lock in locks for one in lock.get("archive", ())]
    return [*archives, *(Jar(**one) for lock in locks for one in lock["jar"])]


def fetch_jars(needed_by: str) -> list[Path]:
    """Return the jars of a server, fetched if the cache lacks them. Without them the test is skipped."""
    try:
        return [fetch(jar) for jar in read_locks() if jar.needed_by == needed_by]
    except SetupError as error:
        give_up(str(error))


@contextmanager
def kafka(folder: Path) -> Iterator[RunningBroker]:
    """Start a broker in a folder."""
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import KafkaException  # noqa: PLC0415

    java, path = find_java(), os.pathsep.join(map(str, fetch_jars("broker")))
    ports = {name: free_port() for name in ("port", "guarded", "controller")}
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(data=folder / "data", **ports), "utf-8")
    quick = [java, *QUICK]
    storage = [*quick, "-Xmx128m", "-cp", path, "kafka.tools.StorageTool", "format", "--standalone"]
    subprocess.run([*storage, "-t", _CLUSTER, "-c", str(settings)], check=True, capture_output=True)
    start = [*quick, "-Xms128m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", path]
    made = RunningBroker(f"127.0.0.1:{ports['port']}", f"127.0.0.1:{ports['guarded']}")

    def answers() -> bool:
        try:
            return bool(made.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    with running([*start, "kafka.Kafka", str(settings)], folder / "broker.log", answers):
        yield made


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with kafka(tmp_path_factory.mktemp("kafka")) as made:
        yield made


if __name__ == "__main__":
    for locked in read_locks():
        fetch(locked)  # `make servers` does it
