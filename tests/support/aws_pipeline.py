"""A whole pipeline on moto's services of AWS: its files, its stack, and the platform that runs its job.

CloudFormation of moto makes the parts of the template that it knows, and this module makes the others from the
template. Glue of moto starts nothing, so each run is a process with the script and the wheels of the package,
in a folder of its own, with the arguments of Glue.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets
from deployments import write_package, write_settings
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.glue.models import FakeJobRun, glue_backends
from moto.moto_api import state_manager
from policies import REGION, Stack
from spark import INTERPRETED, QUICKLY_COMPILED
from state_machines import ROLE, StepFunctions, wait_until

from lakeward.adapters.aws.s3.access import bucket_and_key
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.jars import fetch, locked
from lakeward.core.dimension import TableName
from lakeward.core.events import Operation
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.entrypoints.deployment.packaged_job import read_package
from lakeward.entrypoints.deployment.pipeline_settings import read_pipeline
from lakeward.entrypoints.deployment.template import template
from lakeward.entrypoints.job_package.releases import newest_release
from lakeward.entrypoints.settings.configuration import load

COLUMNS = {"id": "int", "name": "string", "price": "decimal(8,2)"}
BEGAN = datetime(2026, 11, 21, 9, tzinfo=UTC)
JARS = {"iceberg": {"iceberg", "aws", "s3"}, "delta": {"delta", "s3"}}
"""The jars that Glue adds for `--datalake-formats`."""

TARGETS = {
    "iceberg": 'kind = "iceberg"\ncatalog = "glue"\nwarehouse = "s3://{name}-lake/tables"',
    "delta": 'kind = "delta"\nwarehouse = "s3://{name}-lake/tables"\n[registration]\nkind = "glue"',
}

SETTINGS = """
[pipeline]
name = "{name}"
[source]
kind = "dms"
path = "s3://{name}-landing/dms"
timestamp_column = "committed_at"
[target]
{target}
[queue]
kind = "sqs"
url = "https://sqs.{region}.amazonaws.com/{account}/{name}-landing"
visibility = "1m"
[ledger]
kind = "dynamodb"
table = "{name}-ledgers"
[lease]
kind = "dynamodb"
table = "{name}-leases"
ttl = "10s"
[[notify]]
kind = "sns"
topic = "arn:aws:sns:{region}:{account}:{name}-people"
"""
OF_TABLE = '[tables."{table}"]\nkey = ["id"]\ncolumns = {{ {columns} }}\n'

BY_STACK = ("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::SNS::Topic", "AWS::Events::Rule")
"""The resource types that moto's CloudFormation makes."""

PATIENCE = 300.0
"""The seconds within which a run must begin, and a process must reach an awaited state."""

RUNS: Mapping[str, Any] = {"progression": "manual", "times": 1_000_000}
"""A run of Glue lasts until the test ends it."""

_COMMIT = r"(metadata/[^/]+\.metadata\.json|_delta_log/\d+\.json)$"
"""The file that a commit writes last, in Iceberg and in Delta."""

_GRACE = 11
"""The seconds after the end of a lease until another process gets it (docs/reference/lease.md), and one more."""

Rows = dict[int, tuple[object, ...]]


@dataclass
class Feed:
    """The files of one table as DMS writes them, and the rows that the table must have after them."""

    writer: DmsWriter
    rows: Rows = field(default_factory=dict)
    at: datetime = BEGAN

    def load(self, *names: str) -> list[Path]:
        """Write a full load of rows with these names and the keys 1, 2, 3 and so on."""
        self.rows = {key: (key, name, Decimal(f"{key}.50")) for key, name in enumerate(names, 1)}
        return self.writer.load(self.rows.values(), self.at)

    def change(self, number: int) -> Path:
        """Write a file that updates the first row, deletes the second one if it exists, and inserts another."""
        self.at += timedelta(hours=1)
        new = max(self.rows) + 1
        updated, inserted = (1, f"Köln {number}", Decimal(number)), (new, f'new, "{number}"', None)
        deleted = [row for key, row in self.rows.items() if key == 2]
        rows = {key: row for key, row in self.rows.items() if key > 2}
        self.rows = {1: updated, **rows, new: inserted}
        changes = [(Operation.UPDATE, updated), *((Operation.DELETE, row) for row in deleted)]
        changes.append((Operation.INSERT, inserted))
        times = [self.at + timedelta(seconds=second) for second in range(len(changes))]
        written = [Change(*one, time) for one, time in zip(changes, times, strict=True)]
        return self.writer.changes(written, self.at)


