"""`docs/how-to/aws/deploy.md`, `…/cost.md`: commands work up to where they reach AWS, and sums are right."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from deployments import SOURCE, rendered, settings
from pages import codes, fences, prose, sections, tables, text
from policies import Stack

from lakeward.entrypoints import cli
from lakeward.entrypoints.deployment.pipeline import Dms

PAGE, COST = "docs/how-to/aws/deploy.md", "docs/how-to/aws/cost.md"
PLATFORMS = ("glue", "emr-serverless")
SIDES: tuple[Dms, ...] = ("make", "existing", "none")
ARCHIVED = SOURCE + 'landing = "archived"\narchive = "s3://an-archive"\n'


def commands(section: str) -> list[list[str]]:
    """Return the commands of a section, in words."""
    body = text(PAGE).partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", body, re.DOTALL)
    lines = (line for block in blocks for line in block.replace("\\\n", " ").splitlines())
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


class Uploaded:
    """What `aws s3` would have brought into buckets, by URL."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def carry_out(self, words: list[str]) -> None:
        operation, source, *others = words[2:]
        if operation in ("rb", "rm"):
            return
        target, *rest = others
        left_out = rest[rest.index("--exclude") + 1] if "--exclude" in rest else None
        if operation == "cp":
            self.objects[target] = Path(source).read_bytes()
            return
        assert operation == "sync"
        for path in (path for path in Path(source).rglob("*") if path.is_file()):
            if path.name != left_out:
                self.objects[f"{target}/{path.relative_to(source).as_posix()}"] = path.read_bytes()


def given(words: list[str]) -> Mapping[str, str]:
    """Return the parameters that a stack is made with."""
    return dict(word.split("=", 1) for word in words[words.index("--parameter-overrides") + 1 :])


class Newcomer:
    """Somebody who carries out the commands of the page, section by section, up to where they reach AWS."""

    def __init__(self) -> None:
        self.uploaded = Uploaded()
        self.stacks: list[Mapping[str, str]] = []
        (said,) = (block.content for block in fences(PAGE, "toml") if block.name == "lakeward.toml")
        Path("lakeward.toml").write_text(said, "utf-8")

    def carry_out(self, section: str) -> None:
        """Carry out a section: what is uploaded comes before the stack that looks for it."""
        for words in commands(section):
            if words[0] == "lakeward":
                assert cli.main(words[1:]) == 0
            elif words[1] == "s3":
                self.uploaded.carry_out(words)
            elif words[1:3] == ["cloudformation", "deploy"]:
                self.stacks.append(given(words))
                self.check_stack()

    @property
    def template(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path("build/deploy/template.json").read_text("utf-8"))
        return found

    @property
    def stack(self) -> Stack:
        """The stack with its parameters: those that are not said again keep their values."""
        return Stack(self.template, {name: value for made in self.stacks for name, value in made.items()})

    def check_stack(self) -> None:
        known = self.template["Parameters"]
        assert {name for name, one in known.items() if "Default" not in one} <= {*self.stack.values} <= {*known}
        code = self.stack.resolve(self.template["Resources"]["StartRunFunction"]["Properties"]["Code"])
        assert f"s3://{code['S3Bucket']}/{code['S3Key']}" in self.uploaded.objects
        assert not [url for url in self.uploaded.objects if url.endswith("/template.json")]

    def property_of(self, resource: str, name: str) -> Any:
        return self.stack.resolve(self.template["Resources"][resource]["Properties"][name])


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: object) -> Newcomer:
    monkeypatch.chdir(tmp_path)
    (exported,) = (words[1] for words in commands("Before you begin") if words[0] == "export")
    monkeypatch.setenv(*exported.split("=", 1))
    return Newcomer()


