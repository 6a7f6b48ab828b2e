"""Objects of a bucket as files: listed page by page, read by ranges, and moved by a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from boto3.s3.transfer import TransferConfig

from lakeward.adapters.aws.s3.access import split
from lakeward.adapters.aws.s3.error_messages import explain_s3_errors
from lakeward.adapters.aws.s3.range_reader import open_object
from lakeward.adapters.sources.landing.local_store import free_place
from lakeward.core.ports import Stored

_GIB: Final = 1024**3
_COPYING: Final = TransferConfig(multipart_threshold=5 * _GIB, multipart_chunksize=_GIB, use_threads=False)
"""S3 copies up to 5 GiB in one request (docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html)."""


@dataclass(frozen=True, slots=True)
class BucketStore:
    """Objects of S3, or of what speaks as S3 does. Paths are URLs, as `s3://bucket/landing/shop/orders/a.csv`.

    There are no folders: one is there while some key begins with its name.
    """

    client: Any

    def real(self, folder: str) -> str | None:
        """Return the URL where some object is below it, else None."""
        bucket, prefix = _prefix(folder)
        with explain_s3_errors(folder):
            found = self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        return folder if found.get("Contents") else None

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders within a folder."""
        bucket, prefix = _prefix(folder)
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        with explain_s3_errors(folder):
            found = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", ())]
        names = [key[len(prefix) : -1] for key in found]
        return [name for name in names if _is_path(name)]

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return the objects below a folder, in the order of their names; what is hidden is not.

        S3 lists names in the order of their UTF-8 bytes, which is that of Python's texts. It
        leaves out what does not sort behind start-after, so `start` is asked for by the name
        that is one letter shorter.
        """
        bucket, prefix = _prefix(folder)
        asked = {"Bucket": bucket, "Prefix": prefix} | ({"StartAfter": prefix + start[:-1]} if start else {})
        with explain_s3_errors(folder):
            for page in self.client.get_paginator("list_objects_v2").paginate(**asked):
                for item in page.get("Contents", ()):
                    found = _stored(item["Key"].removeprefix(prefix), item)
                    if found is not None and (start is None or found.name >= start):
                        yield found

    def find(self, path: str) -> Stored | None:
        """Return size, time and tag of an object, or None where there is none."""
        bucket, key = split(path)
        try:
            with explain_s3_errors(path):
                found = self.client.head_object(Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return _seen(path, found["ContentLength"], found)

    def open(self, path: str) -> BinaryIO:
        """Open an object; only the ranges that are asked for are read."""
        return open_object(self.client, path)

    def move(self, path: str, target: str) -> None:
        """Copy an object, as it is now, and delete it where it was; both are there in between, never neither.

        One that is rewritten meanwhile is not deleted.
        """
        (bucket, key), now = split(path), self.find(path)
        if now is None:
            raise FileNotFoundError(path)
        place = free_place(self, path, target)
        with explain_s3_errors(path):
            if place is not None:
                source, only = {"Bucket": bucket, "Key": key}, {"CopySourceIfMatch": f'"{now.etag}"'}
                self.client.copy(source, *split(place), ExtraArgs=only, Config=_COPYING)
            if self.find(path) == now:
                self.client.delete_object(Bucket=bucket, Key=key)


def _prefix(folder: str) -> tuple[str, str]:
    bucket, key = split(folder)
    return bucket, f"{key}/" if key else ""


def _is_path(name: str) -> bool:
    """Whether a key is the same name to everybody: Hadoop takes `a//b` and `a/x/../b` for `a/b`."""
    return not {"", ".", ".."} & set(name.split("/"))


def _stored(name: str, item: Any) -> Stored | None:
    """Return what a listing has of an object: nothing of what stands for a folder, or is hidden in one."""
    *folders, _ = name.split("/")
    if name.endswith("/") or not name:
        return None
    if not _is_path(name):
        return Stored(name, None, 0)
    is_hidden = any(folder.startswith((".", "_")) for folder in folders)
    return None if is_hidden else _seen(name, item["Size"], item)


def _seen(name: str, size: int, item: Any) -> Stored:
    modified = item["LastModified"]
    micros = int(modified.timestamp()) * 1_000_000 + modified.microsecond
    return Stored(name, int(size), micros, item["ETag"].strip('"'))
