"""Output for people: tables, errors, warnings, and progress bars on a terminal.

Numbers for programs are in `entrypoints.views.documents`; both use the words of
`docs/explanation/semantics.md`.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, LakewardError
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.merge.counts import Counts
from lakeward.core.pipeline.job import BATCH_STEPS, Report
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.views import documents, timestamps
from lakeward.entrypoints.views.safe_text import escaped, printable

if TYPE_CHECKING:
    from lakeward.entrypoints.runtime.table_run import TableRun


_LONGEST: Final = 60
"""Greatest number of shown characters of a value."""

_PARENTHESES: Final = re.compile(r" \([^()]*\)")


def console(*, stderr: bool = False) -> Console:
    """Return a console that does not wrap lines if the output is no terminal."""
    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = 10_000
    return out


def grid(*headers: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table in the style of all commands."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table


def error_lines(error: BaseException) -> list[str]:
    """Return the lines of an error: what is wrong, what was found, what to do."""
    if not isinstance(error, LakewardError):
        lines = f"error: {type(error).__name__}: {error}".splitlines()
        return [*lines, f"  {documents.defect_report(error)}"]
    rest = [line for part in (error.found, error.todo) if part for line in part.splitlines()]
    if isinstance(error, AlarmRaised):
        rest.append(f"{error.code} is explained in docs/reference/alarms.md")
    return [f"error: {error.what}", *[f"  {line}" for line in rest]]


def print_error(error: BaseException) -> None:
    """Print an error to standard error."""
    out = console(stderr=True)
    first, *rest = error_lines(error)
    out.print(f"[bold red]error:[/]{escaped(first.removeprefix('error:'))}", soft_wrap=True)
    for line in rest:
        out.print(escaped(line), soft_wrap=True)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings about the pipeline as a whole."""
    for words in warnings:
        console().print(f"[yellow]⚠[/] {escaped(words)}")


def print_awaited(table: TableName, awaited: AwaitedLoad | None) -> None:
    """Print the full load that a table waits for, if there is one."""
    if awaited is not None and awaited.is_pending:
        console().print(f"{escaped(str(table))} {escaped(awaited.describe())}")


def print_unconfigured(tables: Sequence[TableName]) -> None:
    """Print the tables of the source that are not configured; they are not read, and that is no error."""
    if tables:
        names = escaped(", ".join(map(str, tables[:10]))) + (" …" if len(tables) > 10 else "")
        count = format_count(len(tables), "table of the source is", "tables of the source are")
        console().print(f"{count} not configured, and not read: {names}")


def print_findings(cautions: Mapping[TableName, Iterable[str]], unconfigured: Sequence[TableName]) -> None:
    """Print the cautions of tables, and the unconfigured tables."""
    for tables, words in group_cautions(cautions):
        console().print(f"[yellow]⚠[/] {escaped(tables)}: {escaped(words)}")
    print_unconfigured(unconfigured)


def group_cautions(cautions: Mapping[TableName, Iterable[str]]) -> Sequence[tuple[str, str]]:
    """Return each kind of caution once, with the number of its tables and the first of their names.

    Two cautions are of one kind if they differ only in parentheses with the name of the table, which are left out.

    >>> one, other = TableName("shop", "a"), TableName("shop", "b")
    >>> group_cautions({one: ["No folder yet (shop/a)."], other: ["No folder yet (shop/b)."]})
    [('2 tables (shop.a, shop.b)', 'No folder yet.')]
    """
    kinds: dict[str, dict[TableName, str]] = {}
    for table, sentences in cautions.items():
        for words in sentences:
            kinds.setdefault(_without_name(words, table), {})[table] = words
    groups = []
    for kind, words_of in kinds.items():
        tables, texts = list(words_of), set(words_of.values())
        names = ", ".join(map(str, tables[:3])) + (" …" if len(tables) > 3 else "")
        subject = names if len(tables) == 1 else f"{format_count(len(tables), 'table')} ({names})"
        groups.append((subject, texts.pop() if len(texts) == 1 else kind))
    return groups


def _without_name(words: str, table: TableName) -> str:
    name = table.table.lower()
    return _PARENTHESES.sub(lambda match: "" if name in match[0].lower() else match[0], words)


def count_words(counts: Counts, *, every: bool = False) -> str:
    """Return counts as `10,283 applied · 27 superseded (1 tie)`; those that are 0 are left out."""
    tie = "tie, the later row wins" if counts.ties == 1 else "ties, the later rows win"
    ties = f" ({counts.ties:,} {tie})" if counts.ties else ""
    parts = [
        (counts.applied, "applied", ""),
        (counts.superseded, "superseded", ties),
        (counts.duplicates, "duplicates", ""),
        (counts.stale, "stale", "" if counts.superseded else ties),
        (counts.quarantined, "quarantined", ""),
        (counts.waiting, "waiting", ""),
        (counts.skipped, "skipped", ""),
        (counts.released, "released", ""),
    ]
    always = ("applied", "duplicates", "stale") if every else ("applied",)
    return " · ".join(
        f"{_count_text(number, name)}{more}" for number, name, more in parts if number or name in always
    )


