"""The state machine of a pipeline, its role, and its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, Value, arn_here, attribute, ref, sub
from lakeward.entrypoints.deployment.job_calls import GlueJob, ServerlessJob
from lakeward.entrypoints.deployment.packaged_job import PackagedJob
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline
from lakeward.entrypoints.deployment.policies import allow, role
from lakeward.entrypoints.deployment.resources import job_definitions
from lakeward.entrypoints.deployment.resources.functions import Function, name_of
from lakeward.entrypoints.deployment.state_machine import StateMachineNames, state_machine

_HOUR: Final = 3600
"""Seconds without a message after which all tables are examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """The resources of the state machine of a pipeline, which runs a packaged job and calls functions.

    It polls the queue, or the run that it waits for, every `poll` seconds.
    """

    pipeline: DeployedPipeline
    packaged: PackagedJob
    functions: Sequence[Function]
    poll: int

    def names(self) -> StateMachineNames:
        """Return the names and limits of the definition."""
        lambdas = {function.name: name_of(self.pipeline, function) for function in self.functions}
        full_load, changes = (self._job(title) for title in job_definitions.TITLES)
        return StateMachineNames(
            pipeline=self.pipeline.name,
            full_load=full_load,
            changes=changes,
            queue_url="${QueueUrl}",
            topic="${NoticeTopicArn}",
            history_check_function=lambdas["history-check"],
            dms_status_function=lambdas.get("dms-status"),
            poll_seconds=self.poll,
            idle_turns=max(1, _HOUR // self.poll),
        )

    def _job(self, title: str) -> GlueJob | ServerlessJob:
        if self.packaged.platform == "glue":
            return GlueJob(name=job_definitions.names(self.pipeline)[title])
        return ServerlessJob(
            application="${ApplicationId}",
            role="${JobRoleArn}",
            entry_point="${EntryPoint}",
            arguments=["--settings", "${Settings}"],
            submit_parameters=f"${{{title}Parameters}}",
            timeout_minutes=f"${{{title}Timeout}}",
        )

    def substitutions(self) -> Mapping[str, Value]:
        """Return the values of the substitutions `${…}` in the definition."""
        common: dict[str, Value] = {
            "QueueUrl": ref("Queue"),
            "NoticeTopicArn": ref("NoticeTopic"),
        }
        if self.packaged.platform == "glue":
            return common
        sizes = {
            f"{title}Parameters": sub(job_definitions.spark_parameters(self.packaged, title))
            for title in job_definitions.TITLES
        }
        return {
            **common,
            **{f"{title}Timeout": ref(f"{title}Timeout") for title in job_definitions.TITLES},
            "ApplicationId": ref("Application"),
            "JobRoleArn": attribute("JobRole"),
            "EntryPoint": sub(job_definitions.entry_point(self.packaged)),
            "Settings": sub(job_definitions.settings_of(self.pipeline)),
            **sizes,
        }

    def statements(self) -> Iterator[Template]:
        """Yield the permissions for all calls of the definition."""
        if self.packaged.platform == "glue":
            jobs = [arn_here("glue", f"job/{name}") for name in job_definitions.names(self.pipeline).values()]
            yield allow("RunJobs", ["glue:GetJobRun", "glue:StartJobRun"], jobs)
        else:
            application = attribute("Application")
            runs = {"Fn::Sub": ["${Application}/jobruns/*", {"Application": application}]}
            yield allow("StartJobs", ["emr-serverless:StartJobRun"], [application])
            yield allow("WatchJobs", ["emr-serverless:GetJobRun"], [runs])
            condition = {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
            yield allow("HandOnRole", ["iam:PassRole"], [attribute("JobRole")], condition)
        titles = [function.title for function in self.functions if function.name != "start-run"]
        lambdas = [attribute(f"{title}Function") for title in titles]
        yield allow("CallFunctions", ["lambda:InvokeFunction"], lambdas)
        yield allow("LookAtQueue", ["sqs:GetQueueAttributes"], [attribute("Queue")])
        yield allow("Notify", ["sns:Publish"], [ref("NoticeTopic")])
        yield allow("GoOn", ["states:StartExecution"], [arn_here("states", f"stateMachine:{self.pipeline.name}")])

    def resources(self) -> Template:
        """Return the state machine, the schedule that starts it, and their roles."""
        starts = allow("Start", ["lambda:InvokeFunction"], [attribute("StartRunFunction")])
        return {
            "StateMachineRole": role("states", "state-machine", [*self.statements()]),
            "StateMachine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "StateMachineName": self.pipeline.name,
                    "StateMachineType": "STANDARD",
                    "RoleArn": attribute("StateMachineRole"),
                    "Definition": _in_any_partition(state_machine(self.names())),
                    "DefinitionSubstitutions": self.substitutions(),
                },
            },
            "ScheduleRole": role("scheduler", "schedule", [starts]),
            "Schedule": {
                "Type": "AWS::Scheduler::Schedule",
                "Properties": {
                    "Name": self.pipeline.name,
                    "Description": f"lakeward: starts the pipeline {self.pipeline.name}, unless it runs",
                    "ScheduleExpression": ref("ScheduleExpression"),
                    "State": ref("ScheduleState"),
                    "FlexibleTimeWindow": {"Mode": "OFF"},
                    "Target": {
                        "Arn": attribute("StartRunFunction"),
                        "RoleArn": attribute("ScheduleRole"),
                        "Input": "{}",
                    },
                },
            },
        }


def _in_any_partition(definition: Mapping[str, Any]) -> Template:
    """Return a definition whose calls are in the partition of the stack."""
    states = {name: {**state} for name, state in definition["States"].items()}
    for state in states.values():
        if "Resource" in state:
            state["Resource"] = sub(state["Resource"].replace("arn:aws:", "arn:${AWS::Partition}:", 1))
    return {**definition, "States": states}


def parameters() -> Template:
    """Return the parameters of the schedule."""
    return {
        "ScheduleExpression": {
            "Type": "String",
            "Default": "rate(15 minutes)",
            "Description": "How often the state machine is started, unless it runs. It runs until it fails, so "
            "this starts it once, and again after a failure.",
        },
        "ScheduleState": {
            "Type": "String",
            "Default": "DISABLED",
            "AllowedValues": ["ENABLED", "DISABLED"],
            "Description": "Set to ENABLED once the settings and the package are in their places.",
        },
    }
