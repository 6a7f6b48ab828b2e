"""The head of a CSV file: its beginning, with the complete first row."""

from __future__ import annotations

import bz2
import gzip
from typing import BinaryIO, Final, cast

HEAD_BYTES: Final = 64 * 1024
"""The size of the reads with which the beginning of a file is searched for its first row."""

MAX_HEAD_BYTES: Final = 16 * 1024 * 1024
"""The most bytes in which a first row is searched. A quote that is still open there is probably never closed."""

UNSUPPORTED_COMPRESSION: Final = (".zst", ".snappy", ".lz4", ".deflate")
"""Endings of files that Spark would decompress by itself, or try to, and that this process cannot read."""


def read_head(file: BinaryIO, name: str, row_end: str, quote: str) -> str:
    """Return the head of an open file, decompressed by the ending of its name.

    It ends at a line end unless it is the whole file. Raises OSError, EOFError or zlib.error if the content is not
    compressed as the name says.
    """
    data, is_whole = _read_beginning(_decompress(file, name), row_end.encode(), quote.encode())
    text = data.decode("utf-8", errors="replace")
    return text if is_whole else text[: text.rfind(row_end) + len(row_end)]


def _read_beginning(file: BinaryIO, end: bytes, quote: bytes) -> tuple[bytes, bool]:
    """Return the beginning of a file with its first row, and True if that is the whole file."""
    data = more = bytearray(file.read(HEAD_BYTES))
    start = searched = quotes = 0  # a row may be as long as its file, so no byte is searched twice
    while len(more) == HEAD_BYTES:
        position = data.find(end, searched)
        if position >= 0:
            quotes += data.count(quote, start, position) if quote else 0
            start = searched = position + len(end)
            if quotes % 2 == 0:
                break
        elif quotes % 2 == 1 and len(data) >= MAX_HEAD_BYTES:
            break
        else:
            searched = max(start, len(data) - len(end) + 1)
            more = bytearray(file.read(HEAD_BYTES))
            data += more
    return bytes(data), len(more) < HEAD_BYTES


def _decompress(raw: BinaryIO, name: str) -> BinaryIO:
    """Return a file as Spark decompresses it, by the ending of its name."""
    if name.lower().endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    return cast("BinaryIO", bz2.BZ2File(raw)) if name.lower().endswith(".bz2") else raw
