from __future__ import annotations

import os
import select
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from commands import Command
from dms_files import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.adapters.sources.csv.layout import OPERATIONS
from lakeward.adapters.sources.dms.paths.file_names import known_name
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, key_of
from lakeward.core.ledger.selection import Limits
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.schema import Type
from lakeward.entrypoints.demo import lakes, run_process, walkthrough
from lakeward.entrypoints.demo.capture import STYLE, Captured, capture
from lakeward.entrypoints.demo.database import Database, RollBack, Row
from lakeward.entrypoints.demo.folder import DATABASE, LAKE, LANDING, make_folder
from lakeward.entrypoints.demo.run_process import Run
from lakeward.entrypoints.demo.shop import CUSTOMERS, ORDER_LINES, PRODUCTS, TABLES, VISITS, Shop
from lakeward.entrypoints.demo.verdict import compare
from lakeward.entrypoints.settings.configuration import load

OPENED = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / DATABASE, 1, OPENED)
    yield shop
    shop.database.close()


def lived(folder: Path, seed: int = 1, transactions: int = 120) -> tuple[Shop, Captured]:
    shop = Shop(folder / DATABASE, seed, OPENED)
    captured = capture(shop, folder / LANDING, transactions)
    return shop, captured


def files_of(folder: Path, table: Dimension) -> list[Path]:
    found = (folder / LANDING / table.name.schema / table.name.table).iterdir()
    return sorted(found, key=lambda path: (not known_name(path.name).is_load, path.name))


# The database and its log.


def test_what_is_rolled_back_leaves_nothing_in_the_log(opened: Shop) -> None:
    database, before = opened.database, opened.database.last_change
    with database.transaction(OPENED):
        database.delete(PRODUCTS, ("TEA-001",))
        raise RollBack
    assert database.last_change == before
    assert ("TEA-001",) in database.keys(PRODUCTS)


def test_the_log_has_the_row_before_and_after_each_change(tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE, TABLES)
    line = {"order_id": 1, "line": 2, "sku": 'a"\n', "quantity": None, "price": Decimal("0.10")}
    with database.transaction(OPENED):
        database.insert(ORDER_LINES, **line)
        database.update(ORDER_LINES, (1, 2), sku="")
    with database.transaction(EPOCH):
        database.delete(ORDER_LINES, (1, 2))
    first, last = (1, 2, 'a"\n', None, Decimal("0.10")), (1, 2, "", None, Decimal("0.10"))
    assert [(c.operation.value, c.before, c.after, c.committed) for c in database.log()] == [
        ("insert", None, first, OPENED),
        ("update", first, last, OPENED),
        ("delete", last, None, EPOCH),
    ]
    database.close()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name.table)
def test_the_log_alone_makes_the_tables(opened: Shop, table: Dimension) -> None:
    opened.live(200)
    rows: list[Row] = []
    for logged in opened.database.log():
        if logged.table == table.name.table:
            rows = [row for row in rows if row != logged.before]
            rows += [] if logged.after is None else [logged.after]
    assert not compare(table, opened.database.rows(table), rows).differences


def test_values_come_out_of_the_database_as_they_went_in(opened: Shop) -> None:
    opened.live(100)
    kinds: Mapping[str, type] = {"bigint": int, "int": int, "string": str, "decimal": Decimal, "double": float}
    kinds = {**kinds, "date": date, "timestamp": datetime, "boolean": bool}
    for table in TABLES:
        for column, *values in zip(table.schema, *opened.database.rows(table), strict=True):
            assert {type(value) for value in values} <= {kinds[column.type.name], type(None)}


# What is captured.


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    contents = []
    for folder, seed in (("one", 3), ("same", 3), ("other", 4)):
        (tmp_path / folder).mkdir()
        shop, _ = lived(tmp_path / folder, seed)
        shop.database.close()
        landing = tmp_path / folder / LANDING
        contents.append({p.relative_to(landing): p.read_bytes() for p in landing.rglob("*.csv")})
    assert contents[0] == contents[1] != contents[2]


