"""Tables that patterns take, tables that nobody configured, tables without a folder: none of it an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Command
from projects import DMS, write

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.patterns import takes
from lakeward.entrypoints.startup.context import open_settings
from lakeward.entrypoints.startup.findings import store_tables

BASE = DMS + '[defaults]\nlateness = "1h"\nredelivery = 7\n'


def folders(tmp_path: Path, *names: str) -> None:
    for name in ("", *names):
        (tmp_path / "landing" / name).mkdir(parents=True, exist_ok=True)


def tables(configured: Configuration) -> list[str]:
    return sorted(map(str, configured.tables))


@pytest.mark.parametrize(
    ("pattern", "table", "does"),
    [
        ("sales.*", ("sales", "orders"), True),
        ("sales.*", ("SALES", "Orders"), True),
        ("sales.*", ("sale", "orders"), False),
        ("*.orders", ("sales", "orders"), True),
        ("*.*", ("a.b", "c"), True),
        ("s*.o*s", ("sales", "orders"), True),
        ("s*.o*s", ("sales", "order"), False),
        ('"a.b".*', ("a.b", "c"), True),
        ('*."5*"', ("sales", "5*"), True),
        ('*."5*"', ("sales", "55"), False),
        ("sales.o.", ("sales", "ox"), False),
    ],
)
def test_a_star_is_any_part_of_a_name(pattern: str, table: tuple[str, str], does: bool) -> None:
    assert takes(pattern, TableName(*table)) is does


def test_a_pattern_takes_the_tables_that_are_there_and_a_table_of_its_own_counts_more(tmp_path: Path) -> None:
    folders(tmp_path, "sales/orders", "sales/Lines", "sales/tmp_1", "other/x", ".hidden/x")
    file = write(
        tmp_path,
        BASE,
        """
        [tables."sales.*"]
        key = ["id"]
        lateness = "2h"
        [tables."sales.L*"]
        lateness = "3h"
        [tables."sales.orders"]
        key = ["order_id"]
        [tables."sales.tmp_1"]
        skip = true
        """,
    )
    configured = open_settings(file)
    assert tables(configured) == ["sales.Lines", "sales.orders"]
    said = {str(name): table for name, table in configured.tables.items()}
    assert [(said[n].key, said[n].lateness, said[n].redelivery) for n in ("sales.Lines", "sales.orders")] == [
        (["id"], "3h", 7),
        (["order_id"], "2h", 7),
    ]


def test_a_named_table_whose_folder_is_spelled_otherwise_is_not_taken_twice(tmp_path: Path) -> None:
    folders(tmp_path, "SALES/ORDERS", "SALES/LINES")
    file = write(tmp_path, BASE, '[tables."*.*"]\n[tables."sales.orders"]\nkey = ["id"]\n')
    configured = open_settings(file)
    assert tables(configured) == ["SALES.LINES", "sales.orders"]
    assert configured.choose(["sales.Lines"]) == [TableName("SALES", "LINES")]


def test_the_name_of_a_history_hides_no_table_of_the_source(tmp_path: Path, lakeward: Command) -> None:
    folders(tmp_path, "sales/orders", "sales/orders_history")
    write(tmp_path, BASE, '[tables."sales.orders"]\nkey = ["id"]\nmode = ["mirror", "history"]\n')
    found = lakeward("status", "--json")
    assert [one["table"] for one in found.document["tables"]] == ["sales.orders", "sales.orders_history"]
    assert found.document["unconfigured"] == ["sales.orders_history"]


def test_a_table_that_is_read_under_another_name_is_configured(tmp_path: Path, lakeward: Command) -> None:
    folders(tmp_path, "sales/orders")
    write(tmp_path, BASE, '[tables."lake.bestellung"]\nkey = ["id"]\nreads = "SALES.orders"\n')
    assert lakeward("status", "--json").document["unconfigured"] == []


def test_tables_that_differ_in_case_alone_are_refused_until_one_is_skipped(tmp_path: Path) -> None:
    folders(tmp_path, "sales/orders", "sales/Orders")
    file = write(tmp_path, BASE, '[tables."sales.*"]\n')
    with pytest.raises(ConfigError, match="differ only in case"):
        open_settings(file)
    file = write(tmp_path, BASE, '[tables."sales.*"]\n[tables."sales.Orders"]\nskip = true\n')
    assert tables(open_settings(file)) == ["sales.orders"]


@pytest.mark.parametrize("mode", ["", 'mode = ["mirror", "history"]\n'])
def test_a_table_whose_folder_goes_away_stays_with_its_pattern(
    tmp_path: Path, lakeward: Command, mode: str
) -> None:
    """Else nothing would be said of it any more."""
    folders(tmp_path, "sales/orders", "sales/lines")
    file = write(tmp_path, BASE, f'[tables."sales.*"]\nkey = ["id"]\n{mode}')
    both = ["sales.lines", *(["sales.lines_history"] if mode else [])]
    both += [name.replace("lines", "orders") for name in both]
    configured = open_settings(file)
    assert tables(configured) == both
    configured.state.mkdir()
    store_tables(configured)
    (tmp_path / "landing" / "sales" / "lines").rmdir()
    assert tables(open_settings(file)) == both
    assert "sales.lines: It has no folder yet (sales/lines)" in lakeward("status").out or mode
    (configured.state / "tables.json").unlink()
    assert tables(open_settings(file)) == both[len(both) // 2 :]


@pytest.mark.parametrize("command", ["plan", "status", "run"])
def test_what_is_there_and_not_configured_and_what_is_not_there_yet_is_told(
    tmp_path: Path, lakeward: Command, command: str
) -> None:
    folders(tmp_path, "shop/order", "shop/lines")
    write(tmp_path, BASE, '[tables."shop.orders"]\nkey = ["id"]\ncolumns = { id = "int" }\n')
    ended = lakeward(command)
    assert ended.code == 0
    assert "2 tables of the source are not configured, and not read: shop.lines, shop.order" in ended.out
    words = "It has no folder yet (shop/orders): DMS makes none for an empty table. Did you mean 'shop.order'?"
    assert words in ended.out
    found = json.loads(lakeward(command, "--json").out)
    assert found["unconfigured"] == ["shop.lines", "shop.order"]
    assert found["tables"][0]["warnings"] == [words]
    assert "not configured" not in lakeward(command, "shop.orders").out


def test_a_folder_that_differs_from_that_of_a_table_in_case_alone_is_told(
    tmp_path: Path, lakeward: Command
) -> None:
    """It is not read, and may be where its rows are."""
    folders(tmp_path, "shop/orders", "shop/ORDERS", "SHOP/Orders")
    write(tmp_path, BASE, '[tables."shop.orders"]\nkey = ["id"]\ncolumns = { id = "int" }\n')
    assert json.loads(lakeward("status", "--json").out)["unconfigured"] == ["SHOP.Orders", "shop.ORDERS"]


def test_a_folder_that_a_table_is_told_to_read_is_no_table_of_its_own(tmp_path: Path, lakeward: Command) -> None:
    folders(tmp_path, "exports/orders-2026", "exports/more", "shop/orders")
    named = '[tables."shop.orders"]\nkey = ["id"]\nsource = { load = "exports/orders-2026" }\n'
    file = write(tmp_path, BASE, named)
    assert json.loads(lakeward("status", "--json").out)["unconfigured"] == ["exports.more"]
    write(tmp_path, BASE, named, '[tables."*.*"]\nkey = ["id"]\n')
    assert tables(open_settings(file)) == ["exports.more", "shop.orders"]


@pytest.mark.parametrize("settings", [DMS, DMS.replace('"dms"', '"files"')], ids=["dms", "files"])
@pytest.mark.parametrize("table", ["shop.orders", "shop.*"])
def test_status_tells_that_there_is_no_landing_folder(
    tmp_path: Path, lakeward: Command, settings: str, table: str
) -> None:
    write(tmp_path, settings, f'[tables."{table}"]\nkey = ["id"]\ncolumns = {{ id = "int" }}\n')
    found = lakeward("status", "--json").document
    words = f"The landing folder {tmp_path / 'landing'} does not exist."
    assert (found["exit_code"], found["warnings"]) == (0, [words])
    for missing_folders in found["tables"]:
        assert any(said.startswith("It has no folder yet (shop/orders)") for said in missing_folders["warnings"])
    assert words in lakeward("status").out


@pytest.mark.parametrize("command", ["plan", "status", "run"])
def test_what_is_the_same_of_many_tables_is_said_once(tmp_path: Path, lakeward: Command, command: str) -> None:
    folders(tmp_path)
    names = [f"shop.t{number}" for number in range(9)]
    write(tmp_path, BASE, *[f'[tables."{name}"]\nkey = ["id"]\ncolumns = {{ id = "int" }}\n' for name in names])
    out = lakeward(command).out
    said = "⚠ 9 tables (shop.t0, shop.t1, shop.t2 …): It has no folder yet: DMS makes none for an empty table.\n"
    assert (said in out, out.count("no folder yet")) == (True, 1)
    warnings = [one["warnings"][0].split(")")[0] for one in lakeward(command, "--json").document["tables"]]
    assert warnings == [f"It has no folder yet (shop/t{n}" for n in range(9)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('load = "/full"', "must be a folder below the landing folder"),
        ('load = "../full"', "must be a folder below the landing folder"),
        ('change_names = "delta.*"', "must have a group that gives the order"),
        ('change_names = "(?P<when>.*)"', "has a group 'when'"),
        ('load_names = "("', "is no pattern"),
        ('lood = "full"', "Did you mean 'load'?"),
    ],
)
def test_a_mistake_in_where_a_table_lies_is_said_before_anything_starts(
    tmp_path: Path, lakeward: Command, source: str, said: str
) -> None:
    folders(tmp_path)
    write(tmp_path, BASE, f'[tables."shop.orders"]\ncolumns = {{ id = "int" }}\nsource = {{ {source} }}\n')
    ended = lakeward("plan")
    assert ended.code == 1
    assert said in ended.err


def test_two_tables_do_not_read_one_folder(tmp_path: Path, lakeward: Command) -> None:
    folders(tmp_path)
    one = '[tables."shop.a"]\nsource = { load = "shop" }\n'
    write(tmp_path, BASE, one + '[tables."shop.b"]\n')
    assert "shop.a and shop.b would read the same files" in lakeward("plan").err


def test_a_list_of_tables_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    folders(tmp_path, "sales/orders")
    file = write(tmp_path, BASE, '[tables."sales.*"]\n')
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "tables.json").write_text("[1")
    with pytest.raises(ConfigError, match=r"tables\.json cannot be read"):
        open_settings(file)


def test_a_folder_that_leads_out_is_the_matter_of_its_table_alone(tmp_path: Path, lakeward: Command) -> None:
    folders(tmp_path, "sales/orders", "cdc[1]")
    (tmp_path / "outside").mkdir()
    (tmp_path / "landing" / "sales" / "lines").symlink_to(tmp_path / "outside")
    write(tmp_path, BASE, '[tables."sales.*"]\ncolumns = { id = "int" }\n[tables."other.gone"]\n')
    ended = lakeward("plan")
    assert ended.code == 4
    assert "sales.lines: sales/lines leads out" in ended.err.replace(str(tmp_path.resolve() / "landing") + "/", "")
    assert "It has no folder yet (other/gone)" in ended.out


def test_changes_of_many_tables_in_one_file_are_said_not_to_be_read(tmp_path: Path, lakeward: Command) -> None:
    """Else a table would have its full load alone, for ever, and nobody would know."""
    folders(tmp_path, "shop/orders", "CdcPath")
    (tmp_path / "landing" / "CdcPath" / "CDC_TXN-20201117153046033.csv").touch()
    write(tmp_path, BASE, '[tables."shop.orders"]\ncolumns = { id = "int" }\n')
    assert "(CdcPath/CDC_TXN-20201117153046033.csv), which are not read" in lakeward("status").out
