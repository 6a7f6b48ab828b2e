"""The jobs of a pipeline: one for full loads with many workers, and one for changes with few workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.intrinsics import Template, Value, attribute, ref, sub
from lakeward.entrypoints.deployment.packaged_job import PackagedJob
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline
from lakeward.entrypoints.job_package.table_formats import TABLE_FORMATS

TITLES: Final = ("FullLoad", "Changes")
"""The two jobs, by the prefix of their parameters and resources."""

_LOADS: Final = {"FullLoad": "the full load", "Changes": "the changes"}
_WORKERS: Final = {"FullLoad": ("G.2X", 10), "Changes": ("G.1X", 2)}
"""The type and number of Glue workers."""

_MINUTES: Final = {"FullLoad": 24 * 60, "Changes": 60}
"""Minutes after which a run is ended."""

_EXECUTORS: Final = {"FullLoad": (4, 27, 10), "Changes": (2, 13, 2)}
"""Cores, memory in GB, and number of executors on EMR."""

_SPARK_3: Final = "3.5"


def parameters(packaged: PackagedJob) -> Template:
    """Return the parameters of the jobs: number and type of workers, and the place of the package.

    Raises ConfigError for a package in a bucket without a prefix.
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
    definitions: dict[str, Any] = {
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
        definitions |= _glue_size(title) if packaged.platform == "glue" else _emr_size(title)
    if packaged.platform == "emr-serverless":
        definitions |= _application_limits(packaged) | _network()
    return definitions


def _application_limits(packaged: PackagedJob) -> dict[str, Any]:
    """Return the parameters of an application of EMR Serverless: its jars, and the limits of all workers."""
    jars = {"Default": TABLE_FORMATS[packaged.format].emr_jars} if packaged.spark == _SPARK_3 else {}
    return {
        "TableFormatJars": {
            "Type": "String",
            **jars,
            "Description": f"The jars of {packaged.format} on EMR, separated by commas.",
        },
        "MaximumCores": {
            "Type": "Number",
            "Default": 64,
            "Description": "The greatest number of vCPUs of all workers together.",
        },
        "MaximumMemory": {
            "Type": "Number",
            "Default": 480,
            "Description": "The greatest memory of all workers together in GB.",
        },
    }


def _network() -> dict[str, Any]:
    """Return the parameters of the workers' network, which they need to reach SQS, SNS and SSM."""
    return {
        "JobSubnets": {
            "Type": "List<AWS::EC2::Subnet::Id>",
            "Description": "Private subnets of the workers, from which SQS and the other services are reached.",
        },
        "JobSecurityGroups": {
            "Type": "List<AWS::EC2::SecurityGroup::Id>",
            "Description": "Security groups of the workers, which allow outgoing HTTPS.",
        },
    }


def _timeout(title: str) -> Template:
    return {
        f"{title}Timeout": {
            "Type": "Number",
            "Default": _MINUTES[title],
            "MinValue": 5,
            "Description": f"Minutes after which a run of {_LOADS[title]} is ended.",
        }
    }


def _glue_size(title: str) -> Template:
    kind, number = _WORKERS[title]
    return {
        f"{title}WorkerType": {
            "Type": "String",
            "Default": kind,
            "AllowedValues": ["G.1X", "G.2X", "G.4X", "G.8X"],
            "Description": f"The type of the workers of {_LOADS[title]}.",
        },
        f"{title}Workers": {
            "Type": "Number",
            "Default": number,
            "MinValue": 2,
            "Description": f"The number of workers of {_LOADS[title]}, including the driver.",
        },
        **_timeout(title),
    }


def _emr_size(title: str) -> Template:
    cores, memory, number = _EXECUTORS[title]
    words = _LOADS[title]
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
            "Description": f"GB of the driver and of each executor of {words}, without Spark's overhead.",
        },
        f"{title}Executors": {
            "Type": "Number",
            "Default": number,
            "MinValue": 1,
            "Description": f"The greatest number of executors of {words}.",
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
    """Return the address of a job's settings: a file in the folder of its package, or a settings store."""
    if pipeline.settings is None:
        return "s3://${PackageBucket}/${PackagePrefix}/lakeward.toml"
    kind, name = pipeline.settings["kind"], pipeline.settings["name"]
    return name if kind == "s3" else f"{kind}:{name}"


def _glue_job(pipeline: DeployedPipeline, packaged: PackagedJob, title: str) -> Template:
    defaults = packaged.job["DefaultArguments"]
    settings = settings_of(pipeline)
    arguments = {name: _substituted(packaged.moved(value)) for name, value in defaults.items()}
    arguments["--settings"] = _substituted(settings)
    command = {**packaged.job["Command"]}
    command["ScriptLocation"] = _substituted(packaged.moved(command["ScriptLocation"]))
    return {
        "Type": "AWS::Glue::Job",
        "Properties": {
            "Name": f"{pipeline.name}-{_NAMES[title]}",
            "Description": f"lakeward: {_LOADS[title]} of the pipeline {pipeline.name}",
            "Role": attribute("JobRole"),
            "GlueVersion": packaged.job["GlueVersion"],
            "Command": command,
            "DefaultArguments": {**arguments, "--enable-continuous-cloudwatch-log": "true"},
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
    """Return the spark-submit parameters of an EMR Serverless job: those of its package, its size, and the jars."""
    packaged_parameters = str(packaged.job["sparkSubmit"]["sparkSubmitParameters"])
    size = {
        "spark.driver.cores": f"${{{title}Cores}}",
        "spark.driver.memory": f"${{{title}Memory}}g",
        "spark.executor.cores": f"${{{title}Cores}}",
        "spark.executor.memory": f"${{{title}Memory}}g",
        "spark.dynamicAllocation.maxExecutors": f"${{{title}Executors}}",
        "spark.jars": "${TableFormatJars}",
    }
    return " ".join(
        [packaged.moved(packaged_parameters), *(f"--conf {name}={value}" for name, value in size.items())]
    )


def entry_point(packaged: PackagedJob) -> str:
    """Return the URL of the script of an EMR Serverless job."""
    return packaged.moved(packaged.job["sparkSubmit"]["entryPoint"])


def names(pipeline: DeployedPipeline) -> Mapping[str, str]:
    """Return the names of the jobs by their titles."""
    return {title: f"{pipeline.name}-{_NAMES[title]}" for title in TITLES}
