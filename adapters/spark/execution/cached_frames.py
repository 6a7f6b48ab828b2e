"""Frames that Spark keeps: freed where what is done with them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def freed_on_failure(free: Callable[[], object]) -> Iterator[None]:
    """Free what is kept where the context ends with an error; else whoever was given it does so."""
    try:
        yield
    except BaseException:
        free()
        raise
