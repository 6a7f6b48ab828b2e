"""Alarms of templates against the lines for CloudWatch that a run really writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from deployments import render_template, settings, words
from policies import Stack
from projects import MEMORY, write

from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.reporting.figures import METRICS
from lakeward.entrypoints import container as parts

ORDERS, LINES = TableName("shop", "orders"), TableName("shop", "order_lines")
NOW = 1_796_083_200_000_000
HOUR = 3_600_000_000
METRICS_OF_CLOUDWATCH = '\n[metrics]\nformat = "cloudwatch"\nnamespace = "acme/data"\n'
TABLES = """
[defaults.quarantine]
max_share = 1.0
[tables."shop.orders"]
key = ["id"]
columns = { id = "int" }
[tables."shop.order_lines"]
key = ["id"]
columns = { id = "int" }
"""


class Source(MemorySource):
    """The table of the lines fails."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        if dimension.name == LINES:
            raise SourceError("00000001 cannot be read")
        return super().select_objects(dimension, object_history)


def changes(ago: int) -> list[Any]:
    """Return a change so many microseconds old, and a row whose key is held."""
    change = ChangeEvent(
        operation=Operation.UPDATE, position=Position(1, 1, 1, 1), key=(1,), cells={"id": 1}, time=NOW - ago
    )
    return [change, Reject(Position(1, 1, 1, 2), Reason.CAST, ((9,),))]


@pytest.fixture
def lines(lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[Mapping[str, Any]]:
    """Return the lines of a run with a table that is far behind and holds a key, and one that fails."""
    source, lake = Source(Limits(files=1)), MemoryTarget()
    source.put(ORDERS, 1, changes(2 * HOUR))
    monkeypatch.setattr("lakeward.adapters.memory.MemorySource", lambda **_: source)
    monkeypatch.setattr("lakeward.adapters.memory.MemoryTarget", lambda: lake)
    monkeypatch.setattr(parts, "clock", lambda: NOW)
    write(tmp_path, MEMORY.replace('"shop"', '"deployed"'), METRICS_OF_CLOUDWATCH, TABLES)
    ended = lakeward("run", "--log", "off")
    assert ended.code == 4
    return [json.loads(line) for line in ended.err.splitlines() if line.startswith('{"_aws"')]


def alarms_of_runs(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the alarms of a template on what is no metric of AWS, with the defaults of its parameters."""
    template = render_template(folder / "deployed", "glue", settings() + METRICS_OF_CLOUDWATCH)
    stack = Stack(template, {})
    found = {name: template["Resources"][name]["Properties"] for name in names(template)}
    return {name: stack.resolve(one) for name, one in found.items() if not one["Namespace"].startswith("AWS/")}


def test_an_alarm_begins_where_no_run_writes_metrics(tmp_path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    alarm = alarms_of_runs(tmp_path)["NoRunsAlarm"]
    assert len(values(alarm, lines)) == 1
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == (
        *("SampleCount", "LessThanThreshold"),
        1,
    )
    assert (alarm["TreatMissingData"], alarm["Period"] * alarm["EvaluationPeriods"]) == ("breaching", 6 * 3600)
    assert "NoRunsAlarm" not in render_template(tmp_path / "unmeasured", "glue", settings())["Resources"]


def alarms_by_value(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    return {name: one for name, one in alarms_of_runs(folder).items() if name != "NoRunsAlarm"}


def names(template: Mapping[str, Any]) -> Sequence[str]:
    return words(dict(template), "AWS::CloudWatch::Alarm")


def values(alarm: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Sequence[float]:
    """Return what CloudWatch makes of lines for the metric that an alarm looks at.

    A metric is that of its namespace, its name, and exactly its dimensions.
    """
    wanted = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
    found = []
    for line in lines:
        for said in line["_aws"]["CloudWatchMetrics"]:
            is_declared = alarm["MetricName"] in [one["Name"] for one in said["Metrics"]]
            dimensions = [{name: line[name] for name in some} for some in said["Dimensions"]]
            if said["Namespace"] == alarm["Namespace"] and is_declared and wanted in dimensions:
                found.append(line[alarm["MetricName"]])
    return found


def test_each_alarm_looks_at_a_metric_that_runs_write_and_begins_with_it(
    tmp_path: Path, lines: Sequence[Mapping[str, Any]]
) -> None:
    alarms = alarms_by_value(tmp_path)
    assert {*alarms} == {"LagAlarm", "HeldKeysAlarm", "FailedTablesAlarm"}
    for name, alarm in alarms.items():
        (value,) = values(alarm, lines)
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert value >= alarm["Threshold"], name


def test_each_alarm_takes_the_statistic_that_its_metric_has(tmp_path: Path) -> None:
    kinds = {metric.name.title().replace("_", ""): metric.kind for metric in METRICS}
    for name, alarm in alarms_by_value(tmp_path).items():
        assert alarm["TreatMissingData"] == ("notBreaching" if name == "FailedTablesAlarm" else "ignore")
        assert ("OKActions" in alarm) == (name != "FailedTablesAlarm")
        assert alarm["Statistic"] == {"counter": "Sum", "gauge": "Maximum"}[kinds[alarm["MetricName"]]]


@pytest.mark.parametrize("change", [{"Namespace": "lakeward"}, {"MetricName": "Lag"}, {"Dimensions": []}])
def test_an_alarm_on_another_metric_would_see_nothing(
    tmp_path: Path, lines: Sequence[Mapping[str, Any]], change: Mapping[str, Any]
) -> None:
    assert not values({**alarms_of_runs(tmp_path)["LagAlarm"], **change}, lines)
