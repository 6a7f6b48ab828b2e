"""Leases in plain Python, for the threads of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from lakeward.core.ports import LeaseGrant


@dataclass(slots=True)
class MemoryLease:
    """Terms in a dictionary. They last `lasts` microseconds of the clock `now`, which all owners share."""

    now: Callable[[], int]
    lasts: int = 60_000_000
    terms: dict[str, LeaseGrant] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a term of this owner, or that of another whose time is not over."""
        with self._lock:
            found, now = self.terms.get(lease), self.now()
            if found is not None and found.owner != owner and now < found.until:
                return found
            fence = 1 if found is None else found.fence + (found.owner != owner or now >= found.until)
            self.terms[lease] = LeaseGrant(lease=lease, owner=owner, until=now + self.lasts, fence=fence)
            return self.terms[lease]

    def renew(self, term: LeaseGrant) -> LeaseGrant:
        """Return the term made longer, or the one that stands."""
        with self._lock:
            found = self.terms.get(term.lease, replace(term, owner="", until=0, fence=0))
            if (found.owner, found.fence) == (term.owner, term.fence):
                found = self.terms[term.lease] = replace(term, until=self.now() + self.lasts)
            return found

    def give_back(self, term: LeaseGrant) -> None:
        """End it now; the fence is kept."""
        with self._lock:
            found = self.terms.get(term.lease)
            if found is not None and (found.owner, found.fence) == (term.owner, term.fence):
                self.terms[term.lease] = replace(found, owner="", until=0)
