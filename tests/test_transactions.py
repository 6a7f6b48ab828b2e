"""Files of transactions, through commands: many tables in a file that is read once."""

from __future__ import annotations

import gzip
import shutil
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from project import ITEM, Project
from transaction_feeds import CDC_PATH, dimension_of, write_feed

from lakeward.adapters.sources.dms.transactions.splitter import Splitter
from lakeward.core.dimension import TableName

pytestmark = pytest.mark.spark

D = Decimal
ORDERS = '[tables."shop.orders"]\nkey = ["id"]\ncolumns = { id = "int", note = "string" }\n'


def put(project: Project, name: str, content: str | bytes) -> Path:
    return project.put(name, content, "cdc")


def configure(project: Project, source: str = "", tables: str = ITEM + ORDERS) -> None:
    project.configure(tables, source=f'cdc_path = "cdc"\n{source}')


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the name of each file that is split."""
    noted: list[str] = []
    split = Splitter.split

    def watched(self: Splitter, base: str, names: dict[str, str], *arguments: Any, **options: Any) -> None:
        noted.extend(names.values())
        split(self, base, names, *arguments, **options)

    monkeypatch.setattr(Splitter, "split", watched)
    return noted


def test_many_histories_of_many_tables_are_those_of_their_databases(project: Project, reads: list[str]) -> None:
    """Compared with the model, in two runs that read each file once for any number of tables."""
    written = write_feed(Random(7), project.folder / "landing", [TableName("h", f"t{n}") for n in range(3)])
    columns = 'key = ["id"]\ncolumns = { id = "int", a = "int", b = "int" }\n'
    tables = "".join(f'[tables."{table}"]\n{columns}' for table in written.tables)
    project.configure(tables, source=f'cdc_path = "{CDC_PATH}"')
    later = written.files[len(written.files) // 2 :]
    for path in later:
        path.rename(path.with_name(f"_{path.name}"))
    project.run()
    for path in later:
        path.with_name(f"_{path.name}").rename(path)
    project.run()
    assert sorted(reads) == sorted(f"{CDC_PATH}/{path.name}" for path in written.files)
    for table in written.tables:
        final = sorted((key, image["a"], image["b"]) for key, image in written.final[table].items())
        assert project.rows(table.table, "h", dimension_of(table).schema.names) == final, table
    assert not [*(project.folder / "state" / "staged").glob("*/part=*")], "nothing waits any more"


def test_an_operator_sees_the_place_of_a_row_in_its_file(project: Project, reads: list[str]) -> None:
    """Rows over several lines, quotes, both line ends, gzip. A failed table keeps its part."""
    configure(project)
    first, second = "cdc/CDC_TXN-20261121100000000.csv", "cdc/CDC_TXN-20261121100000001.csv.gz"
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n")
    put(
        project,
        "CDC_TXN-20261121100000000.csv",
        'I,orders,shop,1,"over\nlines, and ""quotes"""\nU,"item",shop,1,aa,9.00\n'
        "I,other,shop,1\nU,item,shop,2,b,x\n",
    )
    put(
        project,
        "CDC_TXN-20261121100000001.csv.gz",
        gzip.compress(b"D,orders,shop,1,NULL,too many\r\nI,item,shop,3,c,3.00\r\n"),
    )
    ran = project.run(code=4)
    assert [batch["files"] for batch in ran["shop.item"]["batches"]] == [["LOAD00000001.csv", first, second]]
    assert f"no row of {second} has the columns of the table" in ran["shop.orders"]["error"]["what"]
    assert "the row has 6 fields where 5 are expected" in ran["shop.orders"]["error"]["found"]
    assert project.rows() == [(1, "aa", D("9.00")), (2, "b", D("2.00")), (3, "c", D("3.00"))]
    [entry] = project.entries()
    assert (entry["object"], entry["row"], entry["text"]) == (first, 5, "U,item,shop,2,b,x")
    fixed = project.call("quarantine", "fix", "shop.item", "--at", f"{first}:5", "--to", "rows.toml")
    assert fixed.code == 0, fixed.err
    assert '"price" = "x"' in Path("rows.toml").read_text("utf-8")
    assert f"{first}:3" in project.call("explain", "shop.item", "1").out
    status = project.call("status").out
    assert "rows of tables nobody configured: 1 of shop.other" in " ".join(status.split())
    before = list(reads)
    configure(project, tables=ITEM + ORDERS.replace('"string" }', '"string", more = "string" }'))
    project.run(code=4)
    assert reads == before, "its part is staged"


