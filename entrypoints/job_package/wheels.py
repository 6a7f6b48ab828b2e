"""The wheels of a package: resolves the dependencies of a job, and fetches them from an index with pip."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from lakeward.core.errors import ConfigError, SetupError
from lakeward.entrypoints.job_package.lock import Pin, environment_of
from lakeward.entrypoints.job_package.releases import TITLES, Release

_GLIBC: Final = range(28, 16, -1)
"""Minor versions of glibc 2 for which wheels may be built. Amazon Linux 2023 has 2.34."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel file: its normalized name, its version, and its requirements."""

    path: Path
    name: str
    version: Version
    requires: Sequence[Requirement] = ()

    @classmethod
    def read(cls, path: Path) -> Wheel:
        """Read a file; raises ConfigError if it is no wheel."""
        try:
            name, version, *_ = parse_wheel_filename(path.name)
            with zipfile.ZipFile(path) as archive:
                (metadata,) = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n)]
                metadata_fields = Parser().parsestr(archive.read(metadata).decode())
            requires = [Requirement(need) for need in metadata_fields.get_all("Requires-Dist", ())]
        except (InvalidWheelFilename, OSError, ValueError, zipfile.BadZipFile) as error:
            raise ConfigError(
                f"{path} is no wheel", found=str(error), todo="Build one: pip wheel --no-deps FOLDER"
            ) from error
        return cls(path, name, version, requires)

    @property
    def sha256(self) -> str:
        """The hash of the file, in hexadecimal."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A platform for wheels: a release on a machine, and the distributions that it provides."""

    release: Release
    machine: str
    provided: Collection[str]

    def __str__(self) -> str:
        return f"{TITLES[self.release.platform]} {self.release.name} on {self.machine}"

    @property
    def platforms(self) -> Sequence[str]:
        """The platform tags of wheels that run there, best first."""
        return [*(f"manylinux_2_{minor}_{self.machine}" for minor in _GLIBC), f"manylinux2014_{self.machine}"]

    @property
    def tags(self) -> Collection[Tag]:
        """The tags of wheels that run there."""
        major, minor = map(int, self.release.python.split("."))
        python, interpreter = (major, minor), f"cp{major}{minor}"
        return {
            *cpython_tags(python, platforms=self.platforms),
            *compatible_tags(python, interpreter, self.platforms),
        }

    def check(self, wheel: Wheel) -> None:
        """Raise ConfigError for a wheel that does not run on the platform."""
        if not parse_wheel_filename(wheel.path.name)[3] & set(self.tags):
            raise ConfigError(
                f"{wheel.path.name} does not run on {self}",
                found=f"it is for none of Python {self.release.python} with {self.platforms[0]} and older",
                todo="Build it for that, or give a wheel of pure Python (…-py3-none-any.whl).",
            )


@dataclass(slots=True)
class Gathering:
    """Resolves the requirements of wheels: `own_wheels` are given, `pins` are in the index."""

    target: Target
    pins: Mapping[str, Pin]
    own_wheels: Mapping[str, Wheel]
    folder: Path
    extras: dict[str, set[str]] = field(default_factory=dict)

    def gather(self, extras: Mapping[str, Collection[str]]) -> Sequence[Wheel]:
        """Return the given wheels and all that they require; `extras` maps names to their extras.

        Raises ConfigError for a requirement that is neither given nor pinned, and the errors of `download`.
        """
        self.extras.update((name, set(names)) for name, names in extras.items())
        wheels = dict(self.own_wheels)
        while True:
            extras_before = sum(map(len, self.extras.values()))
            required = {name for wheel in wheels.values() for name in self._required(wheel)}
            missing = sorted(required - wheels.keys())
            if not missing and extras_before == sum(map(len, self.extras.values())):
                return [wheels[name] for name in sorted(wheels)]
            for wheel in download([self.pins[name] for name in missing], self.target, self.folder):
                wheels[wheel.name] = wheel

    def _required(self, wheel: Wheel) -> Iterator[str]:
        """Yield the requirements of a wheel that the platform does not provide, and record their extras."""
        environment = environment_of(self.target.release, self.target.machine)
        extras = ("", *self.extras.get(wheel.name, ()))
        for need in wheel.requires:
            name = canonicalize_name(need.name)
            applies = need.marker is None or any(need.marker.evaluate({**environment, "extra": e}) for e in extras)
            if applies and (name in self.own_wheels or name not in self.target.provided):
                self._check(wheel, need, name)
                self.extras.setdefault(name, set()).update(need.extras)
                yield name

    def _check(self, wheel: Wheel, need: Requirement, name: str) -> None:
        available = self.own_wheels.get(name) or self.pins.get(name)
        if available is None:
            raise ConfigError(
                f"{wheel.name} needs {need.name}, of which lakeward's lock has no version",
                found=f"{wheel.path.name} requires {need}",
                todo=f"Give its wheel as well: --wheel {need.name}-….whl",
            )
        if not need.specifier.contains(available.version, prereleases=True):
            raise ConfigError(
                f"{wheel.name} {wheel.version} does not go with {need.name} {available.version}",
                found=f"{wheel.path.name} requires {need}",
                todo="Give another wheel of one of them with --wheel; it replaces the version of the lock.",
            )


