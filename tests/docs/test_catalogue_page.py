"""`docs/reference/catalogue.md`: the types that it shows are those of the code, and its files can be read."""

from __future__ import annotations

import pytest
from pages import codes, fences, sections, tables

from lakeward.adapters.catalogues import documents
from lakeward.adapters.catalogues.types import DATABASES, our_type, written

PAGE = "docs/reference/catalogue.md"
HEADINGS = {
    "PostgreSQL": ("postgresql",),
    "MySQL and MariaDB": ("mysql", "mariadb"),
    "SQL Server": ("sqlserver",),
    "Oracle": ("oracle",),
}


def examples() -> list[tuple[str, str, str]]:
    rows = []
    for heading, databases in HEADINGS.items():
        (listed,) = tables(sections(PAGE, 3)[heading])
        for row in listed:
            ours = "None" if row["here"].startswith("none") else codes(row["here"])[0]
            rows += [(base, text, ours) for base in databases for text in codes(row["at the source"])]
    return rows


@pytest.mark.parametrize(("database", "text", "ours"), examples())
def test_a_type_is_what_the_page_says(database: str, text: str, ours: str) -> None:
    assert str(our_type(database, written(text))) == ours


def test_every_database_and_every_type_of_ours_has_its_rows() -> None:
    assert {database for database, _, _ in examples()} == set(DATABASES)
    for database, types in DATABASES.items():
        page_types = {ours.split("(")[0] for base, _, ours in examples() if base == database}
        assert {rule.split("(")[0] for rule in types.values() if isinstance(rule, str)} <= page_types


def test_the_document_of_the_page_can_be_read() -> None:
    (document,) = fences(PAGE, "json")
    (table,) = documents.tables(document.content, "postgresql", None, "a.json")
    assert (str(table.name), table.key, table.names) == ("shop.customer", ("id",), ("id", "name"))
