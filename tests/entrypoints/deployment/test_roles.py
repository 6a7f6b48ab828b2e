"""Roles of templates: each allows what its part calls, and nothing that it does not.

What boto3 is asked for is noted while the code of a part runs on a server that plays AWS, on resources that are
made from the template itself. What libraries of Java and Rust, and the services, ask for by themselves is listed
here, with the page that says so.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from buckets import ENVIRONMENT, Buckets
from deployments import PARAMETERS, SOURCE, TABLES, render_template, settings, write_settings
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.glue.models import glue_backends
from moto.lakeformation.models import lakeformation_backends
from policies import (
    REGION,
    Call,
    Requested,
    Stack,
    Statement,
    calls_of,
    missing_permissions,
    record_requests,
    unused_permissions,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from repository import ROOT

from lakeward.adapters.aws.s3.access import find_access
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.shared.storage.bucket import BucketFolder
from lakeward.adapters.ledgers.dynamodb import ledger
from lakeward.adapters.settings_stores.dynamodb import WrittenControlTable
from lakeward.adapters.sources.landing.bucket_store import BucketStore
from lakeward.adapters.sources.staging.location import default_staging
from lakeward.adapters.sources.staging.prefix_factory import open_staging
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ports import DescribedColumn, DescribedPartition, TableDescription, TableStatus
from lakeward.core.reporting.notices import NoticeEntry, RunNotice
from lakeward.core.schema import parse_type
from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, Dms
from lakeward.entrypoints.deployment.pipeline_settings import read_pipeline
from lakeward.entrypoints.deployment.resources.job_role import job_role
from lakeward.entrypoints.lambdas import dms_status, history_check, start_run
from lakeward.entrypoints.settings.configuration import Configuration, load
from lakeward.plugins import Runtime
from lakeward.plugins.manager import load as load_plugins
from lakeward.plugins.manager import registry_of

ORDERS = TableName("shop", "orders")
LANDING, LAKE = "arn:aws:s3:::deployed-landing", "arn:aws:s3:::deployed-lake"
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"


def s3(actions: Sequence[str], resource: str) -> list[Call]:
    return [Call(f"s3:{action}", resource) for action in actions]


OF_PACKAGE = [
    *s3(["ListBucket"], "arn:aws:s3:::deployed-jobs"),
    *s3(["GetObject"], "arn:aws:s3:::deployed-jobs/lakeward/lakeward_job.py"),
]
"""The platform fetches script, wheels and archive: "Review IAM permissions needed for ETL jobs" (Glue), "Job
runtime roles for Amazon EMR Serverless"."""

OF_TABLE_FORMATS = [
    *s3(["ListBucket"], LAKE),
    *s3(
        ["GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"],
        f"{LAKE}/tables/shop/orders/data/00000.parquet",
    ),
]
"""Hadoop's S3A ("Working with IAM Assumed Roles": read and write), S3FileIO of Iceberg, and delta-rs: files are
written in parts, which are aborted where that fails."""

OF_ICEBERG_IN_GLUE = [
    Call(f"glue:{action}", f"arn:aws:glue:{REGION}:{ACCOUNT}:{part}")
    for resource, parts in {
        "Database": ["catalog", "database/shop"],
        "Table": ["catalog", "database/shop", "table/shop/orders"],
    }.items()
    for action in (
        f"{verb}{resource}" for verb in ("Get", "Create", *(["Update", "Delete"] if resource == "Table" else []))
    )
    for part in parts
]
"""GlueCatalog of Iceberg (iceberg.apache.org/docs/latest/aws): Java asks what PyIceberg asks, which is noted."""

OF_ASSUMED_ROLE = [
    Call(f"sts:{action}", f"arn:aws:iam::{ACCOUNT}:role/deployed-lake") for action in ("AssumeRole", "TagSession")
]
"""AssumeRoleAwsClientFactory of Iceberg: the session has the tags that the catalog properties say."""

OF_STAGING = s3(["AbortMultipartUpload"], "arn:aws:s3:::deployed-staging/files/deployed/dms/rows.parquet")
"""A file that is sent in parts, where that fails."""

OF_ARCHIVE = [
    *s3(["GetObjectTagging"], f"{LANDING}/dms/shop/orders/1.parquet"),
    *s3(["PutObjectTagging", "AbortMultipartUpload"], "arn:aws:s3:::deployed-archive/dms/shop/orders/1.parquet"),
    *s3(["ListBucket"], "arn:aws:s3:::deployed-archive"),
]
"""CopyObject of an object with tags, and of one that is copied in parts ("Copying objects" in the guide of S3); to
ask for a key that is not there ("HeadObject")."""

