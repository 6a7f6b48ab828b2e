"""The jars of a line: a committed list with hashes, downloaded once into a cache of the user.

Nothing is resolved when a session starts, and nothing is downloaded where the platform has its own jars (Glue,
EMR).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, Protocol

import pooch
from requests.exceptions import RequestException

from lakeward.adapters.spark.session.compatibility import line
from lakeward.core.errors import SetupError

CENTRAL: Final = "https://repo1.maven.org/maven2"
_CHUNK: Final = 256 * 1024

CLASSES: Final[Mapping[str, str]] = {
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "hudi": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "s3": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "sqlite": "org.sqlite.JDBC",
    "postgresql": "org.postgresql.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "aws": "software.amazon.awssdk.services.s3.S3Client",
}
"""A class of each group of jars. A Spark that was started elsewhere has the jars if it has the class."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar of the lock file.

    `coordinates` are those of Maven, `group:artifact:version`. `needed_by` is the group of jars. `size` is in
    bytes.
    """

    coordinates: str
    needed_by: str
    sha256: str
    size: int

    @property
    def file(self) -> str:
        """The name of the file."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def request(self) -> str:
        """The text by which a factory asks for this jar: `select_jars` returns the same jar."""
        return f"{self.coordinates}@{self.sha256}"

    @property
    def url(self) -> str:
        """The URL of the jar; `LAKEWARD_MAVEN` names another repository than Maven Central."""
        group, artifact, version = self.coordinates.split(":")
        base = os.environ.get("LAKEWARD_MAVEN", CENTRAL).rstrip("/")
        return f"{base}/{group.replace('.', '/')}/{artifact}/{version}/{self.file}"


class Progress(Protocol):
    """Receives the progress of a download; a tqdm bar has this form."""

    total: int

    def update(self, size: int) -> None:
        """Add `size` downloaded bytes."""
        ...

    def reset(self) -> None:
        """Start again from 0."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


def cache() -> Path:
    """Return the folder of the cached jars; `LAKEWARD_CACHE` names another folder than the user's cache."""
    base = os.environ.get("LAKEWARD_CACHE")
    return (Path(base) if base else Path(pooch.os_cache("lakeward"))) / "jars"


def locked(needs: Iterable[str] | None = None) -> Sequence[Jar]:
    """Return the jars of the line, or those that the named formats and catalogs need."""
    text = resources.files("lakeward.adapters.spark.session").joinpath(f"jars-{line()}.toml").read_text("utf-8")
    jars = [Jar(**entry) for entry in tomllib.loads(text)["jar"]]
    wanted = None if needs is None else set(needs)
    return [jar for jar in jars if wanted is None or jar.needed_by in wanted]


def select_jars(needs: Iterable[str]) -> Sequence[Jar]:
    """Return the jars that factories ask for, by group or as `coordinates@sha256`."""
    others = [need.partition("@") for need in sorted(needs) if "@" in need]
    group_jars = {jar.coordinates: jar for jar in locked(needs)}
    named_jars = {name: Jar(name, "source", sha256, 0) for name, _, sha256 in others if name not in group_jars}
    return [*group_jars.values(), *named_jars.values()]


def groups_of(needs: Iterable[str]) -> Sequence[str]:
    """Return the groups that factories ask for, including those of jars that they name by coordinates."""
    coordinates = {need.partition("@")[0] for need in needs if "@" in need}
    groups_of_named_jars = {jar.needed_by for jar in locked() if jar.coordinates in coordinates}
    return sorted(groups_of_named_jars | {need for need in needs if "@" not in need})


def fetch(jar: Jar, progress: Progress | None = None) -> Path:
    """Return the file of a jar, and download it if the cache does not have that content.

    Raises SetupError if it cannot be downloaded, or its hash differs from the lock file.
    """
    if is_cached(jar):
        return cache() / jar.file
    pooch.get_logger().setLevel("WARNING")  # pooch would log each download; `progress` shows it
    downloader = pooch.HTTPDownloader(progressbar=progress or False, chunk_size=_CHUNK, timeout=60)
    try:
        path = pooch.retrieve(jar.url, f"sha256:{jar.sha256}", fname=jar.file, path=cache(), downloader=downloader)
    except RequestException as error:
        raise SetupError(
            f"the jar {jar.file} is not in {cache()} and could not be fetched",
            found=f"{jar.url}: {error}",
            todo="Connect to the network, name a Maven repository with LAKEWARD_MAVEN, or put it there.",
        ) from error
    except ValueError as error:
        raise SetupError(
            f"{jar.url} is not the jar that lakeward was tested with",
            found=f"its SHA-256 is not {jar.sha256}",
            todo="Do not use it. The repository, or something on the way to it, serves another file.",
        ) from error
    except OSError as error:
        raise SetupError(
            f"the jar {jar.file} cannot be kept in {cache()}",
            found=str(error),
            todo="Make room or grant permission there, or name another folder with LAKEWARD_CACHE.",
        ) from error
    return Path(path)


def is_cached(jar: Jar) -> bool:
    """Return whether the cache has the jar; raises SetupError if the cached file has another hash."""
    file = cache() / jar.file
    if not file.exists():
        return False
    sha256 = pooch.file_hash(str(file))
    if sha256 != jar.sha256:
        raise SetupError(
            f"{file} is not the jar that lakeward was tested with",
            found=f"its SHA-256 is {sha256}, and should be {jar.sha256}",
            todo="Do not use it. Remove it, and `lakeward jars fetch` fetches it again.",
        )
    return True
