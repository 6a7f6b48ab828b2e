"""Cases of messages that others wrote, through a broker that runs; the gate reads them from files.

`docs/reference/cases.md` lists them. `tests/test_cases_of_messages.py` reads the same files, and sends the other
cases through the broker itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import outside
import pytest
from brokers import RunningBroker
from case_topics import read_by_broker
from feed_reader import differences, expected
from message_cases import FEEDS

EACH = [(table, columns, options, feed) for table, columns, options, feeds in FEEDS for feed in feeds]


@pytest.mark.long
@pytest.mark.parametrize(("table", "columns", "options", "feed"), EACH)
def test_a_case_that_comes_through_a_broker_gives_the_table_that_it_had(
    tmp_path: Path,
    kafka_broker: RunningBroker,
    table: str,
    columns: dict[str, str],
    options: dict[str, Any],
    feed: tuple[str, str, str],
) -> None:
    case, names, result = feed
    folder = outside.case(case)
    found = read_by_broker(
        kafka_broker, None, tmp_path, folder / "input", table, ["id"], columns, names=names, **options
    )
    assert found.events
    assert not differences(found.rows, expected(folder / "expected" / result))
