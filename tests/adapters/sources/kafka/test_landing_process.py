"""The process in which messages land, beside the one that applies them."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from types import SimpleNamespace
from typing import IO, Any, Final, cast

import pytest
from brokers import PASSWORD, SASL, RunningBroker

from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.adapters.sources.kafka.staging import landing_process
from lakeward.adapters.sources.kafka.staging.landing_process import LandingProcess, serve
from lakeward.adapters.sources.kafka.staging.raw_messages import AVRO_FACTOR, is_raw, read_records
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.settings.secrets import Secret

TABLE: Final = TableName("shop", "orders")


def process(folder: Path, servers: str, **options: Any) -> LandingProcess:
    settings = KafkaOptions.model_validate({"servers": servers, "topics": "{schema}.{table}", **options})
    return LandingProcess(settings, folder, folder, lambda _: Secret(PASSWORD.encode()))


def lander_of_message(folder: Path, broker: RunningBroker, topic: str) -> tuple[LandingProcess, OffsetRange]:
    """Return a process that has landed the one message of a new topic, and the range of the message."""
    broker.create(topic)
    broker.send(topic, b"a")
    lander, wanted = process(folder, broker.servers), OffsetRange(topic, "id", 0, 0, 1)
    assert lander.land(TABLE, [wanted], None) == [wanted]
    return lander, wanted


def started_by(lander: LandingProcess) -> subprocess.Popen[bytes]:
    assert lander._process is not None
    return lander._process


def staged(folder: Path, ranges: Sequence[OffsetRange]) -> list[Path]:
    return [folder / "shop" / "orders" / one.name for one in ranges]


def test_messages_land_as_lines_and_as_they_were_sent(tmp_path: Path, kafka_broker: RunningBroker) -> None:
    kafka_broker.create("landed")
    for number in range(3):
        kafka_broker.send("landed", b"\xff%d" % number)
    lander, wanted = process(tmp_path, kafka_broker.servers), OffsetRange("landed", "id", 0, 0, 2)
    (raw,) = staged(tmp_path, lander.land(TABLE, [wanted], AVRO_FACTOR))
    values = [record.value for record in chain.from_iterable(read_records(raw))]
    (lines,) = staged(tmp_path, lander.land(TABLE, [replace(wanted, start=2, end=3)], None))
    assert (is_raw(raw), values, is_raw(lines)) == (True, [b"\xff0", b"\xff1"], False)
    assert b'"offset":2' in lines.read_bytes()


def test_it_logs_in_with_secrets_that_it_does_not_show(tmp_path: Path, kafka_broker: RunningBroker) -> None:
    kafka_broker.create("guarded")
    kafka_broker.send("guarded", b"a")
    lander = process(tmp_path, kafka_broker.guarded, security=SASL)
    (file,) = staged(tmp_path, lander.land(TABLE, [OffsetRange("guarded", "id", 0, 0, 1)], None))
    assert file.exists()
    started = started_by(lander)
    command = Path(f"/proc/{started.pid}/cmdline").read_bytes() + Path(f"/proc/{started.pid}/environ").read_bytes()
    assert PASSWORD.encode() not in command
    assert PASSWORD not in repr(lander)


def test_what_cannot_be_read_is_an_error_and_the_next_batch_lands(
    tmp_path: Path, kafka_broker: RunningBroker
) -> None:
    lander, wanted = lander_of_message(tmp_path, kafka_broker, "cut")
    with pytest.raises(SourceError, match="did not land ahead"):
        lander.land(TABLE, [replace(wanted, end=2)], None)
    assert lander.land(TABLE, [wanted], None) == [wanted]


def test_another_process_takes_the_place_of_one_that_was_killed(
    tmp_path: Path, kafka_broker: RunningBroker
) -> None:
    lander, wanted = lander_of_message(tmp_path, kafka_broker, "killed")
    started = started_by(lander)
    started.kill()
    started.wait()
    with pytest.raises(SourceError, match="did not land ahead"):
        lander.land(TABLE, [wanted], None)
    assert lander.land(TABLE, [wanted], None) == [wanted]


def test_signals_for_all_processes_do_not_end_it(tmp_path: Path, kafka_broker: RunningBroker) -> None:
    lander, wanted = lander_of_message(tmp_path, kafka_broker, "signalled")
    started = started_by(lander)
    for sent in (signal.SIGINT, signal.SIGTERM):
        started.send_signal(sent)
    assert lander.land(TABLE, [wanted], None) == [wanted]


def test_it_does_not_import_modules_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "structlog.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    started = landing_process._start()
    started.communicate()
    assert started.returncode == 0


def test_it_ends_with_the_other_process(tmp_path: Path, kafka_broker: RunningBroker) -> None:
    lander, _ = lander_of_message(tmp_path, kafka_broker, "ended")
    started = started_by(lander)
    del lander
    assert started.returncode == 0


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing_process, "_SECONDS_TO_END", 0.1)
    started = landing_process._start()
    started.send_signal(signal.SIGSTOP)
    ending = Thread(target=landing_process._end, args=(started,), daemon=True)
    ending.start()
    ending.join(10)
    has_ended = not ending.is_alive()
    started.kill()
    assert has_ended


def test_it_ends_within_a_request(tmp_path: Path) -> None:
    """The process that started it was killed, and no broker answers."""
    with socket.create_server(("localhost", 0)) as silent:
        lander = process(tmp_path, f"localhost:{silent.getsockname()[1]}", timeout=60)
        asked = Thread(target=lander.land, args=(TABLE, [OffsetRange("orders", "id", 0, 0, 1)], None), daemon=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading, "excepthook", lambda _: None)  # messages did not land ahead
            asked.start()
            silent.accept()
            started = started_by(lander)
            cast("IO[bytes]", started.stdin).close()
            assert started.wait(20) == 0
            asked.join()


def test_a_request_that_fails_is_answered_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one is carried out. The process ends with the requests."""
    answers, has_ended = SimpleQueue[bytes](), Event()
    requests = b"".join(map(pickle.dumps, [_Failing(), _Failing()]))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "_exit", lambda _: has_ended.set())
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # there is no third request
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(requests)))
    output = SimpleNamespace(write=answers.put)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output, flush=lambda: None))
    Thread(target=serve, daemon=True).start()
    assert [pickle.loads(answers.get(timeout=10)) for _ in range(2)] == [None, None]  # noqa: S301  # written above
    assert has_ended.wait(10)


class _Failing:
    """A request for messages that cannot be read."""

    def land(self) -> None:
        raise SourceError("not there")
