"""`lakeward quarantine` and the commands below it."""

from lakeward.entrypoints.commands.quarantine.listing import add_to

__all__ = ["add_to"]
