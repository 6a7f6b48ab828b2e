"""The rules of CSV, one by one, as the reference reader keeps them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.csv.parser import BOM, Dialect, Record, fields, records

DMS = Dialect()
UNQUOTED = Dialect(quote="")


def rows(content: str, dialect: Dialect = DMS) -> list[tuple[str | None, ...] | None]:
    return [record.fields for record in records(content, dialect)]


NULL_TEXT, EMPTY_NULL = Dialect(null_text=r"\N"), Dialect(null_text="")
PIPES = Dialect(delimiter="|", quote="'")


@pytest.mark.parametrize(
    ("text", "dialect", "values"),
    [
        # Only an unquoted field of exactly the null text is NULL.
        ("1,NULL,2", DMS, ("1", None, "2")),
        ('"NULL",,"",null, NULL,NULLS', DMS, ("NULL", "", "", "null", " NULL", "NULLS")),
        (r'\N,NULL,"\N",', NULL_TEXT, (None, "NULL", r"\N", "")),
        ('a,,"",', EMPTY_NULL, ("a", None, "", None)),
        # Quoted text is one field, and a doubled quote is one quote.
        ('"a,b",c', DMS, ("a,b", "c")),
        ('"a ""b"" c"', DMS, ('a "b" c',)),
        ('"""",""""', DMS, ('"', '"')),
        ('""""""', DMS, ('""',)),
        ("'a',b", DMS, ("'a'", "b")),
        (r'"a\"', DMS, ("a\\",)),
        ('" a ", b ', DMS, (" a ", " b ")),
        ("1|'a|''b'''|\"c\"|NULL", PIPES, ("1", "a|'b'", '"c"', None)),
        ('"a,b",c"d', UNQUOTED, ('"a', 'b"', 'c"d')),
        # A quote in a wrong place breaks the row.
        *(
            (text, DMS, None)
            for text in ('a"b', 'a"b"c,d', '"a"b', '"a" ,b', '"NULL" ', ' "a"', '"a""', '"', 'a,"b')
        ),
    ],
)
def test_a_row_has_these_fields(text: str, dialect: Dialect, values: tuple[str | None, ...] | None) -> None:
    assert fields(text, dialect) == values


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param("1,a\n2,b", [("1", "a"), ("2", "b")], id="the last row needs no line feed"),
        pytest.param("", [], id="an empty file has no row"),
        pytest.param("1\n\n2\n", [("1",), ("",), ("2",)], id="an empty line is a row"),
        pytest.param('1,a\n2,b"c"d\n3,e\n', [("1", "a"), None, ("3", "e")], id="a broken row breaks no other"),
        pytest.param("1,a\r\n2,b\rc\n", [("1", "a\r"), ("2", "b\rc")], id="a carriage return is part of a field"),
        pytest.param(f'{BOM}"1",a\n{BOM}2,b\n', [("1", "a"), (f"{BOM}2", "b")], id="a byte order mark is no part"),
        *(
            pytest.param(
                f'1,"a{end}b"\n2,c\n', [("1", f"a{end}b"), ("2", "c")], id=f"{end!r} within quotes is data"
            )
            for end in ("\n", "\r\n", "\r", "\n\n", "\r\n\r\n")
        ),
        *(
            pytest.param(f"1,a{other}b\n", [("1", f"a{other}b")], id=f"{other!r} ends no row")
            for other in "\x0b\x0c\x1c\x85\u2028\u2029"
        ),
    ],
)
def test_a_file_has_these_rows(content: str, found: list[tuple[str, ...] | None]) -> None:
    assert rows(content) == found


def test_without_a_quote_character_no_row_goes_on_in_the_next_line() -> None:
    assert rows('1,"\n2,"\n', UNQUOTED) == [("1", '"'), ("2", '"')]


def test_a_row_is_numbered_by_the_line_it_begins_on_and_keeps_its_text() -> None:
    assert [*records('1,"a\nb\nc"\n2,"d\n3,e\n', DMS)] == [
        Record(1, '1,"a\nb\nc"', ("1", "a\nb\nc")),
        Record(4, '2,"d\n3,e', None),
    ]


VALUES = st.none() | st.text(st.sampled_from('ab,"\n\r\\ NUL'), max_size=6) | st.just("NULL")
ROWS = st.lists(st.lists(VALUES, min_size=2, max_size=4), max_size=5)


def written(value: str | None) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace('"', '""') + '"'


@given(ROWS)
def test_rows_that_are_written_by_the_rules_are_read_back(table: list[list[str | None]]) -> None:
    content = "".join(",".join(map(written, row)) + "\n" for row in table)
    assert rows(content) == [tuple(row) for row in table]


@given(st.text(st.sampled_from('ab,"\nNUL'), max_size=40))
def test_no_character_of_any_content_is_lost_or_moved(content: str) -> None:
    found = list(records(content, DMS))
    assert "\n".join(record.text for record in found) == content.removesuffix("\n")
    lines = [record.line for record in found]
    assert lines == sorted(set(lines))
