"""Leases, ledgers, and stores of secrets and settings, with a mistake each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Barrier
from typing import Any, Final

from mutations import Method, first, mutate, skip

from lakeward.adapters.memory import MemoryLease, MemoryLedger
from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.core.errors import ConfigError
from lakeward.core.ledger.objects import Notes
from lakeward.core.ports import LeaseGrant
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries
from lakeward.core.settings.secrets import Secret
from lakeward.plugins.testing import SecretStoreUnderTest, StoreUnderTest
from lakeward.plugins.testing.laws import ledgers


def _refuse_owner(right: Method, own: MemoryLease, lease: str, owner: str) -> LeaseGrant:
    before, grant = own.terms.get(lease), right(lease, owner)
    return grant if before is None or grant.fence != before.fence else replace(before, owner="another")


def _renew_any(_: Method, own: MemoryLease, grant: LeaseGrant) -> LeaseGrant:
    own.terms[grant.lease] = replace(grant, until=own.now() + own.duration)
    return own.terms[grant.lease]


def _wait_before_taking(right: Method, own: MemoryLease, lease: str, owner: str) -> LeaseGrant:
    before = own.terms.get(lease)
    if before is not None and own.now() < before.until:
        return before
    time.sleep(0.05)
    own.terms.pop(lease, None)
    return right(lease, owner)


def _end_early(own: MemoryLease, lease: str, _: str) -> None:
    grant = own.terms.get(lease)
    if grant is not None and own.now() > grant.until - own.duration // 2:
        own.give_back(grant)


_lease = partial(mutate, MemoryLease)
LEASES: Final[Mapping[str, type]] = {
    "a_free_lease_is_granted_for_some_time": _lease(
        "ends a grant at once", take=lambda right, own, *of: replace(right(*of), until=own.now())
    ),
    "another_owner_gets_the_current_grant": _lease(
        "gives it to the last that asks", take=first(lambda own, lease, _: own.terms.pop(lease, None))
    ),
    "leases_of_other_names_are_free": _lease("has one name", take=lambda right, _, __, owner: right("", owner)),
    "an_owner_that_asks_again_keeps_its_grant": _lease("refuses its owner", take=_refuse_owner),
    "a_renewed_lease_lasts_longer": _lease("does not renew", renew=lambda _, __, grant: grant),
    "a_renewal_whose_answer_was_lost_can_be_repeated": _lease(
        "renews the last grant only",
        renew=lambda right, own, grant: right(grant) if grant in own.terms.values() else own.terms[grant.lease],
    ),
    "a_returned_lease_is_free_at_once": _lease("keeps what is returned", give_back=skip),
    "a_crashed_owner_keeps_it_until_its_grant_ends": _lease(
        "never ends", take=lambda right, own, lease, owner: own.terms.get(lease) or right(lease, owner)
    ),
    "an_owner_whose_grant_ended_changes_nothing": _lease("is renewed by anybody", renew=_renew_any),
    "an_old_grant_of_the_same_owner_stays_invalid": _lease(
        "is returned by any grant of its owner",
        give_back=lambda right, own, grant: right(replace(grant, fence=own.terms[grant.lease].fence)),
    ),
    "the_fence_rises_with_each_owner": _lease(
        "forgets the fence of a returned grant",
        give_back=lambda _, own, grant: own.terms.get(grant.lease) == grant and own.terms.pop(grant.lease),
    ),
    "one_of_many_concurrent_owners_gets_it": _lease("looks, and takes it later", take=_wait_before_taking),
    "two_owners_never_hold_it_at_once": _lease("ends a grant too early", take=first(_end_early)),
}


def ledger_bench(kind: type[MemoryLedger]) -> ledgers.Open:
    ledger = kind()
    return lambda: ledger


def _write_any_state(right: Method, own: MemoryLedger, table: str, notes: Notes) -> None:
    right(table, notes)
    for state, names in notes.states.items():
        for name in set(names) & own.known[table].keys():
            own.known[table][name] = replace(own.known[table][name], state=state)


_BOTH: Final = Barrier(2)


def _write_what_was_read_before(_: Method, own: MemoryLedger, table: str, notes: Notes) -> None:
    alone = MemoryLedger(dict(own.accounts), {name: dict(records) for name, records in own.known.items()})
    _BOTH.wait()
    alone.write(table, notes)
    own.known[table] = alone.known[table]


def _forget_seen(own: MemoryLedger, table: str, notes: Notes) -> None:
    for record in notes.records:
        own.known.get(table, {}).pop(record.object.name, None)


def _forget_tables(own: MemoryLedger, *tables: str) -> None:
    for known in (own.accounts, own.known):
        for table in tables:
            known.pop(table, None)


def _writes(change: Callable[[Notes], Notes]) -> Method:
    return lambda right, _, table, notes: right(table, change(notes))


_ledger = partial(mutate, MemoryLedger)
LEDGERS: Final[Mapping[str, type]] = {
    "an_empty_ledger_knows_nothing": _ledger(
        "counts 0 objects of an unknown table", account=lambda right, _, table: replace(right(table), listed=0)
    ),
    "notes_are_read_back_complete_and_in_order": _ledger(
        "lists as written",
        objects=lambda right, own, table, *states, names=None: sorted(
            right(table, *states, names=names), key=lambda one: [*own.known[table]].index(one.object.name)
        ),
    ),
    "only_named_objects_are_listed": _ledger(
        "ignores names", objects=lambda right, _, table, *states, names=None: right(table, *states)
    ),
    "the_first_seen_time_never_changes": _ledger("keeps the last time", write=first(_forget_seen)),
    "only_allowed_changes_of_state_are_made": _ledger("any state follows any", write=_write_any_state),
    "a_field_that_a_note_lacks_is_kept": _ledger(
        "a note without alarms removes them", write=_writes(lambda notes: replace(notes, alarms=notes.alarms or ()))
    ),
    "sent_entries_are_kept_for_the_pipeline": _ledger(
        "loses sent entries", write=_writes(lambda notes: replace(notes, sent=None))
    ),
    "anew_replaces_one_table_only": _ledger(
        "replaces all tables",
        write=first(lambda own, _, notes: notes.replaces_all and _forget_tables(own, *own.known)),
    ),
    "a_note_may_have_very_many_objects": _ledger(
        "writes 100 objects at most", write=_writes(lambda notes: replace(notes, records=notes.records[:100]))
    ),
    "concurrent_notes_are_all_kept": _ledger("reads, and writes later", write=_write_what_was_read_before),
    "threads_share_a_ledger": _ledger(
        "keeps one table", write=first(lambda own, table, _: _forget_tables(own, *{*own.known} - {table}))
    ),
}


def secrets_bench(kind: type[EnvironmentSecrets]) -> SecretStoreUnderTest:
    return SecretStoreUnderTest(secrets=kind({"PEPPER": " pepper"}), name="PEPPER", value=b" pepper")


def _read_or_empty(right: Method, _: EnvironmentSecrets, name: str) -> Secret:
    try:
        return right(name)
    except ConfigError:
        return Secret(b"")


_secrets = partial(mutate, EnvironmentSecrets)
SECRET_STORES: Final[Mapping[str, type]] = {
    "a_secret_is_read_to_the_byte": _secrets(
        "strips blanks", read=lambda right, _, name: Secret(right(name).reveal().strip())
    ),
    "a_missing_secret_is_an_error_that_names_it": _secrets("a missing secret is empty", read=_read_or_empty),
    "no_secret_is_shown": _secrets("shows all", __repr__=lambda _, own: repr(dict(own.environment))),
}

WORD: Final = "a word that is no one's business"


@dataclass
class Items:
    """A store with one entry per table, one of them broken."""

    reads: int = 0

    def read(self) -> SettingsLayer:
        self.reads += 1
        error = ConfigError("shelf, item s.b is no JSON", todo="Mend it there.")
        whole = SettingsEntry(table="s.a", origin="shelf, item s.a", keys={"key": ["a"]})
        return layer_of_entries("shelf", [whole, SettingsEntry(table="s.b", origin="shelf, item s.b", error=error)])


def items_bench(kind: type[Items]) -> StoreUnderTest:
    tables = {"s.a": {"key": ["a"]}}
    return StoreUnderTest(store=kind(), tables=tables, place="shelf", broken=["s.b"], unshown=WORD)


def _reads(**fields: Any) -> Method:
    return lambda right, _: replace(right(), **fields)


_items = partial(mutate, Items)
SETTINGS_STORES: Final[Mapping[str, type]] = {
    "stored_settings_are_read_as_often_as_requested": _items(
        "is read once", read=lambda right, own: replace(right(), content={}) if own.reads else right()
    ),
    "each_value_has_its_place": _items("has no places", read=_reads(origin="somewhere", origins={})),
    "a_broken_entry_fails_only_its_table": _items("leaves broken entries out", read=_reads(broken={})),
    "nothing_of_a_broken_entry_is_shown": _items(
        "shows a broken entry", read=_reads(broken={"s.b": ConfigError("it is no JSON", found=WORD, todo="")})
    ),
}
