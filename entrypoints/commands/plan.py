"""`lakeward plan`: show what the next batch of each table would do, without changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog
import typer
from rich.console import Console

from lakeward.core.checks.source_clock import SLACK
from lakeward.core.dimension import DELETED, Match, TableName
from lakeward.core.errors import LakewardError, SetupError
from lakeward.core.events import Operation
from lakeward.core.ledger.other_tables import words_of
from lakeward.core.merge.ties import cautions as cautions_of_ties
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.pipeline.discovery import discover as look_at
from lakeward.core.pipeline.job import Idle, Job, OnlyOtherTables, PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.reporting.alarms import Alarm, alarms
from lakeward.core.schema_changes.evolution import Kind, Policy
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.runtime.join_run import TableSelection, select_tables
from lakeward.entrypoints.runtime.reporting.logs import log_failure
from lakeward.entrypoints.runtime.table_run import caution_words, row_cautions, words_of_files_left_alone
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.context import (
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
from lakeward.entrypoints.startup.findings import Findings, inspect_source, layouts
from lakeward.entrypoints.views import documents, error_groups, joined_tables, terminal
from lakeward.entrypoints.views.safe_text import escaped

log_lines = structlog.get_logger()

HELP = """Show what the next batch of each table would do, and change nothing.

It shows files, rows by operation, their outcomes, and the rows that would be written: the
same numbers as those of the next run.

Example: [bold]lakeward plan shop.orders[/]
"""


def plan(
    tables: Tables = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Plan tables and print the plans; return the exit code."""
    start_logging(log, debug=debug)
    plans = plan_tables(open_settings(config, asks=True), tables or (), as_json=as_json)
    if as_json:
        documents.emit("plan", plans.document)
        return plans.code
    sys.stdout.flush()
    error_groups.print_errors(plans.errors)
    terminal.print_warnings(plans.findings.warnings)
    terminal.print_findings(plans.cautions, () if tables else plans.findings.unconfigured)
    is_due = any(document.get("batch") or document.get("plan") for document in plans.documents)
    terminal.console().print(_next(plans.code, is_due=is_due))
    return plans.code


def plan_tables(configured: Configuration, tables: Sequence[str] = (), *, as_json: bool = True) -> Plans:
    """Plan the named tables, or all; unless `as_json`, print each as soon as it is planned."""
    with container_of(configured) as container:
        container.source(), container.target()
        wanted = select_tables(configured, tables)
        findings = inspect_source(container, wanted.tables)
        container.rules(tables=wanted.tables)
        findings = findings.with_cautions(layouts(container, wanted.tables))
        plans = Plans(findings, {name: list(words) for name, words in findings.cautions.items()})
        plans.fill(container, configured, wanted, as_json=as_json)
    return plans


@dataclass(slots=True)
class Plans:
    """Plans of tables and joined tables as JSON documents, with cautions and errors by table."""

    findings: Findings
    cautions: dict[TableName, list[str]]
    tables: list[dict[str, Any]] = field(default_factory=list)
    joined: list[dict[str, Any]] = field(default_factory=list)
    errors: list[tuple[TableName, BaseException]] = field(default_factory=list)

    @property
    def documents(self) -> Sequence[dict[str, Any]]:
        """The documents of all tables."""
        return [*self.tables, *self.joined]

    @property
    def code(self) -> int:
        """The exit code."""
        failed = [document["error"] for document in self.documents if "error" in document]
        return documents.failure_code(failed) if failed else 0

    @property
    def document(self) -> Mapping[str, Any]:
        """The JSON document of all plans, without its header."""
        listed = {"tables": self.tables, "joined": self.joined}
        return {**listed, **documents.findings(self.findings), "exit_code": self.code}

    def fill(self, container: Any, configured: Configuration, wanted: TableSelection, *, as_json: bool) -> None:
        """Plan each table, then each joined table; unless `as_json`, print them."""
        kind = configured.settings.target["kind"]
        for name in wanted.tables:
            cautions = self.cautions.setdefault(name, [])
            self.tables.append(_plan_table(container, name, kind, cautions, self.errors, as_json=as_json))
        due = {document["table"] for document in self.tables if document.get("batch")}
        for name in wanted.joined:
            ahead = [table for table in configured.sources_of(name) if str(table) in due]
            self.joined.append(joined_tables.plan_table(container, name, kind, ahead, self.errors, as_json=as_json))


def _next(code: int, *, is_due: bool) -> str:
    if code == 75:
        return "Nothing has been written. Next: `lakeward plan` again"
    if code:
        return "Nothing has been written. Next: fix the errors above, then `lakeward plan` again"
    if is_due:
        return "Nothing has been written. Next: `lakeward run`"
    return "Nothing new to apply. `lakeward status` shows how far each table is."