def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    shop, captured = lived(tmp_path, transactions=400)
    assert min(shop.rolled_back, captured.during_load, captured.ties, captured.inserted_again) > 5
    cells = [cell for table in TABLES for row in shop.database.rows(table) for cell in row]
    assert {None, "", "NULL", "rings twice,\nthen waits", "first line\r\nsecond line\n", "李雷"} <= set(cells)
    for table in TABLES:
        names = [known_name(path.name) for path in files_of(tmp_path, table)]
        assert sum(name.is_load for name in names) > 1
        assert sum(not name.is_load for name in names) > 1
    rows: dict[bool, set[Any]] = {True: set(), False: set()}
    for path in files_of(tmp_path, CUSTOMERS):
        of_file = rows_of(path, CUSTOMERS, STYLE)
        rows[known_name(path.name).is_load] |= {tuple(row.items()) for _, _, row in of_file}
    assert rows[True] & rows[False], "the load holds changes that come again"
    shop.database.close()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(20, 150), st.integers(1, 5))
def test_the_files_make_the_tables_without_spark(seed: int, transactions: int, files: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        shop, _ = lived(folder, seed, transactions)
        for table in TABLES:
            target = MemoryTarget()
            apply_changes(Job(dimension=table, source=delivered(folder, table, files), opened=target.open(table)))
            rows = [tuple(row.cells.values()) for row in target.tables[table.name].rows.values()]
            assert not compare(table, shop.database.rows(table), rows).differences
        shop.database.close()


def delivered(folder: Path, table: Dimension, files: int) -> MemorySource:
    """Return a source that holds what the reference reader finds in the files."""
    source = MemorySource(Limits(files=files))
    for path in files_of(folder, table) if (folder / LANDING / "shop" / table.name.table).exists() else ():
        source.put(table.name, known_name(path.name).order, list(events(path, table)))
    return source


def events(path: Path, table: Dimension) -> Iterator[ChangeEvent]:
    name = known_name(path.name)
    for number, (op, time_, texts) in enumerate(rows_of(path, table, STYLE), 1):
        cells = {column.name: cell(texts[column.name], column.type) for column in table.schema}
        micros = (datetime.fromisoformat(f"{time_}+00:00") - EPOCH) // (datetime.resolution)
        yield ChangeEvent(
            operation=Operation.READ if op is None else Operation(OPERATIONS[op]),
            position=Position(1, LOAD_SEQUENCE if name.is_load else micros, name.order, number),
            key=key_of(cells, table.key) or (),
            cells=cells,
            time=micros,
        )


def cell(text: str | None, type_: Type) -> object:
    made: Mapping[str, Callable[[str], object]] = {
        "string": str,
        "int": int,
        "bigint": int,
        "double": float,
        "decimal": Decimal,
        "boolean": lambda text: {"true": True, "false": False}[text],
        "date": date.fromisoformat,
        "timestamp": lambda text: datetime.fromisoformat(f"{text}+00:00"),
    }
    return None if text is None else made[type_.name](text)


# The comparison.

LINE = (1, 1, "TEA-001", 3, Decimal("1.50"))
VISIT = (OPENED, "/", None, 0.5)


OTHER_LINE, OTHER_PRICE, NO_PRICE = (1, 2, *LINE[2:]), (*LINE[:4], Decimal("1.51")), (*LINE[:4], None)
EMPTY_SKU, NULL_SKU = (1, 1, "", 0, None), (1, 1, None, 0, None)
NAN_VISIT = (*VISIT[:3], float("nan"))


@pytest.mark.parametrize(
    ("table", "in_database", "in_lake", "differences"),
    [
        (ORDER_LINES, [LINE], [LINE], []),
        (ORDER_LINES, [LINE], [], [(LINE, None)]),
        (ORDER_LINES, [], [LINE], [(None, LINE)]),
        (ORDER_LINES, [LINE], [LINE, LINE], [(None, LINE)]),
        (ORDER_LINES, [LINE], [(*LINE[:4], Decimal("1.5"))], []),
        (ORDER_LINES, [LINE], [OTHER_PRICE], [(LINE, OTHER_PRICE)]),
        (ORDER_LINES, [LINE], [NO_PRICE], [(LINE, NO_PRICE)]),
        (ORDER_LINES, [EMPTY_SKU], [NULL_SKU], [(EMPTY_SKU, NULL_SKU)]),
        (ORDER_LINES, [LINE], [OTHER_LINE], [(LINE, None), (None, OTHER_LINE)]),
        (VISITS, [VISIT, VISIT], [VISIT, VISIT], []),
        (VISITS, [VISIT, VISIT], [VISIT], [(VISIT, None)]),
        (VISITS, [NAN_VISIT], [NAN_VISIT], []),
    ],
)
def test_the_comparison_finds_each_difference(
    table: Dimension, in_database: list[Row], in_lake: list[Row], differences: list[tuple[Row | None, Row | None]]
) -> None:
    found = compare(table, in_database, in_lake)
    assert (found.in_database, found.in_lake) == (len(in_database), len(in_lake))
    assert [(d.in_database, d.in_lake) for d in found.differences] == differences
    keys = [(one or other or ())[:2] for one, other in differences if table is ORDER_LINES]
    assert keys == [d.key for d in found.differences if table is ORDER_LINES]


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_one_changed_cell_of_any_row_is_found(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        shop, _ = lived(Path(folder), transactions=20)
        table = data.draw(st.sampled_from([CUSTOMERS, PRODUCTS, VISITS]))
        rows = shop.database.rows(table)
        shop.database.close()
    row, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, len(table.schema) - 1))
    other = "no such value" if rows[row][column] is None else None
    changed = (*rows[row][:column], other, *rows[row][column + 1 :])
    assert compare(table, rows, [*rows[:row], changed, *rows[row + 1 :]]).differences


