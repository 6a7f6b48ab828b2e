"""The laws of a registration: an entry describes its table, and entries of other tables do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lakeward.core.errors import ConfigError
from lakeward.core.ports import DescribedColumn, Registration, TableDescription
from lakeward.core.schema import Type
from lakeward.plugins.testing.contract import Closed, port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """An entry as a reader finds it: the URL of its folder, and the names and comments of its columns in order."""

    location: str
    columns: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationUnderTest:
    """A registration under test.

    - `others`: the same registration as another pipeline has it.
    - `location`, `format`: the URL under which its tables lie, and their format.
    - `find`: reads an entry as other programs do, by namespace and name of its table.
    - `writes`: counts the changes so far.
    - `ignores_case`: whether names that differ only in case are one entry.
    """

    registration: Registration
    others: Registration
    location: str
    format: str
    find: Callable[[tuple[str, str]], FoundEntry | None]
    writes: Callable[[], int]
    ignores_case: bool = True


Law: TypeAlias = Callable[[RegistrationUnderTest], None]


def registration_contract(make: Callable[..., RegistrationUnderTest]) -> type:
    """Return a test class with the laws of a registration. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a registration.", make, LAWS)


def an_entry_is_found_with_the_columns_of_its_table(bench: RegistrationUnderTest) -> None:
    """An entry has the columns of its table in order, their comments, and the location."""
    table = _table(bench)
    bench.registration.register(table)
    assert bench.find(table.identifier) == _expected_entry(table)


def a_correct_entry_is_not_written_again(bench: RegistrationUnderTest) -> None:
    """Registering an unchanged table writes nothing, so each run can do it."""
    table = _table(bench)
    bench.registration.register(table)
    before = bench.writes()
    bench.registration.register(table)
    assert bench.writes() == before


def an_entry_follows_its_table(bench: RegistrationUnderTest) -> None:
    """An entry follows new, dropped and changed columns and removed comments."""
    table = _table(bench)
    bench.registration.register(table)
    first, *_ = table.columns
    changed = (
        replace(first, comment=None),
        DescribedColumn(name="total", type=Type("decimal", 14, 2), comment="of the order"),
    )
    later = replace(table, columns=changed)
    bench.registration.register(later)
    assert bench.find(table.identifier) == _expected_entry(later)


def the_entry_of_another_table_is_not_changed(bench: RegistrationUnderTest) -> None:
    """If the name belongs to another table, a ConfigError is raised and nothing changes."""
    other = replace(_table(bench), location=f"{bench.location}/elsewhere")
    bench.others.register(other)
    before = bench.writes()
    mine = replace(_table(bench), columns=(DescribedColumn(name="other", type=Type("int")),))
    assert _is_refused(lambda: bench.registration.register(mine))
    assert bench.writes() == before
    assert bench.find(other.identifier) == _expected_entry(other)


def tables_that_would_share_an_entry_are_refused(bench: RegistrationUnderTest) -> None:
    """Tables that would share an entry are refused before anything is written."""
    bench.registration.check([("shop", "orders"), ("shop", "lines")])
    if not bench.ignores_case:
        raise Closed("names in whatever case")
    assert _is_refused(lambda: bench.registration.check([("shop", "orders"), ("shop", "Orders")]))


def _table(bench: RegistrationUnderTest) -> TableDescription:
    return TableDescription(
        namespace="shop",
        name="orders",
        format=bench.format,
        location=f"{bench.location}/orders",
        columns=(
            DescribedColumn(name="id", type=Type("bigint"), comment="the key"),
            DescribedColumn(name="state", type=Type("string")),
            DescribedColumn(name="at", type=Type("timestamp"), comment="when it was made"),
        ),
    )


def _is_refused(act: Callable[[], None]) -> bool:
    """Return True if a call raises a ConfigError that says what to do."""
    try:
        act()
    except ConfigError as error:
        return bool(error.todo)
    return False


def _expected_entry(table: TableDescription) -> FoundEntry:
    columns = [(column.name, column.comment or "") for column in table.columns]
    return FoundEntry(location=table.location, columns=columns)


LAWS: Final[tuple[Law, ...]] = (
    an_entry_is_found_with_the_columns_of_its_table,
    a_correct_entry_is_not_written_again,
    an_entry_follows_its_table,
    the_entry_of_another_table_is_not_changed,
    tables_that_would_share_an_entry_are_refused,
)