def _plan_table(
    container: Any,
    name: TableName,
    kind: str,
    cautions: list[str],
    errors: list[tuple[TableName, BaseException]],
    *,
    as_json: bool,
) -> dict[str, Any]:
    """Plan one table and return its JSON document; unless `as_json`, print it.

    Cautions found while planning are added to `cautions`. A table that cannot be planned is added to `errors`.
    """
    try:
        job = container.job(table=name)
        cautions += cautions_of_ties(job.dimension)
        planned = read_consistently(name, job.opened.table.state, lambda _: prepare_next_batch(job))
    except SetupError:
        raise
    except Exception as error:  # noqa: BLE001  # the failure of one table stops no other
        if not isinstance(error, LakewardError):
            log_failure(error, log_lines.bind(table=str(name)).error)
        if not as_json:
            terminal.console().print(f"{escaped(str(name))}  → cannot be planned")
        errors.append((name, error))
        return {"table": str(name), "error": documents.error(error)}
    prepared = planned if isinstance(planned, PreparedBatch) else None
    cautions += _words_of_others(job, planned)
    selection = look_at(job).selection if planned in (Idle.NOTHING, Idle.LOADING) else None
    cautions += () if selection is None else words_of_files_left_alone(selection.unrelated_files, _SHOWN)
    awaited = selection.awaited if selection is not None and planned is Idle.LOADING else None
    if not as_json:
        _show(job, prepared, kind)
        terminal.print_awaited(name, awaited)
    document = {**_document(job, prepared, cautions), "awaited": documents.awaited(awaited)}
    if prepared is not None:
        prepared.close()
    return document


def _show(job: Job[Any], prepared: PreparedBatch[Any] | None, kind: str) -> None:
    out, name = terminal.console(), job.dimension.name
    target = f"{escaped(str(name))}  → {escaped(job.opened.name)}"
    if prepared is None:
        out.print(f"{target} ({kind})            nothing new")
        if held := job.opened.table.state().progress.held:
            out.print(f"   {_held_words(name, held)}")
        return
    merge = prepared.plan
    is_bag = merge.dimension.match is Match.IMAGE
    mode = "append-only" if merge.appends and not is_bag else merge.dimension.mode.value
    creation = f"creates the table, {format_count(len(merge.evolution.schema), 'column')}" if merge.creates else ""
    out.print(f"{target} ({kind}, {mode})            {creation}".rstrip())
    if merge.appends:
        out.print(f"   It has no key: {_BY_IMAGE if is_bag else _ADDED_ONCE}.")
    if merge.dimension.is_soft:
        out.print(f"   A deleted row keeps its last values, with {DELETED} true.")
    _show_rows(out, prepared)
    for change in merge.evolution.changes:
        out.print(f"   [yellow]schema:[/] {escaped(str(change))}: the table follows")
    for change in merge.evolution.quarantined_changes:
        out.print(f"   [yellow]schema:[/] {escaped(str(change))}: rows that have it go into quarantine")
    for warning in warnings(prepared):
        out.print(f"   [yellow]⚠[/] {escaped(warning)}")


_ADDED_ONCE: Final = "each row is added once and never changed; updates and deletes are quarantined"
_BY_IMAGE: Final = "each update or delete removes one row that equals its before image"
"""What becomes of the rows of a table without a key."""


def _show_rows(out: Console, prepared: PreparedBatch[Any]) -> None:
    """Print the outcomes of the rows of a batch."""
    facts, resolved = prepared.plan.facts, prepared.resolved
    by_operation = " · ".join(f"{number:,} {op.value}" for op, number in facts.operations.items())
    read = f"{format_count(len(facts.objects), 'file')}, {format_count(facts.read, 'row')}"
    out.print(f"   {read}: {by_operation or 'no change for this table'}")
    out.print(f"   {terminal.count_words(resolved.counts, every=True)}")
    if resolved.rejects:
        rejected = " · ".join(f"{number:,} {reason.value}" for reason, number in resolved.rejects.items())
        out.print(f"   into quarantine: {rejected}")
    if resolved.held:
        more = resolved.held - prepared.held_before
        out.print(f"   {_held_words(prepared.plan.dimension.name, resolved.held, more)}")
    all_rows = ": the full load replaces all rows" if prepared.plan.replaces else ""
    out.print(f"   {format_count(resolved.written, 'row')} written, {resolved.removed:,} removed{all_rows}")


def _held_words(name: TableName, held: int, more: int = 0) -> str:
    keys = format_count(held, "key is held", "keys are held")
    new = f", {more:,} of them new" if more > 0 else ""
    return f"{keys}{new}: later events wait (`lakeward quarantine show {escaped(str(name))}`)"


_SHOWN: Final = 20
"""Greatest number of named files that are not read."""