# The folder.


def test_the_settings_are_those_of_the_tables(tmp_path: Path) -> None:
    make_folder(tmp_path / "demo", "iceberg", again=False)
    configured = load(tmp_path / "demo" / "lakeward.toml")
    assert [configured.dimension(name) for name in configured.tables] == list(TABLES)


def test_a_folder_that_is_no_demo_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "lakeward.toml").write_text("mine")
    for again in (False, True):
        with pytest.raises(ConfigError, match="exists already, and is no demo"):
            make_folder(tmp_path, "iceberg", again=again)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("lakeward.toml", "mine")]
    file = tmp_path / "lakeward.toml"
    for place, said in ((file, "is no demo"), (file / "below", "cannot be created")):
        with pytest.raises(ConfigError, match=said):
            make_folder(place, "iceberg", again=True)


def test_a_demo_is_made_anew_only_on_request_and_what_is_not_its_own_stays(tmp_path: Path) -> None:
    make_folder(tmp_path, "iceberg", again=False)
    (tmp_path / LANDING / "old.csv").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="there is a demo in") as caught:
        make_folder(tmp_path, "iceberg", again=False)
    assert "--force" in str(caught.value)
    make_folder(tmp_path, "iceberg", again=True)
    assert not list((tmp_path / LANDING).iterdir())
    assert (tmp_path / "notes.txt").read_text() == "mine"


# The runs, with a stand-in for `lakeward run`.


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(run_process, "_COMMAND", (sys.executable, "-c", textwrap.dedent(code)))


COMMITS = """
    import json, sys
    for batch in range(1, 100):
        logged = {"event": "committed", "table": "shop.orders", "batch": batch, "read": 1}
        print(json.dumps(logged), file=sys.stderr)
"""


def test_commits_are_followed_and_other_words_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        """
        import sys
        sys.stderr.write('{"event": "step"}\\nerror: what\\n  todo\\n')
        sys.stderr.write('{"event": "committed", "table": "shop.visits", "batch": 7, "read": 2, "applied": 2}\\n')
        sys.exit(4)
        """,
    )
    with Run(tmp_path) as run:
        commits = [(commit.table, commit.batch, commit.counts.applied) for commit in run.commits()]
        assert run.wait() == 4
    assert commits == [("shop.visits", 7, 2)]
    assert run.output == ["error: what", "  todo"]


def test_a_kill_ends_all_that_the_run_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and child hold a pipe open that comes to its end once both are gone."""
    stand_in(
        monkeypatch,
        """
        import json, os, signal, subprocess, sys
        alive = os.open("alive", os.O_WRONLY)
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[alive])
        print(json.dumps({"event": "committed", "table": "t", "batch": 1}), file=sys.stderr, flush=True)
        signal.pause()
        """,
    )
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    with Run(tmp_path) as run:
        assert next(run.commits()).batch == 1
        assert select.select([alive], [], [], 0)[0] == [], "the child lives"
        run.kill()
        assert run.wait() == -9
    assert select.select([alive], [], [], 30)[0] == [alive]
    assert os.read(alive, 1) == b""
    os.close(alive)


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Java nor jars are asked for."""
    monkeypatch.setattr(walkthrough, "check_java", lambda: None)
    monkeypatch.setattr(walkthrough, "fetch", lambda _jar, _progress: None)


