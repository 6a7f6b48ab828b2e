"""Rows in quarantine as people see them: what is held, apart from it what is final, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lakeward.core.dimension import TableName
from lakeward.core.memory import Reason
from lakeward.core.mending import ADVICE, is_fixable
from lakeward.core.ports import Entry
from lakeward.entrypoints import view
from lakeward.entrypoints.entries import key_words, named, place


def print_groups(out: Console, lines: Sequence[tuple[tuple[TableName, bool, str], list[Entry]]]) -> None:
    """Print what is held, and apart from it what holds nothing."""
    for is_final, title in (
        (False, "Held: later changes of their keys wait."),
        (True, "Final: they hold nothing."),
    ):
        some = [(name, reason, entries) for (name, final, reason), entries in lines if final is is_final]
        if not some:
            continue
        numbers = ("rows",) if is_final else ("rows", "keys", "waiting", "mended")
        table = view.grid("table", "reason", *numbers, "since", "what can be done", right=numbers)
        for name, reason, entries in some:
            keys = {entry.key: entry.waits for entry in entries}
            mended = sum(entry.mended is not None for entry in entries)
            counted = [len(entries), len(keys), sum(keys.values()), mended][: len(numbers)]
            oldest = view.ago(min(entry.since for entry in entries))
            words = [f"{number:,}" for number in counted]
            table.add_row(escape(str(name)), reason, *words, oldest, ADVICE[Reason(reason)])
        out.print(f"[bold]{title}[/]")
        out.print(table)


def print_entries(out: Console, entries: Sequence[Entry]) -> None:
    """Print rows one by one."""
    held = [entry for entry in entries if entry.is_held]
    final = [entry for entry in entries if not entry.is_held]
    if held:
        grid = view.grid("key", "since", "waits", "reason", "from", "as written", right=("waits",))
        for entry in held:
            _add(grid, entry, f"{entry.waits:,}")
        out.print(grid)
    if final:
        if held:
            out.print("[bold]These hold nothing:[/]")
        grid = view.grid("key", "since", "reason", "from", "as written")
        for entry in final:
            _add(grid, entry)
        out.print(grid)


def _add(grid: Table, entry: Entry, *waits: str) -> None:
    why = f"{entry.reason}: {escape(entry.detail)}"
    if entry.mended is not None:
        why += " [green](mended)[/]"
    shown = escape(key_words(entry))
    grid.add_row(shown, view.ago(entry.since), *waits, why, escape(place(entry)), Text(entry.text))


def print_next(out: Console, name: TableName, entries: Sequence[Entry]) -> None:
    """Say what can be done about the first row of each kind."""
    fixable = next((entry for entry in entries if is_fixable(entry) and entry.mended is None), None)
    mended = next((entry for entry in entries if entry.mended is not None), None)
    for words, verb, entry in (
        ("Fix the row:", "fix", fixable),
        ("Apply what is mended:", "replay", mended),
        ("Give it up:", "discard", entries[0]),
    ):
        if entry is not None:
            out.print(f"{words} `lakeward quarantine {verb} {escape(str(name))} {escape(named(entry))}`")
    for reason in sorted({entry.reason for entry in entries if not is_fixable(entry)}):
        out.print(f"{reason}: {ADVICE[Reason(reason)]}")


def print_more(out: Console, more: int) -> None:
    """Say how many a limit left out."""
    if more:
        out.print(f"… and {more:,} more; without --limit they are shown.")


def print_done(out: Console, word: str, entries: Sequence[Entry]) -> None:
    """Say of each row what was done with it."""
    for entry in entries:
        out.print(f"{word}: {escape(key_words(entry))}  {escape(place(entry))}  {escape(entry.text)}")
