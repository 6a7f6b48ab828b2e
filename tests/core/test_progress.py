"""The progress of a table is stored by names that stay, whatever its attributes are called."""

from __future__ import annotations

import json

from lakeward.core.events import Position, SourceOrder
from lakeward.core.progress import Progress


def test_a_record_of_an_earlier_version_is_read() -> None:
    found = Progress.from_json('{"batch":3,"epoch":1,"high_water":[1,20,3,9],"mark":[1,12]}')
    assert (found.high_watermark, found.low_watermark) == (Position(1, 20, 3, 9), SourceOrder(1, 12))


def test_watermarks_are_written_by_their_stored_names() -> None:
    written = json.loads(
        Progress(batch=3, high_watermark=Position(1, 20, 3, 9), low_watermark=SourceOrder(1, 12)).to_json()
    )
    assert (written["high_water"], written["mark"]) == ([1, 20, 3, 9], [1, 12])
    assert not {"high_watermark", "low_watermark"} & written.keys()
