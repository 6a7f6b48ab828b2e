"""`lakeward reload`: request a new full load that replaces all rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lakeward.core.ledger.full_loads import AwaitedLoad, ReloadRequest
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.operations.reload import PlannedReload, plan_reload, record_decision
from lakeward.core.operations.reload import withdraw as take_back
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Who, Why, Yes, asks, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Request a new full load that replaces all rows of a table in one commit.

Stop the DMS task, run `reload`, and start the full load. Until it is complete the table does not
change. It is complete with the first changes that are written after it, or by `lakeward
load-complete`. If the load was started before, the changes written before its first file belong to
the old rows; --from names the first file of changes after the load.

Example: [bold]lakeward reload shop.orders --reason "a file was lost" --yes[/]
"""

First = Annotated[str | None, typer.Option("--from", help="The first file of changes after the load.")]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="Withdraw a request whose load has not begun.")]


def reload(
    table: Table,
    reason: Why = None,
    by: Who = None,
    first: First = None,
    withdraw: Withdraw = False,
    yes: Yes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Request a reload, or withdraw the request."""
    with deciding(table, by, config, debug=debug) as (name, job, operator, at):
        if withdraw:
            word = take_back(job, by=operator, reason=reason, at=at)
            return _report_result(name, word, None, (), as_json=as_json)
        planned = plan_reload(job, by=operator, reason=reason, at=at, first=first)
        if asks(yes=yes, as_json=as_json):
            _show(name, planned)
            typer.confirm("Continue?", abort=True)
        awaited = record_decision(job, planned.request)
    if not as_json:
        _show(name, planned)
    return _report_result(name, planned.request, awaited, planned.before, as_json=as_json)


def _show(table: str, planned: PlannedReload) -> None:
    """Print the effect of a reload."""
    out = terminal.console()
    out.print(f"{escaped(table)}: a full load replaces all rows, once it is complete")
    _list("file of the load is there", "files of the load are there", planned.load, out)
    _list(
        "file of changes before it is never applied",
        "files of changes before it are never applied",
        planned.before,
        out,
    )
    _list("file of changes waits for it", "files of changes wait for it", planned.after, out)


def _list(singular: str, plural: str, items: Sequence[SourceObject], out: Any) -> None:
    if items:
        names = ", ".join(item.name for item in items[:3]) + (" …" if len(items) > 3 else "")
        out.print(f"   {format_count(len(items), singular, plural)}: {escaped(names)}")


def _report_result(
    table: str, word: ReloadRequest, awaited: AwaitedLoad | None, before: Sequence[SourceObject], *, as_json: bool
) -> int:
    if as_json:
        content = {
            "epoch": word.epoch,
            "withdrawn": word.is_withdrawn,
            "by": word.by,
            "reason": word.reason,
            "at": documents.time(word.at),
            "awaited": documents.awaited(awaited),
            "never_applied": [item.name for item in before],
        }
        documents.emit("reload", {"table": table, **content, "exit_code": 0})
        return 0
    out = terminal.console()
    if word.is_withdrawn:
        out.print(f"{escaped(table)} no longer waits for a full load, by {escaped(word.by)}. Next: `lakeward run`")
    else:
        out.print(f"Next: start the full load; then `lakeward run`, or `lakeward load-complete {escaped(table)}`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reload", help=HELP)(reload)
