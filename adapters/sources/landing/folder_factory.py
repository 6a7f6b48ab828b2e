"""Opening the landing folder that the settings name: on a disk or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.aws.s3.access import JARS, find_access, is_url, normal, refuse_other_scheme
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.core.errors import ConfigError
from lakeward.plugins import Runtime

_LISTING: Final[Mapping[str, str]] = {
    # Each file of a batch costs Spark two requests before it is read: more than a few are asked for side by side.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
}


def open_folder(runtime: Runtime, path: str, archive: str | None, places: Places) -> Folder:
    """Return the landing folder; Spark is told what it needs to read it.

    Raises ConfigError for an archive within it, or in another kind of place.
    """
    refuse_other_scheme(path, "path")
    if not is_url(path):
        return _on_disk(runtime, path, archive, places)
    from lakeward.adapters.sources.landing.bucket_store import BucketStore  # noqa: PLC0415  # boto3 is for who has a bucket

    root, away = normal(path), None if archive is None else _archive_url(path, archive)
    if away is not None and f"{away}/".startswith(f"{root}/"):
        raise _within(path, str(archive))
    access = find_access()
    runtime.require(JARS, settings={**s3a_settings(access), **_LISTING})
    return Folder(root, places, away, BucketStore(access.client))


def _on_disk(runtime: Runtime, path: str, archive: str | None, places: Places) -> Folder:
    if archive is not None and is_url(archive):
        raise ConfigError(
            f"the archive {archive} is in a bucket, and the landing folder {path} is not",
            todo="Name a folder with `archive` under [source].",
        )
    root, away = runtime.base / path, None if archive is None else runtime.base / archive
    if away is not None and away.resolve().is_relative_to(root.resolve()):
        raise _within(path, str(archive))
    return Folder(root, places, away)


def _archive_url(path: str, archive: str) -> str:
    if not is_url(archive):
        raise ConfigError(
            f"the landing folder {path} is in a bucket, and the archive {archive} is not",
            todo="Name it with `archive` under [source], as s3://bucket/prefix.",
        )
    return normal(archive)


def _within(path: str, archive: str) -> ConfigError:
    return ConfigError(
        f"the archive {archive} lies within the landing folder {path}",
        todo="Name a folder beside it with `archive` under [source].",
    )
