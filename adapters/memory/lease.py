"""Leases in plain Python, for the threads of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from lakeward.core.ports import LeaseGrant


@dataclass(slots=True)
class MemoryLease:
    """Lease grants in a dictionary.

    A grant lasts for `duration` microseconds of the clock `now`, which all owners share.
    """

    now: Callable[[], int]
    duration: int = 60_000_000
    terms: dict[str, LeaseGrant] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a grant of this owner, or the unexpired grant of another."""
        with self._lock:
            grant, now = self.terms.get(lease), self.now()
            if grant is not None and grant.owner != owner and now < grant.until:
                return grant
            fence = 1 if grant is None else grant.fence + (grant.owner != owner or now >= grant.until)
            self.terms[lease] = LeaseGrant(lease=lease, owner=owner, until=now + self.duration, fence=fence)
            return self.terms[lease]

    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        """Return the extended grant, or the current one of another owner."""
        with self._lock:
            current = self.terms.get(grant.lease, replace(grant, owner="", until=0, fence=0))
            if (current.owner, current.fence) == (grant.owner, grant.fence):
                current = self.terms[grant.lease] = replace(grant, until=self.now() + self.duration)
            return current

    def give_back(self, grant: LeaseGrant) -> None:
        """End a grant now; its fence is kept."""
        with self._lock:
            current = self.terms.get(grant.lease)
            if current is not None and (current.owner, current.fence) == (grant.owner, grant.fence):
                self.terms[grant.lease] = replace(grant, owner="", until=0)
