"""Frames that are kept for what is worked out of them are freed where that fails."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.spark.differing import Difference
from lakeward.adapters.tables import joining, resolving
from lakeward.adapters.tables.joining import Joint
from lakeward.adapters.tables.resolving import Resolver
from lakeward.core.counts import Counts


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
    joint: Any = Joint("joined", SimpleNamespace(joined=declared), *[SimpleNamespace()] * 3)  # type: ignore[arg-type]
    patch.setattr(joining, "sides", lambda _: {})
    patch.setattr(joining, "made", lambda *_: None)
    patch.setattr(joining, "mirrored", lambda *_: found)
    patch.setattr(Joint, "_needs_changes", lambda *_: False)
    patch.setattr(Joint, "_stands", lambda *_: None)
    joint._resolved(SimpleNamespace(since=(), before=(), whole=()), None, None, None)


def test_of_a_joined_table(monkeypatch: pytest.MonkeyPatch) -> None:
    cached: Any = Frame(is_kept=True)
    with pytest.raises(Full):
        resolve_joined(monkeypatch, Difference(cached, cached, cached))
    assert not cached.is_kept


def judge(patch: pytest.MonkeyPatch, judged: Frame) -> Resolver:
    patch.setattr(resolving, "verdicts", lambda *_: judged)
    patch.setattr(resolving, "events_of", lambda frame: frame)
    patch.setattr(Resolver, "_part", lambda *_: (Frame(), None))
    return Resolver(SimpleNamespace(), SimpleNamespace(), fails)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["counts", "winners"])
def test_of_a_batch_of_whole_rows(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    judged = Frame()
    resolver: Any = judge(monkeypatch, judged)
    monkeypatch.setattr(resolving, "counts", lambda *_: (Counts(), 1, 0))
    monkeypatch.setattr(resolving, step, fails)
    plan, news = SimpleNamespace(recalls=False), SimpleNamespace(frame=Frame(), known=None)
    with pytest.raises(Full):
        resolver._judges(plan, news, SimpleNamespace(table=None))
    assert not judged.is_kept


def test_of_a_full_load_that_takes_the_place_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Frame(is_kept=True)
    resolver: Any = Resolver(SimpleNamespace(), SimpleNamespace(), fails)  # type: ignore[arg-type]
    resolved = resolving.Resolved(
        counts=Counts(), written=0, removed=0, detail=SimpleNamespace(), close=judged.unpersist
    )
    monkeypatch.setattr(Resolver, "merge", lambda *_: resolved)
    monkeypatch.setattr(resolving, "Rows", lambda *_: judged)
    with pytest.raises(Full):
        resolver.reload(SimpleNamespace(dimension=SimpleNamespace(history=None, is_soft=False)), None, None)
    assert not judged.is_kept
