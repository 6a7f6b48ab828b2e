"""Query the catalogue of the source, and store its answers in the state folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.schema import parse_type
from lakeward.core.settings.source_catalogue import (
    Answer,
    CatalogueAnswers,
    SourceColumn,
    SourceTable,
    answers_to_keep,
    changes,
)
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.settings.models.sections import CatalogueSettings
from lakeward.entrypoints.settings.patterns import table_name

_FILE: Final = "catalogue.json"
_VERSION: Final = 1


def recall(configured: Configured) -> Configured:
    """Return the settings with the answers of the catalogue stored by the last run; no request is made."""
    if configured.settings.catalogue is None:
        return configured
    return configured.with_said(CatalogueAnswers(answers=_read(configured.state)))


def ask(configured: Configured) -> Configured:
    """Query the catalogue and return the settings with its answers.

    Raises CatalogueUnreachable if it does not answer and `unreachable` is "stop" or no answer is stored, and
    ConfigError if its answer or the stored answers cannot be read.
    """
    settings = configured.settings.catalogue
    if settings is None:
        return configured
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with a catalogue

    container = Container(configured=configured)
    known = _read(configured.state)
    names = {name: asked_name(configured, name) for name in configured.tables if configured.asks(name)}
    try:
        found = container.catalogue().describe([*names.values()])
    except CatalogueUnreachable as error:
        if settings.unreachable == "stop" or not known:
            raise
        return configured.with_said(CatalogueAnswers(answers=known, warnings=[_unreachable(error)]))
    now = container.runtime().now()
    said = {name: _as_named(found[asked], name, settings) for name, asked in names.items() if asked in found}
    answers = {name: answers_to_keep(known.get(name, ()), table, now) for name, table in said.items()}
    new = {name: _new(known.get(name, ()), said.get(name)) for name in names}
    return configured.with_said(CatalogueAnswers(answers={**known, **answers}, changes=new))


def asked_name(configured: Configured, name: TableName) -> TableName:
    """Return the name of a table in the database."""
    own = configured.tables[name].catalogue.name
    return configured.read[name] if own is None else table_name(own)


def spelling(settings: CatalogueSettings) -> Callable[[str], str]:
    """Return the function that spells column names as the feed does."""
    return {"lower": str.lower, "upper": str.upper}.get(settings.names, str)


def _as_named(table: SourceTable, name: TableName, settings: CatalogueSettings) -> SourceTable:
    fold = spelling(settings)
    columns = tuple(replace(column, name=fold(column.name)) for column in table.columns)
    return replace(table, name=name, columns=columns, key=tuple(map(fold, table.key)))


def _new(before: Sequence[Answer], found: SourceTable | None) -> Sequence[str]:
    if found is None:
        known = "what it said last counts" if before else "the settings alone count"
        return [f"The catalogue has no such table: {known}."]
    return [f"At the source, {words}." for words in changes(before[-1].table, found)] if before else []


def _unreachable(error: CatalogueUnreachable) -> str:
    why = f" ({error.found})" if error.found else ""
    return f"The catalogue was not asked: {error.what}{why}. What it said last counts."


# Stored answers.


def remember(configured: Configured) -> None:
    """Store the answers of the catalogue; the caller holds the lock of the pipeline."""
    if configured.settings.catalogue is None:
        return
    tables = [
        {"schema": name.schema, "table": name.table, "answers": [_document(answer) for answer in answers]}
        for name, answers in sorted(configured.said.answers.items())
    ]
    file, unfinished = configured.state / _FILE, configured.state / f".{_FILE}"
    unfinished.write_text(json.dumps({"version": _VERSION, "tables": tables}, ensure_ascii=False), "utf-8")
    unfinished.replace(file)


def _document(answer: Answer) -> Mapping[str, Any]:
    table = answer.table
    columns = [{**asdict(c), "type": None if c.type is None else str(c.type)} for c in table.columns]
    return {"since": answer.since, "columns": columns, "key": list(table.key), "comment": table.comment}


def _read(state: Path) -> Mapping[TableName, Sequence[Answer]]:
    file = state / _FILE
    try:
        content = json.loads(file.read_text("utf-8"))
        if content["version"] != _VERSION:
            raise ValueError(f"it is of version {content['version']}, and this lakeward reads {_VERSION}")
        named = [(TableName(item["schema"], item["table"]), item["answers"]) for item in content["tables"]]
        return {name: tuple(_answer(name, one) for one in answers) for name, answers in named}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{file} cannot be read",
            found=str(error),
            todo="It has the answers of the catalogue in the last runs. Delete it, and the next run queries again.",
        ) from error


def _answer(name: TableName, said: Mapping[str, Any]) -> Answer:
    columns = tuple(
        SourceColumn(
            name=str(column["name"]),
            written=str(column["written"]),
            type=None if column["type"] is None else parse_type(column["type"]),
            comment=column["comment"],
        )
        for column in said["columns"]
    )
    return Answer(
        int(said["since"]),
        SourceTable(name=name, columns=columns, key=tuple(said["key"]), comment=said["comment"]),
    )
