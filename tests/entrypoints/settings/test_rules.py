"""Rules in the settings: what they become, and the words for those that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import shop
from commands import Command
from projects import MEMORY, write

from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Type
from lakeward.core.shaping.column_rules import Cast, Default
from lakeward.core.shaping.file_rules import Inputs, NullShare
from lakeward.core.shaping.quality_rules import Action, NotNull, Range
from lakeward.core.shaping.reshaping_rules import Flatten
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.models.column_rules import Hash, column_rules
from lakeward.entrypoints.startup.shapers import read_hash_key

NAME = TableName("shop", "orders")
ORDERS = """
    [tables."shop.orders"]
    key = ["id"]
    columns = { id = "int", state = "string", total = "decimal(8,2)" }
"""


def refusal(folder: Path, *parts: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(write(folder, MEMORY, ORDERS, *parts))
    return str(refused.value)


def test_rules_are_a_list_that_the_core_knows(tmp_path: Path) -> None:
    parts = """
        rules = [
            { rule = "cast", column = "state", type = "int" },
            { rule = "default", column = "total", value = 0 },
        ]
        [[tables."shop.orders".quality]]
        rule = "range"
        column = "total"
        min = 0.5
        action = "warn"
        [[tables."shop.orders".quality]]
        rule = "null_share"
        column = "state"
        max = 0
        inputs = "load"
        [[tables."shop.orders".quality]]
        rule = "not_null"
        columns = ["state"]
    """
    rules = load(write(tmp_path, MEMORY, ORDERS, parts)).rules(NAME)
    assert rules.columns == (Cast(column="state", type=Type("int")), Default(column="total", value="0"))
    assert rules.quality == (
        Range(column="total", least="0.5", action=Action.WARN),
        NullShare(column="state", most=0.0, inputs=Inputs.LOAD),
        NotNull(of=("state",)),
    )
    assert rules.source.names == ("id", "state", "total")


def test_a_prefix_is_the_columns_name_where_none_is_said(tmp_path: Path) -> None:
    parts = """
        [tables."shop.orders"]
        rules = [{ rule = "flatten", column = "doc" }, { rule = "flatten", column = "more", prefix = "" }]
    """
    rules = load(write(tmp_path, MEMORY, parts)).rules(NAME).columns
    assert rules == (Flatten(column="doc", prefix="doc_"), Flatten(column="more", prefix=""))


def test_the_table_has_the_columns_that_the_rules_make(tmp_path: Path) -> None:
    parts = 'rules = [{ rule = "rename", column = "id", to = "number" }, { rule = "drop", columns = ["total"] }]\n'
    keyed = ORDERS.replace('key = ["id"]', 'key = ["number"]')
    dimension = load(write(tmp_path, MEMORY, keyed, parts)).dimension(NAME)
    assert (dimension.schema.names, dimension.key) == (("number", "state"), ("number",))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('rules = [{ rule = "splitt" }]', "[tables.\"shop.orders\".rules.1]: there is no rule 'splitt'"),
        ('rules = [{ rule = "splitt" }]', "Did you mean 'split'?"),
        ('rules = [{ rule = "q" }]', "There are rename, cast, trim"),
        ('rules = [{ column = "state" }]', "[tables.\"shop.orders\".rules.1] lacks the key 'rule'"),
        ('rules = ["trim"]', '[tables."shop.orders".rules.1] must be a table of keys'),
        (
            'rules = [{ rule = "trim", column = "state" }, { rule = "trim", colum = "state" }]',
            "[tables.\"shop.orders\".rules.2] has no key 'colum'\nDid you mean 'column'?",
        ),
        ('rules = [{ rule = "cast", column = "state", type = "flaot" }]', "'flaot' is not a type"),
        ('rules = [{ rule = "split", column = "state", pattern = ",", into = [] }]', "rules.1.into"),
        ('rules = [{ rule = "hash", column = "state", key = "in the clear" }]', "rules.1.key"),
        ('rules = [{ rule = "trim", column = "stat" }]', "rule 1, trim: there is no column 'stat' here"),
        ('rules = [{ rule = "mask", column = "id" }]', "shop.orders: rule 1, mask: it takes a string"),
        ('rules = [{ rule = "drop", columns = ["id"] }]', "rule 1, drop, takes it away"),
        ('quality = [{ rule = "range", column = "total" }]', "quality.1]: needs `min` or `max`"),
        ('quality = [{ rule = "null_share", column = "total", max = 2 }]', "quality.1.max"),
        ('quality = [{ rule = "length", column = "total", max = 2 }]', "shop.orders: quality rule 1, length"),
        ('quality = [{ rule = "unique", acton = "warn" }]', "Did you mean 'action'?"),
    ],
)
def test_a_rule_that_is_wrong_is_named_by_its_number(tmp_path: Path, rules: str, said: str) -> None:
    found = refusal(tmp_path, f"{rules}\n")
    assert said in found
    assert "in the clear" not in found


def test_a_secret_comes_from_the_environment_and_is_never_shown() -> None:
    def pepper(environment: dict[str, str]) -> bytes:
        return read_hash_key("env:PEPPER", lambda name: EnvironmentSecrets(environment).read(name.name))

    assert pepper({"PEPPER": "sixteen bytes, ok"}) == b"sixteen bytes, ok"
    for environment, said in (({}, "is not there"), ({"PEPPER": "hunter2"}, "is too short")):
        with pytest.raises(ConfigError, match=f"the secret env:PEPPER {said}") as refused:
            pepper(environment)
        assert "hunter2" not in str(refused.value)


def test_a_secret_of_a_rule_may_be_named_as_a_table() -> None:
    named = [{"env": "PEPPER"}, "env:PEPPER", {"file": "/run/pepper"}]
    rules = column_rules([Hash.model_validate({"rule": "hash", "column": "a", "key": key}) for key in named])
    assert [getattr(rule, "key", None) for rule in rules] == ["env:PEPPER", "env:PEPPER", "file:/run/pepper"]


def test_rules_work_without_spark_on_a_source_of_plain_python(lakeward: Command, tmp_path: Path) -> None:
    """The shop's rows are events in memory; `status` needs no secret."""
    hashed = '{ rule = "hash", column = "state", key = "env:NO_SUCH_SECRET" },'
    parts = """
        rules = [HASHED { rule = "constant", to = "site", value = "eu" }]
        quality = [{ rule = "range", column = "id", max = 1, action = "warn", name = "small" }]
    """
    write(tmp_path, shop.SETTINGS, parts.replace("HASHED", hashed))
    assert lakeward("status").code == 0
    ended = lakeward("run", "--log", "off")
    assert (ended.code, "the secret env:NO_SUCH_SECRET is not there" in ended.err) == (1, True)
    write(tmp_path, shop.SETTINGS, parts.replace("HASHED", ""))
    plan: Any = lakeward("plan", "--json", "--log", "off").document["tables"][0]
    assert plan["columns"] == {"id": "int", "state": "string", "site": "string"}
    assert plan["quality_warnings"] == {"small": 1}
    run = lakeward("run", "--json", "--log", "off").document["tables"][0]
    assert [batch["quality_warnings"] for batch in run["batches"]] == [{"small": 1}, {"small": 1}]
    assert "shop.orders: 2 rows break small, which only warns." in lakeward("run", "--log", "off").out
