"""When all tables are looked at, whatever the queue tells: it may have lost a notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "looked_at_all"
"""In the folder `state`: when a process began that looked at all tables, in microseconds since 1970."""


@dataclass(slots=True)
class FullLooks:
    """All tables are looked at where they were not for `every` microseconds, as far as it is known.

    It is noted in a `file`, for the next process, or without one in this process alone. Where the clock was set
    back, or the file is gone, they are looked at.
    """

    every: int
    now: Callable[[], int]
    file: Path | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if self.file is not None:
            try:
                self.last = int(self.file.read_text("ascii"))
            except (OSError, ValueError):
                self.last = None

    @property
    def is_due(self) -> bool:
        """Whether all tables are to be looked at."""
        return self.last is None or not 0 <= self.now() - self.last < self.every

    def forget(self) -> None:
        """Let all tables be looked at next."""
        self.last = None

    def note(self, began: int) -> None:
        """Note that all were looked at, from a time on."""
        self.last = began
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(str(began), "ascii")
