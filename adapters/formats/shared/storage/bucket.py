"""The folder of a table in a bucket. Credentials are those of boto3."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from lakeward.adapters.aws.s3.access import Access, bucket_and_key, is_url
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.adapters.aws.s3.lock import TERM, LockLostError, LockTakenError, ObjectLock
from lakeward.adapters.aws.s3.range_reader import open_object
from lakeward.adapters.formats.shared.storage.folder import PATIENCE, ListedFile, lock_timeout
from lakeward.core.errors import TableError


@dataclass(frozen=True, slots=True)
class BucketFolder:
    """A folder of a bucket: the keys that begin with its name."""

    url: str
    access: Access

    def __str__(self) -> str:
        return self.url

    def within(self, name: str) -> BucketFolder:
        """Return a folder in it."""
        return BucketFolder(f"{self.url}/{name}", self.access)

    def files(self) -> Collection[ListedFile]:
        """Return the objects directly in it."""
        return [_listed_file(key, item) for key, item in self._list(Delimiter="/")]

    def all_files(self) -> Collection[ListedFile]:
        """Return the objects in it and in its folders."""
        return [_listed_file(key, item) for key, item in self._list()]

    def folders(self) -> Collection[str]:
        """Return the names of the folders directly in it."""
        bucket, key = bucket_and_key(self.url)
        pages = self.access.client.get_paginator("list_objects_v2")
        with explain_s3_errors(self.url):
            listing = pages.paginate(Bucket=bucket, Prefix=_prefix(key), Delimiter="/")
            prefixes = [item["Prefix"] for page in listing for item in page.get("CommonPrefixes", ())]
        return [prefix.removeprefix(_prefix(key)).rstrip("/") for prefix in prefixes]

    def holds(self) -> str | None:
        """Return the first name in it, or None if it is empty."""
        bucket, key = bucket_and_key(self.url)
        with explain_s3_errors(self.url):
            answer = self.access.client.list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=2)
        first_names = (item["Key"].removeprefix(_prefix(key)).split("/")[0] for item in answer.get("Contents", ()))
        return next(filter(None, first_names), None)  # the placeholder object of the folder has an empty name

    def _list(self, **request: str) -> Iterator[tuple[str, Any]]:
        """Yield the objects with their names relative to the folder, without placeholder objects for folders."""
        bucket, key = bucket_and_key(self.url)
        pages = self.access.client.get_paginator("list_objects_v2")
        with explain_s3_errors(self.url):
            for page in pages.paginate(Bucket=bucket, Prefix=_prefix(key), **request):
                for item in page.get("Contents", ()):
                    name = item["Key"].removeprefix(_prefix(key))
                    if name and not name.endswith("/"):
                        yield name, item

    def open(self, name: str) -> BinaryIO:
        """Open an object. Only the ranges that are read are fetched; the first read raises FileNotFoundError."""
        return open_object(self.access.client, f"{self.url}/{name}")

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""
        bucket, key = bucket_and_key(f"{self.url}/{name}")
        with explain_s3_errors(f"{self.url}/{name}"):
            self.access.client.delete_object(Bucket=bucket, Key=key)

    def place(self, written: str) -> str:
        """Return the URL of an object that a format names by a relative path or a URL."""
        if not is_url(written):
            return f"{self.url}/{written}"
        parts = urlsplit(written)
        return f"s3://{parts.netloc}{parts.path}"

    def existence_check(self) -> Callable[[str], bool]:
        """Return a function that says whether an object exists. It lists the folder once, at its first call."""
        return _Presence(self).exists

    @contextmanager
    def lock(self, table_name: str) -> Iterator[None]:
        """Hold a lock, which is an object beside the folder.

        Raises TableError if it is not free in time, or if it was lost: then two processes may have written.
        """
        parent, _, name = self.url.rpartition("/")
        lock = ObjectLock(self.access.client, f"{parent}/.{name}.lock")
        try:
            with lock.hold(PATIENCE):
                yield
        except LockTakenError as error:
            raise lock_timeout(table_name, f"{lock.url}, and is {error},") from error
        except LockLostError as error:
            raise TableError(
                f"{table_name}: another process took the lock of the table during this commit",
                found=f"{lock.url} was not written for {TERM:.0f} s; this process may have been stopped",
                todo="Run again. If the table has no key, check it for rows that were written twice. With a lease "
                "(docs/reference/lease.md) only one process at a time runs the pipeline.",
            ) from error

    def prepare(self) -> None:
        """Check the bucket; there are no folders to create. Raises ConfigError if the bucket cannot be reached."""
        self.access.check(self.url)


class _Presence:
    """Existence of objects: those in the folder are listed at the first call, others take one request each."""

    def __init__(self, folder: BucketFolder) -> None:
        self.folder = folder

    @cached_property
    def _names(self) -> Collection[str]:
        return {file.name for file in self.folder.all_files()}

    def exists(self, place: str) -> bool:
        """Return whether an object exists, by its URL."""
        prefix = f"{self.folder.url}/"
        if place.startswith(prefix):
            return place.removeprefix(prefix) in self._names
        bucket, key = bucket_and_key(place)
        try:
            with explain_s3_errors(place):
                self.folder.access.client.head_object(Bucket=bucket, Key=key)
        except FileNotFoundError:
            return False
        return True


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _listed_file(name: str, item: Any) -> ListedFile:
    return ListedFile(name, int(item["Size"]), item["LastModified"].timestamp())
