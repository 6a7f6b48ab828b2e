"""`make bench`: lakeward against the naive job, as ratios; fails where a target is missed.

python benchmarks/run.py [--phase 1,2,…,19] [--quick] [--json] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from avro_topic import avro_messages
from backlog import ticketing
from formats import formats
from histories import histories
from loads import full_loads
from memory import backlogs
from messages import messages
from phases import FULL, PHASES, QUICK, Measured, Say, Size, gate
from processes import HEAP
from rich.console import Console
from rich.table import Table
from sizes import big_file, many_tables, one_application
from small import followed, small_batches
from snapshots import snapshots
from soak import soak
from topics import followed_topic

ALL = {
    **PHASES,
    5: soak,
    6: many_tables,
    7: big_file,
    8: one_application,
    9: formats,
    10: histories,
    11: small_batches,
    12: full_loads,
    13: followed,
    14: snapshots,
    15: messages,
    16: followed_topic,
    17: ticketing,
    18: avro_messages,
    19: backlogs,
}


def main() -> int:
    """Measure, report, and return 1 where a target is missed."""
    asked = _arguments()
    size = QUICK if asked.quick else FULL
    with _folder(asked.folder) as folder:
        measured = measure(Path(folder).absolute(), size, asked.phase, _say)
    if asked.json:
        document = {**machine(), "measured": [_document(item) for item in measured]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(measured)
    return 1 if any(item.is_met is False for item in measured) else 0


def measure(folder: Path, size: Size, phases: Sequence[int], say: Say) -> list[Measured]:
    """Measure phases, one after the other, once both ways are known to be right."""
    gate(folder / "gate", say)
    return [item for phase in phases for item in ALL[phase](folder / f"phase{phase}", size, say)]


def machine() -> dict[str, Any]:
    """Return where and when this is measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "heap": HEAP["spark.driver.memory"],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phase", type=_phases, default=list(ALL), help="only these, as 1,2,3,4")
    parser.add_argument("--quick", action="store_true", help="sizes of no meaning: shows that everything works")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--folder", help="an empty folder to work in, which is kept (default: a temporary one)")
    return parser.parse_args()


def _phases(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _folder(given: str | None) -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="lakeward-bench-") if given is None else nullcontext(given)


def _say(words: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {words}\n")
    sys.stderr.flush()


def _document(item: Measured) -> dict[str, Any]:
    return {**asdict(item), "ratio": round(item.ratio, 2), "is_met": item.is_met}


def _show(measured: Sequence[Measured]) -> None:
    table = Table("what", "naive or bare", "lakeward", "ratio", "target", "")
    for item in measured:
        sign = "≤" if item.is_share else "≥"
        table.add_row(
            item.what,
            f"{median(item.theirs):,.1f}{item.unit}",
            f"{median(item.ours):,.1f}{item.unit}",
            f"{item.ratio:.2f}",
            "" if item.bound is None else f"{sign} {item.bound:g}",
            {True: "met", False: "[red]missed[/]", None: ""}[item.is_met],
        )
    out = Console()
    out.print(table)
    out.print(", ".join(f"{name} {value}" for name, value in machine().items()))


if __name__ == "__main__":
    sys.exit(main())
