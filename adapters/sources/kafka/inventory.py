"""The inventory of a broker's topics, without reading messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.kafka.broker import Broker
from lakeward.adapters.sources.kafka.topics import SEPARATOR
from lakeward.adapters.sources.landing.places import fill_template
from lakeward.core.dimension import TableName
from lakeward.core.text.suggestions import nearest


@dataclass
class KafkaSourceInventory:
    """The topics of a broker as they are at the first request."""

    options: FilesOptions
    broker: Broker
    of_tables: Mapping[TableName, FilesOptions]

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have a topic; none where all tables share one."""
        tables = (table_of(self.options.folder, topic) for topic in self._topics)
        return sorted(table for table in tables if table is not None)

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return nothing: each message names its table."""
        return []

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return a function that returns no tables: messages are no objects of a bucket."""
        return lambda _url: ()

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what an operator should know about a table, whatever its next batch is."""
        options, topic = self.of_tables.get(table, self.options), self.topic_of(table)
        cautions = [self._no_topic_caution(one) for one in topic.split(SEPARATOR) if one not in self._topics]
        if not options.orders_rows:
            cautions.append("`order_by` is not set: the records of a key are ordered by arrival.")
        return [*cautions, *options.message_cautions()]

    def topic_of(self, table: TableName) -> str:
        """Return the topic of a table, or several topics with a comma between."""
        return fill_template(self.of_tables.get(table, self.options).folder, table)

    def _no_topic_caution(self, topic: str) -> str:
        return " ".join(filter(None, (f"It has no topic yet ({topic}).", nearest(topic, self._topics))))

    @cached_property
    def _topics(self) -> Collection[str]:
        return self.broker.topics()


def table_of(template: str, topic: str) -> TableName | None:
    """Return the table of a topic, or None if its name does not have that form; schema names have no dots.

    >>> table_of("shop.{schema}.{table}", "shop.public.order.lines")
    TableName(schema='public', table='order.lines')
    """
    if "{schema}" not in template:
        return None
    pattern = re.escape(template).replace(r"\{schema\}", "(?P<schema>[^.]+)").replace(r"\{table\}", "(?P<table>.+)")
    match = re.fullmatch(pattern, topic)
    return None if match is None else TableName(match["schema"], match["table"])
