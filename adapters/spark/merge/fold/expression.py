"""Write `lakeward.core.merge.fold.apply` as one expression of Spark SQL.

For a batch of whole rows the greatest position of each key suffices. Cells that were not sent, key changes and
swaps within a transaction need an order. Here the events of a *chain* (a key, or the keys that key changes join)
are an array in position order. `aggregate` folds this array in the JVM, event by event. `Fold` writes that
expression for the columns of a table.

An item of the array is a struct with the fields of `ITEM`. Items of rank 0 are rows from before the batch. In a
history each row has the versions of its key (`lakeward.adapters.spark.history.versions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.sql.fragments import NO_IDS, cells_type, let, note, place_type, struct
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.events import Sequences
from lakeward.core.schema import Schema, Type

ITEM: Final = (
    *("at", "place", "id", "operation", "key", "old", "transaction", "unset", "waits", "cells", "gone", "content"),
)
"""The fields of an item.

- `at`: the sort order: rank, then place
- `place`: the position
- `id`: the ID of an event of this batch, else NULL
- `operation`: the operation
- `key`, `old`: the texts of its key, and of the old key of a key change
- `transaction`: the transaction
- `unset`: what was not sent: columns, and fields of structs by path
- `waits`: whether anything was unset when the event came, so that it waits for its row
- `cells`: the values
- `gone`: whether the item remembers a delete
- `content`: a hash of the content
"""


OF_HISTORY: Final = ("instant", "versions")
"""Further fields of an item in a history: the instant of an event, and the versions of a stored row."""

BY_PLACE: Final = "(a, b) -> CASE WHEN a.at < b.at THEN -1 WHEN a.at > b.at THEN 1 ELSE 0 END"
"""SQL: the comparator that sorts items."""

_OF_MOVES: Final = ("transaction", "entered", "covered", "key_changes", "change_rows")
"""Fields of the state where keys change.

- `transaction`: the current transaction
- `entered`: the keys that were entered in it
- `covered`: the rows that were covered in it
- `key_changes`: its key changes since it began (or began again), as texts
- `change_rows`: by these texts, the rows that the key changes wrote when they came first
"""

_PLACED: Final = "placed"
"""A further field of the state of a history: the IDs of the events that have a place in it."""

_NOTES: Final = ("incomplete", "undecided", "existing", "missing", "nulled")
"""Lists of event IDs in the state.

