"""`lakeward ack`: acknowledge an alarm so that its table continues, with name and reason."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.core.operations.acknowledge import acknowledge, objects_in
from lakeward.entrypoints.commands.common.decision import Table, Who, Why, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Acknowledge an alarm, so that its table continues.

docs/reference/alarms.md explains what that means for the rows of the table.

It covers what the alarm names now. A later finding raises the alarm again. Name, time and reason
are stored with the table. Nothing is applied; the next run continues.

Example: [bold]lakeward ack shop.orders LEDGER-003 --reason "the files were empty"[/]
"""

Code = Annotated[str, typer.Argument(metavar="ALARM", help="The code of the alarm, as LEDGER-003.")]


def let_pass(
    table: Table,
    code: Code,
    reason: Why = None,
    by: Who = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Acknowledge the alarm and print it."""
    with deciding(table, by, config, debug=debug) as (name, job, user, at):
        decision = acknowledge(job, code.upper(), by=user, reason=reason, at=at)
    if as_json:
        content = {"alarm": decision.code, "about": decision.about, "by": decision.by, "reason": decision.reason}
        documents.emit("ack", {"table": name, **content, "at": documents.time(decision.at), "exit_code": 0})
        return 0
    out = terminal.console()
    out.print(f"{escaped(name)}: {decision.code} is acknowledged, by {escaped(decision.by)}")
    objects = objects_in(decision.code, decision.about)
    for one in objects[:20]:
        out.print(f"   {escaped(one)}")
    if len(objects) > 20:
        out.print(f"   … and {len(objects) - 20:,} more")
    out.print("Nothing was applied. Next: `lakeward run`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ack", help=HELP)(let_pass)
