"""The laws of a table by where they run: some on each line of Spark, a lap of each format in `make test`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.spark.session.compatibility import LINES as SPARKS
from lakeward.adapters.spark.session.compatibility import line
from lakeward.plugins.testing import LAWS, Bench
from lakeward.plugins.testing.laws.tables import soft_deletes

T = TypeVar("T")

MOST_HISTORIES: Final = 40
"""The number of histories that the long tests pack into a table."""

FEW_HISTORIES: Final = 24
"""That number in the gate, which needs a quarter fewer commits for them.

`test_broken_formats.py` shows that they find the mistakes of the small laws.
"""

NEED_MOST: Final = frozenset({"events_below_the_low_watermark_are_refused", "undecided_key_changes_are_held"})
"""Laws that need events which the draws of the gate lack in few histories."""

EVERY_LAYOUT: Final = frozenset({"any_delivery_gives_the_rows_of_the_source"})
"""The law that is tried on every layout of a format."""

ANY_LAYOUT: Final = frozenset(
    {"a_reload_leaves_only_the_new_epoch", "a_reload_of_partial_rows_leaves_only_the_new_epoch"}
)
"""Laws that are tried on one layout of a format, drawn at random."""

DEFAULT: Final = SPARKS[0]

LINES: Final = frozenset(
    {"a_commit_of_another_writer_hides_no_progress", "only_one_of_two_processes_commits_a_batch"}
)
"""Laws in which a format does everything that differs between two lines of Spark."""

SOFT: Final = frozenset(law.name for law in soft_deletes.LAWS)
"""Laws of soft deletes on random feeds, which are slow. Each format has the small one in its lap."""

CRASHES: Final = frozenset({"a_crash_at_any_step_changes_nothing"})
"""The law of crashes. The gate tries it once on each format, and the long tests also on the other line."""

LAP: Final = frozenset(
    {
        "a_commit_of_another_writer_during_a_batch_changes_nothing",
        "corpus_widening",
        "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed",
        "events_below_the_low_watermark_are_refused",
        "a_table_without_a_key_has_each_event_once",
        "a_row_of_nulls_is_equal_to_its_image",
        "a_rollback_restores_the_table_and_the_next_batch_follows",
        "a_soft_delete_keeps_the_last_values",
        "a_value_is_read_back_unchanged",
        "a_value_of_every_type_is_read_back_unchanged",
    }
)
"""The lap of a format, with `LINES` and `CRASHES`: all code of the format runs for every kind of change."""

BY_SPARK: Final = frozenset(
    {
        "any_delivery_gives_the_rows_of_the_source",
        "a_reload_leaves_only_the_new_epoch",
        "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed",
        "events_below_the_low_watermark_are_refused",
        "partial_rows_and_key_changes_give_the_rows_of_the_source",
        "a_table_without_a_key_has_each_event_once",
        "an_image_removes_one_equal_row",
        "a_newer_change_at_a_lower_position_is_reported",
    }
)
"""Laws that are also tried with Spark resolving every batch, as it does with large ones.

Batches of laws are small, so by default the core resolves them.
"""

CRASHES_BY_SPARK: Final = frozenset(
    {"a_reload_leaves_only_the_new_epoch", "a_table_without_a_key_has_each_event_once"}
)
"""Laws of `BY_SPARK` in which processes end: one with a key, and one without. The others run without crashes."""

IN_RANDOM_LAWS: Final = frozenset(
    {
        "an_update_replaces_a_row",
        "inserts_and_updates_both_upsert",
        "a_delete_removes_a_row",
        "the_last_change_of_a_key_wins",
        "an_object_delivered_again_changes_nothing",
        "a_late_change_overwrites_nothing_newer",
        "a_cell_that_was_not_sent_keeps_its_value",
        "a_key_change_moves_the_row",
        "a_full_load_replaces_all_rows",
        "a_row_that_cannot_be_applied_holds_its_key",
        "a_batch_is_applied_once_after_a_crash_at_any_step",
        "commits_of_another_writer_change_nothing",
    }
)
"""Small laws whose mistakes break a law on random histories as well, which the gate runs on each format.

