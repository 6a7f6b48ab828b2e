"""A prefix of a bucket for files that a source makes and Spark's workers read, where they share no disk with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.s3.access import normal, split
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.adapters.aws.s3.range_reader import open_object
from lakeward.core.ports import Stored

_AT_ONCE: Final = 1000
"""S3 deletes so many objects in one request (docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html)."""


@dataclass(frozen=True, slots=True)
class StagingPrefix:
    """Objects below a URL, which has no `/` at its end. Their names are paths below it, parted by `/`."""

    url: str
    client: Any = field(repr=False)

    def path(self, name: str) -> str:
        """Return the URL of an object; raises ConfigError for a name that S3 or Hadoop would take for another."""
        return normal(f"{self.url}/{name}")

    def upload(self, file: Path, name: str) -> None:
        """Write a file of the disk; raises as `told` does."""
        url = self.path(name)
        with explain_s3_errors(url):
            self.client.upload_file(str(file), *split(url))

    def write(self, name: str, content: bytes) -> None:
        """Write an object; raises as `told` does."""
        bucket, key = split(url := self.path(name))
        with explain_s3_errors(url):
            self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def read(self, name: str) -> bytes:
        """Return the content of an object; raises FileNotFoundError where it is not there."""
        with self.open(name) as file:
            return file.read()

    def open(self, name: str) -> BinaryIO:
        """Open an object; the first read raises FileNotFoundError where it is not there."""
        return open_object(self.client, self.path(name))

    def copy(self, name: str, to: str) -> None:
        """Copy an object within the prefix."""
        source, url = self.path(name), self.path(to)
        bucket, key = split(source)
        with explain_s3_errors(source):
            self.client.copy({"Bucket": bucket, "Key": key}, *split(url))

    def list(self, folder: str = "") -> Iterator[Stored]:
        """Return all objects below a folder, hidden ones too, by their names below the prefix."""
        bucket, start = split(f"{self.url}/")
        prefix = f"{start}{folder}/" if folder else start
        with explain_s3_errors(self.url):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", ()):
                    modified = int(item["LastModified"].timestamp() * 1_000_000)
                    yield Stored(item["Key"].removeprefix(start), int(item["Size"]), modified)

    def remove(self, names: Collection[str]) -> None:
        """Remove objects by their names; those that are not there are removed already.

        Raises as `told` does, and so, too, for the first object that S3 refuses to delete where it answers 200.
        """
        bucket, start = split(f"{self.url}/")
        keys = [{"Key": f"{start}{name}"} for name in names]
        for first in range(0, len(keys), _AT_ONCE):
            with explain_s3_errors(self.url):
                some = {"Objects": keys[first : first + _AT_ONCE], "Quiet": True}
                answer = self.client.delete_objects(Bucket=bucket, Delete=some)
            for refused in answer.get("Errors", ()):
                with explain_s3_errors(f"s3://{bucket}/{refused['Key']}"):
                    raise ClientError({"Error": refused}, "DeleteObjects")