def test_the_commands_lead_to_a_pipeline_on_glue_and_on_from_there(newcomer: Newcomer) -> None:
    for words in commands("Settings"):
        assert cli.main(words[1:]) == 0
    newcomer.carry_out("On Glue")
    made, enabled = newcomer.stacks
    assert {"PackageBucket", "ReplicationTaskArn"} <= {*made}
    assert enabled == {"ScheduleState": "ENABLED"}
    arguments = newcomer.property_of("ChangesJob", "DefaultArguments")
    wheels = arguments["--additional-python-modules"].split(",")
    script = newcomer.property_of("ChangesJob", "Command")["ScriptLocation"]
    assert {*wheels, arguments["--settings"], script} <= {*newcomer.uploaded.objects}
    check_names(newcomer)
    newcomer.carry_out("Change it")
    newcomer.carry_out("Remove it")
    *_, changed, disabled = newcomer.stacks
    assert (changed, disabled) == ({"ChangesWorkers": "4"}, {"ScheduleState": "DISABLED"})
    newcomer.stacks.clear()
    newcomer.carry_out("Without a task of DMS")
    assert "ReplicationTask" in newcomer.template["Resources"]


def test_the_commands_lead_to_a_pipeline_on_emr_serverless(newcomer: Newcomer) -> None:
    newcomer.carry_out("On EMR Serverless")
    said = newcomer.property_of("StateMachine", "DefinitionSubstitutions")
    (environment,) = re.findall(r"spark.archives=(\S+)#", said["ChangesParameters"])
    assert {environment, said["EntryPoint"], said["Settings"]} <= {*newcomer.uploaded.objects}
    check_names(newcomer)


def check_names(newcomer: Newcomer) -> None:
    """Hold what the page calls things to what the template calls them."""
    resources = newcomer.template["Resources"]
    properties = {name: one["Properties"] for name, one in resources.items() if "Properties" in one}
    assert properties["StateMachine"]["StateMachineName"] == "shop"
    assert properties["StartRunFunction"]["FunctionName"] == "shop-start-run"
    if "ChangesJob" in properties:
        jobs = [properties[job]["Name"] for job in ("ChangesJob", "FullLoadJob")]
        assert jobs == ["shop-changes", "shop-full-load"]
    else:
        assert properties["JobLogs"]["LogGroupName"] == "/aws/emr-serverless/shop"
    stay = {one["Type"]: name for name, one in resources.items() if one.get("DeletionPolicy") == "Retain"}
    assert {*stay} == {"AWS::S3::Bucket", "AWS::DynamoDB::Table"}
    removed = [words for words in commands("Remove it") if words[2] in ("rb", "delete-table")]
    assert [words[-1] for words in removed if words[2] == "delete-table"] == ["lakeward-ledgers", "lakeward-leases"]


ABOUT_ALL = {"--query", "--output"}
"""Options that each command of `aws` takes."""

OF_THE_COMMAND_LINE = {"s3 cp", "s3 mb", "s3 rb", "s3 rm", "s3 sync", "cloudformation deploy", "logs tail"}
"""Commands that are no operations of a service: the reference of the AWS CLI."""


def commands_of_aws() -> list[list[str]]:
    """Return each command of the page that asks AWS, of its blocks and in its text."""
    shown = [words for section in sections(PAGE) for words in commands(section)]
    return [words for words in [*shown, *map(shlex.split, codes(prose(PAGE)))] if words[0] == "aws" and words[2:]]


def test_the_commands_of_aws_are_operations_with_these_parameters() -> None:
    session, found = botocore.session.get_session(), 0
    for words in commands_of_aws():
        service, operation, *rest = words[1:]
        if f"{service} {operation}" in OF_THE_COMMAND_LINE:
            continue
        found += 1
        service = {"s3api": "s3"}.get(service, service)
        if operation == "wait":
            model = session.get_waiter_model(service)
            assert rest[0].replace("-", "_") in {xform_name(name) for name in model.waiter_names}
            continue
        known = {xform_name(name, "-"): name for name in session.get_service_model(service).operation_names}
        shape = session.get_service_model(service).operation_model(known[operation]).input_shape
        options = {word for word in rest if word.startswith("--")} - ABOUT_ALL
        assert options <= {f"--{xform_name(name, '-')}" for name in shape.members}, words
    assert found > 15


