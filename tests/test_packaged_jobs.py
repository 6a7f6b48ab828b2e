"""A packaged job in a clean environment: the Python and Spark of a platform, and the package.

It fetches the wheels, so it needs the network.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from delta_lake import by_duckdb

from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.jars import fetch, locked
from lakeward.entrypoints.cli import main
from lakeward.entrypoints.job_package.job_start import SOMEWHERE
from lakeward.entrypoints.job_package.releases import PROVIDED, Release, newest_release

pytestmark = [pytest.mark.spark, pytest.mark.lines, pytest.mark.long]

SETTINGS = """
[pipeline]
name = "shop"
[source]
kind = "dms"
path = "landing"
[target]
kind = "delta"
warehouse = "lake"
[defaults.quarantine]
max_share = 1.0
[spark]
small_batch = 0
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string" }
"""
ROWS = [(1, "x"), (3, "c"), (4, "d")]
SEEN = """
import boto3, deltalake, json, lakeward.adapters, pyarrow, pydantic, pyspark
modules = (boto3, deltalake, lakeward.adapters, pyarrow, pydantic, pyspark)
print(json.dumps({module.__name__: module.__file__ for module in modules}))
"""
"""Prints where modules are imported from."""


def python_of(release: Release) -> str:
    """Return a Python on this machine with the version of a release."""
    if release.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{release.python}")
    if found is None or subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"{release.platform} {release.name} has Python {release.python}, which is not here")
    return found


def make_package(platform: str, folder: Path) -> Any:
    """Package for the newest release with the Spark of this line, and return the contents of job.json."""
    command = ["package", platform, "--to", str(folder), "--format", "delta", "--settings", "lakeward.toml"]
    assert main(command) == 0
    return json.loads((folder / "job.json").read_text("utf-8"))


def make_platform(folder: Path, platform: str) -> Path:
    """Make a folder with the installed packages that a platform has, and nothing else."""
    folder.mkdir()
    for name in PROVIDED[platform]:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (folder / name).symlink_to(spec.submodule_search_locations[0])
    return folder


def make_pipeline(folder: Path) -> None:
    """Make a folder with settings, a full load, changes, and the defaults of Spark."""
    (folder / "landing/shop/item").mkdir(parents=True)
    (folder / "lakeward.toml").write_text(SETTINGS, "utf-8")
    (folder / "landing/shop/item/LOAD00000001.csv").write_text("1,a\n2,b\n3,c\n", "utf-8")
    (folder / "landing/shop/item/20261121-100000000.csv").write_text("U,1,x\nD,2,b\nI,4,d\n", "utf-8")
    jars = ",".join(str(fetch(jar)) for jar in locked({"delta"}))
    (folder / "conf").mkdir()
    text = f"spark.jars {jars}\nspark.master local[2]\nspark.ui.enabled false\n"
    (folder / "conf/spark-defaults.conf").write_text(text, "utf-8")


def run_job(
    python: Path, script: Path, arguments: Sequence[str], folder: Path, platform: str, **more: str
) -> list[tuple[int, str]]:
    """Run a script in the folder of a pipeline, without the import paths of this process, and return the rows."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    given |= {"SPARK_CONF_DIR": str(folder / "conf"), **more}
    where = subprocess.run([python, "-c", SEEN], cwd=folder, env=given, capture_output=True, text=True, check=False)
    assert where.returncode == 0, where.stderr
    seen = json.loads(where.stdout)
    packaged = {name for name, file in seen.items() if Path(file).is_relative_to(python.parents[1])}
    assert seen.keys() - packaged == set(PROVIDED[platform]) & seen.keys()
    ended = subprocess.run(
        [python, script, *arguments], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return sorted((row["id"], row["name"]) for row in by_duckdb(str(folder / "lake/shop/item")).to_pylist())


def test_a_packaged_job_of_glue_runs(tmp_path: Path) -> None:
    """The wheels are installed like Glue does, into a Python with only Spark and boto3."""
    release = newest_release("glue", line())
    its_python = python_of(release)
    started = make_package("glue", tmp_path / "job")["jobs"]["create-job"]["DefaultArguments"]
    python, site = tmp_path / "venv/bin/python", tmp_path / f"venv/lib/python{release.python}/site-packages"
    subprocess.run([its_python, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site / "platform.pth").write_text(f"{make_platform(tmp_path / 'platform', 'glue')}\n", "utf-8")
    names = [url.removeprefix(f"{SOMEWHERE}/") for url in started["--additional-python-modules"].split(",")]
    options = shlex.split(started["--python-modules-installer-option"])
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, *options, *(tmp_path / "job" / name for name in names)], check=True)
    make_pipeline(tmp_path / "shop")
    arguments = [word for pair in started.items() for word in pair]
    of_glue = ["--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--JOB_NAME", "shop", "--TempDir", "s3://tmp/"]
    script = tmp_path / "job/lakeward_job.py"
    assert run_job(python, script, [*of_glue, *arguments], tmp_path / "shop", "glue") == ROWS


def test_a_packaged_job_of_emr_runs_in_its_environment(tmp_path: Path) -> None:
    """The environment is unpacked like Spark does, and PYTHONPATH has Spark's own modules, as on the platform."""
    interpreter = newest_release("emr", line()).interpreter
    if not Path(interpreter).exists():
        pytest.skip(f"there is no {interpreter}, as Amazon Linux has it")
    manifest = make_package("emr", tmp_path / "job")
    make_pipeline(tmp_path / "shop")
    with tarfile.open(tmp_path / "job/environment.tar.gz") as archive:
        archive.extractall(tmp_path / "shop/environment", filter="fully_trusted")  # noqa: S202  # made right here
    arguments = manifest["jobs"]["start-job-run"]["sparkSubmit"]["entryPointArguments"]
    python, platform = tmp_path / "shop/environment/bin/python", make_platform(tmp_path / "platform", "emr")
    of_emr = {"PYTHONPATH": str(platform), "PYSPARK_PYTHON": "./environment/bin/python"}
    script = tmp_path / "job/lakeward_job.py"
    assert run_job(python, script, arguments, tmp_path / "shop", "emr", **of_emr) == ROWS
