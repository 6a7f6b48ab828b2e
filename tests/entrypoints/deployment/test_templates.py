"""Templates of pipelines: CloudFormation takes them, and they have what the settings say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from deployments import SOURCE, render_template, settings, words
from pages import codes, sections, tables
from policies import Stack

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.template import text_of

FIFO = settings("delta", queue="deployed-landing.fifo")
FILES = settings(source='kind = "files"\npath = "s3://deployed-landing/files"\norder_by = "at"\n')
ARCHIVED = settings("hudi", source=SOURCE + 'landing = "archived"\narchive = "s3://deployed-landing/archive"\n')
TRANSACTIONS = 'format = "csv"\ncdc_path = "cdc"\nsequence_column = "seq"\nbefore_image_prefix = "BI_"\n'
CSV = settings(source=SOURCE + TRANSACTIONS)

CASES: dict[str, tuple[str, str, str, str]] = {
    "glue iceberg": ("glue", settings(), "iceberg", "make"),
    "glue delta fifo": ("glue", FIFO, "delta", "existing"),
    "emr hudi archived": ("emr-serverless", ARCHIVED, "hudi", "none"),
    "emr transactions": ("emr-serverless", CSV, "iceberg", "make"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the template of each case."""
    found = {}
    for name, (platform, text, kind, dms) in CASES.items():
        found[name] = render_template(tmp_path_factory.mktemp("deployed"), platform, text, kind=kind, dms=dms)  # type: ignore[arg-type]
    return found


def errors_of(template: dict[str, Any]) -> list[str]:
    found = lint(text_of(template), config=ManualArgs(regions=["eu-central-1"]))
    return [f"{one.rule.id} {one.message}" for one in found]


@pytest.mark.parametrize("case", CASES)
def test_cfn_lint_finds_nothing(made: dict[str, dict[str, Any]], case: str) -> None:
    assert errors_of(made[case]) == []


def test_cfn_lint_finds_what_is_wrong() -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"Colour": "blue", "QueueName": {"Ref": "Nothing"}}}
    template = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": {"Queue": queue}}
    assert {error.split()[0] for error in errors_of(template)} == {"E3002", "E1020"}


def test_files_of_something_else_than_dms_are_watched_too(tmp_path: Path) -> None:
    template = render_template(tmp_path, "glue", FILES, dms="none")
    detail = properties(template, "LandingRule")["EventPattern"]["detail"]
    assert detail["object"]["key"] == [{"prefix": "files/"}]
    assert not [name for name, one in template["Resources"].items() if one["Type"].startswith("AWS::DMS")]


