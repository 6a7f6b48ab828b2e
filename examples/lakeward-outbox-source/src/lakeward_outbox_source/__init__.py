"""A source for lakeward: changes that an application writes into a table `outbox` of its own database."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt

from lakeward.core.ledger.selection import Limits
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated
from lakeward_outbox_source.outbox import Outbox
from lakeward_outbox_source.source import OutboxInventory, OutboxSource

__all__ = ["Outbox", "OutboxInventory", "OutboxSource"]

LAKEWARD_API = (2, 0)


class OutboxOptions(BaseModel):
    """The keys of [source]."""

    model_config = ConfigDict(extra="forbid")

    file: str
    max_transactions: PositiveInt = 1000


def options_of(options: Options, runtime: Runtime) -> OutboxOptions:
    """Return the keys of [source], without `formats` and `tables`, which lakeward adds and this source ignores."""
    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    return validated(OutboxOptions, own, str(runtime.file), within="source")


def build(options: Options, runtime: Runtime) -> OutboxSource:
    """Build the source. Its database is opened when something is read."""
    settings = options_of(options, runtime)
    return OutboxSource(Outbox(runtime.base / settings.file), runtime.now, Limits(files=settings.max_transactions))


def build_inventory(options: Options, runtime: Runtime) -> OutboxInventory:
    """Build the inventory of tables from the same options."""
    return OutboxInventory(Outbox(runtime.base / options_of(options, runtime).file))


@hookimpl
def register(registry: Registry) -> None:
    """Register `outbox` as a source."""
    registry.sources.add("outbox", build)
    registry.inventories.add("outbox", build_inventory)
