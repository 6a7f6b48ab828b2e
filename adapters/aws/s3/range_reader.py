"""An object of a bucket as a file: only the ranges that are asked for are read."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, cast

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import split
from lakeward.adapters.aws.s3.error_messages import told

BUFFER = 64 * 1024
"""So much is read at least: the head of a CSV file, and the footer of most Parquet files."""


def open_object(client: Any, url: str) -> BinaryIO:
    """Open an object; the first read raises FileNotFoundError where it is not there."""
    return cast("BinaryIO", io.BufferedReader(_Object(client, url), BUFFER))


class _Object(io.RawIOBase):
    """The object as it is at the first request: one that takes its place meanwhile is not read."""

    def __init__(self, client: Any, url: str) -> None:
        self.client = client
        self.url = url
        self._at = 0
        self._size: int | None = None
        self._etag: str | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; only the end of the object must be asked for."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (self._end() if start is None else start)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read what fits into a buffer; nothing behind the end."""
        wanted = memoryview(buffer).cast("B")
        if not wanted or (self._size is not None and self._at >= self._size):
            return 0
        data = self._get(self._at, self._at + len(wanted) - 1)
        wanted[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _end(self) -> int:
        if self._size is None:
            bucket, key = split(self.url)
            with told(self.url):
                found = self.client.head_object(Bucket=bucket, Key=key)
            self._size, self._etag = int(found["ContentLength"]), found["ETag"]
        return self._size

    def _get(self, first: int, last: int) -> bytes:
        bucket, key = split(self.url)
        same = {} if self._etag is None else {"IfMatch": self._etag}
        with told(self.url):
            try:
                found = self.client.get_object(Bucket=bucket, Key=key, Range=f"bytes={first}-{last}", **same)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in ("InvalidRange", "416"):
                    return b""
                raise
            self._etag = found["ETag"]
            if "ContentRange" in found:
                self._size = int(found["ContentRange"].rpartition("/")[2])
            return bytes(found["Body"].read())
