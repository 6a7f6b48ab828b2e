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


# NULL.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NULL", None),
        ('"NULL"', "NULL"),
        ("", ""),
        ('""', ""),
        ("null", "null"),
        (" NULL", " NULL"),
        ("NULLS", "NULLS"),
    ],
)
def test_only_an_unquoted_field_of_exactly_the_null_text_is_null(text: str, value: str | None) -> None:
    assert fields(f"1,{text},2", DMS) == ("1", value, "2")


def test_the_null_text_is_what_the_endpoint_says() -> None:
    dialect = Dialect(null_text=r"\N")
    assert fields(r'\N,NULL,"\N",', dialect) == (None, "NULL", r"\N", "")


def test_an_empty_null_text_makes_an_unquoted_empty_field_null_and_no_quoted_one() -> None:
    dialect = Dialect(null_text="")
    assert fields('a,,"",', dialect) == ("a", None, "", None)


# Quotes.


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('"a,b",c', ("a,b", "c")),
        ('"a ""b"" c"', ('a "b" c',)),
        ('""""', ('"',)),
        ('"""",""""', ('"', '"')),
        ('""""""', ('""',)),
        ("'a',b", ("'a'", "b")),
        (r'"a\"', ("a\\",)),
        ('" a "', (" a ",)),
        (" a , b ", (" a ", " b ")),
    ],
)
def test_quoted_text_is_one_field_and_a_doubled_quote_is_one_quote(text: str, values: tuple[str, ...]) -> None:
    assert fields(text, DMS) == values


@pytest.mark.parametrize("text", ['a"b', 'a"b"c,d', '"a"b', '"a" ,b', '"NULL" ', ' "a"', '"a""', '"', 'a,"b'])
def test_a_quote_in_a_wrong_place_breaks_the_row(text: str) -> None:
    assert fields(text, DMS) is None


def test_a_broken_row_breaks_no_other() -> None:
    assert rows('1,a\n2,b"c"d\n3,e\n') == [("1", "a"), None, ("3", "e")]


def test_without_a_quote_character_nothing_is_quoted() -> None:
    assert fields('"a,b",c"d', UNQUOTED) == ('"a', 'b"', 'c"d')
    assert rows('1,"\n2,"\n', UNQUOTED) == [("1", '"'), ("2", '"')]


def test_delimiter_and_quote_are_what_the_endpoint_says() -> None:
    dialect = Dialect(delimiter="|", quote="'")
    assert fields("1|'a|''b'''|\"c\"|NULL", dialect) == ("1", "a|'b'", '"c"', None)


# Rows.


def test_a_row_ends_at_a_line_feed_and_the_last_one_need_not() -> None:
    assert rows("1,a\n2,b\n") == rows("1,a\n2,b") == [("1", "a"), ("2", "b")]


def test_an_empty_file_has_no_row_and_an_empty_line_is_one() -> None:
    assert rows("") == []
    assert rows("1\n\n2\n") == [("1",), ("",), ("2",)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"])
def test_line_ends_within_quotes_belong_to_the_field_unchanged(end: str) -> None:
    assert rows(f'1,"a{end}b"\n2,c\n') == [("1", f"a{end}b"), ("2", "c")]


def test_a_carriage_return_outside_of_quotes_is_part_of_the_field() -> None:
    assert rows("1,a\r\n2,b\rc\n") == [("1", "a\r"), ("2", "b\rc")]


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_no_other_character_ends_a_row(character: str) -> None:
    assert rows(f"1,a{character}b\n") == [("1", f"a{character}b")]


def test_a_row_is_numbered_by_the_line_it_begins_on_and_keeps_its_text() -> None:
    assert [*records('1,"a\nb\nc"\n2,d\n', DMS)] == [
        Record(1, '1,"a\nb\nc"', ("1", "a\nb\nc")),
        Record(4, "2,d", ("2", "d")),
    ]


def test_a_quote_that_is_never_closed_takes_the_rest_of_the_file_as_one_broken_row() -> None:
    assert [*records('1,a\n2,"b\n3,c\n', DMS)][1:] == [Record(2, '2,"b\n3,c', None)]


def test_a_byte_order_mark_at_the_beginning_is_no_part_of_the_first_field() -> None:
    assert rows(f'{BOM}"1",a\n{BOM}2,b\n') == [("1", "a"), (f"{BOM}2", "b")]


# All of them together.

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
