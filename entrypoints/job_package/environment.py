"""A virtual environment as an archive, which Spark unpacks on each machine of EMR (`spark.archives`).

It is built from the wheels, without a Python of the platform: `bin/python` is a link to the Python of the
platform, which finds the packages by the place of the link. Scripts of wheels are left out: they contain paths of
one machine, and a job does not start them.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from lakeward.entrypoints.job_package.releases import Release
from lakeward.entrypoints.job_package.wheels import Wheel


def write_environment(wheels: Sequence[Wheel], release: Release, path: Path) -> None:
    """Write the environment of wheels for a release; the same wheels give the same file."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, target in (("bin/python", release.interpreter), ("bin/python3", "python")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(link)
        home = PurePosixPath(release.interpreter).parent
        _add(archive, "pyvenv.cfg", f"home = {home}\ninclude-system-site-packages = false\n".encode())
        for wheel in wheels:
            with zipfile.ZipFile(wheel.path) as files:
                for name, place in _places(files, f"lib/python{release.python}/site-packages"):
                    _add(archive, place, files.read(name))


def _places(wheel: zipfile.ZipFile, site: str) -> Iterator[tuple[str, str]]:
    """Yield each file of a wheel with its path in the environment (packaging.python.org, binary format)."""
    for name in sorted(wheel.namelist()):
        top, _, rest = name.partition("/")
        if name.endswith("/"):
            continue
        if not top.endswith(".data"):
            yield name, f"{site}/{name}"
            continue
        kind, _, within = rest.partition("/")
        if kind in ("purelib", "platlib"):
            yield name, f"{site}/{within}"
        elif kind == "data":
            yield name, within


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))
