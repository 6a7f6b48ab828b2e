"""Files that a sink writes of a topic, held to the laws of topics that arrival alone orders."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import landed_feeds
import pytest
from landed_feeds import Form, Line

from lakeward.adapters.sources import files
from lakeward.core.dimension import Dimension
from lakeward.plugins.testing import Feed, Item
from lakeward.plugins.testing.feeds import BEGIN, Law
from lakeward.plugins.testing.laws.sources import topic_restarts


def message(item: Item) -> Line:
    """Return a message of Debezium that tells no place in a log."""
    image = landed_feeds.own(item)
    operation = {"I": "c", "U": "u", "D": "d"}[landed_feeds.letter(item)]
    images = {"before": image, "after": None} if operation == "d" else {"before": None, "after": image}
    return {"op": operation, "source": {"schema": "shop", "table": "orders", "ts_us": item.time}, **images}


SINK = Form(
    name="orders+0+{:010}.json".format,
    line=message,
    write=lambda lines: "".join(f"{json.dumps(line)}\n" for line in lines).encode(),
)


@pytest.fixture(params=["source", "arrival"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Feed:
    """Return a topic of which a small batch is read without Spark."""
    spark: Any = None
    options = {"format": "debezium", "places": request.param}
    own = landed_feeds.feed(files.build, options, SINK, spark, tmp_path)

    def put_offsets(dimension: Dimension, place: int, items: Sequence[Item], written: int) -> None:
        own.put(dimension, place, items)
        file = tmp_path / "landing" / dimension.name.schema / dimension.name.table / SINK.name(place)
        os.utime(file, (BEGIN // 10**6 + written,) * 2)

    return replace(own, put_load=None, put_named=None, put_offsets=put_offsets)


@pytest.mark.parametrize("law", topic_restarts.LAWS)
def test_files_of_a_sink_hold_the_laws_of_topics(law: Law, feed: Feed) -> None:
    law(feed)
