"""Queries of the catalogue of the source, and its answers stored in the state folder."""

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
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.models.sections import CatalogueSettings
from lakeward.entrypoints.settings.patterns import table_name

_FILE: Final = "catalogue.json"
_VERSION: Final = 1


def with_stored_answers(configured: Configuration) -> Configuration:
    """Return the settings with the answers of the catalogue stored by the last run; no request is made."""
    if configured.settings.catalogue is None:
        return configured
    return configured.with_answers(CatalogueAnswers(answers=_read(configured.state)))


def query(configured: Configuration) -> Configuration:
    """Query the catalogue and return the settings with its answers.

    Raises CatalogueUnreachable if it does not answer and `unreachable` is "stop" or no answer is stored, and
    ConfigError if its answer or the stored answers cannot be read.
    """
    settings = configured.settings.catalogue
    if settings is None:
        return configured
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with a catalogue

    container = Container(configured=configured)
    stored = _read(configured.state)
    names = {name: asked_name(configured, name) for name in configured.tables if configured.asks(name)}
    try:
        tables = container.catalogue().describe([*names.values()])
    except CatalogueUnreachable as error:
        if settings.unreachable == "stop" or not stored:
            raise
        return configured.with_answers(CatalogueAnswers(answers=stored, warnings=[_unreachable(error)]))
    now = container.runtime().now()
    current = {
        name: _with_spelling(tables[source_name], name, settings)
        for name, source_name in names.items()
        if source_name in tables
    }
    answers = {name: answers_to_keep(stored.get(name, ()), table, now) for name, table in current.items()}
    changes_by_table = {name: _changes(stored.get(name, ()), current.get(name)) for name in names}
    return configured.with_answers(CatalogueAnswers(answers={**stored, **answers}, changes=changes_by_table))


def asked_name(configured: Configuration, name: TableName) -> TableName:
    """Return the name of a table in the catalogue."""
    own = configured.tables[name].catalogue.name
    return configured.source_names[name] if own is None else table_name(own)


def spelling(settings: CatalogueSettings) -> Callable[[str], str]:
    """Return the function that converts names of columns in the catalogue to those of the feed."""
    return {"lower": str.lower, "upper": str.upper}.get(settings.names, str)


def _with_spelling(table: SourceTable, name: TableName, settings: CatalogueSettings) -> SourceTable:
    spell = spelling(settings)
    columns = tuple(replace(column, name=spell(column.name)) for column in table.columns)
    return replace(table, name=name, columns=columns, key=tuple(map(spell, table.key)))


def _changes(before: Sequence[Answer], table: SourceTable | None) -> Sequence[str]:
    """Return sentences about what changed at the source since the last answer."""
    if table is None:
        used = "its last answer is used" if before else "only the settings are used"
        return [f"The catalogue has no such table: {used}."]
    return [f"At the source, {change}." for change in changes(before[-1].table, table)] if before else []


def _unreachable(error: CatalogueUnreachable) -> str:
    reason = f" ({error.found})" if error.found else ""
    return f"The catalogue was not asked: {error.what}{reason}. Its last answers are used."


# Stored answers.


def store_answers(configured: Configuration) -> None:
    """Store the answers of the catalogue; the caller holds the lock of the pipeline."""
    if configured.settings.catalogue is None:
        return
    tables = [
        {"schema": name.schema, "table": name.table, "answers": [_document(answer) for answer in answers]}
        for name, answers in sorted(configured.catalogue_answers.answers.items())
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
        tables = [(TableName(item["schema"], item["table"]), item["answers"]) for item in content["tables"]]
        return {name: tuple(_answer(name, answer) for answer in answers) for name, answers in tables}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{file} cannot be read",
            found=str(error),
            todo="It has the answers of the catalogue in the last runs. Delete it, and the next run queries again.",
        ) from error


def _answer(name: TableName, document: Mapping[str, Any]) -> Answer:
    columns = tuple(
        SourceColumn(
            name=str(column["name"]),
            written=str(column["written"]),
            type=None if column["type"] is None else parse_type(column["type"]),
            comment=column["comment"],
        )
        for column in document["columns"]
    )
    key, comment = tuple(document["key"]), document["comment"]
    return Answer(int(document["since"]), SourceTable(name=name, columns=columns, key=key, comment=comment))
