"""The script of a packaged job, and the arguments with which a platform starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakeward import __version__
from lakeward.entrypoints.job_package.releases import TITLES, Release

SCRIPT: Final = "lakeward_job.py"
ENVIRONMENT: Final = "environment.tar.gz"
WHEELS: Final = "wheels"

SOMEWHERE: Final = "s3://BUCKET/PREFIX"
"""Placeholder of the place of a package that was written to a folder."""

_SCRIPT: Final = '''\
"""The script of the job: lakeward {version} on {title} {release} (docs/how-to/aws/package.md)."""

from lakeward.entrypoints.{platform} import main

if __name__ == "__main__":
    main()
'''


def script(release: Release) -> str:
    """Return the script of a job."""
    title = TITLES[release.platform]
    return _SCRIPT.format(version=__version__, title=title, release=release.name, platform=release.platform)


def glue_job(release: Release, kind: str, wheels: Sequence[str], place: str, settings: str) -> Mapping[str, Any]:
    """Return the input of `aws glue create-job` for a job of Glue, without its name and role.

    Only the wheels are installed, and pip does not use an index: Glue passes the option to its pip.
    """
    return {
        "GlueVersion": release.name,
        "Command": {"Name": "glueetl", "PythonVersion": "3", "ScriptLocation": f"{place}/{SCRIPT}"},
        "DefaultArguments": {
            "--additional-python-modules": ",".join(f"{place}/{WHEELS}/{name}" for name in wheels),
            "--python-modules-installer-option": "--no-index --no-deps",
            "--datalake-formats": kind,
            "--job-bookmark-option": "job-bookmark-disable",
            "--settings": settings,
        },
        "ExecutionProperty": {"MaxConcurrentRuns": 1},
    }


def serverless_job(place: str, settings: str) -> Mapping[str, Any]:
    """Return the input of `aws emr-serverless start-job-run --job-driver` for a job of EMR Serverless."""
    names = ("emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON", "emr-serverless.driverEnv.PYSPARK_PYTHON")
    return {
        "sparkSubmit": {
            "entryPoint": f"{place}/{SCRIPT}",
            "entryPointArguments": ["--settings", settings],
            "sparkSubmitParameters": " ".join(_environment_options(place, names)),
        }
    }


def step(place: str, settings: str) -> Mapping[str, Any]:
    """Return the input of `aws emr add-steps --steps` for a step of an EMR cluster."""
    options = _environment_options(place, ("yarn.appMasterEnv.PYSPARK_PYTHON",))
    return {
        "Name": "lakeward",
        "Type": "CUSTOM_JAR",
        "Jar": "command-runner.jar",
        "ActionOnFailure": "CONTINUE",
        "Args": ["spark-submit", "--deploy-mode", "cluster", *options, f"{place}/{SCRIPT}", "--settings", settings],
    }


def _environment_options(place: str, names: Sequence[str]) -> Sequence[str]:
    """Return the options of spark-submit that unpack the environment on each machine, and start its Python."""
    python = "./environment/bin/python"
    settings = {"archives": f"{place}/{ENVIRONMENT}#environment"}
    settings |= dict.fromkeys((*names, "executorEnv.PYSPARK_PYTHON"), python)
    return [part for name, value in settings.items() for part in ("--conf", f"spark.{name}={value}")]