OF_LOGS = {
    "glue": [
        Call(f"logs:{action}", f"{LOGS}/aws-glue/jobs/output:log-stream:jr_1")
        for action in ("CreateLogGroup", "CreateLogStream", "PutLogEvents")
    ],
    "emr-serverless": [
        Call("logs:DescribeLogGroups", f"{LOGS}*"),
        *(
            Call(f"logs:{action}", f"{LOGS}/aws/emr-serverless/deployed:log-stream:driver")
            for action in ("CreateLogStream", "DescribeLogStreams", "PutLogEvents")
        ),
    ],
}
"""AWSGlueServiceRole, of which other groups are left out; "Logging for EMR Serverless with Amazon CloudWatch"."""


def of_function_logs(name: str) -> list[Call]:
    """Return what Lambda does for a function: AWSLambdaBasicExecutionRole, on a group that is there."""
    stream = f"{LOGS}/aws/lambda/deployed-{name}:log-stream:2026"
    return [Call(f"logs:{action}", stream) for action in ("CreateLogStream", "PutLogEvents")]


MADE = ("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::SNS::Topic")
"""What the stack of a test has: the code that is run uses it."""


class Deployed:
    """A pipeline whose template was rendered, and of whose stack the places of data were made."""

    def __init__(self, folder: Path, own: dict[str, Any]) -> None:
        self.folder, self.own = folder, own
        self.requests: list[Requested] = []
        self.has_stack = False

    def client(self, service: str) -> Any:
        """Return a client of the test, whose requests are not noted: making one takes a while."""
        if service not in self.own:
            self.own[service] = boto3.Session().client(service)
        return self.own[service]

    def render(self, text: str, platform: str = "glue", kind: str = "iceberg", dms: Dms = "none") -> Stack:
        """Render settings, and make what the code that is run will use."""
        made = render_template(self.folder, platform, text, kind=kind, dms=dms)
        chosen = {name: one for name, one in made["Resources"].items() if one["Type"] in MADE}
        kept = {key: made[key] for key in ("AWSTemplateFormatVersion", "Parameters", "Conditions")}
        known = {name: value for name, value in PARAMETERS.items() if name in made["Parameters"]}
        given = [{"ParameterKey": name, "ParameterValue": value} for name, value in known.items()]
        body = json.dumps({**kept, "Resources": chosen})
        self.has_stack = True
        self.client("cloudformation").create_stack(StackName="deployed", TemplateBody=body, Parameters=given)
        return Stack(made, PARAMETERS)

    def remove(self) -> None:
        """Remove what was made: other tests have the same server."""
        if self.has_stack:
            self.client("cloudformation").delete_stack(StackName="deployed")
        s3, sqs, dynamodb = (self.client(name) for name in ("s3", "sqs", "dynamodb"))
        for bucket in (one["Name"] for one in s3.list_buckets()["Buckets"] if one["Name"].startswith("deployed-")):
            for item in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
                s3.delete_object(Bucket=bucket, Key=item["Key"])
            s3.delete_bucket(Bucket=bucket)
        for url in sqs.list_queues(QueueNamePrefix="deployed-").get("QueueUrls", ()):
            sqs.delete_queue(QueueUrl=url)
        for table in (name for name in dynamodb.list_tables()["TableNames"] if name.startswith("deployed-")):
            dynamodb.delete_table(TableName=table)
        glue_backends.reset()
        lakeformation_backends.reset()

    def configured(self) -> Configuration:
        return load(self.folder / "lakeward.toml")

    def calls(self) -> list[Call]:
        """Return what IAM would have been asked since the last time."""
        found = [call for request in self.requests for call in calls_of(request)]
        self.requests.clear()
        return found


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    return {}


@pytest.fixture
def deployed(
    s3_server: Buckets, clients: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployed]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in {**ENVIRONMENT, "AWS_ACCESS_KEY_ID": "test", "AWS_ENDPOINT_URL": s3_server.endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ledger, "_PART", 100)  # so that what is written is in parts
    glue_backends.reset()  # other tests leave tables there
    lakeformation_backends.reset()
    pipeline = Deployed(tmp_path, clients)
    monkeypatch.setattr(BaseClient, "_make_api_call", record_requests(pipeline.requests, pipeline.own))
    yield pipeline
    pipeline.remove()


# What the job does.


def use_queue(deployed: Deployed, configured: Configuration) -> None:
    """Receive messages, keep one, delete one."""
    sqs = deployed.client("sqs")
    url = sqs.get_queue_url(QueueName=configured.settings.queue.model_dump()["url"].rpartition("/")[2])["QueueUrl"]
    group = {"MessageGroupId": "1"} if url.endswith(".fifo") else {}
    for table in ("shop.orders", "shop.order_lines"):
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"table": table}), **group)
    queue: Any = Container(configured=configured, on_fetch=None).queue()
    queue.url, queue.wait = url, 0
    queue.now = lambda: time.time_ns() // 1000 + hours
    hours = 0
    first, second = queue.receive()
    hours = queue.visibility * 1_000_000 * 3 // 4
    queue.extend([first])
    queue.acknowledge([first])
    queue.give_back([second])


