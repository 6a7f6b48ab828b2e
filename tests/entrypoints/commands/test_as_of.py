"""`lakeward as-of`, on tables in plain Python: what it shows, writes and asks, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import Command
from projects import DMS, MEMORY, ORDERS, write
from small_history import DAY, HISTORY

from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.history.options import History
from lakeward.core.history.stored_options import options_of
from lakeward.entrypoints import container
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name
from lakeward.entrypoints.startup.context import container_of, open_settings


def test_the_rows_of_then_are_shown_and_those_that_are_not_are_counted(
    lakeward: Command, kept_history: MemoryTable
) -> None:
    ended = lakeward("as-of", "shop.customer", "1970-01-05", "--limit", "2")
    assert (ended.code, ended.err) == (0, "")
    first = ["id city valid_from", "0 Bonn 1970-01-01", "1 Bonn 1970-01-01", "12 rows of", "… of which"]
    assert [" ".join(line.split()[:3]) for line in ended.out.splitlines()] == first
    assert "12 rows of shop.customer as of 1970-01-05 00:00:00 UTC\n" in ended.out
    assert "10 are not shown; --to FOLDER writes them all." in ended.out
    before = lakeward("as-of", "shop.customer", "1969-12-31")
    assert (before.code, before.out) == (0, "0 rows of shop.customer as of 1969-12-31 00:00:00 UTC\n")


@pytest.mark.parametrize(
    ("time", "at", "city"),
    [
        ("1970-01-05 23:59:59.999999", "1970-01-05T23:59:59.999999Z", "Bonn"),
        ("1970-01-06", "1970-01-06T00:00:00Z", "Ulm"),
        ("1970-01-06T01:00+02:00", "1970-01-05T23:00:00Z", "Bonn"),
        ("now", "1970-01-08T00:00:00Z", "Ulm"),
    ],
)
def test_a_time_is_in_utc_where_it_has_no_offset(
    lakeward: Command, kept_history: MemoryTable, monkeypatch: pytest.MonkeyPatch, time: str, at: str, city: str
) -> None:
    monkeypatch.setattr(container, "clock", lambda: 7 * DAY)
    document = lakeward("as-of", "shop.customer", time, "--json").document
    assert (document["at"], document["rows"], len(document["first"])) == (at, 12, 12)
    assert {row["city"] for row in document["first"]} == {city}


def test_all_rows_are_written_into_a_folder(lakeward: Command, kept_history: MemoryTable, tmp_path: Path) -> None:
    for time, city in (("1970-01-02", "Bonn"), ("1970-01-09", "Ulm")):
        ended = lakeward("as-of", "shop.customer", time, "--to", "then")
        assert ended.out == f"12 rows of shop.customer as of {time} 00:00:00 UTC: {tmp_path}/then\n"
        assert pq.read_table(tmp_path / "then")["city"].to_pylist() == [city] * 12
    document = lakeward("as-of", "shop.customer", "1970-01-02", "--to", "then", "--json").document
    assert (document["rows"], document["to"]) == (12, f"{tmp_path}/then")


def test_the_query_is_printed_for_an_engine(lakeward: Command, kept_history: MemoryTable) -> None:
    ended = lakeward("as-of", "shop.customer", "1970-01-05", "--sql", "trino")
    assert ended.out.splitlines() == [
        'SELECT "id", "city", "valid_from", "valid_to", "is_current"',
        'FROM "shop"."customer"',
        "WHERE \"valid_from\" <= TIMESTAMP '1970-01-05 00:00:00 UTC' "
        'AND ("valid_to" > TIMESTAMP \'1970-01-05 00:00:00 UTC\' OR "valid_to" IS NULL)',
    ]
    document = lakeward("as-of", "shop.customer", "1970-01-05", "--sql", "trino", "--json").document
    assert document["sql"] + "\n" == ended.out


@pytest.mark.parametrize(
    ("parts", "engine", "found"),
    [
        (("lake", "raw_shop", "customer"), "spark", "FROM `lake`.`raw_shop`.`customer`\n"),
        (("shop", "a.b"), "duckdb", 'FROM "shop"."a.b"\n'),
    ],
)
def test_a_table_is_asked_for_by_the_parts_of_its_name_in_the_lake(
    lakeward: Command,
    kept_history: MemoryTable,
    monkeypatch: pytest.MonkeyPatch,
    parts: tuple[str, ...],
    engine: str,
    found: str,
) -> None:
    opens = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda *given: replace(opens(*given), parts=parts))
    assert found in lakeward("as-of", "shop.customer", "1970-01-05", "--sql", engine).out


@pytest.mark.parametrize(
    ("kind", "catalog"), [("iceberg", ("lake",)), ("delta", ()), pytest.param("hudi", (), marks=pytest.mark.hudi)]
)
@pytest.mark.parametrize(
    ("namespace", "found"), [("{schema}", "shop"), ("raw", "raw"), ("raw_{schema}", "raw_shop")]
)
def test_a_lake_hands_over_the_parts_of_the_name_of_a_table(
    tmp_path: Path, kind: str, catalog: tuple[str, ...], namespace: str, found: str
) -> None:
    target = f'kind = "{kind}"\nnamespace = "{namespace}"\n'
    write(tmp_path, DMS.replace('kind = "iceberg"\n', target), HISTORY)
    with container_of(open_settings(tmp_path / "lakeward.toml")) as opened:
        job = opened.job(table=table_name("shop.customer"))
        assert job.opened.parts == (*catalog, found, "customer")


def test_until_a_rename_is_carried_out_the_columns_of_the_old_name_are_asked_for(
    lakeward: Command, kept_history: MemoryTable, tmp_path: Path
) -> None:
    kinds = "history.kinds = {{ {} = 3 }}\n".format
    dimension = load(write(tmp_path, MEMORY, HISTORY + kinds("city"))).dimension(table_name("shop.customer"))
    kept_history.progress = replace(kept_history.progress, history=options_of(dimension))
    new = HISTORY.replace('city = "string"', 'town = "string"') + kinds("town")
    write(tmp_path, MEMORY, new + 'schema.rename = { city = "town" }\n')
    out = lakeward("as-of", "shop.customer", "1970-01-05", "--sql", "trino").out
    assert out.startswith('SELECT "id", "city", "previous_city", "valid_from", "valid_to", "is_current"\n')


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["shop.orders", "now"], 1, "shop.orders is a mirror: it has no versions to read as of a time"),
        (["shop.customer", "yesterday"], 1, "`TIME` 'yesterday' is no timestamp: write it as 1900-01-01"),
        (["shop.customer", "2026-11-02T12:00:00.1234567"], 1, "its end; a second may have six digits"),
        (["shop.customer", "2026-W05"], 1, "`TIME` '2026-W05' is no timestamp: write it as 1900-01-01"),
        (["shop.customer", "20261102"], 1, "`TIME` '20261102' is no timestamp: write it as 1900-01-01"),
        (["shop.customer", "now"], 1, "shop.customer: nothing was applied yet, so there is nothing to read"),
        (["shop.customer", "now", "--sql", "trino"], 1, "shop.customer: nothing was applied yet, so there is"),
        (["shop.customer", "now", "--known", "3"], 1, "shop.customer does not keep what was known before"),
        (["shop.customer", "now", "--to", "s3://lake/then"], 1, "s3://lake/then is not a folder on this machine"),
        (["shop.customer", "now", "--to", "then", "--sql", "spark"], 2, "give one of them"),
        (["shop.customer", "now", "--limit", "-1"], 2, "--limit"),
        (["shop.customer", "now", "--limit", "3", "--to", "then"], 2, "--limit is for the rows that are shown"),
        (["shop.customer", "now", "--known", "0"], 2, "--known"),
    ],
)
def test_what_cannot_be_read_is_said(
    lakeward: Command, kept_lake: MemoryTarget, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    write(tmp_path, MEMORY, ORDERS + HISTORY)
    ended = lakeward("as-of", *words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert not (tmp_path / "then").exists()


@pytest.mark.parametrize("more", [[], ["--sql", "spark"], ["--to", "then"]])
def test_what_will_be_known_after_a_batch_that_has_not_come_nobody_says(
    lakeward: Command, kept_history: MemoryTable, tmp_path: Path, more: list[str]
) -> None:
    write(tmp_path, MEMORY, HISTORY + "history.known = true\n")
    ended = lakeward("as-of", "shop.customer", "now", "--known", "2", *more)
    assert (ended.code, ended.out) == (1, "")
    assert "shop.customer: there is no batch 2 yet" in ended.err
    assert "it is at batch 1" in ended.err


@pytest.mark.parametrize("more", [[], ["--sql", "spark"]])
def test_versions_that_were_made_in_another_way_are_not_read_so(
    lakeward: Command, kept_history: MemoryTable, more: list[str]
) -> None:
    other = replace(kept_history.dimension, history=History(first_load=1))
    kept_history.progress = replace(kept_history.progress, history=options_of(other))
    ended = lakeward("as-of", "shop.customer", "now", *more)
    assert (ended.code, ended.out) == (1, "")
    assert "its history cannot be kept in another way" in ended.err


def test_a_format_that_does_not_read_a_table_whole_says_so(
    lakeward: Command, kept_history: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = MemoryTarget.open
    monkeypatch.setattr(MemoryTarget, "open", lambda *given: replace(opens(*given), reader=None))
    ended = lakeward("as-of", "shop.customer", "now")
    assert ended.code == 1
    assert "shop.customer cannot be read here" in ended.err
