"""The page on the state machine says what the state machine and its functions are."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from pages import fences, text

from lakeward.entrypoints.deployment.lambda_package import HANDLERS, RUNTIME
from lakeward.entrypoints.deployment.state_machine import StateMachineNames
from lakeward.entrypoints.lambdas import environment

PAGE = "docs/how-to/aws/orchestration.md"


def test_the_example_makes_a_definition_whose_states_and_failures_the_page_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(fences(PAGE, "python")[0].content, {})  # noqa: S102  # it is ours
    states = json.loads(Path("state-machine.json").read_text("utf-8"))["States"]
    (picture,) = fences(PAGE, "text")
    assert set(re.findall(r"[A-Z]\w+[a-z][A-Z]\w+", picture.content)) - {"EventBridge"} <= set(states)
    parameters = [state.get("Parameters", {}) for state in states.values()]
    failures = {values["failure"]["what"] for values in parameters if "failure" in values}
    assert {what for what in failures if f"`{what}`" not in text(PAGE)} == set()
    assert Path("functions.zip").exists()


def test_the_functions_are_listed_with_their_handlers_and_variables() -> None:
    page = text(PAGE)
    for name, handler in HANDLERS.items():
        assert f"| {name} | `{handler}` |" in page
    assert f"`{RUNTIME}`" in page
    variables = {value for value in vars(environment).values() if str(value).startswith("LAKEWARD_")}
    assert {name for name in variables if f"`{name}`" not in page} == set()


def test_the_defaults_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \| .*\|$", text(PAGE), re.MULTILINE)
    page_defaults = {tuple(re.findall(r"`(\w+)`", names)): value for names, value in rows if value}
    defaults = {field.name: field.default for field in fields(StateMachineNames)}
    compared = {name: defaults[name] for names in page_defaults for name in names if name in defaults}
    for names, value in page_defaults.items():
        if set(names) <= set(compared):
            values = [compared[name] if name == "notice_at" else [compared[name]] for name in names]
            parts = [part for several in values for part in several]
            assert value == ", ".join(f"{part:,}" for part in parts)
    assert len(compared) == 10
