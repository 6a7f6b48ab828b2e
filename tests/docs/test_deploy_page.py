"""`docs/aws/deploy.md`, `docs/aws/cost.md`: commands work up to where they reach AWS, and sums are right."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deployments import SOURCE, rendered, settings
from pages import codes, fences, sections, tables, text
from policies import Stack

from lakeward.entrypoints import cli
from lakeward.entrypoints.deployment.template import Dms

PAGE, COST = "docs/aws/deploy.md", "docs/aws/cost.md"
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
        operation, source, target, *rest = words[2:]
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


@pytest.mark.usefixtures("index")
def test_the_commands_make_a_stack_whose_code_is_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (said,) = (block.content for block in fences(PAGE, "toml") if block.name == "lakeward.toml")
    Path("lakeward.toml").write_text(said, "utf-8")
    uploaded, stacks = Uploaded(), []
    for words in commands("On Glue"):
        if words[0] == "lakeward":
            assert cli.main(words[1:]) == 0
        elif words[1] == "s3":
            uploaded.carry_out(words)
        elif words[1] == "cloudformation":
            stacks.append(words)
    template = json.loads(Path("build/deploy/template.json").read_text("utf-8"))
    made, enabled = map(given, stacks)
    needed = {name for name, one in template["Parameters"].items() if "Default" not in one}
    assert needed <= {*made} <= {*template["Parameters"]}
    assert enabled == {"ScheduleState": "ENABLED"}
    resolved = Stack(template, made).resolve(template["Resources"]["ChangesJob"]["Properties"]["DefaultArguments"])
    wheels = resolved["--additional-python-modules"].split(",")
    assert {*wheels, resolved["--settings"], "s3://shop-jobs/lakeward/lakeward_job.py"} <= {*uploaded.objects}
    code = template["Resources"]["StartRunFunction"]["Properties"]["Code"]
    assert f"s3://shop-jobs/{Stack(template, made).resolve(code['S3Key'])}" in uploaded.objects
    assert "s3://shop-jobs/lakeward/template.json" not in uploaded.objects


@pytest.mark.usefixtures("index")
def test_the_commands_of_emr_serverless_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lakeward.toml").write_text(settings(), "utf-8")
    for words in commands("On EMR Serverless"):
        assert cli.main(words[1:]) == 0
    template = json.loads(Path("build/deploy/template.json").read_text("utf-8"))
    assert template["Resources"]["Application"]["Type"] == "AWS::EMRServerless::Application"


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return templates that have between them all that there may be."""
    folder = tmp_path_factory.mktemp("every")
    made = [rendered(folder, platform, dms=side) for platform in PLATFORMS for side in SIDES]
    return [*made, rendered(folder, "glue", settings(source=ARCHIVED))]


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
    (listed,) = tables(sections(PAGE)["Who may do what"])
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


def test_the_steps_of_a_look_are_those_of_the_state_machine(every: list[dict[str, Any]]) -> None:
    """An empty queue: the default of each choice, from the check of the history to the wait."""
    states = every[0]["Resources"]["StateMachine"]["Properties"]["Definition"]["States"]
    changes = {"Route": "GetQueueSize"}
    steps, name = 1, "CheckHistory"
    while name != "Wait":
        state = states[name]
        name = changes.get(name) or state.get("Next") or state["Default"]
        steps += 1
    looks = MONTH // 60
    assert f"the state machine: {steps} steps at each look" in text(COST)
    assert f"{steps * looks:,} steps, {dollars(steps * looks * STEP)}" in text(COST)
