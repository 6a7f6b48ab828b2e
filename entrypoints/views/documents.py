"""JSON documents of the commands: one per command, with a version and stable field names."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lakeward.core.errors import AlarmRaised, LakewardError
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.core.joined.plan import JoinPlan, SourceCommit
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.schema_changes.evolution import SchemaChange
from lakeward.entrypoints.views import timestamps
from lakeward.plugins.manager import raised_in

if TYPE_CHECKING:
    from lakeward.entrypoints.runtime.join_run import JoinRun
    from lakeward.entrypoints.runtime.table_run import TableRun
    from lakeward.entrypoints.startup.findings import Findings

SCHEMA_VERSION: Final = 1
"""The version of a document whose fields never changed."""

_VERSIONS: Final[Mapping[str, int]] = {
    "plan": 2,
    "plugins": 2,
    "plugins trace": 2,
    "quarantine discard": 2,
    "quarantine export": 2,
    "quarantine fix": 2,
    "quarantine list": 2,
    "quarantine replay": 2,
    "quarantine show": 2,
    "quarantine unrouted": 2,
    "run": 2,
    "settings check": 2,
    "status": 2,
}
"""Versions of documents whose fields or values were renamed, by command."""


def document(command: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a command: its version, its name, and its content."""
    return {"schema_version": _VERSIONS.get(command, SCHEMA_VERSION), "command": command, **content}


