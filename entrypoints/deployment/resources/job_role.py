"""The role of the job: it permits only the calls of its code and of the libraries of its table format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.deployment.intrinsics import Template, Value, arn, arn_here
from lakeward.entrypoints.deployment.pipeline import (
    DeployedPipeline,
    DeployedRegistration,
    GlueDatabases,
    Place,
)
from lakeward.entrypoints.deployment.policies import allow, keys_of, list_bucket, objects_below, role
from lakeward.entrypoints.job_package.table_formats import TABLE_FORMATS

_READ: Final = ("s3:GetObject",)
_WRITE: Final = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject")
_DATABASES: Final = ("glue:CreateDatabase", "glue:GetDatabase")
_TABLES: Final = ("glue:CreateTable", "glue:DeleteTable", "glue:GetTable", "glue:UpdateTable")
_ENTRIES: Final = ("glue:CreateTable", "glue:GetTable", "glue:UpdateTable")
_PARTITIONS: Final = (
    *("glue:BatchCreatePartition", "glue:BatchDeletePartition"),
    *("glue:BatchUpdatePartition", "glue:GetPartitions"),
)
"""Actions on the partitions of registered Hudi tables; other formats keep partitions in their metadata."""

_TAGS: Final = ("lakeformation:AddLFTagsToResource", "lakeformation:GetResourceLFTags")
_GRANTS: Final = ("lakeformation:GrantPermissions", "lakeformation:ListPermissions")

_ITEMS: Final = ("dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:GetItem", "dynamodb:PutItem")
_SERVICES: Final = {"glue": "glue", "emr-serverless": "emr-serverless"}
_PACKAGE: Final = Place("${PackageBucket}", "${PackagePrefix}")


def job_role(pipeline: DeployedPipeline, platform: str) -> Template:
    """Return the role of the job, which Glue or EMR Serverless assumes."""
    return role(_SERVICES[platform], "job", [*_statements(pipeline, platform)])


def _statements(pipeline: DeployedPipeline, platform: str) -> Iterator[Template]:
    yield list_bucket("ListPackage", _PACKAGE)
    yield allow("ReadPackage", _READ, [objects_below(_PACKAGE)])
    yield from _of_landing(pipeline)
    yield list_bucket("ListTables", pipeline.warehouse)
    yield allow("WriteTables", _WRITE, [objects_below(pipeline.warehouse)])
    if pipeline.staging is not None:
        yield list_bucket("ListStaging", pipeline.staging)
        yield allow("WriteStaging", _WRITE, [objects_below(pipeline.staging)])
    if pipeline.databases is not None:
        yield allow("KeepDatabases", _DATABASES, [*_in_catalog(pipeline.databases)])
        yield allow("KeepCatalog", _TABLES, [*_in_catalog(pipeline.databases, with_tables=True)])
    if pipeline.assumed is not None:
        session = ["sts:TagSession"] if pipeline.assumed.has_tags else []
        yield allow("TakeOnRole", ["sts:AssumeRole", *session], [pipeline.assumed.arn])
    if pipeline.registration is not None:
        has_partitions = TABLE_FORMATS[pipeline.format].has_glue_partitions
        yield from _of_registration(pipeline.registration, has_partitions=has_partitions)
    queue = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage")
    yield allow("TakeMessages", queue, [arn_here("sqs", pipeline.queue.name)])
    ledger = f"table/{pipeline.ledger}"
    own = keys_of(pipeline.name)
    yield allow("KeepLedger", _ITEMS, [arn_here("dynamodb", ledger)], own)
    indexed = [arn_here("dynamodb", part) for part in (ledger, f"{ledger}/index/by_state")]
    yield allow("SearchLedger", ["dynamodb:Query"], indexed, own)
    lease = arn_here("dynamodb", f"table/{pipeline.lease}")
    yield allow("KeepLease", ("dynamodb:GetItem", "dynamodb:PutItem"), [lease], own)
    stores = [*pipeline.stores, *([] if pipeline.settings is None else [pipeline.settings])]
    for number, store in enumerate(stores, 1):
        yield from _of_store(number, store)
    if pipeline.topics:
        yield allow("Notify", ["sns:Publish"], list(pipeline.topics))
    if pipeline.secrets:
        yield from _of_secrets(pipeline.secrets)
    yield from _LOGS[platform]()


def _of_registration(registration: DeployedRegistration, *, has_partitions: bool) -> Iterator[Template]:
    tables = registration.tables
    both = replace(tables, names=[*dict.fromkeys((*tables.names, *registration.files.names))])
    if both.names:
        yield allow("RegisterDatabases", _DATABASES, [*_in_catalog(both)])
        yield allow("RegisterTables", _ENTRIES, [*_in_catalog(both, with_tables=True)])
    if has_partitions and tables.names:
        yield allow("RegisterPartitions", _PARTITIONS, [*_in_catalog(tables, with_tables=True)])
    if registration.sets_tags:
        yield allow("TagTables", _TAGS, ["*"])  # Lake Formation has no resources in IAM
    if registration.grants:
        yield allow("GrantTables", _GRANTS, ["*"])


def _in_catalog(databases: GlueDatabases, *, with_tables: bool = False) -> Iterator[Value]:
    """Yield the ARNs of a Glue catalog, its databases, and all tables of these."""
    place = f"glue:{databases.region or '${AWS::Region}'}:{databases.account or '${AWS::AccountId}'}"
    tables = [f"table/{name}/*" for name in databases.names] if with_tables else []
    for part in ("catalog", *(f"database/{name}" for name in databases.names), *tables):
        yield arn(f"{place}:{part}")


def _of_landing(pipeline: DeployedPipeline) -> Iterator[Template]:
    yield list_bucket("ListLanding", pipeline.landing)
    if pipeline.archive is None:
        yield allow("ReadLanding", _READ, [objects_below(pipeline.landing)])
        return
    move = (*_READ, "s3:DeleteObject", "s3:GetObjectTagging")
    yield allow("MoveFromLanding", move, [objects_below(pipeline.landing)])
    yield list_bucket("ListArchive", pipeline.archive)
    archive = (*_READ, "s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectTagging")
    yield allow("WriteArchive", archive, [objects_below(pipeline.archive)])


def _of_store(number: int, store: Mapping[str, Any]) -> Iterator[Template]:
    """Yield the permissions to read a settings store (docs/how-to/aws/settings.md)."""
    kind, name, form = store["kind"], str(store["name"]), store.get("form")
    title = f"ReadSettings{number}"
    if kind == "s3":
        yield allow(title, _READ, [arn(f"s3:::{name.partition('://')[2]}")])
    elif kind == "ssm" and form == "published":
        yield allow(title, ["ssm:GetParameter"], [_parameter(f"{name}-iceberg-tables")])
        yield allow(f"{title}Config", ["ssm:GetParameters"], [_parameter(f"{name}-iceberg-config")])
    elif kind == "ssm" and form == "tables":
        yield allow(title, ["ssm:GetParametersByPath"], [arn_here("ssm", f"parameter/{name.strip('/')}")])
    elif kind == "ssm":
        yield allow(title, ["ssm:GetParameter"], [_parameter(name)])
    elif kind == "secretsmanager":
        names = [f"{name}{table}" for table in store.get("tables") or ["*"]] if form == "tables" else [name]
        yield allow(title, ["secretsmanager:GetSecretValue"], [*map(_secret, names)])
        if form == "tables" and not store.get("tables"):
            yield allow(f"ListSettings{number}", ["secretsmanager:ListSecrets"], ["*"])  # has no resources
    elif kind == "dynamodb":
        update = ["dynamodb:UpdateItem"] if store.get("write_back") else []
        yield allow(title, ["dynamodb:Scan", *update], [arn_here("dynamodb", f"table/{name}")])


def _of_secrets(secrets: Sequence[SecretName]) -> Iterator[Template]:
    managed = [_secret(secret.name.partition("#")[0]) for secret in secrets if secret.kind == "aws-secrets-manager"]
    parameters = [_parameter(secret.name.partition("#")[0]) for secret in secrets if secret.kind == "aws-ssm"]
    if managed:
        yield allow("ReadSecrets", ["secretsmanager:GetSecretValue"], managed)
    if parameters:
        yield allow("ReadParameters", ["ssm:GetParameter"], parameters)


def _secret(name: str) -> Value:
    """Return the ARN of a secret; AWS appends a hyphen and six characters to its name."""
    return name if name.startswith("arn:") else arn_here("secretsmanager", f"secret:{name}-??????")


def _parameter(name: str) -> Value:
    return name if name.startswith("arn:") else arn_here("ssm", f"parameter/{name.lstrip('/')}")


def _logs_of_glue() -> Iterator[Template]:
    """Yield the permissions of Glue to write the logs of a job, as in the managed policy AWSGlueServiceRole."""
    actions = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
    yield allow("WriteLogs", actions, [arn_here("logs", "log-group:/aws-glue/*")])


def _logs_of_emr() -> Iterator[Template]:
    """Yield the permissions of EMR Serverless to log ("Logging for EMR Serverless with Amazon CloudWatch")."""
    actions = ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")
    yield allow("WriteLogs", actions, [arn_here("logs", "log-group:${JobLogs}:*")])
    yield allow("FindLogs", ["logs:DescribeLogGroups"], [arn_here("logs", "log-group:*")])


_LOGS: Final = {"glue": _logs_of_glue, "emr-serverless": _logs_of_emr}
