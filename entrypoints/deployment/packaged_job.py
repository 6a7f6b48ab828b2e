"""The job of `lakeward package`, read from its job.json: release, files, and start arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakeward.adapters.aws.s3.access import find_access, is_url, normal, split
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.pipeline import Place
from lakeward.entrypoints.job_package.assembly import MANIFEST

PLATFORMS: Final[Mapping[str, str]] = {"glue": "glue", "emr-serverless": "emr"}
"""What `lakeward package` calls a platform."""

_OPERATIONS: Final = {"glue": "create-job", "emr-serverless": "start-job-run"}
_PREFIX: Final = "s3://${PackageBucket}/${PackagePrefix}"
"""The place of the package, as a template writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedJob:
    """A packaged job for a `platform` of templates, which lies `at` a folder or the URL of a prefix.

    `job` is what `aws glue create-job`, or `aws emr-serverless start-job-run --job-driver`, takes.
    """

    at: str
    platform: str
    release: str
    spark: str
    machine: str
    format: str
    job: Mapping[str, Any]

    @property
    def place(self) -> Place | None:
        """The bucket and the prefix that it lies in; None of a folder."""
        return Place.of(self.at) if is_url(self.at) else None

    def moved(self, text: str) -> str:
        """Return a text of the job with the place of the package as parameters of a template."""
        return text.replace(self._written, _PREFIX)

    @property
    def _written(self) -> str:
        """Where the package lies by its own words: all before the name of its script."""
        command = self.job.get("Command") or self.job["sparkSubmit"]
        script: str = command.get("ScriptLocation") or command["entryPoint"]
        return script.rpartition("/")[0]


def read_package(at: str, platform: str) -> PackagedJob:
    """Return the job of a package in a folder or a bucket; raises ConfigError for one of another platform."""
    todo = (
        f"Make one with `lakeward package {PLATFORMS[platform]} --to PLACE`, and name its folder or its "
        "s3://bucket/prefix with --package."
    )
    try:
        said = json.loads(_read(at, MANIFEST))
        if said["platform"] != PLATFORMS[platform]:
            raise ConfigError(f"the package in {at} is for another platform", found=said["platform"], todo=todo)
        return PackagedJob(
            at=at,
            platform=platform,
            release=said["release"],
            spark=said["spark"],
            machine=said["arch"],
            format=said["format"],
            job=said["jobs"][_OPERATIONS[platform]],
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{at} has no package of a job", found=f"{MANIFEST} cannot be read", todo=todo) from error


def _read(at: str, name: str) -> bytes:
    if not is_url(at):
        return (Path(at) / name).read_bytes()
    from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # it imports boto3

    url = f"{normal(at)}/{name}"
    bucket, key = split(url)
    with explain_s3_errors(url):
        content: bytes = find_access().client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content
