"""Errors and alarms of several tables: a shared one is printed once, with one line for each table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, LakewardError
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

_ERROR, _ALARM = "[bold red]error:[/]", "[bold yellow]alarm:[/]"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or alarm of a table, in its three parts; `code` is the code of an alarm, `note` a last line."""

    table: TableName
    what: str
    found: str | None
    todo: str | None
    code: str | None = None
    note: str | None = None

    @property
    def kind(self) -> tuple[str | None, str, str]:
        """The parts by which problems are grouped: code, what is wrong and what to do, without the table's name."""
        return self.code, self._without_table(self.what), self._without_table(self.todo or "")

    def _without_table(self, words: str) -> str:
        own = words.removeprefix(f"{self.table}: ")
        return re.sub(rf"(?<![\w.]){re.escape(str(self.table))}(?!\w)", "TABLE", own)

    @property
    def lines(self) -> Sequence[str]:
        """The lines to print for a problem of one table; the first says what is wrong."""
        code = None if self.code is None else _page_words(self.code)
        rest = "\n".join(part for part in (self.found, self.todo, code, self.note) if part)
        return [self.what, *rest.splitlines()]


def print_errors(errors: Iterable[tuple[TableName, BaseException]]) -> None:
    """Print the errors of tables to standard error."""
    _print(_ERROR, [_of_error(table, error) for table, error in errors])


def print_failures(failures: Iterable[tuple[TableName, Failure]]) -> None:
    """Print the errors that ended the last runs of tables to standard error."""
    problems = []
    for table, failure in failures:
        since = f"{table} failed {terminal.ago(failure.at)} ago; no run of it has ended without an error since."
        problems.append(Problem(table, failure.what, failure.found, failure.todo, note=since))
    _print(_ERROR, problems)


def print_alarms(alarms: Iterable[tuple[TableName, Alarm]]) -> None:
    """Print the alarms of tables to standard error."""
    _print(_ALARM, [Problem(table, alarm.what, alarm.found, alarm.todo, alarm.code) for table, alarm in alarms])


def _of_error(table: TableName, error: BaseException) -> Problem:
    if not isinstance(error, LakewardError):
        return Problem(table, f"{type(error).__name__}: {error}", None, documents.defect_report(error))
    code = error.code if isinstance(error, AlarmRaised) else None
    return Problem(table, error.what, error.found, error.todo, code)


def _print(label: str, problems: Sequence[Problem]) -> None:
    out = terminal.console(stderr=True)
    groups: dict[tuple[str | None, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.kind, []).append(problem)
    for group in groups.values():
        first, *rest = group[0].lines if len(group) == 1 else lines_of_group(group)
        out.print(f"{label} {escaped(first)}", soft_wrap=True)
        for line in rest:
            out.print(f"  {escaped(line)}", soft_wrap=True)


def lines_of_group(problems: Sequence[Problem]) -> Sequence[str]:
    """Return the lines to print for a shared problem: what is wrong, one line per table, what to do."""
    code, what, todo = problems[0].kind
    lines = [f"{format_count(len({problem.table for problem in problems}), 'table')}: {what}"]
    for problem in problems:
        words = "; ".join(line for part in (problem.found, problem.note) if part for line in part.splitlines())
        lines.append(f"{problem.table}: {words}" if words else str(problem.table))
    return [*lines, *todo.splitlines(), *([] if code is None else [_page_words(code)])]


def _page_words(code: str) -> str:
    return f"{code} is explained in docs/reference/alarms.md"
