"""Reading a table whole, as it is now, whoever has written to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeward.adapters.spark.errors import FAILURES, said, unreachable
from lakeward.core.errors import TableError


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Say in a person's words why a table cannot be read.

    Raises StoreUnreachable where S3 did not answer, and else TableError.
    """
    try:
        yield
    except (*FAILURES, OSError) as error:
        if (gone := unreachable(what, error)) is not None:
            raise gone from error
        raise TableError(
            f"{what}: the table cannot be read",
            found=said(error),
            todo="Nothing was changed. Mend that, and ask again.",
        ) from error
