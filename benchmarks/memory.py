"""A backlog of messages, drained by a new process: its peak memory may not grow with what waits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import mirror
from feed import TABLE
from gate import WrongRows
from messages import SETTINGS, Messages
from mirror import Mirror, fill_settings
from phases import Measured, Say, Size
from processes import HEAP, Elsewhere

_A_FILE: Final = 125_000
"""The messages of a file, as in phase 15, and the keys of all of them."""

_OF_TABLE: Final = 'lateness = "24h"'
_PEAK: Final = "VmHWM:"
_KIB_A_MIB: Final = 1024


class Weighed(Mirror):
    """lakeward, and the peak memory of its processes."""

    def peaks(self) -> Mapping[str, float]:
        """Return the greatest memory that Python and Java had until now, in MiB (Linux only)."""
        java = max(map(_peak, mirror.below(os.getpid())), default=0.0)
        return {"Python": _peak(os.getpid()), "Java": java}


class Draining(Elsewhere):
    """A process that drains a backlog and is weighed."""

    def __init__(self, settings: Path) -> None:
        super().__init__(partial(Weighed, settings))

    def run(self) -> float:
        """Apply what waits; return the seconds it took."""
        return float(self._ask("run"))

    def peaks(self) -> Mapping[str, float]:
        """Return the greatest memory of each process until now."""
        peaks: Mapping[str, float] = self._ask("peaks")
        return peaks


def backlogs(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """The messages of phase 15 with two numbers of them waiting: the greater backlog to the smaller one."""
    few, many = size.waiting
    say(f"phase 19: {few:,} and {many:,} messages of Debezium waiting, drained by a new process each")
    peaks = {count: _drain(folder / str(count), count, say) for count in (few, many)}
    for name, of_many in peaks[many].items():
        yield Measured(
            what=f"{many:,} messages waiting, to {few:,}: peak memory of {name}",
            theirs=[peaks[few][name]],
            ours=[of_many],
            bound=size.growth,
            is_share=True,
            unit=" MiB",
        )


def _drain(folder: Path, count: int, say: Say) -> Mapping[str, float]:
    """Return the peak memory of a new process that applies so many messages to an empty table."""
    landing = folder / "landing" / TABLE.schema / TABLE.table
    landing.mkdir(parents=True)
    feed = Messages(min(_A_FILE, count))
    feed.write(landing, count, -(-count // _A_FILE))
    settings = fill_settings(folder / "lakeward", SETTINGS, HEAP, of_table=_OF_TABLE, landing=folder / "landing")
    way = Draining(settings)
    try:
        seconds, peaks = way.run(), way.peaks()
        rows, _ = way.checksum()
    finally:
        way.pool.shutdown()
    if not 0 < rows <= feed.keys:
        raise WrongRows(f"{rows:,} rows of {feed.keys:,} keys")
    shutil.rmtree(folder)
    said = ", ".join(f"{name} {peak:,.0f} MiB" for name, peak in peaks.items())
    say(f"  {count:,} messages: {seconds:.1f} s, {said}")
    return peaks


def _peak(process: int) -> float:
    """Return the greatest memory that a process had, in MiB; 0 if it has ended."""
    lines = mirror.read(Path(f"/proc/{process}/status")).splitlines()
    return next((int(line.split()[1]) / _KIB_A_MIB for line in lines if line.startswith(_PEAK)), 0.0)
