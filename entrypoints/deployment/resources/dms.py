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
"""The engines of sources, and the property of an endpoint that names the secret with the login."""

_SSL_MODES: Final = {
    "MySqlSettings": ("none", "verify-ca", "verify-full"),
    "MicrosoftSqlServerSettings": ("none", "require", "verify-full"),
    "OracleSettings": ("none", "verify-ca"),
}
"""The SSL modes of engines that do not support all of them ("Using SSL with AWS Database Migration Service")."""

_OF_CSV: Final = ("delimiter", "row_delimiter", "null_text", "no_sup_value", "quote", "trim_padding", "header")
"""Settings of the source that only apply to CSV."""


def check(pipeline: DeployedPipeline) -> None:
    """Raise ConfigError for settings that no endpoint can have."""
    source = pipeline.source
    if not isinstance(source, DmsOptions):
        raise ConfigError(
            f"files of the kind {pipeline.source_kind!r} are not written by DMS",
            found="[source]",
            todo="Use --dms none: the template then does not create what writes them.",
        )
    if source.timestamp_column is None:
        raise ConfigError(
            "the endpoint would write no commit times",
            found="`timestamp_column` is not set under [source]",
            todo='Set `timestamp_column = "committed_at"`, or another name that no table has.',
        )
    if source.load != source.changes or source.load_names or source.change_names or pipeline.apart:
        where = f'[tables."{pipeline.apart[0]}".source]' if pipeline.apart else "[source]"
        raise ConfigError(
            "DMS writes a table's full load and changes into one folder, under names of its own",
            found=f"{where} has `load`, `changes`, `load_names` or `change_names`",
            todo="Leave these out; or use --dms existing, if something else puts the files there.",
        )
    if not pipeline.landing.prefix:
        raise ConfigError(
            "`path` under [source] is a whole bucket",
            found=source.path,
            todo="Name a prefix for DMS, such as s3://bucket/dms: its role may only write there.",
        )


def parameters() -> Template:
    """Return the parameters, which differ by account and database."""
    return {**_source_parameters(), **_instance_parameters(), **_file_parameters()}


def _source_parameters() -> Template:
    """Return the parameters of the source database."""
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
            "Description": "Whether the connection to the source is encrypted, and its certificate verified.",
        },
        "SourceCertificateArn": {
            "Type": "String",
            "Default": "",
            "Description": "The certificate of the authority in DMS, for verify-ca and verify-full.",
        },
        "SourceSecretArn": {
            "Type": "String",
            "AllowedPattern": "arn:aws[a-z-]*:secretsmanager:.*",
            "Description": "The secret of Secrets Manager with host, port, username and password of the source.",
        },
    }


def _instance_parameters() -> Template:
    """Return the parameters of the replication instance."""
    return {
        "ReplicationSubnets": {
            "Type": "List<AWS::EC2::Subnet::Id>",
            "Description": "Subnets in two zones from which the source database is reached.",
        },
        "ReplicationSecurityGroups": {
            "Type": "List<AWS::EC2::SecurityGroup::Id>",
            "Description": "Security groups that have access to the source database.",
        },
        "ReplicationInstanceClass": {
            "Type": "String",
            "Default": "dms.t3.medium",
            "Description": "The class of the replication instance.",
        },
        "ReplicationStorage": {"Type": "Number", "Default": 50, "MinValue": 5, "Description": "Its disk in GB."},
    }


def _file_parameters() -> Template:
    """Return the parameters of the files that DMS writes."""
    return {
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
            "Description": "The largest LOB value in KB: longer values are truncated without a warning.",
        },
    }


def rules() -> Template:
    """Return the rules by which CloudFormation checks the parameters before it creates anything."""
    database = {"Fn::Not": [{"Fn::Equals": [ref("SourceDatabase"), ""]}]}
    engines = [engine for engine, settings in _ENGINES.items() if settings != "MySqlSettings"]
    needs_database = {"Assert": database, "AssertDescription": "Set SourceDatabase, which this engine needs."}
    certificate = {"Fn::Not": [{"Fn::Equals": [ref("SourceCertificateArn"), ""]}]}
    needs_certificate = {
        "Assert": certificate,
        "AssertDescription": "Set SourceCertificateArn: verify-ca and verify-full verify a certificate.",
    }
    checks = {
        "DatabaseIsNamed": {"RuleCondition": _is_one("SourceEngine", engines), "Assertions": [needs_database]},
        "CertificateIsThere": {
            "RuleCondition": _is_one("SourceSslMode", ["verify-ca", "verify-full"]),
            "Assertions": [needs_certificate],
        },
    }
    for settings, modes in _SSL_MODES.items():
        has_mode = {
            "Assert": _is_one("SourceSslMode", modes),
            "AssertDescription": f"For this engine, SourceSslMode is one of: {', '.join(modes)}.",
        }
        condition = _is_one("SourceEngine", _engines_by_settings()[settings])
        checks[f"SslModeOf{settings}"] = {"RuleCondition": condition, "Assertions": [has_mode]}
    return checks


