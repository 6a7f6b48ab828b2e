"""Each way in a process of its own, with a JVM of its own, so that neither warms or burdens the other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import mirror
import naive
import pyarrow as pa
from feed import NOT_SENT
from gate import Way

HEAP: Final = {"spark.driver.memory": "1g"}

_way: Way | None = None


class Elsewhere:
    """A way that lives in another process."""

    def __init__(self, make: Callable[[], Way]) -> None:
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), _start, (make,))

    def load(self, files: Sequence[Path]) -> float:
        return float(self._ask("load", files))

    def apply(self, files: Sequence[Path]) -> float:
        return float(self._ask("apply", files))

    def commit(self, rows: int) -> float:
        return float(self._ask("commit", rows))

    def checksum(self) -> tuple[int, int]:
        count, total = self._ask("checksum")
        return count, total

    def rows(self) -> pa.Table:
        return self._ask("rows")

    def cpu(self) -> float:
        return float(self._ask("cpu"))

    def remembered(self) -> float:
        return float(self._ask("remembered"))

    def _ask(self, question: str, *given: object) -> Any:
        return self.pool.submit(_answer, question, *given).result()


def _start(make: Callable[[], Way]) -> None:
    global _way  # noqa: PLW0603  # what a pool's process keeps between two calls
    _way = make()


def _answer(question: str, *given: object) -> Any:
    return mirror.cpu() if question == "cpu" else getattr(_way, question)(*given)


MEMORY: Final = "lakeward, 24h"
"""lakeward where changes may come a day late, as by default: it remembers every change of a day."""


IN_PART: Final = "lakeward, 24h, in part"
"""The same, where updates send a part of the row; its landing folder is `in_part`."""


def in_part(landing: Path) -> Path:
    """Return the landing folder of files whose updates send a part of the row."""
    return landing.with_name(f"{landing.name} in part")


@contextmanager
def started(folder: Path, landing: Path, *more: str) -> Iterator[Mapping[str, Elsewhere]]:
    """Start the ways, with their tables under this folder, and `more` of them; end their processes afterwards.

    Files come in order, and lakeward is told so, but for `more`: MEMORY and IN_PART.
    """
    lateness = {"lakeward": "ordered", **dict.fromkeys(more, "24h")}
    ways = {"naive": Elsewhere(partial(naive.start, folder / "naive", HEAP))}
    for name, late in lateness.items():
        own, not_sent = (in_part(landing), NOT_SENT) if name == IN_PART else (landing, None)
        settings = mirror.write_settings(folder / name, own, HEAP, late, not_sent)
        ways[name] = Elsewhere(partial(mirror.Mirror, settings))
    try:
        yield ways
    finally:
        for way in ways.values():
            way.pool.shutdown()
