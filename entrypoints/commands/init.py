"""`lakeward init`: look at a folder, and write settings for it that a person confirms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakeward.core.catalogue import SourceTable
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Scout
from lakeward.core.proposals import Proposal
from lakeward.entrypoints import documents, view
from lakeward.entrypoints.context import DEFAULT_FILE, AsJson, Debug, start_logging
from lakeward.entrypoints.printable import escaped
from lakeward.entrypoints.proposing import Described, to_confirm, written
from lakeward.entrypoints.settings import validate
from lakeward.plugins import Runtime
from lakeward.plugins.manager import load, registry_of

HELP = """Look at a folder of files, and write settings for it: tables, keys, columns and types.

Keys and types are proposed from names and from a sample of the rows, and marked TODO: look at
each before the first run. Where a file describes the tables, as a dump of the schema does, name
it by --catalogue. Nothing is ever overwritten.

Example: [bold]lakeward init landing/ --catalogue shop.sql --database postgresql[/]
"""

Folder = Annotated[Path, typer.Argument(help="The folder of the files.")]
Output = Annotated[
    Path, typer.Option("--config", "-c", help="The settings file to write.", show_default=str(DEFAULT_FILE))
]
File = Annotated[
    Path | None, typer.Option("--catalogue", help="A file (or folder) that describes the tables, as SQL or JSON.")
]
Database = Annotated[
    str | None, typer.Option("--database", help="Whose SQL that is: postgresql, mariadb, mysql, sqlserver, oracle.")
]


def init(
    folder: Folder,
    config: Output = DEFAULT_FILE,
    catalogue: File = None,
    database: Database = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Look, write and show."""
    start_logging("off", debug=debug)
    if config.exists():
        raise _exists(config)
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", todo="Name the folder that the files lie in.")
    registry = registry_of(load())
    runtime = Runtime(_no_spark, Path(), config)
    proposal = _proposal(
        folder, [registry.scouts.build(kind, {"path": folder}, runtime) for kind in registry.scouts]
    )
    described = Described()
    if catalogue is not None:
        options = {"path": str(catalogue), **({} if database is None else {"database": database})}
        asked = registry.catalogues.build("file", options, runtime)
        described = Described(catalogue, database, asked.describe([table.name for table in proposal.tables]))
    content = written(proposal, described, folder, config)
    _check(content, config)
    try:
        with config.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as error:
        raise _exists(config) from error
    except OSError as error:
        raise ConfigError(f"{config} cannot be written", found=str(error)) from error
    if as_json:
        documents.emit(
            "init", {"file": str(config), "tables": _documents(proposal, described.tables), "exit_code": 0}
        )
    else:
        _show(proposal, described.tables, folder, config)
    return 0


def _no_spark() -> None:
    raise ConfigError("init starts no Spark")


def _exists(config: Path) -> ConfigError:
    return ConfigError(
        f"{config} is there already", todo="Nothing was changed. Name another file with --config, or move it away."
    )


def _proposal(folder: Path, scouts: Sequence[Scout]) -> Proposal:
    """Return what the source makes of the folder that finds the most tables in it."""
    found = [proposal for scout in scouts if (proposal := scout.look()) is not None]
    if not found:
        raise ConfigError(
            f"{folder} has no files of a source that is installed",
            found="looked for <schema>/<table>/LOAD00000001.csv, 20141029-113401000.csv and the like, as AWS DMS "
            "writes them",
            todo="Name the folder above those of the schemas. docs/dms-layouts.md has other layouts.",
        )
    return max(found, key=lambda proposal: len(proposal.tables))


def _check(content: str, config: Path) -> None:
    validate(tomllib.loads(content), config)


def _show(proposal: Proposal, described: Mapping[TableName, SourceTable], folder: Path, config: Path) -> None:
    out = view.console()
    out.print(f"Looked at {len(proposal.tables):,} table(s) in {escaped(str(folder))} ({proposal.kind}).")
    grid = view.grid("table", "key", "columns", "how it was found", right=("columns",))
    for table in proposal.tables:
        known = described.get(table.name)
        key = known.key if known is not None else table.key
        columns = len(known.columns) if known is not None else len(table.columns)
        how = table.found + (" · catalogue" if known is not None else "")
        grid.add_row(escaped(str(table.name)), escaped(", ".join(key)) or "?", f"{columns:,}", escaped(how))
    out.print(grid)
    todo = sum(len(to_confirm(table, described.get(table.name))) for table in proposal.tables)
    words = f"{todo:,} line(s) in it are marked TODO: confirm or correct them." if todo else "Look through it."
    out.print(f"Wrote {escaped(str(config))}. {words}")
    out.print(f"Next: edit {escaped(str(config))}, then `lakeward plan`")


def _documents(proposal: Proposal, described: Mapping[TableName, SourceTable]) -> list[Mapping[str, object]]:
    return [
        {
            "table": str(table.name),
            "found": table.found,
            "key": list(table.key),
            "columns": {c.name: None if c.type is None else str(c.type) for c in table.columns},
            "catalogue": table.name in described,
            "todo": list(to_confirm(table, described.get(table.name))),
        }
        for table in proposal.tables
    ]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", help=HELP)(init)
