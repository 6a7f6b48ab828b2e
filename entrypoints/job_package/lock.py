"""The packaged versions: those that lakeward was tested with on a line of Spark, with their hashes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import Version

from lakeward.entrypoints.job_package.releases import Release


@dataclass(frozen=True, slots=True)
class Pin:
    """A version of a distribution, and the SHA-256 hashes of its files, in hexadecimal."""

    name: str
    version: Version
    hashes: Sequence[str]

    @property
    def requirement(self) -> str:
        """The line in a requirements file.

        >>> Pin("six", Version("1.17.0"), ["ab", "cd"]).requirement
        'six==1.17.0 --hash=sha256:ab --hash=sha256:cd'
        """
        return " ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.hashes)])


def read_lock(release: Release, machine: str) -> Mapping[str, Pin]:
    """Return the pins of a release by normalized name, for its Python and a machine."""
    text = files(__package__).joinpath(f"lock-{release.line}.txt").read_text("utf-8")
    return pins_of(text, environment_of(release, machine))


def environment_of(release: Release, machine: str) -> Mapping[str, str]:
    """Return the values of the markers of dependencies on a platform, independent of the running Python."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{release.python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{release.python}.0",
        "python_version": release.python,
        "sys_platform": "linux",
    }


def pins_of(text: str, environment: Mapping[str, str]) -> Mapping[str, Pin]:
    r"""Return the pins of a lock for an environment, by normalized name.

    >>> pins = pins_of("six==1.0 ; os_name == 'nt' \\\n  --hash=sha256:aa\nA_b==2.1 \\\n  --hash=sha256:bb\n", {})
    >>> [(name, str(pin.version), pin.hashes) for name, pin in pins.items()]
    [('a-b', '2.1', ['bb'])]
    """
    pins: dict[str, Pin] = {}
    for entry in re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        requirement, *_ = entry.partition(" \\")
        name_and_version, _, marker = requirement.partition(";")
        name, _, version = name_and_version.strip().partition("==")
        if not marker or Marker(marker).evaluate(dict(environment)):
            hashes = re.findall(r"--hash=sha256:([0-9a-f]+)", entry)
            pins[canonicalize_name(name)] = Pin(name, Version(version), hashes)
    return pins
