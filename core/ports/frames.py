"""What the core passes on and never looks inside: the data of a batch.

A frame is that data in whatever form the adapters share: a Spark DataFrame, a list of events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakeward.core.merge.facts import BatchFacts

F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Batch(Generic[F]):
    """A frame of changes and what the core may know of it. `close` frees what it holds."""

    frame: F
    facts: BatchFacts
    close: Callable[[], None] = lambda: None
