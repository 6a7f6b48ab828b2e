"""An index of wheels without network and pip, for `lakeward package`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from lakeward.entrypoints.job_package import assembly, wheels
from lakeward.entrypoints.job_package.lock import Pin
from lakeward.entrypoints.job_package.wheels import Target, Wheel

SOURCES: Mapping[str, Sequence[str]] = {
    "six": (),
    "pydantic": ("six; extra == 'email'",),
    "pyiceberg": ("pydantic[email]", "tzdata; sys_platform == 'win32'", "tomli; python_version < '3.12'"),
    "tomli": (),
    "tzdata": (),
    "botocore": ("six",),
    "boto3": ("botocore",),
    "deltalake": (),
}
"""The requirements of each distribution."""

OF_LAKEWARD = ("pyiceberg", "boto3; extra == 's3'", "deltalake; extra == 'delta'", "pyspark; extra == 'spark'")


def make_wheel(
    folder: Path, name: str, requires: Sequence[str] = (), version: str = "1.0", tag: str = "py3-none-any"
) -> Path:
    path, info = folder / f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in {
            f"{name}/__init__.py": f"VERSION = {version!r}\n",
            f"{name}-{version}.data/purelib/{name}_more.py": "",
            f"{name}-{version}.data/data/share/{name}.txt": "",
            f"{name}-{version}.data/scripts/{name}": "#!python\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        }.items():
            archive.writestr(zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0)), content)
    return path


def download(pins: Sequence[Pin], target: Target, folder: Path) -> Sequence[Wheel]:
    return [Wheel.read(make_wheel(folder, pin.name, SOURCES[pin.name])) for pin in pins]


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "download", download)
    pins = {name: Pin(name, Version("1.0"), ["00"]) for name in SOURCES}
    monkeypatch.setattr(assembly, "read_lock", lambda release, machine: pins)
    monkeypatch.setattr(assembly, "make_own_wheel", lambda folder: make_wheel(folder, "lakeward", OF_LAKEWARD))
