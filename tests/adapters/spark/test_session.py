"""What the settings may say of Spark, and what not; no JVM is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters.spark.session import SETTINGS, Sessions
from lakeward.core.errors import ConfigError


@pytest.mark.parametrize("name", SETTINGS)
def test_what_data_means_is_not_for_the_settings_to_say(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Sessions(set(), {name: "something"}, tmp_path / "spark.log")
    assert name in raised.value.what


def test_anything_else_is(tmp_path: Path) -> None:
    sessions = Sessions(set(), {"spark.sql.autoBroadcastJoinThreshold": "1MB"}, tmp_path / "spark.log")
    assert sessions.settings["spark.sql.autoBroadcastJoinThreshold"] == "1MB"
