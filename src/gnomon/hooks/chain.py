"""Several hooks as one: an onion around each step."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Protocol, TypeAlias, cast, final, get_args

from gnomon._begun import Bounded, BrokenOff, Overdue, is_meant_for_us, within
from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.errors import GnomonError, HookFailed
from gnomon.stream import PullStream
from gnomon.types.events import Done, QuestionAsked, RunEvent, ToolFinished
from gnomon.types.steps import HookEvent

__all__ = ["Chain", "hook_name"]

log = logging.getLogger("gnomon.hooks")

PATIENCE_S = 10.0
"""How long one that only looks may take. Whoever has to wait stands around the step."""


class _Look(Protocol):
    def __call__(self, event: HookEvent) -> CoroutineType[Any, Any, None]: ...


# Whatever a look gives is anybody's; `Any`, since a cast is a call, and these are what a hook costs.
_Looks: TypeAlias = tuple[tuple[Callable[[HookEvent], Any], Hook], ...]
_EVENTS = frozenset(get_args(RunEvent))
_ENDS: dict[str, tuple[type, ...]] = {"model": (Done,), "tool": (ToolFinished, QuestionAsked)}


def hook_name(hook: object) -> str:
    """What a hook is called where it has to be named."""
    given: object = getattr(hook, "name", None)
    return given if isinstance(given, str) and given else type(hook).__name__


@final
class Chain:
    """Hooks in their order: the first is the outermost, whose `after` runs last.

    What a hook that only looks raises is logged, and so is one that takes longer than `patience_s`; neither
    breaks the step. What one raises that stands around the step does, under its name.
    """

    def __init__(self, hooks: Sequence[Hook] = (), *, patience_s: float = PATIENCE_S) -> None:
        for hook in cast("Sequence[object]", hooks):
            if isinstance(hook, type) or not isinstance(hook, Hook):
                raise TypeError(f"a hook has the methods before and after; {hook!r} does not")
        self._hooks = tuple(hooks)
        self._befores: _Looks = tuple((hook.before, hook) for hook in hooks)
        self._afters: _Looks = tuple((hook.after, hook) for hook in reversed(hooks))
        self._arounds = tuple(hook for hook in hooks if isinstance(hook, SupportsAround))
        self._patience_s = patience_s
        self._reached = f"chain.{id(self)}"
        # Not methods that call another: what they cost is asked for six times a turn.
        self.before: _Look = partial(self._look, self._befores)
        self.after: _Look = partial(self._look, self._afters)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return self._hooks

    async def _look(self, looks: _Looks, event: HookEvent) -> None:
        """Let each look. Who is ended by one tells all others of an end, and no others of a beginning."""
        if looks is self._afters and self._reached in event.notes:
            looks = looks[len(looks) - cast(int, event.notes.pop(self._reached)) :]
        broken: BaseException | None = None
        left = iter(looks)
        for look, hook in left:
            try:
                work = look(event)
                if work.__class__ is CoroutineType:
                    # Nearly all are done at once, and then need no timer. This is what a hook costs, so it
                    # is begun by the one way that raises nothing at its end.
                    for waits_for in work.__await__():
                        work = Bounded(work, waits_for)
                        break
                    else:
                        continue
                await within(work, self._patience_s)
            except BaseException as error:  # noqa: BLE001 - a hook is anybody's code
                broken = self._ends_us(error, hook, event, is_before=looks is self._befores) or broken
                if broken is not None and looks is self._befores:
                    event.notes[self._reached] = len(looks) - len(tuple(left))  # these get their `after`
                    break
        if broken is not None:
            raise broken

    def _ends_us(
        self, error: BaseException, hook: Hook, event: HookEvent, *, is_before: bool
    ) -> BaseException | None:
        """The error, when it is to end whoever waits; any other is only told of."""
        place = hook_name(hook), f"{'before' if is_before else 'after'} of {event.kind} {event.name!r}"
        if isinstance(error, Overdue):
            log.warning("hook %r was given up: %s took over %gs", *place, self._patience_s)
        elif isinstance(error, Exception) or not is_meant_for_us(error):
            log.error("hook %r failed in %s", *place, exc_info=error)
        else:
            return error
        return None

    @property
    def is_around(self) -> bool:
        """Whether any of them stands around a step."""
        return bool(self._arounds)

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        step = call
        for hook in reversed(self._arounds):
            step = _Around(hook, step)
        return await step(event)

    async def close(self) -> None:
        """Let go of what the hooks hold. May be called twice."""
        for hook in reversed(self._hooks):
            close: object = getattr(hook, "close", None)
            if callable(close):
                try:
                    await within(cast("Awaitable[object]", close()), self._patience_s)
                except Exception:
                    log.exception("hook %r could not be closed", hook_name(hook))


class _Around:
    """One hook around the rest of the way."""

    def __init__(self, hook: SupportsAround, call: Step) -> None:
        self._hook = hook
        self._call = call
        self._given: PullStream[RunEvent] | None = None
        self._error: BaseException | None = None

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        name = hook_name(self._hook)
        try:
            # It may take its time, but not go on when the step is ended.
            stream = cast(object, await within(self._hook.around(event, self._inner), None))
        except (GnomonError, AssertionError):
            raise
        except Exception as error:
            if error is self._error:
                raise
            raise HookFailed(f"hook {name!r} failed around {event.name!r}: {_said(error)}") from error
        except BaseException as error:
            if is_meant_for_us(error):
                raise
            raise _ended(error, name, event) from error
        if stream is self._given and self._given is not None:
            return self._given  # untouched: an event costs nothing more
        if not isinstance(stream, PullStream):
            raise HookFailed(
                f"hook {name!r} gave {type(stream).__name__} around {event.name!r}, not a stream"
            )
        return _Named(cast("PullStream[RunEvent]", stream), name, event)

    async def _inner(self, event: HookEvent) -> PullStream[RunEvent]:
        try:
            self._given = await self._call(event)
        except Exception as error:
            self._error = error
            raise
        return self._given


class _Named(PullStream[RunEvent]):
    """The stream of a hook, which answers for it; closed before it was read, it closes that too."""

    def __init__(self, stream: PullStream[RunEvent], name: str, event: HookEvent) -> None:
        super().__init__(_checked(stream, name, event))
        self._behind = stream

    async def aclose(self) -> None:
        await super().aclose()
        await self._behind.aclose()


async def _checked(
    stream: PullStream[RunEvent], name: str, event: HookEvent
) -> AsyncGenerator[RunEvent, None]:
    """The events of a hook's own stream, which keep the promise of those of the step."""
    ends, is_over = _ENDS[event.kind], False
    async with stream:
        try:
            async for each in stream:
                if is_over or each.__class__ not in _EVENTS:
                    what = "more after the end" if is_over else f"{type(each).__name__}, which is no event,"
                    raise HookFailed(f"hook {name!r} gave {what} around {event.name!r}")
                is_over = isinstance(each, ends)
                yield each
        except (GnomonError, AssertionError):
            raise
        except Exception as error:
            raise HookFailed(f"hook {name!r} failed around {event.name!r}: {_said(error)}") from error
        except BaseException as error:
            if is_meant_for_us(error):
                raise
            raise _ended(error, name, event) from error
    if not is_over:
        raise HookFailed(f"hook {name!r} gave no {ends[0].__name__} at the end of {event.name!r}")


def _ended(error: BaseException, name: str, event: HookEvent) -> HookFailed:
    return HookFailed(f"hook {name!r} failed around {event.name!r}: {BrokenOff(error)}")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
