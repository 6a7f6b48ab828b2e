"""Find a Java that can run Spark, before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lakeward.core.errors import SetupError

SUPPORTED: Final = (17, 21)
"""The Java versions that Spark 4.1 is tested on (spark.apache.org/docs/4.1.0/#downloading)."""

_HOW: Final = (
    "Install Java 17: `apt install openjdk-17-jre-headless`, `dnf install java-17-openjdk-headless`, "
    "`brew install openjdk@17`, or https://adoptium.net/temurin/releases/?version=17. "
    "If it is installed, set JAVA_HOME to its folder."
)


def in_utf_8(names: str, locale_: str) -> Mapping[str, str]:
    """Return the environment variables with which Java encodes file names in UTF-8, as Python does.

    Python uses UTF-8 in the locale C as well (PEP 538, PEP 540). Java follows the locale, even if it is C or not
    installed. `names` is Python's encoding of file names, `locale_` that of the locale.

    >>> in_utf_8("utf-8", "ANSI_X3.4-1968"), in_utf_8("utf-8", "UTF-8")
    ({'LC_ALL': 'C.UTF-8'}, {})
    """
    is_utf_8 = [encoding.lower().replace("-", "") == "utf8" for encoding in (names, locale_)]
    return {"LC_ALL": "C.UTF-8"} if is_utf_8 == [True, False] else {}


def check_spark() -> None:
    """Raise SetupError if pyspark is not installed."""
    if find_spec("pyspark") is None:
        raise SetupError(
            "pyspark is not installed",
            found=f"this is {sys.executable}",
            todo="pip install 'lakeward[spark]', or in a clone of the repository: pip install '.[spark]'",
        )


def check_java() -> Path:
    """Return the `java` that Spark will start; raises SetupError if there is none, or it has a wrong version."""
    java = _find()
    version = _version(java)
    if version not in SUPPORTED:
        raise SetupError(
            "lakeward needs Java 17 or 21 to run Spark",
            found=f"found Java {version if version else 'of an unknown version'} at {java}",
            todo=_HOW,
        )
    return java


def _find() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise SetupError(
                "lakeward needs Java 17 or 21 to run Spark",
                found=f"JAVA_HOME is {home}, and there is no bin/java in it",
                todo=_HOW,
            )
        return java
    path = shutil.which("java")
    if path is None:
        raise SetupError(
            "lakeward needs Java 17 or 21 to run Spark",
            found="found no `java` on the PATH, and JAVA_HOME is not set",
            todo=_HOW,
        )
    return Path(path)


def _version(java: Path) -> int | None:
    """Return the major version of a Java, from its release file or else from `java -version`."""
    release = java.resolve().parent.parent / "release"
    stated = release.read_text(encoding="utf-8", errors="replace") if release.exists() else ""
    match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', stated)
    if match is None:
        match = re.search(r'version "(?:1\.)?(\d+)', _version_output(java))
    return int(match.group(1)) if match else None


def _version_output(java: Path) -> str:
    """Return the output of `java -version`, '' if it cannot be run."""
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  # the path is the user's own java
    except OSError:
        return ""
    return process.stderr + process.stdout