def json_values(command: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a command as plain JSON values: no tuples, only text keys."""
    values: dict[str, Any] = json.loads(json.dumps(document(command, content)))
    return values


def emit(command: str, content: Mapping[str, Any]) -> None:
    """Write the document of a command to standard output."""
    sys.stdout.write(json.dumps(document(command, content), indent=2, ensure_ascii=False) + "\n")


def error(exception: BaseException) -> Mapping[str, Any]:
    """Return the parts of an error by name."""
    if not isinstance(exception, LakewardError):
        kind, what = type(exception).__name__, str(exception)
        return {"kind": kind, "what": what, "found": None, "todo": defect_report(exception), "retryable": False}
    return {
        "kind": type(exception).__name__,
        "what": exception.what,
        "found": exception.found,
        "todo": exception.todo,
        "retryable": exception.retryable,
        **({"code": exception.code} if isinstance(exception, AlarmRaised) else {}),
    }


def defect_report(error: BaseException) -> str:
    """Return what to do about an unexpected error: it names lakeward or the plugin that raised it."""
    plugin = raised_in(error)
    owner = "lakeward: please report it" if plugin is None else f"the plugin {plugin}: fix it, or report it there"
    return f"This is a defect of {owner}. On the command line, --debug shows the stack trace."


def failure_code(errors: Iterable[Mapping[str, Any]]) -> int:
    """Return the exit code for failed tables: 75 if all errors are retryable, else 4."""
    return 75 if all(error["retryable"] for error in errors) else 4


def time(micros: int | None) -> str | None:
    """Return a time of microseconds since 1970 as ISO 8601 text in UTC."""
    if micros is None:
        return None
    moment = timestamps.moment(micros)
    return timestamps.far(micros) if moment is None else moment.isoformat().replace("+00:00", "Z")


def cell(value: object) -> Any:
    r"""Return a value of a row for JSON, as text if JSON has no exact form of it.

    >>> cell(float("inf")), cell(b"\xca"), cell([1, None]), cell(Decimal("1E-10"))
    ('inf', '0xca', [1, None], '0.0000000001')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"0x{value.hex()}"
        case datetime(tzinfo=zone) if zone is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case list() | tuple():
            return [cell(part) for part in value]
        case dict():
            return {str(name): cell(part) for name, part in value.items()}
        case _:
            return str(value)


def alarm(raised: Alarm) -> Mapping[str, Any]:
    """Return the parts of an alarm by name."""
    return {"code": raised.code, "what": raised.what, "found": raised.found, "todo": raised.todo}


def failure(stored: Failure | None) -> Mapping[str, Any] | None:
    """Return the error that ended the last run of a table, with its time."""
    return None if stored is None else {**asdict(stored), "at": time(stored.at)}


def awaited(load: AwaitedLoad | None) -> Mapping[str, Any] | None:
    """Return the full load that a table waits for."""
    if load is None or not load.is_pending:
        return None
    return {
        "epoch": load.epoch,
        "since": time(load.since),
        "files": load.objects,
        "bytes": load.bytes,
        "behind": load.behind,
        "lacking": list(load.lacking),
        "until": load.until,
    }


def progress(state: Progress) -> Mapping[str, Any]:
    """Return the progress of a table."""
    return {
        "batch": state.batch,
        "epoch": state.epoch,
        "object": state.object,
        "source_time": time(state.time),
        "position": state.high_watermark,
        "mark": low_watermark(state),
        "rows": state.rows,
        "held": state.held,
        "inexact_since": state.inexact_since,
        "ahead": None if state.ahead is None else {"time": time(state.ahead.time), "file": state.ahead.object},
        "backwards": None
        if state.backwards is None
        else {"file": state.backwards.object, "row": state.backwards.row},
        "twin": None if state.twin is None else {"file": state.twin.object, "of": state.twin.of},
        "counts": asdict(state.counts),
        "totals": asdict(state.totals),
        "other_tables": other_tables(state.others),
    }


def other_tables(tables: OtherTables | None) -> Mapping[str, Any] | None:
    """Return the number of messages of other tables, and their most frequent table names."""
    return None if tables is None else {"messages": tables.messages, "names": dict(tables.names)}


def low_watermark(progress: Progress) -> str | None:
    """Return the low watermark of a table: a time, or a number as text, since JSON numbers would round it."""
    if progress.low_watermark is None or progress.low_watermark.sequence == LOAD_SEQUENCE:
        return None
    return (
        str(progress.low_watermark.sequence)
        if progress.sequences.are_wide
        else time(progress.low_watermark.sequence)
    )


def schema_change(change: SchemaChange) -> Mapping[str, Any]:
    """Return the change of a column."""
    before, after = (None if type_ is None else str(type_) for type_ in (change.before, change.after))
    if change.to is not None:
        before, after = change.path, change.to
    return {"kind": change.kind.value, "column": change.path, "before": before, "after": after}


def findings(inspected: Findings) -> Mapping[str, Any]:
    """Return the unconfigured tables of the source, the warnings, and the number of unrouted rows."""
    unconfigured = [str(table) for table in inspected.unconfigured]
    return {
        "unconfigured": unconfigured,
        "warnings": list(inspected.warnings),
        "unrouted_rows": inspected.unrouted_rows,
    }


def table_run(run: TableRun) -> Mapping[str, Any]:
    """Return the result of a run for one table."""
    return {
        "table": str(run.table),
        "seconds": round(run.seconds, 3),
        "counts": asdict(run.counts),
        "batch_count": run.batches,
        "batches": [
            {
                "batch": report.progress.batch,
                "commit": report.commit,
                "files": [item.object.name for item in report.plan.facts.objects],
                "written": report.written,
                "removed": report.removed,
                "counts": asdict(report.counts),
                "quality_warnings": dict(report.plan.facts.warnings),
                "other_tables": other_tables(report.plan.facts.others),
            }
            for report in run.reports
        ],
        "progress": None if run.progress is None else progress(run.progress),
        "alarms": [alarm(item) for item in run.alarms],
        "awaited": awaited(run.awaited),
        "warnings": list(run.all_cautions),
        "error": None if run.error is None else error(run.error),
    }


def join_run(run: JoinRun) -> Mapping[str, Any]:
    """Return the result of a run for one joined table."""
    report = run.report
    last = None
    if report is not None:
        last = {
            "batch": report.progress.batch,
            "commit": report.commit,
            "written": report.written,
            "removed": report.removed,
            **join_plan(report.plan, report.passed),
        }
    return {
        "table": str(run.table),
        "seconds": round(run.seconds, 3),
        "batch_count": run.batches,
        "last": last,
        "waits_for": list(map(str, run.waits)),
        "alarms": [alarm(item) for item in run.alarms],
        "warnings": [] if report is None else list(report.cautions),
        "error": None if run.error is None else error(run.error),
    }


def join_plan(plan: JoinPlan, commits: Mapping[str, SourceCommit] | None = None) -> Mapping[str, Any]:
    """Return the plan of a batch of a joined table: the source batches it covers, or why it rebuilds all rows.

    `passed` are the batches that it covered in the end, which may be fewer than planned.
    """
    commits = plan.progress.passed if commits is None else commits
    batches = {name: commit.batch for name, commit in commits.items()}
    return {"since": dict(plan.since), "passed": batches, "whole": list(plan.reasons)}


def table_runs(runs: Sequence[TableRun]) -> Mapping[str, Any]:
    """Return the results of a run for its tables."""
    return {"tables": [table_run(run) for run in runs]}
