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
from deployments import SOURCE, render_template, settings
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


class UploadedObjects:
    """The objects that `aws s3` would have uploaded, by URL."""

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


def stack_parameters(words: list[str]) -> Mapping[str, str]:
    """Return the parameters of a command that creates a stack."""
    return dict(word.split("=", 1) for word in words[words.index("--parameter-overrides") + 1 :])


class PageReader:
    """A reader who runs the commands of the page, section by section, up to where they reach AWS."""

    def __init__(self) -> None:
        self.uploaded = UploadedObjects()
        self.stacks: list[Mapping[str, str]] = []
        (content,) = (block.content for block in fences(PAGE, "toml") if block.name == "lakeward.toml")
        Path("lakeward.toml").write_text(content, "utf-8")

    def carry_out(self, section: str) -> None:
        """Run the commands of a section. Uploads come before the stack that needs them."""
        for words in commands(section):
            if words[0] == "lakeward":
                assert cli.main(words[1:]) == 0
            elif words[1] == "s3":
                self.uploaded.carry_out(words)
            elif words[1:3] == ["cloudformation", "deploy"]:
                self.stacks.append(stack_parameters(words))
                self.check_stack()

    @property
    def template(self) -> dict[str, Any]:
        template: dict[str, Any] = json.loads(Path("build/deploy/template.json").read_text("utf-8"))
        return template

    @property
    def stack(self) -> Stack:
        """The stack with its parameters. Parameters that are not repeated keep their values."""
        return Stack(self.template, {name: value for stack in self.stacks for name, value in stack.items()})

    def check_stack(self) -> None:
        parameters = self.template["Parameters"]
        required = {name for name, item in parameters.items() if "Default" not in item}
        assert required <= {*self.stack.values} <= {*parameters}
        code = self.stack.resolve(self.template["Resources"]["StartRunFunction"]["Properties"]["Code"])
        assert f"s3://{code['S3Bucket']}/{code['S3Key']}" in self.uploaded.objects
        assert not [url for url in self.uploaded.objects if url.endswith("/template.json")]

    def property_of(self, resource: str, name: str) -> Any:
        return self.stack.resolve(self.template["Resources"][resource]["Properties"][name])


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: object) -> PageReader:
    monkeypatch.chdir(tmp_path)
    (exported,) = (words[1] for words in commands("Before you begin") if words[0] == "export")
    monkeypatch.setenv(*exported.split("=", 1))
    return PageReader()


def test_the_commands_lead_to_a_pipeline_on_glue_and_on_from_there(reader: PageReader) -> None:
    for words in commands("Settings"):
        assert cli.main(words[1:]) == 0
    reader.carry_out("On Glue")
    parameters, enabled = reader.stacks
    assert {"PackageBucket", "ReplicationTaskArn"} <= {*parameters}
    assert enabled == {"ScheduleState": "ENABLED"}
    arguments = reader.property_of("ChangesJob", "DefaultArguments")
    wheels = arguments["--additional-python-modules"].split(",")
    script = reader.property_of("ChangesJob", "Command")["ScriptLocation"]
    assert {*wheels, arguments["--settings"], script} <= {*reader.uploaded.objects}
    check_names(reader)
    reader.carry_out("Change it")
    reader.carry_out("Remove it")
    *_, changed, disabled = reader.stacks
    assert (changed, disabled) == ({"ChangesWorkers": "4"}, {"ScheduleState": "DISABLED"})
    reader.stacks.clear()
    reader.carry_out("Without a task of DMS")
    assert "ReplicationTask" in reader.template["Resources"]


def test_the_commands_lead_to_a_pipeline_on_emr_serverless(reader: PageReader) -> None:
    reader.carry_out("On EMR Serverless")
    substitutions = reader.property_of("StateMachine", "DefinitionSubstitutions")
    (environment,) = re.findall(r"spark.archives=(\S+)#", substitutions["ChangesParameters"])
    assert {environment, substitutions["EntryPoint"], substitutions["Settings"]} <= {*reader.uploaded.objects}
    check_names(reader)


def check_names(reader: PageReader) -> None:
    """Compare the names on the page with those of the template."""
    resources = reader.template["Resources"]
    properties = {name: item["Properties"] for name, item in resources.items() if "Properties" in item}
    assert properties["StateMachine"]["StateMachineName"] == "shop"
    assert properties["StartRunFunction"]["FunctionName"] == "shop-start-run"
    if "ChangesJob" in properties:
        jobs = [properties[job]["Name"] for job in ("ChangesJob", "FullLoadJob")]
        assert jobs == ["shop-changes", "shop-full-load"]
    else:
        assert properties["JobLogs"]["LogGroupName"] == "/aws/emr-serverless/shop"
    stay = {item["Type"]: name for name, item in resources.items() if item.get("DeletionPolicy") == "Retain"}
    assert {*stay} == {"AWS::S3::Bucket", "AWS::DynamoDB::Table"}
    removed = [words for words in commands("Remove it") if words[2] in ("rb", "delete-table")]
    assert [words[-1] for words in removed if words[2] == "delete-table"] == ["lakeward-ledgers", "lakeward-leases"]


ABOUT_ALL = {"--query", "--output"}
"""Options that each command of `aws` takes."""

OF_THE_COMMAND_LINE = {"s3 cp", "s3 mb", "s3 rb", "s3 rm", "s3 sync", "cloudformation deploy", "logs tail"}
"""Commands that are no operations of a service: the reference of the AWS CLI."""


def commands_of_aws() -> list[list[str]]:
    """Return each `aws` command of the page, in its blocks and in its text."""
    in_blocks = [words for section in sections(PAGE) for words in commands(section)]
    in_text = map(shlex.split, codes(prose(PAGE)))
    return [words for words in [*in_blocks, *in_text] if words[0] == "aws" and words[2:]]


