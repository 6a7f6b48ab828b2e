"""`lakeward ack`: let a table go on behind an alarm, and remember who did and why."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.core.operations.acknowledge import ack, objects_in
from lakeward.entrypoints.commands.common.decision import Table, Who, Why, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Let a table go on behind an alarm: what that means for its rows is told in docs/reference/alarms.md.

It is for what the alarm is about now, and for nothing that comes later. Who did it, when
and why is written down beside the table. Nothing is applied; the next run goes on.

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
    """Let pass and say so."""
    with deciding(table, by, config, debug=debug) as (name, job, who, at):
        made = ack(job, code.upper(), by=who, reason=reason, at=at)
    if as_json:
        content = {"alarm": made.code, "about": made.about, "by": made.by, "reason": made.reason}
        documents.emit("ack", {"table": name, **content, "at": documents.time(made.at), "exit_code": 0})
        return 0
    out = terminal.console()
    out.print(f"{escaped(name)}: {made.code} is let pass, by {escaped(made.by)}")
    objects = objects_in(made.code, made.about)
    for one in objects[:20]:
        out.print(f"   {escaped(one)}")
    if len(objects) > 20:
        out.print(f"   … and {len(objects) - 20:,} more")
    out.print("Nothing was applied. Next: `lakeward run`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ack", help=HELP)(let_pass)
