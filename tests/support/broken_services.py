"""Catalogues, notifiers, queues and registrations with a mistake each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from threading import Barrier, BrokenBarrierError
from typing import Final, TypeAlias

from mutations import Method, mutate, skip

from lakeward.adapters.memory import MemoryQueue
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError, StoreUnreachable
from lakeward.core.ports import Notice, TableDescription
from lakeward.core.reporting.notices import RunNotice
from lakeward.core.schema import Type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins.testing import (
    CatalogueUnderTest,
    FoundEntry,
    NotifierUnderTest,
    QueueUnderTest,
    RegistrationUnderTest,
)
from lakeward.plugins.testing.laws import queues


def _table(name: str, *columns: str, **rest: tuple[str, ...]) -> SourceTable:
    made = tuple(SourceColumn(name=one, written="INT", type=Type("int")) for one in columns)
    return SourceTable(name=TableName("shop", name), columns=made, **rest)


TABLES: Final = (
    _table("orders", "b", "id", key=("id", "b")),
    _table("Lines", "n"),
    _table("twin", "a"),
    _table("TWIN", "b"),
)
Described: TypeAlias = Mapping[TableName, SourceTable]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A catalogue of given tables. If it is `gone`, it does not answer."""

    tables: tuple[SourceTable, ...] = TABLES
    gone: bool = False

    def describe(self, tables: Collection[TableName]) -> Described:
        if self.gone:
            raise CatalogueUnreachable("it does not answer", todo="Look whether it runs.")
        return {name: found for name in tables if (found := self.find(name)) is not None}

    def find(self, name: TableName) -> SourceTable | None:
        found = [one for one in self.tables if one.name == name] or self.alike(name)
        if len(found) > 1:
            raise ConfigError(", ".join(str(one.name) for one in found))
        return found[0] if found else None

    def alike(self, name: TableName) -> Sequence[SourceTable]:
        return [one for one in self.tables if str(one.name).lower() == str(name).lower()]


def catalogue_bench(
    kind: type[Catalogue] = Catalogue, tables: Sequence[SourceTable] = TABLES
) -> CatalogueUnderTest:
    return CatalogueUnderTest(catalogue=kind(), tables=tables, gone=kind(gone=True))


def _sort_key(found: SourceTable | None) -> SourceTable | None:
    return found and replace(found, key=tuple(one for one in found.names if one in found.key))


def _describe_all_or_fail(right: Method, _: Catalogue, tables: Collection[TableName]) -> Described:
    found = right(tables)
    if len(found) < len(tables):
        raise ConfigError("a table is missing")
    return found


_catalogue = partial(mutate, Catalogue)
CATALOGUES: Final[Mapping[str, type]] = {
    "a_table_is_described_completely": _catalogue(
        "sorts the key like the columns", find=lambda right, _, name: _sort_key(right(name))
    ),
    "only_requested_tables_are_described": _catalogue(
        "describes all its tables",
        describe=lambda right, own, tables: {**{one.name: one for one in own.tables}, **right(tables)},
    ),
    "an_unknown_table_is_left_out": _catalogue("stops at an unknown table", describe=_describe_all_or_fail),
    "names_are_compared_without_case": _catalogue("compares case", alike=lambda *_: []),
    "names_that_differ_only_in_case_must_match_exactly": _catalogue(
        "takes the first of two", find=lambda _, own, name: next(iter(own.alike(name)), None)
    ),
    "a_catalogue_that_does_not_answer_raises_an_error": _catalogue(
        "answers with nothing", describe=lambda right, own, tables: {} if own.gone else right(tables)
    ),
}

TOKEN: Final = "a token that is no one's business"  # noqa: S105  # of this test


@dataclass
class Board:
    """A list of received texts. If it is `gone`, it refuses them."""

    token: str = field(default=TOKEN, repr=False)
    gone: bool = False
    texts: list[str] = field(default_factory=list)

    def send(self, notice: RunNotice) -> None:
        if self.gone:
            raise StoreUnreachable("the board cannot be reached", todo="Look for it.")
        self.put(notice.text)

    def put(self, text: str) -> None:
        self.texts.append(text)

    def received(self) -> Sequence[str]:
        return self.texts


def notifier_bench(kind: type[Board]) -> NotifierUnderTest:
    board = kind()
    return NotifierUnderTest(notifier=board, received=board.received, unreachable=kind(gone=True), unshown=TOKEN)


def _send_or_show_token(right: Method, own: Board, notice: RunNotice) -> None:
    try:
        right(notice)
    except StoreUnreachable as error:
        raise error from ConnectionError(f"POST /{own.token}")


_board = partial(mutate, Board)
NOTIFIERS: Final[Mapping[str, type]] = {
    "a_notice_is_received_once_and_complete": _board(
        "shows the subject alone", send=lambda _, own, notice: own.put(notice.subject)
    ),
    "each_notice_is_received_in_order": _board(
        "shows equal texts once", put=lambda right, own, text: text in own.texts or right(text)
    ),
    "odd_texts_are_received_unchanged": _board(
        "writes ASCII", put=lambda right, _, text: right(text.encode("ascii", "replace").decode())
    ),
    "a_long_notice_is_received": _board(
        "loses long texts", put=lambda right, _, text: len(text) < 10_000 and right(text)
    ),
    "an_unreachable_notifier_says_what_to_do_and_shows_no_secret": _board(
        "shows its token in an error", send=_send_or_show_token
    ),
}


