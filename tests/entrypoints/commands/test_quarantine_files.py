"""Rows in quarantine: which are meant, how they are exported, and the file in which they are mended."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lakeward.core.dimension import Dimension, TableName, Unbounded
from lakeward.core.errors import ConfigError, RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.ports import Cells, Entry, RepairedRow
from lakeward.core.quarantine.repair import ADVICE, FIXABLE, check_repaired
from lakeward.core.schema import Column, Schema, Type
from lakeward.entrypoints.commands.quarantine import fix_file
from lakeward.entrypoints.commands.quarantine.export_file import export
from lakeward.entrypoints.commands.quarantine.selection import choice, moment
from lakeward.entrypoints.views.quarantine_entries import COLUMNS, REPLAY, QuarantinedTable, document
from lakeward.entrypoints.views.quarantine_tables import print_entries, print_waiting, print_waiting_groups

NAME = TableName("shop", 'odd "item"')
NAMES = ("id", "odd = 'name'", "\x7f#")
DIMENSION = Dimension(name=NAME, key=("id",), schema=Schema(tuple(Column(name, Type("string")) for name in NAMES)))


def entry(row: int = 1, reason: Reason = Reason.CAST, **more: object) -> Entry:
    whole = {"key": '["1"]', "detail": "", "object": "a.csv", "operation": "update", "epoch": 1, "sequence": 5}
    whole |= {"order": 1, "batch": 1, "since": row * 1_000_000, "text": "U,1"}
    return Entry(reason=reason.value, row=row, **{**whole, **more})  # type: ignore[arg-type]


# How they are shown.


def test_long_texts_are_cut_and_it_is_said_where_they_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_entries(Console(width=2000), [entry(detail="d" * 300, text="t" * 301)])
    shown = capsys.readouterr().out
    assert (shown.count("d" * 300), shown.count("t" * 300 + "…")) == (1, 1)
    assert shown.endswith("Texts of more than 300 characters are cut (…); --json has them in full.\n")
    print_entries(Console(width=2000), [entry(detail="d" * 300, text="t" * 300)])
    assert "…" not in capsys.readouterr().out


# Which rows.


def test_options_narrow_each_other_down() -> None:
    rows = [entry(1), entry(2, Reason.NULL_KEY, key=None), entry(3, object="b.csv"), entry(4, key='["2"]')]
    rows.append(entry(5, Reason.TOO_LATE, key='["2"]', object="b.csv", since=0))
    chosen = {
        "key": choice(key=["1"]),
        "place": choice(at="a.csv:2"),
        "reasons": choice(reason=["cast", "null_key"], file="a.*"),
        "since": choice(since="1970-01-01T00:00:03Z"),
        "before": choice(before="1970-01-01T00:00:03Z"),
        "both": choice(since="1970-01-01T00:00:02Z", before="1970-01-01T00:00:03+00:00"),
    }
    found = {name: [one.row for one in choose(rows, DIMENSION)] for name, choose in chosen.items()}
    of_times = {"since": [3, 4], "before": [1, 2], "both": [2]}
    assert found == {"key": [1, 3], "place": [2], "reasons": [1, 2, 4], **of_times}


def test_where_a_table_does_not_know_since_when_a_row_is_there_nothing_is_said() -> None:
    unknown, known = entry(1, since=0), entry(2, since=time.time_ns() // 1000 - 7_300_000_000)
    printed = []
    for rows in ([unknown], [unknown, known]):
        console = Console(file=io.StringIO(), width=200)
        print_waiting_groups(console, [QuarantinedTable(NAME, DIMENSION, DIMENSION, [], rows)])
        print_waiting(console, rows)
        printed.append(console.file.getvalue())  # type: ignore[attr-defined]
    assert " d " not in printed[0]
    assert printed[1].count("2 h") == 2
    assert document(NAME, unknown)["since"] is None


def test_a_key_is_a_value_of_its_type_and_either_of_a_key_change() -> None:
    decimal = replace(DIMENSION, schema=Schema((Column("id", Type("decimal", 8, 2)),)))
    rows = [entry(1, key='["-2.00"]'), entry(2, key='["3.00"]', other_key='["-2.00"]', also_holds=('["4.00"]',))]
    assert [one.row for one in choice(key=["-2"])(rows, decimal)] == [1, 2]
    assert [choice(key=["4"])(rows, decimal, by_hold=by_hold) for by_hold in (False, True)] == [[], rows[1:]]
    for key, said in ((["two"], "is no value of the key column id"), (["1", "2"], "2 values given")):
        with pytest.raises(ConfigError, match=said):
            choice(key=key)(rows, decimal)


def test_what_cannot_be_fixed_says_why() -> None:
    refused = RepairError("no", found="its columns are not declared", todo="Declare them.")
    quarantine = QuarantinedTable(NAME, DIMENSION, refused, [entry(), entry(2, Reason.NULL_KEY)])
    advice = ["it cannot be fixed: its columns are not declared. Declare them.", ADVICE[Reason.NULL_KEY]]
    assert [quarantine.advice(one) for one in quarantine.entries] == advice
    with pytest.raises(RepairError, match="no"):
        quarantine.at_the_source()
    assert quarantine.advice(entry(2, Reason.SCHEMA)).startswith("let the table follow and replay the row, or disc")
    assert replace(quarantine, rows=DIMENSION).advice(entry()) == REPLAY
    with_rules = replace(quarantine, rows=replace(DIMENSION, schema=Schema(DIMENSION.schema.columns[:1])))
    assert with_rules.advice(entry()) == ADVICE[Reason.CAST]
    assert "waits for its row" in quarantine.advice(entry(3, Reason.INCOMPLETE_ROW, is_waiting=True))


def test_a_change_of_a_table_without_a_key_says_what_it_does() -> None:
    """Its text may not: in a Parquet file the operation is a column beside the row."""
    out = Console(file=io.StringIO(), width=200)
    rows = [entry(1, Reason.NO_KEY, key=None), entry(2, Reason.NO_KEY, key=None, operation=None), entry(3)]
    print_entries(out, [replace(row, detail="no row") for row in rows])
    shown = [line.split("  ") for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    cells = [cell for line in shown for cell in line if "no row" in cell]
    assert cells == ["cast: no row", "no_key (update): no row", "no_key: no row"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("5 min", 300), ("2h", 7200), ("1d", 86_400)]
)
def test_a_duration_is_a_time_before_now(text: str, seconds: int) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert now.timestamp() - moment(text, now) / 1_000_000 == seconds


@pytest.mark.parametrize("text", ["", "soon", "2 weeks", "2026-13-01", "99999999999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is neither a time nor a duration"):
        moment(text)


# Export.


@given(text=st.text())
def test_what_is_exported_is_the_text_as_it_was_written(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("export")
    rows = [document(NAME, entry(text=text))]
    assert tuple(rows[0]) == COLUMNS
    export(rows, COLUMNS, folder / "rows.jsonl", "jsonl")
    assert json.loads((folder / "rows.jsonl").read_text("utf-8"))["text"] == text
    export(rows, COLUMNS, folder / "rows.csv", "csv")
    with (folder / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.DictReader(file))["text"] == text


def test_an_export_of_nothing_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    export([], COLUMNS, None, "csv")
    assert next(csv.reader(io.StringIO(capsys.readouterr().out))) == list(COLUMNS)


# The file in which rows are mended.

TEXTS = st.text() | st.none() | st.just(UNSET)


@given(cells=st.tuples(TEXTS, TEXTS, TEXTS), text=st.text(), detail=st.text())
def test_a_file_that_nobody_touched_gives_the_cells_that_were_written(
    cells: tuple[str | None, ...], text: str, detail: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever characters names, cells, texts and reasons have."""
    file = tmp_path_factory.mktemp("fix") / "rows.toml"
    known = dict(zip(NAMES, cells, strict=True))
    fix_file.write(DIMENSION, [(entry(text=text, detail=detail), Cells(known))], file)
    [row] = fix_file.read(file, DIMENSION)
    assert row == fix_file.Row("a.csv", 1, RepairedRow(operation=Operation.UPDATE, cells=known))
    [found] = fix_file.match([row], [entry()], str(NAME))
    assert found.repaired == row.repaired