@pytest.mark.usefixtures("bare_machine")
def test_a_lake_that_lacks_rows_fails_the_demo(lakeward: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, COMMITS)
    monkeypatch.setattr(lakes.IcebergLake, "rows", lambda _lake, _table: [])
    monkeypatch.setattr(lakes.IcebergLake, "examples", lambda _lake: {"A reader": ["look at it"]})
    ended = lakeward("demo", "demo", "--transactions", "100")
    assert ended.code == 4
    assert "The lake differs from the database" in ended.out
    assert "look at it" not in ended.out


@pytest.mark.usefixtures("bare_machine")
def test_a_run_that_fails_ends_the_demo_with_its_words(lakeward: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "import sys; print('error: [no] space', file=sys.stderr); sys.exit(75)")
    ended = lakeward("demo", "demo", "--transactions", "100")
    assert ended.code == 75
    assert "error: [no] space" in ended.out
    assert "The lake" not in ended.out


def test_without_java_nothing_is_made(lakeward: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    ended = lakeward("demo", "demo")
    assert ended.code == 1
    assert "lakeward needs Java 17" in ended.err
    assert not (tmp_path / "demo").exists()


# All of it.

ONLY_IN_A_LAP = [pytest.mark.lap, pytest.mark.long]
"""The gate has it on Iceberg."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "reader", "times"),
    [
        ("iceberg", "PyIceberg", lambda rows: min(rows, 5)),
        pytest.param("delta", "delta-rs", lambda _rows: 1, marks=ONLY_IN_A_LAP),
        pytest.param("hudi", "hudi-rs", lambda rows: min(rows, 5), marks=[pytest.mark.hudi, *ONLY_IN_A_LAP]),
    ],
)
def test_the_demo(lakeward: Command, tmp_path: Path, kind: str, reader: str, times: Callable[[int], int]) -> None:
    folder = tmp_path / "a demo"
    ended = lakeward("demo", str(folder), "--format", kind, "--transactions", "150", "--seed", "7", "--json")
    assert ended.code == 0, ended.err
    assert "SIGKILL" in ended.err
    answer = ended.document
    assert [table["table"] for table in answer["tables"]] == [str(table.name) for table in TABLES]
    assert all(table["in_database"] == table["in_lake"] > 0 == table["differences"] for table in answer["tables"])
    assert 0 < answer["commits_before_kill"] < sum(table["batch"] for table in answer["tables"])

    with closing(lakes.LAKES[kind](folder / LAKE)) as lake:
        readers = lake.examples()
        database = sqlite3.connect(folder / DATABASE)
        ((count,),) = database.execute("SELECT count(*) FROM orders")
        database.close()
        assert python_says(readers[f"{reader} (Python)"]).count("ordered_at") == times(count)
        if "DuckDB (SQL)" in readers:
            assert sum(row[1] for row in duckdb_says(readers["DuckDB (SQL)"])) == count

        rows = list(lake.rows(PRODUCTS))
        assert not compare(PRODUCTS, rows, lake.rows(PRODUCTS)).differences
        rows[0] = (*rows[0][:-1], None)
        assert len(compare(PRODUCTS, rows, lake.rows(PRODUCTS)).differences) == 1


def python_says(lines: Any) -> str:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ}).stdout


def duckdb_says(lines: Any) -> list[Any]:
    """Run SQL with the extensions that are installed as packages: tests touch no network."""
    duckdb = pytest.importorskip("duckdb")
    extensions, query = lines
    (extension,) = [kind for kind in lakes.LAKES if extensions == f"INSTALL {kind}; LOAD {kind};"]
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", extension):
        (where,) = find_spec(f"duckdb_extension_{name}").submodule_search_locations  # type: ignore[union-attr,misc]
        (file,) = Path(where).rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    found: list[Any] = connection.execute(query).fetchall()
    connection.close()
    return found
