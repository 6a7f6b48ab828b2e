"""The supported releases of AWS Glue and EMR: their Python, their Spark line, and their packages.

Other releases are refused, because nothing about a release is guessed. Sources: "Migrating to AWS Glue
5.1" and "6.0" (docs.aws.amazon.com/glue/latest/dg); the pages of emr-7.14.0 and emr-spark-8.1.0 in EMR's guide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError

BOTO3: Final = frozenset({"boto3", "botocore", "jmespath", "s3transfer"})
_SPARK: Final = frozenset({"py4j", "pyspark"})

PROVIDED: Mapping[str, Collection[str]] = {"glue": _SPARK | BOTO3, "emr": _SPARK}
"""The distributions that a platform provides. EMR has boto3, but not in the environment of a packaged job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of a `platform`: its Spark `line`, its `python` such as 3.11, and the machines that it runs on."""

    platform: str
    name: str
    line: str
    python: str
    machines: Sequence[str] = ("x86_64",)

    @property
    def interpreter(self) -> str:
        """The path of this Python on Amazon Linux."""
        return f"/usr/bin/python{self.python}"


_BOTH: Final = ("x86_64", "aarch64")

RELEASES: Final = (
    Release(platform="glue", name="5.0", line="3.5", python="3.11"),
    Release(platform="glue", name="5.1", line="3.5", python="3.11"),
    Release(platform="glue", name="6.0", line="4.1", python="3.13"),
    Release(platform="emr", name="emr-7.14.0", line="3.5", python="3.11", machines=_BOTH),
    Release(platform="emr", name="emr-spark-8.1.0", line="4.1", python="3.11", machines=_BOTH),
)
"""The releases of each platform, newest last. EMR 7 also has Python 3.9, on which lakeward does not run."""


def newest_release(platform: str, line: str) -> Release:
    """Return the newest release of a platform with a Spark line.

    >>> newest_release("glue", "3.5").name
    '5.1'
    """
    return [release for release in RELEASES if (release.platform, release.line) == (platform, line)][-1]


def find_release(platform: str, name: str) -> Release:
    """Return a release by its name; raises ConfigError for one that is not listed.

    >>> find_release("emr", "7.14.0").python
    '3.11'
    """
    releases = [release for release in RELEASES if release.platform == platform]
    matching = [release for release in releases if name in (release.name, release.name.removeprefix("emr-"))]
    if not matching:
        raise ConfigError(
            f"lakeward does not know the release {name!r} of {TITLES[platform]}",
            found="the releases are " + ", ".join(release.name for release in releases),
            todo="Name one of them with --release. Another one may have another Python or Spark.",
        )
    return matching[0]


TITLES: Final = {"glue": "AWS Glue", "emr": "Amazon EMR"}
"""The names of the platforms."""


def check_machine(release: Release, machine: str) -> None:
    """Raise ConfigError for machines that a release does not run on."""
    if machine not in release.machines:
        raise ConfigError(
            f"{TITLES[release.platform]} {release.name} does not run on {machine}",
            found="it runs on " + " and ".join(release.machines),
            todo="Leave out --arch.",
        )
