"""Surveys of an event frame, whether its rows are in Spark or in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeward.adapters.spark.checks.log_steps import log_steps as spark_log_steps
from lakeward.adapters.spark.frames import event_frame, local_survey
from lakeward.adapters.spark.frames.event_frame import Group
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.core.checks.log_restart import LogRestart
from lakeward.core.checks.log_steps import LogReached, LogSteps
from lakeward.core.dimension import Dimension


def survey(frame: Frame, dimension: Dimension, *flags: str) -> Sequence[Group]:
    """Return the groups from which `event_frame.facts` is computed; see `event_frame.survey`."""
    if isinstance(frame, LocalFrame):
        return local_survey.survey(frame, dimension, *flags)
    return event_frame.survey(frame, dimension, *flags)


def lift_places(frame: Frame, restarts: Sequence[LogRestart]) -> Frame:
    """Add to the place of each row the offset of the newest restart of the source log at or before it."""
    if isinstance(frame, LocalFrame):
        return local_survey.lift_places(frame, restarts)
    return event_frame.lift_places(frame, restarts)


def with_ahead(frame: Frame, limit: int) -> Frame:
    """Flag the rows whose source time is later than `limit`, in microseconds since 1970."""
    if isinstance(frame, LocalFrame):
        return local_survey.with_ahead(frame, limit)
    return event_frame.with_ahead(frame, limit)


def steps_back(frame: Frame, groups: Sequence[Group], dimension: Dimension) -> Mapping[int, int]:
    """Return for each object the first row whose sequence lies further behind an earlier row than allowed."""
    if isinstance(frame, LocalFrame):
        return local_survey.steps_back(frame, groups, dimension)
    return event_frame.steps_back(frame, groups, dimension)


def log_steps(frame: Frame, groups: Sequence[Group], reached: LogReached) -> Mapping[int, LogSteps]:
    """Compare the changes of each object row by row with the source log; see `adapters.spark.checks.log_steps`."""
    if isinstance(frame, LocalFrame):
        return local_survey.log_steps(frame, groups, reached)
    return spark_log_steps(frame, groups, reached)
