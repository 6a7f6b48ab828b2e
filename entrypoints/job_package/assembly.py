"""Builds a package: wheels, script, start arguments of the job, and a list of all files with their hashes."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakeward import __version__
from lakeward.adapters.formats.shared.job_requirements import JobRequirements
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.job_package import job_start
from lakeward.entrypoints.job_package.environment import write_environment
from lakeward.entrypoints.job_package.lock import Pin, read_lock
from lakeward.entrypoints.job_package.own_wheel import make_own_wheel
from lakeward.entrypoints.job_package.releases import BOTO3, PROVIDED, TITLES, Release, check_machine
from lakeward.entrypoints.job_package.table_formats import TABLE_FORMATS
from lakeward.entrypoints.job_package.wheels import Gathering, Target, Wheel, given_wheels

MANIFEST: Final = "job.json"
EXTRAS: Final = ("kafka", "msk")
"""Optional extras of lakeward, besides those of the table format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The contents of a package: a `release` and machine, a table format, extras, and wheels of the user.

    `place` is the URL of the package, and `settings` that of the settings. With `with_boto3` the package contains
    boto3 although the platform has its own.
    """

    release: Release
    machine: str
    kind: str
    extras: Sequence[str] = ()
    wheels: Sequence[Path] = ()
    place: str = job_start.SOMEWHERE
    settings: str
    with_boto3: bool = False

    def check(self) -> None:
        """Raise ConfigError for an unknown extra, and for a release that does not fit the machine or the format."""
        check_machine(self.release, self.machine)
        if unknown := sorted(set(self.extras) - set(EXTRAS)):
            raise ConfigError(
                f"lakeward has no extra {unknown[0]!r} for packages",
                found="--extra may be " + " or ".join(EXTRAS),
                todo="The packages of a table format come with --format, and those of S3 always.",
            )
        if self.release.line not in self.requirements.lines:
            lines = " and ".join(self.requirements.lines)
            raise ConfigError(
                f"lakeward writes {self.kind.capitalize()} tables only on Spark {lines}, and "
                f"{TITLES[self.release.platform]} "
                f"{self.release.name} has Spark {self.release.line}",
                todo=f"Name a release with Spark {lines}, or use another format.",
            )

    @property
    def requirements(self) -> JobRequirements:
        """The needs of the table format."""
        return TABLE_FORMATS[self.kind]

    @property
    def target(self) -> Target:
        """The platform that the wheels must run on."""
        provided = set(PROVIDED[self.release.platform])
        return Target(
            release=self.release,
            machine=self.machine,
            provided=provided - BOTO3 if self.with_boto3 else provided,
        )

    @property
    def all_extras(self) -> Collection[str]:
        """The extras of lakeward: those of the Spark line, S3, the table format, and the order."""
        spark = "spark-3.5" if self.release.line == "3.5" else "spark"
        return {spark, "s3", *self.requirements.extras, *self.extras}


def build(order: Order, folder: Path, pins: Mapping[str, Pin] | None = None) -> Mapping[str, Any]:
    """Write a package into an empty folder, and return the content of its job.json.

    Raises ConfigError for an order that cannot be built, such as a dependency without a wheel, and SetupError if a
    tool is missing on this machine.
    """
    order.check()
    pins = read_lock(order.release, order.machine) if pins is None else pins
    (folder / job_start.WHEELS).mkdir()
    wheels = _gather(order, folder / job_start.WHEELS, pins)
    _write(folder / job_start.SCRIPT, job_start.script(order.release))
    lines = [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels]
    _write(folder / "requirements.txt", "".join(lines))
    if order.release.platform == "emr":
        write_environment(wheels, order.release, folder / job_start.ENVIRONMENT)
    jobs = _jobs(order, wheels)
    _write(folder / "README.txt", _readme(order, jobs))
    manifest = {
        "lakeward": __version__,
        "platform": order.release.platform,
        "release": order.release.name,
        "spark": order.release.line,
        "python": order.release.python,
        "arch": order.machine,
        "format": order.kind,
        "jobs": jobs,
        "files": {path.relative_to(folder).as_posix(): _sha256(path) for path in files_of(folder)},
    }
    _write(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


def files_of(folder: Path) -> Sequence[Path]:
    """Return all files of a folder, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _gather(order: Order, folder: Path, pins: Mapping[str, Pin]) -> Sequence[Wheel]:
    """Put all wheels into a folder: those of the order, lakeward's own, and what these require."""
    replacements = dict(given_wheels(order.wheels, order.target))
    with tempfile.TemporaryDirectory() as name:
        if "lakeward" not in replacements:
            replacements["lakeward"] = Wheel.read(make_own_wheel(Path(name)))
        replacements = {
            key: Wheel.read(Path(shutil.copyfile(w.path, folder / w.path.name))) for key, w in replacements.items()
        }
    return Gathering(order.target, pins, replacements, folder).gather({"lakeward": order.all_extras})


def _jobs(order: Order, wheels: Sequence[Wheel]) -> Mapping[str, Any]:
    """Return the definitions of the job, by the operation of the AWS command line that takes them."""
    if order.release.platform == "glue":
        names = [wheel.path.name for wheel in wheels]
        return {"create-job": job_start.glue_job(order.release, order.kind, names, order.place, order.settings)}
    return {
        "start-job-run": job_start.serverless_job(order.place, order.settings),
        "add-steps": job_start.step(order.place, order.settings),
    }


def _readme(order: Order, jobs: Mapping[str, Any]) -> str:
    title = f"{TITLES[order.release.platform]} {order.release.name}"
    parts = [
        f"lakeward {__version__} as a job of {title}: Python {order.release.python}, Spark {order.release.line}, "
        f"{order.machine}.",
        f"{job_start.SCRIPT} is the script. wheels/ has all packages that are installed, and requirements.txt "
        "their versions and hashes.",
    ]
    if order.release.platform == "emr":
        parts.append(f"{job_start.ENVIRONMENT} is an environment of these wheels for {order.release.interpreter}.")
    if order.place == job_start.SOMEWHERE:
        parts.append(f"Upload this folder, and write its URL instead of {job_start.SOMEWHERE}.")
    parts += [f"{operation}:\n\n{json.dumps(job, indent=2)}" for operation, job in jobs.items()]
    if order.release.platform == "emr":
        parts.append(f"The jars of {order.kind} are those of EMR: the package has none.")
    return "\n\n".join([*parts, "docs/how-to/aws/package.md says more."]) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="\n")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
