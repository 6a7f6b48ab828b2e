"""The batch that a source hands to a table.

A frame is the data of a batch in a form that source and table share, such as a Spark DataFrame or a list of events.
The core passes frames on and never looks inside.
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
    """A frame of changes with the facts that the core needs. `close` frees the resources of the frame."""

    frame: F
    facts: BatchFacts
    close: Callable[[], None] = lambda: None
