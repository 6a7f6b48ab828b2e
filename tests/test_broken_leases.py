"""The laws of a lease can fail, each on a mistake."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tenancies import in_memory

from lakeward.adapters.memory import MemoryLease
from lakeward.core.ports import LeaseGrant
from lakeward.plugins.testing.laws import leases


class IsOverAtOnce(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        return replace(super().take(lease, owner), until=self.now())


class IsTakenByWhoAsksLast(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        self.terms.pop(lease, None)
        return super().take(lease, owner)


class IsOneForAll(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        return super().take("", owner)


class RefusesItsOwner(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        had = self.terms.get(lease)
        found = super().take(lease, owner)
        return found if had is None or found.fence != had.fence else replace(had, owner="another")


class LastsAsLongAsAtFirst(MemoryLease):
    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        return grant


class KnowsATermByItsEndToo(MemoryLease):
    def renew(self, term: LeaseGrant) -> LeaseGrant:
        return super().renew(term) if self.terms.get(term.lease) == term else self.terms[term.lease]


class KeepsWhatIsGivenBack(MemoryLease):
    def give_back(self, grant: LeaseGrant) -> None:
        """Do nothing."""


class LastsForEver(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        return self.terms.get(lease) or super().take(lease, owner)


class IsRenewedWhoeverHasIt(MemoryLease):
    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        self.terms[grant.lease] = replace(grant, until=self.now() + self.duration)
        return self.terms[grant.lease]


class KnowsNoTermsButOwners(MemoryLease):
    def give_back(self, grant: LeaseGrant) -> None:
        super().give_back(replace(grant, fence=self.terms[grant.lease].fence))


class ForgetsTheFence(MemoryLease):
    def give_back(self, term: LeaseGrant) -> None:
        if self.terms.get(term.lease) == term:
            del self.terms[term.lease]


class LooksBeforeItTakes(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        found = self.terms.get(lease)
        if found is not None and self.now() < found.until:
            return found
        time.sleep(0.05)
        self.terms[lease] = LeaseGrant(
            lease=lease,
            owner=owner,
            until=self.now() + self.duration,
            fence=1 if found is None else found.fence + 1,
        )
        return self.terms[lease]


class IsTakenTooEarly(MemoryLease):
    def take(self, lease: str, owner: str) -> LeaseGrant:
        found = self.terms.get(lease)
        if found is not None and self.now() > found.until - self.duration // 2:
            self.give_back(found)
        return super().take(lease, owner)


BROKEN: Mapping[str, type[MemoryLease]] = {
    "a_free_lease_is_granted_for_some_time": IsOverAtOnce,
    "another_owner_gets_the_current_grant": IsTakenByWhoAsksLast,
    "leases_of_other_names_are_free": IsOneForAll,
    "an_owner_that_asks_again_keeps_its_grant": RefusesItsOwner,
    "a_renewed_lease_lasts_longer": LastsAsLongAsAtFirst,
    "a_renewal_whose_answer_was_lost_can_be_repeated": KnowsATermByItsEndToo,
    "a_returned_lease_is_free_at_once": KeepsWhatIsGivenBack,
    "a_crashed_owner_keeps_it_until_its_grant_ends": LastsForEver,
    "an_owner_whose_grant_ended_changes_nothing": IsRenewedWhoeverHasIt,
    "an_old_grant_of_the_same_owner_stays_invalid": KnowsNoTermsButOwners,
    "the_fence_rises_with_each_owner": ForgetsTheFence,
    "one_of_many_concurrent_owners_gets_it": LooksBeforeItTakes,
    "two_owners_never_hold_it_at_once": IsTakenTooEarly,
}


@pytest.mark.parametrize("law", leases.LAWS)
def test_a_broken_lease_breaks_its_law(law: leases.Law) -> None:
    law(in_memory())
    broken = in_memory(BROKEN[law.__name__])
    with pytest.raises(AssertionError):
        law(broken)


def test_every_law_has_a_lease_that_breaks_it() -> None:
    assert [law.__name__ for law in leases.LAWS] == [*BROKEN]