def _is_one(parameter: str, values: Sequence[str]) -> Template:
    return {"Fn::Contains": [[*values], ref(parameter)]}


def conditions() -> Template:
    """Return the conditions for the settings of the engine and for a certificate."""
    return {"HasSourceCertificate": is_given("SourceCertificateArn"), **_conditions_of_engines()}


def _conditions_of_engines() -> Template:
    return {
        _condition(settings): {"Fn::Or": [{"Fn::Equals": [ref("SourceEngine"), engine]} for engine in engines]}
        if len(engines) > 1
        else {"Fn::Equals": [ref("SourceEngine"), engines[0]]}
        for settings, engines in _engines_by_settings().items()
    }


def _engines_by_settings() -> Mapping[str, Sequence[str]]:
    engines: dict[str, list[str]] = {}
    for engine, settings in _ENGINES.items():
        engines.setdefault(settings, []).append(engine)
    return engines


def _condition(settings: str) -> str:
    return f"Has{settings}"


def resources(pipeline: DeployedPipeline) -> Template:
    """Return roles, instance, endpoints and task. The task is started by hand."""
    source = pipeline.source
    if not isinstance(source, DmsOptions):
        raise LookupError("the files are not those of DMS")
    secret = allow("ReadLogin", ["secretsmanager:GetSecretValue"], [ref("SourceSecretArn")])
    return {
        **_replication_instance(pipeline),
        "DmsSecretRole": role("dms", "login", [secret], regional=True),
        "DmsTargetRole": role("dms", "landing", [*_write_landing(pipeline.landing)]),
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


def _replication_instance(pipeline: DeployedPipeline) -> Template:
    return {
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


def _write_landing(landing: Place) -> Iterator[Template]:
    """Yield the permissions of DMS to write files ("Prerequisites for using Amazon S3 as a target")."""
    yield list_bucket("ListLanding", landing)
    actions = ("s3:DeleteObject", "s3:PutObject", "s3:PutObjectTagging")
    yield allow("WriteLanding", actions, [objects_below(landing)])


def target_settings(source: DmsOptions, landing: Place) -> Template:
    """Return the settings of the S3 endpoint: recommended ones, and those for the files of the source settings."""
    is_csv = source.format == "csv" or source.cdc_path is not None or {*_OF_CSV} & source.model_fields_set
    settings: dict[str, Any] = {
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
        settings |= {"PreserveTransactions": True, "CdcPath": source.cdc_path}
    if not is_csv:
        return {**settings, "ParquetTimestampInMillisecond": False}
    no_sup = {} if source.no_sup_value is None else {"UseCsvNoSupValue": True, "CsvNoSupValue": source.no_sup_value}
    return {
        **settings,
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
    """Yield the rules that select the tables of the settings, and add the columns that the settings require."""
    numbers = iter(range(1, 1_000_000))
    for name in (*pipeline.tables, *tables_of_patterns(pipeline.patterns)):
        yield _selection(next(numbers), name, "include")
    if pipeline.patterns:
        for name in pipeline.skipped:
            yield _selection(next(numbers), name, "exclude")
    if source.sequence_column is not None:
        yield _column(next(numbers), source.sequence_column, source.sequence_kind)
    if source.operation_indicator is not None:
        values = ", ".join(f"'{value}'" for value in source.operation_indicator_values)
        yield _column(next(numbers), source.operation_indicator, f"operation_indicator({values})")
    if source.before_image_prefix is not None:
        columns = "all" if pipeline.matches_images else "pk-only"
        image = {"column-prefix": source.before_image_prefix, "column-suffix": "", "column-filter": columns}
        definition = {"rule-target": "column", "before-image-def": image}
        yield {**_rule(next(numbers), "add-before-image-columns"), **definition}


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
    definition = {"rule-target": "column", "value": name, "expression": expression, "data-type": text}
    return {**_rule(number, "add-column"), **definition}


def _pattern(name: str) -> str:
    """Return a name as a pattern of DMS, in which `%` matches any text and `_` one character.

    >>> _pattern("order_*")
    'order[_]%'
    """
    return name.replace("_", "[_]").replace("*", "%")


def _task_settings() -> str:
    """Return the settings of the task as JSON; all others have the defaults of DMS."""
    settings = {
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
    return json.dumps(settings).replace('"${LobMaxSize}"', "${LobMaxSize}")
