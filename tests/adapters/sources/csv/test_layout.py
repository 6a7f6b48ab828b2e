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
DMS = Dialect()
DIMENSION = Dimension(
    name=TableName("shop", "customer"),
    schema=Schema(tuple(Column(name, Type("string")) for name in COLUMNS)),
    key=("id",),
)


def layout(
    head: str,
    *,
    is_load: bool = False,
    dimension: Dimension = DIMENSION,
    dialect: Dialect = DMS,
    policies: Policies = DEFAULT_POLICIES,
    op: str | None = "Op",
    time: str | None = None,
    **others: Any,
) -> Layout:
    expected = ExpectedLayout(replace(dimension, policies=policies), dialect, op, time, **others)
    return find_layout("file.csv", head, expected, is_load=is_load)


def refusal(head: str, **options: Any) -> SchemaConflict:
    with pytest.raises(SchemaConflict) as refused:
        layout(head, **options)
    assert str(DIMENSION.name) in refused.value.what
    assert "Nothing of this batch was applied; other tables go on." in str(refused.value.todo)
    return refused.value


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
RULES = {**TIMED, "before_prefix": "BI_", "sequence_column": "change_seq"}
"""Columns that rules of the endpoint add: the sequence, and the key as it was."""

# Endpoints without deletes.
NO_OP = {"may_lack_op": True}
NONE_IN_A_HEADER = {"header_may_lack_op": True}
NEVER = {"op": None}

# The source's catalogue knows how the table was before.
WIDE = ("id", "mail", "name", "city")
WIDER = replace(
    DIMENSION, schema=Schema(tuple(Column(name, Type("string")) for name in WIDE)), orders=(WIDE, COLUMNS)
)
BOTH, BOTH_LOADED = {"dimension": WIDER}, {"dimension": WIDER, **LOAD}
SWAPPED = {"dimension": replace(WIDER, orders=(("id", "mail", "city"), COLUMNS))}
TWO_KEYS = {"dimension": replace(DIMENSION, key=("id", "name")), **LOAD}
TIMED_LOAD = {**LOAD, **TIMED}


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
        ("U,2026-11-21 10:00:00,1,Ada,Bonn,7,1\n", RULES, (OP, TIME, *COLUMNS, SEQUENCE, BEFORE + "id")),
        ("op,ts,id,name,city,Change_Seq,bi_id\n", RULES, (OP, TIME, *COLUMNS, SEQUENCE, BEFORE + "id")),
        ("NULL,1,Ada,Köln\nNULL,2,Bo,Kiel\n", TIMED_LOAD, (TIME, *COLUMNS)),  # without commit times
        *((f"{key},Ada,Köln\n", LOAD, COLUMNS) for key in "IU"),  # a key may be a letter
        ("I,Ada,Köln\nD,Bo,Kiel\n", LOAD, COLUMNS),
        ("I,1,Köln\nI,2,Kiel\n", TWO_KEYS, COLUMNS),  # one of several columns in each row
        ("1,Ada,Köln\n", NO_OP, COLUMNS),
        ("U,1,Ada,Köln\n", NO_OP, (OP, *COLUMNS)),
        ("id,name,city\n1,Ada,Köln\n", NO_OP, COLUMNS),
        ("id,name,city\n1,Ada,Köln\n", NONE_IN_A_HEADER, COLUMNS),
        ("I,1,Ada,Köln\n", NONE_IN_A_HEADER, (OP, *COLUMNS)),
        *((head, NEVER, COLUMNS) for head in ("D,1,Ada,Köln\n", "1,Ada,Köln\n", "D,1\n")),
        ("I,1,Ada,Köln\n", BOTH, (OP, *COLUMNS)),
        ("I,1,a@x,Ada,Köln\n", BOTH, (OP, *WIDE)),
        ("1,Ada,Köln\n", BOTH_LOADED, COLUMNS),
        ("1,a@x,Ada,Köln\n", BOTH_LOADED, WIDE),
        ("D,Ada,Köln,x\nE,Ada,Köln,x\n", BOTH_LOADED, WIDE),
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
def test_a_file_of_other_columns_is_refused(head: str, options: dict[str, Any], found: str) -> None:
    assert refusal(head, **options).found == found


