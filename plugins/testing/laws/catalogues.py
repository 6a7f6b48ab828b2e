"""The laws of a catalogue: it describes the requested tables that it has, under the requested names."""

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
class CatalogueUnderTest:
    """A catalogue under test, its tables, and `gone`, another catalogue that does not answer.

    There must be at least two tables, one of them with a key whose columns are in another order than those of the
    table; else ValueError is raised. If `written` of a column is empty here, its database type is not compared.
    One law needs tables whose names differ only in case, and is closed without them.
    """

    catalogue: SourceCatalogue
    tables: Sequence[SourceTable]
    gone: SourceCatalogue

    def __post_init__(self) -> None:
        if len(self.tables) - len(self.ambiguous) < 2:
            raise ValueError("a catalogue under test needs two tables at least whose names differ not only in case")
        if not any(table.key != tuple(name for name in table.names if name in table.key) for table in self.tables):
            raise ValueError("a catalogue under test needs a table whose key is in another order than its columns")

    @property
    def unambiguous(self) -> Sequence[SourceTable]:
        """The tables whose names differ from all others in more than case."""
        return [table for table in self.tables if table not in self.ambiguous]

    @property
    def ambiguous(self) -> Sequence[SourceTable]:
        """The tables whose names differ from another only in case."""
        spelled = Counter(_plain(table.name) for table in self.tables)
        return [table for table in self.tables if spelled[_plain(table.name)] > 1]


Law: TypeAlias = Callable[[CatalogueUnderTest], None]


def catalogue_contract(make: Callable[..., CatalogueUnderTest]) -> type:
    """Return a test class with the laws of a catalogue. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a catalogue.", make, LAWS)


def _plain(name: TableName) -> tuple[str, str]:
    return name.schema.lower(), name.table.lower()


def _check(described: SourceTable, table: SourceTable) -> None:
    """Check that a table is described as the bench has it."""
    assert described.names == table.names, f"columns of {table.name}"
    assert all(column.written for column in described.columns), f"a column without a database type: {described}"
    pairs = zip(described.columns, table.columns, strict=True)
    columns = tuple(_with_type(column, wanted.written) for column, wanted in pairs)
    assert replace(described, columns=columns) == table


def _with_type(column: SourceColumn, wanted: str) -> SourceColumn:
    return column if wanted else replace(column, written="")


def a_table_is_described_completely(under_test: CatalogueUnderTest) -> None:
    """A description has columns and primary key in order, types of the database and of lakeward, and comments."""
    for _ in range(2):
        described = under_test.catalogue.describe([table.name for table in under_test.tables])
        assert described.keys() == {table.name for table in under_test.tables}
        for table in under_test.tables:
            _check(described[table.name], table)


def only_requested_tables_are_described(under_test: CatalogueUnderTest) -> None:
    """Only requested tables are described, and none if none is requested."""
    for table in under_test.tables:
        assert under_test.catalogue.describe([table.name]).keys() == {table.name}
    assert not under_test.catalogue.describe([])


def an_unknown_table_is_left_out(under_test: CatalogueUnderTest) -> None:
    """An unknown table is no error. The others are described."""
    table = under_test.tables[0]
    assert under_test.catalogue.describe([MISSING, table.name]).keys() == {table.name}


def names_are_compared_without_case(under_test: CatalogueUnderTest) -> None:
    """Without an exact match, a table is found by its name in other case, and has the requested name."""
    for table in under_test.unambiguous:
        asked = TableName(table.name.schema.swapcase(), table.name.table.swapcase())
        described = under_test.catalogue.describe([asked])
        assert described.keys() == {asked}
        _check(replace(described[asked], name=table.name), table)


def names_that_differ_only_in_case_must_match_exactly(under_test: CatalogueUnderTest) -> None:
    """If several names differ only in case, one must match exactly. Else a ConfigError names them."""
    if not under_test.ambiguous:
        raise Closed("tables whose names differ only in case")
    for table in under_test.ambiguous:
        _check(under_test.catalogue.describe([table.name])[table.name], table)
    one = under_test.ambiguous[0].name
    alike = [table.name for table in under_test.ambiguous if _plain(table.name) == _plain(one)]
    spellings = [TableName(one.schema, spelled) for spelled in (one.table.title(), one.table.swapcase())]
    with pytest.raises(ConfigError) as refused:
        under_test.catalogue.describe([next(name for name in spellings if name not in alike)])
    assert all(str(name) in str(refused.value) for name in alike)


def a_catalogue_that_does_not_answer_raises_an_error(under_test: CatalogueUnderTest) -> None:
    """A catalogue that does not answer raises CatalogueUnreachable, which says what to do."""
    with pytest.raises(CatalogueUnreachable) as refused:
        under_test.gone.describe([under_test.tables[0].name])
    assert refused.value.todo


LAWS: Final[tuple[Law, ...]] = (
    a_table_is_described_completely,
    only_requested_tables_are_described,
    an_unknown_table_is_left_out,
    names_are_compared_without_case,
    names_that_differ_only_in_case_must_match_exactly,
    a_catalogue_that_does_not_answer_raises_an_error,
)
