"""The laws of ledgers and secret stores can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Barrier

import pytest

from lakeward.adapters.memory import MemoryLedger
from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState
from lakeward.core.settings.secrets import Secret
from lakeward.plugins.testing import SecretStoreUnderTest
from lakeward.plugins.testing.laws import ledgers, secret_stores

SEEN = (AssertionError, LakewardError, pytest.fail.Exception)


class KnowsATableThatNobodyNoted(MemoryLedger):
    def account(self, table: str) -> Account:
        return replace(MemoryLedger.account(self, table), listed=0)


class ListsObjectsAsTheyCame(MemoryLedger):
    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        known = self.known.get(table, {})
        for name, found in known.items():
            if (not states or found.state in states) and (names is None or name in names):
                yield found


class ListsOthersThanThoseNamed(MemoryLedger):
    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        yield from MemoryLedger.objects(self, table, *states)


class TakesTheLastTimeForTheFirst(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        for record in notes.records:
            self.known.get(table, {}).pop(record.object.name, None)
        MemoryLedger.write(self, table, notes)


class LetsEveryStateFollow(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        MemoryLedger.write(self, table, notes)
        for state, names in notes.states.items():
            for name in set(names) & self.known[table].keys():
                self.known[table][name] = replace(self.known[table][name], state=state)


class TakesSilenceForNothing(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        MemoryLedger.write(self, table, replace(notes, alarms=notes.alarms or ()))


class KeepsNothingOfThePipeline(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        MemoryLedger.write(self, table, replace(notes, sent=None))


class ForgetsEveryTable(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        if notes.replaces_all:
            self.accounts.clear()
            self.known.clear()
        MemoryLedger.write(self, table, notes)


class WritesAHundredAtMost(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        MemoryLedger.write(self, table, replace(notes, records=notes.records[:100]))


class WritesBackWhatItReadBefore(MemoryLedger):
    """Two writers read and then write, so that one note is lost."""

    both = Barrier(2)

    def write(self, table: str, notes: Notes) -> None:
        before = {name: dict(found) for name, found in self.known.items()}
        self.both.wait()
        mine = MemoryLedger(dict(self.accounts), before)
        mine.write(table, notes)
        self.known[table] = mine.known[table]


class KnowsOneTable(MemoryLedger):
    def write(self, table: str, notes: Notes) -> None:
        self.known = {table: self.known.get(table, {})}
        MemoryLedger.write(self, table, notes)


LEDGERS: Mapping[str, type[MemoryLedger]] = {
    "an_empty_ledger_knows_nothing": KnowsATableThatNobodyNoted,
    "notes_are_read_back_complete_and_in_order": ListsObjectsAsTheyCame,
    "only_named_objects_are_listed": ListsOthersThanThoseNamed,
    "the_first_seen_time_never_changes": TakesTheLastTimeForTheFirst,
    "only_allowed_changes_of_state_are_made": LetsEveryStateFollow,
    "a_field_that_a_note_lacks_is_kept": TakesSilenceForNothing,
    "sent_entries_are_kept_for_the_pipeline": KeepsNothingOfThePipeline,
    "anew_replaces_one_table_only": ForgetsEveryTable,
    "a_note_may_have_very_many_objects": WritesAHundredAtMost,
    "concurrent_notes_are_all_kept": WritesBackWhatItReadBefore,
    "threads_share_a_ledger": KnowsOneTable,
}


@pytest.mark.parametrize("law", ledgers.LAWS)
def test_a_broken_ledger_breaks_its_law(law: ledgers.Law) -> None:
    broken, whole = LEDGERS[law.__name__](), MemoryLedger()
    law(lambda: whole)
    with pytest.raises(SEEN):
        law(lambda: broken)


def test_a_ledger_of_one_process_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        ledgers.notes_are_read_back_complete_and_in_order(MemoryLedger)


@dataclass(frozen=True, slots=True)
class CutsBlanksOff(EnvironmentSecrets):
    def read(self, name: str) -> Secret:
        return Secret(EnvironmentSecrets.read(self, name).reveal().strip())


@dataclass(frozen=True, slots=True)
class HasAnEmptyOneForWhatIsNotThere(EnvironmentSecrets):
    def read(self, name: str) -> Secret:
        try:
            return EnvironmentSecrets.read(self, name)
        except ConfigError:
            return Secret(b"")


@dataclass(frozen=True, slots=True)
class ShowsWhatItHas(EnvironmentSecrets):
    def __repr__(self) -> str:
        return repr(dict(self.environment))


PLACES: Mapping[str, type[EnvironmentSecrets]] = {
    "a_secret_is_read_to_the_byte": CutsBlanksOff,
    "a_missing_secret_is_an_error_that_names_it": HasAnEmptyOneForWhatIsNotThere,
    "no_secret_is_shown": ShowsWhatItHas,
}


@pytest.mark.parametrize("law", secret_stores.LAWS)
def test_a_broken_secret_store_breaks_its_law(law: secret_stores.Law) -> None:
    environment = {"PEPPER": " pepper"}
    law(SecretStoreUnderTest(secrets=EnvironmentSecrets(environment), name="PEPPER", value=b" pepper"))
    with pytest.raises(SEEN):
        law(SecretStoreUnderTest(secrets=PLACES[law.__name__](environment), name="PEPPER", value=b" pepper"))
