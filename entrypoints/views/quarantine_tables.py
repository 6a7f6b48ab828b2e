"""Tables of rows in quarantine for people: held rows, final rows, and what can be done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias

from rich.console import Console
from rich.table import Table

from lakeward.core.dimension import TableName
from lakeward.core.merge.change_log import Reason
from lakeward.core.ports import Entry
from lakeward.core.quarantine.replay import is_as_written
from lakeward.entrypoints.views import terminal
from lakeward.entrypoints.views.quarantine_entries import WAIT, QuarantinedTable, key_words, named, place, words_of
from lakeward.entrypoints.views.safe_text import escaped, plain

MOST_KEYS: Final = 10
"""Greatest number of listed keys; `--json` has them all."""

_LONGEST: Final = 300
"""Greatest number of shown characters of a reason, and of a row as it was written."""


Group: TypeAlias = tuple[bool, TableName, str, str, list[Entry]]
"""Rows that are listed in one line: whether they are final, table, reason, advice, and the rows."""


def grouped(rows: Sequence[tuple[QuarantinedTable, Entry]]) -> Sequence[Group]:
    """Group rows by whether they are final, by table, by reason and by advice."""
    groups: dict[tuple[bool, TableName, str, str], list[Entry]] = defaultdict(list)
    for quarantine, entry in rows:
        groups[not entry.is_held, quarantine.name, entry.reason, quarantine.advice(entry)].append(entry)
    return [(*group, entries) for group, entries in sorted(groups.items())]


def print_nothing(out: Console, *, is_any: bool) -> None:
    """Say that the quarantine is empty, or that no row matches the filters."""
    out.print("Nothing is in quarantine." if is_any else "No row in quarantine matches.")


def print_groups(out: Console, groups: Sequence[Group]) -> None:
    """Print one table of rows that hold their keys and one of final rows."""
    for is_final, title in (
        (False, "Held: later changes of their keys wait."),
        (True, "Final: no change waits behind them."),
    ):
        some = [group for group in groups if group[0] is is_final]
        if not some:
            continue
        numbers = ("rows",) if is_final else ("rows", "keys", "waiting", "repaired")
        table = terminal.grid("table", "reason", *numbers, "since", "what can be done", right=numbers)
        for _, name, reason, advice, entries in some:
            waits = sum({entry.key: entry.waiting_events for entry in entries}.values())
            keys = {key for entry in entries for key in entry.held_keys or ("",)}
            repaired = sum(entry.repaired is not None for entry in entries)
            counted = [len(entries), len(keys), waits, repaired][: len(numbers)]
            words = [f"{number:,}" for number in counted]
            table.add_row(escaped(str(name)), reason, *words, _oldest(entries), escaped(advice))
        out.print(f"[bold]{title}[/]")
        out.print(table)


def print_waiting_groups(out: Console, tables: Sequence[QuarantinedTable]) -> None:
    """Print the number of partial events of each table that wait for their row."""
    if not tables:
        return
    table = terminal.grid("table", "rows", "keys", "since", "what can be done", right=("rows", "keys"))
    for quarantine in tables:
        keys = {entry.key for entry in quarantine.incomplete}
        numbers = (f"{len(quarantine.incomplete):,}", f"{len(keys):,}")
        table.add_row(escaped(str(quarantine.name)), *numbers, _oldest(quarantine.incomplete), WAIT)
    out.print("[bold]Waiting: events with a part of a row that does not exist yet.[/]")
    out.print(table)


def _oldest(entries: Sequence[Entry]) -> str:
    return _ago(min((entry.since for entry in entries if entry.since), default=0))


def _ago(since: int) -> str:
    return terminal.ago(since) if since else ""


def print_waiting(out: Console, entries: Sequence[Entry]) -> None:
    """Print the partial events that wait for their row, one line each."""
    if not entries:
        return
    grid = terminal.grid("key", "since", "operation", "from", "what it lacks")
    for entry in entries:
        where = (escaped(place(entry)), escaped(entry.detail))
        grid.add_row(escaped(key_words(entry)), _ago(entry.since), entry.operation or "", *where)
    out.print("[bold]These wait for their row:[/]")
    out.print(grid)


def print_entries(out: Console, entries: Sequence[Entry]) -> None:
    """Print rows, one line each."""
    holding = [entry for entry in entries if entry.is_held]
    final = [entry for entry in entries if not entry.is_held]
    if holding:
        grid = terminal.grid("key", "since", "waits", "reason", "from", "as written", right=("waits",))
        for entry in holding:
            _add(grid, entry, f"{entry.waiting_events:,}")
        out.print(grid)
        for entry in holding:
            if entry.also_holds:
                others = ", ".join(words_of(key) for key in entry.also_holds[:MOST_KEYS])
                more = " …" if len(entry.also_holds) > MOST_KEYS else ""
                out.print(escaped(f"{key_words(entry)} also holds {others}{more}: a key change waits behind it."))
    if final:
        if holding:
            out.print("[bold]No change waits behind these:[/]")
        grid = terminal.grid("key", "since", "reason", "from", "as written")
        for entry in final:
            _add(grid, entry)
        out.print(grid)
    if any(len(words) > _LONGEST for entry in entries for words in (entry.detail, entry.text)):
        out.print(f"Texts of more than {_LONGEST} characters are cut (…); --json has them in full.")


def _add(grid: Table, entry: Entry, *waits: str) -> None:
    of = f" ({entry.operation})" if entry.reason == Reason.NO_KEY.value and entry.operation else ""
    why = f"{entry.reason}{of}: {escaped(_cut(entry.detail))}"
    if entry.repaired is not None:
        why += " [green](repaired)[/]"
    key = escaped(key_words(entry))
    grid.add_row(key, _ago(entry.since), *waits, why, escaped(place(entry)), plain(_cut(entry.text)))


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def print_next(out: Console, quarantine: QuarantinedTable, entries: Sequence[Entry]) -> None:
    """Print the commands for the first row of each kind."""
    fixable = next((entry for entry in entries if quarantine.is_fixable(entry) and entry.repaired is None), None)
    repaired = next((entry for entry in entries if entry.repaired is not None), None)
    written = next((entry for entry in entries if is_as_written(entry)), None)
    for words, verb, entry in (
        ("Fix the row:", "fix", fixable),
        ("Apply the repaired row:", "replay", repaired),
        ("Apply as written, once the table may follow:", "replay", written),
        ("Discard the row:", "discard", entries[0]),
    ):
        if entry is not None:
            out.print(
                f"{words} `lakeward quarantine {verb} {escaped(str(quarantine.name))} {escaped(named(entry))}`"
            )
    for reason, advice in sorted(
        {(e.reason, quarantine.advice(e)) for e in entries if not quarantine.is_fixable(e)}
    ):
        out.print(escaped(f"{reason}: {advice}"))


def print_more(out: Console, more: int) -> None:
    """Print the number of rows that --limit left out."""
    if more:
        out.print(f"… and {more:,} more, not shown because of --limit.")


def print_done(out: Console, word: str, entries: Sequence[Entry]) -> None:
    """Print what was done with each row."""
    for entry in entries:
        out.print(f"{word}: {escaped(key_words(entry))}  {escaped(place(entry))}  {escaped(entry.text)}")