def test_the_old_key_of_a_key_change_stands_in_the_file(tmp_path: Path) -> None:
    """As it was written before the change; a column of it that did not change has its text of now."""
    dimension = replace(DIMENSION, key=NAMES[:2], lateness=Unbounded())
    known = Cells({"id": "2", NAMES[1]: "same", NAMES[2]: None}, {"id": "1", NAMES[1]: UNSET})
    moved = entry(key='["2", "same"]', other_key='["1", "same"]')
    fix_file.write(dimension, [(moved, known)], tmp_path / "rows.toml")
    (row,) = fix_file.read(tmp_path / "rows.toml", dimension)
    assert row.repaired.old_key == {"id": "1", NAMES[1]: "same"}
    check_repaired(dimension, replace(moved, repaired=row.repaired))
    text = (tmp_path / "rows.toml").read_text("utf-8")
    (tmp_path / "rows.toml").write_text(text.replace('"id" = "1"  # before', '"id" = 1  # before'), "utf-8")
    with pytest.raises(RepairError, match="is invalid"):
        fix_file.read(tmp_path / "rows.toml", dimension)


def test_all_rows_that_are_not_in_quarantine_are_named() -> None:
    row = fix_file.Row("a.csv", 1, RepairedRow(operation=Operation.UPDATE, cells={}))
    with pytest.raises(RepairError, match=r"row 7; a\.csv, row 8 are not in quarantine"):
        fix_file.match([row, replace(row, row=7), replace(row, row=8)], [entry()], str(NAME))


