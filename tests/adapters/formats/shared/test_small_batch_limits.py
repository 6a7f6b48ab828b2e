"""The way of a batch: Spark works it out for each reason that the page has, and the core all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from merge_plans import make_plan
from repository import ROOT
from sparkless import no_spark

from lakeward.adapters.formats.shared.resolution.resolver import resolve_plan
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.adapters.formats.shared.small_batches import settled_batch
from lakeward.adapters.formats.shared.small_batches.batch import reason_for_spark
from lakeward.adapters.formats.shared.small_batches.change_log_reader import MOST_ENTRIES, read_change_log
from lakeward.adapters.formats.shared.small_batches.resolver import CORE, resolve_small_batch
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Deletes, Dimension, Match, TableName
from lakeward.core.events import Operation, Position
from lakeward.core.history.options import History
from lakeward.core.merge.change_log import Record
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Column, Schema, parse_type

PAGE = ROOT / "docs/decisions/0008-small-batches-are-worked-out-in-python.md"
PLACE = Position(1, 5, 1, 1)
MOST = 20_000


def plan_of(columns: Mapping[str, str] | None = None, *, rows: int = 1, **more: Any) -> MergePlan:
    """Return the plan of a batch of one update, into a table of these columns, by default with the key `id`."""
    types = columns or {"id": "bigint", "a": "string"}
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in types.items()))
    options = {name: more.pop(name) for name in ("key", "history", "deletes", "match") if name in more}
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, **{"key": ("id",), **options})
    facts = BatchFacts(schema=schema, operations={Operation.UPDATE: rows}, least=PLACE, greatest=PLACE)
    return make_plan(dimension, facts=facts, **more)


def reason(plan: MergePlan, most: int = MOST) -> str:
    found = reason_for_spark(plan, most)
    assert found is not None
    return found


def not_small(call: Callable[[], object]) -> str:
    with pytest.raises(SparkNeeded) as raised:
        call()
    return str(raised.value)


def keeping() -> Any:
    """Return the memory of a table of one batch, of which nothing needs to be read."""
    batches = SimpleNamespace(records={}, epoch=1, ordered_until=0)
    change_log = SimpleNamespace(batches=batches)
    return SimpleNamespace(change_log=change_log, small_batch=MOST, spark=no_spark, direct_load=None)


def frame_of(value: Any, operation: str = "update") -> LocalFrame:
    columns = {
        "id": pa.array([1], pa.int64()),
        "a": value,
        names.OPERATION: pa.array([operation]),
        names.SEQUENCE: pa.array([PLACE.sequence], pa.int64()),
        names.OBJECT: pa.array([PLACE.object], pa.int64()),
        names.ROW: pa.array([PLACE.row], pa.int64()),
        names.ARRIVAL: pa.array([0], pa.int64()),
        names.TIME: pa.array([PLACE.sequence], pa.int64()),
        **{name: pa.array([None], pa.string()) for name in (names.REASON, names.DETAIL)},
    }
    return LocalFrame(pa.table(columns), no_spark)


def touches_too_many(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(settled_batch, "find_all", lambda _rows, most: None if most == MOST else {})
    plan = plan_of(deletes=Deletes.SOFT, truncates=Truncates(arrived=(PLACE,)))
    return too_many_rows(plan, pa.table({}))


def equals_too_many(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(settled_batch, "find_images", lambda _rows, _batch, most: None if most == MOST else {})
    return too_many_rows(plan_of(key=(), match=Match.IMAGE, appends=True), pa.table({names.IMAGE: []}))


def too_many_rows(plan: MergePlan, batch: pa.Table) -> str:
    rows: Any = SimpleNamespace()
    return not_small(lambda: settled_batch.stored_rows(keeping(), plan, rows, [(1,)], batch))


def lies_behind_the_calendar(_patch: pytest.MonkeyPatch) -> str:
    plan = plan_of({"id": "bigint", "a": "timestamp"})
    frame = frame_of(pa.array([2**62], pa.timestamp("us", tz="UTC")))
    return not_small(lambda: resolve_small_batch(keeping(), plan, frame, None))


def remembers_too_much(_patch: pytest.MonkeyPatch) -> str:
    kept = keeping()
    kept.change_log.table = SimpleNamespace(rows=lambda *_: SimpleNamespace(num_rows=MOST_ENTRIES + 1))
    return not_small(lambda: read_change_log(kept, plan_of(recalls=True), [(1,)]))


def test_the_rows_of_joined_tables_are_worked_out_in_modules_that_do_not_know_this_way() -> None:
    written = [path.read_text("utf-8") for path in (ROOT / "adapters/formats/shared/joined").glob("join*.py")]
    assert written
    assert not any(word in text for text in written for word in ("resolved_by", "small_batches"))


EMPTY = TextSet(words=("",))
TELLS = History(previous_key=True)

CASES: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], str], str]] = {
    "with more than `small_batch` rows, unless they are resolved in columns": (
        lambda _: reason(plan_of(rows=MOST + 1)),
        "more than 20,000 rows",
    ),
    "whose full load or truncate changes more than `small_batch` stored rows that stay": (
        touches_too_many,
        "touches more than 20,000 rows",
    ),
    "with an image that more than `small_batch` stored rows equal": (
        equals_too_many,
        "touches more than 20,000 rows",
    ),
    "with more than 1,000,000 entries in the change log, or 250,000 for keys that may matter": (
        remembers_too_much,
        "more than 1,000,000 entries",
    ),
    "that meets a time outside the years 1 to 9999, written by another program": (
        lies_behind_the_calendar,
        "Python cannot hold a value",
    ),
}
"""Of each row of the page a case, and what is said of it."""


def rows_of_the_page() -> list[str]:
    text = PAGE.read_text("utf-8").split("Spark still works out batches of joined tables")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", text, re.MULTILINE)
    assert rows[0] == "batch"
    return [row for row in rows[1:] if not row.startswith("--")]


def test_the_page_has_these_reasons() -> None:
    assert rows_of_the_page() == [*CASES]


@pytest.mark.parametrize("row", CASES)
def test_spark_works_out_what_the_page_says(monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    told, words = CASES[row]
    assert words in told(monkeypatch)


def test_no_batch_is_small_where_the_settings_say_so() -> None:
    assert "`small_batch` is 0" in reason(plan_of(), most=0)


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(),
        plan_of(rows=MOST),
        plan_of(recalls=True, folds_remembered=True, folds=True),
        plan_of({"id": "bigint", "a": "struct<b: map<string, struct<c: int>>>"}, folds_remembered=True),
        plan_of({"id": "double", "a": "string"}),
        plan_of({"id": "double", "a": "string"}, history=History()),
        plan_of({"id": "bigint", "a": "double"}, history=TELLS),
        plan_of(deletes=Deletes.SOFT, truncates=Truncates(arrived=(PLACE,))),
        plan_of(replaces=True),
        plan_of(appends=True),
        plan_of(key=(), match=Match.IMAGE, appends=True),
    ],
)
def test_the_core_works_out_all_others(plan: MergePlan) -> None:
    assert reason_for_spark(plan, MOST) is None


@pytest.mark.parametrize(
    ("column", "mixed", "may_lose"), [("a", {}, True), ("id", {}, False), ("id", {"id": EMPTY}, True)]
)
def test_texts_alone_may_be_lost_by_a_path(column: str, mixed: Mapping[str, TextSet], may_lose: bool) -> None:
    assert Partitions("Hudi", [column], mixed).may_lose(plan_of().evolution.schema) is may_lose


@pytest.mark.parametrize(("value", "is_kept"), [("x", True), ("'", True), ("", False)])
def test_spark_is_asked_of_a_partition_where_some_text_may_not_be_kept(value: str, is_kept: bool) -> None:
    kept, frame, partitions = keeping(), frame_of(pa.array([value])), Partitions("Delta", ["a"])
    if is_kept:
        assert resolve_plan(kept, plan_of(creates=True, folds=True), frame, None, partitions).way == CORE
    else:
        with pytest.raises(AssertionError, match="no Spark is needed"):
            resolve_plan(kept, plan_of(creates=True), frame, None, partitions)


def test_a_row_of_rules_whose_text_no_partition_keeps_is_looked_at_by_spark() -> None:
    rows, partitions = LocalFrame(pa.table({"id": [1], "a": [""]}), no_spark), Partitions("Delta", ["a"])
    partitions.refuse_lossy_texts(plan_of(), rows)
    with pytest.raises(AssertionError, match="no Spark is needed"):
        partitions.refuse_lossy_texts(plan_of(folds=True), rows)


class ReadByNobody:
    """A table that has rows, which nobody may read."""

    is_written = True

    def rows(self) -> Any:
        raise AssertionError("its rows are read")

    def find(self, *_: object) -> Any:
        raise AssertionError("its rows are read")


def test_a_row_without_a_key_is_added_and_no_other_is_read() -> None:
    plan = plan_of(key=(), appends=True, truncates=Truncates(arrived=(PLACE,)))
    resolved = resolve_small_batch(keeping(), plan, frame_of(pa.array(["x"]), "insert"), ReadByNobody())
    assert (resolved.counts.read, resolved.counts.applied, resolved.written, resolved.removed) == (1, 1, 1, 0)
    (row,) = resolved.detail.upserts.rows.to_pylist()
    assert {name: row[name] for name in ("id", "a", *names.POSITION)} == {
        "id": 1,
        "a": "x",
        **dict(zip(names.POSITION, PLACE, strict=True)),
    }


def test_a_fact_of_an_object_that_came_before_is_a_duplicate() -> None:
    kept = keeping()
    record = Record(1, frozenset({PLACE.object}), PLACE, PLACE)
    kept.change_log.batches.records = {1: SimpleNamespace(record=record)}
    plan = plan_of(key=(), appends=True)
    resolved = resolve_small_batch(kept, plan, frame_of(pa.array(["x"]), "insert"), ReadByNobody())
    assert (resolved.counts.read, resolved.counts.duplicates, resolved.written) == (1, 1, 0)
