"""Deployed pipelines: their settings, packages of their jobs, and templates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fake_index import make_wheel

from lakeward.entrypoints.deployment.packaged_job import read_package
from lakeward.entrypoints.deployment.pipeline import Dms
from lakeward.entrypoints.deployment.pipeline_settings import read_pipeline
from lakeward.entrypoints.deployment.template import template
from lakeward.entrypoints.job_package import job_start
from lakeward.entrypoints.job_package.assembly import MANIFEST
from lakeward.entrypoints.job_package.releases import find_release
from lakeward.entrypoints.settings.configuration import load

JOBS = "s3://deployed-jobs/lakeward"

SOURCE = """
kind = "dms"
path = "s3://deployed-landing/dms"
timestamp_column = "committed_at"
"""

TARGETS = {
    "iceberg": 'kind = "iceberg"\ncatalog = "glue"\nwarehouse = "s3://deployed-lake/tables"',
    "delta": 'kind = "delta"\nwarehouse = "s3://deployed-lake/tables"',
    "hudi": 'kind = "hudi"\nwarehouse = "s3://deployed-lake/tables"',
}

QUEUE = 'kind = "sqs"\nurl = "https://sqs.eu-central-1.amazonaws.com/123456789012/{}"'
LEDGER = 'kind = "dynamodb"\ntable = "deployed-ledgers"'
LEASE = 'kind = "dynamodb"\ntable = "deployed-leases"'
TABLES = """
[tables."shop.orders"]
key = ["id"]
columns = { id = "bigint", status = "string", committed_at = "timestamp" }
[tables."shop.order_lines"]
key = ["id"]
columns = { id = "bigint", order_id = "bigint" }
"""


def settings(
    target: str = "iceberg", *, source: str = SOURCE, queue: str = "deployed-landing", more: str = TABLES
) -> str:
    """Return settings that can be deployed."""
    sections = {
        "pipeline": 'name = "deployed"',
        "source": source,
        "target": TARGETS[target],
        "queue": QUEUE.format(queue),
        "ledger": LEDGER,
        "lease": LEASE,
    }
    return "\n".join(f"[{name}]\n{section}" for name, section in sections.items()) + more


def write_settings(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "lakeward.toml"
    file.write_text(text, "utf-8")
    return file


def write_package(
    folder: Path, platform: str, kind: str = "iceberg", release: str | None = None, wheels: Sequence[Path] = ()
) -> Path:
    """Write the files of `lakeward package` with these wheels, or with nearly empty ones."""
    (folder / job_start.WHEELS).mkdir(parents=True)
    names = {"glue": "glue", "emr-serverless": "emr"}
    known_release = find_release(
        names[platform], release or {"glue": "5.1", "emr-serverless": "emr-7.14.0"}[platform]
    )
    files = [Path(shutil.copy(wheel, folder / job_start.WHEELS)).name for wheel in wheels]
    files = files or [make_wheel(folder / job_start.WHEELS, name).name for name in ("lakeward", "pydantic")]
    (folder / job_start.SCRIPT).write_text(job_start.script(known_release), "utf-8")
    glue = {"create-job": job_start.glue_job(known_release, kind, files, JOBS, f"{JOBS}/lakeward.toml")}
    emr = {"start-job-run": job_start.serverless_job(JOBS, f"{JOBS}/lakeward.toml")}
    manifest = {
        "platform": known_release.platform,
        "release": known_release.name,
        "spark": known_release.line,
        "arch": "x86_64",
        "format": kind,
        "jobs": glue if platform == "glue" else emr,
        "files": {},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    return folder


def render_template(
    folder: Path, platform: str, text: str | None = None, *, kind: str = "iceberg", dms: Dms = "make"
) -> dict[str, Any]:
    """Return the template of settings and a package."""
    file = write_settings(folder, settings(kind) if text is None else text)
    package = folder / f"{platform}-{kind}"
    if not package.exists():
        write_package(package, platform, kind)
    return template(read_pipeline(load(file), str(file)), read_package(str(package), platform), dms)


PARAMETERS = {
    "PackageBucket": "deployed-jobs",
    "PackagePrefix": "lakeward",
    "JobSubnets": "subnet-0a1,subnet-0b2",
    "JobSecurityGroups": "sg-0c3",
    "ReplicationTaskArn": "arn:aws:dms:eu-central-1:123456789012:task:deployed",
}


def words(template: dict[str, Any], kind: str) -> Sequence[str]:
    """Return the names of the resources of a type."""
    return [name for name, one in template["Resources"].items() if one["Type"] == kind]
