"""`lakeward status`: show the progress of each table by its last commit, without starting a JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.objects import ObjectState, SourceObject
from lakeward.core.ledger.other_tables import words_of
from lakeward.core.ports import Backlog, Ledger, TableState
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm, alarms
from lakeward.core.reporting.failures import Failure
from lakeward.core.verification.source_verification import SourceVerdict
from lakeward.entrypoints.runtime.join_run import select_tables
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    choose_readable,
    container_of,
    open_settings,
)
from lakeward.entrypoints.startup.findings import Findings, inspect_source
from lakeward.entrypoints.views import documents, error_groups, joined_tables, terminal
from lakeward.entrypoints.views.safe_text import escaped
from lakeward.entrypoints.views.source_comparison import status_words, verdict_document

HELP = """Show how far each table is: position, lag, rows, held keys, last commit.

It is read from the tables themselves, without Spark; alarms and errors are those of the last
run. The lag is the age of the newest change at its commit. For a broker, `waiting` is the number of
messages that are not applied yet. If `transactions` names their topic, a line shows the time up to
which all transactions are in all tables. With --schema: how the columns changed, when, and with which file.

Example: [bold]lakeward status --json[/]
"""


Changes = Annotated[bool, typer.Option("--schema", help="Show how the columns changed: when, with which file.")]


@dataclass(frozen=True, slots=True)
class _TableStatus:
    """Status of one table, by its last commit and by the ledger.

    `has_failed` is True if the last run ended with an error or with an alarm that stopped the table. `waiting` is
    the number of messages that wait at its source (None: unknown). `verdict` is that of the last comparison with
    its source.
    """

    name: TableName
    state: TableState
    alarms: Sequence[Alarm]
    awaited: AwaitedLoad | None
    failure: Failure | None
    has_failed: bool
    waiting: int | None = None
    verdict: SourceVerdict | None = None

    @property
    def has_held(self) -> bool:
        """True if some of its rows wait for an operator."""
        return bool(self.state.progress.held or self.state.progress.inexact_since)

    @property
    def needs_somebody(self) -> bool:
        """True if the table needs an operator to continue."""
        return self.has_held or bool(self.alarms) or (self.awaited is not None and self.awaited.is_held_up)


def status(
    tables: Tables = None,
    schema: Changes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Read the status of tables and print it; return the exit code."""
    configured = open_settings(config)
    if schema:
        return _schema(configured, tables or (), as_json=as_json)
    result = read_status(configured, tables or ())
    if as_json:
        documents.emit("status", result.document)
    else:
        result.show(configured.settings.target["kind"], is_chosen=bool(tables))
    return result.code


def read_status(configured: Configuration, tables: Sequence[str] = ()) -> Status:
    """Return the status of the named tables, or of all."""
    with container_of(configured) as container:
        wanted = select_tables(configured, tables)
        findings = inspect_source(container, wanted.tables)
        backlog = _Backlog(container.backlog(), container.ledger())
        if findings.unreachable is not None:
            backlog.give_up(findings.unreachable)
        statuses, failed = _read(container, configured, wanted.tables, backlog)
        as_of = None if failed else backlog.consistent_as_of(configured, [status.name for status in statuses])
        joined = joined_tables.read_statuses(container, configured, wanted.joined)
    failed += [(status.name, status.error) for status in joined if status.error is not None]
    findings = replace(findings, warnings=(*findings.warnings, *backlog.warnings))
    findings = findings.with_cautions(_words_of_others(statuses, configured))
    return Status(statuses, joined, failed, findings, as_of)


