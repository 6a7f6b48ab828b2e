"""A topic that `lakeward run --follow` keeps up with: how long until a message is a row, and that it stays so."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from threading import Thread
from typing import Any, Final

from cold import LAKEWARD
from feed import KEY, TABLE
from gate import WrongRows
from messages import changes
from mirror import fill_settings
from phases import Measured, Say, Size
from processes import HEAP
from readers import Read

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import brokers

_A_SECOND: Final = 1_000
_KEYS: Final = 100_000
_PAUSE: Final = 0.01
_OF_TABLE: Final = 'lateness = "24h"'
_SETTINGS: Final = """
[pipeline]
name = "benchmark"
poll = "1s"
[source]
kind = "kafka"
servers = "{servers}"
topics = "live.{{schema}}.{{table}}"
decimals = "string"
"""


def followed_topic(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """A thousand changes a second for minutes: from the broker to the visible row, and that it does not grow."""
    count = _A_SECOND * size.seconds
    say(f"phase 16: {_A_SECOND:,} changes a second for {size.seconds} s, followed")
    with tempfile.TemporaryDirectory(prefix="lw") as made, brokers.kafka(Path(made)) as broker:
        broker.create(f"live.{TABLE}")
        settings = fill_settings(folder, _SETTINGS, HEAP, of_table=_OF_TABLE, servers=broker.servers)
        lines = [line.rstrip() for line in changes(_KEYS, count)]  # as Debezium sends them
        follower = _Follower(settings)
        _send(broker, lines[:1], follower.sent)  # it is started, and the table is there, before anything counts
        follower.wait_for(1)
        _send(broker, lines[1:], follower.sent)
        follower.wait_for(count)
        follower.end()
    _check(settings, lines)
    times = follower.latencies()[1:]
    third = len(times) // 3
    say(f"  {len(follower.seen):,} commits; seconds to a visible row, p50 and p99: {_words(times)}")
    say(f"  the second third {_words(times[third : 2 * third])}, the last {_words(times[2 * third :])}")
    for name, number in (("p50", 49), ("p99", 98)):
        before, last = (quantiles(some, n=100)[number] for some in (times[third : 2 * third], times[2 * third :]))
        what = f"{_A_SECOND:,} changes a second for {size.seconds} s: {name} to the row, last third to second"
        yield Measured(what=what, theirs=[before], ours=[last], bound=size.drift, is_share=True)


def _words(times: Sequence[float]) -> str:
    cut = quantiles(times, n=100)
    return f"{cut[49]:.2f} and {cut[98]:.2f}"


class _Follower:
    """`lakeward run --follow` in a process of its own; its log says when how many messages were committed."""

    def __init__(self, settings: Path) -> None:
        self.sent: list[float] = []
        self.seen: list[tuple[float, int]] = []
        self.said: list[str] = []
        command = [str(LAKEWARD), "run", "--follow", "--log", "json", "--config", str(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.reader = Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.said.append(line)
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "committed":
                before = self.seen[-1][1] if self.seen else 0
                self.seen.append((time.time(), before + event["read"]))

    def wait_for(self, count: int) -> None:
        """Wait until so many messages are committed."""
        while not self.seen or self.seen[-1][1] < count:
            if self.process.poll() is not None:
                raise WrongRows(f"it ended: {''.join(self.said[-5:])}")
            time.sleep(_PAUSE)

    def end(self) -> None:
        """End it as a person does."""
        self.process.terminate()
        self.process.wait(60)
        self.reader.join()

    def latencies(self) -> list[float]:
        """Return the seconds from when each message was sent to when its commit was said, in their order."""
        ends = [count for _, count in self.seen]
        return [self.seen[bisect_right(ends, at)][0] - sent for at, sent in enumerate(self.sent)]


def _send(broker: Any, lines: Sequence[bytes], sent: list[float]) -> None:
    """Send so many a second, and note when each was given to the broker."""
    producer, began, done = broker.producer(**{"linger.ms": 5}), time.time(), 0
    while done < len(lines):
        due = min(len(lines), int((time.time() - began) * _A_SECOND) + 1)
        for line in lines[done:due]:
            producer.produce(f"live.{TABLE}", line, partition=0)
            sent.append(time.time())
        done = due
        producer.poll(0)
        time.sleep(_PAUSE)
    if producer.flush(30):
        raise WrongRows("messages did not reach the broker")


def _check(settings: Path, lines: Sequence[bytes]) -> None:
    """Raise WrongRows where the table does not have the last change of each key."""
    expected: dict[int, str] = {}
    for line in lines:
        message: Mapping[str, Any] = json.loads(line)
        if message["op"] == "d":
            expected.pop(message["before"][KEY], None)
        else:
            expected[message["after"][KEY]] = message["after"]["note"]
    rows = Read(settings, TABLE).rows()
    found = dict(zip(rows.column(KEY).to_pylist(), rows.column("note").to_pylist(), strict=True))
    if found != expected or rows.num_rows != len(expected):
        raise WrongRows(f"{rows.num_rows:,} rows, expected {len(expected):,}")
