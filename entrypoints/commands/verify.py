"""`lakeward verify`: look at tables whole: are they what lakeward promises of them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.history.check import Broken, Checked, Finding
from lakeward.core.history.refusing import no_versions
from lakeward.core.numerals import format_count
from lakeward.core.verifying import check_history
from lakeward.entrypoints import documents, view
from lakeward.entrypoints.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.entries import parts_of, words_of
from lakeward.entrypoints.joining import job_of
from lakeward.entrypoints.printable import escaped
from lakeward.entrypoints.settings import Configured

HELP = """Look at tables whole, as they are now, whoever has written to them; nothing is changed.

--history holds all versions of each key against the rules of a history: at most one is current, none overlap, none
is empty, no two that meet are equal. Each batch is checked by them before its commit, but of the keys that it
touches alone. Without the name of a table it is all that keep a history.

Example: [bold]lakeward verify shop.customer --history[/]
"""

History = Annotated[bool, typer.Option("--history", help="Hold the versions of histories against their rules.")]

_Result = tuple[TableName, str, Checked | LakewardError]


def verify(
    tables: Tables = None,
    history: History = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Look at each table; one that cannot be read hides no other."""
    if not history:
        raise typer.BadParameter("say what of them is to be verified: --history")
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with container_of(configured) as container:
        found = [_verified(container, configured, name) for name in _chosen(configured, tables or ())]
    failed = [documents.error(one) for *_, one in found if isinstance(one, LakewardError)]
    code = 3 if any(isinstance(one, Checked) and one.broken for *_, one in found) else 0
    code = documents.failure_code(failed) if failed else code
    if as_json:
        listed = [_document(name, one) for name, _, one in found]
        documents.emit("verify", {"tables": listed, "exit_code": code})
        return code
    _show(found)
    return code


def _chosen(configured: Configured, wanted: Sequence[str]) -> Sequence[TableName]:
    """Return the tables that are meant: those that are named, or all histories."""
    chosen = configured.choose_any(wanted) or [*configured.tables, *configured.joined]
    histories = [name for name in chosen if _is_history(configured, name)]
    for name in chosen if wanted else ():
        if name not in histories:
            raise no_versions(name, "verify")
    if not histories:
        raise ConfigError(
            f"{configured.file}: no table keeps a history",
            todo='A table with `mode = "history"` does (docs/history.md).',
        )
    return histories


def _is_history(configured: Configured, name: TableName) -> bool:
    if name in configured.joined:
        return configured.joined[name].history is not None
    return configured.tables[name].mode == "history"


def _verified(container: Any, configured: Configured, name: TableName) -> _Result:
    joined = configured.joined.get(name)
    own = None if joined is None else joined.history
    column = configured.tables[name].history.valid_from if own is None else own.shown.valid_from
    try:
        return name, column, check_history(job_of(container, name))
    except LakewardError as error:
        return name, column, error


def _document(name: TableName, one: Checked | LakewardError) -> Mapping[str, Any]:
    if isinstance(one, LakewardError):
        return {"table": str(name), "error": documents.error(one)}
    return {
        "table": str(name),
        "keys": one.keys,
        "versions": one.versions,
        "broken": {rule.name.lower(): one.broken.get(rule, 0) for rule in Broken},
        "examples": [
            {"key": parts_of(found.key), "rule": found.rule.name.lower(), "begins": found.begins}
            for found in one.examples
        ],
    }


def _show(found: Sequence[_Result]) -> None:
    out, numbers = view.console(), ("keys", "versions", "keys that break a rule")
    grid = view.grid("table", *numbers, right=numbers)
    for name, _, one in found:
        if isinstance(one, Checked):
            counted = (one.keys, one.versions, one.wrong)
            grid.add_row(escaped(str(name)), *(f"{count:,}" for count in counted))
    if grid.row_count:
        out.print(grid)
    for name, column, one in found:
        if isinstance(one, LakewardError):
            view.print_error(one)
        elif one.broken:
            _show_broken(name, column, one)
    if any(isinstance(one, Checked) and one.broken for *_, one in found):
        out.print(
            "Others have changed these versions. Put them right in the table, by hand: "
            "docs/quarantine.md#versions-that-were-altered"
        )


def _show_broken(name: TableName, column: str, one: Checked) -> None:
    """Print rule by rule how many keys break it, and some of them."""
    out = view.console()
    out.print(f"[bold]{escaped(str(name))}[/]")
    for rule, keys in one.broken.items():
        out.print(f"  {format_count(keys, 'key')}: {escaped(rule.value)}")
        some = [finding for finding in one.examples if finding.rule is rule]
        for finding in some:
            out.print(f"    {escaped(_words(finding, column))}", soft_wrap=True)
        if keys > len(some):
            out.print(f"    … and {keys - len(some):,} more")


def _words(finding: Finding, column: str) -> str:
    return f"{words_of(finding.key)} ({column} = {finding.begins or 'NULL'})"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", help=HELP)(verify)
