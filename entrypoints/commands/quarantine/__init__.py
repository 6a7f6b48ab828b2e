"""`lakeward quarantine` and its subcommands."""

from lakeward.entrypoints.commands.quarantine.listing import add_to

__all__ = ["add_to"]
