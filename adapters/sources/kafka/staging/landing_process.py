"""A process that reads messages into files, while this one applies those before them.

Python runs one thread at a time, and the Kafka client makes several objects for each message. In a thread, landing
would delay reading and applying by the time that it takes.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Final, cast

from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.staging.transfer import Transfer, TransferForm
from lakeward.adapters.sources.kafka.topics import SeveralTopics
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError
from lakeward.core.settings.secrets import Secret, SecretName

_SECONDS_TO_END: Final = 5


@dataclass(frozen=True, slots=True)
class _Request:
    """What the process needs to land a batch. Secrets reach it through a pipe, and `repr` does not show them."""

    options: KafkaOptions
    base: Path
    root: Path
    table: TableName
    ranges: Sequence[OffsetRange]
    size_factor: int | None
    secrets: Mapping[SecretName, bytes] = field(repr=False)

    def land(self) -> Sequence[OffsetRange]:
        """Read messages into files, and return the ranges of the files; raises what `Transfer.run` raises."""
        from lakeward.adapters.sources.kafka.client import KafkaBroker  # noqa: PLC0415  # an optional library

        options = self.options
        broker = SeveralTopics(KafkaBroker(options, self.base, lambda name: Secret(self.secrets[name])))
        form = TransferForm(size_factor=self.size_factor)
        transfer = Transfer(options.max_messages, options.max_bytes, options.max_seconds, form)
        return transfer.run(broker, MessageStaging(self.root), self.table, self.ranges)


@dataclass(slots=True, weakref_slot=True)
class LandingProcess:
    """Lands batches in a process of its own, which starts with the first one and ends with this one.

    One thread at a time may use it.
    """

    options: KafkaOptions
    base: Path
    root: Path
    secret: Callable[[SecretName], Secret]
    _process: subprocess.Popen[bytes] | None = None

    def land(
        self, table: TableName, ranges: Sequence[OffsetRange], size_factor: int | None
    ) -> Sequence[OffsetRange]:
        """Read messages into files, and return the ranges of the files.

        Messages land as lines, or with a `size_factor` as they were sent. Raises SourceError if they cannot be
        read; the process does not send the reason.
        """
        security = self.options.security
        names = [name for name in (security.password, security.key) if name is not None]
        secrets = {name: self.secret(name).reveal() for name in names}
        request = _Request(self.options, self.base, self.root, table, ranges, size_factor, secrets)
        try:
            answer = self._ask(request)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process = None
            answer = None
        if answer is None:
            raise SourceError(
                f"{table}: messages did not land ahead", todo="They are read again when their batch is due."
            )
        return answer

    def _ask(self, request: _Request) -> Sequence[OffsetRange] | None:
        if self._process is None:
            self._process = _start()
            weakref.finalize(self, _end, self._process)
        pipe_in, pipe_out = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        pickle.dump(request, pipe_in)
        pipe_in.flush()
        answer: Sequence[OffsetRange] | None = pickle.load(pipe_out)  # noqa: S301  # our own process writes it
        return answer


def _start() -> subprocess.Popen[bytes]:
    code = f"from {serve.__module__} import serve; serve()"
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    return subprocess.Popen(  # noqa: S603  # our own code
        [sys.executable, "-P", "-c", code],  # -P: the working folder has no modules, unless it has for this process
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that waits for a request, or kill it if it does not end."""
    with process:
        with suppress(OSError, subprocess.TimeoutExpired):
            cast("IO[bytes]", process.stdin).close()
            process.wait(_SECONDS_TO_END)
        process.kill()


def serve() -> None:
    """Carry out the requests on standard input, and write the ranges of each; None where landing failed.

    Ctrl-C of a terminal and SIGTERM of systemd are ignored: they also reach the process that started this one.
    However that ends, standard input is closed then, and this process ends, also within a request.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    requests = SimpleQueue[_Request]()
    Thread(target=_receive, args=(requests,), daemon=True).start()
    while True:
        request = requests.get()
        try:
            ranges = request.land()
        except LakewardError:
            ranges = None
        pickle.dump(ranges, sys.stdout.buffer)
        sys.stdout.flush()


def _receive(requests: SimpleQueue[_Request]) -> None:
    """Receive requests, and end the process where there is no sender any more."""
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))  # noqa: S301  # the process that started this one writes it
    finally:
        os._exit(0)
