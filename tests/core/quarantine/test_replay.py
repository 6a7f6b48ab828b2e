"""Columns of a table for rows of the quarantine that are read again."""

from __future__ import annotations

import pytest
from memory_jobs import columns, item

from lakeward.core.errors import RepairError
from lakeward.core.ports import Entry
from lakeward.core.quarantine.replay import columns_with, with_wider_types
from lakeward.core.schema import UNDECLARED, Column, Schema, Type, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy, compare

STORED = {"id": "int", "n": "int", "price": "decimal(5,2)", "note": "string"}


@pytest.mark.parametrize(
    ("declared", "policies", "found"),
    [
        ({"n": "bigint", "price": "decimal(10,2)"}, Policies(), {"n": "bigint", "price": "decimal(10,2)"}),
        ({"id": "bigint", "n": "bigint"}, Policies(), {"id": "bigint", "n": "bigint"}),
        ({"n": "bigint"}, Policies(widen=Policy.FAIL), {}),
        ({"n": "bigint"}, Policies(widen=Policy.IGNORE), {}),
        ({"n": "bigint"}, Policies(widen=Policy.QUARANTINE), {}),
        ({"n": "string", "note": "date", "price": "decimal(10,2)"}, Policies(), {"price": "decimal(10,2)"}),
        ({"price": "decimal(4,2)", "more": "int"}, Policies(), {}),
    ],
)
def test_columns_become_wider_as_declared_where_the_table_may_follow(
    declared: dict[str, str], policies: Policies, found: dict[str, str]
) -> None:
    dimension = item(columns(**{**STORED, **declared}), policies=policies)
    assert with_wider_types(dimension, columns(**STORED)) == columns(**{**STORED, **found})


FIX = "ix the row, or discard it (`lakeward quarantine fix`, `discard`)."
REFUSED = {
    "key": '["1"]',
    "reason": "schema",
    "detail": "",
    "object": "1.csv",
    "row": 1,
    "operation": "insert",
    "epoch": 1,
    "sequence": 1,
    "order": 1,
    "batch": 1,
    "since": 0,
    "text": "1",
}


@pytest.mark.parametrize(
    ("changes", "policies", "advice"),
    [
        (
            {"price": parse_type("decimal(4,2)")},
            Policies(narrow=Policy.QUARANTINE),
            'Set `narrow = "evolve"` under [tables."shop.item".schema]. The table keeps its own, wider type then. '
            f"Else f{FIX}",
        ),
        (
            {"n": parse_type("bigint"), "more": parse_type("int")},
            Policies(add=Policy.QUARANTINE, widen=Policy.QUARANTINE),
            f'Set `add = "evolve"` and `widen = "evolve"` under [tables."shop.item".schema]. Else f{FIX}',
        ),
        ({"n": parse_type("date")}, Policies(incompatible=Policy.QUARANTINE), f"F{FIX}"),
        (
            {"more": UNDECLARED},
            Policies(),
            f'Declare the type of more under [tables."shop.item".columns]. Else f{FIX}',
        ),
    ],
    ids=["narrower", "wider and new", "incompatible", "undeclared"],
)
def test_a_row_that_cannot_be_replayed_names_the_settings_with_which_the_table_follows(
    changes: dict[str, Type], policies: Policies, advice: str
) -> None:
    stored = columns(**STORED)
    types = {**{column.name: column.type for column in stored}, **changes}
    shown = compare(stored, Schema(tuple(Column(name, type_) for name, type_ in types.items())))
    with pytest.raises(RepairError, match="the table does not follow") as refused:
        columns_with(item(Schema(()), policies=policies), stored, [Entry(**REFUSED)], {1: shown})
    assert refused.value.todo == advice
