"""Contracts: laws as pytest test classes, and the report of which laws were run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random, SystemRandom
from typing import Any, Final, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakeward.core.errors import PluginError
from lakeward.core.text.suggestions import nearest
from lakeward.plugins.testing.bench import Bench, Law, Trial
from lakeward.plugins.testing.laws.tables.random_histories import LAWS

P = TypeVar("P")
_SEEDS: Final = st.integers(0, 2**32)


def table_contract(
    make: Callable[..., Bench], *, laws: Iterable[str] | None = None, cases: Collection[str] | None = None
) -> type:
    """Return a test class with the laws of a table format.

    `make` returns a bench whose lake is empty. Its parameters are pytest fixtures. It is called for each table that
    a law needs, so make folders with `tmp_path_factory`. `laws` and `cases` limit the class to these names. Raises
    PluginError for an unknown name of a law.
    """
    every = {law.name: law for law in LAWS}
    chosen = [every[name] for name in _selected_names(list(every), laws)]
    members: dict[str, Any] = {"make_bench": _fixture(make), "laws": tuple(law.name for law in chosen)}
    for law in chosen:
        members[f"test_{law.name}"] = _test_of(law if cases is None else law.in_cases(cases))
    return type("TableContract", (), {"__doc__": "The laws of a table.", **members})


class Closed(Exception):
    """Raised by a check of a port that needs something which the bench lacks. The message names it."""


def port_contract(words: str, make: Callable[..., P], checks: Sequence[Callable[[P], None]]) -> type:
    """Return a test class that runs `checks` on the result of `make`, whose parameters are pytest fixtures."""
    laws = tuple(check.__name__ for check in checks)
    members: dict[str, Any] = {"make_bench": _fixture(make), "laws": laws}
    for check in checks:
        members[f"test_{check.__name__}"] = _test_of_port(check)
    return type("PortContract", (), {"__doc__": words, **members})


def _test_of_port(check: Callable[[P], None]) -> Callable[..., None]:
    def test(self: object, make_bench: Callable[[], P], request: pytest.FixtureRequest) -> None:
        _Report.of(request.config)
        request.node.user_properties.append((_LAW, check.__name__))
        try:
            check(make_bench())
        except Closed as closed:
            _close(request, str(closed))

    test.__name__, test.__doc__ = f"test_{check.__name__}", check.__doc__
    return test


def _selected_names(names: Sequence[str], wanted: Iterable[str] | None) -> Sequence[str]:
    """Return the wanted names in the order of `names`. Raises PluginError for unknown names."""
    if wanted is None:
        return names
    wanted = set(wanted)
    unknown = sorted(wanted - set(names))
    if unknown:
        hints = " ".join(filter(None, (nearest(name, names) for name in unknown)))
        raise PluginError(
            f"there is no law {', '.join(unknown)}. {hints}".rstrip(),
            found=f"there are {', '.join(names)}",
            todo="`lakeward.plugins.testing.LAWS` has them all.",
        )
    return [name for name in names if name in wanted]


def _fixture(make: Callable[..., P]) -> Any:
    """Return a fixture with the parameters of `make`."""
    wanted = [one for one in inspect.signature(make).parameters.values() if one.default is inspect.Parameter.empty]

    def make_bench(self: object, request: pytest.FixtureRequest, **given: Any) -> Callable[[], P]:
        return partial(make, **given)

    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "request")]
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in wanted]
    make_bench.__signature__ = inspect.Signature([*own, *named])  # type: ignore[attr-defined]
    return pytest.fixture(make_bench)


def _test_of(law: Law) -> Callable[..., None]:
    """Return the test method of a law, parametrized by its cases if it has some."""

    def of_a_case(self: object, make_bench: Callable[[], Bench], request: pytest.FixtureRequest, case: str) -> None:
        _hold(law, make_bench, request, case)

    def alone(self: object, make_bench: Callable[[], Bench], request: pytest.FixtureRequest) -> None:
        _hold(law, make_bench, request, None)

    test = pytest.mark.parametrize("case", law.cases)(of_a_case) if law.cases else alone
    test.__name__, test.__doc__ = f"test_{law.name}", law.statement
    return test


def _hold(law: Law, make: Callable[[], Bench], request: pytest.FixtureRequest, case: str | None) -> None:
    """Try a law or one of its cases. Skip the test if the bench lacks something that it needs."""
    _Report.of(request.config)
    bench = make()
    request.node.user_properties.append((_LAW, law.name))
    closed = law.closed_by(bench.can)
    if closed:
        _close(request, ", ".join(closed))
    closed = law.closed_by(bench.can, case)
    if closed:
        request.node.user_properties.append((_CASE, case))
        _close(request, ", ".join(closed))
    try_law(law, make, None if case is None else law.cases[case])


def _close(request: pytest.FixtureRequest, by: str) -> NoReturn:
    request.node.user_properties.append((_CLOSED, by))
    pytest.skip(f"closed by {by}")


def try_law(law: Law, make: Callable[[], Bench], case: Any = None) -> None:
    """Try a law on as many benches as it needs. Raises AssertionError with the seed of the failing try."""
    bench = make()

    def holds(seed: int) -> None:
        law.check(Trial(law=law, make=make, bench=make(), random=Random(seed), case=case))

    tries = law.tries(bench)
    if tries == 1:
        _once(holds)
        return
    holds.__name__ = law.name  # hypothesis draws other seeds for another name
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    phases = [Phase.explicit, Phase.reuse, Phase.generate]  # a smaller seed is no smaller history
    given(seed=_SEEDS)(
        settings(max_examples=tries, deadline=None, phases=phases, suppress_health_check=quiet)(holds)
    )()


def _once(holds: Callable[[int], None]) -> None:
    """Try once, with seed 0 if the hypothesis profile is derandomized, else with a random seed."""
    seed = 0 if settings().derandomize else SystemRandom().randrange(2**32)
    try:
        holds(seed)
    except Exception as error:
        error.add_note(f"seed={seed}")
        raise


_LAW: Final = "lakeward law"
_CASE: Final = "lakeward closed case"
_CLOSED: Final = "lakeward closed by"


class _Report:
    """A pytest plugin that reports at the end of a session which laws held, failed and were closed, by class."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, tuple[str, str]]] = {}
        self.cases: dict[str, dict[str, list[tuple[str, str]]]] = {}

    @classmethod
    def of(cls, config: pytest.Config) -> None:
        """Register the report if the session has none yet."""
        if not config.pluginmanager.has_plugin(cls.__name__):
            config.pluginmanager.register(cls(), cls.__name__)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a law. The worst outcome of its cases counts."""
        properties = dict(report.user_properties)
        if report.when == "call" and _LAW in properties:
            where, law, by = (
                report.nodeid.rsplit("::", 1)[0],
                str(properties[_LAW]),
                str(properties.get(_CLOSED, "")),
            )
            laws, outcome = self.outcomes.setdefault(where, {}), (report.outcome, by)
            laws[law] = min(outcome, laws.get(law, outcome))
            if _CASE in properties:
                self.cases.setdefault(where, {}).setdefault(law, []).append((by, f"{law}[{properties[_CASE]}]"))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the report."""
        terminalreporter.section("laws of lakeward")
        for where, laws in self.outcomes.items():
            for line in self.lines(where, laws, self.cases.get(where, {})):
                terminalreporter.write_line(line)

    def lines(
        self, where: str, laws: Mapping[str, tuple[str, str]], cases: Mapping[str, Sequence[tuple[str, str]]]
    ) -> Iterator[str]:
        """Return the lines of the report of one class, with the closed laws and the closed cases of others."""
        outcomes = [outcome for outcome, _ in laws.values()]
        held, failed = outcomes.count("passed"), outcomes.count("failed")
        closed = [(by, law) for law, (_, by) in laws.items() if by]
        yield f"{where}: {held} held, {failed} failed, {len(closed)} closed"
        named = [one for one in closed if one[1] not in cases] + [one for of in cases.values() for one in of]
        yield from (f"  not run, for want of {by}: {law}" for by, law in sorted(named))
