"""`lakeward plan`: what the next batch of each table would do. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import structlog
import typer
from rich.markup import escape

from lakeward.core.clock import SLACK, Alarm, alarms
from lakeward.core.errors import LakewardError, SetupError
from lakeward.core.evolution import Kind
from lakeward.core.pipeline import Idle, prepare
from lakeward.core.plan import rejects
from lakeward.entrypoints import documents, view
from lakeward.entrypoints.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Log,
    Tables,
    container_of,
    open_settings,
    start_logging,
)

log_lines = structlog.get_logger()

HELP = """Show what the next batch of each table would do, and change nothing.

Files, rows by operation, what would become of them, and what would be written: the
numbers are those of the run that follows.

Example: [bold]lakeward plan shop.orders[/]
"""


def plan(
    tables: Tables = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Plan and show."""
    start_logging(log, debug=debug)
    configured = open_settings(config)
    documented, failed, any_work = [], [], False
    with container_of(configured) as container:
        container.source()
        chosen = configured.choose(tables or ())
        container.rules(tables=chosen)
        kind = configured.settings.target["kind"]
        for name in chosen:
            job = container.job(table=name)
            try:
                found = prepare(job)
                prepared = None if isinstance(found, Idle) else found
            except SetupError:
                raise
            except Exception as error:  # a table that cannot be planned, for whatever reason, hides no other
                if not isinstance(error, LakewardError):
                    log_lines.error("failed", table=str(name), exc_info=True)
                failed.append(error)
                documented.append({"table": str(name), "error": documents.error(error)})
                if not as_json:
                    view.console().print(f"{escape(str(name))}  → cannot be planned")
                    view.print_error(error)
                continue
            any_work |= prepared is not None
            documented.append(_document(name, job, prepared))
            if not as_json:
                _show(name, job, prepared, kind)
            if prepared is not None:
                prepared.close()
    code = 4 if failed else 0
    if as_json:
        documents.emit("plan", {"tables": documented, "exit_code": code})
    elif any_work:
        view.console().print("Nothing has been written. Next: `lakeward run`")
    else:
        view.console().print(
            "Nothing has been written." if failed else "Nothing waits. `lakeward status` says how far it is."
        )
    return code


def _show(name: Any, job: Any, prepared: Any, kind: str) -> None:

    out = view.console()
    target = f"{escape(str(name))}  → {escape(job.opened.name)}"
    if prepared is None:
        out.print(f"{target} ({kind})            nothing new")
        if held := job.opened.table.standing().progress.held:
            out.print(f"   {_held_words(name, held)}")
        return
    merge = prepared.plan
    mode = "append-only" if merge.appends else merge.dimension.mode.value
    made = f"creates the table, {len(merge.evolution.schema)} columns" if merge.creates else ""
    out.print(f"{target} ({kind}, {mode})            {made}".rstrip())
    if merge.appends:
        out.print(
            "   It has no key: each row is added once and never changed; updates and deletes are quarantined."
        )
    facts, counts = merge.facts, prepared.resolved.counts
    by_operation = " · ".join(f"{number:,} {op.value}" for op, number in facts.operations.items())
    rejected = " · ".join(f"{n:,} {reason}" for reason, n in rejects(merge, counts.quarantined).items())
    out.print(f"   {len(facts.objects):,} files, {facts.read:,} rows: {by_operation or 'no event'}")
    out.print(f"   {view.count_words(counts, every=True)}")
    if rejected:
        out.print(f"   into quarantine: {rejected}")
    if held := prepared.resolved.held:
        new = f", {held - _held_before(merge):,} of them new" if held > _held_before(merge) else ""
        out.print(f"   {_held_words(name, held, new)}")
    out.print(f"   {prepared.resolved.written:,} rows written, {prepared.resolved.removed:,} removed")
    for change in merge.evolution.changes:
        out.print(f"   [yellow]schema:[/] {escape(str(change))}: the table follows")
    for warning in warnings(prepared):
        out.print(f"   [yellow]⚠[/] {escape(warning)}")


def _held_before(merge: Any) -> int:
    return len({key for hold in merge.holds for key in hold.keys})


