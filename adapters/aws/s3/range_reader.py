"""Read an object of a bucket as a file, by ranges."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, cast

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import split
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors

BUFFER = 64 * 1024
"""Bytes of a request, at least: enough for the head of a CSV file or the footer of most Parquet files."""


def open_object(client: Any, url: str) -> BinaryIO:
    """Open an object; the first read raises FileNotFoundError if it does not exist."""
    return cast("BinaryIO", io.BufferedReader(_Object(client, url), BUFFER))


class _Object(io.RawIOBase):
    """The object as of the first request; an object that replaces it is not read."""

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
        """Set the position; only SEEK_END needs a request."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (self._end() if start is None else start)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer; return 0 at the end."""
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
            with explain_s3_errors(self.url):
                response = self.client.head_object(Bucket=bucket, Key=key)
            self._size, self._etag = int(response["ContentLength"]), response["ETag"]
        return self._size

    def _get(self, first: int, last: int) -> bytes:
        bucket, key = split(self.url)
        same = {} if self._etag is None else {"IfMatch": self._etag}
        with explain_s3_errors(self.url):
            try:
                response = self.client.get_object(Bucket=bucket, Key=key, Range=f"bytes={first}-{last}", **same)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in ("InvalidRange", "416"):
                    return b""
                raise
            self._etag = response["ETag"]
            if "ContentRange" in response:
                self._size = int(response["ContentRange"].rpartition("/")[2])
            return bytes(response["Body"].read())
