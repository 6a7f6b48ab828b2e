"""The laws of a lease: it has one owner at a time, and ends by itself if the owner crashes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from lakeward.core.ports import Lease, LeaseGrant
from lakeward.plugins.testing.contract import port_contract

NAME: Final = "shop"
OTHER: Final = "shop/follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseUnderTest:
    """A lease under test without an owner.

    - `open`: opens the lease as another process would.
    - `now`: its clock, in microseconds since 1970.
    - `pass_time`: lets this part of a grant pass. 1.0 is all of it and the allowance for clocks that differ.
    """

    open: Callable[[], Lease]
    now: Callable[[], int]
    pass_time: Callable[[float], object]

    def has(self, owner: str, grant: LeaseGrant) -> bool:
        """Return True if an owner that last got this grant holds the lease now."""
        return grant.owner == owner and self.now() < grant.until


Law: TypeAlias = Callable[[LeaseUnderTest], None]


def lease_contract(make: Callable[..., LeaseUnderTest]) -> type:
    """Return a test class with the laws of a lease. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a lease.", make, LAWS)


def a_free_lease_is_granted_for_some_time(tenancy: LeaseUnderTest) -> None:
    """A free lease is granted to the owner that asks, under the name that it asks for, until a later time."""
    before = tenancy.now()
    grant = tenancy.open().take(NAME, "a")
    assert (grant.lease, grant.owner) == (NAME, "a")
    assert grant.until > before
    assert tenancy.has("a", grant)


def another_owner_gets_the_current_grant(tenancy: LeaseUnderTest) -> None:
    """Another owner gets the current grant as its answer, and its requests change nothing."""
    grant = tenancy.open().take(NAME, "a")
    for _ in range(2):
        assert tenancy.open().take(NAME, "b") == grant
    assert tenancy.open().renew(grant).fence == grant.fence


def leases_of_other_names_are_free(tenancy: LeaseUnderTest) -> None:
    """Leases of different names are independent."""
    lease = tenancy.open()
    first, second = lease.take(NAME, "a"), lease.take(OTHER, "b")
    assert (first.owner, second.owner) == ("a", "b")
    lease.give_back(first)
    assert lease.take(OTHER, "a").owner == "b"


def an_owner_that_asks_again_keeps_its_grant(tenancy: LeaseUnderTest) -> None:
    """An owner that asks again gets the same grant: the first answer may have been lost."""
    first, second = (tenancy.open().take(NAME, "a") for _ in range(2))
    assert second.owner == "a"
    assert second.fence == first.fence


def a_renewed_lease_lasts_longer(tenancy: LeaseUnderTest) -> None:
    """A renewal makes the grant longer, any number of times, and no other owner gets the lease in between."""
    lease = tenancy.open()
    grant = lease.take(NAME, "a")
    for _ in range(4):
        tenancy.pass_time(0.4)
        longer = lease.renew(grant)
        assert (longer.owner, longer.fence) == ("a", grant.fence)
        assert longer.until > grant.until
        grant = longer
        assert tenancy.open().take(NAME, "b").owner == "a"


def a_renewal_whose_answer_was_lost_can_be_repeated(tenancy: LeaseUnderTest) -> None:
    """A renewal with an older grant of the same owner works, and the grant lasts longer each time."""
    lease = tenancy.open()
    grant = lease.take(NAME, "a")
    ends = [grant.until]
    for _ in range(2):
        tenancy.pass_time(0.2)
        renewed = lease.renew(grant)
        assert (renewed.owner, renewed.fence) == ("a", grant.fence)
        ends.append(renewed.until)
    assert ends == sorted(set(ends))


def a_returned_lease_is_free_at_once(tenancy: LeaseUnderTest) -> None:
    """A lease that was given back is free for any owner. Giving it back twice is no error."""
    lease = tenancy.open()
    grant = lease.take(NAME, "a")
    for _ in range(2):
        lease.give_back(grant)
    assert tenancy.open().take(NAME, "b").owner == "b"


