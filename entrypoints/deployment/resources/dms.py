"""The DMS side: endpoints with the settings of docs/reference/dms-endpoint.md, table mappings, and the task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.intrinsics import NO_VALUE, Template, attribute, either, is_given, ref, sub
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, Place, tables_of_patterns
from lakeward.entrypoints.deployment.policies import allow, list_bucket, objects_below, role
from lakeward.entrypoints.deployment.resources.alarms import instance_name

_ENGINES: Final = {
    "postgres": "PostgreSqlSettings",
    "aurora-postgresql": "PostgreSqlSettings",
    "mysql": "MySqlSettings",
    "mariadb": "MySqlSettings",
    "aurora": "MySqlSettings",
    "sqlserver": "MicrosoftSqlServerSettings",
    "oracle": "OracleSettings",
}
"""The engines of sources, and where an endpoint of each says which secret has its login."""

_SSL_MODES: Final = {
    "MySqlSettings": ("none", "verify-ca", "verify-full"),
    "MicrosoftSqlServerSettings": ("none", "require", "verify-full"),
    "OracleSettings": ("none", "verify-ca"),
}
"""What DMS knows of the modes, where not all ("Using SSL with AWS Database Migration Service")."""

_OF_CSV: Final = ("delimiter", "row_delimiter", "null_text", "no_sup_value", "quote", "trim_padding", "header")
"""Settings of the source that mean something for CSV alone."""


def check(pipeline: DeployedPipeline) -> None:
    """Raise ConfigError for settings that no endpoint can have."""
    source = pipeline.source
    if not isinstance(source, DmsOptions):
        raise ConfigError(
            f"files of the kind {pipeline.source_kind!r} are not written by DMS",
            found="[source]",
            todo="Say --dms none: what writes them is not part of the template.",
        )
    if source.timestamp_column is None:
        raise ConfigError(
            "the endpoint would write no commit times",
            found="`timestamp_column` is not set under [source]",
            todo='Say `timestamp_column = "committed_at"`, or another name that no table has.',
        )
    says = "`load`, `changes`, `load_names` or `change_names`"
    if source.load != source.changes or source.load_names or source.change_names or pipeline.apart:
        where = f'[tables."{pipeline.apart[0]}".source]' if pipeline.apart else "[source]"
        raise ConfigError(
            "DMS writes a table's full load and changes into one folder, under names of its own",
            found=f"{where} says {says}",
            todo="Leave these out; or say --dms existing, where something else puts the files there.",
        )
    if not pipeline.landing.prefix:
        raise ConfigError(
            "`path` under [source] is a whole bucket",
            found=source.path,
            todo="Name a prefix for DMS, as s3://bucket/dms: its role may write there, and nowhere else.",
        )


def parameters() -> Template:
    """Return the parameters, which differ by account and database."""
    return {
        "SourceEngine": {
            "Type": "String",
            "Default": "postgres",
            "AllowedValues": [*_ENGINES],
            "Description": "The engine of the source database, as DMS calls it.",
        },
        "SourceDatabase": {
            "Type": "String",
            "Default": "",
            "Description": "The name of the source database; none for MySQL and MariaDB.",
        },
        "SourceSslMode": {
            "Type": "String",
            "Default": "require",
            "AllowedValues": ["none", "require", "verify-ca", "verify-full"],
            "Description": "Whether the connection to the source is encrypted, and its certificate looked at.",
        },
        "SourceCertificateArn": {
            "Type": "String",
            "Default": "",
            "Description": "The certificate of an authority, as DMS has it: for verify-ca and verify-full.",
        },
        "SourceSecretArn": {
            "Type": "String",
            "AllowedPattern": "arn:aws[a-z-]*:secretsmanager:.*",
            "Description": "The secret of Secrets Manager with host, port, username and password of the source.",
        },
        "ReplicationSubnets": {
            "Type": "List<AWS::EC2::Subnet::Id>",
            "Description": "Subnets in two zones from which the source database is reached.",
        },
        "ReplicationSecurityGroups": {
            "Type": "List<AWS::EC2::SecurityGroup::Id>",
            "Description": "Security groups that the source database lets in.",
        },
        "ReplicationInstanceClass": {
            "Type": "String",
            "Default": "dms.t3.medium",
            "Description": "The class of the replication instance.",
        },
        "ReplicationStorage": {"Type": "Number", "Default": 50, "MinValue": 5, "Description": "Its GB of disk."},
        "CdcMaxBatchInterval": {
            "Type": "Number",
            "Default": 300,
            "MinValue": 1,
            "Description": "Seconds after which DMS writes a file of changes, however small: "
            "docs/how-to/aws/cost.md.",
        },
        "CdcMinFileSize": {
            "Type": "Number",
            "Default": 102400,
            "MinValue": 1,
            "Description": "KB at which DMS writes a file of changes, however early.",
        },
        "LobMaxSize": {
            "Type": "Number",
            "Default": 1024,
            "MinValue": 1,
            "Description": "KB of the largest value of a LOB: longer ones are cut off without a word.",
        },
    }


def rules() -> Template:
    """Return what CloudFormation holds the parameters to before it makes anything."""
    database = {"Fn::Not": [{"Fn::Equals": [ref("SourceDatabase"), ""]}]}
    needing = [engine for engine, settings in _ENGINES.items() if settings != "MySqlSettings"]
    named = {"Assert": database, "AssertDescription": "Say SourceDatabase, which this engine needs."}
    certificate = {"Fn::Not": [{"Fn::Equals": [ref("SourceCertificateArn"), ""]}]}
    shown = {
        "Assert": certificate,
        "AssertDescription": "Say SourceCertificateArn: verify-ca and verify-full look at a certificate.",
    }
    found = {
        "DatabaseIsNamed": {"RuleCondition": _is_one("SourceEngine", needing), "Assertions": [named]},
        "CertificateIsThere": {
            "RuleCondition": _is_one("SourceSslMode", ["verify-ca", "verify-full"]),
            "Assertions": [shown],
        },
    }
    for settings, modes in _SSL_MODES.items():
        said = {
            "Assert": _is_one("SourceSslMode", modes),
            "AssertDescription": f"Of this engine DMS knows these for SourceSslMode: {', '.join(modes)}.",
        }
        condition = _is_one("SourceEngine", _engines_by_settings()[settings])
        found[f"SslModeOf{settings}"] = {"RuleCondition": condition, "Assertions": [said]}
    return found


def _is_one(parameter: str, values: Sequence[str]) -> Template:
    return {"Fn::Contains": [[*values], ref(parameter)]}


def conditions() -> Template:
    """Return the conditions that choose the settings of the engine, and whether it has a certificate."""
    return {"HasSourceCertificate": is_given("SourceCertificateArn"), **_conditions_of_engines()}


def _conditions_of_engines() -> Template:
    return {
        _condition(settings): {"Fn::Or": [{"Fn::Equals": [ref("SourceEngine"), engine]} for engine in engines]}
        if len(engines) > 1
        else {"Fn::Equals": [ref("SourceEngine"), engines[0]]}
        for settings, engines in _engines_by_settings().items()
    }


def _engines_by_settings() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for engine, settings in _ENGINES.items():
        found.setdefault(settings, []).append(engine)
    return found


def _condition(settings: str) -> str:
    return f"Has{settings}"


def resources(pipeline: DeployedPipeline) -> Template:
    """Return roles, instance, endpoints and task. The task is started by hand, or by the state machine."""
    source = pipeline.source
    if not isinstance(source, DmsOptions):
        raise LookupError("the files are not those of DMS")
    secret = allow("ReadLogin", ["secretsmanager:GetSecretValue"], [ref("SourceSecretArn")])
    return {
        "DmsSecretRole": role("dms", "login", [secret], regional=True),
        "DmsTargetRole": role("dms", "landing", [*_writing(pipeline.landing)]),
        "ReplicationSubnetGroup": {
            "Type": "AWS::DMS::ReplicationSubnetGroup",
            "Properties": {
                "ReplicationSubnetGroupDescription": f"lakeward: {pipeline.name}",
                "SubnetIds": ref("ReplicationSubnets"),
            },
        },
        "ReplicationInstance": {
            "Type": "AWS::DMS::ReplicationInstance",
            "Properties": {
                "ReplicationInstanceIdentifier": instance_name(pipeline),
                "ReplicationInstanceClass": ref("ReplicationInstanceClass"),
                "AllocatedStorage": ref("ReplicationStorage"),
                "PubliclyAccessible": False,
                "ReplicationSubnetGroupIdentifier": ref("ReplicationSubnetGroup"),
                "VpcSecurityGroupIds": ref("ReplicationSecurityGroups"),
            },
        },
        "SourceEndpoint": _source_endpoint(),
        "TargetEndpoint": {
            "Type": "AWS::DMS::Endpoint",
            "Properties": {
                "EndpointType": "target",
                "EngineName": "s3",
                "S3Settings": {
                    **target_settings(source, pipeline.landing),
                    "CdcMaxBatchInterval": ref("CdcMaxBatchInterval"),
                    "CdcMinFileSize": ref("CdcMinFileSize"),
                    "ServiceAccessRoleArn": attribute("DmsTargetRole"),
                },
            },
        },
        "ReplicationTask": {
            "Type": "AWS::DMS::ReplicationTask",
            "Properties": {
                "MigrationType": "full-load-and-cdc",
                "ReplicationInstanceArn": ref("ReplicationInstance"),
                "SourceEndpointArn": ref("SourceEndpoint"),
                "TargetEndpointArn": ref("TargetEndpoint"),
                "TableMappings": json.dumps({"rules": [*table_mappings(pipeline, source)]}),
                "ReplicationTaskSettings": sub(_task_settings()),
            },
        },
    }


def _source_endpoint() -> Template:
    login = {
        "SecretsManagerAccessRoleArn": attribute("DmsSecretRole"),
        "SecretsManagerSecretId": ref("SourceSecretArn"),
    }
    own = {settings: either(_condition(settings), login) for settings in _engines_by_settings()}
    return {
        "Type": "AWS::DMS::Endpoint",
        "Properties": {
            "EndpointType": "source",
            "EngineName": ref("SourceEngine"),
            "DatabaseName": either(_condition("MySqlSettings"), NO_VALUE, ref("SourceDatabase")),
            "SslMode": ref("SourceSslMode"),
            "CertificateArn": either("HasSourceCertificate", ref("SourceCertificateArn")),
            **own,
        },
    }


def _writing(landing: Place) -> Iterator[Template]:
    """Yield what DMS takes to write files, by "Prerequisites for using Amazon S3 as a target", below its prefix."""
    yield list_bucket("ListLanding", landing)
    written = ("s3:DeleteObject", "s3:PutObject", "s3:PutObjectTagging")
    yield allow("WriteLanding", written, [objects_below(landing)])


def target_settings(source: DmsOptions, landing: Place) -> Template:
    """Return the settings of the S3 endpoint: those that we recommend, and what the settings say of the files."""
    is_csv = source.format == "csv" or source.cdc_path is not None or {*_OF_CSV} & source.model_fields_set
    found: dict[str, Any] = {
        "BucketName": landing.bucket,
        "BucketFolder": landing.prefix,
        "DataFormat": "csv" if is_csv else "parquet",
        "TimestampColumnName": source.timestamp_column,
        "UseTaskStartTimeForFullLoadTimestamp": True,
        "IncludeOpForFullLoad": True,
        "CdcInsertsOnly": source.operations == "inserts",
        "CdcInsertsAndUpdates": source.operations == "inserts_and_updates",
        "EncryptionMode": "sse-s3",
    }
    if source.cdc_path is not None:
        found |= {"PreserveTransactions": True, "CdcPath": source.cdc_path}
    if not is_csv:
        return {**found, "ParquetTimestampInMillisecond": False}
    no_sup = {} if source.no_sup_value is None else {"UseCsvNoSupValue": True, "CsvNoSupValue": source.no_sup_value}
    return {
        **found,
        "AddColumnName": source.cdc_path is None,
        "CompressionType": "gzip",
        "CsvDelimiter": source.delimiter,
        "CsvRowDelimiter": source.row_delimiter,
        "CsvNullValue": source.null_text,
        "Rfc4180": bool(source.quote),
        "AddTrailingPaddingCharacter": source.trim_padding,
        **no_sup,
    }


def table_mappings(pipeline: DeployedPipeline, source: DmsOptions) -> Iterator[Template]:
    """Yield the rules that choose the tables of the settings, and add what the settings say that files have."""
    numbers = iter(range(1, 1_000_000))
    for name in (*pipeline.tables, *tables_of_patterns(pipeline.patterns)):
        yield _selection(next(numbers), name, "include")
    if pipeline.patterns:
        for name in pipeline.skipped:
            yield _selection(next(numbers), name, "exclude")
    if source.sequence_column is not None:
        yield _column(next(numbers), source.sequence_column, source.sequence_kind)
    if source.operation_indicator is not None:
        said = ", ".join(f"'{value}'" for value in source.operation_indicator_values)
        yield _column(next(numbers), source.operation_indicator, f"operation_indicator({said})")
    if source.before_image_prefix is not None:
        chosen = "all" if pipeline.matches_images else "pk-only"
        image = {"column-prefix": source.before_image_prefix, "column-suffix": "", "column-filter": chosen}
        added = {"rule-target": "column", "before-image-def": image}
        yield {**_rule(next(numbers), "add-before-image-columns"), **added}


def _selection(number: int, name: TableName, action: str) -> Template:
    return {
        "rule-type": "selection",
        "rule-id": str(number),
        "rule-name": str(number),
        "object-locator": {"schema-name": _pattern(name.schema), "table-name": _pattern(name.table)},
        "rule-action": action,
        "filters": [],
    }


def _rule(number: int, action: str) -> Template:
    return {
        "rule-type": "transformation",
        "rule-id": str(number),
        "rule-name": str(number),
        "object-locator": {"schema-name": "%", "table-name": "%"},
        "rule-action": action,
    }


def _column(number: int, name: str, expression: str) -> Template:
    text = {"type": "string", "length": 50, "scale": ""}
    added = {"rule-target": "column", "value": name, "expression": expression, "data-type": text}
    return {**_rule(number, "add-column"), **added}


def _pattern(name: str) -> str:
    """Return a name as DMS matches names: `%` is any text there, and `_` one character.

    >>> _pattern("order_*")
    'order[_]%'
    """
    return name.replace("_", "[_]").replace("*", "%")


def _task_settings() -> str:
    """Return the settings of the task as JSON; what is not named is as DMS has it."""
    said = {
        "TargetMetadata": {
            "SupportLobs": True,
            "FullLobMode": False,
            "LimitedSizeLobMode": True,
            "LobMaxSize": "${LobMaxSize}",
            "BatchApplyEnabled": False,
        },
        "FullLoadSettings": {"TargetTablePrepMode": "DO_NOTHING"},
        "Logging": {"EnableLogging": True},
    }
    return json.dumps(said).replace('"${LobMaxSize}"', "${LobMaxSize}")
