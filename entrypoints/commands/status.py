"""`lakeward status`: how far each table is, by what its last commit says. It starts no JVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lakeward.core.alarms import Alarm, alarms
from lakeward.core.errors import LakewardError
from lakeward.core.loads import Awaited
from lakeward.core.progress import Progress
from lakeward.entrypoints import documents, view
from lakeward.entrypoints.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    container_of,
    open_settings,
)
from lakeward.entrypoints.findings import look
from lakeward.entrypoints.printable import escaped
from lakeward.entrypoints.settings import Configured

HELP = """Show how far each table is: position, lag, rows, held keys, last commit.

Read from the tables themselves, without Spark; the alarms are those of the last run. The
lag is how old the newest change was when it was committed. With --schema: how the columns
changed, when, and with which file.

Example: [bold]lakeward status --json[/]
"""


Changes = Annotated[bool, typer.Option("--schema", help="Show how the columns changed: when, with which file.")]


def status(
    tables: Tables = None,
    schema: Changes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Read and show."""
    configured = open_settings(config)
    if schema:
        return _schema(configured, tables or (), as_json=as_json)
    rows: list[tuple[Any, Any]] = []
    failed: list[tuple[Any, LakewardError]] = []
    alarmed: dict[Any, Sequence[Alarm]] = {}
    awaited: dict[Any, Awaited | None] = {}
    with container_of(configured) as container:
        target, ledger, now = container.target(), container.ledger(), container.runtime().now()
        chosen = configured.choose(tables or ())
        found_there = look(container, chosen)
        for name in chosen:
            try:
                standing = target.standing(configured.dimension(name))
                account = ledger.account(str(name))
                raised = _alarms_of(str(name), standing.progress, now, account.acked)
                alarmed[name] = (*account.alarms, *raised)
                awaited[name] = account.awaited
                rows.append((name, standing))
            except LakewardError as error:
                failed.append((name, error))
    waiting = [name for name, standing in rows if standing.progress.held or standing.progress.inexact_since]
    is_held_up = any(load is not None and load.is_held_up for load in awaited.values())
    code = 4 if failed else 3 if waiting or is_held_up or any(alarmed.values()) else 0
    if as_json:
        listed = [
            {
                **_document(name, standing),
                "alarms": _alarms(alarmed[name]),
                "awaited": documents.awaited(awaited[name]),
                "warnings": list(found_there.cautions.get(name, ())),
            }
            for name, standing in rows
        ]
        listed += [{"table": str(name), "error": documents.error(cause)} for name, cause in failed]
        documents.emit("status", {"tables": listed, **documents.findings(found_there), "exit_code": code})
        return code
    _show(rows, configured.settings.target["kind"])
    for name, load in awaited.items():
        view.print_awaited(name, load)
    view.print_warnings(found_there.warnings)
    view.print_findings(found_there.cautions, () if tables else found_there.unconfigured)
    for _, cause in failed:
        view.print_error(cause)
    for found in alarmed.values():
        view.print_alarms(found)
    if waiting:
        view.console().print(f"Next: `lakeward quarantine show {escaped(str(waiting[0]))}`")
    return code


def _schema(configured: Configured, tables: Sequence[str], *, as_json: bool) -> int:
    with container_of(configured) as container:
        target = container.target()
        found = [
            (name, recorded)
            for name in configured.choose(tables)
            for recorded in target.schema_changes(configured.dimension(name))
        ]
    if as_json:
        listed = [
            {
                "table": str(name),
                "at": documents.time(recorded.at),
                "file": recorded.object,
                **documents.schema_change(recorded.change),
                "policy": recorded.policy.value,
            }
            for name, recorded in found
        ]
        documents.emit("status", {"schema_changes": listed, "exit_code": 0})
        return 0
    table = view.grid("table", "when", "file", "change", "policy")
    for name, recorded in found:
        when, words = view.local_time(recorded.at), escaped(str(recorded.change))
        table.add_row(escaped(str(name)), when, escaped(recorded.object), words, recorded.policy.value)
    view.console().print(table if found else "No column has changed.")
    return 0


def _show(rows: list[tuple[Any, Any]], kind: str) -> None:

    right = ("lag", "rows", "held", "batch")
    table = view.grid("table", "format", "position", "lag", "rows", "held", "batch", "last commit", "", right=right)
    for name, standing in rows:
        progress = standing.progress
        if not progress.batch:
            table.add_row(escaped(str(name)), kind, "nothing applied yet", "–", "–", "–", "–", "–")
            continue
        is_timed = progress.time is not None
        position = view.local_time(progress.time) if is_timed else escaped(progress.object or "–")
        lag = view.ago(progress.time, _moment(standing.committed)) if is_timed and standing.committed else "–"
        since = "" if not progress.inexact_since else f"inexact since {escaped(progress.inexact_since)}"
        table.add_row(
            escaped(str(name)),
            kind,
            position,
            lag,
            f"{progress.rows:,}",
            f"{progress.held:,}",
            f"{progress.batch:,}",
            f"{view.ago(standing.committed)} ago" if standing.committed else "–",
            f"[yellow]{since}[/]" if since else "",
        )
    view.console().print(table)


def _alarms_of(table: str, progress: Progress, now: int, acked: Mapping[str, Collection[str]]) -> Sequence[Alarm]:
    back = [] if progress.backwards is None else [progress.backwards]
    twins = [] if progress.twin is None else [progress.twin]
    return alarms(table, progress.ahead, back, twins, now, acked)


def _alarms(raised: Sequence[Alarm]) -> list[Any]:
    return [documents.alarm(alarm) for alarm in raised]


def _moment(micros: int) -> Any:

    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _document(name: Any, standing: Any) -> dict[str, Any]:

    progress = standing.progress
    timed = progress.time is not None and standing.committed is not None
    return {
        "table": str(name),
        "exists": standing.schema is not None,
        **documents.progress(progress),
        "committed": documents.time(standing.committed),
        "lag_seconds": (standing.committed - progress.time) / 1_000_000 if timed else None,
    }


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status", help=HELP)(status)