def use_ledger(deployed: Deployed, configured: Configuration) -> None:
    """Note a file, in as many requests as thousands of them take, and ask for it in every way."""
    found = Container(configured=configured, on_fetch=None).ledger()
    record = ObjectRecord(object=SourceObject("f", 1, 1, 1), state=ObjectState.SEEN)
    for anew in (False, True):
        found.write("shop.orders", Notes(replaces_all=anew, records=[record]))
    assert found.account("shop.orders").waiting == {"f": record.object}
    assert [*found.objects("shop.orders", names=["f"])] == [record]


def use_lease(deployed: Deployed, configured: Configuration) -> None:
    lease = Container(configured=configured, on_fetch=None).lease()
    assert lease is not None
    lease.give_back(lease.renew(lease.take("deployed", "a job")))


def look_at_landing(deployed: Deployed, configured: Configuration) -> None:
    """List and read what landed, as the source does on the driver."""
    store = BucketStore(find_access().client)
    folder = "s3://deployed-landing/dms"
    assert store.resolve(folder) is not None
    assert [*store.folders(folder)] == ["shop"]
    (found,) = store.list(f"{folder}/shop/orders", None)
    assert store.open(f"{folder}/shop/orders/{found.name}").read() == b"content"
    find_access().check(folder)


def move_to_archive(deployed: Deployed, configured: Configuration) -> None:
    name = "shop/orders/1.parquet"
    BucketStore(find_access().client).move(f"s3://deployed-landing/dms/{name}", f"s3://deployed-archive/dms/{name}")


def write_iceberg(deployed: Deployed, configured: Configuration) -> None:
    """Make, change, read and drop tables of the Glue catalog, as PyIceberg does."""
    options = {name: value for name, value in configured.settings.target.items() if name != "kind"}
    catalog = IcebergCatalog(IcebergOptions.model_validate(options), Path())
    for _ in range(2):
        catalog.prepare(ORDERS)
    schema = Schema(NestedField(1, "id", LongType()))
    assert catalog.load(ORDERS) is None
    made = catalog.create(ORDERS, "", schema, PartitionSpec(), {})
    with made.transaction() as transaction:
        transaction.set_properties(a="b")
    assert catalog.drop_unwritten(ORDERS)


def write_files(deployed: Deployed, configured: Configuration) -> None:
    """Look at the files of a table, and remove one, under the lock that Delta Lake and Hudi need."""
    deployed.client("s3").put_object(Bucket="deployed-lake", Key="tables/shop/orders/a", Body=b"x")
    folder = BucketFolder("s3://deployed-lake/tables/shop/orders", find_access())
    folder.prepare()
    with folder.lock("shop.orders"):
        assert [one.name for one in folder.all_files()] == ["a"]
        assert folder.open("a").read() == b"x"
        folder.remove("a")


def stage_rows(deployed: Deployed, configured: Configuration) -> None:
    """Write, read, copy, list and remove what Spark's workers read, as the source does on a cluster."""
    if "staging" in configured.settings.source:
        where = {"LocationConstraint": REGION}
        deployed.client("s3").create_bucket(Bucket="deployed-staging", CreateBucketConfiguration=where)
    runtime = Runtime(lambda: None, pipeline="deployed")
    runtime.staging = default_staging(configured.settings.target["warehouse"], "yarn")
    prefix = open_staging(configured.settings.source.get("staging"), runtime, "dms")
    assert prefix is not None
    prefix.write("a", b"content")
    prefix.upload(configured.file, "b")
    prefix.copy("a", "c")
    assert prefix.read("c") == b"content"
    assert [one.name for one in prefix.list()] == ["a", "b", "c"]
    prefix.remove(["a", "b", "c"])


def send_notice(deployed: Deployed, configured: Configuration) -> None:
    deployed.client("sns").create_topic(Name=TOPIC.rpartition(":")[2])
    notice = RunNotice(pipeline="deployed", run="1", at=0, entries=[NoticeEntry(table="a", code="b", reason="c")])
    (notifier,) = Container(configured=configured, on_fetch=None).notifiers().values()
    notifier.send(notice)
    deployed.client("sns").delete_topic(TopicArn=TOPIC)


def described(kind: str, *values: str, namespace: str = "shop", name: str = "orders") -> TableDescription:
    """Return a table as the lake describes it, with a column more, and a partition of Hudi, for each value."""
    place = f"s3://deployed-lake/tables/{namespace}/{name}"
    partitions = tuple(DescribedPartition(values=(value,), location=f"{place}/{value}") for value in values)
    columns = ("id", "status", *(f"column_{value}" for value in values))
    return TableDescription(
        namespace=namespace,
        name=name,
        format=kind,
        location=place,
        columns=tuple(DescribedColumn(name=column, type=parse_type("string")) for column in columns),
        partition_by=("status",) if kind == "hudi" else (),
        partitions=partitions if kind == "hudi" else None,
        is_raw=kind == "parquet" or name.endswith("__quarantine"),
    )


