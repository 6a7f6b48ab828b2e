"""Columns of a table for rows of the quarantine that are read again."""

from __future__ import annotations

import pytest
from memory_jobs import item

from lakeward.core.quarantine.replay import with_wider_types
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy


def schema(**types: str) -> Schema:
    return Schema(tuple(Column(name, parse_type(type_)) for name, type_ in types.items()))


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
    dimension = item(schema(**{**STORED, **declared}), policies=policies
    )
    assert with_wider_types(dimension, schema(**STORED)) == schema(**{**STORED, **found})
