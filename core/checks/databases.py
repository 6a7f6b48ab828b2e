"""Check that the messages of a table name one database: rows of two databases with one key would become one row.

A database is named by the connector that reads it, and by its own name where rows name a schema as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised

DATABASE_ALARM: Final = "SOURCE-001"
"""The alarm of messages of several databases in one table."""

_MOST_SHOWN: Final = 5


def refuse_other_databases(
    table: TableName, databases: Mapping[str, int], before: Collection[str], acked: Collection[str]
) -> None:
    """Raise SOURCE-001 where the rows of a table come from more than one database.

    `databases` are those that messages of a batch name, with the number of messages, `before` those of earlier
    batches, and `acked` those that an operator acknowledged.
    """
    new_databases = sorted(databases.keys() - {*before, *acked})
    if not new_databases or len({*before, *databases}) < 2:
        return
    named = ", ".join(f"{name} ({databases[name]:,})" for name in sorted(databases)[:_MOST_SHOWN])
    more = " …" if len(databases) > _MOST_SHOWN else ""
    earlier = f", and earlier ones of {', '.join(sorted(before)[:_MOST_SHOWN])}" if before else ""
    raise AlarmRaised(
        "SOURCE-001",
        f"{table}: its messages are of more than one connector or database",
        found=f"messages of {named}{more}{earlier}",
        todo="Nothing of this batch was applied; other tables go on. Rows of two databases with one key would "
        "become one row. Let the files of each database lie in a folder of their own, and a pipeline of its own "
        "read them. If both are one table, as where a database was renamed or its connector made anew: "
        f"`lakeward ack {table} {DATABASE_ALARM}`.",
        about=new_databases,
    )


def add_databases(before: Collection[str] | None, added: Collection[str]) -> tuple[str, ...] | None:
    """Return the databases of a table after a batch, sorted, or None where there are none."""
    return tuple(sorted({*(before or ()), *added})) or None