def test_a_row_that_was_mended_is_written_as_it_was_mended(tmp_path: Path) -> None:
    repaired = RepairedRow(operation=Operation.DELETE, cells=dict.fromkeys(NAMES, "x"), time="2026-11-21 10:00:00")
    known = entry(reason=Reason.SEQUENCE, repaired=repaired, operation=None)
    fix_file.write(DIMENSION, [(known, Cells())], tmp_path / "rows.toml")
    assert [row.repaired for row in fix_file.read(tmp_path / "rows.toml", DIMENSION)] == [repaired]


def test_a_row_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    known = dict.fromkeys(NAMES, "x")
    fix_file.write(DIMENSION, [(entry(), Cells(known)), (entry(), Cells(known))], tmp_path / "rows.toml")
    with pytest.raises(RepairError, match="twice"):
        fix_file.read(tmp_path / "rows.toml", DIMENSION)


def test_a_file_of_many_rows_is_taken_back_in_a_moment(tmp_path: Path) -> None:
    row = '[[row]]\nfile = "a.csv"\nrow = {}\noperation = "update"\ncells = {{}}\n'
    file = tmp_path / "rows.toml"
    file.write_text(f"table = {json.dumps(str(NAME))}\n" + "".join(map(row.format, range(20_000))), "utf-8")
    begun = time.process_time()
    assert len(fix_file.read(file, DIMENSION)) == 20_000
    assert time.process_time() - begun < 5, "the time grows with the square of the rows"


# What a mended row may be.


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in FIXABLE], ids=str)
def test_what_holds_nothing_cannot_be_mended_and_is_told_what_can_be_done(reason: Reason) -> None:
    repaired = RepairedRow(operation=Operation.UPDATE, cells=dict.fromkeys(NAMES, "x"))
    with pytest.raises(RepairError) as refused:
        check_repaired(DIMENSION, entry(reason=reason, repaired=repaired))
    assert ADVICE[reason] in str(refused.value.todo)


NO_OPERATION: Mapping[str, Any] = {"reason": Reason.OPERATION, "operation": None}


@pytest.mark.parametrize(
    ("known", "operation", "said"),
    [
        (entry(), Operation.UPDATE, None),
        (entry(), Operation.INSERT, "cannot be a row of the operation"),
        (entry(**NO_OPERATION), Operation.DELETE, None),
        (entry(**NO_OPERATION), Operation.TRUNCATE, "cannot be a row of the operation"),
        (entry(**NO_OPERATION, sequence=LOAD_SEQUENCE), Operation.READ, None),
        (entry(**NO_OPERATION, sequence=LOAD_SEQUENCE), Operation.INSERT, "cannot be a row of the operation"),
        (entry(reason=Reason.SEQUENCE), Operation.UPDATE, "its commit time is not given"),
    ],
)
def test_an_operation_or_a_commit_time_that_was_known_stays_and_no_other_is_missing(
    known: Entry, operation: Operation, said: str | None
) -> None:
    repaired = RepairedRow(operation=operation, cells=dict.fromkeys(NAMES, "x"))
    if said is None:
        check_repaired(DIMENSION, replace(known, repaired=repaired))
        repaired, said = replace(repaired, time="2026-11-21 10:00:00"), "its commit time is known and stays"
    with pytest.raises(RepairError, match=said):
        check_repaired(DIMENSION, replace(known, repaired=repaired))


def test_an_update_of_a_table_without_a_key_cannot_be_mended() -> None:
    repaired = RepairedRow(operation=Operation.UPDATE, cells=dict.fromkeys(NAMES, "x"))
    with pytest.raises(RepairError, match="cannot be fixed"):
        check_repaired(replace(DIMENSION, key=()), entry(key=None, repaired=repaired))
