"""What the settings of the source may say of the columns that DMS adds."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.core.errors import ConfigError
from lakeward.plugins.options import validated


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"sequence_column": "at", "timestamp_column": "at"}, "two keys name the column 'at'"),
        ({"sequence_column": "Op"}, "two keys name the column 'Op'"),
        ({"sequence_column": ""}, "must be a text that can be seen"),
        ({"sequence_kind": "$AR_H_STREAM_POSITION"}, "there is none"),
        ({"sequence_column": "n", "sequence_kind": "scn"}, "'$AR_H_CHANGE_SEQ' or '$AR_H_STREAM_POSITION'"),
    ],
)
def test_a_sequence_that_cannot_be_is_refused_in_words(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validated(DmsOptions, {"path": "landing/", **said}, "lakeward.toml", within="source")
    assert words in str(refused.value.found)


def test_a_sequence_is_that_of_a_change_unless_its_kind_is_said() -> None:
    assert DmsOptions(path="landing/", sequence_column="n").sequence_kind == "$AR_H_CHANGE_SEQ"