def warnings(prepared: PreparedBatch[Any]) -> list[str]:
    """Return warnings about a batch."""
    selection, counts = prepared.selection, prepared.resolved.counts
    sentences = []
    if selection.files_left:
        megabytes = selection.bytes_left / 1e6
        size, verb = f"{megabytes:,.1f} MB", "follows" if selection.files_left == 1 else "follow"
        sentences.append(f"{format_count(selection.files_left, 'more file')} ({size}) {verb} in further batches.")
    sentences += words_of_files_left_alone(selection.unrelated_files, _SHOWN)
    evolution = prepared.plan.evolution
    operations = prepared.plan.facts.operations
    if evolution.lacked and (operations.get(Operation.UPDATE) or operations.get(Operation.INSERT)):
        names = ", ".join(evolution.lacked)
        sentences.append(
            f"The files lack {names}, or `columns` leaves "
            f"{'it' if len(evolution.lacked) == 1 else 'them'} out: updated rows keep their values there, inserted "
            "ones have NULL."
        )
    if evolution.ignored:
        sentences.append(f"Ignored, as `schema.add` says: {', '.join(evolution.ignored)}")
    for change, policy in evolution.differences:
        if change.kind is Kind.NARROW and policy is Policy.EVOLVE:
            sentences.append(f"{change}: the table keeps its own type.")
    if selection.late:
        names = ", ".join(selection.late[:3]) + (" …" if len(selection.late) > 3 else "")
        files = format_count(len(selection.late), "file comes", "files come")
        sentences.append(f"{files} late, after a later file was applied: {names}")
    if counts.insert_on_existing or counts.update_on_missing:
        sentences.append(
            f"{format_count(counts.insert_on_existing, 'insert')} of rows that exist already, "
            f"{format_count(counts.update_on_missing, 'update')} "
            "of rows that do not exist: files may be missing."
        )
    sentences += [f"{alarm.what}: {alarm.found} ({alarm.code})" for alarm in _alarms(prepared)]
    sentences += terminal.quality_words(prepared.plan.facts.warnings)
    sentences += caution_words(row_cautions(prepared.plan.facts, counts, evolution.lacked))
    sentences += _words_of_batch(prepared)
    if since := prepared.plan.facts.inexact_since:
        sentences.append(f"{since} has rows whose key cannot be read: the table becomes inexact.")
    return sentences


def _alarms(prepared: PreparedBatch[Any]) -> Sequence[Alarm]:
    """Return the alarms that the batch will raise, by the clock that the source was read with."""
    ahead, limit = prepared.plan.facts.ahead, prepared.plan.facts.believed
    back = [] if prepared.progress.backwards is None else [prepared.progress.backwards]
    duplicate_objects = [] if prepared.progress.twin is None else [prepared.progress.twin]
    now = 0 if limit is None else limit - SLACK
    return alarms(str(prepared.plan.dimension.name), None if limit is None else ahead, back, duplicate_objects, now)


def _words_of_batch(prepared: PreparedBatch[Any]) -> Sequence[str]:
    """Return sentences about messages of other tables in the files of a batch."""
    progress = prepared.progress
    others = prepared.plan.facts.others if progress.has_rows else progress.others
    return words_of(others, str(prepared.plan.dimension.source), has_rows=progress.has_rows)


def _words_of_others(job: Job[Any], planned: PreparedBatch[Any] | Idle | OnlyOtherTables) -> Sequence[str]:
    """Return sentences about messages of other tables if there is no batch and no earlier batch had a row."""
    if isinstance(planned, PreparedBatch):
        return ()
    progress = job.opened.table.state().progress
    others = planned.others if isinstance(planned, OnlyOtherTables) else progress.others
    return () if progress.has_rows else words_of(others, str(job.dimension.source), has_rows=False)


def _document(job: Job[Any], prepared: PreparedBatch[Any] | None, cautions: Sequence[str]) -> dict[str, Any]:
    name = job.dimension.name
    if prepared is None:
        held = job.opened.table.state().progress.held
        idle = {"table": str(name), "target": job.opened.name, "batch": None, "held": held}
        return {**idle, "warnings": list(cautions)}
    merge = prepared.plan
    return {
        "table": str(name),
        "target": job.opened.name,
        "batch": merge.batch,
        "creates": merge.creates,
        "epoch": merge.epoch,
        "mode": "append" if merge.appends and merge.dimension.match is Match.KEY else merge.dimension.mode.value,
        "columns": {column.name: str(column.type) for column in merge.evolution.schema},
        "schema_changes": [
            {**documents.schema_change(change), "policy": policy.value}
            for change, policy in merge.evolution.differences
        ],
        "files": [item.object.name for item in merge.facts.objects],
        "files_left": prepared.selection.files_left,
        "bytes_left": prepared.selection.bytes_left,
        "others": list(prepared.selection.unrelated_files),
        "late": list(prepared.selection.late),
        "operations": {operation.value: number for operation, number in merge.facts.operations.items()},
        "rejects": {reason.value: number for reason, number in prepared.resolved.rejects.items()},
        "counts": asdict(prepared.resolved.counts),
        "written": prepared.resolved.written,
        "removed": prepared.resolved.removed,
        "held": prepared.resolved.held,
        "way": prepared.resolved.way,
        "held_before": prepared.held_before,
        "alarms": [documents.alarm(alarm) for alarm in _alarms(prepared)],
        "quality_warnings": dict(merge.facts.warnings),
        "other_tables": documents.other_tables(merge.facts.others),
        "warnings": [*cautions, *warnings(prepared)],
    }


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", help=HELP)(plan)