@dataclass(frozen=True)
class JobPackage:
    """A packaged job in a folder, with its installed wheels and the settings of Spark."""

    kind: str
    folder: Path
    site: Path
    conf: Path


def make_package(folder: Path, wheel: Path, kind: str) -> JobPackage:
    """Package only lakeward. Its libraries are those of the Python that runs the tests."""
    packed = write_package(folder / "job", "glue", kind, newest_release("glue", line()).name, [wheel])
    jars = ":".join(str(fetch(jar)) for jar in locked(JARS[kind]))
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": jars,
        **QUICKLY_COMPILED,
        **INTERPRETED,
    }
    (folder / "conf").mkdir()
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "conf/spark-defaults.conf").write_text(text, "utf-8")
    return JobPackage(kind, packed, folder / "site", folder / "conf")


@dataclass
class Notices:
    """A queue that subscribes to a topic. A test gets each message once."""

    client: Any
    url: str
    messages: list[Mapping[str, Any]] = field(default_factory=list)

    def all(self) -> Sequence[str]:
        """Return the texts of all messages so far."""
        while messages := self.client.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for one in messages:
                self.messages.append(json.loads(one["Body"]))
                self.client.delete_message(QueueUrl=self.url, ReceiptHandle=one["ReceiptHandle"])
        return [one["Message"] for one in self.messages]


@dataclass
class AwsPipeline:
    """A deployed pipeline, whose state machine is started by its function.

    `people` get the messages of `[[notify]]`, and `operators` those of the state machine.
    """

    aws: StepFunctions
    s3: Buckets
    stack: Stack
    package: JobPackage
    folder: Path
    feeds: Mapping[str, Feed]
    people: Notices
    operators: Notices
    reasons: dict[str, str]
    machine: str
    carried_out: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.aws.pipeline

    @property
    def database(self) -> str:
        return schema_of(self.name)

    def deliver(self, *files: Path) -> None:
        """Put files of DMS into the bucket, which sends an event for each."""
        for file in files:
            self._put(file, file.read_bytes())

    def deliver_part(self, file: Path) -> None:
        """Put a file of DMS that is cut off within a text of its last row."""
        content = file.read_bytes()
        self._put(file, content[: content.rindex(b'"new') + 3])

    def _put(self, file: Path, content: bytes) -> None:
        key = file.relative_to(self.folder / "landing").as_posix()
        self.s3.put(f"s3://{self.name}-landing/dms/{key}", content)

    def start(self) -> str:
        """Start the state machine like its schedule, and return the execution."""
        answer = json.loads(self.aws.invoke(f"{self.name}-start-run", "{}"))
        assert answer["started"]
        return f"{self.machine.replace(':stateMachine:', ':execution:')}:{answer['execution']}"

    def waiting(self, title: str = "Queue") -> int:
        """Return the number of messages that wait in a queue of the template."""
        names = ["ApproximateNumberOfMessages"]
        asked = self.aws.client("sqs").get_queue_attributes(QueueUrl=self._queue(title), AttributeNames=names)
        return int(asked["Attributes"][names[0]])

    def lose_messages(self) -> None:
        self.aws.client("sqs").purge_queue(QueueUrl=self._queue("Queue"))

    def _queue(self, title: str) -> str:
        name = self.stack.template["Resources"][title]["Properties"]["QueueName"]
        return str(self.aws.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])

    def expected(self) -> dict[str, Rows]:
        return {table: feed.rows for table, feed in self.feeds.items()}

    def committed(self, since: int) -> set[str]:
        """Return the tables with commits after so many requests to S3."""
        paths = [one.path for one in self.s3.requests[since:] if one.method in ("PUT", "POST")]
        matches = [re.match(rf"/{self.name}-lake/tables/[^/]+/([^/]+)/{_COMMIT}", path) for path in paths]
        return {one[1] for one in matches if one is not None and not one[1].endswith("__changes")}

    def has_lease(self) -> bool:
        """Return True if a lease is held, also by a dead run: it is free only when its time is over."""
        name = self.stack.resolve(self.stack.template["Resources"]["LeaseTable"]["Properties"]["TableName"])
        item = self.aws.client("dynamodb").get_item(TableName=name, Key={"lease": {"S": self.name}}).get("Item")
        return item is not None and int(item["until"]["N"]) / 1e6 + _GRACE > time.time()

    def commit_batch(
        self, *, kill: Callable[[], bool] | None = None, before_end: Callable[[], None] | None = None
    ) -> str:
        """Wait until the state machine has started a run, execute it like Glue, and return its state.

        It is killed once `kill` returns True. `before_end` is called before Glue reports the end.
        """
        run = wait_until(self._next_run, PATIENCE)
        self.carried_out.append(run.job_run_id)
        job = self.aws.client("glue").get_job(JobName=run.job_name)["Job"]
        arguments = {**job["DefaultArguments"], **run.arguments}
        own = self.folder / f"run-{len(self.carried_out)}"
        own.mkdir()
        self._install(arguments)
        script = self._fetch(job["Command"]["ScriptLocation"], own)
        of_glue = {"--JOB_ID": "j_1", "--JOB_RUN_ID": run.job_run_id, "--JOB_NAME": run.job_name}
        of_glue |= {"--TempDir": f"s3://{self.name}-jobs/temporary/", **arguments}
        words = [word for pair in of_glue.items() for word in pair]
        code, output = self._process([sys.executable, str(script), *words], own, kill)
        if before_end is not None:
            before_end()
        if code != 0:
            killed = f"the driver was ended by signal {-code}" if code < 0 else ""
            self.reasons[run.job_run_id] = killed or output.rpartition("JobFailed: ")[2].strip()
        run._status = "FAILED" if code else "SUCCEEDED"
        return str(run._status)

    @property
    def reason(self) -> str:
        return self.reasons.get(self.carried_out[-1], "")

    def _next_run(self) -> FakeJobRun | None:
        jobs = glue_backends[ACCOUNT][REGION].jobs
        of_pipeline = [jobs[f"{self.name}-{title}"] for title in ("full-load", "changes")]
        runs = [run for job in of_pipeline for run in job.job_runs if run.job_run_id not in self.carried_out]
        return runs[0] if runs else None

    def _install(self, arguments: Mapping[str, str]) -> None:
        if self.package.site.exists():
            return
        urls = arguments["--additional-python-modules"].split(",")
        wheels = [str(self._fetch(url, self.package.folder.parent)) for url in urls]
        options = shlex.split(arguments["--python-modules-installer-option"])
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *options]
        subprocess.run([*pip, "--target", self.package.site, *wheels], check=True)

    def _fetch(self, url: str, folder: Path) -> Path:
        bucket, key = bucket_and_key(url)
        file = folder / key.rpartition("/")[2]
        file.write_bytes(self.s3.client.get_object(Bucket=bucket, Key=key)["Body"].read())
        return file

    def _process(self, command: Sequence[str], folder: Path, kill: Callable[[], bool] | None) -> tuple[int, str]:
        given = {name: value for name, value in os.environ.items() if not name.startswith("LAKEWARD_")}
        given |= {"PYTHONPATH": str(self.package.site), "SPARK_CONF_DIR": str(self.package.conf)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, env=given, stdout=log, stderr=log)
            try:
                if kill is None:
                    process.wait(PATIENCE)
                else:
                    wait_until(lambda: kill() or process.poll() is not None, PATIENCE)
            finally:
                process.kill()
                code = process.wait()
        return code, (folder / "log").read_text("utf-8", "replace")