- `incomplete`: found no row to complete
- `undecided`: no rule decides which row is meant
- `existing`: inserted a row that existed
- `missing`: updated a row that did not exist
- `nulled`: had missing cells that became NULL
"""


@dataclass(frozen=True, slots=True)
class Fold:
    """Writes the fold for a table with these columns, as SQL. The field `cells` has them as c0, c1, …"""

    schema: Schema
    sequences: Sequences = Sequences.TIMES
    versions: Versions | None = None
    """Writes the versions of a history; None for a mirror."""
    moves: bool = True
    """Whether a key change is among the items."""
    soft: bool = False
    """Whether a deleted row keeps its cells."""

    @property
    def cells(self) -> str:
        """The SQL type of the cells of a row."""
        return cells_type(self.schema)

    @property
    def row(self) -> str:
        """The SQL type of a row: its place, and the IDs of the events that set the row and each cell."""
        place = place_type(self.sequences)
        versions = "" if self.versions is None else f",versions:array<{self.versions.type}>"
        return f"struct<place:{place},id:bigint,gone:boolean,cells:{self.cells},origin:array<bigint>{versions}>"

    @property
    def used(self) -> str:
        """SQL: the IDs of the events that a `state` still shows; in a history, of all events with a place in it."""
        return used("state.rows") if self.versions is None else f"state.{_PLACED}"

    @property
    def _state_fields(self) -> Sequence[str]:
        placed = () if self.versions is None else (_PLACED,)
        return ("rows", *(_OF_MOVES if self.moves else ()), *_NOTES, *placed)

    def over(self, items: str) -> str:
        """Return SQL for the state after folding an array of items."""
        no_rows = f"map_filter(map('', CAST(NULL AS {self.row})), (k, v) -> false)"
        nothing = {
            "rows": no_rows,
            "transaction": "string(NULL)",
            "entered": "CAST(array() AS array<string>)",
            "covered": no_rows,
            "key_changes": "CAST(array() AS array<string>)",
            "change_rows": no_rows,
            **dict.fromkeys((*_NOTES, _PLACED), NO_IDS),
        }
        nothing = {name: nothing[name] for name in self._state_fields}
        return f"aggregate(array_sort({items}, {BY_PLACE}), {struct(nothing)}, (s, e) -> {self._step()})"

    def _step(self) -> str:
        """Return SQL for the state after one event: the decision, then the row that the event writes, if any."""
        rows = f"CASE WHEN d.puts THEN {_with('d.rows', 'e.key', 'new_row')} ELSE d.rows END"
        after = {name: rows if name == "rows" else f"d.{name}" for name in self._state_fields}
        if self.moves:
            is_first = "d.puts AND d.move IS NOT NULL AND NOT map_contains_key(d.change_rows, d.move)"
            more_rows = "map_concat(d.change_rows, map(d.move, new_row))"
            after["change_rows"] = f"CASE WHEN {is_first} THEN {more_rows} ELSE d.change_rows END"
        if self.versions is not None:
            after[_PLACED] = note(f"d.{_PLACED}", "d.puts")
        row = f"CASE WHEN d.puts THEN {self._put('d.base')} END"
        return let({"d": self._decide(), "new_row": row}, struct(after))

    def _decide(self) -> str:
        """Return SQL for the state after one event; `puts`, `base` and `move` describe the row that it writes."""
        stored = {
            **_ROW_OF_EVENT,
            "id": "bigint(NULL)",
            "gone": "e.gone",
            "cells": "e.cells",
            "origin": f"array_repeat(bigint(NULL), {len(self.schema)})",
            **({} if self.versions is None else {"versions": "e.versions"}),
        }
        stored_rows = self._state(rows=_with("s.rows", "e.key", struct(stored)))
        is_news = _is_news("s.rows", "e.key")
        deletes = self._state(rows=_with("s.rows", "e.key", self._deleted_row("e.key")), **self._placed("true"))
        truncates = self._state(rows=self._truncated)
        return (
            f"CASE WHEN e.at.rank = 0 THEN {stored_rows} WHEN e.operation = 'truncate' THEN {truncates} "
            f"{f'WHEN e.old IS NOT NULL THEN {self._move()}' if self.moves else ''} "
            f"WHEN NOT {is_news} THEN {self._state()} WHEN e.operation = 'delete' THEN {deletes} "
            f"ELSE {self._upsert()} END"
        )

    def _upsert(self) -> str:
        """Return SQL for an insert, update or read row that is newer than the row of its key."""
        partial_update = f"e.operation = 'update' AND {_IS_PARTIAL}"
        is_covered = (
            "e.transaction = s.transaction AND map_contains_key(s.covered, e.key)" if self.moves else "false"
        )
        with_row = self._state(
            puts="true",
            base=f"CASE WHEN {partial_update} THEN stored_row END",
            undecided=note("s.undecided", f"{partial_update} AND {is_covered}"),
            nulled=note("s.nulled", f"e.operation != 'update' AND {_IS_PARTIAL}"),
            existing=note("s.existing", "e.operation = 'insert' AND stored_row IS NOT NULL"),
            missing=note("s.missing", "e.operation = 'update' AND stored_row IS NULL"),
        )
        waits = self._state(incomplete=note("s.incomplete", "true"))
        is_waiting = "stored_row IS NULL AND e.operation = 'update' AND e.waits"
        body = f"CASE WHEN {is_waiting} THEN {waits} ELSE {with_row} END"
        return let({"stored_row": _live_row("s.rows", "e.key")}, body)

    def _move(self) -> str:
        """Return SQL for a key change: the row leaves the old key and enters the new one.

        Within a transaction a row that another one covered leaves first.
        """
        own = "array(move)"
        after_leaving = {
            "transaction": "e.transaction",
            "entered": "entered",
            "covered": "uncovered",
            "rows": "others",
        }
        after_leaving |= {
            "key_changes": f"CASE WHEN {_IS_CONTINUED} THEN array_union(s.key_changes, {own}) ELSE {own} END",
            "change_rows": f"CASE WHEN is_current THEN s.change_rows ELSE {_NO_ROWS} END",
            **self._placed(_LEAVES),
        }
        waits = self._state(**after_leaving, incomplete=note("s.incomplete", "true"))
        covers = "stored_row IS NOT NULL AND NOT array_contains(entered, e.key)"
        enters = {
            "entered": "array_union(entered, array(e.key))",
            "covered": f"CASE WHEN {covers} THEN {_with('uncovered', 'e.key', 'stored_row')} ELSE uncovered END",
            "undecided": note("s.undecided", "stored_row IS NOT NULL AND e.transaction IS NULL"),
        }
        with_row = self._state(**{**after_leaving, **enters}, puts="true", base="moved_row", move="move")
        return let(
            self._parts_of_move(),
            f"CASE WHEN coalesce(stored_row.place = first.place, false) THEN {self._state()} "
            f"WHEN NOT {_is_news('s.rows', 'e.key')} THEN {self._state(**after_leaving)} "
            f"WHEN moved_row IS NULL AND e.waits THEN {waits} ELSE {with_row} END",
        )

    def _parts_of_move(self) -> Mapping[str, str]:
        """Return SQL, by the name of the variable, for what a key change meets and leaves."""
        old_row = _live_row("s.rows", "e.old")
        deleted = _with("s.rows", "e.old", self._deleted_row("e.old"))
        return {
            "is_current": "coalesce(e.transaction = s.transaction, false)",
            "move": "to_json(struct(e.place.s, e.old, e.key, e.cells, e.unset))",
            "is_copy": "is_current AND array_contains(s.key_changes, move)",
            "first": "CASE WHEN is_current THEN try_element_at(s.change_rows, move) END",
            "covered": f"CASE WHEN {_IS_CONTINUED} THEN s.covered ELSE {_NO_ROWS} END",
            "was_covered": "try_element_at(covered, e.old)",
            "moved_row": f"coalesce(first, CASE WHEN {_LEAVES} THEN {old_row} ELSE was_covered END)",
            "stored_row": _live_row("s.rows", "e.key"),
            "entered": f"CASE WHEN NOT {_IS_CONTINUED} THEN CAST(array() AS array<string>) "
            f"WHEN {_LEAVES} THEN array_remove(s.entered, e.old) ELSE s.entered END",
            "others": f"CASE WHEN {_LEAVES} THEN {deleted} ELSE s.rows END",
            "uncovered": _without("covered", "e.old"),
        }

    def _put(self, base: str) -> str:
        """Return SQL for the row that an event writes. Cells that were not sent come from `base`, or are NULL."""
        cells, origins = [], []
        for index, item in enumerate(self.schema):
            is_unset, place = f"array_contains(e.unset, {text(item.name)})", f"cells.c{index}"
            value = _completed(f"e.{place}", f"{base}.{place}", item.type, (item.name,))
            cells.append(f"'c{index}', CASE WHEN {is_unset} THEN {base}.{place} ELSE {value} END")
            origins.append(f"CASE WHEN {is_unset} THEN {base}.origin[{index}] ELSE e.id END")
        image, origin = f"named_struct({', '.join(cells)})", f"array({', '.join(origins)})"
        if self.versions is None:
            return struct({**_ROW_OF_EVENT, "gone": "false", "cells": image, "origin": origin})
        fields = {
            "gone": "false",
            "cells": "try_element_at(opened, -1).cells",
            "origin": origin,
            "versions": "opened",
        }
        opened = self.versions.opened(self._versions_of("d.rows", "e.key", self.versions), image)
        return let({"opened": opened}, struct({**_ROW_OF_EVENT, **fields}))

    def _deleted_row(self, key: str) -> str:
        """Return SQL for the row of a key that the event deleted."""
        if self.versions is None:
            return struct(self._deleted_fields(f"try_element_at(s.rows, {key}).cells"))
        versions = self.versions.closed(self._versions_of("s.rows", key, self.versions))
        return struct({**self._deleted_fields(), "versions": versions})

    def _deleted_fields(self, cells: str = "NULL") -> dict[str, str]:
        """Return the fields of a row that the event deleted. With soft deletes the row keeps its cells."""
        cells_sql = cells if self.soft else "NULL"
        nothing = {"cells": f"CAST({cells_sql} AS {self.cells})", "origin": "CAST(NULL AS array<bigint>)"}
        return {**_ROW_OF_EVENT, "gone": "true", **nothing}

    def _versions_of(self, rows: str, key: str, versions: Versions) -> str:
        return f"coalesce(try_element_at({rows}, {key}).versions, {versions.none})"

    @property
    def _truncated(self) -> str:
        """SQL: the rows after a truncate. In a history, or with soft deletes, older rows end and are kept."""
        if self.versions is None and not self.soft:
            return "map_filter(s.rows, (k, v) -> v.place >= e.place)"
        versions = {} if self.versions is None else {"versions": self.versions.closed("v.versions")}
        ended, is_kept = struct({**self._deleted_fields("v.cells"), **versions}), "v.cells IS NOT NULL"
        if self.versions is not None:
            is_kept = "size(v.versions) > 0"
        after = (
            f"transform_values(s.rows, (k, v) -> CASE WHEN v.place >= e.place OR v.gone THEN v ELSE {ended} END)"
        )
        return f"map_filter({after}, (k, v) -> v.place >= e.place OR {is_kept})"

    def _placed(self, when: str) -> dict[str, str]:
        """Return the state change of an event that gets a place in a history."""
        return {} if self.versions is None else {_PLACED: note(f"s.{_PLACED}", when)}

    def _state(self, **changed: str) -> str:
        """Return SQL for the state `s` with some fields changed.

        `puts` says whether a row is written, `base` over which row, and `move` by which key change.
        """
        fields = {name: f"s.{name}" for name in self._state_fields}
        nothing = {"puts": "false", "base": f"CAST(NULL AS {self.row})", "move": "string(NULL)"}
        return struct({**fields, **nothing, **changed})


_ROW_OF_EVENT: Final = {"place": "e.place", "id": "e.id"}
_IS_PARTIAL: Final = "size(e.unset) > 0"
_NO_ROWS: Final = "map_filter(s.covered, (k, v) -> false)"
_IS_CONTINUED: Final = "(is_current AND NOT is_copy)"
"""Whether a key change is one more of the transaction before it."""


def _completed(new: str, stored: str, type_: Type, path: tuple[str, ...]) -> str:
    """Return SQL for a value in which fields that were not sent, at any depth, come from the stored value."""
    if type_.name != "struct":
        return new
    fields = []
    for part in type_.parts:
        part_path = (*path, part.name)
        new_part, stored_part = f"{new}.{quoted(part.name)}", f"{stored}.{quoted(part.name)}"
        completed = _completed(new_part, stored_part, part.type, part_path)
        is_unset = f"array_contains(e.unset, {text(quoted(*part_path))})"
        fields.append(f"{text(part.name)}, CASE WHEN {is_unset} THEN {stored_part} ELSE {completed} END")
    return f"CASE WHEN {new} IS NOT NULL THEN named_struct({', '.join(fields)}) END"


def _with(rows: str, key: str, row: str) -> str:
    return f"map_concat({_without(rows, key)}, map({key}, {row}))"


def _without(rows: str, key: str) -> str:
    return f"map_filter({rows}, (k, v) -> k != {key})"


def _is_news(rows: str, key: str) -> str:
    """Return SQL for whether the event is newer than the row of a key, or the key has none."""
    return f"coalesce(try_element_at({rows}, {key}).place < e.place, true)"


_LEAVES: Final = f"(was_covered IS NULL AND {_is_news('s.rows', 'e.old')})"
"""Whether the row of a key change leaves its old key: no other row of the transaction covered it there."""


def _live_row(rows: str, key: str) -> str:
    """Return SQL for the row of a key, NULL if it has none or that was deleted."""
    return f"CASE WHEN NOT try_element_at({rows}, {key}).gone THEN try_element_at({rows}, {key}) END"


def used(rows: str) -> str:
    """Return SQL for the IDs of the events that these rows still show: the last of each key and each cell."""
    ids = "array_append(coalesce(v.origin, CAST(array() AS array<bigint>)), v.id)"
    return f"array_compact(flatten(transform(map_values({rows}), v -> {ids})))"