@dataclass(frozen=True, slots=True)
class Status:
    """Status of tables and joined tables, the tables that cannot be read, and findings about the source.

    All transactions up to `as_of`, in microseconds since 1970, are in all of the tables (None: unknown).
    """

    tables: Sequence[_TableStatus]
    joined: Sequence[joined_tables.JoinedStatus]
    failed: Sequence[tuple[TableName, LakewardError]]
    findings: Findings
    as_of: int | None

    @property
    def failures(self) -> Mapping[TableName, Failure]:
        """The errors that ended the last runs of tables."""
        every: list[_TableStatus | joined_tables.JoinedStatus] = [*self.tables, *self.joined]
        return {status.name: status.failure for status in every if status.failure is not None}

    @property
    def code(self) -> int:
        """The exit code."""
        errors = [cause for _, cause in self.failed]
        has_unrouted = bool(self.findings.unrouted_rows)
        return _exit_code(self.tables, errors, self.failures.values(), has_unrouted=has_unrouted)

    @property
    def document(self) -> Mapping[str, Any]:
        """The JSON document of the status, without its header."""
        cautions, joined = self.findings.cautions, {status.name for status in self.joined}
        listed = [{**_document(status), "warnings": list(cautions.get(status.name, ()))} for status in self.tables]
        unreadable = [pair for pair in self.failed if pair[0] not in joined]
        listed += [{"table": str(name), "error": documents.error(cause)} for name, cause in unreadable]
        return {
            "tables": listed,
            "joined": [joined_tables.status_document(status) for status in self.joined],
            **documents.findings(self.findings),
            "consistent_as_of": documents.time(self.as_of),
            "exit_code": self.code,
        }

    def show(self, kind: str, *, is_chosen: bool) -> None:
        """Print the status; unless tables were chosen, also print the unconfigured tables of the source."""
        _show(self.tables, kind, has_backlog=any(status.waiting is not None for status in self.tables))
        if self.as_of is not None:
            until = terminal.local_time(self.as_of)
            terminal.console().print(f"Transactions up to {until} are in all of these tables.")
        if self.joined:
            terminal.console().print(joined_tables.status_table(self.joined))
        for status in self.tables:
            terminal.print_awaited(status.name, status.awaited)
        terminal.print_warnings(self.findings.warnings)
        terminal.print_findings({status.name: status.cautions for status in self.joined}, ())
        terminal.print_findings(self.findings.cautions, () if is_chosen else self.findings.unconfigured)
        _show_errors(self.tables, self.failed, self.failures)


def _words_of_others(
    statuses: Iterable[_TableStatus], configured: Configuration
) -> Mapping[TableName, Sequence[str]]:
    """Return sentences about messages of other tables, by table."""
    words = {}
    for status in statuses:
        progress = status.state.progress
        words[status.name] = words_of(
            progress.others, str(configured.source_names[status.name]), has_rows=progress.has_rows
        )
    return words


def _exit_code(
    statuses: Iterable[_TableStatus],
    failed: Iterable[LakewardError],
    failures: Iterable[Failure],
    *,
    has_unrouted: bool,
) -> int:
    """Return 4 or 75 if a table failed or cannot be read, 3 if an operator is needed, else 0."""
    stored = [{**asdict(failure), "retryable": False} for failure in failures]  # it may be long ago
    if errors := [*map(documents.error, failed), *stored]:
        return documents.failure_code(errors)
    return 3 if has_unrouted or any(status.needs_somebody for status in statuses) else 0


def _show_errors(
    statuses: Sequence[_TableStatus],
    failed: Iterable[tuple[TableName, LakewardError]],
    failures: Mapping[TableName, Failure],
) -> None:
    """Print tables that cannot be read, the errors and alarms of the last run, and the next step."""
    error_groups.print_errors(failed)
    error_groups.print_failures(failures.items())
    error_groups.print_alarms((status.name, alarm) for status in statuses for alarm in status.alarms)
    if held := next((status for status in statuses if status.has_held), None):
        terminal.console().print(f"Next: `lakeward quarantine show {escaped(str(held.name))}`")


def _read(
    container: Any, configured: Configuration, names: Iterable[TableName], backlog: _Backlog
) -> tuple[list[_TableStatus], list[tuple[TableName, LakewardError]]]:
    """Return the status of each table, and the tables that cannot be read with their errors."""
    target, ledger, now = container.target(), container.ledger(), container.runtime().now()
    statuses: list[_TableStatus] = []
    failed: list[tuple[TableName, LakewardError]] = []
    for name in names:
        try:
            state = target.table_state(configured.dimension(name))
            account = ledger.account(str(name))
        except LakewardError as error:
            failed.append((name, error))
            continue
        raised = _alarms_of(str(name), state.progress, now, account.acknowledged)
        every, has_failed = (*account.alarms, *raised), account.failure is not None or bool(account.alarms)
        waiting = backlog.waiting(configured.source_names[name], str(name))
        account_facts = (account.awaited, account.failure, has_failed, waiting, account.verdict)
        statuses.append(_TableStatus(name, state, every, *account_facts))
    return statuses, failed


