"""`lakeward init`: inspect a folder, and write proposed settings for a person to confirm."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import SourceProbe
from lakeward.core.settings.proposals import Proposal
from lakeward.core.settings.secrets import SecretName
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.settings.proposal_file import ProposedCatalogue, relative_path, render, values_to_confirm
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Debug, start_logging
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped
from lakeward.plugins import Registry, Runtime
from lakeward.plugins.manager import load, registry_of

HELP = """Inspect a folder of files, and write settings for it: tables, keys, columns and types.

Keys and types are proposed from names and from a sample of the rows, and marked TODO: check each
before the first run. If a file such as a schema dump describes the tables, or their database can be
queried, name it with --catalogue. No file is overwritten.

Example: [bold]lakeward init landing/ --catalogue shop.sql --database postgresql[/]

Example: [bold]lakeward init s3://landing/dms --database mariadb --catalogue shop.sql[/]

Example: [bold]lakeward init landing/ --catalogue jdbc:postgresql://db/shop --user me --password env:PASSWORD[/]
"""

Folder = Annotated[
    str, typer.Argument(help="The folder of the files, or a prefix in a bucket: s3://bucket/prefix.")
]
Output = Annotated[
    Path, typer.Option("--config", "-c", help="The settings file to write.", show_default=DEFAULT_FILE)
]
Asked = Annotated[
    str | None,
    typer.Option(
        "--catalogue",
        help="Description of the tables: a file or folder of SQL or JSON, or the URL of the database (jdbc:…).",
    ),
]
Database = Annotated[
    str | None, typer.Option("--database", help="The SQL dialect: postgresql, mariadb, mysql, sqlserver, oracle.")
]
User = Annotated[str | None, typer.Option("--user", help="The user of the database.")]
Password = Annotated[
    str | None,
    typer.Option(
        "--password", help="Where the password is stored: env:NAME or file:PATH, never the password itself."
    ),
]


def init(
    folder: Folder,
    config: Output = Path(DEFAULT_FILE),
    catalogue: Asked = None,
    database: Database = None,
    user: User = None,
    password: Password = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Inspect the folder, write the settings file, and print the tables."""
    start_logging("off", debug=debug)
    if config.exists():
        raise _exists(config)
    if "://" not in folder and not Path(folder).is_dir():
        raise ConfigError(f"{folder} is no folder", todo="Name the folder of the files.")
    registry = registry_of(load())
    runtime = Runtime(_no_spark, Path(), config)
    runtime.secret = lambda name: registry.secrets.build(name.kind, {}, runtime).read(name.name)
    settings = _catalogue(catalogue, database=database, user=user, password=password)
    proposal = _proposal(
        folder, [registry.probes.build(kind, {"path": folder}, runtime) for kind in registry.probes]
    )
    proposed = _proposed_catalogue(registry, runtime, settings, [table.name for table in proposal.tables])
    content = render(proposal, proposed, folder, config)
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
            "init", {"file": str(config), "tables": _documents(proposal, proposed.tables), "exit_code": 0}
        )
    else:
        _show(proposal, proposed.tables, folder, config)
    return 0


def _catalogue(
    catalogue: str | None, *, database: str | None, user: str | None, password: str | None
) -> dict[str, str | Mapping[str, str]]:
    """Return the keys of [catalogue] for the options; none without --catalogue."""
    is_jdbc = catalogue is not None and catalogue.startswith("jdbc:")
    if not is_jdbc and (user or password):
        raise ConfigError(
            "--user and --password are for a database, and --catalogue names none",
            todo="Name it by its URL, as --catalogue jdbc:postgresql://db.example.org:5432/shop.",
        )
    if catalogue is None:
        return {}
    place = None if password is None else SecretName.read(password)
    keys = {
        "kind": "jdbc" if is_jdbc else "file",
        "url" if is_jdbc else "path": catalogue,
        "database": database,
        "user": user,
        "password": None if place is None else {place.kind: place.name},
    }
    return {key: value for key, value in keys.items() if value is not None}


def _proposed_catalogue(
    registry: Registry,
    runtime: Runtime,
    settings: Mapping[str, str | Mapping[str, str]],
    names: Sequence[TableName],
) -> ProposedCatalogue:
    """Query the catalogue; return its settings and its tables."""
    if not settings:
        return ProposedCatalogue()
    options = {key: value for key, value in settings.items() if key != "kind"}
    tables = registry.catalogues.build(str(settings["kind"]), options, runtime).describe(names)
    path = settings.get("path")
    own = {"path": relative_path(path, runtime.file)} if isinstance(path, str) else {}
    return ProposedCatalogue({**settings, **own}, tables)


def _no_spark() -> None:
    raise ConfigError("`lakeward init` does not start Spark")


def _exists(config: Path) -> ConfigError:
    return ConfigError(
        f"{config} exists already", todo="Nothing was changed. Name another file with --config, or move it away."
    )


def _proposal(folder: str, probes: Sequence[SourceProbe]) -> Proposal:
    """Return the best proposal: that of a source which knows the file names and finds the most tables."""
    proposals = [proposal for probe in probes if (proposal := probe.propose()) is not None]
    if not proposals:
        raise ConfigError(
            f"{folder} has no files of a source that is installed",
            found="looked for <schema>/<table>/LOAD00000001.csv, 20141029-113401000.csv and the like, as AWS DMS "
            "writes them, and for CSV, JSON lines or Parquet in <schema>/<table>/ or <table>/",
            todo="Name the folder that contains the folders of the tables. docs/reference/dms-layouts.md and "
            "docs/reference/plain-files.md have other layouts.",
        )
    return max(proposals, key=lambda proposal: (proposal.is_named, len(proposal.tables)))


def _check(content: str, config: Path) -> None:
    validate(tomllib.loads(content), config)


def _show(proposal: Proposal, tables: Mapping[TableName, SourceTable], folder: str, config: Path) -> None:
    out = terminal.console()
    out.print(f"Found {format_count(len(proposal.tables), 'table')} in {escaped(folder)} ({proposal.kind}).")
    grid = terminal.grid("table", "key", "columns", "how it was found", right=("columns",))
    for table in proposal.tables:
        source_table = tables.get(table.name)
        key = source_table.key if source_table is not None else table.key
        columns = len(source_table.columns) if source_table is not None else len(table.columns)
        how = table.evidence + (" · catalogue" if source_table is not None else "")
        grid.add_row(escaped(str(table.name)), escaped(", ".join(key)) or "?", f"{columns:,}", escaped(how))
    out.print(grid)
    todo = sum(len(values_to_confirm(table, tables.get(table.name))) for table in proposal.tables) + len(
        proposal.settings
    )
    words = (
        f"{format_count(todo, 'line in it is', 'lines in it are')} marked TODO: confirm or correct "
        f"{'it' if todo == 1 else 'them'}."
        if todo
        else "Check it."
    )
    out.print(f"Wrote {escaped(str(config))}. {words}")
    out.print(f"Next: edit {escaped(str(config))}, then `lakeward plan`")


def _documents(proposal: Proposal, tables: Mapping[TableName, SourceTable]) -> list[Mapping[str, object]]:
    return [
        {
            "table": str(table.name),
            "found": table.evidence,
            "key": list(table.key),
            "columns": {c.name: None if c.type is None else str(c.type) for c in table.columns},
            "catalogue": table.name in tables,
            "todo": list(values_to_confirm(table, tables.get(table.name))),
        }
        for table in proposal.tables
    ]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", help=HELP)(init)
