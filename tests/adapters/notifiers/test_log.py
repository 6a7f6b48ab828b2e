"""Notices in the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lakeward.adapters.notifiers import build_log
from lakeward.core.errors import ConfigError
from lakeward.plugins import Runtime
from lakeward.plugins.testing.laws.notifiers import NOTICE

RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))


def test_a_notice_is_one_warning_with_all_its_entries() -> None:
    with capture_logs() as logs:
        build_log({}, RUNTIME).send(NOTICE)
    (line,) = logs
    document = NOTICE.to_document()
    assert line == {
        "event": "notice",
        "log_level": "warning",
        "subject": "lakeward shop: 2 tables need somebody",
        "entries": document["entries"],
        "more": 0,
    }


def test_the_notifier_has_no_settings_keys() -> None:
    with pytest.raises(ConfigError, match=r"\[notify\] has no key 'level'"):
        build_log({"level": "error"}, RUNTIME)
