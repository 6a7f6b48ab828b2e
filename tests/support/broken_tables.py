"""Mistakes that a table of any format could make, by the law of the kit that must show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import broken_answers
import broken_feeds
import broken_histories
import broken_images
from broken_ports import AnyTable

BY_LAW: Mapping[str, Sequence[type[AnyTable]]] = {
    "a_table_without_a_commit_has_no_progress": (broken_answers.ShowsColumnsBeforeItsFirstCommit,),
    "a_row_is_read_back_with_the_progress_of_its_batch": (broken_feeds.WritesZeroForNull,),
    "an_update_replaces_a_row": (broken_feeds.NeverUpdates,),
    "inserts_and_updates_both_upsert": (broken_feeds.NeverUpdates,),
    "a_delete_removes_a_row": (broken_feeds.NeverDeletes,),
    "a_soft_delete_keeps_the_last_values": (broken_histories.DeletesForGood,),
    "a_deleted_row_keeps_its_last_values": (broken_histories.DeletesForGood, broken_histories.EmptiesDeletedRows),
    "a_row_missing_from_a_load_is_deleted_and_keeps_its_values": (broken_histories.RemovesRowsMissingFromALoad,),
    "the_last_change_of_a_key_wins": (broken_feeds.AppliesTheFirstOfABatch,),
    "an_object_delivered_again_changes_nothing": (broken_answers.AppliesCopies,),
    "a_late_change_overwrites_nothing_newer": (broken_answers.IgnoresTheChangeLog,),
    "a_snapshot_row_without_a_position_replaces_no_change": (broken_answers.IgnoresTheChangeLog,),
    "a_truncate_removes_every_older_row": (broken_feeds.ForgetsTruncates,),
    "a_cell_that_was_not_sent_keeps_its_value": (broken_feeds.NullsUnsentCells,),
    "a_key_change_moves_the_row": (broken_feeds.LeavesTheOldKey,),
    "a_full_load_replaces_all_rows": (broken_answers.KeepsRowsMissingFromALoad,),
    "a_row_that_cannot_be_applied_holds_its_key": (broken_feeds.HoldsNothing,),
    "a_change_that_ties_with_a_stored_one_is_held_or_stops_the_table": (broken_answers.LetsArrivalOrderWhatTies,),
    "ties_are_held_until_an_operator_decides": (broken_answers.LetsArrivalOrderWhatTies,),
    "ties_of_partial_rows_and_key_changes_are_held": (broken_answers.LetsArrivalOrderWhatTies,),
    "only_rows_that_show_a_column_change_are_refused": (broken_answers.AppliesRowsWithNewColumns,),
    "an_update_without_a_column_creates_no_row": (broken_answers.NullsMissingColumns,),
    "a_value_is_read_back_unchanged": (
        broken_feeds.ReadsNumbersAsDoubles,
        broken_feeds.TakesLettersForOthers,
        broken_feeds.ComposesTexts,
        broken_feeds.CutsTexts,
        broken_feeds.WritesNothingForNull,
    ),
    "a_value_of_every_type_is_read_back_unchanged": (
        broken_feeds.CutsTimes,
        broken_feeds.ReadsDecimalsAsDoubles,
        broken_feeds.UsesTheJulianCalendar,
    ),
    "operator_decisions_are_stored_with_the_table": (
        broken_answers.KeepsOnlyTheLastDecision,
        broken_answers.LosesDecisionsBeforeTheFirstCommit,
    ),
    "a_batch_is_applied_once_after_a_crash_at_any_step": (broken_answers.BelievesEntriesOfACrash,),
    "tables_of_one_lake_are_independent": (
        broken_answers.ComparesPrefixesOfNames,
        broken_answers.ComparesNamesWithoutSchema,
    ),
    "a_commit_of_another_writer_hides_no_progress": (broken_answers.ForgetsItsProgressBehindAnothersCommit,),
    "maintenance_changes_no_row_and_hides_no_progress": (
        broken_answers.ReportsMaintenanceThatItDidNotDo,
        broken_answers.ForgetsItsProgressInMaintenance,
    ),
    "a_newer_change_at_a_lower_position_is_reported": (broken_answers.ReportsNoRegressions,),
    "only_one_of_two_processes_commits_a_batch": (broken_answers.ReportsAFailedCommitAsSuccessful,),
    "a_batch_of_another_process_is_not_applied_again": (broken_answers.AppliesABatchAfterAnyConflict,),
    "no_object_is_forgotten_when_two_processes_write_at_once": (broken_answers.BelievesTheLastChangeLog,),
    "a_commit_of_another_writer_during_a_batch_changes_nothing": (broken_answers.ReportsAFailedCommitAsSuccessful,),
    "any_sequence_of_moves_matches_the_reference_adapter": (broken_feeds.LosesTheLastEvent,),
    "any_delivery_gives_the_rows_of_the_source": (
        broken_feeds.LetsTheFirstOfATieWin,
        broken_feeds.LeavesThePositionOfANoOp,
    ),
    "waiting_events_are_applied_in_order": (broken_feeds.HoldsNothing,),
    "a_crash_at_any_step_changes_nothing": (broken_answers.BelievesEntriesOfACrash,),
    "every_step_of_the_pipeline_is_tried_with_a_crash": (broken_answers.BelievesEntriesOfACrash,),
    "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed": (broken_answers.LosesRepairs,),
    "a_repaired_row_is_applied_at_its_position": (broken_feeds.AppliesARepairedRowLast,),
    "any_order_within_the_lateness_gives_the_rows_of_the_source": (broken_answers.IgnoresTheChangeLog,),
    "events_below_the_low_watermark_are_refused": (broken_answers.AppliesLateEvents,),
    "a_time_in_the_future_moves_no_watermark": (broken_answers.BelievesTimesInTheFuture,),
    "a_table_without_a_key_has_each_event_once": (broken_answers.BelievesEntriesOfACrash,),
    "commits_of_another_writer_change_nothing": (broken_answers.ForgetsItsProgressBehindAnothersCommit,),
    "cells_that_were_not_sent_keep_their_values": (broken_feeds.NullsUnsentCells,),
    "partial_rows_and_key_changes_give_the_rows_of_the_source": (
        broken_feeds.LeavesTheOldKey,
        broken_answers.HidesIncompleteRows,
    ),
    "repaired_partial_rows_and_key_changes_are_applied_at_their_position": (broken_answers.LosesRepairs,),
    "undecided_key_changes_are_held": (broken_answers.HidesKeysThatAWaitingChangeHolds,),
    "copies_of_objects_change_nothing_if_sequences_are_unique": (broken_feeds.AppliesCopiesUnderOtherNames,),
    "copies_of_partial_rows_change_nothing_if_sequences_are_unique": (broken_feeds.AppliesCopiesUnderOtherNames,),
    "a_reload_leaves_only_the_new_epoch": (
        broken_answers.KeepsRowsMissingFromALoad,
        broken_answers.HoldsKeysOfTheEpochBefore,
    ),
    "a_reload_of_partial_rows_leaves_only_the_new_epoch": (broken_answers.KeepsRowsMissingFromALoad,),
    "a_reload_without_a_key_leaves_only_the_new_epoch": (broken_answers.KeepsRowsMissingFromALoad,),
    "any_order_and_any_crash_give_the_same_history": (
        broken_feeds.LosesTheLastEvent,
        broken_histories.EndsAVersionAnInstantEarly,
        broken_histories.LeavesEndedVersionsCurrent,
        broken_histories.EndsTheWrongVersion,
        broken_histories.KeepsTheVersionThatItCuts,
        broken_histories.TracksEveryColumn,
        broken_histories.RemembersNoWitness,
        broken_histories.RemembersNoBases,
        broken_histories.ForgetsValidTimes,
        broken_histories.LetsALateTruncateEndWhatIsCurrentAlone,
        broken_histories.FoldsTheNewestOfOldTruncates,
        broken_histories.TrimsTruncatesBelowTheMark,
    ),
    "recorded_versions_are_not_rewritten": (
        broken_histories.RemovesSupersededVersions,
        broken_histories.OverwritesVersionsOfEqualTimes,
        broken_histories.FoldsSupersededVersions,
    ),
    "a_version_keeps_its_number": (
        broken_histories.RenumbersWrittenVersions,
        broken_histories.IdentifiesVersionsByStart,
        broken_histories.NumbersEachPartByItself,
        broken_histories.NumbersEachBatchFromOne,
    ),
    "a_reload_ends_versions_of_missing_rows": (broken_answers.KeepsRowsMissingFromALoad,),
    "a_rollback_restores_the_table_and_the_next_batch_follows": (broken_answers.RollsNothingBack,),
    **broken_images.OF_ANY,
    "corpus_columns": (broken_answers.NullsMissingColumns,),
    "corpus_crash": (broken_answers.BelievesEntriesOfACrash,),
    "corpus_crash_without_key": (broken_answers.BelievesEntriesOfACrash,),
    "corpus_duplicates": (broken_answers.AppliesCopies,),
    "corpus_key_change": (broken_feeds.LeavesTheOldKey,),
    "corpus_key_shift": (broken_feeds.ForgetsTransactions,),
    "corpus_late_delete": (broken_answers.IgnoresTheChangeLog,),
    "corpus_nulls": (broken_feeds.WritesNothingForNull,),
    "corpus_other_names": (broken_feeds.AppliesCopiesUnderOtherNames,),
    "corpus_overlap": (broken_feeds.OrdersALoadAfterChanges,),
    "corpus_partition_move": (broken_feeds.LeavesRowsInTheirPartition,),
    "corpus_re_insert": (broken_feeds.NeverDeletes,),
    "corpus_reload": (broken_answers.KeepsRowsMissingFromALoad,),
    "corpus_ties": (broken_feeds.LetsTheFirstOfATieWin,),
    "corpus_truncate": (broken_feeds.ForgetsTruncates,),
    "corpus_unset": (broken_feeds.NullsUnsentCells,),
    "corpus_widening": (broken_feeds.CutsWideNumbers,),
    "corpus_witness": (broken_feeds.LeavesThePositionOfANoOp,),
}
"""Mistakes by the law of the conformance kit that must show them."""


@dataclass(frozen=True)
class Draw:
    """The draw of a law that must fail: the number of histories, the seed, and a case (or the first)."""

    histories: int = 6
    seed: int = 0
    case: str | None = None


DRAWS: Mapping[str, Draw] = {
    "a_crash_at_any_step_changes_nothing": Draw(seed=4),
    "every_step_of_the_pipeline_is_tried_with_a_crash": Draw(40, 1),
    "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed": Draw(seed=7),
    "a_repaired_row_is_applied_at_its_position": Draw(seed=8),
    "any_order_within_the_lateness_gives_the_rows_of_the_source": Draw(10, 6),
    "events_below_the_low_watermark_are_refused": Draw(seed=5),
    "a_time_in_the_future_moves_no_watermark": Draw(seed=3),
    "a_table_without_a_key_has_each_event_once": Draw(seed=8),
    "partial_rows_and_key_changes_give_the_rows_of_the_source": Draw(40, 2, "within"),
    "repaired_partial_rows_and_key_changes_are_applied_at_their_position": Draw(20, 2),
    "undecided_key_changes_are_held": Draw(seed=7),
    "copies_of_objects_change_nothing_if_sequences_are_unique": Draw(case="within"),
    "copies_of_partial_rows_change_nothing_if_sequences_are_unique": Draw(seed=1),
    "a_reload_of_partial_rows_leaves_only_the_new_epoch": Draw(seed=2),
    "a_deleted_row_keeps_its_last_values": Draw(case="within"),
    "any_order_and_any_crash_give_the_same_history": Draw(case="tracking one column"),
    "recorded_versions_are_not_rewritten": Draw(seed=6),
    "a_reload_without_a_key_leaves_only_the_new_epoch": Draw(seed=9),
    "a_rollback_restores_the_table_and_the_next_batch_follows": Draw(seed=5),
}
"""Draws of laws on which the default one shows no mistake, or shows it late."""

DRAWS_OF: Mapping[type[AnyTable], Draw] = {
    broken_histories.KeepsTheVersionThatItCuts: Draw(seed=8, case="tracking one column"),
    broken_histories.RemembersNoWitness: Draw(seed=1, case="tracking one column"),
    broken_histories.RemembersNoBases: Draw(seed=14, case="by the day of a late run"),
    broken_histories.NumbersEachPartByItself: Draw(case="drawn"),
    broken_histories.ForgetsValidTimes: Draw(seed=3, case="by the day of a late run"),
    broken_histories.LetsALateTruncateEndWhatIsCurrentAlone: Draw(case="truncates by hand"),
    broken_histories.FoldsTheNewestOfOldTruncates: Draw(case="truncates by hand"),
    broken_histories.TrimsTruncatesBelowTheMark: Draw(case="truncates by hand"),
}
"""Draws of mistakes that the draw of their law does not show."""
