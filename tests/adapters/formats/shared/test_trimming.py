"""The change log is folded into base rows only when the low watermark has passed a remembered event."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.formats.shared.change_log.entries import KIND
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName, Unbounded
from lakeward.core.events import SourceOrder
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema


@pytest.mark.parametrize(
    ("low_watermark", "passed_events", "is_folded"),
    [
        pytest.param(SourceOrder(1, 7), 1, True, id="an event has passed"),
        pytest.param(SourceOrder(1, 7), 0, False, id="no event has passed"),
        pytest.param(SourceOrder(2, 7), 1, False, id="a low watermark of another epoch"),
        pytest.param(None, 1, False, id="no low watermark"),
    ],
)
def test_events_are_folded_once_some_have_passed(
    monkeypatch: pytest.MonkeyPatch, low_watermark: SourceOrder | None, passed_events: int, is_folded: bool
) -> None:
    """Otherwise all entries would be read and written again every 32 batches."""
    folded, conditions = list[object](), list[str]()

    def rows(condition: str, _wanted: object) -> pa.Table:
        conditions.append(condition)
        return pa.table({KIND: ["change"] * passed_events})

    nothing: Any = lambda *_: None  # noqa: E731
    monkeypatch.setattr(retention, "fold_into_bases", lambda *given: folded.append(given))
    monkeypatch.setattr(retention, "spread", lambda *_: nullcontext())
    change_log: Any = SimpleNamespace(
        dimension=Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id",), lateness=Unbounded()),
        has_parts=True,
        batches=SimpleNamespace(objects=nothing, ordered_until=0),
        events=lambda _upto: SimpleNamespace(sparkSession=None, count=lambda: 1),
        table=SimpleNamespace(rows=rows, forget=nothing, gather=nothing, expire=lambda: None),
    )
    retention.trim(change_log, Progress(batch=32, epoch=1, low_watermark=low_watermark), (), nothing, nothing)
    assert bool(folded) is is_folded
    if low_watermark == SourceOrder(1, 7):
        assert conditions == [
            f"{KIND} in ('delete', 'change') and {names.BATCH} <= 32 and {names.EPOCH} = 1"
            f" and {names.SEQUENCE} <= 7"
        ]