@dataclass(slots=True)
class _Backlog:
    """Counts messages that wait for tables, by the applied objects of the ledger; `warnings` has its errors."""

    port: Backlog | None
    ledger: Ledger
    warnings: list[str] = field(default_factory=list)

    def waiting(self, table: TableName, name: str) -> int | None:
        """Return the number of messages that wait for a table; None after the source failed to answer once."""
        if self.port is None or self.warnings:
            return None
        try:
            return self.port.count_waiting(table, [item.name for item in self._applied_objects(name)])
        except LakewardError as error:
            self.give_up(error)
            return None

    def give_up(self, error: LakewardError) -> None:
        """Ask the source no more, and warn that it failed to answer."""
        if self.port is not None:
            self.warnings.append(f"The number of waiting messages is unknown: {error.what}.")

    def _applied_objects(self, name: str) -> Sequence[SourceObject]:
        records = self.ledger.objects(name, ObjectState.APPLIED, ObjectState.ARCHIVED)
        return [record.object for record in records]

    def consistent_as_of(self, configured: Configuration, names: Iterable[TableName]) -> int | None:
        """Return the time up to which all transactions are in these tables, in microseconds since 1970."""
        if self.port is None or self.warnings:
            return None
        try:
            return self.port.consistent_as_of(
                [(configured.source_names[name], self._applied_objects(str(name))) for name in names]
            )
        except LakewardError as error:
            self.warnings.append(f"The time up to which tables are consistent is unknown: {error.what}.")
            return None


def _schema(configured: Configuration, tables: Sequence[str], *, as_json: bool) -> int:
    with container_of(configured) as container:
        target = container.target()
        names, code = choose_readable(configured, tables)
        changes = [
            (name, recorded)
            for name in names
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
            for name, recorded in changes
        ]
        documents.emit("status", {"schema_changes": listed, "exit_code": code})
        return code
    table = terminal.grid("table", "when", "file", "change", "policy")
    for name, recorded in changes:
        when, words = terminal.local_time(recorded.at), escaped(str(recorded.change))
        table.add_row(escaped(str(name)), when, escaped(recorded.object), words, recorded.policy.value)
    terminal.console().print(table if changes else "No column has changed.")
    return code


def _show(statuses: Iterable[_TableStatus], kind: str, *, has_backlog: bool) -> None:
    right = ("waiting", "lag", "rows", "held", "batch")
    more = ("waiting",) if has_backlog else ()
    headers = ("table", "format", "position", *more, "lag", "rows", "held", "batch", "last commit", "")
    table = terminal.grid(*headers, right=right)
    for status in statuses:
        waiting = ("–" if status.waiting is None else f"{status.waiting:,}",) if has_backlog else ()
        name, state, progress = status.name, status.state, status.state.progress
        failed = "[red]failed[/]" if status.has_failed else ""
        if not progress.batch:
            dashes = ["–"] * 5
            table.add_row(escaped(str(name)), kind, "nothing applied yet", *waiting, *dashes, failed)
            continue
        time = progress.time
        position = escaped(progress.object or "–") if time is None else terminal.local_time(time)
        lag = terminal.ago(time, _moment(state.committed)) if time is not None and state.committed else "–"
        inexact = f"[yellow]inexact since {escaped(progress.inexact_since)}[/]" if progress.inexact_since else ""
        table.add_row(
            escaped(str(name)),
            kind,
            position,
            *waiting,
            lag,
            f"{progress.rows:,}",
            f"{progress.held:,}",
            f"{progress.batch:,}",
            f"{terminal.ago(state.committed)} ago" if state.committed else "–",
            " · ".join(word for word in (inexact, failed, status_words(status.verdict)) if word),
        )
    terminal.console().print(table)


def _alarms_of(table: str, progress: Progress, now: int, acked: Mapping[str, Collection[str]]) -> Sequence[Alarm]:
    back = [] if progress.backwards is None else [progress.backwards]
    duplicate_objects = [] if progress.twin is None else [progress.twin]
    return alarms(table, progress.ahead, back, duplicate_objects, now, acked)


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _document(status: _TableStatus) -> dict[str, Any]:
    state, progress = status.state, status.state.progress
    lag = None
    if progress.time is not None and state.committed is not None:
        lag = (state.committed - progress.time) / 1_000_000
    return {
        "table": str(status.name),
        "exists": state.schema is not None,
        **documents.progress(progress),
        "committed": documents.time(state.committed),
        "lag_seconds": lag,
        "messages_waiting": status.waiting,
        "alarms": [documents.alarm(alarm) for alarm in status.alarms],
        "awaited": documents.awaited(status.awaited),
        "last_error": documents.failure(status.failure),
        "against_source": None if status.verdict is None else verdict_document(status.verdict),
    }


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status", help=HELP)(status)
