"""Kafka Connect with Debezium's connectors, in one process of the tests.

Its jars are pinned and fetched like those of the broker (`brokers`).
"""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from brokers import QUICK, RunningBroker, fetch_jars
from registries import Registry
from servers import ANSWER, PATIENCE, Server, find_java, free_port, running

CONVERTERS = {
    "avro": "io.apicurio.registry.utils.converter.AvroConverter",
    "glue-avro": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
}
PLUGINS = ("debezium-postgres", "debezium-mariadb", *CONVERTERS)
"""The plugins of Connect, each in its own folder, because their libraries differ in version."""
SIDES = ("key.converter", "value.converter")
NAMES_OF_AVRO = {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}

_WORKER = """
bootstrap.servers={broker}
listeners=http://127.0.0.1:{port}
plugin.path={plugins}
plugin.discovery=service_load
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
topic.creation.enable=true
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
"""

POSTGRESQL = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "slot.drop.on.stop": "true",
}
MARIADB = {
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
    "database.ssl.mode": "disable",
    "snapshot.locking.mode": "none",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
}
SENT = {
    "skipped.operations": "none",
    "provide.transaction.metadata": "true",
    "heartbeat.interval.ms": "500",
    "poll.interval.ms": "50",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "1",
}
"""Settings of both connectors: send everything, and soon."""


@dataclass(frozen=True)
class Connect:
    """A running worker of Connect: the address of its REST API, its broker, and the folder of its files."""

    url: str
    servers: str
    folder: Path

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a connector, and return once its task runs."""
        made = requests.put(f"{self.url}/connectors/{name}/config", json=dict(settings), timeout=60)
        assert made.status_code == 201, made.text
        until = time.monotonic() + PATIENCE
        while (states := self.states(name)) != ["RUNNING", "RUNNING"]:
            assert "FAILED" not in states, f"{name} failed: {(self.folder / 'connect.log').read_text()[-3000:]}"
            assert time.monotonic() < until, f"{name} does not run: {states}"
            time.sleep(0.05)

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks."""
        asked = requests.get(f"{self.url}/connectors/{name}/status", timeout=60)
        if asked.status_code == 404:  # it is not known at once
            return []
        answer = asked.json()
        return [answer["connector"]["state"], *[task["state"] for task in answer["tasks"]]]

    def stop(self, name: str) -> None:
        requests.delete(f"{self.url}/connectors/{name}", timeout=60).raise_for_status()

    def of_postgresql(self, server: Server, name: str, schema: str = "shop", **more: str) -> dict[str, str]:
        """Return the settings of a connector that sends a schema to topics that begin with its name."""
        settings = {"database.dbname": "postgres", "schema.include.list": schema, "slot.name": name}
        return {**POSTGRESQL, **_reach(server, name), **SENT, **settings, "publication.name": name} | more

    def of_mariadb(self, server: Server, name: str, database: str = "shop", **more: str) -> dict[str, str]:
        """Return the settings of a connector that sends the tables of a database."""
        history = {"schema.history.internal.file.filename": str(self.folder / f"{name}.history")}
        settings = {"database.server.id": "5555", "database.include.list": database}
        return {**MARIADB, **_reach(server, name), **SENT, **settings, **history} | more


def in_avro(registry: Registry) -> dict[str, str]:
    """Return the settings of a connector that writes Avro with a registry, as Confluent's converter does."""
    settings = {
        "apicurio.registry.url": registry.of_converter,
        "apicurio.registry.auto-register": "true",
        "apicurio.registry.find-latest": "false",
        "apicurio.registry.headers.enabled": "false",
        "apicurio.registry.as-confluent": "true",
        "apicurio.registry.use-id": "contentId",
    }
    return NAMES_OF_AVRO | _convert("avro", settings)


def in_glue_avro(endpoint: str, registry: str) -> dict[str, str]:
    """Return the settings of a connector that writes Avro with a Glue Schema Registry, both sides."""
    settings = {
        "region": "eu-central-1",
        "endpoint": endpoint,
        "registry.name": registry,
        "schemaAutoRegistrationEnabled": "true",
        "avroRecordType": "GENERIC_RECORD",
        "compatibility": "NONE",
        "compression": "ZLIB",
    }
    return NAMES_OF_AVRO | _convert("glue-avro", settings)


def _convert(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    options = {f"{side}.{key}": value for side in SIDES for key, value in settings.items()}
    return dict.fromkeys(SIDES, CONVERTERS[name]) | options


def _reach(server: Server, name: str) -> dict[str, str]:
    """Return the settings with the address of a database and the prefix of its topics."""
    at = urlsplit(server.url.removeprefix("jdbc:"))
    login = {"database.user": server.user, "database.password": server.password}
    return {"topic.prefix": name, "database.hostname": str(at.hostname), "database.port": str(at.port), **login}


@contextmanager
def connect(folder: Path, broker: RunningBroker) -> Iterator[Connect]:
    """Start a worker of Connect in a folder, without a connector."""
    java, path = find_java(), os.pathsep.join(map(str, fetch_jars("connect")))
    _place_plugins(folder / "plugins")
    port, settings, log = free_port(), folder / "worker.properties", folder / "connect.log"
    where = {"plugins": folder / "plugins", "folder": folder}
    settings.write_text(_WORKER.format(broker=broker.servers, port=port, **where), "utf-8")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    login = ("-Daws.accessKeyId=a-test", "-Daws.secretAccessKey=a-secret")  # moto checks neither
    start = [java, *QUICK, "-Xms128m", "-Xmx512m", quiet, *login, "-cp", path]
    made = Connect(f"http://127.0.0.1:{port}", broker.servers, folder)

    def answers() -> bool:
        try:
            return requests.get(made.url, timeout=ANSWER).ok
        except requests.RequestException:
            return False

    with running([*start, "org.apache.kafka.connect.cli.ConnectStandalone", str(settings)], log, answers):
        yield made


def _place_plugins(folder: Path) -> None:
    for name in PLUGINS:
        (folder / name).mkdir(parents=True)
        for jar in fetch_jars(name):
            (folder / name / jar.name).symlink_to(jar)
    # The jars of converters do not list them as services. To have Connect look for them in all classes takes long.
    for name, converter in CONVERTERS.items():
        with zipfile.ZipFile(folder / name / "services.jar", "w") as services:
            services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", converter)


@pytest.fixture(scope="session")
def kafka_connect(kafka_broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    with connect(tmp_path_factory.mktemp("connect"), kafka_broker) as made:
        yield made
