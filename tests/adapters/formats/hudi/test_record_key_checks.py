"""A table of Hudi without a key has record keys of its own from its first batch, or never."""

from __future__ import annotations

import pytest

from lakeward.adapters.formats.hudi.checks import check_record_key
from lakeward.core.dimension import Dimension, Match, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Schema

HAS = {"hoodie.table.recordkey.fields": "_lakeward_key"}
LOG = TableName("shop", "log")


@pytest.mark.parametrize(
    ("match", "properties", "found"),
    [
        (Match.IMAGE, {}, 'the table was made without `match = "image"`, and the settings say so'),
        (Match.KEY, HAS, 'the table was made with `match = "image"`, and the settings do not say so'),
    ],
)
def test_what_finds_the_rows_of_a_table_stays(match: Match, properties: dict[str, str], found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_record_key(Dimension(name=LOG, schema=Schema(()), match=match), properties)
    assert refused.value.found == found


def test_a_table_goes_on_as_it_was_made() -> None:
    check_record_key(Dimension(name=LOG, schema=Schema(()), match=Match.IMAGE), HAS)
    check_record_key(Dimension(name=LOG, schema=Schema(())), {})
    check_record_key(Dimension(name=LOG, schema=Schema(()), key=("id",)), HAS)
