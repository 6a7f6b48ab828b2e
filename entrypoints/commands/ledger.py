"""`lakeward ledger`: list the state of each source object of a table, and rebuild the ledger."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from lakeward.core.ledger.objects import ObjectRecord, ObjectState
from lakeward.core.operations.acknowledge import objects_in
from lakeward.core.operations.acknowledge import rebuild as make_anew
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.runtime.locks.writer_lease import exclusive_container
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    choose_readable,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Show the state of each file: seen, applied, quarantined, vanished, rewritten, archived.

The ledger is in the folder `state`, or in DynamoDB. Tables do not depend on it, and it can be rebuilt from them.
"""

LIST = """List the files of a table in the ledger, in order, and the acknowledged alarms.

Example: [bold]lakeward ledger list shop.orders --state seen[/]
"""

REBUILD = """Rebuild the ledger from the batch records of the tables.

The time at which a file was first seen is lost. Waiting files stay in the ledger: those that were seen and
not applied, and those that are to be applied again after a rollback.

Example: [bold]lakeward ledger rebuild[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
States = Annotated[
    list[ObjectState] | None, typer.Option("--state", help="Only files in this state.", show_default="all")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many files, the last ones.")]


def list_objects(
    table: Table,
    state: States = None,
    limit: Limit = 1000,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List files and acknowledged alarms."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with container_of(configured) as container:
        ledger = container.ledger()
        latest: deque[ObjectRecord] = deque(maxlen=limit)
        counts: Counter[str] = Counter()
        for record in ledger.objects(str(name), *(state or ())):
            latest.append(record)
            counts[record.state.value] += 1
        acked = ledger.account(str(name)).acknowledged
    if as_json:
        content = {"objects": [_document(record) for record in latest], "states": dict(counts)}
        acks = {code: sorted(about) for code, about in sorted(acked.items())}
        documents.emit("ledger list", {"table": str(name), **content, "acked": acks, "exit_code": 0})
        return 0
    out = terminal.console()
    if not latest:
        out.print("The ledger has no such file. Next: `lakeward run`, or `lakeward ledger rebuild`")
        return 0
    out.print(_grid(latest))
    words = " · ".join(f"{number:,} {word}" for word, number in sorted(counts.items()))
    out.print(f"{words}{f' (the last {len(latest):,} are shown)' if len(latest) < counts.total() else ''}")
    for code, about in sorted(acked.items()):
        objects = objects_in(code, about)
        out.print(f"acknowledged {code}: {escaped(', '.join(objects[:5]))}{' …' if len(objects) > 5 else ''}")
    return 0


def _grid(records: Iterable[ObjectRecord]) -> Any:
    grid = terminal.grid("file", "state", "size", "rows", "batch", "first seen", right=("size", "rows", "batch"))
    for record in records:
        grid.add_row(
            escaped(record.object.name),
            record.state.value,
            f"{record.object.size:,}",
            "–" if record.rows is None else f"{record.rows:,}",
            "–" if record.batch is None else f"{record.batch:,}",
            terminal.local_time(record.first_seen),
        )
    return grid


def _document(record: ObjectRecord) -> dict[str, Any]:
    item = record.object
    return {
        "name": item.name,
        "state": record.state.value,
        "order": item.order,
        "size": item.size,
        "modified": documents.time(item.modified),
        "etag": item.etag,
        "first_seen": documents.time(record.first_seen),
        "batch": record.batch,
        "rows": record.rows,
        "least": record.least,
        "greatest": record.greatest,
    }


def rebuild(
    tables: Tables = None, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Rebuild the ledger of tables; return the exit code."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    chosen, code = choose_readable(configured, tables or ())
    with exclusive_container(configured) as container:
        counts = [(str(name), make_anew(container.job(table=name))) for name in chosen]
    if as_json:
        listed = [{"table": table, "objects": number} for table, number in counts]
        documents.emit("ledger rebuild", {"tables": listed, "exit_code": code})
        return code
    for table, number in counts:
        terminal.console().print(f"{escaped(table)}: {format_count(number, 'file')}")
    return code


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    inner = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    inner.command("list", help=LIST)(list_objects)
    inner.command("rebuild", help=REBUILD)(rebuild)
    app.add_typer(inner, name="ledger")
