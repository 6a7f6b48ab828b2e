"""A first line is a header, a row, or stops the table; no guess puts a value under a wrong name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.csv.earlier_headers import names_in_headers
from lakeward.adapters.sources.csv.header import HeaderSetting, header_fields
from lakeward.adapters.sources.csv.layout import ExpectedLayout, Layout, find_layout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.files.paths.file_names import FileNames
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Policies, Policy

STRINGS = {"code": "string", "name": "string"}
ADDRESS = {"code": "string", "name": "string", "city": "string", "zip": "string"}
TYPED = {"id": "bigint", "name": "string", "changed": "timestamp", "total": "double"}
IGNORING = Policies(add=Policy.IGNORE)


def expected(columns: dict[str, str], *, key: str = "", op: str | None = None, **others: object) -> ExpectedLayout:
    schema = Schema(tuple(Column(name, Type(type_)) for name, type_ in columns.items()))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=(key or next(iter(columns)),))
    policies = others.pop("policies", DEFAULT_POLICIES)
    assert isinstance(policies, Policies)
    return ExpectedLayout(replace(dimension, policies=policies), Dialect(null_text=""), op, None, **others)  # type: ignore[arg-type]


def layout(head: str, columns: dict[str, str], **others: object) -> Layout:
    return find_layout("b.csv", head, expected(columns, **others), is_load=False)  # type: ignore[arg-type]


def refusal(head: str, columns: dict[str, str], **others: object) -> SchemaConflict:
    with pytest.raises(SchemaConflict) as refused:
        layout(head, columns, **others)
    assert "Nothing of this batch was applied; other tables go on." in str(refused.value.todo)
    return refused.value


@pytest.mark.parametrize(
    ("head", "columns", "found"),
    [
        ("full_name,code\nBob,B2\n", STRINGS, "and full_name, which the table does not have"),
        ("name,en\nname,de\n", STRINGS, "it has name as the table has, and en, which the table does not have"),
        ("kode,menge\nA1,5\nA2,6\n", STRINGS, "the rows after it have values such as 5 in menge"),
        ("nummer,wann\n5,2026-01-01 10:00:00\n", {"id": "int", "at": "timestamp"}, "values such as 5 in nummer"),
        ('"kode", "menge"\nA1,5\n', STRINGS, "the rows after it have values such as 5 in menge"),
        (
            "code,2025,2026\nA,1,2\n",
            {"code": "string", "q1": "int", "q2": "int"},
            "and 2025, 2026, which the table does not have",
        ),
        ("Report,2026\nname,code\nAda,A1\n", STRINGS, "row 2 names columns of the table: name, code"),
        ("# export\n\ncode,name\nA1,Ada\n", STRINGS, "names columns of the table: code, name"),
        ("code;name\nA1;Ada\n", {"code": "string"}, "it has code, name, separated by another delimiter"),
        ("region,code,,\nx,A1,,\n", ADDRESS, "code as the table has, and region, which the table does not have"),
    ],
)
@pytest.mark.parametrize("policies", [DEFAULT_POLICIES, IGNORING])
def test_an_ambiguous_line_is_refused(head: str, columns: dict[str, str], found: str, policies: Policies) -> None:
    refused = refusal(head, columns, policies=policies)
    assert "whether the first line of b.csv is a header cannot be told" in refused.what
    assert found in str(refused.found)
    assert "`header = true`" in str(refused.todo)
    assert "`header = false`" in str(refused.todo)
    assert layout(head, columns, header=False).columns == tuple(columns)


@pytest.mark.parametrize(
    ("head", "shown"),
    [("sep=,\nname,code\nAda,A1\n", "sep="), ("sep=,\nA1,Ada\n", "sep="), ("SEP=;\nA1,Ada\n", "SEP=;")],
)
def test_a_line_for_spreadsheets_stops_the_table(head: str, shown: str) -> None:
    refused = refusal(head, STRINGS)
    assert f"it is `{shown}`, which tells a spreadsheet the delimiter" in str(refused.found)
    assert "Take that line out of the file." in str(refused.todo)
    assert layout("sep=x,Ada\nA1,Bob\n", STRINGS).has_header is False


def test_a_header_that_names_a_half_of_the_columns_is_one() -> None:
    head = "code, stadt, plz, name\nA1,Bonn,53111,Ada\n"
    assert (
        refusal(head, ADDRESS).found
        == "it has stadt, which the table has not; it has plz, which the table has not; it lacks city; it lacks zip"
    )
    found = layout(head, ADDRESS, policies=IGNORING).columns
    assert (found[0], found[3]) == ("code", "name")


def test_a_name_that_was_never_declared_is_shown_without_its_blanks() -> None:
    assert refusal("code, name, city, zip, land\n", ADDRESS).found == "it has land, which the table has not"


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("Ada,Bonn\nBob,Kiel\n", STRINGS),  # all rows are alike
        ("Ada,Bonn\n", STRINGS),
        ("A1,a@x\n1,5\n", STRINGS),  # no name has that form
        ("Ada,Ada\n1,5\n", STRINGS),  # no header has a name twice
        ("Ada,\n1,5\n", STRINGS),
        ("7,name,2026-01-01 10:00:00,1.5\n", TYPED),  # a key of numbers has a number
        ("x,name,2026-01-01,1.5\n", TYPED),
        ("oops,Ada,2026-01-01,x\n8,Bob,2026-01-01,2\n", TYPED),
        ('A1, "Ada"\nA2,Bob\n', STRINGS),
        ("true,a\nfalse,b\n", {"id": "boolean", "name": "string"}),
    ],
)
def test_a_row_stays_one(head: str, columns: dict[str, str]) -> None:
    assert not layout(head, columns).has_header


def test_a_line_of_unknown_names_stops_the_table_where_other_files_have_a_header() -> None:
    def named() -> frozenset[str]:
        return frozenset({"code", "name"})

    found = str(refusal("kode,bezeichnung\nB2,Bob\n", STRINGS, earlier=named).found)
    assert found == "it has kode, bezeichnung, and other files of the table have a header"
    assert not layout("B2,b@x\n", STRINGS, earlier=named).has_header


def test_names_are_collected_from_the_headers_of_other_files(tmp_path: Path) -> None:
    table, place = TableName("shop", "item"), Place(FileNames())
    folder = Folder(tmp_path, Places(place), tmp_path.parent / "archive")
    at = tmp_path / "shop/item"
    at.mkdir(parents=True)
    for name, content in (
        ("b.csv", "kode,x\nB,c\n"),
        ("c.csv.gz", "no gzip"),
        ("d.json", "{}"),
        ("e.csv", "I,u\n"),
    ):
        (at / name).write_text(content)

    def names() -> set[str]:
        return set(names_in_headers(folder, table, expected(STRINGS), lambda name: folder.head(table, name)))

    assert names() == set()
    (at / "a.csv").write_text("Name, code\nAda,A1\n")
    assert names() == {"name", "code"}


def test_the_settings_say_that_files_have_a_header() -> None:
    assert layout("full_name,code\nBob,B2\n", STRINGS, header=True, policies=IGNORING).columns[1] == "code"
    assert "it has full_name" in str(refusal("full_name,code\nBob,B2\n", STRINGS, header=True).found)
    assert not layout("", STRINGS, header=True).has_header


@pytest.mark.parametrize("head", ["A1,Ada\nB2,Bob\n", 'A"1,Ada\n', ",\n"])
@pytest.mark.parametrize("policies", [DEFAULT_POLICIES, Policies(add=Policy.IGNORE, drop=Policy.IGNORE)])
def test_a_first_line_that_should_be_a_header_names_a_column_of_the_table(head: str, policies: Policies) -> None:
    assert "names no column of the table" in refusal(head, STRINGS, header=True, policies=policies).what


BLANK = st.sampled_from(["", " ", "  ", "\t", "\u00a0"])
STRANGE = st.text(st.sampled_from("abcxyz"), min_size=2, max_size=6).filter(lambda name: name not in ADDRESS)
VALUES = st.sampled_from(["5", "-1.5", "2026-01-01", "2026-01-01 10:00:00", "1e5", "007"])


@st.composite
def as_name(draw: st.DrawFn, name: str) -> str:
    name = draw(st.sampled_from([name, name.upper(), name.title()]))
    before, behind = draw(BLANK), draw(BLANK)
    return f'{before}"{name}"{behind}' if draw(st.booleans()) else before + name + behind


@given(st.data(), st.permutations(list(ADDRESS)), st.sampled_from([True, "auto"]))
def test_names_in_any_form_are_a_header(data: st.DataObject, names: list[str], header: HeaderSetting) -> None:
    head = ",".join(data.draw(as_name(name)) for name in names)
    found = layout(f"{head}\nA,B,C,D\n", ADDRESS, header=header)
    assert found == Layout(tuple(names), True, False, names=tuple(names))


@given(
    st.data(),
    st.lists(st.sampled_from(list(ADDRESS)), min_size=1, max_size=4, unique=True),
    st.lists(STRANGE, max_size=4, unique=True),
    st.sampled_from([DEFAULT_POLICIES, IGNORING, Policies(add=Policy.QUARANTINE)]),
)
def test_a_line_that_names_a_column_is_a_header_or_stops_the_table(
    data: st.DataObject, known: list[str], strange: list[str], policies: Policies
) -> None:
    names = data.draw(st.permutations([*known, *strange]))
    head = ",".join(data.draw(as_name(name)) for name in names)
    try:
        found = layout(f"{head}\n{','.join('v' * len(names))}\n", ADDRESS, policies=policies)
    except SchemaConflict:
        return
    assert found.has_header
    assert {place: name for place, name in enumerate(found.columns) if name in ADDRESS} == {
        place: name for place, name in enumerate(names) if name in ADDRESS
    }


@given(st.lists(STRANGE, min_size=2, max_size=2, unique=True), st.lists(st.tuples(VALUES, VALUES), min_size=1))
def test_names_before_rows_of_values_are_no_row(names: list[str], rows: list[tuple[str, str]]) -> None:
    head = "\n".join(",".join(row) for row in (names, *rows))
    assert "Nothing of this batch was applied" in str(refusal(head + "\n", STRINGS).todo)


@given(st.lists(st.tuples(STRANGE, STRANGE), min_size=1, max_size=6))
def test_rows_that_are_like_names_stay_rows_where_all_are_so(rows: list[tuple[str, str]]) -> None:
    head = "\n".join(",".join(row) for row in rows)
    assert layout(head + "\n", STRINGS) == Layout(tuple(STRINGS), False, False, names=tuple(STRINGS))


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4), st.data())
def test_quoted_names_of_a_header_are_unchanged(names: list[str], data: st.DataObject) -> None:
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    blanks = [data.draw(BLANK) + name + data.draw(BLANK) for name in quoted]
    assert header_fields(",".join(blanks), Dialect()) == tuple(names)


# What a header that stands again is compared with.


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("I,1,Ada\nI,2,Bob\n", ("operation", "id", "name")),
        ("I,2026-01-01 10:00:00,1,Ada,0\n", ("operation", "ts", "id", "name", "bi_id")),
        ('"operation","NAME",id\nI,Ada,1\n', ("operation", "name", "id")),
    ],
)
def test_a_file_of_dms_has_the_names_that_the_endpoint_gives(head: str, names: tuple[str, ...]) -> None:
    given = expected({"id": "int", "name": "string"}, op="Operation", before_prefix=None)
    if "ts" in names:
        given = replace(given, timestamp_column="ts", before_prefix="BI_")
    assert find_layout("a.csv", head, given, is_load=False).names == names


def test_a_row_by_chance_is_no_header() -> None:
    assert layout("A1\nB2\n", {"code": "string"}).names == ()
    assert layout("A1,Ada\n", STRINGS, header=False).names == ()
