"""Messages and JSON lines need Spark 4: elsewhere they are refused before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Command
from projects import DMS, ORDERS, write

from lakeward.adapters.files import variants
from lakeward.core.errors import SourceError

FILES = DMS.replace('kind = "dms"', 'kind = "files"\nformat = "{format}"')
OWN = '[tables."shop.orders".source]\nformat = "{format}"\n'


@pytest.fixture(autouse=True)
def _line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(variants, "line", lambda: "3.5")
    (tmp_path / "landing").mkdir()


@pytest.mark.parametrize("form", ["debezium", "dms-json", "json"])
@pytest.mark.parametrize("command", [("plan",), ("run", "--once")])
def test_json_is_refused_on_spark_3_5(
    lakeward: Command, tmp_path: Path, form: str, command: tuple[str, ...]
) -> None:
    write(tmp_path, FILES.format(format=form), ORDERS)
    ended = lakeward(*command)
    assert (ended.code, f'[source]: Spark 3.5 does not read files of `format = "{form}"`' in ended.err) == (
        1,
        True,
    ), ended.err
    assert "VARIANT" in ended.err
    assert "lakeward[spark]" in ended.err
    assert not (tmp_path / "lake").exists()


def test_the_table_is_named_whose_files_are_messages(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, FILES.format(format="csv"), ORDERS, OWN.format(format="debezium"))
    assert "shop.orders: Spark 3.5 does not read files of" in lakeward("plan").err


def test_rows_are_taken_on_spark_3_5(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, FILES.format(format="csv"), ORDERS)
    assert lakeward("plan").code == 0


def test_files_that_are_found_to_be_json_are_refused_by_name() -> None:
    variants.check_files("shop.orders", [])
    with pytest.raises(SourceError, match=r"does not read shop/orders/1\.json"):
        variants.check_files("shop.orders", ["shop/orders/1.json"])