def schema_of(name: str) -> str:
    return name.replace("-", "_")


def settings_of(name: str, kind: str, tables: Sequence[str]) -> str:
    """Return the settings of a pipeline, with tables of the same columns."""
    columns = ", ".join(f'{column} = "{type_}"' for column, type_ in COLUMNS.items())
    values = {"name": name, "region": REGION, "account": ACCOUNT, "target": TARGETS[kind].format(name=name)}
    own = [OF_TABLE.format(table=f"{schema_of(name)}.{table}", columns=columns) for table in tables]
    return SETTINGS.format(**values) + "".join(own)


@contextmanager
def deployed(
    aws: StepFunctions,
    s3: Buckets,
    package: JobPackage,
    folder: Path,
    tables: Sequence[str],
    idle_turns: int | None = None,
) -> Iterator[AwsPipeline]:
    """Deploy a pipeline whose state machine checks its queue every second.

    After `idle_turns` seconds without messages it runs all tables. None is an hour, as in the template.
    """
    name = aws.pipeline
    file = write_settings(folder, settings_of(name, package.kind, tables))
    made = template(read_pipeline(load(file), str(file)), read_package(str(package.folder), "glue"), "none", poll=1)
    there = {"MakeLeaseTable": "no"}  # that of `step_functions`
    stack = Stack(made, {"PackageBucket": f"{name}-jobs", "PackagePrefix": "lakeward", **there})
    schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in COLUMNS.items()))
    style = Style(timestamp_column="committed_at")
    names = {table: TableName(schema_of(name), table) for table in tables}
    feeds = {table: Feed(DmsWriter(folder / "landing", own, schema, style)) for table, own in names.items()}
    _bring(s3, stack, package, file)
    _make_stack(aws, stack)
    _tell_events(s3, f"{name}-landing")
    people = aws.client("sns").create_topic(Name=f"{name}-people")["TopicArn"]
    subscriptions = [_subscribed(aws, topic) for topic in (people, stack.resolve({"Ref": "NoticeTopic"}))]
    with pytest.MonkeyPatch.context() as patch, _glue(patch) as reasons:
        _make_functions(aws, stack, patch)
        machine = _make_machine(aws, stack, idle_turns)
        try:
            yield AwsPipeline(aws, s3, stack, package, folder, feeds, *subscriptions, reasons, machine)
        finally:
            aws.stop()
            aws.client("cloudformation").delete_stack(StackName=name)


