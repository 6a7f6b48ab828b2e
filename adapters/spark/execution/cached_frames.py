"""Free cached frames on failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def freed_on_failure(free: Callable[[], object]) -> Iterator[None]:
    """Call `free` if the context ends with an error; otherwise the new owner of the cached frame must free it."""
    try:
        yield
    except BaseException:
        free()
        raise
