"""Layers of settings: for each key the last layer that has it counts, and gives the place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.errors import ConfigError
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries, merge
from lakeward.core.settings.text import read_object, read_settings

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2), st.dictionaries(KEYS, st.integers()))
SECTIONS = st.dictionaries(st.sampled_from(["pipeline", "source"]), st.dictionaries(KEYS, VALUES, min_size=1))
TABLES = st.dictionaries(st.sampled_from(["s.one", "S.one", "s.two"]), st.dictionaries(KEYS, VALUES, min_size=1))


def one_name_each(tables: dict[str, Any]) -> bool:
    return len({name.lower() for name in tables}) == len(tables)


CONTENTS = st.builds(lambda said, tables: {**said, "tables": tables}, SECTIONS, TABLES.filter(one_name_each))


@given(contents=st.lists(CONTENTS, min_size=1, max_size=4))
def test_each_value_is_that_of_the_last_layer_that_has_its_key_and_its_place_says_so(
    contents: list[dict[str, Any]],
) -> None:
    merged = merge([SettingsLayer(origin=f"layer {n}", content=content) for n, content in enumerate(contents)])
    last: dict[tuple[str, ...], tuple[Any, str]] = {}
    for number, content in enumerate(contents):
        for section, said in content.items():
            for key, value in said.items():
                if section == "tables":
                    last |= {(section, key.lower(), inner): (v, f"layer {number}") for inner, v in value.items()}
                else:
                    last[section, key] = (value, f"layer {number}")
    found = {
        (path[0], path[1].lower(), *path[2:]): (value, place)
        for path, value, place in merged.of_values()
        if len(path) > 1
    }
    assert found == last


def test_a_table_is_spelled_as_the_first_layer_spells_it() -> None:
    layers = [{"s.One": {"key": ["a"]}}, {"S.ONE": {"ties": "fail"}}]
    merged = merge([SettingsLayer(origin=str(n), content={"tables": one}) for n, one in enumerate(layers)])
    assert merged.content == {"tables": {"s.One": {"key": ["a"], "ties": "fail"}}}
    assert merged.places_of("s.One") == ["0", "1"]


def test_a_section_without_keys_removes_none() -> None:
    layers: list[dict[str, Any]] = [{"tables": {"s.a": {"key": ["a"]}}}, {"tables": {"s.a": {}}}, {"tables": {}}]
    merged = merge([SettingsLayer(origin=str(n), content=one) for n, one in enumerate(layers)])
    assert (merged.content, merged.places) == (layers[0], {("tables", "s.a", "key"): "0"})
    assert merge([SettingsLayer(origin="0", content=layers[1])]).content == layers[1]


def test_a_broken_entry_takes_its_table_out_and_no_other() -> None:
    broken = ConfigError("no")
    first = {"tables": {"s.a": {"key": ["a"]}, "s.b": {"key": ["b"]}}}
    merged = merge(
        [
            SettingsLayer(origin="file", content=first, fails_whole=True),
            SettingsLayer(origin="store", broken={"S.A": broken}),
        ]
    )
    assert (merged.content, merged.broken) == ({"tables": {"s.b": {"key": ["b"]}}}, {"s.a": broken})
    assert (merged.alone, [*merged.places]) == ({"s.a"}, [("tables", "s.b", "key")])


def test_an_entry_has_its_own_place_and_two_of_one_table_are_both_broken() -> None:
    layer = layer_of_entries(
        "store",
        [
            SettingsEntry(table="s.a", origin="item s.a", keys={"key": ["a"]}),
            SettingsEntry(table="s.b", origin="item s.b"),
            SettingsEntry(table="S.B", origin="item S.B"),
            SettingsEntry(table="s.c", origin="item s.c", error=ConfigError("no")),
        ],
        content={"pipeline": {"parallel": 3}},
    )
    merged = merge([layer])
    assert merged.content == {"pipeline": {"parallel": 3}, "tables": {"s.a": {"key": ["a"]}}}
    assert merged.places == {("pipeline", "parallel"): "store", ("tables", "s.a", "key"): "item s.a"}
    assert sorted(layer.broken) == ["S.B", "s.b", "s.c"]
    assert layer.broken["s.b"].found == "item s.b and item S.B"


@pytest.mark.parametrize("first", [{}, {"s.a": {"key": ["a"]}}])
def test_a_table_that_one_layer_has_under_two_names_is_broken(first: dict[str, Any]) -> None:
    duplicate_objects = {"S.A": {"ties": "fail"}, "S.a": {"redelivery": 3}, "s.b": {"ties": "fail"}}
    base = SettingsLayer(origin="file", content={"tables": first}, fails_whole=True)
    merged = merge([base, SettingsLayer(origin="store", content={"tables": duplicate_objects})])
    assert merged.content["tables"] == {"s.b": {"ties": "fail"}}
    assert {name.lower() for name in merged.broken} == {"s.a"}
    assert {error.found for error in merged.broken.values()} == {"'S.A' in store and 'S.a' in store"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key = secret-word", "is not valid TOML"),
        ('{"key": secret-word}', "is no JSON"),
        ('{"s.a": {"key": "secret-word"}, "s.a": {}}', "the key 's.a' is there twice"),
    ],
)
def test_a_text_that_cannot_be_read_is_named_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_settings(text, "the place")
    assert "the place" in refused.value.what
    assert "secret-word" not in str(refused.value)


def test_an_object_is_json() -> None:
    assert read_object(' {"a": 1}', "the place") == {"a": 1}
    with pytest.raises(ConfigError, match="the place is no JSON object"):
        read_object("[1]", "the place")
