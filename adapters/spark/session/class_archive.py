"""An archive of Java classes, so that Spark starts without loading and verifying them again.

This is application class-data sharing of Java (JEP 310 and 350, openjdk.org). Java maps the archive into memory,
and ignores it if the jars or Java differ from those it was made with. It is a cache and may be removed at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark

from lakeward.adapters.spark.session.jars import cache

_FOLDER: Final = "classes"
_UNFINISHED: Final = ".new"
_MOST: Final = 4
"""The number of archives that are kept, newest first: each virtual environment has its own, of about 200 MB."""


def archive_of(java: Path, jars: Sequence[Path]) -> Path:
    """Return the path of the archive for this Java, this Spark and these jars; the file need not exist."""
    inputs = [str(java.resolve()), pyspark.__version__, str(Path(pyspark.__file__).parent)]
    inputs += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return cache().parent / _FOLDER / f"{key}.jsa"


def use(archive: Path) -> str | None:
    """Return the option of Java that uses an archive, or None if the archive does not exist."""
    return f'"-XX:SharedArchiveFile={archive}"' if archive.exists() else None


def make(archive: Path) -> str:
    """Return the option of Java that writes an archive at exit; `keep` then moves it to its path."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    _unfinished(archive).unlink(missing_ok=True)
    return f'"-XX:ArchiveClassesAtExit={_unfinished(archive)}"'


def keep(archive: Path) -> Path | None:
    """Move a finished archive to its path and return it; None if Java wrote none. Remove the oldest archives."""
    if not _unfinished(archive).exists():
        return None
    finished = _unfinished(archive).replace(archive)
    archives = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_MOST:]:
        old.unlink(missing_ok=True)
    return finished


def _unfinished(archive: Path) -> Path:
    return archive.with_name(archive.name + _UNFINISHED)