TIMES = "{},2026-11-21 10:00:00,1,Ada\n{},2026-11-21 10:00:01,2,Bo\n"


@pytest.mark.parametrize(
    ("head", "options", "words"),
    [
        (
            "Op,ts,id,name,city,BI_id\n",
            RULES,
            [
                "columns of file.csv are not",
                "it lacks change_seq",
                "Correct `timestamp_column` or `sequence_column`",
            ],
        ),
        ("1,Ada,Köln\n", {}, ["it lacks Op (the operation)", "say so by `operations` under [source]"]),
        ("1,Ada,Köln\n", NONE_IN_A_HEADER, ["it lacks Op (the operation)"]),
        ("op,ID,Name\n", NEVER, ["it has op, which the table has not"]),
        ("1,Ada,Köln,NRW\n", LOAD, ["found 4 columns and no header"]),
        ("1,Ada,Köln,NRW\n", NO_OP, ["one column more"]),
        # Letters of operations would be values, and every other value stand one column further.
        ("I,1,Ada\nI,2,Bo\n", LOAD, ["found 3 columns and no header, and the first is an Op column"]),
        ("I,2026-11-21 10:00:00,1,Ada\n", TIMED_LOAD, ["found 4 columns and no header, and the first is an Op"]),
        (TIMES.format("U", "I"), {**TIMED, **NO_OP}, ["one column less"]),
        *(
            (TIMES.format(*ops), TIMED_LOAD, ["one column less"])
            for ops in (("U", "U"), ("I", "U"), ("I", ""), ("", ""), ("i", "i"), ("NULL", "NULL"))
        ),
        # Two orders have the width.
        ("I,1,Ada,Köln\n", SWAPPED, ["cannot be told", "id, name, city; then id, mail, city"]),
        ("I,1,Ada,Köln\nI,2,Bob,Bonn\n", BOTH_LOADED, ["cannot be told"]),
        ("I;1;a;b\nU;2;c;d\n", {}, ["is written with another delimiter", "one field by ',', and 4 by ';'"]),
        ("Op;id;name;city\nI;1;a;b\n", {}, ["another delimiter", 'Set `delimiter = ";"` under [source]']),
        ("I\t1\ta\tb\n", {}, ["another delimiter", 'Set `delimiter = "\\t"` under [source]']),
        ("1|a|b\n", LOAD, ["another delimiter", "one field by ',', and 3 by '|'"]),
    ],
)
def test_a_file_of_unknown_columns_is_refused(head: str, options: dict[str, Any], words: list[str]) -> None:
    refused = refusal(head, **options)
    assert [word for word in words if word not in f"{refused.what} {refused.found} {refused.todo}"] == []


def test_a_layout_has_the_names_of_its_header_or_those_that_one_would_have() -> None:
    assert layout("I,1,Ada,Köln\n") == Layout((OP, *COLUMNS), has_header=False, is_crlf=False, names=NAMES)
    assert layout("1,Ada,Köln\n", op=None) == Layout(COLUMNS, False, False, names=COLUMNS)
    found = layout("Op,city,id,name\nI,Köln,1,Ada\n")
    assert found == Layout((OP, "city", "id", "name"), True, False, names=("op", "city", "id", "name"))


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
    found = layout(head, is_load=True, policies=Policies(add=Policy.IGNORE))
    assert found.first_line == first


