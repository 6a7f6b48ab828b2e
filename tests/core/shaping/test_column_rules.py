"""What rules make of columns: names, types, order, what needs what, and what is refused."""

from __future__ import annotations

import pytest
from types_of_columns import columns

from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET
from lakeward.core.schema import Schema, Type, parse_type
from lakeward.core.shaping.cells import shape_row
from lakeward.core.shaping.column_rules import TEXT, Cast, Default, Hash, Mask, Rename, Replace, Rule, Trim
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Flatten, Keep, Split, Sql
from lakeward.core.shaping.shape import key_steps, shape, source_key

HOST = columns(id="int", name="string", place="string", since="string", nest="struct<x: int, y: string>")
PLACE = Split(column="place", pattern=r",\s*", into=("city", "country"))


def names(*rules: Rule, source: Schema = HOST) -> str:
    return " ".join(shape(rules, source).schema.names)


def refusal(*rules: Rule, source: Schema = HOST) -> str:
    with pytest.raises(ConfigError) as refused:
        shape(rules, source)
    return str(refused.value)


# What becomes of the columns.


def test_a_made_column_follows_the_columns_that_it_is_made_of() -> None:
    assert names(PLACE) == "id name place city country since nest"
    assert names(Rename(column="name", to="called")) == "id called place since nest"
    assert names(Flatten(column="nest", prefix="nest_")) == "id name place since nest_x nest_y"
    assert names(Concat(columns=("name", "id"), to="both")) == "id name both place since nest"
    assert names(Constant(to="site", value="eu")) == "id name place since nest site"
    assert names(Keep(columns=("place", "id"))) == "id place"


def test_a_rule_changes_its_column_in_place_or_makes_another() -> None:
    changed = shape([Cast(column="since", type=Type("date"))], HOST).schema
    assert (changed.names, str(changed.columns[3].type)) == (HOST.names, "date")
    assert names(Cast(column="since", type=Type("date"), to="day")) == "id name place since day nest"


def test_columns_that_no_rule_names_pass_as_they_are() -> None:
    assert names(PLACE, source=columns(place="string", new="map<string, int>")) == "place city country new"


def test_rules_see_what_rules_before_them_made() -> None:
    rules = (PLACE, Drop(columns=("place",)), Rename(column="city", to="place"), Trim(column="place"))
    assert names(*rules) == "id name place country since nest"


def test_a_name_that_was_dropped_is_free_again() -> None:
    assert names(Rename(column="name", to="NAME")) == "id NAME place since nest"
    assert names(Drop(columns=("name",)), Constant(to="name", value="x")) == "id place since nest name"


def test_each_column_knows_the_columns_of_the_source_that_it_needs() -> None:
    form = shape(
        [
            PLACE,
            Rename(column="name", to="who"),
            Concat(columns=("who", "city"), to="label"),
            Drop(columns=("place",)),
            Constant(to="site", value="eu"),
            Mask(column="label"),
        ],
        HOST,
    )
    assert form.needs["label"] == {"name", "place"}
    assert form.needs["country"] == {"place"}
    assert form.needs["site"] == frozenset()
    assert form.without(["place"]).names == ("id", "who", "since", "nest", "site")


def test_a_column_made_of_an_unsent_cell_is_unsent() -> None:
    form = shape([PLACE, Default(column="name", value="nobody"), Constant(to="site", value="eu")], HOST)
    made = shape_row({"id": 1, "name": UNSET, "since": None, "nest": None}, form, {}).cells
    assert made["name"] is made["city"] is made["place"] is UNSET
    assert (made["since"], made["site"]) == (None, "eu")


# What is refused.


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ((Trim(column="nam"),), "rule 1, trim: there is no column 'nam' here"),
        ((Trim(column="nam"),), "Did you mean 'name'?"),
        ((Drop(columns=("name", "town")),), "rule 1, drop: there is no column 'town' here"),
        ((Drop(columns=("name",)), Trim(column="name")), "a rule before this one took it away"),
        ((Trim(column="city"), PLACE), "split makes it further down"),
        (
            (Concat(columns=("name", "b"), to="a"), Concat(columns=("name", "a"), to="b")),
            "concat makes it, and reads what this rule makes: a cycle",
        ),
        ((PLACE, Constant(to="city", value="x")), "it makes the column 'city', and 'city' is there already"),
        ((Rename(column="name", to="place"),), "it makes the column 'place', and 'place' is there already"),
        ((Rename(column="name", to="Place"),), "it makes the column 'Place', and 'place' is there already"),
        ((Constant(to="", value="x"),), "'' cannot name a column"),
        ((Constant(to="_Lakeward_row", value="x"),), "'_Lakeward_row' cannot name a column"),
        ((Flatten(column="name", prefix=""),), "it takes a struct"),
        ((Trim(column="id"),), "it takes a string\nthe column id is int"),
        ((Default(column="id", value="one"),), "'one' is no int"),
        ((Constant(to="n", value="1.5", type=Type("int")),), "'1.5' is no int"),
        ((Cast(column="nest", type=TEXT),), "the column nest is struct"),
        ((Cast(column="since", type=parse_type("list<int>")),), "there is no cast from string to list<int>"),
        ((Cast(column="id", type=Type("bigint"), format="0"),), "a cast from int to bigint has no format"),
        ((Cast(column="id", type=Type("binary")),), "there is no cast from int to binary"),
        ((Keep(columns=("id",)), Drop(columns=("id",))), "no column is left"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_by_its_number(rules: tuple[Rule, ...], said: str) -> None:
    assert said in refusal(*rules)


# Keys.


@pytest.mark.parametrize(
    "rule",
    [
        Rename(column="name", to="key"),
        Trim(column="name", to="key"),
        Hash(column="name", key="env:PEPPER", to="key"),
        Cast(column="name", type=Type("bigint"), to="key"),
    ],
)
def test_a_key_passes_rules_that_keep_values_apart(rule: Rule) -> None:
    form = shape([rule], HOST)
    assert source_key(form, ["key"]) == ("name",)
    assert key_steps(form, ["key"]) == {1}
    assert key_steps(form, ["id"]) == frozenset()


def test_a_constant_may_be_part_of_a_key_and_not_all_of_it() -> None:
    form = shape([Constant(to="site", value="eu")], HOST)
    assert source_key(form, ["site", "id"]) == ("id",)
    with pytest.raises(ConfigError, match="the key is the same in each row"):
        source_key(form, ["site"])


@pytest.mark.parametrize(
    "rule",
    [
        Mask(column="name", keep=4),
        Replace(column="name", pattern="a", by="b"),
        Default(column="name", value="x"),
        Split(column="name", pattern="-", into=("first",)),
        Concat(columns=("name", "place"), to="first"),
        Sql(expression="lower(name)", to="first", type=TEXT, columns=("name",)),
    ],
)
def test_a_key_does_not_pass_rules_that_may_make_one_value_of_two(rule: Rule) -> None:
    form = shape([Trim(column="name"), rule], HOST)
    with pytest.raises(ConfigError, match=f"rule 2, {rule.kind}, may make one value of two"):
        source_key(form, ["id", "first" if form.schema.find("first") else "name"])


def test_a_key_column_that_a_rule_removes_is_named_with_the_rule() -> None:
    form = shape([Rename(column="id", to="number")], HOST)
    with pytest.raises(ConfigError, match="the key names 'id'") as refused:
        source_key(form, ["id"])
    assert refused.value.found == "rule 1, rename, takes it away"