def test_transactions_decide_the_order_and_not_commit_times(project: Project) -> None:
    """A row may lack its time. A `lateness` is refused."""
    configure(project, source='timestamp_column = "ts"', tables=ITEM)
    project.put("LOAD00000001.csv", "2026-11-21 09:00:00.000000,9,z,1.00\n")
    put(project, "CDC_TXN-20261121100000000.csv", "I,item,shop,2026-11-21 10:00:05.000000,1,new,1.00\n")
    put(project, "CDC_TXN-20261121100000001.csv", "U,item,shop,2026-11-21 10:00:01.000000,1,newer,1.00\n")
    put(project, "CDC_TXN-20261121100000002.csv", "I,item,shop,2,two,1.00\n")
    counts = project.run()["shop.item"]["counts"]
    assert (counts["stale"], counts["quarantined"]) == (0, 0)
    assert [name for _, name, _ in project.rows()] == ["newer", "two", "z"]
    configure(project, source='timestamp_column = "ts"', tables=ITEM + 'lateness = "24h"\n')
    assert "are never late" in project.fails()
    project.configure(source='timestamp_column = "ts"')
    put(project, "../shop/item/20261121-110000000.csv", "U,2026-11-21 11:00:00.000000,1,x,1.00\n")
    assert "the table goes by the order of transactions" in project.fails()


def test_unrouted_rows_wait_for_an_operator_and_too_many_stop_all_tables(project: Project) -> None:
    configure(project)
    name = "CDC_TXN-20261121100000000.csv"
    put(project, name, "I,item,shop,1,a,1.00\na piece, of a, broken row\nI,orders\nI,orders,shop,1,x\n")
    project.run(code=3)
    assert [project.rows(), project.rows("orders", columns=("id",))] == [[(1, "a", D("1.00"))], [(1,)]]
    listed = project.call("quarantine", "unrouted", "--json")
    assert (listed.code, [(s["object"], s["row"]) for s in listed.document["unrouted_rows"]]) == (
        3,
        [(f"cdc/{name}", 2), (f"cdc/{name}", 3)],
    )
    assert "2 rows name no table" in " ".join(project.call("status").out.split())
    assert project.call("quarantine", "unrouted", "--discard").code == 0
    assert project.call("status").code == 0
    put(project, "CDC_TXN-20261121100000001.csv", "I,item,shop,2,b,1.00\n")
    put(project, "CDC_TXN-20261121100000002.csv", 'I,item,shop,3,c,1.00\nI,item,shop,4,"open,1.00\n')
    error = project.run(code=4)["shop.item"]["error"]
    assert "CDC_TXN-20261121100000002.csv ends within a quoted field" in error["what"]
    assert [key for key, *_ in project.rows()] == [1, 2], "what comes before it is applied"


def test_files_move_once_all_tables_applied_them_and_a_lost_state_loses_nothing(
    project: Project, reads: list[str]
) -> None:
    """A failed table keeps them. Without the folder `state` they are read again."""
    configure(project, source='landing = "archived"')
    file = put(project, "CDC_TXN-20261121100000000.csv", "I,item,shop,1,a,1.00\nI,orders,shop,1,x\n")
    assert project.call("run", "shop.item").code == 0
    assert file.exists()
    shutil.rmtree(project.folder / "state")
    assert project.run()["shop.orders"]["counts"]["applied"] == 1
    assert not file.exists()
    assert (project.folder / "backup" / "cdc" / file.name).exists()
    assert len(reads) == 2
    assert project.run()["shop.item"]["batches"] == []


def test_rows_with_a_commit_time_and_a_missing_column_are_not_shifted(project: Project) -> None:
    """They have as many values as rows without the time."""
    code = '[tables."shop.code"]\nkey = ["code"]\ncolumns = { code = "string", name = "string", city = "string" }\n'
    configure(project, 'timestamp_column = "ts"', code)
    put(project, "CDC_TXN-20261121100000000.csv", "I,code,shop,2026-11-21 10:00:00.000001,DE,Germany,Berlin\n")
    put(project, "CDC_TXN-20261121100100000.csv", "I,code,shop,FR,France,Paris\n")
    project.run()
    put(project, "CDC_TXN-20261121100200000.csv", "U,code,shop,2026-11-21 10:02:00.000001,DE,Deutschland\n")
    error = project.run(code=4)["shop.code"]["error"]
    assert "have fewer columns than the table" in error["what"]
    assert project.rows("code", columns=("code", "name", "city")) == [
        ("DE", "Germany", "Berlin"),
        ("FR", "France", "Paris"),
    ]
