"""`lakeward verify`: look at tables whole: are they what lakeward promises of them?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import sleep
from typing import Annotated, Any, Literal

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.history.refusals import no_versions
from lakeward.core.history.version_checks import Finding, HistoryCheck, VersionRule
from lakeward.core.text.durations import DURATION, micros_of
from lakeward.core.text.numbers import format_count
from lakeward.core.verification.against_source import SourceAccess, verify_against_source
from lakeward.core.verification.history import check_history
from lakeward.core.verification.source_verification import Outcome, SourceVerification, WaitPolicy
from lakeward.entrypoints.runtime.join_run import job_of
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.catalogue import asked_name, spelling
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, error_groups, source_comparison, terminal
from lakeward.entrypoints.views.quarantine_entries import parts_of, words_of
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Check all rows of tables as they are now, whichever program wrote them. No table is changed.

--history checks the versions of each key by the rules of a history: at most one is current, no two overlap, none is
empty, and no two adjacent ones are equal. A run checks these rules before each commit, but only for the keys of its
batch. Without a table name, all histories are checked.

--against source compares the rows with those of the database of the source, which may change meanwhile: counts and
hashes by range of the key, and the keys of ranges that differ. A key counts as different only if two comparisons
found the same difference and its change can no longer be in transit: docs/how-to/verify.md.

Example: [bold]lakeward verify shop.customer --against source --wait 10m[/]
"""

History = Annotated[bool, typer.Option("--history", help="Check the versions of histories by their rules.")]
Against = Annotated[
    Literal["source"] | None, typer.Option("--against", help="Compare tables with the database of their source.")
]
Keys = Annotated[bool, typer.Option("--keys", help="List up to 1,000 differing keys, not only some of each kind.")]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="DURATION",
        help="The longest time that a change takes from the source into the table, such as 10m. If keys differ, "
        "they are compared again once the table has passed the first comparison, or after this time.",
    ),
]

_Result = tuple[TableName, str, HistoryCheck | LakewardError]