def _bring(s3: Buckets, stack: Stack, package: JobPackage, settings: Path) -> None:
    """Upload package and settings for the jobs."""
    bucket, prefix = stack.values["PackageBucket"], stack.values["PackagePrefix"]
    s3.client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for path in [*package.folder.rglob("*.*"), settings]:
        key = settings.name if path == settings else path.relative_to(package.folder).as_posix()
        s3.put(f"s3://{bucket}/{prefix}/{key}", path.read_bytes())


def _make_stack(aws: StepFunctions, stack: Stack) -> None:
    made = stack.template
    chosen = {name: one for name, one in made["Resources"].items() if one["Type"] in BY_STACK}
    template = {key: made[key] for key in ("AWSTemplateFormatVersion", "Parameters", "Conditions")}
    given = [{"ParameterKey": name, "ParameterValue": value} for name, value in stack.values.items()]
    body = json.dumps({**template, "Resources": chosen})
    aws.client("cloudformation").create_stack(StackName=aws.pipeline, TemplateBody=body, Parameters=given)
    for one in made["Resources"].values():
        if one["Type"] == "AWS::Glue::Job":
            aws.client("glue").create_job(**{**stack.resolve(one["Properties"]), "Role": ROLE})


def _tell_events(s3: Buckets, bucket: str) -> None:
    """Send the events of a bucket to EventBridge, which moto's CloudFormation does not do."""
    s3.client.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )


def _subscribed(aws: StepFunctions, topic: str) -> Notices:
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName=f"told-{topic.rpartition(':')[2]}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return Notices(sqs, url)


def _make_functions(aws: StepFunctions, stack: Stack, patch: pytest.MonkeyPatch) -> None:
    """Register the functions of the template by name, with their environment variables."""
    for one in stack.template["Resources"].values():
        if one["Type"] == "AWS::Lambda::Function":
            properties = stack.resolve(one["Properties"])
            module, _, handler = properties["Handler"].rpartition(".")
            aws.handlers[properties["FunctionName"]] = getattr(importlib.import_module(module), handler)
            for name, value in properties["Environment"]["Variables"].items():
                patch.setenv(name, value)


def _make_machine(aws: StepFunctions, stack: Stack, idle_turns: int | None) -> str:
    """Make the state machine of the template, which waits a second instead of minutes."""
    properties = stack.template["Resources"]["StateMachine"]["Properties"]
    definition = json.loads(json.dumps(properties["Definition"]))
    definition["States"]["Pause"]["Seconds"] = 1
    for state in definition["States"].values():
        if "Resource" in state:
            state["Resource"] = stack.resolve(state["Resource"])
    for choice in definition["States"]["QueueState"]["Choices"] if idle_turns is not None else ():
        if "NumericGreaterThanEquals" in choice:
            choice["NumericGreaterThanEquals"] = idle_turns
    text = json.dumps(definition)
    for name, value in stack.resolve(properties["DefinitionSubstitutions"]).items():
        text = text.replace(f"${{{name}}}", value)
    made = aws.client("stepfunctions").create_state_machine(
        name=properties["StateMachineName"], definition=text, roleArn=ROLE
    )
    aws.machines.append(str(made["stateMachineArn"]))
    return aws.machines[-1]


@contextmanager
def _glue(patch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Let runs of Glue last until they are ended, and yield the reasons of failed runs by id."""
    reasons: dict[str, str] = {}
    as_dict = FakeJobRun.as_dict

    def with_reason(run: FakeJobRun) -> dict[str, Any]:
        reason = reasons.get(run.job_run_id)
        return as_dict(run) if reason is None else {**as_dict(run), "ErrorMessage": reason}

    patch.setattr(FakeJobRun, "as_dict", with_reason)
    state_manager.set_transition("glue::job_run", RUNS)
    try:
        yield reasons
    finally:
        state_manager.unset_transition("glue::job_run")
