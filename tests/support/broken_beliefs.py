"""The reference adapter with mistakes in recorded versions: each class makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeward.adapters.memory import MemoryTable
from lakeward.core.events import Key
from lakeward.core.history.bitemporal import KnownVersion, KnownVersions
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan


class _Believes(MemoryTable):
    """Records other versions for the keys of a batch."""

    def beliefs_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> dict[Key, KnownVersions]:
        found = MemoryTable.beliefs_after(self, plan, rows)
        return {key: self.wrongly(plan.batch, beliefs) for key, beliefs in found.items()}

    def wrongly(self, batch: int, beliefs: KnownVersions) -> KnownVersions:
        raise NotImplementedError


class RemovesSupersededVersions(_Believes):
    """Removes superseded knowledge, like a history without it."""

    def wrongly(self, batch: int, beliefs: KnownVersions) -> KnownVersions:
        return tuple(belief for belief in beliefs if belief.known_to is None)


class RecordsVersionsABatchLate(_Believes):
    """Records the knowledge of a batch as that of the next one."""

    def wrongly(self, batch: int, beliefs: KnownVersions) -> KnownVersions:
        return tuple(replace(one, known_from=batch + 1) if one.known_from == batch else one for one in beliefs)


class OverwritesRecordedVersions(_Believes):
    """Overwrites a version with a new end or untracked value, as if it had always been so."""

    def wrongly(self, batch: int, beliefs: KnownVersions) -> KnownVersions:
        found = {begins(one): one for one in beliefs if one.known_to == batch}
        others = [one for one in beliefs if one.known_to != batch]
        anew = [
            replace(one, known_from=found.pop(begins(one)).known_from)
            if one.known_from == batch and begins(one) in found
            else one
            for one in others
        ]
        return (*anew, *found.values())


class EndsNothing(_Believes):
    """Never ends superseded knowledge."""

    def wrongly(self, batch: int, beliefs: KnownVersions) -> KnownVersions:
        return tuple(replace(belief, known_to=None) for belief in beliefs)


def begins(belief: KnownVersion) -> object:
    return belief.cells["valid_from"]


BY_LAW: Mapping[str, Sequence[type[MemoryTable]]] = {
    "recorded_versions_are_not_rewritten": (
        RemovesSupersededVersions,
        RecordsVersionsABatchLate,
        OverwritesRecordedVersions,
        EndsNothing,
    ),
}
"""Mistakes by the law of the conformance kit that must show them."""