def properties(template: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(template["Resources"][name]["Properties"])


def test_buckets_are_private_encrypted_and_stay(made: dict[str, dict[str, Any]]) -> None:
    template = made["glue iceberg"]
    names = words(template, "AWS::S3::Bucket")
    assert {properties(template, name)["BucketName"] for name in names} == {"deployed-landing", "deployed-lake"}
    for bucket in (template["Resources"][name] for name in names):
        assert bucket["DeletionPolicy"] == "Retain"
        assert all(bucket["Properties"]["PublicAccessBlockConfiguration"].values())
        assert bucket["Properties"]["BucketEncryption"]
        rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        assert not [rule for rule in rules if "ExpirationInDays" in rule], "nothing is deleted"


def test_a_bucket_that_is_for_several_things_is_one(made: dict[str, dict[str, Any]]) -> None:
    template = made["emr hudi archived"]
    assert words(template, "AWS::S3::Bucket") == ["LandingBucket", "LakeBucket"]
    rules = properties(template, "LandingBucket")["LifecycleConfiguration"]["Rules"]
    assert [rule.get("Prefix") for rule in rules] == [None, "dms/", "archive/"]


def test_the_queue_is_that_of_the_settings_and_has_dead_letters(made: dict[str, dict[str, Any]]) -> None:
    queue = properties(made["glue iceberg"], "Queue")
    assert (queue["QueueName"], queue["VisibilityTimeout"]) == ("deployed-landing", 300)
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    assert properties(made["glue iceberg"], "LandingRule")["EventPattern"]["detail"] == {
        "bucket": {"name": ["deployed-landing"]},
        "object": {"key": [{"prefix": "dms/"}]},
    }


def test_a_fifo_queue_has_a_group_for_each_table(made: dict[str, dict[str, Any]]) -> None:
    template = made["glue delta fifo"]
    assert properties(template, "DeadLetters")["QueueName"] == "deployed-landing-dead.fifo"
    assert [*groups(template)] == ["dms/shop/orders/", "dms/shop/order_lines/"]
    assert len({*groups(template).values()}) == 2
    (statement,) = properties(template, "QueuePolicy")["PolicyDocument"]["Statement"]
    assert len(statement["Condition"]["ArnEquals"]["aws:SourceArn"]) == 2


OWN_FOLDERS = """
[tables."shop.orders"]
key = ["id"]
source = { load = "full/orders", changes = "cdc/orders" }
[tables."shop.order_lines"]
key = ["id"]
"""


def test_a_table_of_a_fifo_queue_has_its_own_folders_in_one_group(tmp_path: Path) -> None:
    text = settings("delta", queue="deployed-landing.fifo", more=OWN_FOLDERS)
    template = render_template(tmp_path, "glue", text, kind="delta", dms="existing")
    own = dict.fromkeys(("dms/full/orders/", "dms/cdc/orders/"), "table-1")
    assert groups(template) == {**own, "dms/shop/order_lines/": "table-2"}
    around = text.replace("cdc/orders", "full")
    assert groups(render_template(tmp_path, "glue", around, kind="delta", dms="existing")) == {"dms/": "deployed"}
    with pytest.raises(ConfigError, match=r'\[tables\."shop\.orders"\.source\] has `load`'):
        render_template(tmp_path, "glue", text, kind="delta", dms="make")


def groups(template: dict[str, Any]) -> dict[str, str]:
    """Return the groups of messages by the prefixes that are watched."""
    rules = [properties(template, name) for name in words(template, "AWS::Events::Rule")]
    watched = [rule["EventPattern"]["detail"]["object"]["key"][0]["prefix"] for rule in rules]
    of = [rule["Targets"][0]["SqsParameters"]["MessageGroupId"] for rule in rules]
    return dict(zip(watched, of, strict=True))


def test_full_load_and_changes_have_workers_of_their_own(made: dict[str, dict[str, Any]]) -> None:
    template = made["glue iceberg"]
    parameters = template["Parameters"]
    for title, kind, number in (("FullLoad", "G.2X", 10), ("Changes", "G.1X", 2)):
        assert parameters[f"{title}WorkerType"]["Default"] == kind
        assert parameters[f"{title}Workers"]["Default"] == number
    pattern = parameters["PackagePrefix"]["AllowedPattern"]
    assert [text for text in ("a", "a/b", "/a", "a/", "/", "") if re.fullmatch(pattern, text)] == ["a", "a/b"]
    job = properties(template, "ChangesJob")
    assert (job["WorkerType"], job["NumberOfWorkers"]) == ({"Ref": "ChangesWorkerType"}, {"Ref": "ChangesWorkers"})
    said = Stack(template, {"PackageBucket": "jobs", "PackagePrefix": "shop"}).resolve(job)
    assert said["Command"]["ScriptLocation"] == "s3://jobs/shop/lakeward_job.py"
    assert said["DefaultArguments"]["--settings"] == "s3://jobs/shop/lakeward.toml"
    wheels = said["DefaultArguments"]["--additional-python-modules"].split(",")
    assert "s3://jobs/shop/wheels/pydantic-1.0-py3-none-any.whl" in wheels


def test_a_job_of_emr_is_started_with_its_size_and_the_jars_of_its_format(made: dict[str, dict[str, Any]]) -> None:
    substitutions = properties(made["emr transactions"], "StateMachine")["DefinitionSubstitutions"]
    given = {"PackageBucket": "jobs", "PackagePrefix": "shop", "ChangesExecutors": 3}
    said = Stack(made["emr transactions"], given).resolve(substitutions["ChangesParameters"])
    assert "--conf spark.archives=s3://jobs/shop/environment.tar.gz#environment" in said
    assert "--conf spark.dynamicAllocation.maxExecutors=3 " in said
    assert said.endswith("--conf spark.jars=/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar")


def test_the_jobs_of_emr_are_in_a_network_and_end_after_some_time(made: dict[str, dict[str, Any]]) -> None:
    template = made["emr transactions"]
    network = properties(template, "Application")["NetworkConfiguration"]
    assert network == {"SubnetIds": {"Ref": "JobSubnets"}, "SecurityGroupIds": {"Ref": "JobSecurityGroups"}}
    assert not [name for name in ("JobSubnets", "JobSecurityGroups") if "Default" in template["Parameters"][name]]
    machine = properties(template, "StateMachine")
    for title, minutes in (("FullLoad", 1440), ("Changes", 60)):
        asked = machine["Definition"]["States"][f"Start{title}"]["Parameters"]
        assert asked["ExecutionTimeoutMinutes.$"] == f"States.StringToJson('${{{title}Timeout}}')"
        assert machine["DefinitionSubstitutions"][f"{title}Timeout"] == {"Ref": f"{title}Timeout"}
        assert template["Parameters"][f"{title}Timeout"]["Default"] == minutes


@pytest.mark.parametrize("case", CASES)
def test_no_part_names_a_partition(made: dict[str, dict[str, Any]], case: str) -> None:
    said = {**made[case], "Parameters": {}}
    assert "arn:aws:" not in text_of(said)


def test_the_endpoint_has_the_settings_that_we_recommend(made: dict[str, dict[str, Any]]) -> None:
    said = properties(made["glue iceberg"], "TargetEndpoint")["S3Settings"]
    (listed, *_) = tables(sections("docs/reference/dms-endpoint.md")["What we recommend"])
    shown = {name: row["value"] for row in listed for name in codes(row["setting of DMS"])}
    assert said["DataFormat"] == codes(shown["DataFormat"])[0]
    assert said["TimestampColumnName"] == "committed_at"
    for name in ("UseTaskStartTimeForFullLoadTimestamp", "IncludeOpForFullLoad", "ParquetTimestampInMillisecond"):
        assert str(said[name]).lower() == codes(shown[name])[0]
    assert not said["CdcInsertsOnly"]
    assert not said["CdcInsertsAndUpdates"]
    assert "PreserveTransactions" not in said
    assert (said["BucketName"], said["BucketFolder"]) == ("deployed-landing", "dms")


def test_the_endpoint_writes_what_the_settings_say_of_the_files(made: dict[str, dict[str, Any]]) -> None:
    said = properties(made["emr transactions"], "TargetEndpoint")["S3Settings"]
    assert (said["DataFormat"], said["PreserveTransactions"], said["CdcPath"]) == ("csv", True, "cdc")
    assert (said["CsvNullValue"], said["Rfc4180"], said["AddColumnName"]) == ("NULL", True, False)
    rules = json.loads(properties(made["emr transactions"], "ReplicationTask")["TableMappings"])["rules"]
    actions = ["include", "include", "add-column", "add-before-image-columns"]
    assert [rule["rule-action"] for rule in rules] == actions
    assert rules[2]["expression"] == "$AR_H_CHANGE_SEQ"


def test_the_task_loads_the_tables_of_the_settings(tmp_path: Path) -> None:
    more = '\n[tables."shop.*"]\nkey = ["id"]\n[tables."shop.audit_log"]\nskip = true\n'
    template = render_template(tmp_path, "glue", settings(more=more))
    rules = json.loads(properties(template, "ReplicationTask")["TableMappings"])["rules"]
    chosen = [(rule["rule-action"], *rule["object-locator"].values()) for rule in rules]
    assert chosen == [("include", "shop", "%"), ("exclude", "shop", "audit[_]log")]
    task = properties(template, "ReplicationTask")
    said = json.loads(Stack(template, {}).resolve(task["ReplicationTaskSettings"]))
    assert said["TargetMetadata"]["LobMaxSize"] == 1024
    assert not said["TargetMetadata"]["BatchApplyEnabled"]
    assert task["MigrationType"] == "full-load-and-cdc"


@pytest.mark.parametrize("case", ["glue iceberg", "glue delta fifo"])
def test_alarms_look_at_the_task_of_dms(made: dict[str, dict[str, Any]], case: str) -> None:
    template = made[case]
    for title, metric in (("DmsSource", "CDCLatencySource"), ("DmsTarget", "CDCLatencyTarget")):
        alarm = properties(template, f"{title}Alarm")
        assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/DMS", metric)
        assert alarm["TreatMissingData"] == "breaching"
        (instance, task) = alarm["Dimensions"]
        assert task["Value"]["Fn::Select"][0] == 6
        if case == "glue iceberg":
            assert instance["Value"] == properties(template, "ReplicationInstance")["ReplicationInstanceIdentifier"]
        else:
            assert instance["Value"] == {"Ref": "ReplicationInstanceName"}
            assert template["Resources"][f"{title}Alarm"]["Condition"] == "HasReplicationInstance"


def test_the_source_is_reached_by_modes_that_dms_knows_for_its_engine(made: dict[str, dict[str, Any]]) -> None:
    template = made["glue iceberg"]
    assert template["Parameters"]["SourceSslMode"]["Default"] == "require"
    assert properties(template, "SourceEndpoint")["SslMode"] == {"Ref": "SourceSslMode"}
    assert refusals(template, SourceDatabase="shop") == []
    assert refusals(template) == ["DatabaseIsNamed"]
    assert refusals(template, SourceEngine="mysql") == ["SslModeOfMySqlSettings"]
    assert refusals(template, SourceEngine="aurora", SourceSslMode="verify-ca") == ["CertificateIsThere"]
    known = {"SourceSslMode": "verify-ca", "SourceCertificateArn": "arn:aws:dms:eu-central-1:123456789012:cert:A"}
    assert refusals(template, SourceEngine="mariadb", **known) == []
    assert refusals(template, SourceEngine="sqlserver", SourceDatabase="shop", **known) == [
        "SslModeOfMicrosoftSqlServerSettings"
    ]
    assert refusals(template, SourceEngine="oracle", SourceDatabase="shop") == ["SslModeOfOracleSettings"]


def refusals(template: dict[str, Any], **given: str) -> list[str]:
    """Return the rules of a template that parameters are against."""
    values = {name: one.get("Default") for name, one in template["Parameters"].items()} | given

    def holds(said: dict[str, Any]) -> bool:
        ((function, operands),) = said.items()
        if function == "Fn::Not":
            return not holds(operands[0])
        first, second = operands
        if function == "Fn::Equals":
            return bool(values[first["Ref"]] == second)
        assert function == "Fn::Contains"
        return values[second["Ref"]] in first

    return [
        name
        for name, rule in template["Rules"].items()
        if holds(rule["RuleCondition"]) and not all(holds(one["Assert"]) for one in rule["Assertions"])
    ]


def test_alarms_look_at_all_tables_of_the_pipeline(made: dict[str, dict[str, Any]]) -> None:
    template = made["glue iceberg"]
    alarms = {name: properties(template, name) for name in words(template, "AWS::CloudWatch::Alarm")}
    of_runs = {"Lag": "LagSeconds", "HeldKeys": "HeldKeys", "FailedTables": "Failures"}
    others = ("DeadLetters", "FailedRuns", "AbortedRuns", "DmsSource", "DmsTarget")
    assert {*alarms} == {f"{name}Alarm" for name in (*of_runs, *others)}
    for name, metric in of_runs.items():
        one = alarms[f"{name}Alarm"]
        assert (one["Namespace"], one["MetricName"]) == ("lakeward", metric)
        assert one["Dimensions"] == [{"Name": "Pipeline", "Value": "deployed"}]
    assert all(alarm["AlarmActions"] == [{"Ref": "NoticeTopic"}] for alarm in alarms.values())
