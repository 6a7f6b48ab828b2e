"""The factory of landing folders, on a disk or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.aws.s3.access import JARS, find_access, is_url, normal_url, refuse_other_scheme
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.core.errors import ConfigError
from lakeward.plugins import Runtime

_LISTING_SETTINGS: Final[Mapping[str, str]] = {
    # Spark needs two requests for each file before it reads it; with more files it sends them in parallel.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
}


def open_folder(runtime: Runtime, path: str, archive: str | None, places: Places) -> Folder:
    """Return the landing folder, and require the jars and settings with which Spark reads it.

    Raises ConfigError for an archive within it, and for an archive on a disk for a folder in a bucket or the
    reverse.
    """
    refuse_other_scheme(path, "path")
    if not is_url(path):
        return _open_on_disk(runtime, path, archive, places)
    from lakeward.adapters.sources.landing.bucket_store import BucketStore  # noqa: PLC0415  # boto3 is imported when it is needed

    root, archive_root = normal_url(path), None if archive is None else _archive_url(path, archive)
    if archive_root is not None and f"{archive_root}/".startswith(f"{root}/"):
        raise _archive_within_error(path, str(archive))
    access = find_access()
    runtime.require(JARS, settings={**s3a_settings(access), **_LISTING_SETTINGS})
    return Folder(root, places, archive_root, BucketStore(access.client))


def _open_on_disk(runtime: Runtime, path: str, archive: str | None, places: Places) -> Folder:
    if archive is not None and is_url(archive):
        raise ConfigError(
            f"the archive {archive} is in a bucket, and the landing folder {path} is not",
            todo="Name a folder with `archive` under [source].",
        )
    root, archive_root = runtime.base / path, None if archive is None else runtime.base / archive
    if archive_root is not None and archive_root.resolve().is_relative_to(root.resolve()):
        raise _archive_within_error(path, str(archive))
    return Folder(root, places, archive_root)


def _archive_url(path: str, archive: str) -> str:
    if not is_url(archive):
        raise ConfigError(
            f"the landing folder {path} is in a bucket, and the archive {archive} is not",
            todo="Name it with `archive` under [source], as s3://bucket/prefix.",
        )
    return normal_url(archive)


def _archive_within_error(path: str, archive: str) -> ConfigError:
    return ConfigError(
        f"the archive {archive} lies within the landing folder {path}",
        todo="Name a folder beside it with `archive` under [source].",
    )
