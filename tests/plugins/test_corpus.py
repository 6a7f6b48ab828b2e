"""The corpus: what was written by hand is what the model makes of it, and no row of it could be another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import codes, fences, tables, text
from repository import ROOT

from lakeward.core.events import UNSET, ChangeEvent, Operation
from lakeward.core.merge.fold import apply
from lakeward.plugins.testing import LAWS, Bench, Case, Delivered, MemoryLake, corpus, try_law
from lakeward.plugins.testing.bench import COLUMNS

PAGE = "docs/extend/corpus.md"
CORPUS = ROOT / "plugins" / "testing" / "corpus"
CASES = {case.name: case for case in corpus()}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def sorted_rows(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return sorted(json.dumps(dict(row), sort_keys=True) for row in rows)


def folded(case: Case, arrived: int) -> list[Mapping[str, object]]:
    """What the model makes of the events of the newest epoch, each fact once, all at a time."""
    script, upto = case.script, case.deliveries[:arrived]
    is_unique = script.dimension.unique_sequences
    facts: dict[object, ChangeEvent] = {}
    for event in (event for delivery in upto for event in delivery.events):
        if event.position.epoch == upto[-1].epoch:
            fact = (event.position.source_order, event.keys, event.operation) if is_unique else event.position
            facts.setdefault(fact, event)
    if not case.key:
        return [event.cells for event in facts.values()]
    rows = apply(script.table_after(arrived), {}, facts.values()).rows.values()
    return [row.cells for row in rows if not row.deleted]


@every_case
def test_the_model_gives_the_tables_that_were_written_by_hand(case: Case) -> None:
    for arrived, delivery in enumerate(case.deliveries, 1):
        assert sorted_rows(folded(case, arrived)) == sorted_rows(delivery.rows), arrived


def twisted(case: Case) -> Iterator[Case]:
    """Yield the case with one thing wrong in one of its tables: a row too few, one too many, another cell."""
    for number, delivery in enumerate(case.deliveries):
        first: dict[str, Any] = dict(delivery.rows[0])
        column = next(name for name in first if name not in case.key)
        other = {**first, column: None if first[column] is not None else 0}
        for rows in (delivery.rows[1:], (*delivery.rows, other), (other, *delivery.rows[1:])):
            yield with_deliveries(case, number, replace(delivery, rows=rows))


def with_deliveries(case: Case, number: int, delivery: Delivered) -> Case:
    other = copy(case)
    deliveries = [*case.deliveries[:number], delivery, *case.deliveries[number + 1 :]]
    other.__dict__["deliveries"] = deliveries
    return other


@every_case
def test_whatever_else_an_expected_table_says_the_reference_adapter_does_not_give(case: Case) -> None:
    case.check(MemoryLake())
    says = rf"{case.name}: after delivery \d the table is not that of expected/"
    for other in twisted(case):
        with pytest.raises(AssertionError, match=says):
            other.check(MemoryLake())


@every_case
def test_a_case_says_nothing_that_its_page_does_not_know(case: Case) -> None:
    of_case, of_delivery, of_change = (
        {name for row in table for name in codes(row["field"])} for table in [*tables(text(PAGE))][1:4]
    )
    assert set(case.head) <= of_case
    assert all(set(delivery) <= of_delivery for delivery in case.head["deliveries"])
    feed = (CORPUS / case.name / "feed").rglob("*.jsonl")
    assert all(set(json.loads(line)) <= of_change for file in feed for line in file.read_text("utf-8").splitlines())


@every_case
def test_a_case_needs_what_its_feed_calls_for(case: Case) -> None:
    needs = set()
    for delivery in case.deliveries:
        needs |= {COLUMNS} if delivery.columns != case.deliveries[0].columns else set()
        needs |= {"reload"} if delivery.epoch > 1 else set()
        for event in delivery.events:
            needs |= {"truncate"} if event.operation is Operation.TRUNCATE else set()
            needs |= {"key_change"} if event.old_key is not None else set()
            needs |= {"unset"} if UNSET in event.cells.values() else set()
    assert case.needs == needs


@every_case
def test_every_file_of_a_case_is_used_and_every_table_is_whole(case: Case) -> None:
    folder = CORPUS / case.name
    delivered = {file for delivery in case.deliveries for file in delivery.files}
    assert {str(file.relative_to(folder / "feed")) for file in (folder / "feed").rglob("*.jsonl")} == delivered
    tables_of = [f"{number}.jsonl" for number in range(1, len(case.deliveries) + 1)]
    assert sorted(file.name for file in (folder / "expected").iterdir()) == tables_of
    for arrived, delivery in enumerate(case.deliveries, 1):
        columns = case.script.table_after(arrived).schema.names
        assert all(tuple(row) == columns for row in delivery.rows), "columns in the order of the table"


def test_a_partitioned_case_is_played_to_a_partitioned_lake() -> None:
    made: list[Sequence[str]] = []

    def partitioned(columns: Sequence[str]) -> MemoryLake:
        made.append(columns)
        return MemoryLake()

    for law in LAWS:
        if law.name.startswith("corpus_"):
            try_law(law, lambda: Bench(lake=MemoryLake(), partitioned=partitioned))
    assert made == [("shop",)]


def test_the_page_has_every_case_with_its_words() -> None:
    (listed, *_) = tables(text(PAGE))
    said = {row["case"].strip("`"): (row["what must hold"], row["a tool needs"]) for row in listed}
    assert said == {case.name: (case.title, ", ".join(sorted(case.needs))) for case in CASES.values()}


def test_what_reads_the_corpus_on_its_page_reads_what_the_kit_reads() -> None:
    (code, *_) = [fence.content for fence in fences(PAGE, "python") if "def deliveries" in fence.content]
    page: dict[str, Any] = {}
    exec(code, page)  # noqa: S102
    for case in CASES.values():
        read = list(page["deliveries"](CORPUS / case.name))
        assert [list(delivery.rows) for delivery in case.deliveries] == [rows for _, rows in read]
        for delivery, (changes, _) in zip(case.deliveries, read, strict=True):
            found = [(place[0], *place[2:], change["op"]) for place, change in changes]
            events = delivery.events
            assert found == [(e.position.epoch, *e.position[2:], e.operation.value) for e in events]


def test_the_corpus_is_in_utf_8_and_ends_with_a_line() -> None:
    for file in (path for path in CORPUS.rglob("*") if path.is_file()):
        content = Path(file).read_text("utf-8")
        assert not content or content.endswith("\n"), file
