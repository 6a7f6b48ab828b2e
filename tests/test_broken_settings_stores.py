"""The laws of a settings store can fail, each on a mistake."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from lakeward.core.errors import ConfigError
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries
from lakeward.plugins.testing import StoreUnderTest
from lakeward.plugins.testing.laws import settings_stores

WORD = "a word that is no one's business"


@dataclass
class Items:
    """A store with one entry per table, one of them broken."""

    reads: int = field(default=0)

    def read(self) -> SettingsLayer:
        self.reads += 1
        error = ConfigError("shelf, item s.b is no JSON", todo="Mend it there.")
        whole = SettingsEntry(table="s.a", origin="shelf, item s.a", keys={"key": ["a"]})
        return layer_of_entries("shelf", [whole, SettingsEntry(table="s.b", origin="shelf, item s.b", error=error)])


class IsReadOnce(Items):
    def read(self) -> SettingsLayer:
        layer = super().read()
        return layer if self.reads == 1 else replace(layer, content={})


class HasNoPlaces(Items):
    def read(self) -> SettingsLayer:
        return replace(super().read(), origin="somewhere", origins={})


class LeavesBrokenEntriesOut(Items):
    def read(self) -> SettingsLayer:
        return replace(super().read(), broken={})


class ShowsWhatIsBroken(Items):
    def read(self) -> SettingsLayer:
        layer = super().read()
        return replace(layer, broken={"s.b": ConfigError("shelf is no JSON", found=WORD, todo="Mend it.")})


BROKEN = {
    "stored_settings_are_read_as_often_as_requested": IsReadOnce,
    "each_value_has_its_place": HasNoPlaces,
    "a_broken_entry_fails_only_its_table": LeavesBrokenEntriesOut,
    "nothing_of_a_broken_entry_is_shown": ShowsWhatIsBroken,
}


def bench(store: Items) -> StoreUnderTest:
    return StoreUnderTest(
        store=store, tables={"s.a": {"key": ["a"]}}, place="shelf", broken=["s.b"], unshown=WORD
    )


@pytest.mark.parametrize("law", settings_stores.LAWS)
def test_a_broken_store_breaks_its_law(law: settings_stores.Law) -> None:
    law(bench(Items()))
    with pytest.raises(AssertionError):
        law(bench(BROKEN[law.__name__]()))


def test_every_law_has_a_store_that_breaks_it() -> None:
    assert [law.__name__ for law in settings_stores.LAWS] == [*BROKEN]
