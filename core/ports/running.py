"""Ports of a run: queue, ledger, lease, secrets and notifiers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakeward.core.ledger.objects import Account, Notes, ObjectRecord, ObjectState
from lakeward.core.reporting.notices import RunNotice
from lakeward.core.settings.secrets import Secret

EXTEND_EVERY: Final = 10.0
"""Seconds between two calls of `Queue.extend`. A queue must hide received notices for several times as long."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message of a queue that a table may have something new.

    `receipt` is the queue's own mark of the message. It may be empty.
    """

    table: str
    receipt: str = ""


class Queue(Protocol):
    """A list of tables that may have something new. It is a hint: notices may be lost, repeated and reordered.

    A received notice may be hidden from other receivers for a while. While its table is worked on, `extend` is
    called every `EXTEND_EVERY` seconds to keep it hidden. It is acknowledged after the commit that has its changes.
    """

    def receive(self) -> Sequence[Notice]:
        """Return the notices that are there and not hidden, without waiting for new ones."""
        ...

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete notices whose changes are committed."""
        ...

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Make notices visible to other receivers at once, because their tables failed or were not begun."""
        ...

    def extend(self, notices: Sequence[Notice]) -> None:
        """Hide received notices again, from now on, for the time for which `receive` hides them."""
        ...


class Ledger(Protocol):
    """Records what became of each object of a pipeline's tables. It is not the truth: a table can do without it."""

    def account(self, table: str) -> Account:
        """Return what is known of a table as a whole. Writes nothing."""
        ...

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Return the objects of a table in order: those in `states`, or all if none is given. Writes nothing.

        With `names`, only these objects are returned, at a cost that depends on their number alone.
        """
        ...

    def write(self, table: str, notes: Notes) -> None:
        """Write the notes of a table atomically."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """A lease that an owner holds until a time of its own clock, in microseconds since 1970.

    `owner` is a unique text; it is empty if an operator removed the lease. `fence` is greater than that of every
    grant that another owner had before, and does not change when the grant is renewed.
    """

    lease: str
    owner: str
    until: int
    fence: int


class Lease(Protocol):
    """A right to run a pipeline. One owner at a time has it, on any machine, until its grant ends or is given back.

    It saves work and does not fence: an owner that was suspended for longer than its grant finds out by the
    conflict of its commit. Methods raise ConfigError if the lease is set up wrongly, and StoreUnreachable if its
    store does not answer.
    """

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a grant of this owner, or the grant of another owner that has not ended by that owner's clock."""
        ...

    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        """Return the grant with a later end.

        If another owner has taken the lease since, return that owner's grant, which has another `fence`.
        """
        ...

    def give_back(self, grant: LeaseGrant) -> None:
        """End a grant, so that others can take the lease at once.

        Does nothing if another owner has taken the lease since.
        """
        ...


class Secrets(Protocol):
    """A place of secrets: the environment, files, or the store of a platform."""

    def read(self, name: str) -> Secret:
        """Return a secret by its name. Raises ConfigError if it does not exist. No error shows a secret."""
        ...


class Notifier(Protocol):
    """Tells people what a run found, by a log, a topic or a webhook.

    It gets at most one notice a run, and not the same notice twice once it has accepted it. Its errors fail no run.
    """

    def send(self, notice: RunNotice) -> None:
        """Deliver a notice without waiting for anybody to read it.

        Raises StoreUnreachable if nothing answers, and ConfigError if the notice is refused. No error shows a
        secret.
        """
        ...
