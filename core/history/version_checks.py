"""The rules of the versions of a key. They are checked before versions are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import ValidityColumns
from lakeward.core.history.versions import Columns, Version, Versions
from lakeward.core.text.literals import text_of


class VersionRule(Enum):
    """A rule that versions may break. The last two are rules of stored rows, which only other writers break."""

    EMPTY = "a version ends where it begins, or before"
    OVERLAP = "two versions are valid at once"
    TWO_CURRENT = "two versions are current"
    GAP = "between two versions there is none, though the row was not deleted"
    EQUAL = "a version is equal to the one that it follows at once"
    UNDATED = "a version does not say when it begins"
    CONTRARY = "the columns of a version contradict each other on whether it is current"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, and the version that breaks it."""

    rule: VersionRule
    version: Version

    def describe(self, form: ValidityColumns) -> str:
        """Return the rule in words, with the beginning of the version as the table shows it."""
        begins = text_of(value_of_instant(self.version.valid_from, form.type), form.type)
        return f"{self.rule.value} ({form.valid_from} = {begins})"


@dataclass(frozen=True, slots=True)
class Finding:
    """A key whose versions break a rule: the texts of its parts as a JSON list, the rule, and the version.

    `begins` is the beginning of the version as the table shows it, None where it has none.
    """

    key: str
    rule: VersionRule
    begins: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCheck:
    """The result of checking a whole history: the numbers of keys, of versions, and of keys by broken rule.

    A key counts once, by the first rule that it breaks. `examples` are a few of these keys for each rule, rule by
    rule.
    """

    keys: int = 0
    versions: int = 0
    broken: Mapping[VersionRule, int] = field(default_factory=dict)
    examples: Sequence[Finding] = ()

    @property
    def wrong(self) -> int:
        """The number of keys that break a rule."""
        return sum(self.broken.values())


def violation(columns: Columns, versions: Versions) -> Violation | None:
    """Return the first rule that the versions of a key break, or None."""
    for version in versions:
        if version.valid_to is not None and version.valid_to <= version.valid_from:
            return Violation(VersionRule.EMPTY, version)
    if len(current := [version for version in versions if version.is_current]) > 1:
        return Violation(VersionRule.TWO_CURRENT, current[0])
    for earlier, following in pairwise(versions):
        if earlier.valid_to is None or earlier.valid_to > following.valid_from:
            return Violation(VersionRule.OVERLAP, following)
        if earlier.valid_to < following.valid_from and not earlier.deleted:
            return Violation(VersionRule.GAP, following)
        if earlier.valid_to == following.valid_from and columns.same(earlier.cells, following.cells):
            return Violation(VersionRule.EQUAL, following)
    return None if _ends_well(versions) else Violation(VersionRule.GAP, versions[-1])


def _ends_well(versions: Versions) -> bool:
    return not versions or versions[-1].is_current or versions[-1].deleted