def verify(
    tables: Tables = None,
    history: History = False,
    against: Against = None,
    keys: Keys = False,
    wait: Wait = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Verify tables and print the results; the failure of one table stops no other."""
    if history is (against is not None):
        raise typer.BadParameter("give either --history or --against source")
    if against is None and (keys or wait is not None):
        raise typer.BadParameter("--keys and --wait are for --against source")
    if wait is not None and not DURATION.fullmatch(wait):
        raise typer.BadParameter('--wait must be a duration such as "10m" or "2h"')
    start_logging("off", debug=debug)
    configured = open_settings(config)
    if against is not None:
        patience = None if wait is None else micros_of(wait)
        return _verify_source(configured, tables or (), patience, with_keys=keys, as_json=as_json)
    with container_of(configured) as container:
        results = [
            _check_history(container, configured, name) for name in _choose_histories(configured, tables or ())
        ]
    failed = [documents.error(result) for *_, result in results if isinstance(result, LakewardError)]
    code = 3 if any(isinstance(result, HistoryCheck) and result.broken for *_, result in results) else 0
    code = documents.failure_code(failed) if failed else code
    if as_json:
        listed = [_document(name, result) for name, _, result in results]
        documents.emit("verify", {"tables": listed, "exit_code": code})
        return code
    _show(results)
    return code


def _verify_source(
    configured: Configuration, wanted: Sequence[str], patience: int | None, *, with_keys: bool, as_json: bool
) -> int:
    """Compare tables with their source, one after the other; return the exit code."""
    results: list[tuple[TableName, SourceVerification | LakewardError]] = []
    with container_of(configured) as container:
        container.database()
        for name in configured.choose(wanted):
            try:
                results.append((name, _compare(container, configured, name, patience)))
            except LakewardError as error:
                results.append((name, error))
    compared = [(name, result) for name, result in results if isinstance(result, SourceVerification)]
    failed = [(name, result) for name, result in results if isinstance(result, LakewardError)]
    code = _source_code({result.verdict.outcome for _, result in compared}, [result for _, result in failed])
    if as_json:
        listed = [source_comparison.document(name, result) for name, result in compared]
        listed += [{"table": str(name), "error": documents.error(result)} for name, result in failed]
        documents.emit("verify", {"tables": listed, "exit_code": code})
        return code
    source_comparison.show(compared, with_keys=with_keys)
    error_groups.print_errors(failed)
    return code


def _source_code(outcomes: Collection[Outcome], errors: Sequence[LakewardError]) -> int:
    """Return 3 if a table differs, else the code of an error, else 75 if a table is undecided, else 0."""
    if Outcome.DIFFERENT in outcomes:
        return 3
    if errors:
        return documents.failure_code(map(documents.error, errors))
    return 75 if Outcome.UNDECIDED in outcomes else 0


def _compare(
    container: Any, configured: Configuration, name: TableName, patience: int | None
) -> SourceVerification:
    settings = configured.settings.catalogue
    access = SourceAccess(
        database=container.database(),
        table=asked_name(configured, name),
        rules=configured.rules(name),
        spelled=str if settings is None else spelling(settings),
        is_debezium=_is_debezium(configured, name),
    )
    waiting = WaitPolicy(patience=patience, now=container.runtime().now, sleep=sleep)
    return verify_against_source(job_of(container, name), access, container.ledger(), waiting)


def _is_debezium(configured: Configuration, name: TableName) -> bool:
    """Return True if the values of a table are those of a Debezium connector, the default for a broker."""
    source = {**configured.settings.source, **configured.tables[name].source}
    default = "debezium" if source["kind"] == "kafka" else ""
    return str(source.get("format", default)).startswith("debezium")


def _choose_histories(configured: Configuration, wanted: Sequence[str]) -> Sequence[TableName]:
    """Return the named tables, or all histories; raises ConfigError for a named table that is no history."""
    chosen = configured.choose_any(wanted) or [*configured.tables, *configured.joined]
    histories = [name for name in chosen if _is_history(configured, name)]
    for name in chosen if wanted else ():
        if name not in histories:
            raise no_versions(name, "verify")
    if not histories:
        raise ConfigError(
            f"{configured.file}: no table keeps a history",
            todo='Set `mode = "history"` for a table (docs/explanation/history.md).',
        )
    return histories


def _is_history(configured: Configuration, name: TableName) -> bool:
    if name in configured.refused:
        return True  # it may be a history: its error is reported
    if name in configured.joined:
        return configured.joined[name].history is not None
    return configured.tables[name].mode == "history"


def _check_history(container: Any, configured: Configuration, name: TableName) -> _Result:
    joined = configured.joined.get(name)
    own = None if joined is None else joined.history
    column = configured.tables[name].history.valid_from if own is None else own.validity_columns.valid_from
    try:
        return name, column, check_history(job_of(container, name))
    except LakewardError as error:
        return name, column, error


def _document(name: TableName, result: HistoryCheck | LakewardError) -> Mapping[str, Any]:
    if isinstance(result, LakewardError):
        return {"table": str(name), "error": documents.error(result)}
    return {
        "table": str(name),
        "keys": result.keys,
        "versions": result.versions,
        "broken": {rule.name.lower(): result.broken.get(rule, 0) for rule in VersionRule},
        "examples": [
            {"key": parts_of(example.key), "rule": example.rule.name.lower(), "begins": example.begins}
            for example in result.examples
        ],
    }


def _show(results: Sequence[_Result]) -> None:
    out, numbers = terminal.console(), ("keys", "versions", "keys that break a rule")
    grid = terminal.grid("table", *numbers, right=numbers)
    for name, _, result in results:
        if isinstance(result, HistoryCheck):
            counted = (result.keys, result.versions, result.wrong)
            grid.add_row(escaped(str(name)), *(f"{count:,}" for count in counted))
    if grid.row_count:
        out.print(grid)
    for name, column, result in results:
        if isinstance(result, LakewardError):
            terminal.print_error(result)
        elif result.broken:
            _show_broken(name, column, result)
    if any(isinstance(result, HistoryCheck) and result.broken for *_, result in results):
        out.print(
            "Another program has changed these versions. Correct them in the table by hand: "
            "docs/how-to/quarantine.md#versions-that-were-altered"
        )


def _show_broken(name: TableName, column: str, check: HistoryCheck) -> None:
    """Print for each rule the number of keys that break it, with examples."""
    out = terminal.console()
    out.print(f"[bold]{escaped(str(name))}[/]")
    for rule, keys in check.broken.items():
        out.print(f"  {format_count(keys, 'key')}: {escaped(rule.value)}")
        some = [finding for finding in check.examples if finding.rule is rule]
        for finding in some:
            out.print(f"    {escaped(_words(finding, column))}", soft_wrap=True)
        if keys > len(some):
            out.print(f"    … and {keys - len(some):,} more")


def _words(finding: Finding, column: str) -> str:
    return f"{words_of(finding.key)} ({column} = {finding.begins or 'NULL'})"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", help=HELP)(verify)
