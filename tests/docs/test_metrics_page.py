"""`docs/reference/metrics.md`: it lists every figure by both names, and shows what is written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from pages import codes, fences, sections, tables, text

from lakeward.adapters.metrics.cloudwatch import embedded_lines
from lakeward.adapters.metrics.prometheus import prometheus_text
from lakeward.core.reporting.figures import METRICS, PipelineFigures, TableFigures
from lakeward.entrypoints.settings.configuration import validate

PAGE = "docs/reference/metrics.md"
ORDERS = TableFigures(table="shop.orders", events_applied=1200, rows=1, held_keys=1, lag_seconds=12.5)
FIGURES = PipelineFigures(
    pipeline="shop", run="5be1f0c7a3d2", at=1_796_083_200_123_000, tables=[ORDERS], seconds=1.0, waiting=0
)


def test_every_figure_of_a_table_is_there_by_both_names() -> None:
    (listed,) = tables(sections(PAGE)["What is measured"])
    page_values = [(codes(row["CloudWatch"])[0], codes(row["Prometheus"])[0]) for row in listed]
    _, line = embedded_lines(FIGURES, "lakeward", [ORDERS])
    (directive,) = json.loads(line)["_aws"]["CloudWatchMetrics"]
    embedded = [metric["Name"] for metric in directive["Metrics"]]
    exposed = re.findall(r"# TYPE (\S+)", prometheus_text(FIGURES))
    assert page_values == [*zip(embedded, exposed[2:], strict=True)]
    assert len(page_values) == len(METRICS)
    assert [name for name in (*exposed[:2], "RunSeconds", "TablesWaiting") if f"`{name}`" not in text(PAGE)] == []


def test_the_line_for_cloudwatch_and_the_text_for_prometheus_are_parts_of_what_is_written() -> None:
    (page_values,) = (json.loads(fence.content) for fence in fences(PAGE, "json"))
    _, line = embedded_lines(FIGURES, "lakeward", [ORDERS])
    written = json.loads(line)
    (directive,), (whole,) = page_values["_aws"].pop("CloudWatchMetrics"), written["_aws"].pop("CloudWatchMetrics")
    assert all(metric in whole["Metrics"] for metric in directive.pop("Metrics"))
    assert directive.items() <= whole.items()
    assert page_values.items() <= written.items()
    (page_text,) = fences(PAGE, "text")
    assert page_text.content in prometheus_text(FIGURES)


def test_the_settings_of_the_page_are_right() -> None:
    (settings,) = [fence for fence in fences(PAGE, "toml") if fence.name == "lakeward.toml"]
    metrics = validate(tomllib.loads(settings.content), Path("lakeward.toml")).settings.metrics
    assert (metrics.format, metrics.namespace, metrics.per_table) == ("cloudwatch", "lakeward", True)
