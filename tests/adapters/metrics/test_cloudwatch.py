"""Lines of the embedded metric format, checked by the schema that AWS documents."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema
import pytest

from lakeward.adapters.metrics.cloudwatch import embedded_lines
from lakeward.core.errors import ConfigError
from lakeward.core.reporting.figures import METRICS, PipelineFigures, TableFigures
from lakeward.entrypoints.settings.models.sections import MetricsSettings
from lakeward.plugins.options import validated

STRING = {"type": "string", "pattern": "^(.*)$", "minLength": 1}


def members(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "additionalProperties": False, "properties": properties}


METRIC = members(
    "Name",
    Name={**STRING, "maxLength": 1024},
    Unit={"enum": ["Count", "Seconds"]},
    StorageResolution={"type": "integer"},
)
DIMENSION = {"type": "array", "minItems": 0, "maxItems": 30, "items": {**STRING, "maxLength": 250}}
DIRECTIVE = members(
    *("Namespace", "Dimensions", "Metrics"),
    Namespace={**STRING, "maxLength": 1024},
    Dimensions={"type": "array", "minItems": 1, "items": DIMENSION},
    Metrics={"type": "array", "maxItems": 100, "items": METRIC},
)
METADATA = members(
    *("Timestamp", "CloudWatchMetrics"),
    Timestamp={"type": "integer"},
    CloudWatchMetrics={"type": "array", "minItems": 1, "items": DIRECTIVE},
)
SCHEMA = {"type": "object", "required": ["_aws"], "properties": {"_aws": METADATA}}
"""The schema of the user guide of CloudWatch ("Embedded metric format schema"), without additional members."""

AT = 1_796_083_200_123_456
ORDERS = TableFigures(
    table="shop.orders",
    batches=2,
    events_read=10,
    events_applied=8,
    events_quarantined=1,
    failures=1,
    seconds=1.23456,
    rows=100,
    held_keys=1,
    lag_seconds=12.5,
    alarms=1,
    failing=1,
)
LINES = TableFigures(table="shop.lines", batches=1, events_read=5, events_applied=5, rows=7, lag_seconds=99.0)


def checked(line: str) -> dict[str, Any]:
    """Return a line after checks that its metrics are numbers and its dimensions are texts."""
    assert "\n" not in line
    document: dict[str, Any] = json.loads(line)
    jsonschema.validate(document, SCHEMA)
    for directive in document["_aws"]["CloudWatchMetrics"]:
        assert all(isinstance(document[metric["Name"]], int | float) for metric in directive["Metrics"])
        names = [name for dimensions in directive["Dimensions"] for name in dimensions]
        assert all(0 < len(document[name]) <= 1024 and document[name].isascii() for name in names)
    return document


def figures(*tables: TableFigures, **more: Any) -> PipelineFigures:
    return PipelineFigures(pipeline="shop", run="0123456789ab", at=AT, tables=tables, **more)


def test_a_table_has_a_line_with_all_known_metrics() -> None:
    _, line = embedded_lines(figures(ORDERS), "lakeward", [ORDERS])
    document = checked(line)
    (directive,) = document.pop("_aws")["CloudWatchMetrics"]
    assert (directive["Namespace"], directive["Dimensions"]) == ("lakeward", [["Pipeline", "Table"]])
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert units == dict.fromkeys(units, "Count") | {"Seconds": "Seconds", "LagSeconds": "Seconds"}
    assert document == {
        "Pipeline": "shop",
        "Table": "shop.orders",
        "Run": "0123456789ab",
        "Batches": 2,
        "EventsRead": 10,
        "EventsApplied": 8,
        "EventsQuarantined": 1,
        "Failures": 1,
        "Seconds": 1.235,
        "Rows": 100,
        "HeldKeys": 1,
        "LagSeconds": 12.5,
        "Alarms": 1,
        "Failing": 1,
    }


def test_times_are_milliseconds() -> None:
    (line,) = embedded_lines(figures(), "lakeward")
    assert checked(line)["_aws"]["Timestamp"] == 1_796_083_200_123


def test_the_pipeline_has_the_sums_of_its_tables_and_the_greatest_lag() -> None:
    line, *rest = embedded_lines(figures(ORDERS, LINES, seconds=3.0, waiting=4), "acme/data")
    assert rest == []
    document = checked(line)
    (directive,) = document["_aws"]["CloudWatchMetrics"]
    assert (directive["Namespace"], directive["Dimensions"]) == ("acme/data", [["Pipeline"]])
    assert (document["EventsApplied"], document["Rows"], document["LagSeconds"]) == (13, 107, 99.0)
    assert (document["RunSeconds"], document["TablesWaiting"], document["Failures"]) == (3.0, 4, 1)
    assert "Table" not in document


def test_an_unknown_value_is_no_metric() -> None:
    line, of_table = embedded_lines(figures(), "lakeward", [TableFigures(table="a.b")])
    assert "RunSeconds" not in checked(line)
    assert {"Rows", "HeldKeys", "LagSeconds"} & checked(of_table).keys() == set()
    assert checked(of_table)["Batches"] == 0


def test_a_run_that_failed_as_a_whole_is_a_failure_of_the_pipeline() -> None:
    (line,) = embedded_lines(figures(has_failed=True), "lakeward")
    assert checked(line)["Failures"] == 1


@pytest.mark.parametrize("name", ["shop.été", "x" * 3000, 'a."b.c"', "a.\u2028b"])
def test_names_become_valid_dimension_values(name: str) -> None:
    table = TableFigures(table=name)
    _, line = embedded_lines(figures(table), "lakeward", [table])
    assert checked(line)["Table"].startswith(name[:1])


def test_a_line_has_at_most_the_allowed_number_of_metrics() -> None:
    assert len(METRICS) + 2 <= 100


@pytest.mark.parametrize("namespace", ["AWS/lakeward", "", "a b", "é", "x" * 256, ":a"])
def test_an_invalid_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        validated(MetricsSettings, tomllib.loads(f'namespace = "{namespace}"'), "lakeward.toml", within="metrics")
