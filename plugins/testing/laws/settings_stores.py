"""The laws of a settings store: each value has its place, and a broken entry fails only its table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import merge
from lakeward.plugins.testing.contract import Closed, port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnderTest:
    """A settings store under test.

    - `tables`: the settings of its readable tables. `place`: a text that each place of a value contains.
    - `broken`: the names of tables whose entries cannot be read. `unshown`: a text of such an entry.
    """

    store: SettingsStore
    tables: Mapping[str, Mapping[str, Any]]
    place: str
    broken: Collection[str] = ()
    unshown: str = field(default="", repr=False)


Law: TypeAlias = Callable[[StoreUnderTest], None]


def settings_store_contract(make: Callable[..., StoreUnderTest]) -> type:
    """Return a test class with the laws of a settings store. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a settings store.", make, LAWS)


def stored_settings_are_read_as_often_as_requested(bench: StoreUnderTest) -> None:
    """The stored tables are read with all their keys, as often as requested."""
    for _ in range(2):
        assert bench.store.read().content.get("tables", {}) == bench.tables


def each_value_has_its_place(bench: StoreUnderTest) -> None:
    """The place of each value names the store."""
    layer = bench.store.read()
    values = [*merge([layer]).of_values()]
    assert values
    assert [path for path, _, place in values if bench.place not in place] == []


def a_broken_entry_fails_only_its_table(bench: StoreUnderTest) -> None:
    """A broken entry is an error of its table that says what to do. The other tables are read."""
    if not bench.broken:
        raise Closed("entries that are read one by one")
    layer = bench.store.read()
    assert {*layer.broken} == {*bench.broken}
    assert all(bench.place in str(error) and error.todo for error in layer.broken.values())
    assert not layer.fails_whole
    assert layer.content.get("tables", {}) == bench.tables


def nothing_of_a_broken_entry_is_shown(bench: StoreUnderTest) -> None:
    """No error shows text of a broken entry, which may be a secret in the wrong place."""
    if not bench.unshown:
        raise Closed("entries that are read one by one")
    for error in bench.store.read().broken.values():
        assert bench.unshown not in repr(error) + str(error.__cause__) + str(error.__context__)


LAWS: Final[tuple[Law, ...]] = (
    stored_settings_are_read_as_often_as_requested,
    each_value_has_its_place,
    a_broken_entry_fails_only_its_table,
    nothing_of_a_broken_entry_is_shown,
)
