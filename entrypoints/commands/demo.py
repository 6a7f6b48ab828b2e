"""`lakeward demo`: the main job on a database that really changes, with a crash on the way."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from lakeward.entrypoints.startup.context import AsJson, Debug, start_logging

HELP = """Mirror a small shop's database into a lake, kill the run in the middle, and compare the two.

The shop is a SQLite database that lives through a few hundred transactions; what AWS DMS
would have written of it goes through `lakeward run` batch by batch. All of it stays in
the folder, to look at and to go on with.

Example: [bold]lakeward demo[/]
"""

_FOLDER: Final = Path("lakeward-demo")


class Format(StrEnum):
    """The table formats of which the demo can show that they equal the database."""

    ICEBERG = "iceberg"
    DELTA = "delta"
    HUDI = "hudi"


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to make it.", show_default=str(_FOLDER))] = _FOLDER,
    format_: Annotated[Format, typer.Option("--format", help="The table format of the lake.")] = Format.ICEBERG,
    transactions: Annotated[int, typer.Option(min=100, help="How many transactions the shop lives through.")] = 400,
    seed: Annotated[int, typer.Option(help="Another number makes another shop.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Make a demo that is there already anew.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Play."""
    from lakeward.entrypoints.demo.walkthrough import Wish, play  # noqa: PLC0415  # other commands need none of it

    start_logging("off", debug=debug)
    return play(
        Wish(
            folder=folder, format=format_.value, transactions=transactions, seed=seed, again=force, as_json=as_json
        )
    )


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=HELP)(demo)
