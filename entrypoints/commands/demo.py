"""`lakeward demo`."""

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
