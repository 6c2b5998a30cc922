"""What every contract suite is made of.

A suite is a class whose checks are `async def test_…` methods. A back end runs
it by filling in `open`, in a class of its own:

    class TestAcme(ProviderContract):
        @asynccontextmanager
        async def open(self):
            yield AcmeProvider(key=self.key)

The pytest plugin that comes with Gnomon runs the checks, whatever else is
installed, each on an event loop of its own, within `limit_s`, and fails a check
that leaves a task or a socket behind. Nobody may change what a check means:
`known_gaps` is the one way to opt out, and it is visible.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Generic, NoReturn, TypeAlias, TypeVar, cast

from gnomon.testing._watch import open_sockets, sockets_left, tasks_left, where

__all__ = ["Contract", "SuiteRules", "expect", "expect_some", "skip"]

_T = TypeVar("_T")
_Gaps: TypeAlias = Mapping[object, object]

_GUARD = "test_no_check_is_overridden"


class SuiteRules:
    """What the pytest plugin asks of a suite; it finds them on the class, and so imports none of us."""

    def faults(self, suite: type[object]) -> list[str]:
        """Why a class may not run at all: overridden checks, and gaps that are none."""
        return [*_overrides(suite), *_false_gaps(suite)]

    def run(self, check: Callable[[], Awaitable[object]], limit_s: float) -> None:
        """One check, on an event loop of its own."""
        __tracebackhide__ = True
        # Not `asyncio.run`, which would also put away the loop that another plugin has set.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(_watched(check, limit_s))


class Contract(Generic[_T]):
    """The suite of a contract: fill in `open`, and every check runs on what it gives."""

    __gnomon_contract__: ClassVar[SuiteRules] = SuiteRules()
    __checks__: ClassVar[Mapping[str, object]] = {}

    limit_s: ClassVar[float] = 60.0
    """How long a check may take."""

    known_gaps: ClassVar[Mapping[str, str]] = {}
    """`{"test_name": "why"}`: checks that this back end is known to fail, until it does not."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__checks__ = _written_in(cls)

    def open(self) -> AbstractAsyncContextManager[_T]:
        """A fresh back end, ready to use, closed when the block is left."""
        raise NotImplementedError(
            f"{type(self).__name__} does not fill in open(): it is an async context manager "
            "that gives the back end to check"
        )

    async def test_no_check_is_overridden(self) -> None:
        """A promise is tested once, for everybody, in the same way."""
        expect("overridden checks", [], list(_overrides(type(self))))


def expect(what: str, expected: object, found: object) -> None:
    """Fail, in a sentence that says what was expected and what was found, unless they are equal."""
    __tracebackhide__ = True
    if expected != found:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def expect_some(what: str, found: object) -> None:
    """Fail when there is nothing."""
    __tracebackhide__ = True
    if not found:
        raise AssertionError(f"{what}: expected some, found {found!r}")


def skip(suite: object, power: str) -> NoReturn:
    """Skip a check, visibly, for want of an optional power."""
    from unittest import SkipTest  # not pytest: the kit may be imported without it

    raise SkipTest(f"{type(suite).__name__} does not offer {power}")


# --- which checks there are ---------------------------------------------------


def _written_in(suite: type[object]) -> dict[str, object]:
    return {name: value for name, value in vars(suite).items() if name.startswith("test_")}


# The class that nobody's `__init_subclass__` is called for.
Contract.__checks__ = _written_in(Contract)


def _checks(suite: type[object]) -> dict[str, type[Contract[object]]]:
    """Each check and the class that wrote it first."""
    found: dict[str, type[Contract[object]]] = {}
    for cls in reversed(suite.__mro__):
        if issubclass(cls, Contract):
            author = cast("type[Contract[object]]", cls)
            found |= {name: author for name in author.__checks__ if name not in found}
    return found


def _overrides(suite: type[object]) -> list[str]:
    found: list[str] = []
    for name, author in _checks(suite).items():
        if inspect.getattr_static(suite, name, None) is not author.__checks__[name]:
            found.append(_override(suite, name, author))
    return found


def _override(suite: type[object], name: str, author: type[object]) -> str:
    culprit = next((cls for cls in suite.__mro__ if name in vars(cls)), author)
    through = "" if culprit is suite else f" through {culprit.__name__}"
    return (
        f"{suite.__name__} overrides the check {author.__name__}.{name}{through}: "
        f"a check means the same for everybody. Remove the override; "
        f'what cannot be kept yet goes into known_gaps = {{"{name}": "why"}}'
    )


def _false_gaps(suite: type[object]) -> list[str]:
    gaps: object = getattr(suite, "known_gaps", {})
    if not isinstance(gaps, Mapping):
        return [f"{suite.__name__}.known_gaps maps the name of a check to a reason; {gaps!r} was found"]
    checks = _checks(suite)
    faults = {name: _false_gap(name, why, checks) for name, why in cast(_Gaps, gaps).items()}
    return [f"{suite.__name__}.known_gaps[{name!r}]: {fault}" for name, fault in faults.items() if fault]


def _false_gap(name: object, why: object, checks: Mapping[str, type[object]]) -> str:
    if name not in checks:
        return f"there is no such check; there are {', '.join(sorted(checks))}"
    if name == _GUARD:
        return "this check has no gaps: it keeps the others what they are"
    if not isinstance(why, str) or not why.strip():
        return f"a reason is needed, {why!r} was found"
    return ""


# --- how one is run -----------------------------------------------------------


async def _watched(check: Callable[[], Awaitable[object]], limit_s: float) -> None:
    sockets = open_sockets()
    await _within(check, limit_s)
    left = [*await tasks_left(), *await sockets_left(sockets)]
    expect("left behind by the check", [], left)


async def _within(check: Callable[[], Awaitable[object]], limit_s: float) -> None:
    task = asyncio.ensure_future(check())
    await asyncio.wait({task}, timeout=limit_s)
    if not task.done():
        place = where(task)
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        raise TimeoutError(f"the check took longer than limit_s = {limit_s}: it was waiting at {place}")
    task.result()
