"""What a run asks beside sources and tables: whose turn it is, what waits, what is known, what is secret."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState
from lakeward.core.reporting.notices import RunNotice
from lakeward.core.settings.secrets import Secret

EXTEND_EVERY: Final = 10.0
"""Seconds between two times that notices in work are extended: a queue hides them for several times as long."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Word that a table may have something new; `receipt` is the queue's own, and may be empty."""

    table: str
    receipt: str = ""


class Queue(Protocol):
    """Tables that may have something new. It is a hint: it may lose, repeat and reorder its notices.

    A notice that was received may be hidden from others for a while; who works on its table keeps it hidden with
    `extend`, every `EXTEND_EVERY` seconds. It is acknowledged after the commit that contains its changes.
    """

    def receive(self) -> Sequence[Notice]:
        """Return the notices that wait, and wait for none; what was received and is still hidden is left out."""
        ...

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget notices whose changes are committed."""
        ...

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Let others receive notices at once whose table failed, or was not begun."""
        ...

    def extend(self, notices: Sequence[Notice]) -> None:
        """Keep notices hidden for as long as when they were received, from now on."""
        ...


class Ledger(Protocol):
    """What is known of every object of a pipeline's tables. It is not the truth: a table can do without."""

    def account(self, table: str) -> Account:
        """Return what is known of a table as a whole; nothing is written."""
        ...

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Return the objects of a table in these states, or in any, in order; nothing is written.

        With `names` they are those of these names alone, at the cost of these.
        """
        ...

    def write(self, table: str, notes: Notes) -> None:
        """Write notes of a table, all or none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """For how long somebody has a lease: until a time of his own clock, in microseconds since 1970.

    `owner` is a text that is nobody else's; where the lease was taken away by hand it is empty. `fence` is
    greater than that of every term that another had before, and stays while the term is made longer.
    """

    lease: str
    owner: str
    until: int
    fence: int


class Lease(Protocol):
    """Whose turn it is, on whatever machine: one owner at a time, until his term is over or given back.

    It spares work and is no fence: who was stopped for longer than his term finds out by the commit.
    Raises ConfigError where it cannot be asked as it is, StoreUnreachable where it does not answer.
    """

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a term of this owner, or that of another who has it: his clock may say that it is not over."""
        ...

    def renew(self, term: LeaseGrant) -> LeaseGrant:
        """Return the term made longer; one with another fence where somebody has taken it since."""
        ...

    def give_back(self, term: LeaseGrant) -> None:
        """Let others have it at once; a term that somebody has taken since is left alone."""
        ...


class Secrets(Protocol):
    """Where secrets are: the environment, files, a store of a platform."""

    def read(self, name: str) -> Secret:
        """Return a secret by its name there; raises ConfigError where it is not, and never shows one."""
        ...


class Notifier(Protocol):
    """Where people are told what a run has found: a log, a topic, a hook of a chat.

    It is told at most one notice a run, and no notice twice that it took; what it raises fails no run.
    """

    def send(self, notice: RunNotice) -> None:
        """Hand a notice on, and wait for nobody to read it.

        Raises StoreUnreachable where nothing answers, ConfigError where it is refused; no error shows a secret.
        """
        ...
