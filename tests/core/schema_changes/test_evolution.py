"""How two schemas differ is said in words, and what becomes of it is a matter of policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_of_columns import TYPES, columns

from lakeward.core.schema import Column, Schema
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Kind, Policies, Policy, compare, evolve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (columns(a="int", b="string"), columns(b="string", a="int")),
        (columns(a="struct<x: int, y: int>"), columns(a="struct<y: int, x: int>")),
    ],
)
def test_another_order_of_columns_or_fields_is_no_change(before: Schema, after: Schema) -> None:
    assert compare(before, after) == ()


def test_each_difference_is_named() -> None:
    changes = compare(columns(a="int", b="string", c="date"), columns(a="bigint", C="date", d="double"))
    assert [str(change) for change in changes] == [
        "column C (date) is new",
        "column d (double) is new",
        "column b (string) is missing",
        "column c (date) is missing",
        "column a was int and is bigint",
    ]


def test_a_difference_within_a_nested_type_has_a_path() -> None:
    """The key of a map is a part of its type."""
    before = columns(a="struct<x: int, y: int>", b="list<struct<x: int>>", c="map<int, float>", d="map<int, int>")
    after = columns(
        a="struct<y: bigint>", b="list<struct<x: int, z: int>>", c="map<int, double>", d="map<date, int>"
    )
    assert [str(change) for change in compare(before, after)] == [
        "column a.x (int) is missing",
        "column a.y was int and is bigint",
        "column b.element.z (int) is new",
        "column c.value was float and is double",
        "column d was map<int, int> and is map<date, int>",
    ]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("int", "bigint", Kind.WIDEN),
        ("bigint", "int", Kind.NARROW),
        ("float", "double", Kind.WIDEN),
        ("decimal(8,2)", "decimal(10,2)", Kind.WIDEN),
        ("decimal(10,2)", "decimal(8,2)", Kind.NARROW),
        ("decimal(8,2)", "decimal(10,4)", Kind.RETYPE),
        ("int", "double", Kind.RETYPE),
        ("int", "string", Kind.RETYPE),
        ("timestamp", "timestamp_ntz", Kind.RETYPE),
        ("list<int>", "list<bigint>", Kind.WIDEN),
        ("list<int>", "struct<element: int>", Kind.RETYPE),
        ("date", "timestamp_ntz", Kind.RETYPE),
    ],
)
def test_a_type_becomes_wider_or_narrower_or_another(before: str, after: str, kind: Kind) -> None:
    (change,) = compare(columns(a=before), columns(a=after))
    assert change.kind is kind


def test_a_table_follows_by_default() -> None:
    found = evolve(columns(id="int", a="string"), columns(id="bigint", b="date"), DEFAULT_POLICIES, ["id"])
    assert found.schema == columns(id="bigint", a="string", b="date")
    assert [change.kind for change in found.changes] == [Kind.ADD, Kind.WIDEN]
    assert (found.absent, found.ignored, found.refused) == (("a",), (), ())


def test_a_change_without_a_policy_is_refused_and_the_key_cannot_be_dropped() -> None:
    strict = Policies(add=Policy.FAIL, drop=Policy.FAIL, widen=Policy.FAIL)
    found = evolve(columns(id="int", a="string"), columns(id="bigint", b="date"), strict, ["id"])
    assert {change.kind for change in found.refused} == {Kind.ADD, Kind.DROP, Kind.WIDEN}
    assert [str(c) for c in evolve(columns(id="int"), columns(), DEFAULT_POLICIES, ["id"]).refused] == [
        "column id (int) is missing"
    ]
    assert evolve(columns(a="int"), columns(a="string"), Policies(narrow=Policy.EVOLVE)).refused


def test_a_table_does_without_a_column_or_keeps_its_wider_type() -> None:
    lenient = Policies(add=Policy.IGNORE, narrow=Policy.EVOLVE)
    found = evolve(columns(a="bigint"), columns(a="int", b="date"), lenient)
    assert (found.schema, found.changes, found.ignored) == (columns(a="bigint"), (), ("b",))


_NESTED = "struct<x: int, y: map<int, struct<z: int, w: int>>>"


@pytest.mark.parametrize(
    "after",
    [
        "struct<x: int, y: string>",
        "map<int, int>",
        "struct<x: int, y: map<date, struct<z: int, w: int>>>",
        "struct<x: int, y: map<int, struct<z: int>>>",
    ],
)
def test_another_type_within_a_column_or_a_missing_field_of_elements_is_refused(after: str) -> None:
    assert evolve(columns(a=_NESTED), columns(a=after), DEFAULT_POLICIES).refused


def test_a_field_of_a_struct_may_be_missing_like_a_column() -> None:
    before = columns(a="struct<x: int, y: struct<z: int, w: int>>", b="int")
    found = evolve(before, columns(a="struct<y: struct<z: int>>"), DEFAULT_POLICIES)
    assert (found.refused, found.schema) == ((), before)
    assert (found.absent, found.lacking) == (("b",), (("a", "x"), ("a", "y", "w")))
    stops = Policies(paths={"a.y": {Kind.DROP: Policy.FAIL}})
    (refused,) = evolve(before, columns(a="struct<y: struct<z: int>>"), stops).refused
    assert str(refused) == "column a.y.w (int) is missing"


def test_changes_whose_rows_are_refused_leave_the_columns_as_they_are() -> None:
    before = columns(id="int", a="list<struct<x: int, y: int>>", b="int", c="string", d="bigint")
    after = columns(id="int", a="list<struct<x: bigint, z: int>>", b="bigint", d="int", e="date")
    every = Policies(**dict.fromkeys(("add", "drop", "widen", "narrow", "incompatible"), Policy.QUARANTINE))
    found = evolve(before, after, every, ["id"])
    assert (found.schema, found.changes, found.refused) == (before, (), ())
    assert (found.absent, found.lacking, found.ignored) == ((), (), ())
    assert len(found.quarantined_changes) == len(found.differences) == 7
    assert found.stored_columns(after) == columns(
        id="int", a="list<struct<x: int, y: int>>", b="int", d="bigint"
    ), "the table's own types: who has a value of another is not among the rows"


@pytest.mark.parametrize("type_", ["bigint", "string"])
def test_a_key_of_another_type_cannot_be_quarantined(type_: str) -> None:
    policies = Policies(widen=Policy.QUARANTINE, incompatible=Policy.QUARANTINE)
    assert evolve(columns(id="int"), columns(id=type_), policies, ["id"]).refused


def test_it_is_known_whether_some_rows_may_be_refused() -> None:
    assert not DEFAULT_POLICIES.may_refuse
    assert Policies(narrow=Policy.QUARANTINE).may_refuse
    assert Policies(paths={"a.b": {Kind.RETYPE: Policy.QUARANTINE}}).may_refuse


def test_the_policy_of_the_nearest_path_counts() -> None:
    paths = {"a": {Kind.ADD: Policy.IGNORE}, "a.x": {Kind.ADD: Policy.FAIL}, "a.x.y": {Kind.WIDEN: Policy.FAIL}}
    policies = Policies(paths=paths)
    given_ = [
        (("b",), Kind.ADD),
        (("a", "c"), Kind.ADD),
        (("a", "x", "d"), Kind.ADD),
        (("a", "x", "y"), Kind.WIDEN),
        (("a", "x"), Kind.WIDEN),
    ]
    assert [policies.of(kind, names).value for names, kind in given_] == [
        "evolve",
        "ignore",
        "fail",
        "fail",
        "evolve",
    ]
    found = evolve(columns(a="struct<x: int>"), columns(a="struct<x: int, c: int>"), policies)
    assert (found.schema, found.ignored, found.changes) == (columns(a="struct<x: int>"), ("a.c",), ())
    assert found.stored_columns(columns(a="struct<x: int, c: int>")) == columns(a="struct<x: int>")


def test_a_renamed_column_is_compared_by_its_new_name() -> None:
    policies = Policies(renames={"a": "b", "older": "b"})
    found = evolve(columns(id="int", a="int"), columns(id="int", b="bigint"), policies, ["id"])
    assert found.schema == columns(id="int", b="bigint")
    assert [str(change) for change in found.changes] == [
        "column a is called b now",
        "column b was int and is bigint",
    ]
    assert found.renames == {"a": "b"}
    again = evolve(found.schema, columns(id="int", b="bigint"), policies, ["id"])
    assert again.differences == ()


@pytest.mark.parametrize(
    ("current", "incoming"),
    [
        (columns(a="int", b="int"), columns(b="int")),
        (columns(a="int"), columns(a="int", b="int")),
        (columns(b="int"), columns(a="int", b="int")),
        (columns(a="int", older="int"), columns(b="int")),
    ],
)
def test_a_rename_never_merges_two_columns(current: Schema, incoming: Schema) -> None:
    refused = evolve(current, incoming, Policies(renames={"a": "b", "older": "b"})).refused
    assert {change.kind for change in refused} >= {Kind.RENAME}


@pytest.mark.parametrize("path", ["address.city", "items.element.city", "address.no.such.field"])
def test_a_field_within_a_column_cannot_be_renamed(path: str) -> None:
    now = columns(address="struct<city: string>", items="list<struct<city: string>>")
    for current, incoming in ((now, now), (now, columns(id="int")), (columns(id="int"), now)):
        (refused,) = evolve(current, incoming, Policies(renames={path: "town"})).refused
        assert (refused.kind, refused.path, refused.to, refused.is_nested) == (Kind.RENAME, path, "town", True)


def test_a_column_whose_name_looks_like_a_path_is_renamed() -> None:
    before = columns(**{"address": "struct<city: string>", "address.city": "int"})
    after = columns(address="struct<city: string>", town="int")
    policies = Policies(renames={"address.city": "town"})
    assert evolve(before, after, policies).renames == {"address.city": "town"}
    assert evolve(after, after, policies).refused == ()


SCHEMAS = st.dictionaries(st.sampled_from("abcd"), TYPES, max_size=4).map(
    lambda types: Schema(tuple(Column(name, type_) for name, type_ in types.items()))
)


@given(SCHEMAS, SCHEMAS)
def test_an_evolution_loses_no_column_and_makes_no_type_narrower(current: Schema, incoming: Schema) -> None:
    """And once the table has followed, the same columns change nothing any more."""
    found = evolve(current, incoming, DEFAULT_POLICIES)
    assert set(found.schema.names) == set(current.names) | set(incoming.names)
    for change in compare(current, found.schema):
        assert change.kind in (Kind.ADD, Kind.WIDEN)
    again = evolve(found.schema, incoming, DEFAULT_POLICIES)
    assert again.changes == ()
    assert again.absent == found.absent
