"""The jobs of a pipeline: one for full loads, which has much to read, and one for the changes, with few workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.intrinsics import Template, Value, attribute, ref, sub
from lakeward.entrypoints.deployment.packaged_job import PackagedJob
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline

TITLES: Final = ("FullLoad", "Changes")
"""The two jobs, as parameters and resources begin."""

_WORDS: Final = {"FullLoad": "the full load", "Changes": "the changes"}
_WORKERS: Final = {"FullLoad": ("G.2X", 10), "Changes": ("G.1X", 2)}
"""Type and number."""

_MINUTES: Final = {"FullLoad": 24 * 60, "Changes": 60}
"""Minutes after which a run is ended."""

_EXECUTORS: Final = {"FullLoad": (4, 27, 10), "Changes": (2, 13, 2)}
"""Cores, memory in GB, and number of executors."""

_JARS: Final = {
    "iceberg": "/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar",
    "delta": "/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar",
    "hudi": "/usr/lib/hudi/hudi-spark-bundle.jar",
}
"""Where EMR 7 has the jars of a table format ("Using Apache Iceberg with EMR Serverless", and for the others)."""

_SPARK_3: Final = "3.5"


def parameters(packaged: PackagedJob) -> Template:
    """Return how many workers the jobs have, of which type, and where their package lies.

    Raises ConfigError for a package that lies in a bucket without a prefix.
    """
    place = packaged.place
    if place is not None and not place.prefix:
        raise ConfigError(
            f"the package in {packaged.at} has a whole bucket",
            found="the template and the role of the job name a prefix",
            todo="Package with --to s3://bucket/prefix, and name that with --package.",
        )
    default_bucket = {} if place is None else {"Default": place.bucket}
    default_prefix = {"Default": "lakeward" if place is None else place.prefix}
    found: dict[str, Any] = {
        "PackageBucket": {
            "Type": "String",
            **default_bucket,
            "Description": "The bucket that `lakeward package` wrote to.",
        },
        "PackagePrefix": {
            "Type": "String",
            **default_prefix,
            "AllowedPattern": "[^/](.*[^/])?",
            "Description": "The prefix there, without a slash at either end.",
        },
    }
    for title in TITLES:
        found |= _of_glue(title) if packaged.platform == "glue" else _of_emr(title)
    if packaged.platform == "emr-serverless":
        jars = {"Default": _JARS[packaged.format]} if packaged.spark == _SPARK_3 else {}
        found["TableFormatJars"] = {
            "Type": "String",
            **jars,
            "Description": f"The jars of {packaged.format} that EMR has, by commas.",
        }
        found["MaximumCores"] = {"Type": "Number", "Default": 64, "Description": "vCPUs of all workers at once."}
        found["MaximumMemory"] = {"Type": "Number", "Default": 480, "Description": "GB of memory of them."}
        found |= _network()
    return found


def _network() -> Template:
    """Return the network of the workers: without one they reach neither SQS nor SNS nor SSM."""
    return {
        "JobSubnets": {
            "Type": "List<AWS::EC2::Subnet::Id>",
            "Description": "Private subnets of the workers, from which SQS and the other services are reached.",
        },
        "JobSecurityGroups": {
            "Type": "List<AWS::EC2::SecurityGroup::Id>",
            "Description": "Security groups of the workers, which let HTTPS out.",
        },
    }


def _timeout(title: str) -> Template:
    return {
        f"{title}Timeout": {
            "Type": "Number",
            "Default": _MINUTES[title],
            "MinValue": 5,
            "Description": f"Minutes after which a run of {_WORDS[title]} is ended.",
        }
    }


def _of_glue(title: str) -> Template:
    kind, number = _WORKERS[title]
    return {
        f"{title}WorkerType": {
            "Type": "String",
            "Default": kind,
            "AllowedValues": ["G.1X", "G.2X", "G.4X", "G.8X"],
            "Description": f"The type of the workers of {_WORDS[title]}.",
        },
        f"{title}Workers": {
            "Type": "Number",
            "Default": number,
            "MinValue": 2,
            "Description": f"How many workers {_WORDS[title]} has, the driver among them.",
        },
        **_timeout(title),
    }


def _of_emr(title: str) -> Template:
    cores, memory, number = _EXECUTORS[title]
    words = _WORDS[title]
    return {
        f"{title}Cores": {
            "Type": "Number",
            "Default": cores,
            "AllowedValues": [1, 2, 4, 8, 16],
            "Description": f"vCPUs of the driver and of each executor of {words}.",
        },
        f"{title}Memory": {
            "Type": "Number",
            "Default": memory,
            "MinValue": 1,
            "Description": f"GB of the driver and of each executor of {words}, beside Spark's overhead.",
        },
        f"{title}Executors": {
            "Type": "Number",
            "Default": number,
            "MinValue": 1,
            "Description": f"How many executors {words} has at the most.",
        },
        **_timeout(title),
    }


def resources(pipeline: DeployedPipeline, packaged: PackagedJob) -> Template:
    """Return the two jobs of Glue, or the application of EMR Serverless that runs both."""
    if packaged.platform == "glue":
        return {f"{title}Job": _glue_job(pipeline, packaged, title) for title in TITLES}
    logs = _logs(f"/aws/emr-serverless/{pipeline.name}")
    return {"JobLogs": logs, "Application": _application(pipeline, packaged)}


def settings_of(pipeline: DeployedPipeline) -> str:
    """Return where a job finds its settings: beside its package, if they are not in a store."""
    if pipeline.settings is None:
        return "s3://${PackageBucket}/${PackagePrefix}/lakeward.toml"
    kind, name = pipeline.settings["kind"], pipeline.settings["name"]
    return name if kind == "s3" else f"{kind}:{name}"


def _glue_job(pipeline: DeployedPipeline, packaged: PackagedJob, title: str) -> Template:
    given = packaged.job["DefaultArguments"]
    settings = settings_of(pipeline)
    said = {name: _substituted(packaged.moved(value)) for name, value in given.items()}
    said["--settings"] = _substituted(settings)
    command = {**packaged.job["Command"]}
    command["ScriptLocation"] = _substituted(packaged.moved(command["ScriptLocation"]))
    return {
        "Type": "AWS::Glue::Job",
        "Properties": {
            "Name": f"{pipeline.name}-{_NAMES[title]}",
            "Description": f"lakeward: {_WORDS[title]} of the pipeline {pipeline.name}",
            "Role": attribute("JobRole"),
            "GlueVersion": packaged.job["GlueVersion"],
            "Command": command,
            "DefaultArguments": {**said, "--enable-continuous-cloudwatch-log": "true"},
            "ExecutionProperty": {"MaxConcurrentRuns": 1},
            "MaxRetries": 0,
            "WorkerType": ref(f"{title}WorkerType"),
            "NumberOfWorkers": ref(f"{title}Workers"),
            "Timeout": ref(f"{title}Timeout"),
        },
    }


_NAMES: Final = {"FullLoad": "full-load", "Changes": "changes"}


def _substituted(text: str) -> Value:
    return sub(text) if "${" in text else text


def _application(pipeline: DeployedPipeline, packaged: PackagedJob) -> Template:
    machine = {"x86_64": "X86_64", "aarch64": "ARM64"}[packaged.machine]
    return {
        "Type": "AWS::EMRServerless::Application",
        "Properties": {
            "Name": pipeline.name,
            "Type": "SPARK",
            "ReleaseLabel": packaged.release,
            "Architecture": machine,
            "AutoStartConfiguration": {"Enabled": True},
            "AutoStopConfiguration": {"Enabled": True, "IdleTimeoutMinutes": 5},
            "NetworkConfiguration": {
                "SubnetIds": ref("JobSubnets"),
                "SecurityGroupIds": ref("JobSecurityGroups"),
            },
            "MaximumCapacity": {"Cpu": sub("${MaximumCores} vCPU"), "Memory": sub("${MaximumMemory} GB")},
            "MonitoringConfiguration": {
                "CloudWatchLoggingConfiguration": {"Enabled": True, "LogGroupName": ref("JobLogs")}
            },
        },
    }


def _logs(name: str) -> Template:
    return {
        "Type": "AWS::Logs::LogGroup",
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
        "Properties": {"LogGroupName": name, "RetentionInDays": 30},
    }


def spark_parameters(packaged: PackagedJob, title: str) -> str:
    """Return what a job of EMR Serverless is started with: what its package says, its size, and the jars."""
    given = str(packaged.job["sparkSubmit"]["sparkSubmitParameters"])
    size = {
        "spark.driver.cores": f"${{{title}Cores}}",
        "spark.driver.memory": f"${{{title}Memory}}g",
        "spark.executor.cores": f"${{{title}Cores}}",
        "spark.executor.memory": f"${{{title}Memory}}g",
        "spark.dynamicAllocation.maxExecutors": f"${{{title}Executors}}",
        "spark.jars": "${TableFormatJars}",
    }
    return " ".join([packaged.moved(given), *(f"--conf {name}={value}" for name, value in size.items())])


def entry_point(packaged: PackagedJob) -> str:
    """Return the script of a job of EMR Serverless."""
    return packaged.moved(packaged.job["sparkSubmit"]["entryPoint"])


def names(pipeline: DeployedPipeline) -> Mapping[str, str]:
    """Return what the jobs are called, by their titles."""
    return {title: f"{pipeline.name}-{_NAMES[title]}" for title in TITLES}