def test_a_header_of_changes_says_what_the_key_was_before() -> None:
    options = {"before_prefix": "BI_"}
    assert BEFORE + "id" in layout("Op,id,name,city,BI_id\nU,9,Ada,Köln,1\n", **options).columns
    assert layout("id,name,city\n1,Ada,Köln\n", is_load=True, **options).has_header
    for head in ("Op,id,name,city\nU,9,Ada,Köln\n", "Op,id,name,city,BI_name\nU,9,Ada,Köln,1\n"):
        with pytest.raises(SchemaConflict, match="does not say what id was before") as refused:
            layout(head, **options)
        assert "`before_image_prefix` is 'BI_'" in str(refused.value.found)


def test_undeclared_columns_are_kept_in_the_layout_if_their_rows_go_into_quarantine() -> None:
    """A replay could not find a column without a name, or one of two of the same name."""
    found = layout("Op,id,zip,name,city\n", policies=(policies := Policies(add=Policy.QUARANTINE)))
    assert found.columns == (OP, "id", "zip", "name", "city")
    assert found.undeclared(DIMENSION.schema) == ["zip"]
    assert str(refusal("Op,id,zip,name,city,ZIP\n", policies=policies).found).startswith(UNKNOWN_ZIP)
    assert refusal('Op,id,"",name,city\n', policies=policies).found == "field 3 of its header has no name"


@pytest.mark.parametrize(
    ("head", "has_header", "is_crlf"),
    [
        ('I,1,"Ada",Köln\r\nU,1,"A\r\nda","Köln"\r\n', False, True),
        ("Op,id,name,city\r\nI,1,Ada,Köln\r\n", True, True),
        # The last row need not end as the others, which would keep a carriage return.
        *(("I,1,Ada,NULL\r\n" + last, False, True) for last in ("U,2,Bo,Kiel", 'U,2,Bo,"Kiel"', "U,2,Bo,Kiel\r")),
        ("Op,id,name,city\r\nI,1,Ada,Köln", True, True),
        ("I,1,Ada,Köln", False, False),
        # Carriage returns at some rows are data.
        ("I,1,Ada,Köln\r\nI,2,Bo,Kiel\n", False, False),
        ("I,1,Ada,Köln\nI,2,Bo,Kiel\r\n", False, False),
        ("Op,id,name,city\nI,1,Ada,Köln\r\nI,2,Bo,Kiel\n", True, False),
        # A header may end otherwise than all rows.
        ("Op,id,name,city\nI,1,Ada,Köln\r\nI,2,Bo,Kiel\r\n", True, True),
        ("Op,id,name,city\r\nI,1,Ada,Köln\nI,2,Bo,Kiel\n", True, False),
    ],
)
def test_carriage_returns_at_the_end_of_all_rows_are_line_ends(head: str, has_header: bool, is_crlf: bool) -> None:
    assert layout(head) == Layout((OP, *COLUMNS), has_header, is_crlf, names=NAMES)


def test_a_head_that_ends_within_a_row_still_shows_the_line_ends() -> None:
    """The cut row has lost its own line end."""
    head = 'I,1,Ada,"a\nb"\r\nI,2,Bob,c\r\nI,3,Cy,"d\n'
    assert layout(head).is_crlf
    assert has_crlf(head, Dialect())
    assert not has_crlf(head.replace("\r", ""), Dialect())


@pytest.mark.parametrize(
    ("content", "error", "todo"),
    [
        *(
            ("I,1,a,b\n".encode(coding), "is no UTF-8", "iconv")
            for coding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
        ),
        (gzip.compress(b"I,1,a,b\n" * 100), "is packed by gzip, and its name does not say so", "csv.gz"),
    ],
)
def test_a_file_of_another_coding_is_named_so(content: bytes, error: str, todo: str) -> None:
    with pytest.raises(SourceError, match=error) as refused:
        layout(content.decode("utf-8", errors="replace"))
    assert todo in str(refused.value.todo)


@pytest.mark.parametrize("head", ["I,1,a;b,c;d\n", "I,1,a\0,b\n", "I,1,\ufffd\ufffd,b\n", "x\n", ""])
def test_a_file_of_the_declared_form_is_not_refused(head: str) -> None:
    assert not layout(head, is_load=True).has_header
