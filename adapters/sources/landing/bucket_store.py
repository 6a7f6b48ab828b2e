"""A bucket as a store of files: listed page by page, read by ranges, and moved by copying."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from boto3.s3.transfer import TransferConfig

from lakeward.adapters.aws.s3.access import bucket_and_key
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.adapters.aws.s3.range_reader import open_object
from lakeward.adapters.sources.landing.local_store import free_place
from lakeward.core.ports import Stored

_GIB: Final = 1024**3
_COPY_CONFIG: Final = TransferConfig(multipart_threshold=5 * _GIB, multipart_chunksize=_GIB, use_threads=False)
"""S3 copies up to 5 GiB in one request (docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html)."""


@dataclass(frozen=True, slots=True)
class BucketStore:
    """Objects of S3, or of a store with the same API. Paths are URLs, as `s3://bucket/landing/shop/orders/a.csv`.

    A bucket has no folders: a folder exists while some key begins with its name.
    """

    client: Any

    def resolve(self, folder: str) -> str | None:
        """Return the URL of a folder if an object is below it, else None."""
        bucket, prefix = _prefix(folder)
        with explain_s3_errors(folder):
            listing = self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        return folder if listing.get("Contents") else None

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder."""
        bucket, prefix = _prefix(folder)
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        with explain_s3_errors(folder):
            prefixes = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", ())]
        names = [key[len(prefix) : -1] for key in prefixes]
        return [name for name in names if _is_path(name)]

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Yield the objects below a folder in the order of their names, without hidden ones.

        S3 lists names in the order of their UTF-8 bytes, which is the order of Python's texts. Its start-after
        excludes the given name, so it is set to `start` without its last character.
        """
        bucket, prefix = _prefix(folder)
        request = {"Bucket": bucket, "Prefix": prefix} | ({"StartAfter": prefix + start[:-1]} if start else {})
        with explain_s3_errors(folder):
            for page in self.client.get_paginator("list_objects_v2").paginate(**request):
                for item in page.get("Contents", ()):
                    stored = _listed_object(item["Key"].removeprefix(prefix), item)
                    if stored is not None and (start is None or stored.name >= start):
                        yield stored

    def stat(self, path: str) -> Stored | None:
        """Return size, time and tag of an object, or None if it does not exist."""
        bucket, key = bucket_and_key(path)
        try:
            with explain_s3_errors(path):
                head = self.client.head_object(Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return _to_stored(path, head["ContentLength"], head)

    def open(self, path: str) -> BinaryIO:
        """Open an object; only the requested ranges are read."""
        return open_object(self.client, path)

    def move(self, path: str, target: str) -> None:
        """Copy an object to its target and delete it where it was; both exist in between, never none.

        An object that is rewritten meanwhile is not deleted. Raises FileNotFoundError if it does not exist.
        """
        (bucket, key), now = bucket_and_key(path), self.stat(path)
        if now is None:
            raise FileNotFoundError(path)
        place = free_place(self, path, target)
        with explain_s3_errors(path):
            if place is not None:
                source, condition = {"Bucket": bucket, "Key": key}, {"CopySourceIfMatch": f'"{now.etag}"'}
                self.client.copy(source, *bucket_and_key(place), ExtraArgs=condition, Config=_COPY_CONFIG)
            if self.stat(path) == now:
                self.client.delete_object(Bucket=bucket, Key=key)


def _prefix(folder: str) -> tuple[str, str]:
    bucket, key = bucket_and_key(folder)
    return bucket, f"{key}/" if key else ""


def _is_path(name: str) -> bool:
    """Return True if all engines read a key as the same path: Hadoop treats `a//b` and `a/x/../b` as `a/b`."""
    return not {"", ".", ".."} & set(name.split("/"))


def _listed_object(name: str, item: Any) -> Stored | None:
    """Return an object of a listing; None for the placeholder of a folder, and for what is in a hidden folder."""
    *folders, _ = name.split("/")
    if name.endswith("/") or not name:
        return None
    if not _is_path(name):
        return Stored(name, None, 0)
    is_hidden = any(folder.startswith((".", "_")) for folder in folders)
    return None if is_hidden else _to_stored(name, item["Size"], item)


def _to_stored(name: str, size: int, item: Any) -> Stored:
    modified = item["LastModified"]
    micros = int(modified.timestamp()) * 1_000_000 + modified.microsecond
    return Stored(name, int(size), micros, item["ETag"].strip('"'))
