"""Mistakes that a table of any format could make, by the law of the kit that must show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import broken_answers
import broken_feeds
import broken_histories
import broken_images
import broken_soft_deletes
from broken_ports import Whole

BY_LAW: Mapping[str, Sequence[type[Whole]]] = {
    "a_table_that_was_never_written_stands_at_nothing": (broken_answers.ShowsColumnsBeforeItsFirstCommit,),
    "a_row_is_read_back_with_the_progress_of_its_batch": (broken_feeds.WritesZeroForNull,),
    "an_update_takes_the_place_of_a_row": (broken_feeds.NeverUpdates,),
    "a_change_upserts_whatever_it_is_called": (broken_feeds.UpdatesOnlyWhatItWasGiven,),
    "a_delete_takes_a_row_away": (broken_feeds.NeverDeletes,),
    "a_soft_delete_leaves_the_last_values": (broken_soft_deletes.DeletesForGood,),
    "a_row_that_is_deleted_keeps_its_last_values": (
        broken_soft_deletes.DeletesForGood,
        broken_soft_deletes.EmptiesWhatWent,
    ),
    "a_row_that_a_load_lacks_is_deleted_and_keeps_its_values": (broken_soft_deletes.DropsWhatALoadLacks,),
    "the_last_of_several_changes_of_a_key_stands": (broken_feeds.AppliesTheFirstOfABatch,),
    "an_object_that_comes_again_changes_nothing": (broken_answers.TakesCopiesForNews,),
    "a_late_change_overwrites_nothing_that_is_newer": (broken_answers.AsksNoMemory,),
    "a_snapshot_row_without_a_place_replaces_no_change": (broken_answers.AsksNoMemory,),
    "a_truncate_takes_every_older_row_away": (broken_feeds.ForgetsTruncates,),
    "a_cell_that_was_not_sent_keeps_its_value": (broken_feeds.NullsWhatWasNotSent,),
    "a_change_of_a_key_moves_the_row": (broken_feeds.LeavesTheOldKey,),
    "a_full_load_takes_the_place_of_all_rows": (broken_answers.KeepsRowsThatALoadDoesNotHold,),
    "a_row_that_cannot_be_applied_holds_its_key": (broken_feeds.HoldsNothing,),
    "of_two_changes_at_one_place_the_first_stands_where_the_table_has_it": (
        broken_answers.LetsArrivalOrderWhatTies,
    ),
    "what_ties_is_held_until_a_person_has_said_of_it": (broken_answers.LetsArrivalOrderWhatTies,),
    "what_ties_in_part_or_moves_is_held_alike": (broken_answers.LetsArrivalOrderWhatTies,),
    "rows_that_show_a_change_of_columns_are_refused_alone": (broken_answers.AppliesWhatShowsAChange,),
    "an_update_that_lacks_a_column_makes_no_row": (broken_answers.NullsWhatTheFilesLack,),
    "a_value_is_read_back_as_it_came": (
        broken_feeds.ReadsNumbersAsDoubles,
        broken_feeds.TakesLettersForOthers,
        broken_feeds.ComposesTexts,
        broken_feeds.CutsTexts,
        broken_feeds.TakesTheEmptyTextForNull,
    ),
    "a_value_of_every_type_is_read_back_as_it_came": (
        broken_feeds.CutsTimes,
        broken_feeds.ReadsDecimalsAsDoubles,
        broken_feeds.CountsDaysAsTheRomansDid,
    ),
    "what_a_person_said_is_known_to_whoever_opens_the_table": (
        broken_answers.KnowsTheLastWordAlone,
        broken_answers.HearsNothingBeforeThereIsATable,
    ),
    "a_process_that_ends_anywhere_leaves_a_table_that_goes_on": (broken_answers.BelievesWhatACrashLeft,),
    "tables_of_one_lake_are_apart": (
        broken_answers.GoesByTheBeginningOfAName,
        broken_answers.GoesByTheNameWithoutItsSchema,
    ),
    "a_commit_of_another_writer_hides_no_progress": (broken_answers.ForgetsItsProgressBehindAnothersCommit,),
    "maintenance_changes_no_row_and_hides_no_progress": (
        broken_answers.TellsWhatItDidNotDo,
        broken_answers.ForgetsItsProgressInMaintenance,
    ),
    "what_is_newer_and_lies_below_its_row_is_told": (broken_answers.TellsNoRegressions,),
    "of_two_processes_that_worked_out_one_batch_one_commits": (broken_answers.SaysThatItCommitted,),
    "what_another_process_applied_meanwhile_is_not_applied_again": (broken_answers.AppliesABatchOnWhateverStands,),
    "no_object_is_forgotten_where_two_processes_write_at_once": (broken_answers.BelievesWhoRememberedLast,),
    "a_commit_of_another_writer_in_the_midst_of_a_batch_changes_nothing": (broken_answers.SaysThatItCommitted,),
    "any_play_shows_at_each_moment_what_the_model_shows": (broken_feeds.LosesTheLastEvent,),
    "any_delivery_of_many_histories_gives_their_databases": (
        broken_feeds.LetsTheFirstOfATieWin,
        broken_feeds.LeavesThePositionOfANoOp,
    ),
    "what_waits_in_quarantine_follows_in_order": (broken_feeds.HoldsNothing,),
    "a_crash_at_any_step_changes_nothing": (broken_answers.BelievesWhatACrashLeft,),
    "every_step_of_the_pipeline_is_crashed_at": (broken_answers.BelievesWhatACrashLeft,),
    "after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed": (
        broken_answers.TakesAMendedRowForGivenUp,
        broken_answers.ForgetsWhatWasMended,
    ),
    "a_row_is_mended_in_its_place_whatever_the_mark": (broken_feeds.PutsAMendedRowOnTop,),
    "any_order_within_the_lateness_gives_their_databases": (broken_answers.AsksNoMemory,),
    "what_comes_too_late_is_told_apart": (broken_answers.TakesWhatComesTooLate,),
    "a_time_in_the_future_moves_no_mark_and_makes_nothing_too_late": (broken_answers.BelievesEveryTime,),
    "a_table_without_a_key_keeps_each_fact_once": (broken_answers.BelievesWhatACrashLeft,),
    "commits_of_another_writer_change_nothing": (broken_answers.ForgetsItsProgressBehindAnothersCommit,),
    "cells_that_were_not_sent_keep_their_values": (broken_feeds.NullsWhatWasNotSent,),
    "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases": (
        broken_feeds.LeavesTheOldKey,
        broken_answers.HidesWhatWaitsForItsRow,
    ),
    "rows_in_part_and_key_changes_are_mended_into_their_place": (broken_answers.ForgetsWhatWasMended,),
    "key_changes_that_no_rule_decides_are_held_alike": (broken_answers.HidesKeysThatAWaitingChangeHolds,),
    "objects_under_other_names_change_nothing_where_sequences_are_unique": (
        broken_feeds.TakesCopiesUnderOtherNamesForNews,
    ),
    "parts_of_rows_under_other_names_change_nothing_where_sequences_are_unique": (
        broken_feeds.TakesCopiesUnderOtherNamesForNews,
    ),
    "after_a_reload_the_table_is_that_of_the_new_epoch_alone": (
        broken_answers.KeepsRowsThatALoadDoesNotHold,
        broken_answers.HoldsKeysOfTheEpochBefore,
    ),
    "after_a_reload_nothing_is_left_of_rows_in_part": (broken_answers.KeepsRowsThatALoadDoesNotHold,),
    "a_reload_of_a_table_without_a_key_leaves_the_facts_of_the_new_epoch": (
        broken_answers.KeepsRowsThatALoadDoesNotHold,
    ),
    "any_order_and_any_crash_give_the_one_history": (
        broken_feeds.LosesTheLastEvent,
        broken_histories.EndsAVersionAnInstantEarly,
        broken_histories.LeavesEndedVersionsCurrent,
        broken_histories.EndsTheWrongVersion,
        broken_histories.LeavesTheVersionThatItCuts,
        broken_histories.TracksEveryColumn,
        broken_histories.RemembersNoWitness,
        broken_histories.RemembersNoBases,
        broken_histories.DatesAnewWhatItRemembers,
        broken_histories.LetsALateTruncateEndWhatIsCurrentAlone,
        broken_histories.FoldsTheNewestOfOldTruncates,
        broken_histories.TrimsTruncatesBelowTheMark,
    ),
    "what_was_known_is_not_rewritten": (
        broken_histories.RewritesWhatWasKnown,
        broken_histories.OverwritesWhatBeginsAndEndsAsBefore,
        broken_histories.FoldsWhatIsBelievedNoMore,
    ),
    "a_version_keeps_its_number": (
        broken_histories.NumbersAnewWhatItWrites,
        broken_histories.KnowsAVersionByItsStartAlone,
        broken_histories.NumbersEachPartByItself,
        broken_histories.NumbersEachBatchFromOne,
    ),
    "a_reload_ends_what_it_lacks": (broken_answers.KeepsRowsThatALoadDoesNotHold,),
    "a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there": (broken_answers.TakesNothingBack,),
    **broken_images.OF_ANY,
    "corpus_columns": (broken_answers.NullsWhatTheFilesLack,),
    "corpus_crash": (broken_answers.BelievesWhatACrashLeft,),
    "corpus_crash_without_key": (broken_answers.BelievesWhatACrashLeft,),
    "corpus_duplicates": (broken_answers.TakesCopiesForNews,),
    "corpus_key_change": (broken_feeds.LeavesTheOldKey,),
    "corpus_key_shift": (broken_feeds.ForgetsTransactions,),
    "corpus_late_delete": (broken_answers.AsksNoMemory,),
    "corpus_nulls": (broken_feeds.WritesNothingForNull,),
    "corpus_other_names": (broken_feeds.TakesCopiesUnderOtherNamesForNews,),
    "corpus_overlap": (broken_feeds.TakesALoadForNews,),
    "corpus_partition_move": (broken_feeds.LeavesRowsInTheirPartition,),
    "corpus_re_insert": (broken_feeds.NeverDeletes,),
    "corpus_reload": (broken_answers.KeepsRowsThatALoadDoesNotHold,),
    "corpus_ties": (broken_feeds.LetsTheFirstOfATieWin,),
    "corpus_truncate": (broken_feeds.ForgetsTruncates,),
    "corpus_unset": (broken_feeds.NullsWhatWasNotSent,),
    "corpus_widening": (broken_feeds.CutsOffWhatIsTooWide,),
    "corpus_witness": (broken_feeds.LeavesThePositionOfANoOp,),
}
"""Mistakes by the law of the conformance kit that is there to show them."""


@dataclass(frozen=True)
class Draw:
    """What is drawn for a law that is to fail: so many histories, from a seed, in a case of it (else the first)."""

    histories: int = 6
    seed: int = 0
    case: str | None = None


DRAWS: Mapping[str, Draw] = {
    "a_crash_at_any_step_changes_nothing": Draw(seed=4),
    "every_step_of_the_pipeline_is_crashed_at": Draw(40, 1),
    "after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed": Draw(seed=7),
    "a_row_is_mended_in_its_place_whatever_the_mark": Draw(seed=8),
    "any_order_within_the_lateness_gives_their_databases": Draw(10, 6),
    "what_comes_too_late_is_told_apart": Draw(seed=5),
    "a_time_in_the_future_moves_no_mark_and_makes_nothing_too_late": Draw(seed=3),
    "a_table_without_a_key_keeps_each_fact_once": Draw(seed=8),
    "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases": Draw(40, 2, "within"),
    "rows_in_part_and_key_changes_are_mended_into_their_place": Draw(20, 2),
    "key_changes_that_no_rule_decides_are_held_alike": Draw(seed=7),
    "objects_under_other_names_change_nothing_where_sequences_are_unique": Draw(case="within"),
    "parts_of_rows_under_other_names_change_nothing_where_sequences_are_unique": Draw(seed=1),
    "after_a_reload_nothing_is_left_of_rows_in_part": Draw(seed=2),
    "a_row_that_is_deleted_keeps_its_last_values": Draw(case="within"),
    "any_order_and_any_crash_give_the_one_history": Draw(case="tracking one column"),
    "what_was_known_is_not_rewritten": Draw(seed=6),
    "a_reload_of_a_table_without_a_key_leaves_the_facts_of_the_new_epoch": Draw(seed=9),
    "a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there": Draw(seed=5),
}
"""Where the common draw shows no mistake, or late: each of these fails within a few batches."""

DRAWS_OF: Mapping[type[Whole], Draw] = {
    broken_histories.LeavesTheVersionThatItCuts: Draw(seed=8, case="tracking one column"),
    broken_histories.RemembersNoWitness: Draw(seed=1, case="tracking one column"),
    broken_histories.RemembersNoBases: Draw(seed=14, case="by the day of a late run"),
    broken_histories.NumbersEachPartByItself: Draw(case="drawn"),
    broken_histories.DatesAnewWhatItRemembers: Draw(seed=3, case="by the day of a late run"),
    broken_histories.LetsALateTruncateEndWhatIsCurrentAlone: Draw(case="truncates by hand"),
    broken_histories.FoldsTheNewestOfOldTruncates: Draw(case="truncates by hand"),
    broken_histories.TrimsTruncatesBelowTheMark: Draw(case="truncates by hand"),
}
"""Where the draw of its law does not show a mistake."""
