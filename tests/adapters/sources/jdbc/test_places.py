"""A place that a database tells is the number that a message of Debezium has for the same place."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.adapters.sources.files.local.messages.log_positions import place_and_log
from lakeward.adapters.sources.jdbc.database import spark_reader
from lakeward.adapters.sources.jdbc.database.dialects import MARIADB, POSTGRESQL, Dialect
from lakeward.core.checks.log_steps import LogName
from lakeward.core.verification.source_places import SourcePlace, binlog_place, postgresql_place


def of_message(**source: str) -> tuple[int, LogName]:
    place, log = place_and_log(source.get, False)
    assert place is not None
    return int(place), LogName.of(log)


def test_a_change_is_at_or_behind_the_place_that_its_transaction_passes() -> None:
    lsn = (0x1A << 32) + 0x16B3748
    place = postgresql_place("1A/16B3748")
    assert place is not None
    before, _ = of_message(lsn=str(lsn - 8), sequence=f'["{lsn - 16}", "{lsn - 8}"]')
    behind, _ = of_message(lsn=str(lsn + 8), sequence=f'["{lsn}", "{lsn + 8}"]')
    assert before < place <= behind


def test_a_place_in_a_binlog() -> None:
    place = binlog_place("mysql-bin.000012", "4711")
    assert place is not None
    before, log = of_message(file="mysql-bin.000012", pos="4710", row="99", server_id="7")
    behind, _ = of_message(file="mysql-bin.000012", pos="4711", row="0", server_id="7")
    later, _ = of_message(file="mysql-bin.000013", pos="4", row="0", server_id="7")
    assert before < place <= behind < later
    assert (log.base, log.server) == ("mysql-bin.", "7")


@pytest.mark.parametrize("told", ["", "x/y", "16B3748"])
def test_what_is_no_lsn_has_no_number(told: str) -> None:
    assert postgresql_place(told) is None


@pytest.mark.parametrize(("file", "position"), [("", "4"), ("mysql-bin", "4"), ("mysql-bin.000012", "")])
def test_what_is_no_place_in_a_binlog_has_no_number(file: str, position: str) -> None:
    assert binlog_place(file, position) is None


class _Asked(spark_reader._Request):
    """A request to a database that answers these queries alone."""

    answers: dict[str, list[list[str | None]]]

    def _rows(self, sql: str) -> list[list[str | None]]:
        return self.answers.get(sql, [])


def asked(dialect: Dialect, answers: dict[str, list[list[str | None]]]) -> SourcePlace:
    request: Any = _Asked(None, dialect, None)  # type: ignore[arg-type]  # neither is used
    object.__setattr__(request, "answers", answers)
    found: SourcePlace = request.place()
    return found


def test_a_database_tells_its_clock_its_log_and_whose_that_is() -> None:
    assert asked(POSTGRESQL, {POSTGRESQL.clock or "": [["5"]], POSTGRESQL.logs[0]: [["0/1F"]]}) == SourcePlace(
        5, "0/1F", postgresql_place("0/1F")
    )
    answers: dict[str, list[list[str | None]]] = {
        MARIADB.clock or "": [["5"]],
        MARIADB.logs[1]: [["mysql-bin.000012", "4711", None]],
        MARIADB.server or "": [["7"]],
    }
    found = asked(MARIADB, answers)
    assert found == SourcePlace(
        5, "mysql-bin.000012:4711", binlog_place("mysql-bin.000012", "4711"), "mysql-bin. 7"
    )
    assert LogName.of(found.origin) == LogName("mysql-bin.", "7")


def test_what_a_database_does_not_tell_is_not_there() -> None:
    assert asked(MARIADB, {}) == asked(Dialect(), {}) == SourcePlace()
