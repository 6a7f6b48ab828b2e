"""`lakeward jars`: list, fetch and archive the jars of the installed Spark line."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.jars import Jar, cache, fetch, is_cached, locked
from lakeward.adapters.spark.session.java import check_java, check_spark
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.startup.context import AsJson, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """List the jars of this Spark line and whether they are in the cache.

A run fetches missing jars itself, once, and checks every jar against the hash of the jar
that lakeward was tested with.

Example: [bold]lakeward jars[/]
"""

FETCH = """Fetch jars into the cache: those that a table format or catalog needs, or all.

If the jars of Iceberg's default catalog are among them, a small pipeline then runs once to write an archive of
Java's loaded classes, so that runs start faster.

Example: [bold]lakeward jars fetch iceberg sqlite[/]
"""

ARCHIVE = """Write an archive of Java's loaded classes, so that runs start faster.

A small pipeline runs once in a temporary folder. [bold]jars fetch[/] does it as well. Java ignores the archive if
jars or Java have changed; write it again then.

Example: [bold]lakeward jars archive[/]
"""

_OF_THE_ARCHIVE: Final = ("iceberg", "sqlite")
"""Needs of a run with the default settings."""

MakesArchive = Annotated[
    bool, typer.Option("--archive/--no-archive", help="Also write the archive of Java's classes (about 200 MB).")
]
Needs = Annotated[
    list[str] | None, typer.Argument(help="What needs the jars, such as iceberg or sqlite.", show_default="all")
]


def list_jars(context: typer.Context, as_json: AsJson = False, debug: Debug = False) -> int:
    """List the jars, unless a subcommand follows."""
    if context.invoked_subcommand is not None:
        return 0
    jars = locked()
    if as_json:
        documents.emit("jars", {**_document(jars), "exit_code": 0})
        return 0
    table = terminal.grid("jar", "needed by", "MB", "cached", right=("MB",))
    for jar in jars:
        table.add_row(jar.file, jar.needed_by, f"{jar.size / 1e6:.1f}", "yes" if is_cached(jar) else "no")
    out = terminal.console()
    out.print(table)
    out.print(f"line {line()} · cache {escaped(str(cache()))}")
    return 0


def fetch_jars(
    needs: Needs = None, archive: MakesArchive = True, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Fetch jars, and write the archive of Java's classes if it does not exist."""
    names = sorted({jar.needed_by for jar in locked()})
    for need in needs or ():
        if need not in names:
            raise ConfigError(f"no jar is needed by {need!r}", found="jars are needed by " + ", ".join(names))
    jars = locked(needs) if needs else locked()
    for jar in jars:
        fetch(jar, terminal.Download(jar.file, jar.size))
    if not as_json:
        words = ("jar is in the cache, with the right hash", "jars are in the cache, with the right hashes")
        terminal.console().print(f"{format_count(len(jars), *words)}.")
    is_wanted = archive and set(_OF_THE_ARCHIVE) <= {jar.needed_by for jar in jars}
    file, failed = _try_archive() if is_wanted else (None, None)
    if as_json:
        why = {"archive_error": None if failed is None else documents.error(failed)}
        documents.emit("jars fetch", {**_document(jars), **_document_of(file), **why, "exit_code": 0})
    elif failed is not None:
        out = terminal.console()
        out.print(f"The archive of Java's classes was not written: {escaped(failed.what)}. Runs start more slowly.")
        out.print("Next: `lakeward jars archive`")
    elif file is not None:
        _show(file)
    return 0


def archive_classes(as_json: AsJson = False, debug: Debug = False) -> int:
    """Write the archive of Java's classes."""
    for jar in locked(_OF_THE_ARCHIVE):
        fetch(jar, terminal.Download(jar.file, jar.size))
    file = _archive(replace=True)
    if as_json:
        documents.emit("jars archive", {"line": line(), **_document_of(file), "exit_code": 0})
    else:
        _show(file)
    return 0


def _document(jars: Sequence[Jar]) -> dict[str, Any]:
    listed = [
        {"coordinates": j.coordinates, "needed_by": j.needed_by, "size": j.size, "cached": is_cached(j)}
        for j in jars
    ]
    return {"line": line(), "cache": str(cache()), "jars": listed}


def _document_of(file: Path | None) -> dict[str, Any]:
    return {"archive": None if file is None else {"path": str(file), "size": file.stat().st_size}}


def _show(file: Path) -> None:
    size = f"{file.stat().st_size / 1e6:.0f} MB"
    words = f"The archive of Java's classes is {escaped(str(file))} ({size}). It may be deleted at any time."
    terminal.console().print(words)


def _try_archive() -> tuple[Path | None, LakewardError | None]:
    """Return the archive of Java's classes, written if it does not exist, or the error of writing it."""
    try:
        return _archive(replace=False), None
    except LakewardError as error:
        return None, error


def _archive(*, replace: bool) -> Path:
    """Return the archive of Java's classes; write it if it does not exist, or if it is to be replaced."""
    check_spark()
    from lakeward.adapters.spark.session.class_archive import archive_of  # noqa: PLC0415  # they import Spark
    from lakeward.entrypoints.startup.class_archive import make_archive  # noqa: PLC0415

    file = archive_of(check_java(), [cache() / jar.file for jar in locked(_OF_THE_ARCHIVE)])
    if file.exists() and not replace:
        return file
    status = terminal.console(stderr=True).status("Running a small pipeline, which takes a minute …")
    with tempfile.TemporaryDirectory() as folder, status:
        return make_archive(Path(folder))


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode="rich")
    group.callback()(list_jars)
    group.command("fetch", help=FETCH)(fetch_jars)
    group.command("archive", help=ARCHIVE)(archive_classes)
    app.add_typer(group, name="jars")
