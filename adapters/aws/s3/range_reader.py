"""Read an object of a bucket as a file, by ranges."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Final, cast

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import bucket_and_key
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors

_BUFFER: Final = 64 * 1024
"""The least number of bytes of a request: enough for the head of a CSV file or the footer of most Parquet files."""


def open_object(client: Any, url: str) -> BinaryIO:
    """Open an object of a bucket for reading; the first read raises FileNotFoundError if it does not exist."""
    return cast("BinaryIO", io.BufferedReader(_ObjectReader(client, url), _BUFFER))


class _ObjectReader(io.RawIOBase):
    """The object as of the first request. A read raises OSError if another object has replaced it."""

    def __init__(self, client: Any, url: str) -> None:
        self.client = client
        self.url = url
        self._position = 0
        self._size: int | None = None
        self._etag: str | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position; only SEEK_END needs a request."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._end() if start is None else start)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer; return 0 at the end."""
        view = memoryview(buffer).cast("B")
        if not view or (self._size is not None and self._position >= self._size):
            return 0
        data = self._get(self._position, self._position + len(view) - 1)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _end(self) -> int:
        if self._size is None:
            bucket, key = bucket_and_key(self.url)
            with explain_s3_errors(self.url):
                response = self.client.head_object(Bucket=bucket, Key=key)
            self._size, self._etag = int(response["ContentLength"]), response["ETag"]
        return self._size

    def _get(self, first: int, last: int) -> bytes:
        bucket, key = bucket_and_key(self.url)
        condition = {} if self._etag is None else {"IfMatch": self._etag}
        with explain_s3_errors(self.url):
            try:
                response = self.client.get_object(
                    Bucket=bucket, Key=key, Range=f"bytes={first}-{last}", **condition
                )
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in ("InvalidRange", "416"):
                    return b""
                raise
            self._etag = response["ETag"]
            if "ContentRange" in response:
                self._size = int(response["ContentRange"].rpartition("/")[2])
            return bytes(response["Body"].read())
