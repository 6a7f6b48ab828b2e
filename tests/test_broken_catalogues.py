"""The laws of a catalogue can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pytest

from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError, LakewardError
from lakeward.core.ports import SourceCatalogue
from lakeward.core.schema import Type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins.testing import CatalogueUnderTest
from lakeward.plugins.testing.laws import catalogues

SEEN = (AssertionError, LakewardError, LookupError, pytest.fail.Exception)


def table(name: str, *columns: str, **rest: tuple[str, ...]) -> SourceTable:
    made = tuple(SourceColumn(name=one, written="INT", type=Type("int")) for one in columns)
    return SourceTable(name=TableName("shop", name), columns=made, **rest)


TABLES = (
    table("orders", "b", "id", key=("id", "b")),
    table("Lines", "n"),
    table("twin", "a"),
    table("TWIN", "b"),
)


@dataclass(frozen=True, slots=True)
class Told:
    """A correct catalogue of given tables."""

    tables: tuple[SourceTable, ...] = TABLES

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        return {name: found for name in tables if (found := self.find(name)) is not None}

    def find(self, name: TableName) -> SourceTable | None:
        exact = [one for one in self.tables if one.name == name]
        alike = exact or [one for one in self.tables if str(one.name).lower() == str(name).lower()]
        if len(alike) > 1:
            raise ConfigError(", ".join(str(one.name) for one in alike))
        return alike[0] if alike else None


class Gone(Told):
    """A catalogue that does not answer."""

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        raise CatalogueUnreachable("it does not answer", todo="Look whether it runs.")


class SortsTheKeyAsTheColumns(Told):
    def find(self, name: TableName) -> SourceTable | None:
        found = Told.find(self, name)
        return found and replace(found, key=tuple(one for one in found.names if one in found.key))


class TellsAllThatItHas(Told):
    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        return {**{one.name: one for one in self.tables}, **Told.describe(self, tables)}


class StopsAtATableThatItLacks(Told):
    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        found = Told.describe(self, tables)
        if len(found) < len(tables):
            raise ConfigError("a table is missing")
        return found


class ComparesLetters(Told):
    def find(self, name: TableName) -> SourceTable | None:
        return next((one for one in self.tables if one.name == name), None)


class TakesTheFirstOfTwo(Told):
    def find(self, name: TableName) -> SourceTable | None:
        return next((one for one in self.tables if str(one.name).lower() == str(name).lower()), None)


class SaysThatItHasNothing(Told):
    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        return {}


BROKEN: Mapping[str, tuple[SourceCatalogue, SourceCatalogue]] = {
    "a_table_is_described_completely": (SortsTheKeyAsTheColumns(), Gone()),
    "only_requested_tables_are_described": (TellsAllThatItHas(), Gone()),
    "an_unknown_table_is_left_out": (StopsAtATableThatItLacks(), Gone()),
    "names_are_compared_without_case": (ComparesLetters(), Gone()),
    "names_that_differ_only_in_case_must_match_exactly": (TakesTheFirstOfTwo(), Gone()),
    "a_catalogue_that_does_not_answer_raises_an_error": (Told(), SaysThatItHasNothing()),
}
"""The broken catalogue of each law, and one that does not answer."""


@pytest.mark.parametrize("law", catalogues.LAWS)
def test_a_broken_catalogue_breaks_its_law(law: catalogues.Law) -> None:
    law(CatalogueUnderTest(catalogue=Told(), tables=TABLES, gone=Gone()))
    catalogue, gone = BROKEN[law.__name__]
    with pytest.raises(SEEN):
        law(CatalogueUnderTest(catalogue=catalogue, tables=TABLES, gone=gone))


def test_every_law_has_a_catalogue_that_breaks_it() -> None:
    assert [law.__name__ for law in catalogues.LAWS] == [*BROKEN]


def test_a_catalogue_with_too_few_tables_is_refused() -> None:
    for tables in (TABLES[:1], TABLES[1:], (TABLES[0], *TABLES[2:])):
        with pytest.raises(ValueError, match="needs"):
            CatalogueUnderTest(catalogue=Told(tables), tables=tables, gone=Gone())
