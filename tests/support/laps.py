"""Which laws of a table run where: some on each line of Spark, a lap of each format in `make test`."""

from __future__ import annotations

from typing import Final, TypeVar

import pytest

from lakeward.adapters.spark.session.compatibility import LINES as SPARKS
from lakeward.adapters.spark.session.compatibility import line
from lakeward.plugins.testing import LAWS
from lakeward.plugins.testing.laws.tables import soft_deletes

T = TypeVar("T")

DEFAULT: Final = SPARKS[0]

LINES: Final = frozenset(
    {
        "a_commit_of_another_writer_hides_no_progress",
        "of_two_processes_that_worked_out_one_batch_one_commits",
    }
)
"""Laws under which a format does all that differs between two lines of Spark."""

SOFT: Final = frozenset(law.name for law in soft_deletes.LAWS)
"""Laws of soft deletes on random feeds, which take long; each format has the small one in its lap."""

CRASHES: Final = frozenset({"a_crash_at_any_step_changes_nothing"})
"""The law of crashes: the gate tries it once on each format, and what is long on the other line as well."""

LAP: Final = frozenset(
    {
        "a_commit_of_another_writer_in_the_midst_of_a_batch_changes_nothing",
        "corpus_widening",
        "after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed",
        "what_comes_too_late_is_told_apart",
        "a_table_without_a_key_keeps_each_fact_once",
        "a_row_of_nulls_is_equal_to_its_image",
        "a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there",
        "a_soft_delete_leaves_the_last_values",
        "a_value_is_read_back_as_it_came",
        "a_value_of_every_type_is_read_back_as_it_came",
    }
)
"""One lap of a format's own ways for every change, with those of `LINES` and `CRASHES`."""

BY_SPARK: Final = frozenset(
    {
        "any_delivery_of_many_histories_gives_their_databases",
        "after_a_reload_the_table_is_that_of_the_new_epoch_alone",
        "after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed",
        "what_comes_too_late_is_told_apart",
        "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases",
        "a_table_without_a_key_keeps_each_fact_once",
        "a_table_without_a_key_takes_away_one_row_that_is_equal_to_an_image",
        "what_is_newer_and_lies_below_its_row_is_told",
    }
)
"""Laws that formats are held to on the way of large batches as well, which Spark works out: one lap of it.

Batches of laws are small: by default the core works them out.
"""

APPENDING: Final = frozenset(
    {
        "a_table_without_a_key_keeps_each_fact_once",
        "a_table_without_a_key_takes_away_one_row_that_is_equal_to_an_image",
    }
)
"""The laws of tables without a key: Spark works them out alike on every format, so one lap is of Iceberg."""

CASES_BY_SPARK: Final = frozenset({"within"})
"""Of their cases those that the gate has time for."""

ROLLBACK: Final = frozenset({"a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there"})
"""The law of tables that are taken back, which takes long: the gate tries single cases on each format."""

SHARED: Final = frozenset(
    {
        "what_comes_too_late_is_told_apart",
        "after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed",
        "after_a_reload_nothing_is_left_of_rows_in_part",
        "a_reload_ends_what_it_lacks",
    }
)
"""Laws of what formats share: the gate tries them on Iceberg, and what is long on the others."""

ONCE: Final = frozenset({"any_order_within_the_lateness_gives_their_databases"})
"""Laws that the gate tries on Spark under one lateness, and on the memory adapter under all."""

RACES: Final = frozenset({"what_another_process_applied_meanwhile_is_not_applied_again"})
"""The race that a table loses before it writes: the gate tries the others, in which it loses as it commits."""

SLOW: Final = frozenset(
    {
        "every_step_of_the_pipeline_is_crashed_at",
        "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases",
        "objects_under_other_names_change_nothing_where_sequences_are_unique",
        "parts_of_rows_under_other_names_change_nothing_where_sequences_are_unique",
        "a_row_is_mended_in_its_place_whatever_the_mark",
        "cells_that_were_not_sent_keep_their_values",
        "key_changes_that_no_rule_decides_are_held_alike",
        "what_waits_in_quarantine_follows_in_order",
        "a_table_without_a_key_takes_away_one_row_that_is_equal_to_an_image",
        "what_ties_is_held_until_a_person_has_said_of_it",
        "what_ties_in_part_or_moves_is_held_alike",
        "rows_in_part_and_key_changes_are_mended_into_their_place",
        "tables_of_one_lake_are_apart",
    }
)
"""Laws of what every format shares, which take long; the gate has those of the memory adapter."""

CORPUS: Final = frozenset(law.name for law in LAWS if law.name.startswith("corpus_"))
"""Cases written by hand; the gate holds the reference adapter to them, and random laws hold formats to that one."""

HISTORIES: Final = frozenset(
    {"any_order_and_any_crash_give_the_one_history", "a_reload_ends_what_it_lacks"},
)
"""Laws of tables that keep every version."""

KNOWN: Final = frozenset({"what_was_known_is_not_rewritten"})
"""The law of what was believed when, which takes long; the gate tries ways with it, and single cases."""

NUMBERED: Final = frozenset({"a_version_keeps_its_number"})
"""The law of surrogate numbers, which takes long; the gate has how they are given, part by part."""

WAYS: Final = {
    "iceberg": {"tracking one column", "of kinds"},
    "delta": {"of kinds"},
    "hudi": {"by the day of the run"},
}
"""The ways to keep them that the gate tries on a format; the others take long."""


def other_ways(kind: str) -> set[str]:
    """Return the ways that the gate leaves out on a format."""
    (law,) = (law for law in LAWS if law.name == "any_order_and_any_crash_give_the_one_history")
    return {*law.cases} - WAYS[kind]


TRIMMED: Final = frozenset(
    {
        "any_order_and_any_crash_give_the_one_history",
        "what_was_known_is_not_rewritten",
        "a_version_keeps_its_number",
        "any_play_shows_at_each_moment_what_the_model_shows",
        "a_row_that_is_deleted_keeps_its_last_values",
        "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases",
        "rows_in_part_and_key_changes_are_mended_into_their_place",
        "key_changes_that_no_rule_decides_are_held_alike",
        "objects_under_other_names_change_nothing_where_sequences_are_unique",
        "parts_of_rows_under_other_names_change_nothing_where_sequences_are_unique",
        "what_ties_in_part_or_moves_is_held_alike",
        "a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there",
    }
)
"""Laws under which memory is trimmed with each batch, as that of the model; else, as by default, seldom."""


def on_each_line(tests: T) -> T:
    """Return laws, or a test, that run on each line of Spark, and take long on another than the default one."""
    marked: T = pytest.mark.lines(tests)
    return marked if line() == DEFAULT else pytest.mark.long(marked)


def others(*named: frozenset[str] | set[str]) -> list[str]:
    """Return the laws that none of these sets has."""
    return [law.name for law in LAWS if all(law.name not in names for names in named)]
