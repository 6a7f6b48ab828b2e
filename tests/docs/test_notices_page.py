"""`docs/reference/notices.md`: its settings make notifiers, its notices are the code's, its permission is used."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pages import codes, fences, tables, text

from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.progress import Progress
from lakeward.core.reporting.notices import NoticeEntry, RunNotice, find_entries, of_unrouted_rows
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import validate

PAGE = "docs/reference/notices.md"
PERMISSION, POSTED = (json.loads(fence.content) for fence in fences(PAGE, "json"))


(SETTINGS,) = [fence.content for fence in fences(PAGE, "toml") if fence.name == "lakeward.toml"]


def at(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp()) * 1_000_000


def notice(document: dict[str, Any]) -> RunNotice:
    entries = [NoticeEntry(**entry) for entry in document["entries"]]
    return RunNotice(pipeline=document["pipeline"], run=document["run"], at=at(document["at"]), entries=entries)


def test_what_is_posted_is_what_the_page_shows() -> None:
    actual = {"text": POSTED["text"], **notice(POSTED).to_document()}
    assert actual == POSTED
    assert notice(POSTED).text.startswith(POSTED["text"].removesuffix("…"))


def test_the_text_of_the_page_is_that_of_a_notice() -> None:
    (page_text,) = fences(PAGE, "text")
    (held,) = find_entries("shop.lines", progress=Progress(held=2))
    held = replace(held, since=at("2026-11-30T22:00:00Z"))
    two = replace(notice(POSTED), entries=[*notice(POSTED).entries, held])
    assert two.text == page_text.content


def test_every_code_of_its_own_is_explained() -> None:
    (listed,) = tables(text(PAGE))
    page_codes = {codes(row["code"])[0] for row in listed} - {"LEDGER-001", "SourceError"}
    progress, awaited = Progress(held=1, inexact_since="1.csv"), AwaitedLoad(epoch=2, since=1)
    entries = find_entries("shop.orders", progress=progress, quarantined=1, awaited=awaited)
    assert {entry.code for entry in [*entries, of_unrouted_rows(1)]} == page_codes


def test_the_settings_make_its_notifiers_and_the_permission_is_the_one_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (statement,) = PERMISSION["Statement"]
    asked: list[str] = []

    class Client:
        def close(self) -> None:
            """Close nothing."""

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return lambda **_: None

    monkeypatch.setattr("lakeward.adapters.notifiers.sns.create_client", lambda *_, **__: Client())
    notifiers = Container(configured=validate(tomllib.loads(SETTINGS), Path("lakeward.toml"))).notifiers()
    assert [*notifiers] == ["sns", "webhook"]
    notifiers["sns"].send(notice(POSTED))
    assert statement["Action"] == [f"sns:{name.title()}" for name in asked]
    assert statement["Resource"] in SETTINGS
