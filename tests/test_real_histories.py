"""Feeds of real databases as histories: exactly the versions that SQL over all changes finds.

The changes are applied in three runs, and the middle files come last, between stored versions.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import outside
import pytest
from cases import readers
from project import Project

pytestmark = [pytest.mark.spark, pytest.mark.long]

KINDS = pytest.mark.parametrize("kind", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)])

HISTORY: Final = 'mode = "history"\nhistory = { first_load = 1900-01-01 }\n'

PGBENCH: Final = {
    "accounts": {"aid": "int", "bid": "int", "abalance": "int", "filler": "string"},
    "branches": {"bid": "int", "bbalance": "int", "filler": "string"},
    "tellers": {"tid": "int", "bid": "int", "tbalance": "int", "filler": "string"},
}

VERSIONS: Final = """
WITH changes AS (
    SELECT DISTINCT ON ({key}, since) {columns}, since
    FROM (SELECT {typed}, since, place FROM ({feed}))
    ORDER BY {key}, since, place DESC
),
moved AS (
    SELECT *, ({columns}) IS NOT DISTINCT FROM lag(({columns})) OVER one AS is_as_before
    FROM changes WINDOW one AS (PARTITION BY {key} ORDER BY since)
)
SELECT {columns}, since AS valid_from, lead(since) OVER one AS valid_to, valid_to IS NULL AS is_current
FROM moved WHERE NOT is_as_before WINDOW one AS (PARTITION BY {key} ORDER BY since)
"""
"""The versions of each row: of changes of one time the last counts, and equal neighbours are one version."""

DMS: Final = """
SELECT *, TIMESTAMPTZ '1900-01-01 00:00:00+00' AS since, 0 AS place FROM {loads}
UNION ALL BY NAME
SELECT *, CAST("TIMESTAMP" || '+00' AS TIMESTAMPTZ) AS since, row_number() OVER () AS place FROM {changes}
"""
"""The valid time of each row of the files of DMS, and its order among those of one time."""


@dataclass(frozen=True)
class Messages:
    """A form of Debezium's messages: settings, exit code of a run, and the SQL of `feed`."""

    settings: str
    code: int
    image: str
    since: str
    place: str
    more: Mapping[str, str] = field(default_factory=dict)

    def feed(self, path: Path, table: str, columns: Sequence[str]) -> str:
        cells = ", ".join(f"{self.image}->>'{name}' AS {name}" for name in columns)
        read = f"read_json('{path}', format = 'newline_delimited', columns = {{ topic: 'VARCHAR', value: 'JSON' }})"
        of_table = f"FROM {read} WHERE topic = 'src.public.{table}'"
        return f"SELECT {cells}, {self.since} AS since, CAST({self.place} AS BIGINT) AS place {of_table}"


MESSAGES: Final = {
    "envelope": Messages(
        settings="",
        code=0,
        image="value->'after'",
        since="make_timestamptz(CAST(value->'source'->>'ts_us' AS BIGINT))",
        place="value->'source'->>'lsn'",
    ),
    "flattened": Messages(
        settings='track = { all_but = ["__lsn"] }\nhistory = { validity = { column = "__lsn" }, type = "bigint" }',
        code=0,
        image="value",
        since="CAST(value->>'__lsn' AS BIGINT)",
        place="value->>'__lsn'",
        more={"__lsn": "bigint"},
    ),
}
"""The envelope has microseconds, in which no row changes twice. Flattened, 4,508 changes share a millisecond."""

SETTINGS: Final = """
[pipeline]
name = "bench"

[source]
kind = "files"
path = "landing"
folder = ""
format = "debezium"
line = "record"
form = "{form}"

[target]
kind = "{kind}"
warehouse = "lake"

[defaults]
mode = "history"
lateness = "1h"
{settings}

{tables}
"""


def deliver(project: Project, inputs: Path, tables: Sequence[str]) -> None:
    """Run three times: with the loads and the first changes, with the last ones, and with those between."""
    files = {table: sorted(path for path in (inputs / table).iterdir() if path.name[0] != "L") for table in tables}
    for table in tables:
        landed = project.folder / "landing" / inputs.name / table
        landed.mkdir(parents=True)
        for load in (inputs / table).glob("LOAD*"):
            shutil.copy(load, landed)
    for part in (slice(0, 1), slice(-1, None), slice(1, -1)):
        for table in tables:
            for file in files[table][part]:
                shutil.copy(file, project.folder / "landing" / inputs.name / table)
        project.run()


def of_dms(project: Project, schema: str, table: str, read: str) -> str:
    inputs = project.folder / "landing" / schema / table
    loads, changes = (read.format(inputs / pattern) for pattern in ("LOAD*", "2*"))
    return DMS.format(loads=loads, changes=changes)