def register_tables(deployed: Deployed, configured: Configuration) -> None:
    """Register a table, another state of it, its quarantine and its files, as the settings say."""
    said = configured.settings.registration
    assert said is not None
    registration: Any = Container(configured=configured, on_fetch=None).registration()
    kind = configured.settings.target["kind"]
    tables = [described(kind, *values) for values in (("a", "b"), ("b", "c"))]
    if said.quarantine:
        tables.append(described(kind, name="orders__quarantine"))
    if said.raw is not None:
        tables += [described("parquet", *more, namespace=said.raw_namespace("Shop")) for more in ([], ["a"])]
    if "all_but" in configured.file.read_text("utf-8"):
        registration.access.client.meta.events.register("before-call.lakeformation", answer_nothing)
    for table in tables:
        registration.register(table)


def answer_nothing(**_: object) -> Any:
    """Answer for Lake Formation that nothing is there, of what moto does not play: tags, and grants of columns."""
    return AWSResponse("", 200, {}, None), {}


ARCHIVED = SOURCE + 'landing = "archived"\narchive = "s3://deployed-archive/dms"\n'

TRANSACTIONS = SOURCE + 'format = "csv"\ncdc_path = "cdc"\n'
STAGED = TRANSACTIONS + 'staging = "s3://deployed-staging/files"\n'
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:data-team"
NOTIFY = f"""
[[notify]]
kind = "sns"
topic = "{TOPIC}"
"""
REGISTER = """
[registration]
kind = "glue"
"""
FILES_TOO = f"""{REGISTER}
quarantine = true
raw = "Files"
"""
ELSEWHERE = """
database = "Lake"
region = "eu-west-1"
catalog_id = "210987654321"
[registration.lake_formation]
database_grants = [{ principal = "arn:aws:iam::123456789012:role/analyst", permissions = ["DESCRIBE"] }]
grants = [{ principal = "arn:aws:iam::123456789012:role/analyst", permissions = ["SELECT"] }]
"""
TAGS = """
raw = "{schema}_raw"
[registration.lake_formation]
database_tags = { domain = "sales" }
lf_tags = { pii = "no" }
[registration.lake_formation.tables."shop.orders"]
column_tags = { status = { pii = "yes" } }
grants = [{ principal = "123456789012", permissions = ["SELECT"], all_but = ["status"] }]
"""
ASSUMED = f"""
[target.catalog_properties]
"client.assume-role.arn" = "arn:aws:iam::{ACCOUNT}:role/deployed-lake"
"client.assume-role.tags.LakeFormationAuthorizedCaller" = "lakeward"
"""

FIFO = settings("delta", source=STAGED, queue="deployed-landing.fifo", more=TABLES + FILES_TOO + NOTIFY)
FILES_REGISTERED = settings("hudi", source=ARCHIVED, more=TABLES + FILES_TOO)
REGISTERED_ELSEWHERE = settings("hudi", source=TRANSACTIONS, more=TABLES + REGISTER + ELSEWHERE)


PIPELINES: Mapping[str, tuple[str, str, str]] = {
    "glue iceberg": ("glue", "iceberg", settings()),
    "glue iceberg with access": ("glue", "iceberg", settings(more=ASSUMED + TABLES + REGISTER + TAGS)),
    "glue delta fifo, registered": ("glue", "delta", FIFO),
    "emr hudi archived, registered": ("emr-serverless", "hudi", FILES_REGISTERED),
    "emr hudi registered elsewhere": ("emr-serverless", "hudi", REGISTERED_ELSEWHERE),
}


def run_the_job(deployed: Deployed, platform: str, kind: str) -> list[Call]:
    """Return what the job asks for: the code of lakeward, the libraries of its table format, and the platform."""
    deployed.client("s3").put_object(Bucket="deployed-landing", Key="dms/shop/orders/1.parquet", Body=b"content")
    configured = deployed.configured()
    source, target = configured.settings.source, configured.settings.target
    is_archived, is_staged = source.get("landing") == "archived", "staging" in source
    others = {
        move_to_archive: is_archived,
        stage_rows: "cdc_path" in source,
        register_tables: configured.settings.registration is not None,
        send_notice: bool(configured.settings.notify),
    }
    parts = [use_queue, use_ledger, use_lease, look_at_landing, write_iceberg if kind == "iceberg" else write_files]
    for part in (*parts, *(part for part, is_used in others.items() if is_used)):
        part(deployed, configured)
    found = deployed.calls()
    found += [*OF_PACKAGE, *OF_TABLE_FORMATS, *OF_LOGS[platform]]
    found += OF_ICEBERG_IN_GLUE if kind == "iceberg" else []
    found += OF_ASSUMED_ROLE if "catalog_properties" in target else []
    return found + (OF_STAGING if is_staged else []) + (OF_ARCHIVE if is_archived else [])