def sum_words(counts: Counts) -> str:
    """Return the sum of a run: `70,193 read = 69,685 applied + 412 superseded`."""
    names = ("applied", "superseded", "duplicates", "stale", "quarantined", "waiting", "skipped")
    parts = [_count_text(number, name) for name in names if (number := getattr(counts, name))]
    return f"{counts.read:,} read = " + (" + ".join(parts) or "0 applied")


def _count_text(number: int, name: str) -> str:
    """Return a count with its name, `duplicates` in the singular for 1.

    >>> _count_text(1, "duplicates"), _count_text(2, "duplicates"), _count_text(1, "stale")
    ('1 duplicate', '2 duplicates', '1 stale')
    """
    return f"{number:,} {'duplicate' if (number, name) == (1, 'duplicates') else name}"


def quality_words(warnings: Mapping[str, int]) -> list[str]:
    """Return sentences about broken quality rules that only warn; another rule may have quarantined the row.

    >>> quality_words({"length(name)": 2})
    ['2 rows break length(name), which only warns.']
    """
    return [
        f"{format_count(rows, 'row breaks', 'rows break')} {name}, which only warns."
        for name, rows in warnings.items()
    ]


def local_time(micros: int | None, *, exact: bool = False) -> str:
    """Return a time of microseconds since 1970 in the local zone, with the zone; to the second, unless `exact`."""
    if micros is None:
        return "–"
    moment = timestamps.moment(micros)
    if moment is None:  # out of range: it can be shown in UTC only
        return timestamps.far(micros).replace("T", " ").replace("Z", " UTC")
    return _in_zone(moment, exact=exact)


def _in_zone(moment: datetime, *, exact: bool) -> str:
    with suppress(OverflowError):  # the last day of the year 9999 is out of range in some zones
        moment = moment.astimezone()
    fraction = f"{moment:.%f}".rstrip("0") if exact and moment.microsecond else ""
    return f"{moment.replace(tzinfo=None, microsecond=0).isoformat(' ')}{fraction} {moment:%Z}"


def cell(value: object) -> str:
    r"""Return a value of a row as one short line.

    >>> cell(None), cell(""), cell(b"\xca"), cell(True), cell(Decimal("1E-10"))
    ('NULL', "''", '0xca', 'true', '0.0000000001')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case "":
            return "''"
        case bytes():
            words = f"0x{value.hex()}"
        case datetime(tzinfo=zone) if zone is not None:
            words = _in_zone(value, exact=True)
        case Decimal():
            words = f"{value:f}"
        case _:
            words = str(value)
    line = printable(" ".join(words.split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def ago(micros: int, now: datetime | None = None) -> str:
    """Return the time since `micros` (microseconds since 1970) in its greatest unit.

    >>> ago(0, datetime(1970, 1, 1, 2, 30, tzinfo=UTC))
    '2 h'
    """
    seconds = max(0, int(((now or datetime.now(UTC)).timestamp()) - micros / 1_000_000))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


class Bars:
    """Progress bars, one per table, on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        self.progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._tasks: dict[TableName, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def step(self, table: TableName, name: str) -> None:
        """Move the bar of a table to a step of its batch."""
        task = self._task(table)
        self.progress.update(task, completed=BATCH_STEPS.index(name), state=name)

    def batch(self, table: TableName, report: Report) -> None:
        """Show the number of rows of a batch."""
        counts = report.counts
        state = f"batch {report.progress.batch}: {format_count(counts.read, 'row')}"
        self.progress.update(self._task(table), completed=len(BATCH_STEPS), state=state)

    def done(self, run: TableRun) -> None:
        """Complete the bar of a table."""
        state = "failed" if run.error else "done"
        self.progress.update(self._task(run.table), completed=len(BATCH_STEPS), total=len(BATCH_STEPS), state=state)

    def _task(self, table: TableName) -> TaskID:
        with self._lock:
            if table not in self._tasks:
                name = escaped(str(table))
                self._tasks[table] = self.progress.add_task(name, total=len(BATCH_STEPS), state="waiting")
            return self._tasks[table]


class Download:
    """Progress bar of the download of a jar; a line if there is no terminal."""

    def __init__(self, file: str, size: int) -> None:
        out = console(stderr=True)
        self.total = size
        self.progress = Progress(
            TextColumn(f"fetching {file}"),
            BarColumn(bar_width=20),
            DownloadColumn(),
            console=out,
            disable=not out.is_terminal,
            transient=True,
        )
        self.task = self.progress.add_task("", total=size)
        self.is_open = False
        self.is_terminal = out.is_terminal
        self.file = file

    def update(self, size: int) -> None:
        """Add `size` downloaded bytes; the bar is started by the first call of pooch."""
        if not self.is_open:
            self.is_open = True
            if not self.is_terminal:
                sys.stderr.write(f"fetching {self.file} ({self.total / 1e6:.0f} MB)\n")
            self.progress.start()
        self.progress.advance(self.task, size)

    def reset(self) -> None:
        """Restart the bar at zero."""
        self.progress.reset(self.task, total=self.total)

    def close(self) -> None:
        """Stop the bar."""
        self.progress.stop()
