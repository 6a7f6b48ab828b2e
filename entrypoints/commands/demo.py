"""`lakeward demo`: mirror a changing database into a lake, with a crash on the way, and compare the two."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from lakeward.entrypoints.startup.context import AsJson, Debug, start_logging

HELP = """Mirror a small shop's database into a lake, kill the run in the middle, and compare the two.

The shop is a SQLite database with a few hundred transactions. The files that AWS DMS would have
written are applied by `lakeward run` batch by batch. Everything stays in the folder for inspection
and further runs.

Example: [bold]lakeward demo[/]
"""

_FOLDER: Final = Path("lakeward-demo")


class Format(StrEnum):
    """Table formats of the demo."""

    ICEBERG = "iceberg"
    DELTA = "delta"
    HUDI = "hudi"


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder of the demo.", show_default=str(_FOLDER))] = _FOLDER,
    format_: Annotated[Format, typer.Option("--format", help="The table format of the lake.")] = Format.ICEBERG,
    transactions: Annotated[int, typer.Option(min=100, help="Number of transactions of the shop.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the random data.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing demo.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Play the demo; return the exit code."""
    from lakeward.entrypoints.demo.walkthrough import DemoOptions, play  # noqa: PLC0415  # slow to import

    start_logging("off", debug=debug)
    return play(
        DemoOptions(
            folder=folder, format=format_.value, transactions=transactions, seed=seed, again=force, as_json=as_json
        )
    )


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=HELP)(demo)
