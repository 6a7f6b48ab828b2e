"""The state machine of a pipeline, executed: by moto, with the handlers of its functions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dms.models import FakeReplicationTask
from moto.emrserverless.models import emrserverless_backends
from moto.glue.models import FakeJobRun, glue_backends
from moto.moto_api import state_manager
from state_machines import ROLE, StepFunctions, wait_until

from lakeward.entrypoints.deployment.job_calls import GlueJob, ServerlessJob
from lakeward.entrypoints.deployment.state_machine import StateMachineNames, state_machine
from lakeward.entrypoints.lambdas import dms_status, history_check, start_run
from lakeward.entrypoints.lambdas.environment import DMS_TASK

REGION = "eu-central-1"
CHANGES = {"phase": "changes"}
RUNS: Mapping[str, Any] = {"glue::job_run": {"progression": "manual", "times": 1_000_000}}


@dataclass
class Shop:
    """A pipeline on Glue, with its queue and the notices that were sent; tests end its runs."""

    aws: StepFunctions
    names: StateMachineNames
    notices_url: str
    reasons: dict[str, str] = field(default_factory=dict)
    dms: dict[str, Any] = field(default_factory=dict)
    machine: str = ""

    def begin(self, **changed: Any) -> str:
        """Make the state machine, and start it as an event does; return the ARN of the execution."""
        self.names = replace(self.names, **changed)
        self.machine = self.aws.make(state_machine(self.names))
        return self.event()

    def start(self, content: Mapping[str, Any], **changed: Any) -> str:
        """Make the state machine, and start it by hand; return the ARN of the execution."""
        self.names = replace(self.names, **changed)
        self.machine = self.aws.make(state_machine(self.names))
        return self.aws.start(self.machine, "by-hand", content)

    def event(self) -> str:
        """Let an event come; return the ARN of the execution that has the pipeline."""
        found = start_run.start_or_join(start_run.open_executions(self.machine))
        return f"{self.machine.replace(':stateMachine:', ':execution:')}:{found['execution']}"

    def notify(self) -> None:
        """Let a message lie in the queue."""
        self.aws.client("sqs").send_message(QueueUrl=self.names.queue_url, MessageBody='{"table": "shop.orders"}')

    def empty(self) -> None:
        self.aws.client("sqs").purge_queue(QueueUrl=self.names.queue_url)

    def runs(self) -> list[FakeJobRun]:
        """Return the runs of the job so far."""
        return glue_backends[DEFAULT_ACCOUNT_ID][REGION].jobs[self.names.changes.name].job_runs

    def run(self, number: int) -> FakeJobRun:
        """Wait for the run of a number, which counts from 1."""
        return wait_until(lambda: len(self.runs()) >= number and self.runs()[number - 1])

    def end(self, number: int, state: str = "SUCCEEDED", reason: str | None = None) -> None:
        """End the run of a number."""
        run = self.run(number)
        if reason is not None:
            self.reasons[run.job_run_id] = reason
        run._status = state

    def notice(self) -> Mapping[str, str]:
        """Wait for a notice, and return it."""
        client = self.aws.client("sqs")

        def receive() -> Any:
            found = client.receive_message(QueueUrl=self.notices_url).get("Messages", ())
            for one in found:
                client.delete_message(QueueUrl=self.notices_url, ReceiptHandle=one["ReceiptHandle"])
            return found

        said: Mapping[str, str] = json.loads(wait_until(receive)[0]["Body"])
        return said

    def history(self, execution: str) -> str:
        """Return all that Step Functions noted of an execution."""
        return str(self.aws.client("stepfunctions").get_execution_history(executionArn=execution)["events"])

    def wait_for(self, execution: str, state: str, times: int = 1) -> None:
        """Wait until an execution has entered a state so many times."""
        wait_until(lambda: self.aws.states(execution).count(state) >= times)

    def ended(self, execution: str) -> str:
        """Wait until an execution has ended; return how."""
        states = self.aws.executions
        name = execution.rpartition(":")[2]
        wait_until(lambda: states(self.machine)[name] != "RUNNING")
        return states(self.machine)[name]


@pytest.fixture
def shop(step_functions: StepFunctions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    name = step_functions.pipeline
    glue, sqs, sns = (step_functions.client(service) for service in ("glue", "sqs", "sns"))
    glue.create_job(Name=name, Role=ROLE, Command={"Name": "glueetl", "ScriptLocation": "s3://shop/job.py"})
    topic = sns.create_topic(Name=name)["TopicArn"]
    queues = {kind: sqs.create_queue(QueueName=f"{name}-{kind}")["QueueUrl"] for kind in ("landing", "notices")}
    attributes = sqs.get_queue_attributes(QueueUrl=queues["notices"], AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=attributes["QueueArn"])
    task = step_functions.client("dms").create_replication_task(
        ReplicationTaskIdentifier=name,
        SourceEndpointArn="arn:aws:dms:eu-central-1:123456789012:endpoint:source",
        TargetEndpointArn="arn:aws:dms:eu-central-1:123456789012:endpoint:target",
        ReplicationInstanceArn="arn:aws:dms:eu-central-1:123456789012:rep:shop",
        MigrationType="full-load-and-cdc",
        TableMappings="{}",
    )["ReplicationTask"]
    monkeypatch.setenv(DMS_TASK, task["ReplicationTaskArn"])
    step_functions.handlers |= {"check": history_check.handler, "dms": dms_status.handler}
    for model, transition in RUNS.items():
        state_manager.set_transition(model, transition)
    job = GlueJob(name=name, arguments={"--settings": "s3://shop/lakeward.toml"})
    names = StateMachineNames(
        pipeline=name,
        full_load=replace(job, worker_type="G.2X", workers=20),
        changes=job,
        queue_url=queues["landing"],
        topic=topic,
        history_check_function="check",
        poll_seconds=0,
        pause_seconds=0,
        attempts=0,
    )
    found = Shop(step_functions, names, queues["notices"])
    as_dict = FakeJobRun.as_dict

    def with_reason(run: FakeJobRun) -> dict[str, Any]:
        reason = found.reasons.get(run.job_run_id)
        return as_dict(run) if reason is None else {**as_dict(run), "ErrorMessage": reason}

    monkeypatch.setattr(FakeJobRun, "as_dict", with_reason)
    to_dict = FakeReplicationTask.to_dict
    monkeypatch.setattr(FakeReplicationTask, "to_dict", lambda task: {**to_dict(task), **found.dms})
    yield found
    for model in RUNS:
        state_manager.unset_transition(model)


def test_the_full_load_is_run_and_then_messages_begin_runs(shop: Shop) -> None:
    execution = shop.begin()
    load = shop.run(1)
    assert (load.worker_type, load.number_of_workers) == ("G.2X", 20)
    assert load.arguments == {
        "--settings": "s3://shop/lakeward.toml",
        "--correlation_id": execution.rpartition(":")[2],
        "--dag_name": f"{shop.names.pipeline}-machine",
        "--task_id": "full-load",
    }
    shop.wait_for(execution, "RunState", times=2)
    shop.end(1)
    shop.wait_for(execution, "Idle", times=2)
    assert len(shop.runs()) == 1
    shop.notify()
    changes = shop.run(2)
    assert changes.number_of_workers is None
    assert changes.arguments["--task_id"] == "changes"
    shop.empty()
    shop.end(2)
    shop.wait_for(execution, "RunSucceeded", times=2)
    assert shop.event() == execution
    assert len(shop.aws.executions(shop.machine)) == 1


@pytest.mark.long
def test_a_run_looks_at_all_tables_from_time_to_time_though_the_queue_is_empty(shop: Shop) -> None:
    execution = shop.start(CHANGES, idle_turns=2)
    shop.end(1)
    shop.end(2)
    shop.wait_for(execution, "RunSucceeded", times=2)
    states = shop.aws.states(execution)
    assert states[: states.index("StartChanges")].count("Idle") == 2
    assert states[: states.index("RunSucceeded", states.index("RunSucceeded") + 1)].count("Idle") == 4


def test_a_failed_run_is_told_once_and_the_next_one_goes_on(shop: Shop) -> None:
    shop.notify()
    execution = shop.start(CHANGES, notice_at=(1, 100))
    shop.end(1, "FAILED", "shop.orders: a value does not fit")
    message = shop.notice()
    assert message["Subject"] == f"lakeward {shop.names.pipeline}: a run failed"
    assert message["Message"].startswith(
        f"Pipeline {shop.names.pipeline}: a run failed. Found: {shop.run(1).job_run_id} is FAILED: shop.orders: a "
        f"value does not fit. To do: See the log of this run of the Glue job {shop.names.changes.name}: "
    )
    assert message["Message"].endswith(f"Execution: {execution}")
    assert message["MessageAttributes"]["pipeline"]["Value"] == shop.names.pipeline
    shop.end(2, "TIMEOUT")
    shop.run(3)
    shop.empty()
    shop.end(3)
    shop.wait_for(execution, "Idle")
    states = shop.aws.entered(execution)
    assert [content["failures"] for name, content in states if name == "Failed"] == [1, 2]
    assert [name for name, _ in states].count("Tell") == 1
    assert next(content["failures"] for name, content in states if name == "Idle") == 0


@pytest.mark.long
def test_an_execution_gives_up_with_a_notice_and_an_event_begins_where_it_was(shop: Shop) -> None:
    shop.notify()
    execution = shop.start(CHANGES, max_failures=2, notice_at=(5,))
    shop.end(1, "FAILED")
    shop.end(2, "STOPPED")
    assert shop.ended(execution) == "FAILED"
    assert f"{shop.run(2).job_run_id} is STOPPED. To do:" in shop.notice()["Message"]
    following = shop.event()
    assert following != execution
    shop.run(3)
    assert shop.aws.entered(following)[0][1] == {"phase": "changes", "run": ""}


@pytest.mark.long
def test_a_full_load_that_fails_is_left_to_usual_runs_in_the_end(shop: Shop) -> None:
    shop.begin(full_load_attempts=2, notice_at=(1, 2))
    shop.end(1, "FAILED")
    assert "the full load failed." in shop.notice()["Message"]
    assert shop.run(2).number_of_workers == 20
    shop.end(2, "FAILED")
    assert "the full load is left to usual runs." in shop.notice()["Message"]
    shop.notify()
    assert shop.run(3).number_of_workers is None


def test_failures_of_others_leave_the_full_load_its_attempts(shop: Shop) -> None:
    before = {"phase": "full-load", "failures": 7}
    execution = shop.start(before, full_load_attempts=2, notice_at=(8,))
    shop.end(1, "FAILED")
    assert "the full load failed." in shop.notice()["Message"]
    assert shop.run(2).number_of_workers == 20
    assert [content["loads"] for name, content in shop.aws.entered(execution) if name == "Failed"] == [1]


def test_a_new_execution_goes_on_before_the_history_is_full(shop: Shop) -> None:
    first = shop.begin(history_limit=60)
    shop.run(1)
    assert shop.ended(first) == "SUCCEEDED"
    assert shop.aws.states(first)[-2:] == ["StartNewExecution", "WentOver"]
    assert shop.aws.called.count("check") > 2
    (second,) = [name for name, state in shop.aws.executions(shop.machine).items() if state == "RUNNING"]
    assert shop.event().endswith(f":{second}")
    carried = {"phase": "full-load", "run": shop.run(1).job_run_id, "failures": 0, "loads": 0, "idle": 0}
    assert shop.aws.entered(shop.event())[0][1] == carried
    assert len(shop.runs()) == 1


@pytest.mark.long
def test_an_old_execution_is_followed_by_a_new_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(history_check, "now", lambda: now() + 300 * 24 * 3600 + 60)
    execution = shop.start(CHANGES, max_days=300)
    assert shop.ended(execution) == "SUCCEEDED"
    assert "WentOver" in shop.aws.states(execution)


def test_the_full_load_waits_for_that_of_dms(shop: Shop) -> None:
    shop.dms["ReplicationTaskStats"] = {"FullLoadProgressPercent": 99, "TablesLoading": 1}
    execution = shop.begin(dms_status_function="dms")
    shop.wait_for(execution, "DmsState", times=2)
    shop.dms |= {"Status": "failed", "LastFailureMessage": "the endpoint does not answer"}
    assert "is at 99 %. the endpoint does not answer. To do: Correct the task" in shop.notice()["Message"]
    assert shop.runs() == []
    shop.dms |= {"Status": "running", "LastFailureMessage": ""}
    shop.wait_for(execution, "DmsLoads", times=3)
    assert [content["failures"] for name, content in shop.aws.entered(execution) if name == "Wait"][-1] == 0
    shop.dms["ReplicationTaskStats"] = {"FullLoadProgressPercent": 100, "TablesLoaded": 3, "TablesErrored": 1}
    assert shop.run(1).number_of_workers == 20
    assert "1 table ended with an error. To do: Reload these tables" in shop.notice()["Message"]


def test_an_execution_that_is_started_beside_another_one_ends_at_once(shop: Shop) -> None:
    execution = shop.begin()
    shop.run(1)
    other = shop.aws.start(shop.machine, "by-hand")
    assert shop.ended(other) == "SUCCEEDED"
    assert shop.aws.states(other)[-1] == "AnotherOneRuns"
    assert shop.aws.executions(shop.machine)[execution.rpartition(":")[2]] == "RUNNING"


def test_behind_a_stopped_execution_another_one_waits_for_the_same_run(shop: Shop) -> None:
    shop.notify()
    execution = shop.start(CHANGES)
    shop.wait_for(execution, "RunState")
    shop.aws.client("stepfunctions").stop_execution(executionArn=execution)
    shop.ended(execution)
    following = shop.event()
    shop.wait_for(following, "RunState")
    assert shop.aws.entered(following)[0][1] == {"phase": "changes", "run": shop.run(1).job_run_id}
    shop.empty()
    shop.end(1)
    shop.wait_for(following, "Idle")
    assert len(shop.runs()) == 1


@pytest.mark.long
def test_a_run_that_is_gone_with_its_job_is_not_waited_for(shop: Shop) -> None:
    execution = shop.start({"phase": "changes", "run": "jr_of_another_job"})
    shop.wait_for(execution, "Idle")
    assert "RunUnknown" in shop.aws.states(execution)


@pytest.mark.long
def test_a_job_that_is_not_there_is_told_and_tried_again(shop: Shop) -> None:
    shop.notify()
    execution = shop.start(CHANGES, changes=GlueJob(name="no-job"))
    message = shop.notice()["Message"]
    assert "no run begins. Found: " in message
    assert "EntityNotFoundException" in message
    shop.wait_for(execution, "StartChanges", times=2)


@pytest.mark.long
def test_a_run_under_way_is_waited_for_with_patience(shop: Shop) -> None:
    shop.notify()
    shop.aws.client("glue").start_job_run(JobName=shop.names.changes.name)
    execution = shop.start(CHANGES, attempts=1, retry_seconds=1)
    wait_until(lambda: "ConcurrentRunsExceeded" in shop.history(execution))
    shop.end(1)
    shop.run(2)
    assert "Failed" not in shop.aws.states(execution)


@pytest.mark.long
def test_an_unknown_phase_ends_the_execution_with_a_notice(shop: Shop) -> None:
    execution = shop.start({"phase": "later"})
    assert "the input is wrong. Found: later. To do:" in shop.notice()["Message"]
    assert shop.ended(execution) == "FAILED"
    following = shop.event()
    shop.run(1)
    assert shop.aws.entered(following)[0][1] == {}


@pytest.mark.long
def test_a_function_that_fails_is_told(shop: Shop) -> None:
    def fail(event: Mapping[str, Any], context: object) -> Mapping[str, Any]:
        raise OSError("no answer")

    shop.aws.handlers["check"] = fail
    execution = shop.start(CHANGES, max_failures=2, notice_at=(1,))
    assert "the history cannot be checked" in shop.notice()["Message"]
    assert shop.ended(execution) == "FAILED"


def test_a_pipeline_on_emr_serverless(shop: Shop) -> None:
    client = shop.aws.client("emr-serverless")
    application = client.create_application(name="shop", releaseLabel="emr-7.14.0", type="SPARK")["applicationId"]
    job = ServerlessJob(
        application=application,
        role=ROLE,
        entry_point="s3://shop/lakeward_job.py",
        arguments=["--settings", "s3://shop/lakeward.toml"],
        timeout_minutes="90",
    )
    execution = shop.begin(full_load=job, changes=job)
    runs = emrserverless_backends[DEFAULT_ACCOUNT_ID][REGION].job_runs
    wait_until(lambda: runs.get(application))
    (load,) = runs[application]
    assert load.name == execution.rpartition(":")[2]
    assert load.execution_timeout_minutes == 90
    assert load.job_driver["sparkSubmit"]["entryPointArguments"][-2:] == ["--task_id", "full-load"]
    load.state = "SUCCESS"
    shop.wait_for(execution, "Idle")
    shop.notify()
    changes = wait_until(lambda: len(runs[application]) > 1 and runs[application][1])
    assert len({load.client_token, changes.client_token}) == 2
    changes.state, changes.state_details = "FAILED", "the driver was lost"
    message = shop.notice()["Message"]
    assert f"{changes.id} is FAILED: the driver was lost. To do: " in message