def given_wheels(paths: Iterable[Path], target: Target) -> Mapping[str, Wheel]:
    """Return the wheels of files by name; raises ConfigError for a duplicate, and for the wrong platform."""
    wheels: dict[str, Wheel] = {}
    for path in paths:
        wheel = Wheel.read(path)
        target.check(wheel)
        if wheel.name in wheels:
            raise ConfigError(
                f"two wheels of {wheel.name} are given",
                found=f"{wheels[wheel.name].path.name} and {path.name}",
                todo="Leave one of them out.",
            )
        wheels[wheel.name] = wheel
    return wheels


def download(pins: Sequence[Pin], target: Target, folder: Path) -> Sequence[Wheel]:
    """Download the wheels of pins from the index into a folder; pip checks their hashes.

    Raises SetupError without pip or if the index does not answer, and ConfigError if it has no such wheel.
    """
    if not pins:
        return []
    with tempfile.TemporaryDirectory() as name:
        (requirements := Path(name) / "requirements.txt").write_text(
            "".join(f"{pin.requirement}\n" for pin in pins), "utf-8"
        )
        options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", str(requirements)]
        runs_on = ["--implementation", "cp", "--python-version", target.release.python]
        runs_on += [f"--platform={platform}" for platform in target.platforms]
        result = run_pip(["download", "--retries=2", *options, *runs_on, "--dest", name])
        if result.returncode:
            raise _download_error(result.stderr, target)
        return [Wheel.read(Path(shutil.copy2(path, folder))) for path in sorted(Path(name).glob("*.whl"))]


def run_pip(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the pip of this environment; raises SetupError if there is none."""
    if find_spec("pip") is None:
        raise SetupError(
            "pip is not installed beside lakeward",
            found=f"{sys.executable} has no module pip",
            todo="python -m ensurepip, or in an environment of uv: uv pip install pip",
        )
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # no shell, no secret


def _download_error(output: str, target: Target) -> ConfigError | SetupError:
    """Return the error for the output of a pip that downloaded nothing."""
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1] if errors else output.strip()[-500:] or "pip printed nothing"
    if "connection broken by" in output or "Temporary failure in name resolution" in output:
        return SetupError(
            "the index of Python packages cannot be reached",
            found=reason,
            todo="`pip download` is used: check PIP_INDEX_URL, PIP_FIND_LINKS and the proxy.",
        )
    if "DO NOT MATCH THE HASHES" in output:
        return ConfigError(
            "a wheel of the index is not the one that lakeward was tested with",
            found=" ".join(output.partition("Got ")[0].split())[-500:],
            todo="Ask the owners of the index. Nothing was packaged.",
        )
    if missing := re.search(r"No matching distribution found for (\S+)", output):
        return ConfigError(
            f"the index has no wheel of {missing[1]} for {target}",
            found=f"Python {target.release.python}, {target.platforms[0]} and older",
            todo="Name an index that has it (PIP_INDEX_URL), or give a wheel that you built: --wheel FILE",
        )
    return SetupError("pip could not fetch the wheels", found=reason, todo="Try it by hand: pip download")
