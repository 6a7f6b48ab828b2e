"""A prefix of a bucket for files that a source writes and Spark's workers read, where they share no disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import bucket_and_key, normal_url
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.adapters.aws.s3.range_reader import open_object
from lakeward.core.ports import Stored

_AT_ONCE: Final = 1000
"""The most objects that S3 deletes in one request (docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html).
"""


@dataclass(frozen=True, slots=True)
class StagingPrefix:
    """The objects below a URL, which has no `/` at its end. Their names are paths below it.

    Methods raise as `explain_s3_errors` does.
    """

    url: str
    client: Any = field(repr=False)

    def path(self, name: str) -> str:
        """Return the URL of an object; raises ConfigError for a name that S3 or Hadoop reads as another one."""
        return normal_url(f"{self.url}/{name}")

    def upload(self, file: Path, name: str) -> None:
        """Write a file of the disk."""
        url = self.path(name)
        with explain_s3_errors(url):
            self.client.upload_file(str(file), *bucket_and_key(url))

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        bucket, key = bucket_and_key(url := self.path(name))
        with explain_s3_errors(url):
            self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, name: str) -> bytes:
        """Return the content of an object; raises FileNotFoundError if it does not exist."""
        with self.open(name) as file:
            return file.read()

    def open(self, name: str) -> BinaryIO:
        """Open an object; the first read raises FileNotFoundError if it does not exist."""
        return open_object(self.client, self.path(name))

    def copy(self, name: str, to: str) -> None:
        """Copy an object within the prefix."""
        source, url = self.path(name), self.path(to)
        bucket, key = bucket_and_key(source)
        with explain_s3_errors(source):
            self.client.copy({"Bucket": bucket, "Key": key}, *bucket_and_key(url))

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Yield all objects below a folder, also hidden ones, with their names below the prefix."""
        bucket, start = bucket_and_key(f"{self.url}/")
        prefix = f"{start}{folder}/" if folder else start
        with explain_s3_errors(self.url):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", ()):
                    modified = int(item["LastModified"].timestamp() * 1_000_000)
                    yield Stored(item["Key"].removeprefix(start), int(item["Size"]), modified)

    def remove(self, names: Collection[str]) -> None:
        """Remove objects by their names; those that do not exist are ignored.

        Raises an error for the first object that S3 refuses to delete, also where it answers with status 200.
        """
        bucket, start = bucket_and_key(f"{self.url}/")
        keys = [{"Key": f"{start}{name}"} for name in names]
        for first in range(0, len(keys), _AT_ONCE):
            with explain_s3_errors(self.url):
                some = {"Objects": keys[first : first + _AT_ONCE], "Quiet": True}
                answer = self.client.delete_objects(Bucket=bucket, Delete=some)
            for refused in answer.get("Errors", ()):
                with explain_s3_errors(f"s3://{bucket}/{refused['Key']}"):
                    raise ClientError({"Error": refused}, "DeleteObjects")
