"""Everything lakeward raises on purpose, by what the caller should do about it.

Each error says what is wrong, what was found, and what to do. The command line prints
just that; `retryable` decides between exit code 75 (try again) and 1 or 4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


class LakewardError(Exception):
    """The root of lakeward's errors."""

    retryable = False

    def __init__(self, what: str, *, found: str | None = None, todo: str | None = None) -> None:
        super().__init__(what, found, todo)
        self.what = what
        self.found = found
        self.todo = todo

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.found, self.todo) if part)

    def __reduce__(self) -> tuple[object, ...]:
        """Let an error pass from one process to another, whatever its class is made with."""
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[LakewardError], args: tuple[object, ...], state: dict[str, object]) -> LakewardError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(LakewardError):
    """The settings are wrong: mend them and start again."""


class SetupError(LakewardError):
    """The machine lacks something, such as Java or a jar: install it and start again."""


class PluginError(LakewardError):
    """A plugin is missing, misnamed or incompatible."""


class CatalogueUnreachable(LakewardError):
    """The source's catalogue does not answer; nothing is wrong with the settings that can be seen."""


class SourceError(LakewardError):
    """A source cannot be read as it is: a missing folder, a corrupt file."""


class TableError(LakewardError):
    """A table cannot be written as it is: no permission, no space, another schema."""


class SchemaConflict(LakewardError):
    """A batch and its table disagree about columns; nothing of the batch was applied."""


class RepairError(LakewardError):
    """A row in quarantine cannot be mended like that: correct it and try again. Nothing was changed.

    `rows` are the rows that are wrong, each by the order of its object and its number, where the error names them.
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
    """More of a batch cannot be applied than a person could look through; nothing of it was applied."""


class AlarmRaised(LakewardError):
    """What the source shows may mean loss: a person decides. `code` names the alarm's page.

    `about` is what an operator lets pass who goes on all the same; of an alarm without it nobody can.
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
    """The counts of a batch do not add up, so it was not committed: a defect of lakeward."""


class CommitConflict(LakewardError):
    """Another writer kept committing to the table in between."""

    retryable = True


class LockedError(LakewardError):
    """Another process runs this pipeline, or took the place of this one while it slept."""

    retryable = True


class StoreUnreachable(LakewardError):
    """Where files or leases lie does not answer, or asks to be left alone for now; nothing is seen to be wrong."""

    retryable = True


class EngineLost(LakewardError):
    """What carries out the work was ended from outside; what was not committed is read again by the next run."""

    retryable = True


class EngineExhausted(EngineLost):
    """It ran out of memory, and so would the next run that has no more."""

    retryable = False
