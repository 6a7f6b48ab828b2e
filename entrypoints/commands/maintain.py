"""`lakeward maintain`: compact files, expire snapshots, and remove unreferenced files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.operations.maintain import maintain as take_care
from lakeward.core.ports import MaintenanceReport
from lakeward.entrypoints.runtime.join_run import job_of, joined_of
from lakeward.entrypoints.runtime.locks.writer_lease import exclusive_container
from lakeward.entrypoints.settings.models.maintenance import maintenance_policy
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Maintain tables: apply layout settings, rewrite data files that are too small or have many deleted rows,
expire old snapshots, and remove files that no snapshot names.

The key `maintain` of each table sets what is due; `partition_by` and similar keys set the layout. No row changes,
and the commit with the progress of a table never expires. Runs of the pipeline are not disturbed.

Example: [bold]lakeward maintain --dry-run[/]
"""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what is due.")]

_Result = tuple[TableName, MaintenanceReport | LakewardError]


def maintain(
    tables: Tables = None,
    dry_run: DryRun = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Maintain each table; the failure of one stops no other. Return the exit code."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    results: list[_Result] = []
    with exclusive_container(configured) as container:
        chosen = configured.choose_any(tables or ()) or [*configured.tables]
        for name in dict.fromkeys((*chosen, *joined_of(configured, chosen))):
            try:
                job = job_of(container, name)
                results.append(
                    (name, take_care(job, maintenance_policy(configured.maintenance_of(name)), is_dry=dry_run))
                )
            except LakewardError as error:
                results.append((name, error))
    failed = [documents.error(result) for _, result in results if isinstance(result, LakewardError)]
    code = documents.failure_code(failed) if failed else 0
    if as_json:
        listed = [_document(name, result) for name, result in results]
        documents.emit("maintain", {"tables": listed, "done": not dry_run, "exit_code": code})
        return code
    _show(results)
    if dry_run:
        terminal.console().print("Nothing was changed. Next: `lakeward maintain`")
    return code


def _document(name: TableName, result: MaintenanceReport | LakewardError) -> dict[str, Any]:
    if isinstance(result, LakewardError):
        return {"table": str(name), "error": documents.error(result)}
    return {
        "table": str(name),
        "files": result.files,
        "bytes": result.bytes,
        "snapshots": result.snapshots,
        "orphans": list(result.orphans),
        "layout": [
            {"option": change.option, "before": change.before, "after": change.after} for change in result.layout
        ],
    }


def _show(results: Sequence[_Result]) -> None:
    headers = ("files rewritten", "bytes", "snapshots expired", "orphan files")
    grid = terminal.grid("table", *headers, right=headers)
    for name, result in results:
        if isinstance(result, MaintenanceReport):
            counted = (result.files, result.bytes, result.snapshots, len(result.orphans))
            grid.add_row(escaped(str(name)), *(f"{count:,}" for count in counted))
    for name, result in results:
        for change in result.layout if isinstance(result, MaintenanceReport) else ():
            words = f"{name}: {change.option} {change.before} → {change.after}: {change.how}"
            terminal.console().print(escaped(words), soft_wrap=True)
    if grid.row_count:
        terminal.console().print(grid)
    for _, result in results:
        if isinstance(result, LakewardError):
            terminal.print_error(result)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("maintain", help=HELP)(maintain)