def check_versions(project: Project, schema: str, table: str, key: str, columns: Sequence[str], feed: str) -> int:
    """Compare the rows of each reader with those of SQL over the feed, and return the number of versions."""
    own = ", ".join(f'"{name}"' for name in columns)
    found = readers(project.folder / "lake", schema, table)
    with found.duck as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arrow", found.own())
        types = dict(connection.execute("SELECT column_name, column_type FROM (DESCRIBE arrow)").fetchall())
        typed = ", ".join(f'CAST("{name}" AS {types[name]}) AS "{name}"' for name in columns)
        versions = VERSIONS.format(key=key, typed=typed, columns=own, feed=feed)
        connection.execute(f"CREATE TABLE expected AS {versions}")
        shown = f"{own}, valid_from, valid_to, is_current"
        for reader in ("arrow", *found.scans):
            for one, other in ((reader, "expected"), ("expected", reader)):
                lacking = f"SELECT {shown} FROM {one} EXCEPT ALL SELECT {shown} FROM {other}"
                missing = connection.execute(
                    f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({lacking}) LIMIT 5"
                ).fetchall()
                assert not missing, f"{table}: {one} has versions that {other} lacks: {missing}"
        [[versions]] = connection.execute("SELECT count(*) FROM expected").fetchall()
    return int(versions)


@KINDS
def test_each_change_of_pgbench_is_a_version(project: Project, kind: str) -> None:
    """One branch has 8,001 versions, a teller up to 822."""
    project.kind = kind
    case = outside.case("derived-dms-csv-pgbench")
    invariants = json.loads((case / "expected" / "invariants.json").read_text("utf-8"))
    tables = {f"pgbench_{name}": columns for name, columns in PGBENCH.items()}
    settings = [
        f'[tables."public.{name}"]\nkey = ["{next(iter(columns))}"]\n{HISTORY}columns = {column_types(columns)}\n'
        for name, columns in tables.items()
    ]
    project.configure("\n".join(settings), 'timestamp_column = "TIMESTAMP"\nnull_text = ""')
    deliver(project, case / "input" / "public", [*tables])
    for name, columns in tables.items():
        feed = of_dms(project, "public", name, "read_csv('{}', header = true, all_varchar = true)")
        assert (
            check_versions(project, "public", name, next(iter(columns)), [*columns], feed)
            == (invariants[name]["scd2_versions_if_only_real_changes_make_one"])
        )
        assert project.call("verify", "--history", f"public.{name}").code == 0


@KINDS
def test_the_owner_of_a_ticket_is_known_at_each_moment(project: Project, kind: str) -> None:
    """188,279 sales of 10,849 tickets at 69 times. The last sale of a ticket in a transaction is a version."""
    project.kind = kind
    case = outside.case("derived-dms-parquet-ticketing")
    table, inputs = "sporting_event_ticket", case / "input" / "dms_sample"
    project.configure(f'[tables."dms_sample.{table}"]\nkey = ["id"]\n{HISTORY}', 'timestamp_column = "TIMESTAMP"')
    deliver(project, inputs, [table])
    load = duckdb.read_parquet(f"{inputs / table}/LOAD*.parquet").columns
    columns = [name for name in load if name not in ("Op", "TIMESTAMP")]
    feed = of_dms(project, "dms_sample", table, "read_parquet('{}')")
    versions = check_versions(project, "dms_sample", table, "id", columns, feed)
    assert versions > 128_757, "each ticket, and each moment at which one was sold to somebody else"
    assert project.call("verify", "--history", f"dms_sample.{table}").code == 0


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("form", MESSAGES)
def test_each_message_about_pgbench_that_changes_a_row_is_a_version(project: Project, kind: str, form: str) -> None:
    """Eight clients at once: log positions run backwards from row to row, and the middle messages come last."""
    project.kind, messages = kind, MESSAGES[form]
    case = outside.case(f"perf-pgbench-debezium-{form}")
    invariants = json.loads((case / "expected" / "invariants.json").read_text("utf-8"))
    tables = {f"pgbench_{name}": columns for name, columns in PGBENCH.items()}
    sections = [
        f'[tables."public.{name}"]\nkey = ["{next(iter(columns))}"]\n'
        f"columns = {column_types({**columns, **messages.more})}\n"
        for name, columns in tables.items()
    ]
    settings = SETTINGS.format(form=form, kind=kind, settings=messages.settings, tables="\n".join(sections))
    (project.folder / "lakeward.toml").write_text(settings, "utf-8")
    with gzip.open(case / "input" / "events.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    assert len(lines) == 132_011
    for name, part in (("1", lines[:110_000]), ("3", lines[121_000:]), ("2", lines[110_000:121_000])):
        (project.folder / "landing" / f"{name}.jsonl").write_text("".join(part), "utf-8")
        project.run(messages.code)
    assert project.entries() == []
    for name, columns in tables.items():
        feed = messages.feed(case / "input" / "events.jsonl.gz", name, [*columns])
        assert (
            check_versions(project, "public", name, next(iter(columns)), [*columns], feed)
            == (invariants[name]["scd2_versions_if_only_real_changes_make_one"])
        )
        assert project.call("verify", "--history", f"public.{name}").code == 0


def column_types(columns: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f'{name} = "{type_}"' for name, type_ in columns.items()) + " }"
