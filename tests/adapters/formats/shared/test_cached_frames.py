"""Frames that are kept for what is worked out of them are freed where that fails."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakeward.adapters.formats.shared.joined import joined_table
from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable
from lakeward.adapters.formats.shared.resolution import resolver
from lakeward.adapters.formats.shared.resolution.steps import verdicts
from lakeward.adapters.formats.shared.resolution.steps.verdicts import RowVerdicts
from lakeward.adapters.formats.shared.resolution.strategies import whole_rows
from lakeward.adapters.formats.shared.resolution.strategies.whole_rows import resolve_whole_rows
from lakeward.adapters.spark.joined.difference import Difference
from lakeward.core.merge.counts import Counts
from lakeward.core.ports import MergeResult


class Full(Exception):
    """No space is left."""


@dataclass
class Frame:
    """A frame of which nothing can be asked, and which knows whether it is kept."""

    is_kept: bool = False

    def persist(self) -> Frame:
        self.is_kept = True
        return self

    def unpersist(self) -> None:
        self.is_kept = False

    def count(self) -> int:
        raise Full

    def where(self, _: str) -> Frame:
        return self


def fails(*_: object, **__: object) -> Any:
    raise Full


def resolve_joined(patch: pytest.MonkeyPatch, found: Difference) -> None:
    declared = SimpleNamespace(name="dw.joined", history=None)
    joining: Any = SimpleNamespace(joined=declared)
    joint: Any = JoinedLakeTable("joined", joining, *[SimpleNamespace()] * 3)  # type: ignore[arg-type]
    patch.setattr(joined_table, "sources_of", lambda _: {})
    patch.setattr(joined_table, "join_frames", lambda *_: None)
    patch.setattr(joined_table, "compare_mirror", lambda *_: found)
    patch.setattr(JoinedLakeTable, "_stored_rows", lambda *_: None)
    joint._resolved(SimpleNamespace(since=(), before=(), reasons=()), None, None, None)


def test_frames_of_a_joined_table_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    cached: Any = Frame(is_kept=True)
    with pytest.raises(Full):
        resolve_joined(monkeypatch, Difference(cached, cached, cached))
    assert not cached.is_kept


@pytest.mark.parametrize("step", ["counts", "winners"])
def test_frames_of_a_batch_of_whole_rows_are_freed(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    judged = Frame()
    kept, plan, arrived, rows = (cast("Any", SimpleNamespace()) for _ in range(4))
    plan.recalls, plan.releases, arrived.frame, rows.table = False, (), Frame(), None
    plan.evolution, plan.folds_remembered = SimpleNamespace(lacks_columns=False), False
    verdicts_of = RowVerdicts(frame=cast("Any", judged), sums={}, cached=[cast("Any", judged)])
    monkeypatch.setattr(whole_rows, "judge_events", lambda *_, **__: verdicts_of)
    monkeypatch.setattr(whole_rows, "events_of", lambda frame: frame)
    monkeypatch.setattr(whole_rows, "split_by_holds", lambda *_: (Frame(), None))
    monkeypatch.setattr(whole_rows, "counts", lambda *_: (Counts(), 1, 0))
    monkeypatch.setattr(whole_rows, step, fails)
    with pytest.raises(Full):
        resolve_whole_rows(kept, plan, arrived, rows)
    assert not judged.is_kept


def test_verdicts_that_cannot_be_counted_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Frame()
    monkeypatch.setattr(verdicts, "verdicts", lambda *_: judged)
    monkeypatch.setattr(verdicts, "has_few_rows", lambda _: False)
    monkeypatch.setattr(verdicts, "sums_of", fails)
    nothing: Any = None
    with pytest.raises(Full):
        verdicts.judge_events(nothing, nothing, nothing, remembers_all=True)
    assert not judged.is_kept


def test_frames_of_a_full_load_that_replaces_all_rows_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Frame(is_kept=True)
    resolved = MergeResult(counts=Counts(), written=0, removed=0, detail=SimpleNamespace(), close=judged.unpersist)
    kept: Any = SimpleNamespace(spark=fails)
    plan: Any = SimpleNamespace(dimension=SimpleNamespace(history=None, is_soft=False))
    frame: Any = None
    monkeypatch.setattr(resolver, "merge", lambda *_: resolved)
    monkeypatch.setattr(resolver, "Rows", lambda *_: judged)
    with pytest.raises(Full):
        resolver.reload(kept, plan, frame, None)
    assert not judged.is_kept
