"""Explanation of one key as text: one line per event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, UNSET, Cell, Key, Operation, Position, Sequences
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Verdict
from lakeward.core.operations.explain import Changes, Explanation, Step
from lakeward.core.operations.key_state import KeyState
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.views import terminal

MOST_CELLS: Final = 12
"""Greatest number of shown cells; the document of `--json` has them all."""


class Story:
    """The events of one key and their outcomes, numbered from 1."""

    def __init__(self, dimension: Dimension, key_state: KeyState, explained: Explanation) -> None:
        self.dimension = dimension
        self.key_state = key_state
        self.steps = explained.steps
        self.is_whole = explained.is_whole
        self.numbers = number(explained.steps)

    def place(self, position: Position) -> str:
        """Return the origin of an event as `FILE:ROW`."""
        return f"{self.key_state.objects.get(position.object, f'object {position.object}')}:{position.row}"

    def what(self, step: Step) -> str:
        """Return the outcome of an event, with its reason."""
        verdict = self._verdict(step)
        if step.alike is not None:
            verdict += f", the same change as {self.numbers[step.alike]} again"
        if step.tie is not None:
            verdict += f", tie with {self.numbers[step.tie]}: the later row wins"
        effect = self._effect(step)
        not_sent = f" · not sent: {', '.join(step.unset)}" if step.unset else ""
        unchanged = f" · first value kept: {', '.join(step.first_values)}" if step.first_values else ""
        return f"{verdict}{': ' if effect else ''}{effect}{not_sent}{unchanged}"

    def _verdict(self, step: Step) -> str:
        by = None if step.by is None else self.numbers[step.by]
        waited = "waited, then " if step.settled not in (None, step.batch) and step.batch is not None else ""
        match step.verdict:
            case Verdict.QUARANTINED:
                return self._quarantine_text(step)
            case Verdict.WAITING if by is not None:
                return f"waiting for {by}"
            case Verdict.WAITING:
                return self._waiting(step)
            case Verdict.SUPERSEDED:
                return f"{waited}superseded by {by}, of the same batch"
            case Verdict.STALE:
                return f"{waited}stale: {by} is newer, and was applied before"
            case Verdict.DUPLICATE:
                return f"duplicate of {by}"
            case _ if by is not None:
                return f"{waited}applied before {by}, which was there already"
            case _:
                return f"{waited}applied"

    def _waiting(self, step: Step) -> str:
        if step.position.epoch > self.key_state.progress.epoch:
            return "waiting for its full load to be complete"
        if step.settled is not None:
            return "waiting for its row"
        others = [key for key in (step.old_key, step.key) if key is not None and key != self.key_state.key]
        return f"waiting: key {key_words(others[0])} is held" if others else "waiting"

    @property
    def is_held(self) -> bool:
        """True if events wait behind a row in quarantine, of this key or of one that a key change connects."""
        epoch = self.key_state.progress.epoch
        waits = [step for step in self.steps if step.verdict is Verdict.WAITING and step.settled is None]
        is_refused = any(refused.is_holding for refused in self.key_state.quarantined)
        return is_refused or any(step.position.epoch <= epoch for step in waits)

    def position(self, step: Step) -> str:
        """Return the position of an event in the order of the source; without a commit time it has none."""
        if step.quarantined is not None and step.quarantined.reason is Reason.SEQUENCE:
            return "no commit time"
        return position_words(step.position, step.time, self.key_state.progress.sequences)

    def _quarantine_text(self, step: Step) -> str:
        refused = step.quarantined
        if refused is None:
            return ""
        why = f"{refused.reason.value}{': ' if refused.detail else ''}{refused.detail}"
        if refused.discarded_in is not None:
            return f"discarded in batch {refused.discarded_in}: {why}"
        return f"in quarantine{', the key waits for it' if refused.is_holding else ''}: {why}"

    def _effect(self, step: Step) -> str:
        if step.verdict in (Verdict.STALE, Verdict.DUPLICATE, Verdict.QUARANTINED) and not step.changes:
            return ""
        outcome = "is deleted, and its values stay" if self.dimension.is_soft else "is removed"
        if step.operation is Operation.DELETE:
            return f"the row {outcome}"
        if step.operation is Operation.TRUNCATE:
            return f"every older row {outcome}"
        if step.key != self.key_state.key:
            return f"the row moves to key {key_words(step.key)}"
        moved = "" if step.old_key is None else f"from key {key_words(step.old_key)}: "
        others = {name: change for name, change in step.changes.items() if name not in self.dimension.key}
        return moved + (change_words(others) or ("the row is there" if step.changes else "nothing changed"))

    def before(self) -> str | None:
        """Return the row before the first event; None if it is unknown."""
        base = self.key_state.base
        if base is None:
            return None
        if base.row is None or not base.row.cells:
            return "no row"
        return f"{cell_words(base.row.cells)}{' · deleted' if base.row.deleted else ''}"

    def stored(self) -> str:
        """Return the stored row as text."""
        stored = self.key_state.stored or self.key_state.deleted_row
        if stored is None:
            return "no row"
        position = stored.row.position
        where = position_words(position, None, self.key_state.progress.sequences)
        deleted = " · deleted" if stored.row.deleted else ""
        return f"{cell_words(stored.row.cells)}{deleted} · position {where}, {self.place(position)}"

    @property
    def visible_with(self) -> int | None:
        """The batch with which the stored row became visible; None if unknown."""
        stored = self.key_state.stored or self.key_state.deleted_row
        if stored is not None:
            return stored.batch
        removals = [step.settled for step in self.steps if step.verdict is Verdict.APPLIED and not step.changes]
        return max((batch for batch in removals if batch is not None), default=None) if self.is_whole else None

    def since(self) -> str | None:
        """Return the time and commit with which the stored row became visible; None if unknown."""
        batch = self.visible_with
        record = None if batch is None else self.key_state.commits.get(batch)
        if record is None:
            return None if batch is None else f"visible since batch {batch}"
        commit = "" if record.commit is None else f", commit {record.commit}"
        return f"visible since {terminal.local_time(record.at)} (batch {batch}{commit})"

    def unknown(self) -> list[str]:
        """Return sentences about what is no longer known of the key."""
        sentences = [] if self.is_whole else ["The events that led to this row are no longer remembered."]
        progress, lateness = self.key_state.progress, self.dimension.lateness
        if isinstance(lateness, Ordered):
            sentences.append(
                "The table is `ordered`: beside the event of the row, deletes of the last "
                f"{format_count(lateness.redelivery, 'file')} are remembered. All other events are folded "
                "into the row."
            )
        elif progress.low_watermark is not None and progress.low_watermark.sequence != LOAD_SEQUENCE:
            watermark = position_words(Position(1, progress.low_watermark.sequence, 0, 0), None, progress.sequences)
            sentences.append(f"Events up to {watermark} are folded into the row, and are forgotten over time.")
        elif self.key_state.has_loads and self.key_state.base is None and self._begins_late():
            sentences.append(
                "A row of the full load is folded into the row by the first change, and not remembered."
            )
        if progress.inexact_since is not None:
            since = progress.inexact_since
            sentences.append(
                f"The table is inexact since {since}: rows whose key cannot be read may be of this key."
            )
        return sentences

    def _begins_late(self) -> bool:
        """Return True if events may have come before the first known one."""
        first = min(self.steps, key=lambda step: step.position)
        return first.operation not in (Operation.READ, Operation.INSERT)


def number(steps: Sequence[Step]) -> Mapping[Position, int]:
    """Return the number of each event by position; a duplicate has the number of its original."""
    numbers: dict[Position, int] = {}
    for count, step in enumerate(steps, 1):
        numbers.setdefault(step.position, count)
    return numbers


def position_words(position: Position, time: int | None, sequences: Sequences) -> str:
    """Return the position of an event in the order of the source, in a readable form."""
    epoch = f"epoch {position.epoch} · " if position.epoch > 1 else ""
    if position.sequence == LOAD_SEQUENCE:
        return f"{epoch}full load"
    if position.sequence == READ_SEQUENCE:
        return f"{epoch}snapshot row without a place"
    if sequences.are_wide:
        at = "" if time is None else f" · {terminal.local_time(time, exact=True)}"
        return f"{epoch}{position.sequence}{at}"
    moment = time if time is not None else position.sequence or None
    return epoch + terminal.local_time(moment, exact=True)


def key_words(key: Key) -> str:
    """Return a key as a person writes it."""
    return " ".join(terminal.cell(part) for part in key)


def cell_words(cells: Mapping[str, Cell]) -> str:
    """Return cells as `id 4711 · city Kiel`."""
    return _some([f"{name} {terminal.cell(value)}" for name, value in cells.items() if value is not UNSET])


def change_words(changes: Changes) -> str:
    """Return changes as `city Bonn → Köln`; a cell without a known earlier value has only its new value."""
    return _some(
        [
            f"{name} {terminal.cell(now)}"
            if was is UNSET
            else f"{name} {terminal.cell(was)} → {terminal.cell(now)}"
            for name, (was, now) in changes.items()
        ]
    )


def _some(parts: Sequence[str]) -> str:
    more = f" · and {len(parts) - MOST_CELLS} more" if len(parts) > MOST_CELLS else ""
    return " · ".join(parts[:MOST_CELLS]) + more
