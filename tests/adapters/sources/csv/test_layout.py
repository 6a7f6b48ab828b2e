"""How the columns of a CSV file are laid out is found from its first rows, file by file."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

import pytest

from lakeward.adapters.sources.csv.earlier_headers import order_in_headers
from lakeward.adapters.sources.csv.layout import (
    BEFORE,
    IGNORED,
    OP,
    SEQUENCE,
    TIME,
    ExpectedLayout,
    Layout,
    find_layout,
    has_crlf,
)
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict, SourceError
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Kind, Policies, Policy

COLUMNS = ("id", "name", "city")
NAMES = ("op", *COLUMNS)
DIMENSION = Dimension(
    name=TableName("shop", "customer"),
    schema=Schema(tuple(Column(name, Type("string")) for name in COLUMNS)),
    key=("id",),
)


def layout(
    head: str,
    *,
    is_load: bool = False,
    time: str | None = None,
    dialect: Dialect | None = None,
    policies: Policies = DEFAULT_POLICIES,
) -> Layout:
    expected = ExpectedLayout(replace(DIMENSION, policies=policies), dialect or Dialect(), "Op", time)
    return find_layout("file.csv", head, expected, is_load=is_load)


def refusal(
    head: str, *, is_load: bool = False, time: str | None = None, policies: Policies = DEFAULT_POLICIES
) -> str:
    with pytest.raises(SchemaConflict) as refused:
        layout(head, is_load=is_load, time=time, policies=policies)
    assert str(DIMENSION.name) in refused.value.what
    assert "Nothing of this batch was applied; other tables go on." in str(refused.value.todo)
    return str(refused.value.found)


# The order of columns, where some files have a header and some have none.

ORDER = ("id", "city", "name")
DECLARED, OTHER, BARE = "id,name,city\n1,Ada,Bonn\n", "id,city,name\n1,Bonn,Ada\n", "2,Bob,Ulm\n"


def order(*heads: str, known: tuple[str, ...] = (), expected: ExpectedLayout | None = None) -> tuple[str, ...]:
    """Return the order that files show which begin so."""
    expected = expected or ExpectedLayout(DIMENSION, Dialect(), "Op", None)
    found = [find_layout(f"{n}.csv", head, expected, is_load=True) for n, head in enumerate(heads)]
    return order_in_headers([(f"{n}.csv", layout) for n, layout in enumerate(found)], expected, known)


def test_headers_may_have_any_order_and_files_without_one_the_declared_one() -> None:
    assert order(DECLARED, OTHER) == ORDER
    keyless = ExpectedLayout(replace(DIMENSION, key=()), Dialect(), None, None)
    assert order("city,id\nBonn,1\n", expected=keyless) == ("city", "id")
    assert order(DECLARED, BARE) == order(BARE) == order("", BARE) == order(BARE, DECLARED) == ()
    assert order(OTHER, DECLARED, BARE) == order(DECLARED, BARE, known=ORDER) == ()
    assert order(DECLARED, OTHER) == order(BARE, OTHER) == order(known=ORDER) == ORDER
    assert order("I,2,Bob,Ulm\n", known=("id", "name", "other")) == ("id", "name", "other")


@pytest.mark.parametrize("empty", ["", "\n", "\r\n\n"])
def test_a_file_without_lines_has_no_order(empty: str) -> None:
    assert order(OTHER, empty) == order(empty, known=ORDER) == ORDER


@pytest.mark.parametrize("heads", [(OTHER, BARE), (DECLARED, OTHER, BARE), ("city,id,name\n", "", BARE)])
def test_a_file_without_a_header_after_one_of_another_order_is_refused(heads: tuple[str, ...]) -> None:
    with pytest.raises(SchemaConflict, match="nothing tells the order of the columns in") as refused:
        order(*heads)
    assert "declared are id, name, city" in str(refused.value.found)
    with pytest.raises(SchemaConflict, match="nothing tells the order"):
        order(BARE, known=ORDER)


def test_settings_or_a_catalogue_may_tell_the_order_of_files_without_a_header() -> None:
    catalogued = ExpectedLayout(replace(DIMENSION, orders=(COLUMNS,)), Dialect(), "Op", None)
    assert order(OTHER, BARE, expected=catalogued) == ORDER
    without = ExpectedLayout(DIMENSION, Dialect(), "Op", None, header=False)
    assert order(BARE, known=ORDER, expected=without) == ORDER


# Layouts, without a header by the number of columns, with one by name.

LOAD, TIMED = {"is_load": True}, {"time": "ts"}
IGNORING = Policies(add=Policy.IGNORE)
RENAMED = Policies(renames={"Town": "city", "place": "city", "gone": "elsewhere"})
OF_PATHS = Policies(paths={"zip": {Kind.ADD: Policy.IGNORE}, "city": {Kind.DROP: Policy.FAIL}})


@pytest.mark.parametrize(
    ("head", "options", "columns"),
    [
        ("I,1,Ada,Köln\n", {}, (OP, *COLUMNS)),
        ("I,1,Ada,Köln\n", LOAD, (OP, *COLUMNS)),
        ("1,Ada,Köln\n", LOAD, COLUMNS),
        ("I,2026-11-21 10:00:00,1,Ada,Köln\n", TIMED, (OP, TIME, *COLUMNS)),
        ("2026-11-21 10:00:00,1,Ada,Köln\n", {**LOAD, **TIMED}, (TIME, *COLUMNS)),
        ('I,1,A"d"a,Köln\nI,2\nI,3,Bo,Kiel\nU,4,Cy,Ulm\n', LOAD, (OP, *COLUMNS)),  # most rows decide
        ("", {}, (OP, *COLUMNS)),
        ("", LOAD, COLUMNS),
        ("I|1|'A|da'|Köln\n", {"dialect": Dialect("|", "'")}, (OP, *COLUMNS)),
        ("I,1,city,Köln\n", {}, (OP, *COLUMNS)),  # a row that names few columns is no header
        ("Op,city,id,name\nI,Köln,1,Ada\n", {}, (OP, "city", "id", "name")),
        ('"OP","ID","Name",CITY\n', {}, (OP, *COLUMNS)),
        ("Op,ts,id,name,city\n", TIMED, (OP, TIME, *COLUMNS)),
        ("Op,ts,id\nI,2026-01-01 00:00:00,1\n", TIMED, (OP, TIME, "id")),
        ("id,name,city\n", LOAD, COLUMNS),
        ("Op,id,name,city\n", LOAD, (OP, *COLUMNS)),
        ("Op,id,name\n", {}, (OP, "id", "name")),
        ("Op,id,zip,name,city\n", {"policies": IGNORING}, (OP, "id", f"{IGNORED}2", *COLUMNS[1:])),
        ("Op,id,zip,city\n", {"policies": OF_PATHS}, (OP, "id", f"{IGNORED}2", "city")),
        *((f"Op,id,{old},name\n", {"policies": RENAMED}, (OP, "id", "city", "name")) for old in ("town", "PLACE")),
    ],
)
def test_a_file_has_these_columns(head: str, options: dict[str, Any], columns: tuple[str, ...]) -> None:
    assert layout(head, **options).columns == columns


UNKNOWN_ZIP = "it has zip, which the table has not"


@pytest.mark.parametrize(
    ("head", "options", "found"),
    [
        ("1,Ada,Köln\n", {}, "it lacks Op (the operation)"),
        ("Op,id,name,city,zip\n", {}, UNKNOWN_ZIP),
        ("Op,name,city\n", {}, "it lacks id"),
        ("id,name,city\n", {}, "it lacks Op (the operation)"),
        ("Op,id,name,town\n", {}, "it has town, which the table has not; it lacks city"),
        ("Op,id,name,city\n", TIMED, "it lacks ts"),
        ("Op,id,name\n", {"policies": Policies(drop=Policy.FAIL)}, "it lacks city"),
        ("Op,id,name\n", {"policies": OF_PATHS}, "it lacks city"),
        ("Op,id,name,city,land\n", {"policies": OF_PATHS}, "it has land, which the table has not"),
        ("Op,id,name,city,gone\n", {"policies": RENAMED}, "it has gone, which the table has not"),
        (
            "Op,id,name,town,city\n",
            {"policies": RENAMED},
            "it has town and city, which are one column, as `schema.rename` says",
        ),
        ("Op,id,name,city,\nI,1,Ada,Köln,2\n", {}, "field 5 of its header has no name"),
        (
            "Op,id,,name,city,\nI,1,Ada,Köln,2\n",
            {},
            "field 3 of its header has no name; field 6 of its header has no name",
        ),
        ("Op,id,name,city,x\x1b\nI,1,Ada,Köln,2\n", {}, r"it has 'x\x1b', which the table has not"),
        (  # the columns that DMS adds show a header: else rows of renamed columns would be read by their places
            "Op,id,x,y\nI,1,a,b\n",
            {},
            "it has x, which the table has not; it has y, which the table has not; it lacks name; it lacks city",
        ),
        (
            "ts,x\n2026-01-01 00:00:00,a\n",
            {**LOAD, **TIMED},
            "it has x, which the table has not; it lacks id; it lacks name; it lacks city",
        ),
        *(
            (twice + "\nI,1,Ada,Köln,2\n", {}, f"it has {both}, and nothing says which of them is meant")
            for twice, both in (
                ("Op,id,name,city,ID", "id and ID"),
                ("Op,OP,id,name,city", "Op and OP"),
                ("Op,id,name,city,name", "name and name"),
            )
        ),
    ],
)
def test_a_file_of_other_columns_is_refused_with_the_difference(
    head: str, options: dict[str, Any], found: str
) -> None:
    assert refusal(head, **options) == found


def test_a_layout_without_a_header_has_the_names_of_one() -> None:
    assert layout("I,1,Ada,Köln\n") == Layout((OP, *COLUMNS), has_header=False, is_crlf=False, names=NAMES)
    found = layout("Op,city,id,name\nI,Köln,1,Ada\n")
    assert found == Layout((OP, "city", "id", "name"), True, False, names=("op", "city", "id", "name"))


def test_columns_that_rules_add_follow_those_of_the_table() -> None:
    """The sequence, then the key as it was; a header says it for itself."""
    expected = ExpectedLayout(DIMENSION, Dialect(), "Op", "ts", "BI_", "change_seq")
    for head in ("U,2026-11-21 10:00:00,1,Ada,Bonn,7,1\n", "op,ts,id,name,city,Change_Seq,bi_id\n"):
        found = find_layout("file.csv", head, expected, is_load=False)
        assert found.columns == (OP, TIME, *COLUMNS, SEQUENCE, BEFORE + "id")
    with pytest.raises(SchemaConflict, match=r"columns of file\.csv are not") as refused:
        find_layout("file.csv", "Op,ts,id,name,city,BI_id\n", expected, is_load=False)
    assert "it lacks change_seq" in str(refused.value.found)
    assert "Correct `timestamp_column` or `sequence_column` under [source]" in str(refused.value.todo)


def test_changes_whose_header_may_lack_op_are_refused_without_a_header_alone() -> None:
    expected = ExpectedLayout(DIMENSION, Dialect(), "Op", None, header_may_lack_op=True)
    assert find_layout("file.csv", "id,name,city\n1,Ada,Köln\n", expected, is_load=False).columns == COLUMNS
    assert find_layout("file.csv", "I,1,Ada,Köln\n", expected, is_load=False).columns == (OP, *COLUMNS)
    with pytest.raises(SchemaConflict, match=r"it lacks Op \(the operation\)"):
        find_layout("file.csv", "1,Ada,Köln\n", expected, is_load=False)


def test_a_load_with_one_column_more_that_is_no_op_is_refused() -> None:
    assert "found 4 columns and no header" in refusal("1,Ada,Köln,NRW\n", is_load=True)


def test_a_load_with_op_that_has_one_column_less_is_refused() -> None:
    """Its letters would be the key, and every other value stand one column further."""
    lacks_one = "found 3 columns and no header, and the first is an Op column"
    assert refusal("I,1,Ada\nI,2,Bo\n", is_load=True) == lacks_one
    assert refusal("I,2026-11-21 10:00:00,1,Ada\n", is_load=True, time="ts") == lacks_one.replace("3", "4")


@pytest.mark.parametrize("head", ["I,Ada,Köln\n", "I,Ada,Köln\nD,Bo,Kiel\n", "U,Ada,Köln\n"])
def test_a_key_may_be_a_letter(head: str) -> None:
    assert layout(head, is_load=True).columns == COLUMNS


def test_a_key_of_several_columns_may_begin_with_a_letter_in_each_row() -> None:
    expected = ExpectedLayout(replace(DIMENSION, key=("id", "name")), Dialect(), "Op", None)
    assert find_layout("file.csv", "I,1,Köln\nI,2,Kiel\n", expected, is_load=True).columns == COLUMNS


# With a header.


@pytest.mark.parametrize(
    ("head", "first"),
    [
        ("id,name,city\n1,Ada,Köln\n", 2),
        ("\n\nid,name,city\n1,Ada,Köln\n", 4),
        ("\r\nid,name,city\r\n1,Ada,Köln\r\n", 3),
        ('\nid,name,city,"a\nb"\n1,Ada,Köln,x\n', 4),
        ("\n1,Ada,Köln\n", 1),
    ],
)
def test_rows_begin_after_the_header_even_if_empty_lines_precede_it(head: str, first: int) -> None:
    """Else the header would be a row where the columns are texts."""
    found = layout(head, is_load=True, policies=Policies(add=Policy.IGNORE))
    assert found.first_line == first


def test_a_header_of_changes_says_what_the_key_was_before() -> None:
    """With a prefix that it has not, an update of a key would leave the row with the old one."""
    expected = ExpectedLayout(DIMENSION, Dialect(), "Op", None, before_prefix="BI_")
    head = "Op,id,name,city,{}\nU,9,Ada,Köln,1\n"
    assert BEFORE + "id" in find_layout("a.csv", head.format("BI_id"), expected, is_load=False).columns
    for named in ("Op,id,name,city\nU,9,Ada,Köln\n", head.format("BI_name")):
        with pytest.raises(SchemaConflict, match="does not say what id was before") as refused:
            find_layout("a.csv", named, expected, is_load=False)
        assert "`before_image_prefix` is 'BI_'" in str(refused.value.found)
    assert find_layout("LOAD1.csv", "id,name,city\n1,Ada,Köln\n", expected, is_load=True).has_header


def test_undeclared_columns_are_kept_in_the_layout_if_their_rows_go_into_quarantine() -> None:
    """A replay could not find a column without a name, or one of two of the same name."""
    found = layout("Op,id,zip,name,city\n", policies=(policies := Policies(add=Policy.QUARANTINE)))
    assert found.columns == (OP, "id", "zip", "name", "city")
    assert found.undeclared(DIMENSION.schema) == ["zip"]
    assert refusal("Op,id,zip,name,city,ZIP\n", policies=policies).startswith(UNKNOWN_ZIP)
    assert refusal('Op,id,"",name,city\n', policies=policies) == "field 3 of its header has no name"


# Line ends.


def test_carriage_returns_at_every_row_are_line_ends() -> None:
    assert layout('I,1,"Ada",Köln\r\nU,1,"A\r\nda","Köln"\r\n') == Layout((OP, *COLUMNS), False, True, names=NAMES)
    assert layout("Op,id,name,city\r\nI,1,Ada,Köln\r\n") == Layout((OP, *COLUMNS), True, True, names=NAMES)


def test_the_last_row_need_not_end_where_the_others_end_in_both() -> None:
    """Else each row before it would keep a carriage return, and its NULL become a text."""
    for last in ("U,2,Bo,Kiel", 'U,2,Bo,"Kiel"', "U,2,Bo,Kiel\r"):
        assert layout("I,1,Ada,NULL\r\n" + last) == Layout((OP, *COLUMNS), False, True, names=NAMES)
    assert layout("Op,id,name,city\r\nI,1,Ada,Köln") == Layout((OP, *COLUMNS), True, True, names=NAMES)
    assert not layout("I,1,Ada,Köln").is_crlf


def test_carriage_returns_at_some_rows_are_data() -> None:
    assert not layout("I,1,Ada,Köln\r\nI,2,Bo,Kiel\n").is_crlf


def test_rows_and_their_header_may_end_otherwise() -> None:
    """A carriage return at the end of all rows is no part of their last cells, nor that of a header of its name."""
    names, rows = "Op,id,name,city", ("I,1,Ada,Köln", "I,2,Bo,Kiel")
    for of_header, of_rows in (("\n", "\r\n"), ("\r\n", "\n")):
        found = layout(names + of_header + "".join(row + of_rows for row in rows))
        assert (found.columns, found.has_header, found.is_crlf) == ((OP, *COLUMNS), True, of_rows == "\r\n")
        assert found.names == NAMES
    assert not layout(f"{rows[0]}\n{rows[1]}\r\n").is_crlf, "the first line is a row"
    assert not layout(f"{names}\n{rows[0]}\r\n{rows[1]}\n").is_crlf, "a row ends otherwise"


def test_a_head_that_ends_within_a_row_still_shows_the_line_ends() -> None:
    """The cut row has lost its own line end."""
    head = 'I,1,Ada,"a\nb"\r\nI,2,Bob,c\r\nI,3,Cy,"d\n'
    assert layout(head).is_crlf
    assert has_crlf(head, Dialect())
    assert not has_crlf(head.replace("\r", ""), Dialect())


# Endpoints without deletes.


def without_op(head: str) -> Layout:
    return find_layout(
        "file.csv", head, ExpectedLayout(DIMENSION, Dialect(), "Op", None, may_lack_op=True), is_load=False
    )


def test_changes_may_be_without_op_where_the_settings_say_so() -> None:
    assert without_op("1,Ada,Köln\n").columns == COLUMNS
    assert without_op("U,1,Ada,Köln\n").columns == (OP, *COLUMNS)
    assert without_op("id,name,city\n1,Ada,Köln\n").columns == COLUMNS
    with pytest.raises(SchemaConflict, match="one column more"):
        without_op("1,Ada,Köln,NRW\n")


def test_changes_whose_commit_time_would_be_a_letter_are_refused() -> None:
    expected = ExpectedLayout(DIMENSION, Dialect(), "Op", "ts", may_lack_op=True)
    with pytest.raises(SchemaConflict, match="one column less"):
        find_layout(
            "file.csv", "U,2026-11-21 10:00:00,1,Ada\nI,2026-11-21 10:00:00,2,Bo\n", expected, is_load=False
        )


@pytest.mark.parametrize("ops", [("U", "U"), ("I", "U"), ("I", ""), ("", ""), ("i", "i"), ("NULL", "NULL")])
def test_a_load_with_an_op_and_a_column_less_is_refused(ops: tuple[str, str]) -> None:
    """Else the commit time would be a value, and each value one column further to the right."""
    expected = ExpectedLayout(DIMENSION, Dialect(null_text="NULL"), "Op", "ts")
    lines = "".join(f"{op},2026-11-21 10:00:0{number},{number},Ada\n" for number, op in enumerate(ops))
    with pytest.raises(SchemaConflict, match="one column less"):
        find_layout("file.csv", lines, expected, is_load=True)


def test_a_load_may_have_no_commit_times() -> None:
    expected = ExpectedLayout(DIMENSION, Dialect(null_text="NULL"), "Op", "ts")
    found = find_layout("file.csv", "NULL,1,Ada,Köln\nNULL,2,Bo,Kiel\n", expected, is_load=True)
    assert found.columns == (TIME, *COLUMNS)


def test_the_settings_that_let_op_be_missing_are_named_where_it_is() -> None:
    with pytest.raises(SchemaConflict) as refused:
        layout("1,Ada,Köln\n")
    assert "say so by `operations` under [source]" in str(refused.value.todo)


# Without a header, where the source's catalogue knows how the table was before.

WIDER = replace(
    DIMENSION,
    schema=Schema(tuple(Column(name, Type("string")) for name in ("id", "mail", "name", "city"))),
    orders=(("id", "mail", "name", "city"), COLUMNS),
)


def by_orders(dimension: Dimension, head: str, *, is_load: bool = False) -> tuple[str, ...]:
    return find_layout("file.csv", head, ExpectedLayout(dimension, Dialect(), "Op", None), is_load=is_load).columns


def test_a_file_is_read_as_the_table_was_when_it_had_its_width() -> None:
    assert by_orders(WIDER, "I,1,Ada,Köln\n") == (OP, *COLUMNS)
    assert by_orders(WIDER, "I,1,a@x,Ada,Köln\n") == (OP, "id", "mail", "name", "city")
    assert by_orders(WIDER, "1,Ada,Köln\n", is_load=True) == COLUMNS
    assert by_orders(WIDER, "1,a@x,Ada,Köln\n", is_load=True) == ("id", "mail", "name", "city")


def test_nothing_is_shifted_where_two_orders_have_the_width() -> None:
    swapped = replace(WIDER, orders=(("id", "mail", "city"), COLUMNS))
    with pytest.raises(SchemaConflict, match="cannot be told") as refused:
        by_orders(swapped, "I,1,Ada,Köln\n")
    assert "id, name, city; then id, mail, city" in str(refused.value.found)


def test_a_load_whose_first_column_may_be_op_or_not_is_not_guessed() -> None:
    assert by_orders(WIDER, "D,Ada,Köln,x\nE,Ada,Köln,x\n", is_load=True) == ("id", "mail", "name", "city")
    with pytest.raises(SchemaConflict, match="cannot be told"):
        by_orders(WIDER, "I,1,Ada,Köln\nI,2,Bob,Bonn\n", is_load=True)


@pytest.mark.parametrize("head", ["D,1,Ada,Köln\n", "1,Ada,Köln\n", "D,1\n"])
def test_files_that_never_have_an_operation_are_of_the_columns_of_the_table(head: str) -> None:
    """A letter that stands first is no operation then: that row has a field too many."""
    expected = ExpectedLayout(DIMENSION, Dialect(), None, None)
    assert find_layout("file.csv", head, expected, is_load=False) == Layout(COLUMNS, False, False, names=COLUMNS)
    with pytest.raises(SchemaConflict) as refused:
        find_layout("file.csv", "op,ID,Name\n", expected, is_load=False)
    assert "it has op, which the table has not" in str(refused.value.found)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("I;1;a;b\nU;2;c;d\n", "one field by ',', and 4 by ';'"),
        ("Op;id;name;city\nI;1;a;b\n", 'Set `delimiter = ";"` under [source]'),
        ("I\t1\ta\tb\n", 'Set `delimiter = "\\t"` under [source]'),
        ("1|a|b\n", "one field by ',', and 3 by '|'"),
    ],
)
def test_another_delimiter_is_named(head: str, words: str) -> None:
    with pytest.raises(SchemaConflict, match="is written with another delimiter") as refused:
        layout(head, is_load=head.startswith("1"))
    assert words in f"{refused.value.found} {refused.value.todo}"


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_file_that_is_no_utf_8_is_named_so(coding: str) -> None:
    head = "I,1,a,b\n".encode(coding).decode("utf-8", errors="replace")
    with pytest.raises(SourceError, match="is no UTF-8") as refused:
        layout(head)
    assert "iconv" in str(refused.value.todo)


def test_a_file_that_gzip_packed_is_named_so() -> None:
    head = gzip.compress(b"I,1,a,b\n" * 100).decode("utf-8", errors="replace")
    with pytest.raises(SourceError, match="is packed by gzip, and its name does not say so") as refused:
        layout(head)
    assert "csv.gz" in str(refused.value.todo)


@pytest.mark.parametrize("head", ["I,1,a;b,c;d\n", "I,1,a\0,b\n", "I,1,\ufffd\ufffd,b\n", "x\n", ""])
def test_a_file_of_the_declared_form_is_not_refused(head: str) -> None:
    assert not layout(head, is_load=True).has_header
