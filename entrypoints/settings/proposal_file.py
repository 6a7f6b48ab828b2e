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
class ProposedCatalogue:
    """The keys of [catalogue], empty without one, and the tables that the catalogue has."""

    keys: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    tables: Mapping[TableName, SourceTable] = field(default_factory=dict)


def render(proposal: Proposal, catalogue: ProposedCatalogue, folder: str, config: Path) -> str:
    """Return the text of the settings file."""
    return "\n".join(_lines(proposal, catalogue, folder, config)) + "\n"


def values_to_confirm(table: ProposedTable, source_table: SourceTable | None) -> Sequence[str]:
    """Return what a person must confirm about a table before the first run; `source_table` is in the catalogue."""
    items = list(table.cautions)
    if source_table is not None:
        names = {column.name.lower() for column in source_table.columns}
        extra = [column.name for column in table.columns if column.name.lower() not in names and table.has_names]
        untyped = [f"{c.name} ({c.written})" for c in source_table.columns if c.type is None]
        items += [f"the files have a column {name}, and the catalogue does not" for name in extra]
        items += [f"declare the type of {name}: lakeward has no type for the catalogue's" for name in untyped]
        return items if source_table.key else [*items, _NO_KEY]
    if table.columns and not table.has_names:
        items.append("the files have no names of columns: name them, in this order")
    if any(column.type is not None for column in table.columns):
        items.append("types are proposed from a sample: later rows that do not fit go into quarantine")
    items.append(f"the key {', '.join(table.key)} is proposed by its name" if table.key else _NO_KEY)
    return items


_NO_KEY: Final = "name the key: without one, the table is append-only"


def _lines(proposal: Proposal, catalogue: ProposedCatalogue, folder: str, config: Path) -> Iterator[str]:
    yield "# Written by `lakeward init`. Values with a TODO are proposals: confirm or correct them."
    yield "# docs/reference/settings.md has every key. Next: `lakeward plan`, which changes nothing."
    yield from ("", "[pipeline]", f"name = {_text(_pipeline(config))}")
    yield from ("", "[source]", f"kind = {_text(proposal.kind)}", f"path = {_text(relative_path(folder, config))}")
    for key, value in proposal.settings.items():
        yield f"{key} = {_text(value)}    # TODO: {proposal.reasons.get(key, 'confirm it')}"
    yield from ("", "[target]", 'kind = "iceberg"', 'warehouse = "lake/"')
    if catalogue.keys:
        yield from ("", "[catalogue]")
        yield from (f"{key} = {_value(value)}" for key, value in catalogue.keys.items())
    else:
        yield ""
        yield "# The database of the source knows keys and types: docs/reference/catalogue.md"
        yield from ("# [catalogue]", '# kind = "file"', '# path = "schema.sql"', '# database = "postgresql"')
    for table in proposal.tables:
        yield from _table(table, catalogue.tables.get(table.name))


def _table(table: ProposedTable, source_table: SourceTable | None) -> Iterator[str]:
    yield from ("", f"[tables.{_text(str(table.name))}]", f"# {_comment(table.evidence)}")
    for item in values_to_confirm(table, source_table):
        yield f"# TODO: {_comment(item)}"
    if table.source:
        yield f"source = {_value(table.source)}"
    if source_table is not None:
        yield f"# The catalogue: key {_comment(', '.join(source_table.key) or 'none')}"
        for column in source_table.columns:
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


def relative_path(path: str, config: Path) -> str:
    """Return a path relative to the folder of the settings file if it is below it; a URL unchanged."""
    if "://" in path:
        return path
    base, real = config.absolute().parent, Path(path).absolute()
    relative = real.relative_to(base) if real.is_relative_to(base) else Path(os.path.normpath(real))
    return relative.as_posix() + ("/" if real.is_dir() else "")


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


def _comment(text: str) -> str:
    """Return a text on one line, without characters that end a comment of TOML."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
