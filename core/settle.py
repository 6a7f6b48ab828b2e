"""What a delivery does to a table: `settle` works out the rows, the memory and the counts.

The usual event is newer than the row it meets, so a batch is folded over the stored
rows. The memory is read only for the keys that this does not settle: those with an
event that is not newer, absent keys whose event is not above the high-water mark, held
keys, keys joined by key changes, and, under a late truncate, all that is remembered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakeward.core import mending
from lakeward.core.counts import Counts, Verdict
from lakeward.core.delivery import Delivery, Settled, record_of
from lakeward.core.dimension import Dimension, Ordered, Ties
from lakeward.core.errors import MendError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position, same
from lakeward.core.fold import Folded, Row, apply, at_its_end, columns_of, gone
from lakeward.core.history.check import violation
from lakeward.core.history.instants import instant_of, undated
from lakeward.core.history.reloads import outlasting
from lakeward.core.history.versions import spliced
from lakeward.core.memory import (
    Base,
    Change,
    Hold,
    Memory,
    Reason,
    Reject,
    leave_departures,
    next_mark,
)
from lakeward.core.ties import Tie, refuse_tie, row_at, says_what_stands, ties_with, told
from lakeward.core.truncates import Truncates


def settle(dimension: Dimension, rows: Mapping[Key, Row], memory: Memory, delivery: Delivery) -> Settled:
    """Work out what `delivery` does to a table that holds `rows` and remembers `memory`."""
    settling = _Settling(dimension, rows, memory, delivery)
    settling.sort_out()
    settling.fold()
    while refused := settling.refused():
        settling.hold(refused)
        settling.fold()
    return settling.settled()


def absorb(dimension: Dimension, memory: Memory, settled: Settled) -> Memory:
    """Return the memory as of the batch that `settled` became; its mark says how far to `trim`."""
    epoch = settled.epoch
    after = Memory(
        epoch=epoch,
        loaded=settled.loaded,
        mark=memory.mark,
        records=[*memory.records, *([settled.record] if settled.record else [])],
        changes={p: c for p, c in memory.changes.items() if p.epoch >= epoch},
        bases={} if settled.replaces else dict(memory.bases),
        holds={p: h for p, h in memory.holds.items() if p.epoch >= epoch},
        closed={**memory.closed, **settled.closed},
        unsettled=[*memory.unsettled],
    )
    resolved = {*settled.closed, *(hold.position for hold in settled.holds)}
    after.changes = {p: change for p, change in after.changes.items() if p not in resolved}
    after.changes.update((change.event.position, change) for change in settled.changes)
    for base in settled.bases:
        after.bases.setdefault(base.key, base)
    after.holds.update((hold.position, hold) for hold in settled.holds)
    after.holds = {p: hold for p, hold in after.holds.items() if p not in settled.closed}
    if isinstance(dimension.lateness, Ordered):
        leave_departures(dimension, after, settled.rows)
    after.mark = next_mark(after, dimension.lateness)
    return after


class _Settling:
    def __init__(self, dimension: Dimension, rows: Mapping[Key, Row], memory: Memory, delivery: Delivery) -> None:
        self.dimension = dimension
        self.memory = memory
        self.delivery = delivery
        self.number = delivery.number
        self.arrived, self.refused_rows = self.told_apart(delivery)
        self.replaces = delivery.loaded is not None and delivery.loaded > memory.epoch
        self.epoch = delivery.loaded if self.replaces and delivery.loaded else memory.epoch
        self.columns = columns_of(dimension)
        self.stored = self.standing_rows(rows)
        self.gone = {key for key, row in rows.items() if self.stored.get(key) is not row}
        self.changes = {p: c for p, c in memory.changes.items() if p.epoch >= self.epoch}
        self.bases = {} if self.replaces else memory.bases
        self.holds = {p: h for p, h in memory.holds.items() if p.epoch >= self.epoch}
        self.closed = {r.position: r.mended for r in delivery.resolutions}
        self.ordered = isinstance(dimension.lateness, Ordered)
        self.duplicates = 0
        self.verdicts: dict[Position, Verdict] = {}
        self.fresh: list[ChangeEvent] = []
        self.staged: list[ChangeEvent] = []
        self.rejects: list[Reject] = []
        for position in self.closed:
            self.holds.pop(position, None)

    def standing_rows(self, rows: Mapping[Key, Row]) -> Mapping[Key, Row]:
        """The rows that the delivery meets: none of earlier epochs, unless what ended is kept."""
        if not self.replaces:
            return rows
        if self.dimension.history is None:
            place = Position(self.epoch, LOAD_SEQUENCE, 0, 0)  # before the rows of the load
            return {key: gone(row, place) for key, row in rows.items()} if self.dimension.is_soft else {}
        history, delivery = self.dimension.history, self.delivery
        load = [*self.loaded_rows()]
        return outlasting(rows, self.epoch, load, history, delivery.ran, own_times=delivery.own_times)

    def loaded_rows(self) -> Iterator[ChangeEvent | Reject]:
        """The rows of the full load that takes the place of all others."""
        staged = [change.event for change in self.memory.changes.values()]
        items: list[ChangeEvent | Reject] = [*self.arrived, *map(self.dated, staged), *self.refused_rows]
        items += [Reject(hold.position, hold.reason, hold.keys) for hold in self.memory.holds.values()]
        for item in items:
            if item.position.epoch == self.epoch and item.position.sequence == LOAD_SEQUENCE:
                yield item

    def dated(self, event: ChangeEvent) -> ChangeEvent:
        """Say from when an event counts in a history, once and for all."""
        history = self.dimension.history
        if history is None or event.instant is not None:
            return event
        return replace(event, instant=instant_of(event, history, self.delivery.ran))

    def told_apart(self, delivery: Delivery) -> tuple[list[ChangeEvent], list[Reject]]:
        """Return the events, with their instants, and the rejects: of a history also what does not say its own."""
        arrived: list[ChangeEvent] = []
        refused = list(delivery.rejects)
        for event in map(self.dated, delivery.events):
            detail = self.undated(event)
            if detail is None:
                arrived.append(event)
            else:
                refused.append(_reject(event, Reason.UNDATED, detail))
        return arrived, refused

    def undated(self, event: ChangeEvent) -> str | None:
        """Return in words why an event does not say from when it counts, or None where it need not, or does."""
        return None if self.dimension.history is None else undated(event, self.dimension.history)

    @property
    def kept(self) -> Sequence[str]:
        """The columns that keep the first value: a row does not tell what was sent of them since."""
        return () if self.columns is None else self.columns.kept

    # What each event is, before any row is looked at.

    def sort_out(self) -> None:
        """Tell copies, other epochs and what comes too late from the events to fold."""
        known = self.known_facts()
        for event in self.arrived:
            if self.is_copy(event, known):
                self.duplicates += 1
                continue
            known[self.fact(event)].append(event)
            self.judge(event)
        for reject in self.refused_rows:
            self.judge_reject(reject)
        if self.dimension.ties is not Ties.ARRIVAL:
            self.hold_ties()
        self.closed = {place: None if e is None else self.mended_event(e) for place, e in self.closed.items()}
        self.mended = [e for e in self.closed.values() if e and e.position.epoch == self.epoch]
        self.staged += [e for e in self.closed.values() if e and e.position.epoch > self.epoch]

    def mended_event(self, event: ChangeEvent) -> ChangeEvent:
        """Return what a person mended, with its instant; it must say that."""
        dated = self.dated(event)
        if (detail := self.undated(dated)) is not None:
            raise mending.is_undated(self.dimension, event.position.object, event.position.row, detail)
        return dated

    def fact(self, event: ChangeEvent) -> Hashable:
        """What makes two deliveries the same fact, where the sequence is unique per key."""
        if self.dimension.unique_sequences and not event.is_load:
            return (event.position.mark, event.keys, event.operation)
        return event.position

    def known_facts(self) -> dict[Hashable, list[ChangeEvent]]:
        """The facts that are remembered above the mark: at or below it a copy is not known by its fact."""
        known: dict[Hashable, list[ChangeEvent]] = defaultdict(list)
        mark = self.memory.mark
        closed = [event for event in self.memory.closed.values() if event is not None]
        for event in [change.event for change in self.memory.changes.values()] + closed:
            if mark is None or event.position.mark > mark:
                known[self.fact(event)].append(event)
        return known

    def is_copy(self, event: ChangeEvent, known: Mapping[Hashable, list[ChangeEvent]]) -> bool:
        position = event.position
        by_object = not (self.ordered or self.delivery.by_hand)
        if position in self.verdicts or (by_object and self.memory.has_object(position)):
            return True
        if position in self.memory.holds or position in self.memory.closed:
            return True
        is_delete = self.ordered and event.operation is Operation.DELETE  # of which only the key is remembered
        return self.is_what_stands(event) or any(
            is_delete or same(event.cells, other.cells) for other in known.get(self.fact(event), ())
        )

    def is_what_stands(self, event: ChangeEvent) -> bool:
        """Whether an `ordered` table, which remembers deletes alone, has the very row that a whole event sends.

        What its file has no column for says nothing of it.
        """
        if not (self.ordered and self.dimension.unique_sequences) or event.old_key is not None or event.is_load:
            return False
        row = row_at(self.stored, event)
        return row is not None and says_what_stands(row, event, self.kept)

    def judge(self, event: ChangeEvent) -> None:
        position = event.position
        if position.epoch < self.epoch:
            self.verdicts[position] = Verdict.STALE
        elif position.epoch > self.epoch:
            self.verdicts[position] = Verdict.WAITING
            self.staged.append(event)
        elif self.is_late(position):
            self.verdicts[position] = Verdict.QUARANTINED
            self.rejects.append(Reject(position, Reason.TOO_LATE, event.keys, time=event.time))
        else:
            self.verdicts[position] = Verdict.WAITING
            self.fresh.append(event)

    def hold_ties(self) -> None:
        """Hold the events that tie with one that stands, or refuse the delivery for them, as the table has it.

        It is judged once: neither what was mended nor what waited ties with anything when it is let through.
        """
        for tie in self.ties_found():
            if self.dimension.ties is Ties.FAIL:
                raise refuse_tie(self.dimension, _named(tie.event.position), _named(tie.other))
            self.verdicts[tie.event.position] = Verdict.QUARANTINED
            reject = _reject(tie.event, Reason.TIE, told(_named(tie.other)))
            self.rejects.append(reject)
            self.holds[reject.position] = Hold(
                reject.position, reject.keys, reject.reason, self.number, reject.transaction
            )
        self.fresh = [event for event in self.fresh if self.verdicts[event.position] is Verdict.WAITING]
        self.staged = [event for event in self.staged if self.verdicts[event.position] is Verdict.WAITING]

    def ties_found(self) -> list[Tie]:
        """Return the ties among what came and what is remembered.

        Of an `ordered` table that is what waits, and deletes; else the rows tell. What is delivered to it again has
        met them, and ties with none.
        """
        came = [*self.fresh, *self.staged]
        changes = self.memory.changes.values()
        if not self.ordered:
            return ties_with(came, (change.event for change in changes), {})
        came = [event for event in came if not self.memory.has_object(event.position)]
        known = [c.event for c in changes if c.waiting or c.event.operation is Operation.DELETE]
        return ties_with(came, known, self.stored, self.kept)

    def is_late(self, position: Position) -> bool:
        """Whether by `lateness` nothing may come there any more."""
        mark = None if self.ordered else self.memory.mark
        return position.epoch == self.epoch and not self.replaces and mark is not None and position.mark <= mark

    def judge_reject(self, reject: Reject) -> None:
        if reject.position in self.verdicts or self.memory.has_object(reject.position):
            self.duplicates += 1
            return
        self.verdicts[reject.position] = Verdict.QUARANTINED
        if reject.holds and reject.has_place and self.is_late(reject.position):
            reject = replace(reject, reason=Reason.TOO_LATE)
        self.rejects.append(reject)
        if reject.holds and reject.position.epoch >= self.epoch:
            self.holds[reject.position] = Hold(
                reject.position, reject.keys, reject.reason, self.number, reject.transaction
            )

    # What passes the holds, and what the rows become.

    def fold(self) -> None:
        """Let through what no hold stops, in position order, and fold it over the rows."""
        self.let_through()
        self.link_keys()
        self.folds: list[Folded] = []
        self.after: dict[Key, Row | None] = {key: unless_bare(self.stored.get(key)) for key in self.gone}
        slow = self.slow_keys()
        touched = {key for event in self.passed for key in event.keys}
        if any(event.operation is Operation.TRUNCATE for event in self.passed):
            touched |= set(self.stored)
        for keys in self.chains(slow):
            self.fold_keys(keys, self.rows_at_mark(keys), self.remembered_of(keys))
        for keys in self.chains(touched - slow):
            standing = {key: at_its_end(row) for key in keys if (row := self.standing(key)) is not None}
            self.fold_keys(keys, standing, self.old_truncates)
        self.broken = {key: wrong for key, row in self.after.items() if (wrong := self.violation(row)) is not None}

    def let_through(self) -> None:
        """Sort the candidates into those that pass and those that wait behind a hold.

        A key change that waits holds both its keys; a truncate passes every hold, and
        what is held or waits below it is superseded by it.
        """
        waited = [change.event for change in self.changes.values() if change.waiting]
        self.waited = [e for e in waited if e.position.epoch == self.epoch and e.position not in self.closed]
        open_ = [e for e in [*self.fresh, *self.waited, *self.mended] if e.position not in self.holds]
        candidates = sorted(open_, key=lambda event: event.position)
        self.old_truncates = [
            c.event for c in self.changes.values() if c.event.operation is Operation.TRUNCATE and not c.waiting
        ]
        remembered = frozenset(event.position for event in self.old_truncates)
        self.truncates = Truncates(remembered, tuple(event.position for event in candidates if not event.keys))
        barriers: dict[Key, list[Position]] = defaultdict(list)
        newest = max(self.truncates.all, default=None)
        for hold in self.holds.values():
            for key in () if self.truncates.overrule(hold.position, hold.reason) else hold.keys:
                barriers[key].append(hold.position)
        self.passed: list[ChangeEvent] = []
        self.waiting: list[ChangeEvent] = []
        for event in candidates:
            reached = any(place < event.position for key in event.keys for place in barriers[key])
            if not reached:
                self.passed.append(event)
                continue
            self.waiting.append(event)
            is_overruled = newest is not None and event.position < newest
            for key in event.keys if event.old_key is not None and not is_overruled else ():
                barriers[key].append(event.position)

    def link_keys(self) -> None:
        """Join the keys that key changes, remembered or passing, make one chain."""
        self.links: dict[Key, set[Key]] = defaultdict(set)
        remembered = [c.event for c in self.changes.values() if not c.waiting]
        for event in [*remembered, *self.passed]:
            if event.old_key is not None:
                self.links[event.key].add(event.old_key)
                self.links[event.old_key].add(event.key)

    def slow_keys(self) -> set[Key]:
        """The touched keys whose state must be worked out from the memory."""
        if self.ordered:
            return set()
        high_water = None if self.replaces else self.memory.high_water
        unsettled = {e.position for e in self.waited}
        slow: set[Key] = set()
        for event in self.passed:
            if not event.keys and high_water is not None and event.position <= high_water:
                slow |= self.remembered_keys()
            for key in event.keys:
                row = self.stored.get(key)
                newer = (
                    high_water is None or event.position.mark > high_water.mark
                    if row is None or row.deleted
                    else self.is_newer(event, row)
                )
                if not newer or key in self.links or event.position in unsettled:
                    slow.add(key)
        return {key for chain in self.chains(slow) for key in chain}

    def is_newer(self, event: ChangeEvent, row: Row) -> bool:
        if self.dimension.unique_sequences:
            return event.position.mark > row.position.mark
        return event.position > row.position

    def remembered_keys(self) -> set[Key]:
        return {key for change in self.changes.values() for key in change.event.keys} | set(self.bases)

    def chains(self, keys: Iterable[Key]) -> list[set[Key]]:
        """Group keys, with all that key changes join to them."""
        groups: list[set[Key]] = []
        for key in keys:
            if any(key in group for group in groups):
                continue
            group, rest = set(), [key]
            while rest:
                if (item := rest.pop()) not in group:
                    group.add(item)
                    rest.extend(self.links.get(item, ()))
            groups.append(group)
        return groups

    def rows_at_mark(self, keys: Iterable[Key]) -> dict[Key, Row]:
        """The rows as they stood before everything that is remembered of these keys."""
        rows = {key: self.bases[key].row if key in self.bases else self.stored.get(key) for key in keys}
        return {key: at_its_end(row) for key, row in rows.items() if row is not None}

    def remembered_of(self, keys: set[Key]) -> list[ChangeEvent]:
        events = [c.event for c in self.changes.values() if not c.waiting]
        return [e for e in events if not e.keys or keys.intersection(e.keys)]

    def standing(self, key: Key) -> Row | None:
        """The stored row, or where it went the memory of its delete; a key change deletes the key it leaves."""
        if key in self.stored:
            return self.stored[key]
        deletes = [
            c.event.position
            for c in self.changes.values()
            if not c.waiting
            and (c.event.old_key == key or (c.event.operation is Operation.DELETE and key in c.event.keys))
        ]
        return Row({}, max(deletes), deleted=True) if deletes else None

    def fold_keys(self, keys: set[Key], rows: Mapping[Key, Row], remembered: Iterable[ChangeEvent]) -> None:
        incoming = [e for e in self.passed if not e.keys or keys.intersection(e.keys)]
        waited = {e.position for e in self.waited}
        events = [e for e in remembered if e.position not in waited] + incoming
        folded = apply(self.dimension, rows, events)
        self.folds.append(folded)
        for key in keys:
            self.after[key] = unless_bare(self.whole(key, rows.get(key), folded.rows.get(key)))

    def whole(self, key: Key, base: Row | None, row: Row | None) -> Row | None:
        """Return a row with all versions of its key: a fold has those from its base on."""
        if row is None or self.columns is None or key not in self.stored:
            return row
        before = () if base is None else base.versions
        return replace(row, versions=spliced(self.stored[key].versions, before, row.versions))

    # Events that turn out to be none that can be applied are held.

    def refused(self) -> list[Reject]:
        """Return the passing events to hold: the first that nobody can decide, else those that break histories."""
        positions = {position for folded in self.folds for position in folded.undecided}
        undecided = next((event for event in self.passed if event.position in positions), None)
        return self.breaking() if undecided is None else [_reject(undecided, Reason.KEY_SHIFT)]

    def breaking(self) -> list[Reject]:
        """Return the first passing event of each key whose versions would break a rule.

        No event of a fold breaks one: the versions were altered in the table. A key that no event names, which a
        truncate or a full load has touched, has none.
        """
        found: dict[Position, Reject] = {}
        for key, detail in self.broken.items():
            event = next((event for event in self.passed if key in event.keys), None)
            if event is not None:
                found.setdefault(event.position, _reject(event, Reason.HISTORY, detail))
        return list(found.values())

    def violation(self, row: Row | None) -> str | None:
        """Return the rule that the versions of a row break, in words, or None where they are right."""
        history = self.dimension.history
        if row is None or history is None or self.columns is None:
            return None
        found = violation(self.columns, row.versions)
        return None if found is None else found.told(history.shown)

    def hold(self, refused: Iterable[Reject]) -> None:
        """Quarantine events and hold their keys; a row that a person mended must be one that can be applied."""
        for reject in refused:
            place = reject.position
            if any(event.position == place for event in self.mended):
                raise self.refuse_mended(reject)
            self.fresh = [event for event in self.fresh if event.position != place]
            if place in self.verdicts:
                self.verdicts[place] = Verdict.QUARANTINED
            self.rejects.append(reject)
            self.holds[place] = Hold(place, reject.keys, reject.reason, self.number, reject.transaction)

    def refuse_mended(self, reject: Reject) -> MendError:
        """Say why a row that a person mended cannot be applied."""
        object_, row = reject.position.object, reject.position.row
        if reject.reason is Reason.HISTORY:
            return mending.breaks_history(self.dimension, object_, row, reject.detail)
        return mending.undecided(self.dimension, object_, row)

    # What it comes to.

    def settled(self) -> Settled:
        self.judge_passed()
        for position in [p for p, hold in self.holds.items() if self.truncates.overrule(p, hold.reason)]:
            self.closed[position] = None
        known = {*self.memory.holds, *self.closed}
        new_holds = [hold for position, hold in self.holds.items() if position not in known]
        return Settled(
            rows={key: row for key, row in self.after.items() if key not in self.broken},
            changes=self.changes_to_remember(),
            bases=self.bases_to_remember(),
            holds=new_holds,
            closed=self.closed,
            rejects=self.rejects,
            record=record_of(self.delivery),
            counts=self.counts(),
            epoch=self.epoch,
            loaded=max(self.memory.loaded, self.delivery.loaded or 0),
            replaces=self.replaces,
        )

    def judge_passed(self) -> None:
        used = {position for folded in self.folds for position in folded.used}
        incomplete = {e.position for folded in self.folds for e in self.passed if folded.is_waiting(e)}
        for event in self.passed:
            position = event.position
            if position in incomplete and self.ordered:
                self.rejects.append(Reject(position, Reason.INCOMPLETE_ROW, event.keys, time=event.time))
            if position not in self.verdicts:
                continue
            if position in incomplete:
                self.verdicts[position] = Verdict.QUARANTINED if self.ordered else Verdict.WAITING
            elif any(row.position == position for row in self.standing_of(event)):
                self.verdicts[position] = Verdict.DUPLICATE
            elif position in used or (not event.keys and position == self.truncates.all[-1]):
                self.verdicts[position] = Verdict.APPLIED
            else:
                self.verdicts[position] = self.overtaken(event)

    def standing_of(self, event: ChangeEvent) -> list[Row]:
        """Return what stood of the event's keys before this delivery."""
        return [row for key in event.keys if (row := self.standing(key)) is not None]

    def overtaken(self, event: ChangeEvent) -> Verdict:
        """Whether what overtook an event was there before this delivery, or came with it."""
        standing = [row.position for row in self.standing_of(event)]
        remembered = [e.position for e in self.remembered_of(set(event.keys))]
        newer = any(position > event.position for position in [*standing, *remembered])
        return Verdict.STALE if newer else Verdict.SUPERSEDED

    def took_part(self, event: ChangeEvent) -> bool:
        """Whether an event was newer than all that stood before this delivery."""
        return self.verdicts.get(event.position) in (Verdict.APPLIED, Verdict.SUPERSEDED)

    def changes_to_remember(self) -> list[Change]:
        waiting = [Change(event, self.number, waiting=True) for event in [*self.waiting, *self.staged]]
        passed = [e for e in self.passed if self.verdicts.get(e.position) is not Verdict.QUARANTINED]
        if self.ordered:
            released = {event.position for event in [*self.waited, *self.mended]}
            passed = [e for e in passed if e.position in released or self.leaves_nothing(e)]
        return [*(Change(self.as_it_came(event), self.number) for event in passed), *waiting]

    def as_it_came(self, event: ChangeEvent) -> ChangeEvent:
        """Return an event that is remembered: of columns that the table gets later it says nothing."""
        return replace(event, was_whole=event.was_whole or not event.lacks(self.dimension.schema.names))

    def leaves_nothing(self, event: ChangeEvent) -> bool:
        """Whether an event must be remembered because no row carries its position.

        A key change is known again by it, whatever became of the row: what it left and covered
        would not be there any more.
        """
        if event.old_key is not None:
            return self.took_part(event)
        removes = event.operation in (Operation.DELETE, Operation.TRUNCATE)
        return removes and self.verdicts.get(event.position) is Verdict.APPLIED

    def bases_to_remember(self) -> list[Base]:
        """Return the rows before the first remembered event of each key; none of versions that break a rule.

        Of a key of which all waits the row that stands will do, and is right once a person has mended it.
        """
        if self.ordered:
            return []
        keys = {key for event in self.waiting for key in event.keys}
        if self.dimension.keeps_ended and not all(event.keys for event in self.passed):
            keys |= {key for key, row in self.stored.items() if not row.deleted}  # which a truncate ends
        keys = {key for key in keys if self.violation(self.stored.get(key)) is None}
        keys |= {key for event in self.passed for key in event.keys}
        rows = {key: self.stored.get(key) for key in keys - set(self.bases)}
        return [Base(key, None if row is None else at_its_end(row), self.number) for key, row in rows.items()]

    def counts(self) -> Counts:
        tally = Counter(self.verdicts.values())
        fresh = {event.position for event in self.fresh}
        newer = {event.position for event in self.fresh if self.took_part(event)}
        waited = {event.position for event in self.waited}
        held = [event for event in self.waited if event.position in self.holds]
        in_order: Counter[str] = Counter()
        for folded in self.folds:
            for name in ("insert_on_existing", "update_on_missing", "unset_as_null"):
                in_order[name] += len(getattr(folded, name) & newer)
        read = len(self.delivery.events) + len(self.delivery.rejects)
        return Counts(
            read=read,
            duplicates=self.duplicates + tally[Verdict.DUPLICATE],
            quarantined=tally[Verdict.QUARANTINED],
            waiting=tally[Verdict.WAITING],
            stale=tally[Verdict.STALE],
            superseded=tally[Verdict.SUPERSEDED],
            applied=tally[Verdict.APPLIED],
            released=sum(event.position in waited for event in [*self.passed, *held]),
            ties=self.ties([e for e in self.passed if e.position in fresh and self.took_part(e)]),
            **in_order,
        )

    def ties(self, events: Iterable[ChangeEvent]) -> int:
        """Count the events that arrival alone puts in order: all but one of each tie.

        A tie is events of one key with equal epoch and sequence and different contents. Where
        a source has no sequence, arrival is the order and nothing ties; the rows of a full
        load have none, nor has a table that holds or refuses ties. Where sequences are unique,
        what stood before is one of a tie as well.
        """
        groups: dict[Hashable, list[ChangeEvent]] = defaultdict(list)
        for event in events if self.dimension.ties is Ties.ARRIVAL else ():
            if event.keys and not event.is_load and event.position.sequence:
                groups[event.position.mark, event.keys].append(event)
        return sum(self.tied(group) for group in groups.values())

    def tied(self, group: list[ChangeEvent]) -> int:
        standing = self.standing_of(group[0]) if self.dimension.unique_sequences else []
        if any(row.position.mark == group[0].position.mark for row in standing):
            return len(group)
        return 0 if all(_alike(group[0], event) for event in group) else len(group) - 1


def unless_bare(row: Row | None) -> Row | None:
    """Return a row, or None where nothing is left of it."""
    return None if row is None or row.is_bare else row


def _reject(event: ChangeEvent, reason: Reason, detail: str = "") -> Reject:
    return Reject(event.position, reason, event.keys, event.transaction, event.time, detail)


def _named(position: Position) -> str:
    return f"{position.object}:{position.row}"


def _alike(one: ChangeEvent, other: ChangeEvent) -> bool:
    return one.operation is other.operation and same(one.cells, other.cells)
