"""`column-rules.md` and `quality-rules.md`: every rule is there, and the examples do what they say."""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from pages import codes, fences, sections, tables, text

from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.shaping import column_rules as rules
from lakeward.core.shaping import reshaping_rules
from lakeward.core.shaping.cells import shape_row
from lakeward.core.shaping.reshaping_rules import Sql
from lakeward.core.shaping.shape import shape
from lakeward.core.text.values import to_text
from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.settings.models.column_rules import ColumnRule, column_rules
from lakeward.entrypoints.settings.models.quality_rules import QualityRule
from lakeward.entrypoints.settings.models.tables import TableSettings

COLUMNS, QUALITY = "docs/reference/column-rules.md", "docs/reference/quality-rules.md"
(EXAMPLES,) = tables(sections(COLUMNS)["The rules"])
TYPES = {"date_part": "date", "flatten": "struct<x: int, y: int>"}
VALUES = {"date_part": date(2026, 2, 28), "flatten": {"x": 1, "y": 2}}


def kinds(union: Any) -> list[str]:
    return [get_args(model.model_fields["rule"].annotation)[0] for model in get_args(get_args(union)[0])]


def examples() -> list[tuple[str, str, str, str]]:
    """Return rule, example, cell and result of each row. An empty cell has the value of the row above."""
    shaped, rule, example = [], "", ""
    for row in EXAMPLES:
        rule = (codes(row["rule"]) or [rule])[0]
        example = (codes(row["example"]) or [example])[0]
        shaped.append((rule, example, row["cell"], row["becomes"]))
    return shaped


def test_every_rule_is_on_its_page() -> None:
    assert {rule for rule, *_ in examples()} == set(kinds(ColumnRule))
    (rows,), (inputs,) = (tables(sections(QUALITY)[name]) for name in ("Rules of rows", "Rules of inputs"))
    listed = [*rows, *inputs]
    assert {codes(row["rule"])[0] for row in listed} == set(kinds(QualityRule))


@pytest.mark.parametrize(("rule", "example", "cell", "becomes"), examples())
def test_an_example_becomes_what_the_page_says(rule: str, example: str, cell: str, becomes: str) -> None:
    written = tomllib.loads(f"rule = {example}")["rule"]
    settings = TableSettings.model_validate({"rules": [{"rule": rule, **written}]})
    (column_rule,) = column_rules(settings.rules)
    types = {"c": TYPES.get(rule, "string"), "z": "int"}
    form = shape([column_rule], Schema(tuple(Column(name, parse_type(type_)) for name, type_ in types.items())))
    if isinstance(column_rule, Sql):
        return  # only Spark can say; tests/test_column_rules.py asks it
    value = VALUES.get(rule) or (None if cell == "NULL" else re.findall(r"`([^`]*)`", cell)[0])
    shaped = shape_row({"c": value, "z": 0}, form, {"env:PEPPER": b"secret"}).cells
    cells = [(item, shaped[item.name]) for item in form.schema if item.name != "z"]
    texts = [None if value is None else to_text(value, item.type) for item, value in cells]
    texts = texts[1:] if form.schema.find("c") and len(texts) > 1 else texts
    match rule:
        case "hash":
            assert texts == [hmac.new(b"secret", b"a", hashlib.sha256).hexdigest()]
        case "drop":
            assert texts == []
        case "keep":
            assert form.schema.names == ("c",)
        case "flatten":
            assert [f"`{name}`" for name in form.schema.names[:-1]] == re.findall(r"`\w+`", becomes)
        case _:
            words = [part.strip() for part in becomes.split(" and ")]
            assert texts == [None if word == "NULL" else word.strip("`") for word in words]


@pytest.mark.parametrize("page", [COLUMNS, QUALITY])
def test_the_settings_of_a_page_are_right(page: str, tmp_path: Path) -> None:
    for fence in fences(page, "toml"):
        content = tomllib.loads(fence.content)
        columns = {"id": "int", "customer": "int", "status": "string", "total": "decimal(12,2)"}
        columns |= {"placed": "date", "shipped": "date"}
        if "pipeline" not in content:
            content |= {"pipeline": {"name": "x"}, "source": {"kind": "dms"}, "target": {"kind": "iceberg"}}
            content["tables"]["shop.orders"] |= {"columns": columns, "key": ["id"]}
        assert validate(content, tmp_path / "lakeward.toml").tables


def test_what_is_refused_on_a_key_is_listed() -> None:
    words = {**vars(rules), **vars(reshaping_rules)}
    refused = {rule for rule in kinds(ColumnRule) if not _rule_class(words, rule).keeps_apart} - {"drop", "keep"}
    (listed,) = re.findall(r"one value of two \(([^)]*)\)", text(COLUMNS))
    assert set(codes(listed)) == refused


def _rule_class(words: Mapping[str, Any], kind: str) -> Any:
    return next(rule_class for rule_class in words.values() if getattr(rule_class, "kind", None) == kind)
