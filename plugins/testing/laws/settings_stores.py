"""The laws of a settings store: what is read has its place, and a broken entry fails its table alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import merge
from lakeward.plugins.testing.contract import Closed, port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnderTest:
    """A settings store under test: the keys of `tables` that are there whole, and a word that each place has.

    `broken` are the names of tables whose entries cannot be read, and `unshown` is a text that stands in one.
    """

    store: SettingsStore
    tables: Mapping[str, Mapping[str, Any]]
    place: str
    broken: Collection[str] = ()
    unshown: str = field(default="", repr=False)


Law: TypeAlias = Callable[[StoreUnderTest], None]


def settings_store_contract(make: Callable[..., StoreUnderTest]) -> type:
    """Return a test class with the laws of a settings store; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a settings store.", make, LAWS)


def what_stands_there_is_read_as_often_as_it_is_asked_for(bench: StoreUnderTest) -> None:
    """Each table with its keys, and no other."""
    for _ in range(2):
        assert bench.store.read().content.get("tables", {}) == bench.tables


def each_value_has_the_place_that_it_is_from(bench: StoreUnderTest) -> None:
    """In words that name the store."""
    layer = bench.store.read()
    values = [*merge([layer]).of_values()]
    assert values
    assert [path for path, _, place in values if bench.place not in place] == []


def a_broken_entry_fails_its_table_alone(bench: StoreUnderTest) -> None:
    """It is told by its table, with what to do, and the others are read."""
    if not bench.broken:
        raise Closed("entries that are read one by one")
    layer = bench.store.read()
    assert {*layer.broken} == {*bench.broken}
    assert all(bench.place in str(error) and error.todo for error in layer.broken.values())
    assert not layer.fails_whole
    assert layer.content.get("tables", {}) == bench.tables


def nothing_of_a_broken_entry_is_shown(bench: StoreUnderTest) -> None:
    """It may be a secret that stands in the wrong place."""
    if not bench.unshown:
        raise Closed("entries that are read one by one")
    for error in bench.store.read().broken.values():
        assert bench.unshown not in repr(error) + str(error.__cause__) + str(error.__context__)


LAWS: Final[tuple[Law, ...]] = (
    what_stands_there_is_read_as_often_as_it_is_asked_for,
    each_value_has_the_place_that_it_is_from,
    a_broken_entry_fails_its_table_alone,
    nothing_of_a_broken_entry_is_shown,
)
