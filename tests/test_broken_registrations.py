"""The laws of a registration can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from lakeward.core.errors import ConfigError
from lakeward.core.ports import TableDescription
from lakeward.plugins.testing import FoundEntry, RegistrationUnderTest
from lakeward.plugins.testing.laws import registrations


@dataclass
class Shelf:
    """The entries of all registrations."""

    entries: dict[tuple[str, str], TableDescription] = field(default_factory=dict)
    writes: int = 0

    def find(self, identifier: tuple[str, str]) -> FoundEntry | None:
        entry = self.entries.get(identifier)
        if entry is None:
            return None
        return FoundEntry(location=entry.location, columns=[(one.name, one.comment or "") for one in entry.columns])


@dataclass
class Registration:
    shelf: Shelf

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        if len({(namespace.lower(), name.lower()) for namespace, name in tables}) < len(tables):
            raise ConfigError("two would be one", todo="Rename one.")

    def register(self, table: TableDescription) -> None:
        found = self.shelf.entries.get(table.identifier)
        if found is not None and found.location != table.location:
            raise ConfigError("the name is taken", todo="Take another.")
        if found != table:
            self.put(table)

    def put(self, table: TableDescription) -> None:
        self.shelf.entries[table.identifier] = table
        self.shelf.writes += 1


class HasNoComments(Registration):
    def put(self, table: TableDescription) -> None:
        super().put(replace(table, columns=tuple(replace(one, comment=None) for one in table.columns)))


class WritesAgain(Registration):
    def register(self, table: TableDescription) -> None:
        super().register(table)
        self.put(table)


class AddsColumns(Registration):
    def put(self, table: TableDescription) -> None:
        before = self.shelf.entries.get(table.identifier)
        kept = () if before is None else before.columns
        super().put(replace(table, columns=(*kept, *[one for one in table.columns if one not in kept])))


class TakesWhatIsThere(Registration):
    def register(self, table: TableDescription) -> None:
        self.put(table)


class ChecksNothing(Registration):
    def check(self, tables: Sequence[tuple[str, str]]) -> None: ...


BROKEN = {
    "an_entry_is_found_with_the_columns_of_its_table": HasNoComments,
    "a_correct_entry_is_not_written_again": WritesAgain,
    "an_entry_follows_its_table": AddsColumns,
    "the_entry_of_another_table_is_not_changed": TakesWhatIsThere,
    "tables_that_would_share_an_entry_are_refused": ChecksNothing,
}


def bench(kind: type[Registration]) -> RegistrationUnderTest:
    shelf = Shelf()
    return RegistrationUnderTest(
        registration=kind(shelf),
        others=Registration(shelf),
        location="s3://lake/shop",
        format="delta",
        find=shelf.find,
        writes=lambda: shelf.writes,
    )


@pytest.mark.parametrize("law", registrations.LAWS)
def test_a_broken_registration_breaks_its_law(law: registrations.Law) -> None:
    law(bench(Registration))
    with pytest.raises(AssertionError):
        law(bench(BROKEN[law.__name__]))


def test_every_law_has_a_registration_that_breaks_it() -> None:
    assert [law.__name__ for law in registrations.LAWS] == [*BROKEN]
