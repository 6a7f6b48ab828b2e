"""From the start of a process to its first committed row."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import mirror
import naive
from feed import Feed
from gate import WrongRows

from lakeward.adapters.spark.session.jars import fetch, locked

_BARE: Final = Path(__file__).with_name("bare.py")
LAKEWARD: Final = Path(sys.executable).with_name("lakeward")


def cache(folder: Path) -> Path:
    """Make a cache of lakeward's that has the jars and nothing else."""
    (folder / "jars").mkdir(parents=True)
    for jar in _jars():
        shutil.copy2(jar, folder / "jars")
    return folder


def archive(cache: Path) -> Mapping[str, str]:
    """Let `lakeward jars archive` do its work in a cache; return what makes a script start with it."""
    subprocess.run([LAKEWARD, "jars", "archive"], env=_environment(cache), check=True, stdout=subprocess.DEVNULL)
    (made,) = cache.glob("classes/*.jsa")
    return {"spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={made}"}


def lakeward(folder: Path, cache: Path, spark: Mapping[str, str]) -> float:
    """Let `lakeward run --once` mirror one row as a new table; return the seconds until it was committed."""
    Feed(folder / "landing", rows=0).insert()
    settings = mirror.write_settings(folder, folder / "landing", spark)
    seconds = _until_committed([LAKEWARD, "run", "--once", "--log", "json", "--config", settings], cache)
    _check_one_row("lakeward", mirror.Mirror(settings).rows().num_rows)
    return seconds


def bare(folder: Path, cache: Path, spark: Mapping[str, str]) -> float:
    """Let the bare script write one row into a new table; return the seconds until it was committed."""
    folder.mkdir(parents=True)
    settings = {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": os.pathsep.join(str(cache / "jars" / jar.name) for jar in _jars()),
        **naive.catalog_settings(folder),
        **spark,
    }
    given = [f"{name}={value}" for name, value in settings.items()]
    seconds = _until_committed([sys.executable, _BARE, *given], cache)
    _check_one_row("the bare script", naive.rows_in(folder).num_rows)
    return seconds


def _jars() -> Sequence[Path]:
    return [fetch(jar) for jar in locked({"iceberg", "sqlite"})]


def _environment(cache: Path) -> Mapping[str, str]:
    return {**os.environ, "LAKEWARD_CACHE": str(cache)}


def _until_committed(command: Sequence[str | Path], cache: Path) -> float:
    """Run a command to its end; return the seconds until it said that it has committed."""
    began = time.perf_counter()
    seconds, said = None, []
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=_environment(cache), **pipe) as process:
        for line in process.stdout or ():
            said.append(line)
            if seconds is None and "committed" in line:
                seconds = time.perf_counter() - began
    if process.returncode or seconds is None:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{''.join(said[-20:])}")
    return seconds


def _check_one_row(name: str, rows: int) -> None:
    if rows != 1:
        raise WrongRows(f"{name} left {rows} rows where one was written")
