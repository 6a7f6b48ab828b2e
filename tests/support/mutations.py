"""Mistakes of adapters: each replaces methods of a correct class. Every law of a port must fail on its mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import pytest

from lakeward.core.errors import LakewardError

T = TypeVar("T")
Law: TypeAlias = Callable[[Any], None]
Method: TypeAlias = Callable[..., Any]
Change: TypeAlias = Callable[[pytest.MonkeyPatch], None]
"""A change of code while a test runs."""


FAILURES: Final = (AssertionError, LakewardError, ValueError, pytest.fail.Exception)
"""The errors with which a law may fail."""


def mutate(correct: type[T], mistake: str, **methods: Method) -> type[T]:
    """Return a subclass with other methods. `mistake` says what they do wrong, and is the name of the class.

    Each function gets the correct method, the object and the arguments: `put=lambda right, board, text: right("")`.
    """
    members = {name: _wrap(getattr(correct, name), method) for name, method in methods.items()}
    return type(mistake, (correct,), members)


def _wrap(right: Method, wrong: Method) -> Method:
    def method(self: object, *arguments: Any, **named: Any) -> Any:
        return wrong(partial(right, self), self, *arguments, **named)

    return method


def skip(*_: object) -> None:
    """Do nothing instead of a method."""


def first(act: Method) -> Method:
    """Return a method that does something else before the correct one."""

    def method(right: Method, own: object, *arguments: Any) -> Any:
        act(own, *arguments)
        return right(*arguments)

    return method


def change_result(change: Method) -> Method:
    """Return a method that changes the result of the correct one."""
    return lambda right, _, *arguments: change(right(*arguments))


def patched(owner: object, name: str, value: object) -> Change:
    """Return a change that replaces an attribute of a module or a class."""
    return lambda patch: patch.setattr(owner, name, value)


def wrapped(owner: object, name: str, wrong: Method) -> Change:
    """Return a change that replaces a function. `wrong` gets the correct one and the arguments."""
    right = getattr(owner, name)
    return patched(owner, name, lambda *arguments, **named: wrong(right, *arguments, **named))


@dataclass(frozen=True, eq=False)
class Break:
    """A mistake in the code of an adapter: what it does wrong, and the changes that make it."""

    mistake: str
    changes: Sequence[Change]

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        for change in self.changes:
            change(patch)

    @property
    def __name__(self) -> str:
        return self.mistake


def broken(mistake: str, *changes: Change) -> Break:
    return Break(mistake, changes)


@dataclass(frozen=True)
class PortMistakes:
    """Classes with mistakes, by the law of their port that must fail on each. `bench` makes what a law tests."""

    laws: Sequence[Law]
    correct: type
    bench: Callable[[Any], Any]
    by_law: Mapping[str, type]

    def check(self, law: Law) -> None:
        """Check that a law holds on the correct class, and fails on the one with its mistake."""
        law(self.bench(self.correct))
        bench = self.bench(self.by_law[law.__name__])
        with pytest.raises(FAILURES):
            law(bench)