def check_exact(statements: Sequence[Statement], calls: Sequence[Call]) -> None:
    """Check that statements allow these calls, and nothing that is none of them."""
    assert missing_permissions(statements, calls) == []
    assert unused_permissions(statements, calls) == []


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_job_may_do_what_it_does_and_nothing_else(deployed: Deployed, pipeline: str) -> None:
    platform, kind, text = PIPELINES[pipeline]
    stack = deployed.render(text, platform, kind)
    check_exact(stack.statements("JobRole"), run_the_job(deployed, platform, kind))


def without(template: Mapping[str, Any], role: str, name: str) -> Mapping[str, Any]:
    """Return a template whose role lacks a statement."""
    found = json.loads(json.dumps(template))
    (policy,) = found["Resources"][role]["Properties"]["Policies"]
    said = policy["PolicyDocument"]["Statement"]
    policy["PolicyDocument"]["Statement"] = [one for one in said if one["Sid"] != name]
    assert len(policy["PolicyDocument"]["Statement"]) < len(said)
    return dict(found)


def test_what_a_role_lacks_and_what_it_has_beyond_is_found(deployed: Deployed) -> None:
    stack = deployed.render(settings("delta"), kind="delta")
    calls = run_the_job(deployed, "glue", "delta")
    for statement in stack.statements("JobRole"):
        less = Stack(without(stack.template, "JobRole", statement.name), PARAMETERS).statements("JobRole")
        assert {call.action for call in missing_permissions(less, calls)} == set(statement.actions), statement.name
    more = Statement("More", ["s3:GetObject"], [f"{LANDING}/else/*"], {})
    assert unused_permissions([*stack.statements("JobRole"), more], calls) == [
        ("More", "s3:GetObject", f"{LANDING}/else/*")
    ]


# What the settings are read from.

STORES: Mapping[str, tuple[str, Sequence[tuple[str, str, Mapping[str, Any]]]]] = {
    "an object": (
        'kind = "s3"\nname = "s3://deployed-lake/settings/shop.json"',
        [("s3", "put_object", {"Bucket": "deployed-lake", "Key": "settings/shop.json", "Body": b"{}"})],
    ),
    "a parameter": (
        'kind = "ssm"\nname = "/deployed/shop"',
        [("ssm", "put_parameter", {"Name": "/deployed/shop", "Value": "{}", "Type": "SecureString"})],
    ),
    "a parameter for each table": (
        'kind = "ssm"\nname = "/deployed/tables"\nform = "tables"',
        [("ssm", "put_parameter", {"Name": "/deployed/tables/shop.notes", "Value": "{}", "Type": "String"})],
    ),
    "published parameters": (
        'kind = "ssm"\nname = "deployed"\nform = "published"',
        [("ssm", "put_parameter", {"Name": "deployed-iceberg-tables", "Value": "{}", "Type": "String"})],
    ),
    "a secret": (
        'kind = "secretsmanager"\nname = "deployed/shop"',
        [("secretsmanager", "create_secret", {"Name": "deployed/shop", "SecretString": "{}"})],
    ),
    "a secret for each table": (
        'kind = "secretsmanager"\nname = "deployed/tables/"\nform = "tables"',
        [("secretsmanager", "create_secret", {"Name": "deployed/tables/shop.notes", "SecretString": "{}"})],
    ),
    "a control table": (
        'kind = "dynamodb"\nname = "deployed-control"\nwrite_back = true',
        [
            (
                "dynamodb",
                "create_table",
                {
                    "TableName": "deployed-control",
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [{"AttributeName": "table", "AttributeType": "S"}],
                    "KeySchema": [{"AttributeName": "table", "KeyType": "HASH"}],
                },
            ),
            ("dynamodb", "put_item", {"TableName": "deployed-control", "Item": {"table": {"S": "shop.orders"}}}),
        ],
    ),
}


@pytest.mark.parametrize("store", STORES)
def test_the_job_may_read_the_settings_store_and_nothing_beside_it(deployed: Deployed, store: str) -> None:
    said, steps = STORES[store]
    client_of = {"s3": deployed.client("s3")}
    client_of["s3"].create_bucket(Bucket="deployed-lake", CreateBucketConfiguration={"LocationConstraint": REGION})
    for service, operation, asked in steps:
        getattr(client_of.setdefault(service, deployed.client(service)), operation)(**asked)
    text = settings() + f"[[settings.stores]]\n{said}\n"
    stack = Stack(render_template(deployed.folder, "glue", text, dms="none"), PARAMETERS)
    deployed.requests.clear()
    deployed.configured()
    if "write_back" in said:
        WrittenControlTable("deployed-control").write([TableStatus(table="shop.orders", at=0, is_loaded=True)])
    for service, operation, asked in steps:
        if operation == "put_parameter":
            client_of[service].delete_parameter(Name=asked["Name"])
        elif operation == "create_secret":
            client_of[service].delete_secret(SecretId=asked["Name"], ForceDeleteWithoutRecovery=True)
    check_exact([one for one in stack.statements("JobRole") if "Settings1" in one.name], deployed.calls())


