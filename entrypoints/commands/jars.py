"""`lakeward jars`: the jars of this line, and fetching them."""

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

A run fetches what it needs by itself, once, and checks every jar against the hashes
that lakeward was tested with.

Example: [bold]lakeward jars[/]
"""

FETCH = """Fetch jars into the cache: those that a table format or catalog needs, or all.

With those of Iceberg's default catalog, a small pipeline then runs once, and Java keeps its classes as they are
when they are loaded, so that runs start sooner.

Example: [bold]lakeward jars fetch iceberg sqlite[/]
"""

ARCHIVE = """Keep Java's classes as they are once they are loaded, so that runs start sooner.

A small pipeline runs in a folder of its own, once. [bold]jars fetch[/] does it as well. Java passes the archive
over where jars or Java have changed; make it anew then.

Example: [bold]lakeward jars archive[/]
"""

_OF_THE_ARCHIVE: Final = ("iceberg", "sqlite")
"""What a run needs with the default settings."""

MakesArchive = Annotated[
    bool, typer.Option("--archive/--no-archive", help="Keep Java's classes too, for sooner starts (about 200 MB).")
]
Needs = Annotated[
    list[str] | None, typer.Argument(help="What needs them, as iceberg or sqlite.", show_default="all")
]


def list_jars(context: typer.Context, as_json: AsJson = False, debug: Debug = False) -> int:
    """List, unless a command follows."""
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
    """Fetch, and make the archive of Java's classes where it is not there."""
    known = sorted({jar.needed_by for jar in locked()})
    for need in needs or ():
        if need not in known:
            raise ConfigError(f"no jar is needed by {need!r}", found="known are " + ", ".join(known))
    jars = locked(needs) if needs else locked()
    for jar in jars:
        fetch(jar, terminal.Download(jar.file, jar.size))
    if not as_json:
        words = ("jar is in the cache, and is what it", "jars are in the cache, and are what they")
        terminal.console().print(f"{format_count(len(jars), *words)} should be.")
    is_wanted = archive and set(_OF_THE_ARCHIVE) <= {jar.needed_by for jar in jars}
    kept, failed = _tried() if is_wanted else (None, None)
    if as_json:
        told = {"archive_error": None if failed is None else documents.error(failed)}
        documents.emit("jars fetch", {**_document(jars), **_document_of(kept), **told, "exit_code": 0})
    elif failed is not None:
        out = terminal.console()
        out.print(f"Java's classes are not kept, so runs take longer to start: {escaped(failed.what)}.")
        out.print("Later: `lakeward jars archive`.")
    elif kept is not None:
        _show(kept)
    return 0


def archive_classes(as_json: AsJson = False, debug: Debug = False) -> int:
    """Make the archive of Java's classes."""
    for jar in locked(_OF_THE_ARCHIVE):
        fetch(jar, terminal.Download(jar.file, jar.size))
    kept = _kept(is_wanted_anew=True)
    if as_json:
        documents.emit("jars archive", {"line": line(), **_document_of(kept), "exit_code": 0})
    else:
        _show(kept)
    return 0


def _document(jars: Sequence[Jar]) -> dict[str, Any]:
    listed = [
        {"coordinates": j.coordinates, "needed_by": j.needed_by, "size": j.size, "cached": is_cached(j)}
        for j in jars
    ]
    return {"line": line(), "cache": str(cache()), "jars": listed}


def _document_of(kept: Path | None) -> dict[str, Any]:
    return {"archive": None if kept is None else {"path": str(kept), "size": kept.stat().st_size}}


def _show(kept: Path) -> None:
    size = f"{kept.stat().st_size / 1e6:.0f} MB"
    terminal.console().print(f"{escaped(str(kept))} has Java's classes, {size}. It may be removed at any time.")


def _tried() -> tuple[Path | None, LakewardError | None]:
    """Return the archive of Java's classes, made where it is not there, or why it could not be made."""
    try:
        return _kept(is_wanted_anew=False), None
    except LakewardError as error:
        return None, error


def _kept(*, is_wanted_anew: bool) -> Path:
    """Return the archive of Java's classes; it is made where it is not there, or wanted anew."""
    check_spark()
    from lakeward.adapters.spark.session.class_archive import archive_of  # noqa: PLC0415  # they import Spark
    from lakeward.entrypoints.startup.class_archive import make_archive  # noqa: PLC0415

    there = archive_of(check_java(), [cache() / jar.file for jar in locked(_OF_THE_ARCHIVE)])
    if there.exists() and not is_wanted_anew:
        return there
    waits = terminal.console(stderr=True).status("Running a small pipeline, which takes a minute …")
    with tempfile.TemporaryDirectory() as folder, waits:
        return make_archive(Path(folder))


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode="rich")
    group.callback()(list_jars)
    group.command("fetch", help=FETCH)(fetch_jars)
    group.command("archive", help=ARCHIVE)(archive_classes)
    app.add_typer(group, name="jars")