def bell(kind: type[MemoryQueue]) -> QueueUnderTest:
    queue, receipts = kind(), count()
    return QueueUnderTest(
        open=lambda: queue, ring=lambda table: queue.notices.append(Notice(table, str(next(receipts))))
    )


def _forget_received(right: Method, own: MemoryQueue) -> Sequence[Notice]:
    received, own.notices = right(), []
    return received


_BOTH: Final = Barrier(2)


def _acknowledge_unlocked(_: Method, own: MemoryQueue, notices: Sequence[Notice]) -> None:
    others = [notice for notice in own.notices if notice not in notices]
    try:
        _BOTH.wait(10)
    except BrokenBarrierError:
        _BOTH.reset()
    own.notices = others


def _of_tables(own: MemoryQueue, notices: Sequence[Notice]) -> Sequence[Notice]:
    """Return all notices of the tables of some."""
    tables = {notice.table for notice in notices}
    return [notice for notice in own.notices if notice.table in tables]


_queue = partial(mutate, MemoryQueue)
FORGETS_RECEIVED: Final = _queue("forgets notices when it returns them", receive=_forget_received)
QUEUES: Final[Mapping[str, type]] = {
    "a_notice_names_its_table": _queue(
        "leaves schemas out",
        receive=lambda right, _: [replace(one, table=one.table.split(".")[-1]) for one in right()],
    ),
    "an_empty_queue_returns_nothing": _queue(
        "returns notices of all tables if it has none",
        receive=lambda right, _: right() or [*map(Notice, queues.TABLES)],
    ),
    "an_open_queue_returns_later_notices": _queue(
        "always returns the first notices", receive=lambda right, own: vars(own).setdefault("first", right())
    ),
    "a_notice_stays_until_it_is_acknowledged": FORGETS_RECEIVED,
    "only_acknowledged_notices_are_forgotten": _queue(
        "forgets all with one", acknowledge=lambda _, own, notices: notices and own.notices.clear()
    ),
    "a_notice_that_comes_after_receive_stays": _queue(
        "forgets all of a table", acknowledge=lambda right, own, notices: right(_of_tables(own, notices))
    ),
    "a_notice_may_be_acknowledged_twice": _queue(
        "fails the second time", acknowledge=lambda _, own, notices: [*map(own.notices.remove, notices)]
    ),
    "threads_share_a_queue": _queue("puts back what another thread forgot", acknowledge=_acknowledge_unlocked),
    "a_returned_notice_is_received_at_once": _queue(
        "forgets what is returned", give_back=lambda _, own, notices: own.acknowledge(notices)
    ),
    "an_extended_notice_is_hidden_and_not_forgotten": _queue(
        "forgets what is extended", extend=lambda _, own, notices: own.acknowledge(notices)
    ),
}


@dataclass
class EntryStore:
    entries: dict[tuple[str, str], TableDescription] = field(default_factory=dict)
    writes: int = 0

    def find(self, identifier: tuple[str, str]) -> FoundEntry | None:
        entry = self.entries.get(identifier)
        if entry is None:
            return None
        return FoundEntry(location=entry.location, columns=[(one.name, one.comment or "") for one in entry.columns])


@dataclass
class Registration:
    store: EntryStore

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        if len({(namespace.lower(), name.lower()) for namespace, name in tables}) < len(tables):
            raise ConfigError("two would be one", todo="Rename one.")

    def register(self, table: TableDescription) -> None:
        found = self.store.entries.get(table.identifier)
        if found is not None and found.location != table.location:
            raise ConfigError("the name is taken", todo="Take another.")
        if found != table:
            self.put(table)

    def put(self, table: TableDescription) -> None:
        self.store.entries[table.identifier] = table
        self.store.writes += 1


def registration_bench(kind: type[Registration]) -> RegistrationUnderTest:
    store = EntryStore()
    return RegistrationUnderTest(
        registration=kind(store),
        others=Registration(store),
        location="s3://lake/shop",
        format="delta",
        find=store.find,
        writes=lambda: store.writes,
    )


def _without_comments(table: TableDescription) -> TableDescription:
    return replace(table, columns=tuple(replace(one, comment=None) for one in table.columns))


def _add_columns(right: Method, own: Registration, table: TableDescription) -> None:
    before = own.store.entries.get(table.identifier, replace(table, columns=())).columns
    right(replace(table, columns=(*before, *[one for one in table.columns if one not in before])))


_registration = partial(mutate, Registration)
REGISTRATIONS: Final[Mapping[str, type]] = {
    "an_entry_is_found_with_the_columns_of_its_table": _registration(
        "has no comments", put=lambda right, _, table: right(_without_comments(table))
    ),
    "a_correct_entry_is_not_written_again": _registration(
        "writes always", register=lambda right, own, table: [right(table), own.put(table)]
    ),
    "an_entry_follows_its_table": _registration("adds columns, and drops none", put=_add_columns),
    "the_entry_of_another_table_is_not_changed": _registration(
        "replaces any entry", register=lambda _, own, table: own.put(table)
    ),
    "tables_that_would_share_an_entry_are_refused": _registration("checks nothing", check=skip),
}
