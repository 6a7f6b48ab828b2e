"""Messages of two databases go into one table only if an operator allows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from memory_jobs import INSERT, TableFeed, columns, event, item

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.checks.databases import DATABASE_ALARM
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import Sequences
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.operations.acknowledge import acknowledge
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.ports import Batch
from lakeward.core.progress import Progress

NAME = TableName("dbo", "customer")


@dataclass
class DatabaseSource(MemorySource):
    """A source of which each object is of one database."""

    databases: list[str] = field(default_factory=list)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        found = Counter(self.databases[item.order - 1] for item in selection.objects)
        return replace(batch, facts=replace(batch.facts, databases=found))


class Feed(TableFeed):
    """Delivers objects of one change each, of a database."""

    def __init__(self) -> None:
        super().__init__(item(columns(id="int"), name=NAME, sequences=Sequences.PLACES), DatabaseSource())

    def put(self, *databases: str) -> None:
        for database in databases:
            self.source.databases.append(database)
            order = len(self.source.databases)
            self.source.put(NAME, order, [event(INSERT, order, order, time=order)])

    def apply(self, *databases: str) -> None:
        self.put(*databases)
        apply_changes(self.job)

    def stops(self, *databases: str) -> AlarmRaised:
        """Deliver objects at which the table stops, however often it runs."""
        self.put(*databases)
        before = self.progress
        for _ in range(2):
            with pytest.raises(AlarmRaised) as raised:
                apply_changes(self.job)
        assert (raised.value.code, self.progress) == (DATABASE_ALARM, before)
        return raised.value

    def ack(self) -> None:
        acknowledge(self.job, DATABASE_ALARM, by="ada", reason=None, at=0)
        apply_changes(self.job)


def test_two_databases_in_one_batch_stop_the_table() -> None:
    feed = Feed()
    raised = feed.stops("crm1", "crm2", "crm1")
    assert raised.found == "messages of crm1 (2), crm2 (1)"
    feed.ack()
    assert feed.progress.databases == ("crm1", "crm2")


def test_a_database_stops_the_table_of_another_until_an_operator_decides() -> None:
    """An acknowledgement is for the databases that the alarm names: a third one raises it again."""
    feed = Feed()
    feed.apply("crm1", "crm1")
    feed.apply("crm1")
    assert Progress.from_json(feed.progress.to_json()).databases == ("crm1",)
    raised = feed.stops("crm2")
    assert raised.found == "messages of crm2 (1), and earlier ones of crm1"
    feed.ack()
    feed.apply("crm1", "crm2")
    raised = feed.stops("crm3")
    assert raised.about == ("crm3",)
