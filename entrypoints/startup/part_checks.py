"""Checks of a run before its first batch. They write nothing, and take no notice and no lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.shaping.column_rules import Hash
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.secret_masking import secret_names
from lakeward.entrypoints.startup import catalogue
from lakeward.entrypoints.startup.glue_checks import check_glue
from lakeward.entrypoints.startup.shapers import read_hash_key


@dataclass(frozen=True, slots=True)
class PartCheck:
    """Result of the check of one part: its outcome as text, and its error."""

    part: str
    outcome: str
    error: LakewardError | None = None


@dataclass(slots=True)
class PartChecks:
    """Checks the parts of a pipeline one by one.

    `configured` has the answers of the catalogue after its check. `tables` has the errors of single tables, except
    those that `configured` refuses. Without `asks`, parts are built from their settings, and no service is queried.
    """

    configured: Configuration
    asks: bool
    done: list[PartCheck] = field(default_factory=list)
    tables: dict[TableName, LakewardError] = field(default_factory=dict)

    def __call__(self) -> None:
        """Check all parts that the settings name; an error of one prevents no other check."""
        self._check_catalogue()
        container = Container(configured=self.configured)
        self._check_secrets(container)
        settings = self.configured.settings
        self._check("source", container.source, "read", lambda: self._look_at_source(container))
        self._check("tables", container.target, "read", lambda: self._ask_tables(container.target()))
        self._check("ledger", container.ledger, "read", lambda: self._ask_ledger(container.ledger()))
        if settings.queue.kind != "poll":
            self._check("queue", container.queue, "not queried: a received notice is hidden from other runs")
        if settings.lease is not None:
            self._check("lease", container.lease, "not queried: a query would take the lease")
        if settings.statistics is not None:
            self._check("statistics", container.statistics, "not queried until a table waits for a full load")
        if settings.registration is not None:
            self._check_registration(container)
        if settings.notify:
            self._check("notify", container.notifiers, "not queried: a check sends no notice")
        if any(self.configured.rules(name) for name in self.configured.tables):
            self.done.append(PartCheck("rules", "not checked: this needs Spark (`lakeward plan`)"))

    @property
    def is_fine(self) -> bool:
        """True if no part and no table has an error."""
        has_part_errors = any(check.error is not None for check in self.done)
        return not (self.configured.refused or self.tables or has_part_errors)

    @property
    def wrong_tables(self) -> Mapping[TableName, LakewardError]:
        """The errors of single tables."""
        return {**self.configured.refused, **self.tables}

    def _check(
        self, part: str, make: Callable[[], object], outcome: str, ask: Callable[[], None] | None = None
    ) -> None:
        with self._noting(part) as note:
            make()
            if ask is not None and self.asks:
                ask()
            note(outcome if ask is None or self.asks else "not queried")

    @contextmanager
    def _noting(self, part: str) -> Iterator[Callable[[str], None]]:
        """Store the result of a check: the outcome that the block passes to the yielded function, or its error."""
        outcome: list[str] = []
        try:
            yield outcome.append
        except LakewardError as error:
            self.done.append(PartCheck(part, "wrong", error))
        else:
            self.done.append(PartCheck(part, outcome[-1]))

    def _check_catalogue(self) -> None:
        if self.configured.settings.catalogue is None:
            return
        with self._noting("catalogue") as note:
            if self.asks:
                self.configured = catalogue.query(self.configured)
            else:
                Container(configured=self.configured).catalogue()
            note((self.configured.catalogue_answers.warnings or ["read"])[0] if self.asks else "not queried")

    def _check_secrets(self, container: Container) -> None:
        names = [*dict.fromkeys(secret_names(self.configured.content, [*container.registry().secrets]))]
        hashes = (rule for name in self.configured.tables for rule in self.configured.rules(name).columns)
        hash_keys = {rule.key for rule in hashes if isinstance(rule, Hash)}
        if not names or not self.asks:
            self.done += [PartCheck("secrets", "not read")] if names else []
            return
        read = container.runtime().secret
        before = len(self.done)
        for name in names:
            with self._noting("secrets") as note:
                if str(name) in hash_keys:
                    read_hash_key(str(name), read)
                else:
                    read(name)
                note("read")
        failed = [check for check in self.done[before:] if check.error is not None]
        self.done[before:] = failed or [PartCheck("secrets", f"read: {format_count(len(names), 'secret')}")]

    def _check_registration(self, container: Container) -> None:
        with self._noting("registration") as note:
            container.registration()
            check_glue(self.configured, container.target(), asks=self.asks)
            note("not queried: a check registers nothing")

    def _look_at_source(self, container: Container) -> None:
        landing = container.landing()
        if landing is not None:
            landing.tables()

    def _ask_tables(self, target: Any) -> None:
        """Read the state of each table; a retryable error is one of the lake, any other is one of the table."""
        for name in self.configured.tables:
            if name in self.configured.refused:
                continue
            try:
                target.table_state(self.configured.dimension(name))
            except LakewardError as error:
                if error.retryable:
                    raise
                self.tables[name] = error

    def _ask_ledger(self, ledger: Any) -> None:
        for name in self.configured.tables:
            ledger.account(str(name))
