"""Metrics in the embedded metric format of CloudWatch: JSON lines from which CloudWatch Logs extracts metrics.

The format is "Specification: Embedded metric format" in the user guide of CloudWatch. Each dimension of a line has
one value, so a line is for one table or for the whole pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from lakeward.core.reporting.figures import METRICS, Number, PipelineFigures, TableFigures

_MAX_VALUE: Final = 1024
"""The largest number of characters of a dimension value, which is ASCII (reference of `Dimension`)."""


def embedded_lines(figures: PipelineFigures, namespace: str, tables: Iterable[TableFigures] = ()) -> Iterator[str]:
    """Yield a line for the pipeline with the totals of all tables, and one line for each of `tables`.

    `namespace` is that of the metrics in CloudWatch.
    """
    yield _line(figures, namespace, {"Pipeline": figures.pipeline}, _pipeline_values(figures))
    for table in tables:
        dimensions = {"Pipeline": figures.pipeline, "Table": table.table}
        yield _line(figures, namespace, dimensions, _table_values(table))


def _table_values(table: TableFigures) -> Mapping[str, tuple[Number | None, str]]:
    """Return the value and the unit of each metric; a value is None if it is unknown."""
    return {_name(metric.name): (metric.of(table), metric.unit) for metric in METRICS}


def _pipeline_values(figures: PipelineFigures) -> Mapping[str, tuple[Number | None, str]]:
    """Return the totals of all tables; a run that failed as a whole counts as one more failure."""
    values = {_name(metric.name): (metric.of_tables(figures.tables), metric.unit) for metric in METRICS}
    failures, unit = values["Failures"]
    values["Failures"] = ((failures or 0) + figures.has_failed, unit)
    return {**values, "RunSeconds": (figures.seconds, "Seconds"), "TablesWaiting": (figures.waiting, "Count")}


def _line(
    figures: PipelineFigures,
    namespace: str,
    dimensions: Mapping[str, str],
    values: Mapping[str, tuple[Number | None, str]],
) -> str:
    metrics = {name: (value, unit) for name, (value, unit) in values.items() if value is not None}
    directive = {
        "Namespace": namespace,
        "Dimensions": [[*dimensions]],
        "Metrics": [{"Name": name, "Unit": unit} for name, (_, unit) in metrics.items()],
    }
    content: dict[str, Any] = {
        "_aws": {"Timestamp": figures.at // 1000, "CloudWatchMetrics": [directive]},
        **{name: _as_dimension(value) for name, value in dimensions.items()},
        "Run": figures.run,
        **{name: round(value, 3) for name, (value, _) in metrics.items()},
    }
    return json.dumps(content)


def _name(name: str) -> str:
    """Return a name in the style of CloudWatch.

    >>> _name("events_applied")
    'EventsApplied'
    """
    return name.title().replace("_", "")


def _as_dimension(value: str) -> str:
    r"""Return a name as a valid dimension value.

    >>> print(_as_dimension("shop.été"))
    shop.\xe9t\xe9
    """
    return value.encode("ascii", "backslashreplace").decode("ascii")[:_MAX_VALUE]
