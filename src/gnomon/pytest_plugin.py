"""Runs contract suites under any pytest set-up.

A suite is known by the mark `__gnomon_contract__`, which also carries what is
needed to run it: pytest loads this file in every run of whoever has Gnomon
installed, and so it imports nothing of ours.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Protocol, cast

import pytest

_MARK = "__gnomon_contract__"
_GAP = "gnomon_known_gap"


class _Rules(Protocol):
    def faults(self, suite: type[object]) -> list[str]: ...
    def run(self, check: Callable[[], Awaitable[object]], limit_s: float) -> None: ...


class _Suite(Protocol):
    __name__: str
    known_gaps: Mapping[str, str]
    limit_s: float


def pytest_configure(config: pytest.Config) -> None:
    # Who registers last is called first: an async plugin or a conftest that runs
    # every coroutine does not take the checks away.
    config.pluginmanager.register(_Runner(), "gnomon-contract-checks")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(obj: object) -> Generator[None, object, object]:
    """Refuse a suite that was tampered with, before anything of it runs."""
    node = yield
    rules = _rules(obj) if isinstance(node, pytest.Class) else None
    if isinstance(node, pytest.Class) and rules and getattr(obj, "__test__", True):
        faults = [*rules.faults(node.obj), *_marked_away(node)]
        if faults:
            raise pytest.Collector.CollectError("\n".join(faults))
    return node


class _Runner:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        __tracebackhide__ = True
        rules = _rules(pyfuncitem.cls)
        if rules is None:
            return None
        suite, test = cast(_Suite, pyfuncitem.cls), _test(pyfuncitem)
        why = suite.known_gaps.get(pyfuncitem.originalname)
        if why is not None:
            pyfuncitem.user_properties.append((_GAP, why))
            name = f"{suite.__name__}.{pyfuncitem.originalname}"
            _expect_failure(lambda: _run(rules, suite, test, pyfuncitem.funcargs), name, why)
        elif inspect.iscoroutinefunction(test):
            _run(rules, suite, test, pyfuncitem.funcargs)
        else:
            return None
        return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Every known gap, with its reason, whatever the verbosity."""
    reports = cast("Iterable[pytest.TestReport]", terminalreporter.stats.get("xfailed", ()))
    gaps = [
        f"{report.nodeid}: {why}"
        for report in reports
        for name, why in report.user_properties
        if name == _GAP
    ]
    if gaps:
        terminalreporter.section("known gaps in contract suites")
        for gap in sorted(gaps):
            terminalreporter.line(gap)


def _rules(suite: object) -> _Rules | None:
    """The rules of a suite: those of the class furthest up, which no subclass replaces."""
    classes = suite.__mro__ if isinstance(suite, type) else ()
    return next((vars(cls)[_MARK] for cls in reversed(classes) if _MARK in vars(cls)), None)


def _marked_away(node: pytest.Class) -> Iterable[str]:
    if node.get_closest_marker("xfail"):
        yield f"{node.name} is marked xfail: name the checks in known_gaps, each with its reason, instead"


def _test(item: pytest.Function) -> Callable[..., object]:
    """What to run: a check as it was written, whatever another plugin has wrapped it in.

    A back end's own tests, beside the checks, stay with the plugin that has taken them.
    """
    name = item.originalname
    return item.obj if item.cls and name in vars(item.cls) else getattr(item.instance, name)


def _run(rules: _Rules, suite: _Suite, test: Callable[..., object], fixtures: Mapping[str, object]) -> None:
    __tracebackhide__ = True
    wanted = inspect.signature(test).parameters
    given = {name: value for name, value in fixtures.items() if name in wanted}
    if inspect.iscoroutinefunction(test):
        rules.run(lambda: test(**given), suite.limit_s)
    else:
        test(**given)


def _expect_failure(check: Callable[[], None], name: str, why: str) -> None:
    from unittest import SkipTest

    try:
        check()
    except SkipTest:
        raise
    except (Exception, pytest.fail.Exception):  # whatever the failure is, it was foretold
        pytest.xfail(f"known gap: {why}")
        raise  # with --runxfail the line above does nothing
    pytest.fail(
        f"stale gap: {name} passes now. Take it out of known_gaps (its reason was: {why})",
        pytrace=False,
    )