def _held_words(name: Any, held: int, new: str = "") -> str:
    keys = "1 key is held" if held == 1 else f"{held:,} keys are held"
    return f"{keys}{new}: later events wait (`lakeward quarantine show {escape(str(name))}`)"


def warnings(prepared: Any) -> list[str]:
    """Return what a person should know of a batch beside its numbers."""
    taken, counts = prepared.taken, prepared.resolved.counts
    found = []
    if taken.files_left:
        megabytes = taken.bytes_left / 1e6
        found.append(f"{taken.files_left:,} more files ({megabytes:,.1f} MB) follow in further batches.")
    if taken.others:
        names = ", ".join(taken.others[:3]) + (" …" if len(taken.others) > 3 else "")
        found.append(f"{len(taken.others):,} other file(s) are left alone, having no name that DMS gives: {names}")
    evolution = prepared.plan.evolution
    if evolution.absent:
        names = ", ".join(evolution.absent)
        found.append(f"The files lack {names}: updated rows keep their values there, new ones have NULL.")
    if evolution.ignored:
        found.append(f"Not taken, as `schema.add` says: {', '.join(evolution.ignored)}")
    for change, _ in evolution.differences:
        if change.kind is Kind.NARROW:
            found.append(f"{change}: the table keeps its own type.")
    if taken.late:
        names = ", ".join(taken.late[:3]) + (" …" if len(taken.late) > 3 else "")
        found.append(f"{len(taken.late):,} file(s) come late, behind one that is applied already: {names}")
    if counts.insert_on_existing or counts.update_on_missing:
        found.append(
            f"{counts.insert_on_existing:,} inserts of a row that is there, {counts.update_on_missing:,} updates "
            "of one that is not: where files are missing, this is how it shows."
        )
    found += [f"{alarm.what}: {alarm.found} ({alarm.code})" for alarm in _alarms(prepared)]
    found += view.quality_words(prepared.plan.facts.warnings)
    if since := prepared.plan.facts.inexact_since:
        found.append(f"{since} has rows whose key cannot be read: the table becomes inexact.")
    return found


def _alarms(prepared: Any) -> Sequence[Alarm]:
    """Return what the batch will raise: what its source does not believe lies ahead of the clock that it asked."""
    ahead, limit = prepared.plan.facts.ahead, prepared.plan.facts.believed
    back = [] if prepared.progress.backwards is None else [prepared.progress.backwards]
    now = 0 if limit is None else limit - SLACK
    return alarms(str(prepared.plan.dimension.name), None if limit is None else ahead, back, now)


def _document(name: Any, job: Any, prepared: Any) -> dict[str, Any]:

    if prepared is None:
        held = job.opened.table.standing().progress.held
        return {"table": str(name), "target": job.opened.name, "batch": None, "held": held}
    merge = prepared.plan
    return {
        "table": str(name),
        "target": job.opened.name,
        "batch": merge.batch,
        "creates": merge.creates,
        "mode": "append" if merge.appends else merge.dimension.mode.value,
        "columns": {column.name: str(column.type) for column in merge.evolution.schema},
        "schema_changes": [
            {**documents.schema_change(change), "policy": policy.value}
            for change, policy in merge.evolution.differences
        ],
        "files": [found.object.name for found in merge.facts.objects],
        "files_left": prepared.taken.files_left,
        "bytes_left": prepared.taken.bytes_left,
        "others": list(prepared.taken.others),
        "late": list(prepared.taken.late),
        "operations": {operation.value: number for operation, number in merge.facts.operations.items()},
        "rejects": rejects(merge, prepared.resolved.counts.quarantined),
        "counts": asdict(prepared.resolved.counts),
        "written": prepared.resolved.written,
        "removed": prepared.resolved.removed,
        "held": prepared.resolved.held,
        "held_before": _held_before(merge),
        "alarms": [documents.alarm(found) for found in _alarms(prepared)],
        "quality_warnings": dict(merge.facts.warnings),
        "warnings": warnings(prepared),
    }


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", help=HELP)(plan)