def a_crashed_owner_keeps_it_until_its_grant_ends(tenancy: LeaseUnderTest) -> None:
    """A crashed owner keeps the lease until its grant ends, and no longer."""
    grant = tenancy.open().take(NAME, "a")
    tenancy.pass_time(0.5)
    assert tenancy.open().take(NAME, "b") == grant
    tenancy.pass_time(0.6)
    assert tenancy.open().take(NAME, "b").owner == "b"


def an_owner_whose_grant_ended_changes_nothing(tenancy: LeaseUnderTest) -> None:
    """An owner whose grant ended can neither renew the lease nor take it from the new owner by returning it."""
    lease = tenancy.open()
    old = lease.take(NAME, "a")
    tenancy.pass_time(1.1)
    new = tenancy.open().take(NAME, "b")
    assert lease.renew(old) == new
    lease.give_back(old)
    assert tenancy.open().take(NAME, "c") == new


def an_old_grant_of_the_same_owner_stays_invalid(tenancy: LeaseUnderTest) -> None:
    """An old grant stays invalid even if its owner has the lease again, after another owner had it."""
    lease = tenancy.open()
    old = lease.take(NAME, "a")
    lease.give_back(old)
    lease.give_back(lease.take(NAME, "b"))
    new = lease.take(NAME, "a")
    lease.give_back(old)
    assert lease.take(NAME, "b") == new


def the_fence_rises_with_each_owner(tenancy: LeaseUnderTest) -> None:
    """The fence rises with each owner, whether the lease was given back or its grant ended."""
    fences = []
    for number, owner in enumerate("abcabc"):
        grant = tenancy.open().take(NAME, owner)
        assert grant.owner == owner
        fences.append(grant.fence)
        if number % 2:
            tenancy.open().give_back(grant)
        else:
            tenancy.pass_time(1.1)
    assert fences == sorted(set(fences))


def one_of_many_concurrent_owners_gets_it(tenancy: LeaseUnderTest) -> None:
    """Of many owners that ask at once, one gets the lease. Here they are threads, in production machines."""
    owners = [f"owner {number}" for number in range(8)]
    leases = [(tenancy.open(), owner) for owner in owners]
    with ThreadPoolExecutor(len(owners)) as pool:
        answers = list(pool.map(lambda one: one[0].take(NAME, one[1]), leases))
    assert len({(grant.owner, grant.fence) for grant in answers}) == 1
    assert answers[0].owner in owners


def two_owners_never_hold_it_at_once(tenancy: LeaseUnderTest) -> None:
    """Two owners never hold the lease at once, for any requests in any order and any pauses between them."""
    random, grants = Random(7), dict[str, LeaseGrant]()
    leases = {owner: tenancy.open() for owner in "abc"}
    for _ in range(200):
        owner = random.choice("abc")
        own, lease = grants.pop(owner, None), leases[owner]
        match random.randrange(4):
            case 0:
                tenancy.pass_time(random.choice((0.1, 0.45, 0.6, 1.1)))
            case 1 if own is not None:
                lease.give_back(own)
                own = None
            case 2 if own is not None:
                own = lease.renew(own)
            case _:
                own = lease.take(NAME, owner)
        if own is not None and own.owner == owner:
            grants[owner] = own
        assert sum(tenancy.has(one, grant) for one, grant in grants.items()) <= 1


LAWS: Final[tuple[Law, ...]] = (
    a_free_lease_is_granted_for_some_time,
    another_owner_gets_the_current_grant,
    leases_of_other_names_are_free,
    an_owner_that_asks_again_keeps_its_grant,
    a_renewed_lease_lasts_longer,
    a_renewal_whose_answer_was_lost_can_be_repeated,
    a_returned_lease_is_free_at_once,
    a_crashed_owner_keeps_it_until_its_grant_ends,
    an_owner_whose_grant_ended_changes_nothing,
    an_old_grant_of_the_same_owner_stays_invalid,
    the_fence_rises_with_each_owner,
    one_of_many_concurrent_owners_gets_it,
    two_owners_never_hold_it_at_once,
)