def test_the_target_of_the_schedule_is_one_that_the_scheduler_takes() -> None:
    (said,) = (json.loads(block.content) for block in fences(PAGE, "json") if block.name == "maintain.json")
    model = botocore.session.get_session().get_service_model("scheduler").shape_for("Target")
    assert {*said} <= {*model.members}
    assert {*said["RetryPolicy"]} <= {*model.members["RetryPolicy"].members}
    assert json.loads(said["Input"]) == {"JobName": "shop-changes", "Arguments": {"--command": "maintain"}}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return templates that have between them all that there may be."""
    folder = tmp_path_factory.mktemp("every")
    made = [rendered(folder, platform, dms=side) for platform in PLATFORMS for side in SIDES]
    return [*made, rendered(folder, "glue", settings(source=ARCHIVED) + '[metrics]\nformat = "cloudwatch"\n')]


def test_the_parameters_are_those_of_the_templates(every: list[dict[str, Any]]) -> None:
    (listed,) = tables(sections(PAGE)["Parameters"])
    shown = {name for row in listed for name in codes(row["parameter"])}
    assert shown == {name for template in every for name in template["Parameters"]}


def test_the_defaults_are_those_of_the_templates(every: list[dict[str, Any]]) -> None:
    (listed,) = tables(sections(PAGE)["Parameters"])
    known = {name: str(one.get("Default", "")) for made in every for name, one in made["Parameters"].items()}
    for row in listed:
        names, defaults = codes(row["parameter"]), row["default"].replace("`", "").split(", ")
        if names[0] in ("PackageBucket", "TableFormatJars", "NoticeEmail", "SourceEngine"):
            continue  # said in words
        assert [known[name] for name in names] == (defaults if defaults[1:] else defaults * len(names))


def test_the_roles_and_alarms_are_those_of_the_templates(every: list[dict[str, Any]]) -> None:
    (listed,) = tables(sections(PAGE)["Roles"])
    shown = {codes(row["role"])[0] for row in listed}
    assert shown == {role for template in every for role in Stack(template, {}).roles()}
    (listed,) = tables(sections(PAGE)["Alarms"])
    shown = {name for row in listed for name in codes(row["alarm"])}
    made = {n for t in every for n, one in t["Resources"].items() if one["Type"] == "AWS::CloudWatch::Alarm"}
    assert shown == made


# What it costs.

PUT, GET, DPU, STEP = 0.005 / 1000, 0.0004 / 1000, 0.44, 0.025 / 1000
MONTH = 30 * 24 * 3600


def dollars(value: float) -> str:
    return f"${value:,.2f}"


def test_the_costs_of_files_are_those_of_the_formula() -> None:
    (listed,) = tables(sections(COST)["How fresh, how many files"])
    for row in listed:
        files = 20 * MONTH // int(row["`CdcMaxBatchInterval`"].removesuffix(" s"))
        shown = [row["files, 20 tables"], row["their PUT"], row["read twice"]]
        assert shown == [f"{files:,}", dollars(files * PUT), dollars(2 * files * GET)]


def test_the_costs_of_runs_are_those_of_the_formula() -> None:
    (listed,) = tables(sections(COST)["Runs"])
    times = {"20 times": 20, "4 times": 4, "once": 1}
    for row in listed:
        (often,) = [number for said, number in times.items() if row["a run begins"].startswith(said)]
        minutes, units = int(row["it takes"].removesuffix(" min")), int(row["DPU"])
        assert row["a month"] == dollars(often * 720 * minutes / 60 * units * DPU)
    assert "$0.0180" in text(COST)
    assert round(2 / 60 * 3 * (2 * 0.052624 + 13 * 0.0057785), 4) == 0.018
    assert dollars(10 * 2 * 2 * DPU) in text(COST)


def test_the_costs_of_alarms_are_those_of_a_template_with_all_of_them(every: list[dict[str, Any]]) -> None:
    kinds = [one["Type"] for one in every[-1]["Resources"].values()]
    count = kinds.count("AWS::CloudWatch::Alarm")
    assert f"| alarms: {count} | {dollars(count * 0.10)} |" in text(COST)


def test_the_steps_of_a_poll_are_those_of_the_state_machine(every: list[dict[str, Any]]) -> None:
    """An empty queue: the default of each choice, from the check of the history to the wait."""
    states = every[0]["Resources"]["StateMachine"]["Properties"]["Definition"]["States"]
    changes = {"Route": "GetQueueSize"}
    steps, name = 1, "CheckHistory"
    while name != "Wait":
        state = states[name]
        name = changes.get(name) or state.get("Next") or state["Default"]
        steps += 1
    looks = MONTH // 60
    assert f"the state machine: {steps} steps at each poll" in text(COST)
    assert f"{steps * looks:,} steps, {dollars(steps * looks * STEP)}" in text(COST)
