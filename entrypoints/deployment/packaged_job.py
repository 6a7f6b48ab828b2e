"""The job of `lakeward package`, read from its job.json: release, files, and start arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakeward.adapters.aws.s3.access import bucket_and_key, find_access, is_url, normal_url
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.pipeline import Place
from lakeward.entrypoints.job_package.assembly import MANIFEST

PLATFORMS: Final[Mapping[str, str]] = {"glue": "glue", "emr-serverless": "emr"}
"""The platforms of templates, with their names in `lakeward package`."""

_OPERATIONS: Final = {"glue": "create-job", "emr-serverless": "start-job-run"}
_PREFIX: Final = "s3://${PackageBucket}/${PackagePrefix}"
"""The place of the package in a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedJob:
    """A packaged job for a `platform` of templates; `at` is its folder or the URL of its prefix.

    `job` is the input of `aws glue create-job`, or of `aws emr-serverless start-job-run --job-driver`.
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
        """The bucket and prefix of the package; None for a folder."""
        return Place.of(self.at) if is_url(self.at) else None

    def moved(self, text: str) -> str:
        """Return a text of the job in which parameters of a template replace the place of the package."""
        return text.replace(self._original_place, _PREFIX)

    @property
    def _original_place(self) -> str:
        """The place of the package when it was written: the path of its script without the name."""
        command = self.job.get("Command") or self.job["sparkSubmit"]
        script: str = command.get("ScriptLocation") or command["entryPoint"]
        return script.rpartition("/")[0]


def read_package(at: str, platform: str) -> PackagedJob:
    """Return the job of a package in a folder or a bucket.

    Raises ConfigError for a package of another platform, and if there is none.
    """
    todo = (
        f"Make one with `lakeward package {PLATFORMS[platform]} --to PLACE`, and name its folder or its "
        "s3://bucket/prefix with --package."
    )
    try:
        manifest = json.loads(_read(at, MANIFEST))
        if manifest["platform"] != PLATFORMS[platform]:
            raise ConfigError(f"the package in {at} is for another platform", found=manifest["platform"], todo=todo)
        return PackagedJob(
            at=at,
            platform=platform,
            release=manifest["release"],
            spark=manifest["spark"],
            machine=manifest["arch"],
            format=manifest["format"],
            job=manifest["jobs"][_OPERATIONS[platform]],
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{at} has no package of a job", found=f"{MANIFEST} cannot be read", todo=todo) from error


def _read(at: str, name: str) -> bytes:
    if not is_url(at):
        return (Path(at) / name).read_bytes()
    from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # it imports boto3

    url = f"{normal_url(at)}/{name}"
    bucket, key = bucket_and_key(url)
    with explain_s3_errors(url):
        content: bytes = find_access().client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content
