"""`lakeward plugins trace`: a run, and behind it who was asked what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import shop
import third_party
from commands import Command
from projects import write

WATCHER = """
from lakeward.plugins import hookimpl

@hookimpl
def after_commit(report):
    raise KeyError("a key")
"""


def test_it_is_a_run_and_shows_each_answer_in_order(in_shop: Command) -> None:
    ended = in_shop("plugins", "trace")
    assert ended.code == 0
    ran, calls = re.split(r"^hook +plugin +about +ms +raised *\n", ended.out, flags=re.MULTILINE)
    assert "4 read = 4 applied\n" in ran
    assert [re.split(r" {2,}", line)[:3] for line in calls.splitlines() if " shop " in line] == [
        ["register", "shop", "added source 'shop'"],
        ["after_commit", "shop", "shop.orders batch 1: 2 read, 2 written, 0 removed"],
        ["after_commit", "shop", "shop.orders batch 2: 2 read, 2 written, 2 removed"],
    ]
    assert len(shop.REPORTS) == 2


def test_for_programs_the_calls_are_in_the_document_of_the_run(in_shop: Command) -> None:
    document = in_shop("plugins", "trace", "--json").document
    assert (document["command"], document["exit_code"]) == ("plugins trace", 0)
    assert document["tables"][0]["batch_count"] == 2
    (first,) = [call for call in document["calls"] if call["about"].startswith("shop.orders batch 1")]
    assert (first["hook"], first["plugin"], first["raised"]) == ("after_commit", "shop", None)
    assert 0 <= first["seconds"] < 60


def test_it_runs_the_tables_that_are_named_and_ends_as_a_run_does(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, shop.SETTINGS, '[tables."shop.broken"]\nkey = ["id"]\ncolumns = { id = "int" }\n')
    ended = lakeward("plugins", "trace", "shop.broken", "--log", "off")
    assert ended.code == 4
    assert "error: shop.broken: LOAD00000001.csv cannot be read" in ended.err
    assert shop.REPORTS == []
    misspelt = lakeward("plugins", "trace", "shop.brken")
    assert misspelt.err.startswith("error: shop.brken is not configured")
    assert misspelt.out == ""


def test_where_the_run_cannot_begin_people_see_who_was_asked_until_then(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, shop.SETTINGS.replace('kind = "memory"', 'kind = "mermory"'))
    ended = lakeward("plugins", "trace")
    assert ended.code == 1
    assert "no table format is called 'mermory'" in ended.err
    assert "added source 'shop'" in ended.out
    document = lakeward("plugins", "trace", "--json").document
    assert (document["command"], document["exit_code"]) == ("plugins trace", 1)


@pytest.mark.parametrize(
    ("module", "raised"), [("lakeward_watcher", "KeyError('a key')"), ("lakeward_leaver", "SystemExit(0)")]
)
def test_a_run_says_which_plugin_failed_behind_a_commit_and_its_stack_trace_where_it_is_asked(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, raised: str
) -> None:
    watcher = WATCHER.replace('KeyError("a key")', raised)
    third_party.install(monkeypatch, tmp_path / "more", module, watcher)
    write(tmp_path, shop.SETTINGS)
    ended = lakeward("run")
    assert ended.code == 0
    (first, second) = [line for line in ended.err.splitlines() if "failed in after_commit" in line]
    assert all(word in first for word in (module, raised, "--debug", "batch=1"))
    assert "batch=2" in second
    assert "Traceback" not in ended.err
    assert "Traceback" in lakeward("run", "--debug").err
    traced = lakeward("plugins", "trace", "--log", "off")
    shown = rf"^after_commit +{module} +shop\.orders batch 1: .* {raised.partition('(')[0]} *$"
    assert (traced.code, bool(re.search(shown, traced.out, re.MULTILINE))) == (0, True)
