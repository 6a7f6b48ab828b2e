"""The laws of a lease: one owner at a time, and a crashed one does not keep it."""

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
class Tenancy:
    """A lease under test that nobody has.

    `open` opens it as another process would, with the clock `now` (microseconds since 1970). `pass_time` lets
    a part of a term go by, 1.0 being all of it and what is allowed for clocks that differ.
    """

    open: Callable[[], Lease]
    now: Callable[[], int]
    pass_time: Callable[[float], object]

    def has(self, owner: str, term: LeaseGrant) -> bool:
        """Whether an owner, who was last given this term, takes the lease for his own now."""
        return term.owner == owner and self.now() < term.until


Law: TypeAlias = Callable[[Tenancy], None]


def lease_contract(make: Callable[..., Tenancy]) -> type:
    """Return a test class with the laws of a lease; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a lease.", make, LAWS)


def what_nobody_has_is_taken_for_some_time(tenancy: Tenancy) -> None:
    """By the name that is asked for, and for him who asks."""
    before = tenancy.now()
    term = tenancy.open().take(NAME, "a")
    assert (term.lease, term.owner) == (NAME, "a")
    assert term.until > before
    assert tenancy.has("a", term)


def another_is_told_who_has_it_and_until_when(tenancy: Tenancy) -> None:
    """And changes nothing by asking, however often."""
    term = tenancy.open().take(NAME, "a")
    for _ in range(2):
        assert tenancy.open().take(NAME, "b") == term
    assert tenancy.open().renew(term).fence == term.fence


def leases_of_other_names_are_free(tenancy: Tenancy) -> None:
    """Pipelines do not wait for each other."""
    lease = tenancy.open()
    first, second = lease.take(NAME, "a"), lease.take(OTHER, "b")
    assert (first.owner, second.owner) == ("a", "b")
    lease.give_back(first)
    assert lease.take(OTHER, "a").owner == "b"


def who_asks_again_has_what_he_has(tenancy: Tenancy) -> None:
    """The answer to the first request may be lost on its way, and the request be sent again."""
    first, second = (tenancy.open().take(NAME, "a") for _ in range(2))
    assert second.owner == "a"
    assert second.fence == first.fence


def what_is_renewed_lasts_longer(tenancy: Tenancy) -> None:
    """Again and again, and nobody gets in between."""
    lease = tenancy.open()
    term = lease.take(NAME, "a")
    for _ in range(4):
        tenancy.pass_time(0.4)
        longer = lease.renew(term)
        assert (longer.owner, longer.fence) == ("a", term.fence)
        assert longer.until > term.until
        term = longer
        assert tenancy.open().take(NAME, "b").owner == "a"


def a_renewal_whose_answer_was_lost_is_followed_by_another(tenancy: Tenancy) -> None:
    """Who asked knows the term as it was before; it is his all the same, and lasts longer each time."""
    lease = tenancy.open()
    term = lease.take(NAME, "a")
    ends = [term.until]
    for _ in range(2):
        tenancy.pass_time(0.2)
        found = lease.renew(term)
        assert (found.owner, found.fence) == ("a", term.fence)
        ends.append(found.until)
    assert ends == sorted(set(ends))


def what_is_given_back_is_free_at_once(tenancy: Tenancy) -> None:
    """For anybody, and giving it back twice is no error."""
    lease = tenancy.open()
    term = lease.take(NAME, "a")
    for _ in range(2):
        lease.give_back(term)
    assert tenancy.open().take(NAME, "b").owner == "b"


def a_crashed_owner_keeps_it_until_his_term_is_over_and_no_longer(tenancy: Tenancy) -> None:
    """Nobody gives it back for him."""
    term = tenancy.open().take(NAME, "a")
    tenancy.pass_time(0.5)
    assert tenancy.open().take(NAME, "b") == term
    tenancy.pass_time(0.6)
    assert tenancy.open().take(NAME, "b").owner == "b"


def who_wakes_up_too_late_is_told_who_has_it_and_takes_nothing_away(tenancy: Tenancy) -> None:
    """Neither by making his term longer nor by giving it back."""
    lease = tenancy.open()
    old = lease.take(NAME, "a")
    tenancy.pass_time(1.1)
    new = tenancy.open().take(NAME, "b")
    assert lease.renew(old) == new
    lease.give_back(old)
    assert tenancy.open().take(NAME, "c") == new


def who_lost_it_does_not_make_the_term_longer_that_he_has_by_now(tenancy: Tenancy) -> None:
    """An old term is over for good, though its owner is the same: another was there in between."""
    lease = tenancy.open()
    old = lease.take(NAME, "a")
    lease.give_back(old)
    lease.give_back(lease.take(NAME, "b"))
    new = lease.take(NAME, "a")
    lease.give_back(old)
    assert lease.take(NAME, "b") == new


def the_fence_is_greater_with_each_who_has_it(tenancy: Tenancy) -> None:
    """Whether it was given back, or its time was over."""
    fences = []
    for number, owner in enumerate("abcabc"):
        term = tenancy.open().take(NAME, owner)
        assert term.owner == owner
        fences.append(term.fence)
        if number % 2:
            tenancy.open().give_back(term)
        else:
            tenancy.pass_time(1.1)
    assert fences == sorted(set(fences))


def of_many_who_ask_at_once_one_gets_it(tenancy: Tenancy) -> None:
    """From threads here, from machines in earnest."""
    owners = [f"owner {number}" for number in range(8)]
    leases = [(tenancy.open(), owner) for owner in owners]
    with ThreadPoolExecutor(len(owners)) as pool:
        told = list(pool.map(lambda one: one[0].take(NAME, one[1]), leases))
    assert len({(term.owner, term.fence) for term in told}) == 1
    assert told[0].owner in owners


def two_never_both_have_it(tenancy: Tenancy) -> None:
    """Whatever they ask for, in whatever order, and however long they sleep in between."""
    random, terms = Random(7), dict[str, LeaseGrant]()
    leases = {owner: tenancy.open() for owner in "abc"}
    for _ in range(200):
        owner = random.choice("abc")
        own, lease = terms.pop(owner, None), leases[owner]
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
            terms[owner] = own
        assert sum(tenancy.has(one, term) for one, term in terms.items()) <= 1


LAWS: Final[tuple[Law, ...]] = (
    what_nobody_has_is_taken_for_some_time,
    another_is_told_who_has_it_and_until_when,
    leases_of_other_names_are_free,
    who_asks_again_has_what_he_has,
    what_is_renewed_lasts_longer,
    a_renewal_whose_answer_was_lost_is_followed_by_another,
    what_is_given_back_is_free_at_once,
    a_crashed_owner_keeps_it_until_his_term_is_over_and_no_longer,
    who_wakes_up_too_late_is_told_who_has_it_and_takes_nothing_away,
    who_lost_it_does_not_make_the_term_longer_that_he_has_by_now,
    the_fence_is_greater_with_each_who_has_it,
    of_many_who_ask_at_once_one_gets_it,
    two_never_both_have_it,
)
