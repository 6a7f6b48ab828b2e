"""`lakeward deploy render`: what it writes, and what it refuses with which words."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from buckets import Buckets
from commands import Command
from deployments import LEASE, LEDGER, QUEUE, SOURCE, render_template, settings, write_package, write_settings

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.pipeline_settings import read_pipeline
from lakeward.entrypoints.settings.configuration import load

RENDER = ("deploy", "render", "--platform", "glue")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(tmp_path / "package", "glue")


def test_the_template_and_the_code_of_the_functions_are_written(
    lakeward: Command, tmp_path: Path, package: Path
) -> None:
    write_settings(tmp_path, settings())
    for folder in ("one", "two"):
        ended = lakeward(*RENDER, "--package", str(package), "--to", folder, "--json")
        assert (ended.code, ended.document["dms"]) == (0, "make")
        assert "will never be raised" in ended.document["warnings"][0]
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    template, (archive,) = json.loads(one.pop("template.json")), one
    functions = [item for item in template["Resources"].values() if item["Type"] == "AWS::Lambda::Function"]
    keys = {item["Properties"]["Code"]["S3Key"]["Fn::Sub"] for item in functions}
    assert keys == {f"${{PackagePrefix}}/{archive}"}
    with zipfile.ZipFile(tmp_path / "one" / archive) as files:
        assert "lakeward/entrypoints/lambdas/start_run.py" in files.namelist()
    said = lakeward(*RENDER, "--package", str(package), "--to", "out", "--dms", "existing")
    assert "Parameters that must be given: PackageBucket, ReplicationTaskArn" in said.out
    assert "The alarms on lag, held keys and failures will never be raised" in said.err


def test_it_prints_the_template(lakeward: Command, tmp_path: Path, package: Path) -> None:
    write_settings(tmp_path, settings())
    ended = lakeward(*RENDER, "--package", str(package), "--to", "-", "--dms", "none")
    assert json.loads(ended.out)["AWSTemplateFormatVersion"] == "2010-09-09"
    assert not [*tmp_path.rglob("template.json")]
    assert "will never be raised" in ended.err
    ended = lakeward(*RENDER, "--package", str(package), "--to", "-", "--json")
    assert ended.document["error"]["what"] == "--to - and --json both write to standard output"


@pytest.mark.parametrize("to", ["package", "package/deploy", "link"])
def test_it_does_not_write_into_the_folder_of_the_package(
    lakeward: Command, tmp_path: Path, package: Path, to: str
) -> None:
    write_settings(tmp_path, settings())
    (tmp_path / "link").symlink_to(package)
    before = sorted(package.rglob("*"))
    ended = lakeward(*RENDER, "--package", "package", "--to", to, "--json")
    assert ended.code == 1
    assert ended.document["error"]["what"] == "--to names the folder of the package, or a folder in it"
    assert sorted(package.rglob("*")) == before
    assert lakeward(*RENDER, "--package", "package", "--to", ".").code == 0


def test_package_and_settings_may_be_in_a_bucket(
    lakeward: Command, s3: Buckets, tmp_path: Path, package: Path
) -> None:
    bucket = s3.make()
    for path in package.rglob("*"):
        if path.is_file():
            s3.put(f"s3://{bucket}/jobs/{path.relative_to(package).as_posix()}", path.read_bytes())
    s3.put(f"s3://{bucket}/shop.toml", settings())
    at = ["--package", f"s3://{bucket}/jobs", "--settings", f"s3://{bucket}/shop.toml"]
    assert lakeward(*RENDER, *at, "--to", "out").code == 0
    template = json.loads((tmp_path / "out" / "template.json").read_text("utf-8"))
    assert template["Parameters"]["PackageBucket"]["Default"] == bucket
    assert template["Parameters"]["PackagePrefix"]["Default"] == "jobs"
    arguments = template["Resources"]["ChangesJob"]["Properties"]["DefaultArguments"]
    assert arguments["--settings"] == f"s3://{bucket}/shop.toml"


def test_a_package_that_has_a_whole_bucket_is_refused(
    lakeward: Command, s3: Buckets, tmp_path: Path, package: Path
) -> None:
    bucket = s3.make()
    s3.put(f"s3://{bucket}/job.json", (package / "job.json").read_bytes())
    write_settings(tmp_path, settings())
    ended = lakeward(*RENDER, "--package", f"s3://{bucket}", "--to", "out", "--json")
    assert ended.document["error"]["todo"].startswith("Package with --to s3://bucket/prefix")


def settings_with(old: str, new: str = "") -> str:
    """Return the settings with other words in place of some of theirs."""
    assert old in settings()
    return settings().replace(old, new)


NO_PLACE = r"under \[source\] is no place in a bucket"
NO_QUEUE = r"`url` under \[queue\] names no queue"
AT_AWS, QUEUE_OF_AWS = "sqs.eu-central-1.amazonaws.com", QUEUE.format("deployed-landing")
ARCHIVED, HASH = (
    SOURCE + 'landing = "archived"\n',
    '[[tables."shop.orders".rules]]\nrule = "hash"\ncolumn = "status"\n',
)
STAGED = SOURCE + 'format = "csv"\ncdc_path = "cdc"\nstaging = "s3://deployed-landing/dms/staging"\n'
KAFKA = 'kind = "kafka"\nbootstrap = "broker:9092"\ntopic = "shop.{schema}.{table}"'
REFUSED = {
    "a name with a dot": (settings_with('name = "deployed"', 'name = "shop.eu"'), r"48 letters[\s\S]*no dot"),
    "a local landing folder": (
        settings(source='kind = "dms"\npath = "landing/"'),
        rf"`path` {NO_PLACE}[\s\S]*s3://bucket/prefix",
    ),
    "a local lake": (
        settings_with("s3://deployed-lake/tables", "lake/"),
        r"`warehouse` under \[target\] is no place in a bucket",
    ),
    "a local archive": (settings(source=ARCHIVED), f"`archive` {NO_PLACE}"),
    "a catalog that is a file": (
        settings_with('catalog = "glue"\n'),
        r"the catalog 'sqlite' cannot be deployed[\s\S]*catalog = \"glue\"",
    ),
    "a queue that is a file": (
        settings_with(QUEUE_OF_AWS, 'kind = "sqlite"'),
        r"the queue of the kind 'sqlite' cannot be deployed[\s\S]*kind = \"sqs\"",
    ),
    "no queue": (settings_with("[queue]\n" + QUEUE_OF_AWS), "the queue of the kind 'poll' cannot be deployed"),
    "a queue elsewhere": (settings_with('deployed-landing"\n[ledger]', 'a/b.c"\n[ledger]'), NO_QUEUE),
    "a queue on another host": (
        settings_with(AT_AWS, "sqs.localhost.localstack.cloud:4566"),
        rf"{NO_QUEUE}[\s\S]*localstack[\s\S]*must be that of SQS in AWS",
    ),
    "a queue on a host that ends like one of AWS": (settings_with(AT_AWS, "sqs.notamazonaws.com"), NO_QUEUE),
    "a queue at another endpoint": (
        settings_with("[queue]\n", '[queue]\nendpoint = "https://sqs.example.org"\n'),
        rf"{NO_QUEUE}[\s\S]*at the endpoint https://sqs.example.org",
    ),
    "a ledger that is a file": (
        settings_with("[ledger]\n" + LEDGER),
        r"the ledger of the settings is not one that jobs can share[\s\S]*kind = \"dynamodb\"",
    ),
    "no lease": (
        settings_with("[lease]\n" + LEASE),
        r"the lease of the settings is not one that jobs can share[\s\S]*there is none",
    ),
    "a ledger and a lease in one table": (
        settings_with("deployed-leases", "deployed-ledgers"),
        r"ledger and lease are in one table of DynamoDB[\s\S]*under \[lease\]",
    ),
    "a store that is a file": (
        settings() + '[[settings.stores]]\nkind = "file"\nname = "more.toml"\n',
        "a settings store is a file",
    ),
    "statistics of a file": (settings() + '[statistics]\nkind = "file"\npath = "a.json"\n', r"\[statistics\]"),
    "a catalogue": (settings() + '[catalogue]\nkind = "file"\npath = "a.json"\n', r"\[catalogue\]"),
    "a secret of the environment": (
        settings() + HASH + 'key = { env = "PEPPER" }\n',
        r"the secret env:PEPPER is on a machine[\s\S]*aws-secrets-manager:NAME",
    ),
    "a hook of the environment": (
        settings() + '[[notify]]\nkind = "slack"\nurl = { env = "HOOK" }\n',
        "the secret env:HOOK is on a machine",
    ),
    "tables where files land": (
        settings_with("deployed-landing/dms", "deployed-lake"),
        r"`warehouse` lies within `path`[\s\S]*s3://deployed-lake/tables/ is in s3://deployed-lake/",
    ),
    "files for workers where files land": (settings(source=STAGED), "`staging` lies within `path`"),
    "tables in the archive": (
        settings(source=ARCHIVED + 'archive = "s3://deployed-lake"\n'),
        "`warehouse` lies within `archive`",
    ),
    "a broker": (settings(source=KAFKA), "a source of the kind 'kafka' cannot be deployed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_a_job_could_not_use_are_refused_with_what_to_set(tmp_path: Path, case: str) -> None:
    text, expected = REFUSED[case]
    if "more.toml" in text:
        write_settings(tmp_path, "").with_name("more.toml").write_text("", "utf-8")
    file = write_settings(tmp_path, text)
    with pytest.raises(ConfigError, match=expected):
        read_pipeline(load(file), str(file))


def test_columns_are_no_secrets_whatever_they_are_called(tmp_path: Path) -> None:
    more = [
        f'[tables."shop.{name}"]\nkey = ["{name}"]\ncolumns = {{ {name} = "string" }}\n' for name in ("file", "env")
    ]
    file = write_settings(tmp_path, settings(more="\n" + "".join(more)))
    assert read_pipeline(load(file), str(file)).secrets == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SOURCE.replace('timestamp_column = "committed_at"\n', ""), "the endpoint would write no commit times"),
        (SOURCE + 'load = "full/{schema}/{table}"\n', "into one folder, under names of its own"),
        (SOURCE.replace("/dms", ""), r"`path` under \[source\] is a whole bucket"),
        ('kind = "files"\npath = "s3://deployed-landing/files"', "of the kind 'files' are not written by DMS"),
    ],
)
def test_an_endpoint_that_would_write_other_files_is_refused(tmp_path: Path, source: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        render_template(tmp_path, "glue", settings(source=source), dms="make")


def test_a_package_that_does_not_go_with_the_settings_is_refused(
    lakeward: Command, tmp_path: Path, package: Path
) -> None:
    write_settings(tmp_path, settings("delta"))
    words = ["deploy", "render", "--to", "out", "--json"]
    ended = lakeward(*words, "--platform", "glue", "--package", str(package))
    assert ended.document["error"]["todo"] == "Package again with --format delta."
    ended = lakeward(*words, "--platform", "emr-serverless", "--package", str(package))
    assert ended.document["error"]["what"] == f"the package in {package} is for another platform"
    ended = lakeward(*words, "--platform", "glue", "--package", str(tmp_path / "nothing"))
    assert "lakeward package glue" in ended.document["error"]["todo"]
    assert not (tmp_path / "out").exists()
