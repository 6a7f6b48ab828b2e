"""The laws of a catalogue: each table by the name that it was asked by, and none that it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pytest

from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.ports import SourceCatalogue
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins.testing.contract import Closed, port_contract

MISSING: Final = TableName("lakeward_has", "no_such_table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogued:
    """A catalogue under test, the tables that it has, and another catalogue that does not answer.

    They are two at least, and one has a key of several columns in another order than its columns are. Of
    a column whose `written` is empty here the catalogue may say any words of its database. Two tables
    whose names differ only in case open a law that is else closed. Raises ValueError for too little.
    """

    catalogue: SourceCatalogue
    tables: Sequence[SourceTable]
    gone: SourceCatalogue

    def __post_init__(self) -> None:
        if len(self.tables) - len(self.duplicate_objects) < 2:
            raise ValueError("a catalogue under test needs two tables at least whose names differ not only in case")
        if not any(table.key != tuple(name for name in table.names if name in table.key) for table in self.tables):
            raise ValueError("a catalogue under test needs a table whose key is in another order than its columns")

    @property
    def alone(self) -> Sequence[SourceTable]:
        """The tables whose names no other has in other letters."""
        return [table for table in self.tables if table not in self.duplicate_objects]

    @property
    def duplicate_objects(self) -> Sequence[SourceTable]:
        """The tables whose names others have in other letters."""
        spelled = Counter(_plain(table.name) for table in self.tables)
        return [table for table in self.tables if spelled[_plain(table.name)] > 1]


Law: TypeAlias = Callable[[Catalogued], None]


def catalogue_contract(make: Callable[..., Catalogued]) -> type:
    """Return a test class with the laws of a catalogue; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a catalogue.", make, LAWS)


def _plain(name: TableName) -> tuple[str, str]:
    return name.schema.lower(), name.table.lower()


def _check(found: SourceTable, table: SourceTable) -> None:
    """A table is described as the bench has it."""
    assert found.names == table.names, f"columns of {table.name}"
    assert all(column.written for column in found.columns), f"a type without words: {found}"
    pairs = zip(found.columns, table.columns, strict=True)
    columns = tuple(_with_words(column, wanted.written) for column, wanted in pairs)
    assert replace(found, columns=columns) == table


def _with_words(column: SourceColumn, wanted: str) -> SourceColumn:
    return column if wanted else replace(column, written="")


def a_table_is_described_whole(under_test: Catalogued) -> None:
    """Columns in order, types in the words of the database and in ours, the primary key in its order, comments."""
    for _ in range(2):
        found = under_test.catalogue.describe([table.name for table in under_test.tables])
        assert found.keys() == {table.name for table in under_test.tables}
        for table in under_test.tables:
            _check(found[table.name], table)


def only_what_is_asked_for_is_described(under_test: Catalogued) -> None:
    """Whatever else it has; and nothing, where nothing is asked for."""
    for table in under_test.tables:
        assert under_test.catalogue.describe([table.name]).keys() == {table.name}
    assert not under_test.catalogue.describe([])


def a_table_that_it_lacks_is_left_out(under_test: Catalogued) -> None:
    """It is no error, and the others are described."""
    table = under_test.tables[0]
    assert under_test.catalogue.describe([MISSING, table.name]).keys() == {table.name}


def names_are_compared_without_case(under_test: Catalogued) -> None:
    """Where none is exactly that: it is described by the name that was asked for."""
    for table in under_test.alone:
        asked = TableName(table.name.schema.swapcase(), table.name.table.swapcase())
        found = under_test.catalogue.describe([asked])
        assert found.keys() == {asked}
        _check(replace(found[asked], name=table.name), table)


def of_names_that_differ_only_in_case_one_must_be_exactly_that(under_test: Catalogued) -> None:
    """Which other one is meant nobody can tell: that is an error, which names them."""
    if not under_test.duplicate_objects:
        raise Closed("tables whose names differ only in case")
    for table in under_test.duplicate_objects:
        _check(under_test.catalogue.describe([table.name])[table.name], table)
    one = under_test.duplicate_objects[0].name
    alike = [table.name for table in under_test.duplicate_objects if _plain(table.name) == _plain(one)]
    spellings = [TableName(one.schema, spelled) for spelled in (one.table.title(), one.table.swapcase())]
    with pytest.raises(ConfigError) as refused:
        under_test.catalogue.describe([next(name for name in spellings if name not in alike)])
    assert all(str(name) in str(refused.value) for name in alike)


def one_that_does_not_answer_says_so(under_test: Catalogued) -> None:
    """By an error of its own, that says what to do: what the catalogue said last counts then."""
    with pytest.raises(CatalogueUnreachable) as refused:
        under_test.gone.describe([under_test.tables[0].name])
    assert refused.value.todo


LAWS: Final[tuple[Law, ...]] = (
    a_table_is_described_whole,
    only_what_is_asked_for_is_described,
    a_table_that_it_lacks_is_left_out,
    names_are_compared_without_case,
    of_names_that_differ_only_in_case_one_must_be_exactly_that,
    one_that_does_not_answer_says_so,
)
