"""The errors that lakeward raises on purpose, by what the caller should do about them.

Each error says what is wrong, what was found, and what to do. The command line prints just that; `retryable`
decides between exit code 75 (try again) and 1 or 4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


class LakewardError(Exception):
    """The base class of lakeward's errors."""

    retryable = False

    def __init__(self, what: str, *, found: str | None = None, todo: str | None = None) -> None:
        super().__init__(what, found, todo)
        self.what = what
        self.found = found
        self.todo = todo

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.found, self.todo) if part)

    def __reduce__(self) -> tuple[object, ...]:
        """Make an error picklable, whatever arguments its class takes."""
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[LakewardError], args: tuple[object, ...], state: dict[str, object]) -> LakewardError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(LakewardError):
    """The settings are wrong: correct them and start again."""


class SetupError(LakewardError):
    """The machine lacks something, such as Java or a jar: install it and start again."""


class PluginError(LakewardError):
    """A plugin is missing, misnamed or incompatible."""


class CatalogueUnreachable(LakewardError):
    """The source's catalogue does not answer. The settings may be right."""


class SourceError(LakewardError):
    """A source cannot be read: for example a missing folder or a corrupt file."""


class TableError(LakewardError):
    """A table cannot be written: for example no permission, no space or another schema."""


class SchemaConflict(LakewardError):
    """The columns of a batch and of its table conflict; nothing of the batch was applied."""


class RepairError(LakewardError):
    """A quarantined row cannot be repaired like that: correct it and try again. Nothing was changed.

    `rows` are the wrong rows, each by the order of its object and its number, where the error names them.
    """

    def __init__(
        self,
        what: str,
        *,
        found: str | None = None,
        todo: str | None = None,
        rows: Collection[tuple[int, int]] = (),
    ) -> None:
        super().__init__(what, found=found, todo=todo)
        self.rows = frozenset(rows)


class QuarantineFull(LakewardError):
    """More rows of a batch cannot be applied than the tolerance allows; nothing of the batch was applied."""


class AlarmRaised(LakewardError):
    """The source shows what may be a loss, and a person must decide. `code` names the page of the alarm.

    `about` is what an operator accepts who continues all the same; an alarm without it cannot be accepted.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        found: str | None = None,
        todo: str | None = None,
        about: Sequence[str] = (),
    ) -> None:
        super().__init__(what, found=found, todo=todo)
        self.code = code
        self.about = tuple(about)


class ConservationError(LakewardError):
    """The counts of a batch do not add up, so it was not committed. This is a defect of lakeward."""


class CommitConflict(LakewardError):
    """Other writers kept committing to the table."""

    retryable = True


class LockedError(LakewardError):
    """Another process runs this pipeline, or took over its lease."""

    retryable = True


class StoreUnreachable(LakewardError):
    """The store of files or leases does not answer, or throttles requests. No fault of the settings is known."""

    retryable = True


class EngineLost(LakewardError):
    """The engine was ended from outside. The next run reads again what was not committed."""

    retryable = True


class EngineExhausted(EngineLost):
    """The engine ran out of memory. The next run would as well, unless it gets more."""

    retryable = False