def test_the_commands_of_aws_are_operations_with_these_parameters() -> None:
    session, count = botocore.session.get_session(), 0
    for words in commands_of_aws():
        service, operation, *rest = words[1:]
        if f"{service} {operation}" in OF_THE_COMMAND_LINE:
            continue
        count += 1
        service = {"s3api": "s3"}.get(service, service)
        if operation == "wait":
            model = session.get_waiter_model(service)
            assert rest[0].replace("-", "_") in {xform_name(name) for name in model.waiter_names}
            continue
        operations = {xform_name(name, "-"): name for name in session.get_service_model(service).operation_names}
        shape = session.get_service_model(service).operation_model(operations[operation]).input_shape
        options = {word for word in rest if word.startswith("--")} - ABOUT_ALL
        assert options <= {f"--{xform_name(name, '-')}" for name in shape.members}, words
    assert count > 15


def test_the_target_of_the_schedule_is_one_that_the_scheduler_takes() -> None:
    (target,) = (json.loads(block.content) for block in fences(PAGE, "json") if block.name == "maintain.json")
    model = botocore.session.get_session().get_service_model("scheduler").shape_for("Target")
    assert {*target} <= {*model.members}
    assert {*target["RetryPolicy"]} <= {*model.members["RetryPolicy"].members}
    assert json.loads(target["Input"]) == {"JobName": "shop-changes", "Arguments": {"--command": "maintain"}}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return templates that together have every part."""
    folder = tmp_path_factory.mktemp("every")
    of_sides = [render_template(folder, platform, dms=side) for platform in PLATFORMS for side in SIDES]
    return [
        *of_sides,
        render_template(folder, "glue", settings(source=ARCHIVED) + '[metrics]\nformat = "cloudwatch"\n'),
    ]


def test_the_parameters_and_their_defaults_are_those_of_the_templates(templates: list[dict[str, Any]]) -> None:
    (listed,) = tables(sections(PAGE)["Parameters"])
    parameters = [item for template in templates for item in template["Parameters"].items()]
    template_defaults = {name: str(parameter.get("Default", "")) for name, parameter in parameters}
    assert {name for row in listed for name in codes(row["parameter"])} == {*template_defaults}
    for row in listed:
        names, defaults = codes(row["parameter"]), row["default"].replace("`", "").split(", ")
        if names[0] in ("PackageBucket", "TableFormatJars", "NoticeEmail", "SourceEngine"):
            continue  # written in words
        assert [template_defaults[name] for name in names] == (defaults if defaults[1:] else defaults * len(names))


def test_the_roles_and_alarms_are_those_of_the_templates(templates: list[dict[str, Any]]) -> None:
    (listed,) = tables(sections(PAGE)["Roles"])
    page_names = {codes(row["role"])[0] for row in listed}
    assert page_names == {role for template in templates for role in Stack(template, {}).roles()}
    (listed,) = tables(sections(PAGE)["Alarms"])
    page_names = {name for row in listed for name in codes(row["alarm"])}
    resources = [item for template in templates for item in template["Resources"].items()]
    alarms = {name for name, resource in resources if resource["Type"] == "AWS::CloudWatch::Alarm"}
    assert page_names == alarms


# What it costs.

PUT, GET, DPU, STEP = 0.005 / 1000, 0.0004 / 1000, 0.44, 0.025 / 1000
MONTH = 30 * 24 * 3600


def dollars(value: float) -> str:
    return f"${value:,.2f}"


def test_the_costs_of_files_are_those_of_the_formula() -> None:
    (listed,) = tables(sections(COST)["How fresh, how many files"])
    for row in listed:
        files = 20 * MONTH // int(row["`CdcMaxBatchInterval`"].removesuffix(" s"))
        page_costs = [row["files, 20 tables"], row["their PUT"], row["read twice"]]
        assert page_costs == [f"{files:,}", dollars(files * PUT), dollars(2 * files * GET)]


def test_the_costs_of_runs_are_those_of_the_formula() -> None:
    (listed,) = tables(sections(COST)["Runs"])
    times = {"20 times": 20, "4 times": 4, "once": 1}
    for row in listed:
        (starts_an_hour,) = [number for phrase, number in times.items() if row["a run begins"].startswith(phrase)]
        minutes, units = int(row["it takes"].removesuffix(" min")), int(row["DPU"])
        assert row["a month"] == dollars(starts_an_hour * 720 * minutes / 60 * units * DPU)
    assert "$0.0180" in text(COST)
    assert round(2 / 60 * 3 * (2 * 0.052624 + 13 * 0.0057785), 4) == 0.018
    assert dollars(10 * 2 * 2 * DPU) in text(COST)


def test_the_costs_of_alarms_are_those_of_a_template_with_all_of_them(templates: list[dict[str, Any]]) -> None:
    kinds = [item["Type"] for item in templates[-1]["Resources"].values()]
    count = kinds.count("AWS::CloudWatch::Alarm")
    assert f"| alarms: {count} | {dollars(count * 0.10)} |" in text(COST)


def test_the_steps_of_a_poll_are_those_of_the_state_machine(templates: list[dict[str, Any]]) -> None:
    """An empty queue: the default of each choice, from the check of the history to the wait."""
    states = templates[0]["Resources"]["StateMachine"]["Properties"]["Definition"]["States"]
    changes = {"Route": "GetQueueSize"}
    steps, name = 1, "CheckHistory"
    while name != "Wait":
        state = states[name]
        name = changes.get(name) or state.get("Next") or state["Default"]
        steps += 1
    polls = MONTH // 60
    assert f"the state machine: {steps} steps at each poll" in text(COST)
    assert f"{steps * polls:,} steps, {dollars(steps * polls * STEP)}" in text(COST)
