"""Delivers a package to a folder of its own, or to a prefix of a bucket."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lakeward.adapters.aws.s3.access import Access, bucket_and_key
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.job_package.assembly import MANIFEST, files_of

_HASH: Final = "sha256"
"""The metadata key of an object for the hash of its content."""


def check_folder(folder: Path) -> None:
    """Raise ConfigError for a path that is no folder, or a folder with files that are not of an earlier package."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", todo="Name a new one with --to.")
    listed = _list_files(folder)
    package_files = {MANIFEST, *listed} if listed else set[str]()
    others = [path.relative_to(folder).as_posix() for path in files_of(folder)]
    if unknown := [name for name in others if name not in package_files]:
        raise ConfigError(
            f"{folder} has files that are of no package",
            found=", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else ""),
            todo="Name a new folder, or that of an earlier package, which is replaced.",
        )


def _list_files(folder: Path) -> Sequence[str]:
    """Return the files in the list of the package in a folder; none if there is no list."""
    try:
        return [*json.loads((folder / MANIFEST).read_text("utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def replace_folder(folder: Path, make: Callable[[Path], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Replace the content of a folder by what `make` writes; if that fails, the folder is unchanged."""
    folder = folder.resolve()
    if folder.parent == folder:
        raise ConfigError(f"{folder} cannot be a package", todo="Name a new folder with --to.")
    check_folder(folder)
    fresh, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{word}") for word in ("new", "old"))
    try:
        with _writing(folder):
            fresh.mkdir(parents=True)
        result = make(fresh)
        with _writing(folder):
            _swap(folder, fresh, old)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return result


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written", found=str(error), todo="Name another one.") from error


def _swap(folder: Path, fresh: Path, old: Path) -> None:
    """Replace a folder by the fresh one; if that fails, restore it, or leave it under the name `old` at worst."""
    if folder.exists():
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def upload(folder: Path, url: str, access: Access) -> Sequence[str]:
    """Upload the files of a folder to a prefix; return the names of those that were missing or different.

    The list of files is uploaded last, so that all files that it names are there. Other objects are not changed.
    """
    from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # it imports boto3

    names = []
    hashes = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    for path in sorted(files_of(folder), key=lambda path: path.name == MANIFEST):
        name = path.relative_to(folder).as_posix()
        bucket, key = bucket_and_key(f"{url}/{name}")
        with explain_s3_errors(f"{url}/{name}"):
            if name in hashes and _has_content(access, bucket, key, hashes[name]):
                continue
            with path.open("rb") as content:
                metadata = {_HASH: hashes[name]} if name in hashes else {}
                access.client.put_object(Bucket=bucket, Key=key, Body=content, Metadata=metadata)
        names.append(name)
    return names


def _has_content(access: Access, bucket: str, key: str, wanted: str) -> bool:
    """Return True if an object exists whose metadata has this hash of its content."""
    from botocore.exceptions import ClientError  # noqa: PLC0415  # as boto3

    try:
        stored: str | None = access.client.head_object(Bucket=bucket, Key=key)["Metadata"].get(_HASH)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 404):
            return False
        raise
    return stored == wanted
