"""`lakeward explain`: show all known events of one key and their outcomes, without starting a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET, Cell
from lakeward.core.merge.fold import Row
from lakeward.core.operations.explain import Step, explain
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.ports import TableState
from lakeward.core.schema_changes.evolution import old_names
from lakeward.core.text.literals import read_key
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.key_story import Story, key_words
from lakeward.entrypoints.views.safe_text import arguments, plain

HELP = """Explain one key: each known event, its origin, what it did, and why.

Events are in the order in which the table received them. The last line shows the stored row and
when it became visible. Nothing is changed, and Spark is not started.

For a key of several columns give one value after another; put `--` before a value that
begins with a dash.

Example: [bold]lakeward explain shop.customer 4711[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
KeyTexts = Annotated[list[str], typer.Argument(help="The key.")]


def explain_key(
    table: Table, key: KeyTexts, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Read the events of the key and print them; return 3 if the key is held, else 0."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with container_of(configured) as container:
        story = _story(container, name, key)
    code = 3 if story.is_held else 0
    if as_json:
        documents.emit("explain", {**_document(story), "held": story.is_held, "exit_code": code})
        return code
    _show(story)
    if story.is_held:
        command = f"lakeward quarantine show {arguments([str(name)])} {arguments(key)}"
        terminal.console().print(plain(f"Next: `{command}`"), soft_wrap=True)
    return code


def _story(container: Any, name: TableName, texts: list[str]) -> Story:
    target = container.target()
    source = container.source()
    dimension = container.configured().dimension(name, source.lateness, source.sequences)
    return read_consistently(
        name, lambda: target.table_state(dimension), partial(_read_story, target, dimension, texts)
    )


def _read_story(target: Any, dimension: Dimension, texts: list[str], state: TableState) -> Story:
    name = dimension.name
    if state.schema is None:
        todo = "Run `lakeward run`, which applies the files that wait."
        raise ConfigError(f"{name}: nothing was applied yet, so no key is known", todo=todo)
    former_names = old_names(state.schema, dimension.policies.renames)
    key = tuple(former_names.get(name, name) for name in dimension.key)
    dimension = replace(dimension, schema=state.schema, key=key)
    key_state = target.key_state(dimension, read_key(dimension, texts))
    if not key_state.has_content:
        raise ConfigError(
            f"{name}: the key {key_words(key_state.key)} is unknown",
            found="no row has it, and neither the change log nor the quarantine has an event of it",
            todo="It may be in files that are not applied yet (`lakeward plan`). Deletes are remembered for a "
            "limited time.",
        )
    return Story(dimension, key_state, explain(dimension, key_state))


def _show(story: Story) -> None:
    headers = ("event", "operation", "position", "batch", "from", "what it did")
    table = terminal.grid(*headers, right=("event", "batch"))
    before = story.before()
    if before is not None:
        table.add_row("–", "", "before", "", "", plain(before))
    for count, step in enumerate(story.steps, 1):
        operation = "" if step.operation is None else step.operation.value
        position = story.position(step)
        batch = "–" if step.batch is None else f"{step.batch:,}"
        place = plain(story.place(step.position))
        table.add_row(str(count), operation, position, batch, place, plain(story.what(step)))
    out = terminal.console()
    out.print(table)
    out.print(plain(f"stored now: {story.stored()}"))
    since = story.since()
    for line in [*([] if since is None else [since]), *story.unknown()]:
        out.print(plain(line))


def _document(story: Story) -> Mapping[str, Any]:
    key_state, progress = story.key_state, story.key_state.progress
    base = key_state.base
    return {
        "table": str(story.dimension.name),
        "key": [documents.cell(part) for part in key_state.key],
        "before": {"is_known": base is not None, "row": None if base is None else _row(story, base.row)},
        "events": [_event(story, count, step) for count, step in enumerate(story.steps, 1)],
        "stored": _stored_row(story),
        "visible": _visibility(story),
        "is_whole": story.is_whole,
        "lateness": type(story.dimension.lateness).__name__.lower(),
        "mark": documents.low_watermark(progress),
        "inexact_since": progress.inexact_since,
    }


def _stored_row(story: Story) -> Mapping[str, Any] | None:
    """Return the stored row; with soft deletes it has the field `deleted`."""
    stored = story.key_state.stored or story.key_state.deleted_row
    if stored is None:
        return None
    deletion = {"deleted": stored.row.deleted} if story.dimension.is_soft else {}
    return {**(_row(story, stored.row) or {}), **deletion}


def _row(story: Story, row: Row | None) -> Mapping[str, Any] | None:
    return None if row is None else {"cells": _cells(row.cells), **_place(story, row.position)}


def _place(story: Story, position: Any) -> Mapping[str, Any]:
    return {"position": position, "object": story.key_state.objects.get(position.object), "row": position.row}


def _visibility(story: Story) -> Mapping[str, Any] | None:
    batch = story.visible_with
    if batch is None:
        return None
    commit = story.key_state.commits.get(batch)
    return {
        "batch": batch,
        "since": None if commit is None else documents.time(commit.at),
        "commit": None if commit is None else commit.commit,
    }


def _event(story: Story, count: int, step: Step) -> Mapping[str, Any]:
    refused = step.quarantined
    return {
        "event": count,
        "operation": None if step.operation is None else step.operation.value,
        **_place(story, step.position),
        "time": documents.time(step.time),
        "batch": step.batch,
        "settled": step.settled,
        "verdict": step.verdict.name.lower(),
        "by": None if step.by is None else story.numbers[step.by],
        "tie": None if step.tie is None else story.numbers[step.tie],
        "alike": None if step.alike is None else story.numbers[step.alike],
        "key": [documents.cell(part) for part in step.key],
        "old_key": None if step.old_key is None else [documents.cell(part) for part in step.old_key],
        "changes": {name: _change(was, is_) for name, (was, is_) in step.changes.items()},
        "not_sent": list(step.unset),
        "kept": list(step.first_values),
        "quarantine": None
        if refused is None
        else {
            "reason": refused.reason.value,
            "detail": refused.detail,
            "text": refused.text,
            "given_up": refused.discarded_in,
        },
    }


def _change(was: Cell, is_: Cell) -> Mapping[str, Any]:
    after = {"after": documents.cell(is_)}
    return after if was is UNSET else {"before": documents.cell(was), **after}


def _cells(cells: Mapping[str, Cell]) -> Mapping[str, Any]:
    return {name: documents.cell(value) for name, value in cells.items() if value is not UNSET}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=HELP)(explain_key)
