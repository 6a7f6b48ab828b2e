"""Writes proposed settings as TOML, with a TODO comment at each value to confirm."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.settings.proposals import Proposal, ProposedTable
from lakeward.core.settings.source_catalogue import SourceTable

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Described:
    """The keys of [catalogue], if there is one, and its tables."""

    catalogue: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    tables: Mapping[TableName, SourceTable] = field(default_factory=dict)


def written(proposal: Proposal, described: Described, folder: str, config: Path) -> str:
    """Return the text of the settings file."""
    return "\n".join(_lines(proposal, described, folder, config)) + "\n"


def to_confirm(table: ProposedTable, known: SourceTable | None) -> Sequence[str]:
    """Return the values of a table that a person must confirm before the first run."""
    found = list(table.doubts)
    if known is not None:
        has = {column.name.lower() for column in known.columns}
        strange = [column.name for column in table.columns if column.name.lower() not in has and table.has_names]
        untyped = [f"{c.name} ({c.written})" for c in known.columns if c.type is None]
        found += [f"the catalogue has no column {name}, and the files have" for name in strange]
        found += [f"declare the type of {name}: the catalogue's has none here" for name in untyped]
        return found if known.key else [*found, _NO_KEY]
    if table.columns and not table.has_names:
        found.append("the files have no names of columns: name them, in this order")
    if any(column.type is not None for column in table.columns):
        found.append("types are proposed from a sample: what does not fit later goes into quarantine")
    found.append(f"the key {', '.join(table.key)} is proposed by its name" if table.key else _NO_KEY)
    return found


_NO_KEY: Final = "name the key: without one, rows are only ever added"


def _lines(proposal: Proposal, described: Described, folder: str, config: Path) -> Iterator[str]:
    yield "# Written by `lakeward init`. What is marked TODO is a proposal: confirm or correct it."
    yield "# docs/reference/settings.md has every key. Next: `lakeward plan`, which changes nothing."
    yield from ("", "[pipeline]", f"name = {_text(_pipeline(config))}")
    yield from ("", "[source]", f"kind = {_text(proposal.kind)}", f"path = {_text(path_in(folder, config))}")
    for key, value in proposal.settings.items():
        yield f"{key} = {_text(value)}    # TODO: {proposal.reasons.get(key, 'confirm it')}"
    yield from ("", "[target]", 'kind = "iceberg"', 'warehouse = "lake/"')
    if described.catalogue:
        yield from ("", "[catalogue]")
        yield from (f"{key} = {_value(value)}" for key, value in described.catalogue.items())
    else:
        yield ""
        yield "# The database of the source knows keys and types: docs/reference/catalogue.md"
        yield from ("# [catalogue]", '# kind = "file"', '# path = "schema.sql"', '# database = "postgresql"')
    for table in proposal.tables:
        yield from _table(table, described.tables.get(table.name))


def _table(table: ProposedTable, known: SourceTable | None) -> Iterator[str]:
    yield from ("", f"[tables.{_text(str(table.name))}]", f"# {_comment(table.found)}")
    for words in to_confirm(table, known):
        yield f"# TODO: {_comment(words)}"
    if table.source:
        yield f"source = {_value(table.source)}"
    if known is not None:
        yield f"# The catalogue: key {_comment(', '.join(known.key) or 'none')}"
        for column in known.columns:
            note = f", {column.comment}" if column.comment else ""
            yield f"#   {_comment(f'{column.name}: {column.written} → {column.type}{note}')}"
        return
    yield f"key = {_list(table.key)}" if table.key else "# key = []"
    typed = [column for column in table.columns if column.type is not None]
    if not typed:
        yield f"# columns, with the types of the files: {_comment(', '.join(c.name for c in table.columns))}"
        return
    yield from ("", f"[tables.{_text(str(table.name))}.columns]")
    yield from (f"{_key(column.name)} = {_text(str(column.type))}" for column in typed)


def _pipeline(config: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", config.absolute().parent.name).strip("-") or "pipeline"


def path_in(path: str, config: Path) -> str:
    """Return a path relative to the folder of the settings file if it is below it; a URL unchanged."""
    if "://" in path:
        return path
    base, real = config.absolute().parent, Path(path).absolute()
    shown = real.relative_to(base) if real.is_relative_to(base) else Path(os.path.normpath(real))
    return shown.as_posix() + ("/" if real.is_dir() else "")


def _text(value: str) -> str:
    """Return a text as a TOML string; its escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return _text(value)
    return "{ " + ", ".join(f"{_key(key)} = {_text(text)}" for key, text in value.items()) + " }"


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _comment(words: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())