`test_broken_formats.py` shows it. A new format still begins with the small ones.
"""

APPENDING: Final = frozenset({"a_table_without_a_key_has_each_event_once", "an_image_removes_one_equal_row"})
"""The laws of tables without a key. Spark resolves them alike on every format, so they run on Iceberg."""

CASES_BY_SPARK: Final = frozenset({"within"})
"""The cases of these laws in the gate."""

ROLLBACK: Final = frozenset({"a_rollback_restores_the_table_and_the_next_batch_follows"})
"""The law of rollbacks, which is slow. The gate tries single cases on each format."""

SHARED: Final = frozenset(
    {
        "events_below_the_low_watermark_are_refused",
        "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed",
        "a_reload_of_partial_rows_leaves_only_the_new_epoch",
        "a_reload_ends_versions_of_missing_rows",
    }
)
"""Laws of code that formats share. The gate tries them on Iceberg, and the long tests on the others."""

ONCE: Final = frozenset({"any_order_within_the_lateness_gives_the_rows_of_the_source"})
"""Laws that the gate tries on Spark with one lateness, and on the reference adapter with all."""

RACES: Final = frozenset({"a_batch_of_another_process_is_not_applied_again"})
"""The conflict before a table writes. The gate tries the others, in which the conflict is at the commit."""

SLOW: Final = frozenset(
    {
        "every_step_of_the_pipeline_is_tried_with_a_crash",
        "partial_rows_and_key_changes_give_the_rows_of_the_source",
        "copies_of_objects_change_nothing_if_sequences_are_unique",
        "copies_of_partial_rows_change_nothing_if_sequences_are_unique",
        "a_repaired_row_is_applied_at_its_position",
        "cells_that_were_not_sent_keep_their_values",
        "undecided_key_changes_are_held",
        "waiting_events_are_applied_in_order",
        "an_image_removes_one_equal_row",
        "ties_are_held_until_an_operator_decides",
        "ties_of_partial_rows_and_key_changes_are_held",
        "repaired_partial_rows_and_key_changes_are_applied_at_their_position",
        "tables_of_one_lake_are_independent",
    }
)
"""Slow laws of code that every format shares. The gate tries them on the reference adapter."""

CORPUS: Final = frozenset(law.name for law in LAWS if law.name.startswith("corpus_"))
"""Cases written by hand. The gate tries them on the reference adapter, with which random laws compare formats."""

HISTORIES: Final = frozenset(
    {"any_order_and_any_crash_give_the_same_history", "a_reload_ends_versions_of_missing_rows"}
)
"""Laws of histories."""

KNOWN: Final = frozenset({"recorded_versions_are_not_rewritten"})
"""The law of recorded versions, which is slow. The gate tries single cases of it."""

NUMBERED: Final = frozenset({"a_version_keeps_its_number"})
"""The law of surrogate numbers, which is slow. The gate tests how they are assigned in each partition."""

HISTORY_CASES: Final = {
    "iceberg": {"tracking one column", "of kinds"},
    "delta": {"of kinds"},
    "hudi": {"by the day of the run"},
}
"""The cases of histories that the gate tries on a format. The others are long."""


def other_history_cases(kind: str) -> set[str]:
    """Return the cases of histories that are long on a format."""
    (law,) = (law for law in LAWS if law.name == "any_order_and_any_crash_give_the_same_history")
    return {*law.cases} - HISTORY_CASES[kind]


TRIMMED: Final = frozenset(
    {
        "any_order_and_any_crash_give_the_same_history",
        "recorded_versions_are_not_rewritten",
        "a_version_keeps_its_number",
        "any_sequence_of_moves_matches_the_reference_adapter",
        "a_deleted_row_keeps_its_last_values",
        "partial_rows_and_key_changes_give_the_rows_of_the_source",
        "repaired_partial_rows_and_key_changes_are_applied_at_their_position",
        "undecided_key_changes_are_held",
        "copies_of_objects_change_nothing_if_sequences_are_unique",
        "copies_of_partial_rows_change_nothing_if_sequences_are_unique",
        "ties_of_partial_rows_and_key_changes_are_held",
        "a_rollback_restores_the_table_and_the_next_batch_follows",
    }
)
"""Laws during which the change log is trimmed with each batch, as in the model. In others it is trimmed seldom."""


def bench(lake: Any, make: Callable[..., Any], options: Callable[[list[str]], object]) -> Bench:
    """Return a bench of a format that packs histories; `options` partition a table by columns."""
    return Bench(
        lake=lake,
        histories=MOST_HISTORIES if "LAKEWARD_LONG" in os.environ else FEW_HISTORIES,
        foreign=lake.commit_as_another_writer,
        partitioned=lambda columns: make(options([*columns])),
    )


def draw_layout(layouts: Mapping[str, T]) -> T:
    """Return one of the layouts, always the same in the gate."""
    random = Random(0) if settings().derandomize else Random()
    return random.choice([*layouts.values()])


def trim_often(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> None:
    """Trim with each batch in tests of the laws of `TRIMMED`."""
    if request.function.__name__.removeprefix("test_") in TRIMMED:
        patch.setattr(retention, "_TRIM_EVERY", 1)


def pack_enough(request: pytest.FixtureRequest, patch: pytest.MonkeyPatch) -> None:
    """Pack as many histories as the long tests in tests of the laws of `NEED_MOST`."""
    if request.function.__name__.removeprefix("test_") in NEED_MOST:
        patch.setattr(sys.modules[__name__], "FEW_HISTORIES", MOST_HISTORIES)


def on_each_line(tests: T) -> T:
    """Return laws, or a test, that run on each line of Spark, and are long on all but the default one."""
    marked: T = pytest.mark.lines(tests)
    return marked if line() == DEFAULT else pytest.mark.long(marked)


def on_the_other_line(test: T) -> T:
    """Return a test that runs on the line of Spark that platforms have, and is long on the default one."""
    return test if line() != DEFAULT else pytest.mark.long(test)


def remaining_laws(*named: frozenset[str] | set[str]) -> list[str]:
    """Return the laws that none of these sets has."""
    return [law.name for law in LAWS if all(law.name not in names for names in named)]