def test_the_job_may_read_the_secrets_that_the_settings_name(deployed: Deployed) -> None:
    places = ("aws-secrets-manager:deployed/login#password", "aws-ssm:/deployed/key")
    named = [SecretName.read(place) for place in places]
    role = job_role(replace(pipeline_of(deployed), secrets=named), "glue")
    stack = Stack({"Parameters": {name: {} for name in PARAMETERS}, "Resources": {"JobRole": role}}, PARAMETERS)
    secrets = registry_of(load_plugins()).secrets
    for name in named:
        with pytest.raises(ConfigError):
            secrets.build(name.kind, {}, Runtime(lambda: None)).read(name.name)
    mine = [one for one in stack.statements("JobRole") if one.name in ("ReadSecrets", "ReadParameters")]
    check_exact(mine, deployed.calls())


def pipeline_of(deployed: Deployed) -> DeployedPipeline:
    file = write_settings(deployed.folder, settings())
    return read_pipeline(load(file), str(file))


REFUSED = {
    "the REST endpoint of Glue": (
        settings().replace('"glue"', '"rest"')
        + '[target.catalog_properties]\nuri = "https://glue"\n"rest.signing-name" = "glue"\n',
        r'the REST endpoint of an Iceberg catalog of AWS[\s\S]*catalog = "glue"',
    ),
    "a catalog within that of an account": (
        settings("delta", more=TABLES + REGISTER + 'catalog_id = "123456789012:s3tablescatalog/lake"\n'),
        r"cannot grant access to the catalog of `catalog_id`[\s\S]*12 digits",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_catalog_of_which_the_role_would_not_know_is_refused(tmp_path: Path, case: str) -> None:
    text, expected = REFUSED[case]
    file = write_settings(tmp_path, text)
    with pytest.raises(ConfigError, match=expected):
        read_pipeline(load(file), str(file))


def statements_of(folder: Path, text: str) -> set[str]:
    kind = "delta" if 'kind = "delta"' in text else "iceberg"
    return {
        one.name
        for one in Stack(render_template(folder, "glue", text, kind=kind), PARAMETERS).statements("JobRole")
    }


def test_a_role_has_only_what_the_settings_need(tmp_path: Path) -> None:
    plain = statements_of(tmp_path, settings())
    unused = SOURCE + 'staging = "s3://deployed-staging/files"\n'
    assert statements_of(tmp_path, settings(source=unused)) == plain, "files of single tables are not staged"
    assert statements_of(tmp_path, settings(source=TRANSACTIONS)) == plain, "they are staged in the warehouse"
    of_glue = {"RegisterDatabases", "RegisterTables"}
    delta = statements_of(tmp_path, settings("delta"))
    assert statements_of(tmp_path, settings("delta", more=TABLES + REGISTER)) == delta | of_glue
    registered = statements_of(tmp_path, settings(more=TABLES + REGISTER))
    assert registered == plain, "Iceberg keeps the entries of its tables"


# What stands around the job.

MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:deployed"


@pytest.fixture
def machine(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of Step Functions that has a state machine of the name."""
    found = deployed.client("stepfunctions")
    role = f"arn:aws:iam::{ACCOUNT}:role/deployed"
    nothing = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}})
    found.create_state_machine(name="deployed", definition=nothing, roleArn=role)
    yield found
    found.delete_state_machine(stateMachineArn=MACHINE)


def set_environment(stack: Stack, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment be that of a function of the template."""
    variables = stack.template["Resources"][f"{title}Function"]["Properties"]["Environment"]["Variables"]
    for name, value in stack.resolve(variables).items():
        monkeypatch.setenv(name, value)


def start(deployed: Deployed, machine: Any) -> None:
    """Start an execution, meet it while it runs, and start another one behind it."""
    first = start_run.handler({}, None)
    assert first["started"]
    assert start_run.handler({}, None) == {"execution": first["execution"], "started": False}
    machine.stop_execution(executionArn=f"{MACHINE.replace('stateMachine', 'execution')}:{first['execution']}")
    assert start_run.handler({}, None)["started"]


def check_history(deployed: Deployed, machine: Any) -> None:
    """Check an execution that has the pipeline, and one that has not."""
    execution = MACHINE.replace("stateMachine", "execution")
    for name in ("one", "other"):
        machine.start_execution(stateMachineArn=MACHINE, name=name)
        event = {"execution": f"{execution}:{name}", "state_machine": MACHINE, "started": "2026-11-29T00:00:00Z"}
        history_check.handler({**event, "history_limit": 20_000, "max_days": 300}, None)


def look_at_task(deployed: Deployed, machine: Any) -> None:
    with pytest.raises(ConfigError, match="there is no replication task"):
        dms_status.handler({}, None)


FUNCTIONS = {
    "StartRun": ("start-run", start),
    "HistoryCheck": ("history-check", check_history),
    "DmsStatus": ("dms-status", look_at_task),
}


@pytest.mark.parametrize("title", FUNCTIONS)
def test_a_function_may_do_what_it_does_and_nothing_else(
    deployed: Deployed, machine: Any, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = deployed.render(settings(), dms="existing")
    set_environment(stack, title, monkeypatch)
    name, does = FUNCTIONS[title]
    deployed.requests.clear()
    does(deployed, machine)
    check_exact(stack.statements(f"{title}Role"), [*deployed.calls(), *of_function_logs(name)])


@pytest.mark.parametrize("role", ["JobRole", "StartRunRole", "HistoryCheckRole"])
def test_a_role_writes_ledgers_and_leases_of_its_own_pipeline_alone(tmp_path: Path, role: str) -> None:
    statements = Stack(render_template(tmp_path, "glue"), PARAMETERS).statements(role)
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/deployed-leases"
    asked = {
        key: Call("dynamodb:PutItem", table, {"dynamodb:LeadingKeys": (key,)})
        for key in ("deployed", "deployed/execution", "deployed-too", "other/execution")
    }
    refused = missing_permissions(statements, [*asked.values()])
    assert [one.context["dynamodb:LeadingKeys"] for one in refused] == [("deployed-too",), ("other/execution",)]


def definition_of(stack: Stack) -> Mapping[str, Any]:
    """Return the definition of the state machine with its substitutions put in."""
    said = stack.template["Resources"]["StateMachine"]["Properties"]
    values = stack.resolve(said["DefinitionSubstitutions"])
    put = {name: json.dumps(str(value))[1:-1] for name, value in values.items()}
    text = re.sub(r"\$\{(\w+)\}", lambda found: put[found[1]], json.dumps(said["Definition"]))
    return dict(json.loads(text))


def calls_of_task(state: Mapping[str, Any]) -> Iterator[Call]:
    """Yield what a task of the state machine takes ("IAM Policies for integrated services")."""
    called = Stack({}, {}).resolve(state["Resource"])
    resource, said = called.removeprefix("arn:aws:states:::"), state["Parameters"]
    here = f"{REGION}:{ACCOUNT}"
    if resource.startswith("aws-sdk:glue:"):
        action = resource.rpartition(":")[2]
        yield Call(f"glue:{action[0].upper()}{action[1:]}", f"arn:aws:glue:{here}:job/{said['JobName']}")
    elif resource == "aws-sdk:emrserverless:startJobRun":
        application = f"arn:aws:emr-serverless:{here}:/applications/{said['ApplicationId']}"
        yield Call("emr-serverless:StartJobRun", application)
        passed = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
        yield Call("iam:PassRole", said["ExecutionRoleArn"], passed)
    elif resource == "aws-sdk:emrserverless:getJobRun":
        run = f"/applications/{said['ApplicationId']}/jobruns/1"
        yield Call("emr-serverless:GetJobRun", f"arn:aws:emr-serverless:{here}:{run}")
    elif resource == "aws-sdk:sqs:getQueueAttributes":
        yield Call("sqs:GetQueueAttributes", f"arn:aws:sqs:{here}:{said['QueueUrl']}")
    elif resource == "lambda:invoke":
        yield Call("lambda:InvokeFunction", f"arn:aws:lambda:{here}:function:{said['FunctionName']}")
    elif resource == "sns:publish":
        yield Call("sns:Publish", said["TopicArn"])
    elif resource in ("states:startExecution", "aws-sdk:sfn:startExecution"):
        assert said["StateMachineArn.$"] == "$$.StateMachine.Id"
        yield Call("states:StartExecution", MACHINE)
    else:
        raise AssertionError(f"nobody says what {resource} takes")


@pytest.mark.parametrize("platform", ["glue", "emr-serverless"])
@pytest.mark.parametrize("dms", ["make", "existing", "none"])
def test_state_machine_and_schedule_may_call_what_they_call_and_nothing_else(
    tmp_path: Path, platform: str, dms: Dms
) -> None:
    stack = Stack(render_template(tmp_path, platform, dms=dms), PARAMETERS)
    tasks = [one for one in definition_of(stack)["States"].values() if one["Type"] == "Task"]
    check_exact(stack.statements("StateMachineRole"), [call for task in tasks for call in calls_of_task(task)])
    target = stack.resolve(stack.template["Resources"]["Schedule"]["Properties"]["Target"]["Arn"])
    check_exact(stack.statements("ScheduleRole"), [Call("lambda:InvokeFunction", target)])


SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:source-aBcDeF"

OF_DMS = {
    "DmsSecretRole": [Call("secretsmanager:GetSecretValue", SECRET)],
    "DmsTargetRole": [
        *s3(["ListBucket"], LANDING),
        *s3(["DeleteObject", "PutObject", "PutObjectTagging"], f"{LANDING}/dms/shop/orders/LOAD00000001.parquet"),
    ],
}
"""What DMS takes: "Using secrets to access AWS Database Migration Service endpoints", "Prerequisites for using
Amazon S3 as a target"."""


@pytest.mark.parametrize("role", OF_DMS)
def test_dms_may_do_what_its_guide_says_and_nothing_else(tmp_path: Path, role: str) -> None:
    stack = Stack(render_template(tmp_path, "glue"), {**PARAMETERS, "SourceSecretArn": SECRET})
    check_exact(stack.statements(role), OF_DMS[role])


OF_LAKE_FORMATION = {
    f"lakeformation:{action}"
    for action in ("AddLFTagsToResource", "GetResourceLFTags", "GrantPermissions", "ListPermissions")
}


def test_every_role_is_one_of_these_and_names_what_it_acts_on(tmp_path: Path) -> None:
    """`*` stands alone where the action knows no resources: "Service Authorization Reference"."""
    known = {"JobRole", "StateMachineRole", "ScheduleRole", *OF_DMS, *(f"{title}Role" for title in FUNCTIONS)}
    without_resources = {"dms:DescribeReplicationTasks", "secretsmanager:ListSecrets", *OF_LAKE_FORMATION}
    for platform in ("glue", "emr-serverless"):
        text = settings(more=TABLES + REGISTER + TAGS)
        stack = Stack(render_template(tmp_path, platform, text), {**PARAMETERS, "SourceSecretArn": SECRET})
        assert set(stack.roles()) == known
        for statement in (one for role in stack.roles() for one in stack.statements(role)):
            assert not [action for action in statement.actions if "*" in action]
            if "*" in statement.resources:
                assert set(statement.actions) <= without_resources


ASKED = re.compile(
    r"(?<![a-z\"-])client(?:\([^()]*\))?\.(?!exceptions\b|meta\b)[a-z_0-9]+\b|\._request\(\s*\"[a-z_]+\""
)
"""What asks a client of boto3 for something."""


def test_no_other_part_of_the_code_calls_a_service_unseen() -> None:
    """Each module with a call of boto3 is one whose calls are noted here, or none of a deployed pipeline's."""
    found = {
        path.relative_to(ROOT).as_posix()
        for top in ("adapters", "entrypoints", "core", "plugins")
        for path in (ROOT / top).rglob("*.py")
        if ASKED.search(path.read_text("utf-8")) and "testing" not in path.parts
    }
    assert found == {*SEEN, *NOT_DEPLOYED, *OF_JAVA}


@pytest.mark.parametrize(
    ("line", "is_call"),
    [
        ("create_client('sns').publish(TopicArn=topic)", True),
        ("create_client(self.service, region).publish(TopicArn=topic)", True),
        ("    client.publish(", True),
        ("self.client.copy(source, *split(url))", True),
        ("self.client.list_objects_v2(Bucket=bucket)", True),
        ("self.client.get_paginator('get_partitions')", True),
        ("find_access().client.put_object(Bucket=bucket)", True),
        ("self._client().scan(TableName=name)", True),
        ('self._request(\n    "put_item"', True),
        ("client.exceptions.NotFound", False),
        ("a.client(b).meta.endpoint_url", False),
        ('"client.region"', False),
    ],
)
def test_calls_of_boto3_are_found_and_nothing_else_is(line: str, is_call: bool) -> None:
    assert bool(ASKED.search(line)) is is_call


SEEN = {
    *(f"adapters/settings_stores/{name}.py" for name in ("dynamodb", "s3", "secrets_manager", "ssm")),
    *(f"adapters/aws/s3/{name}.py" for name in ("access", "lock", "range_reader")),
    *(f"adapters/registrations/glue/{name}.py" for name in ("catalog", "lake_formation")),
    *("adapters/leases/dynamodb/lease.py", "adapters/ledgers/dynamodb/partition.py", "adapters/secrets/aws.py"),
    *(
        "adapters/sources/landing/bucket_store.py",
        "adapters/sources/staging/prefix.py",
        "adapters/notifiers/sns.py",
    ),
    *("adapters/queues/sqs/queue.py", "adapters/formats/shared/storage/bucket.py"),
    *(f"entrypoints/lambdas/{name}.py" for name in ("dms_status", "executions")),
}

NOT_DEPLOYED = {
    "adapters/sources/kafka/registries/glue.py",
    "entrypoints/deployment/packaged_job.py",
    "entrypoints/job.py",
    "entrypoints/job_package/delivery.py",
}
"""Commands of people, sources that are no files, and the report of a job, which deployed jobs do not write."""

OF_JAVA = {"adapters/formats/hudi/java.py", "adapters/formats/hudi/operations/maintenance.py"}
"""Their clients are classes of Java."""
