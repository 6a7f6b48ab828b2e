"""An archive of Java's classes, so that Spark starts without reading and checking them anew.

It is Java's own: application class-data sharing (JEP 310 and 350, openjdk.org). Java
maps the archive into memory, and passes it over where jars or Java are other ones than
those it was made with. It is a cache: it may be removed at any time.
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
"""So many archives are kept, the newest: each virtual environment has its own, of about 200 MB."""


def archive_of(java: Path, jars: Sequence[Path]) -> Path:
    """Return where the archive for this Java, this Spark and these jars lies, if it was made."""
    made_with = [str(java.resolve()), pyspark.__version__, str(Path(pyspark.__file__).parent)]
    made_with += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    key = hashlib.sha256("\n".join(made_with).encode()).hexdigest()[:16]
    return cache().parent / _FOLDER / f"{key}.jsa"


def use(archive: Path) -> str | None:
    """Return Java's option to start with an archive, or None where it was not made."""
    return f'"-XX:SharedArchiveFile={archive}"' if archive.exists() else None


def make(archive: Path) -> str:
    """Return Java's option to write an archive when it ends; `keep` then puts it in its place."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    _unfinished(archive).unlink(missing_ok=True)
    return f'"-XX:ArchiveClassesAtExit={_unfinished(archive)}"'


def keep(archive: Path) -> Path | None:
    """Put a finished archive in its place, and return it; None where Java wrote none. The oldest go."""
    if not _unfinished(archive).exists():
        return None
    kept = _unfinished(archive).replace(archive)
    made = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in made[_MOST:]:
        old.unlink(missing_ok=True)
    return kept


def _unfinished(archive: Path) -> Path:
    return archive.with_name(archive.name + _UNFINISHED)
