"""A model that follows a script, for tests: it says what it is told to, and checks what it is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Self, TypeAlias, cast

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import ConfigError, GnomonError, ProviderError
from gnomon.providers import _shown
from gnomon.providers._play import Call, Reply, Sleep, play, spoken
from gnomon.types.events import Finish, ProviderEvent
from gnomon.types.messages import Message
from gnomon.types.requests import Request, StopReason, Usage

__all__ = ["Call", "Line", "Reply", "Script", "ScriptedProvider", "calls", "fails", "hallucinates", "says"]

Check: TypeAlias = Callable[[Request], object]


class Line(Reply, frozen=True, kw_only=True):
    """One turn of a script: what the model says, and what it must have been shown before."""

    made_up: bool = False
    checks: tuple[Check, ...] = ()

    def calling(self, tool: str, /, **arguments: object) -> Line:
        """The same, and one more tool call in the same message."""
        return msgspec.structs.replace(self, calls=(*self.calls, _call(tool, arguments)))

    def failing(self, error: ProviderError, *, after: int | None = None) -> Line:
        """The same, broken off by the error after that many events; before its end when not said."""
        return msgspec.structs.replace(self, error=error, error_after=_TO_THE_END if after is None else after)

    def expecting(
        self,
        *,
        text: str | None = None,
        result: str | None = None,
        system: str | None = None,
        tools: Iterable[str] | None = None,
        images: int | None = None,
        model: str | None = None,
        check: Check | None = None,
    ) -> Line:
        """The same, said only to a request that shows this; an `AssertionError` otherwise.

        `text` is found in the last user message, `result` in the tool results after
        it, `system` in the instructions; `tools` are all the names offered, `images`
        the number shown since the last user message. `check` is given the request,
        and raises or returns `False` when something is wrong with it.
        """
        asked: list[Check] = []
        if text is not None:
            asked.append(_shown.in_prompt(text))
        if result is not None:
            asked.append(_shown.in_results(result))
        if system is not None:
            asked.append(_shown.in_instructions(system))
        if tools is not None:
            asked.append(_shown.tools_are(tools))
        if images is not None:
            asked.append(_shown.images_are(images))
        if model is not None:
            asked.append(_shown.model_is(model))
        if check is not None:
            asked.append(_shown.passes(check))
        return msgspec.structs.replace(self, checks=(*self.checks, *asked))


_TO_THE_END = 1 << 62

_Answer: TypeAlias = str | Reply
_Function: TypeAlias = Callable[[Request], _Answer | Awaitable[_Answer]]
Script: TypeAlias = Sequence[_Answer | _Function] | _Answer | _Function
"""Turns in order, or the only one, or a function of the request; a turn may be such a function too."""


def says(
    text: str,
    *,
    thinking: str = "",
    signature: str | None = None,
    stop_reason: StopReason | None = None,
    usage: Usage | None = None,
) -> Line:
    """A turn in which the model says this."""
    return Line(text=text, thinking=thinking, signature=signature, stop_reason=stop_reason, usage=usage)


def calls(tool: str, /, **arguments: object) -> Line:
    """A turn in which the model calls a tool: `calls("weather", city="Rome")`."""
    return Line(calls=(_call(tool, arguments),))


def hallucinates(tool: str, /, **arguments: object) -> Line:
    """A turn in which the model calls a tool that it was not offered."""
    return Line(calls=(_call(tool, arguments),), made_up=True)


def fails(error: ProviderError) -> Line:
    """A turn in which the service fails before it says anything."""
    return Line(error=error)


class ScriptedProvider(Provider):
    """A model that says what a script tells it to, and insists on being asked properly.

    ```python
    provider = ScriptedProvider(
        [
            calls("weather", city="Rome").expecting(text="rain", tools=["weather"]),
            says("Take an umbrella.").expecting(result="heavy rain"),
        ]
    )
    ```

    Whatever the script says, it raises `AssertionError` when a call has no result,
    or two; when its own earlier messages come back changed, or not at all; when a
    turn calls a tool that is not offered; and when it is asked once too often.
    `verbatim=False` is for an agent that rewrites or leaves out what was said
    before, as compaction does.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        name: str = "scripted",
        model: str = "scripted",
        verbatim: bool = True,
        delay_s: float = 0.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if script is None:
            raise ConfigError(
                "the scripted provider has no script",
                hint='give it one: ScriptedProvider(["Hello."]), turn by turn',
            )
        self.name = name
        self.model = model
        self.requests: list[Request] = []
        if isinstance(script, str | Reply):
            script = (script,)
        self._function: _Function | None = script if callable(script) else None
        self._turns: tuple[_Answer | _Function, ...] = () if callable(script) else tuple(script)
        self._memory = _shown.Memory()
        self._verbatim = verbatim
        self._failure: AssertionError | None = None
        self._delay_s = delay_s
        self._sleep = sleep

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        model = request.model or self.model
        reply = await self._reply(request, len(self.requests))
        message = spoken(reply, request, provider=self.name, model=model)
        playing = play(
            reply, request, provider=self.name, model=model, delay_s=self._delay_s, sleep=self._sleep
        )
        async with aclosing(playing) as events:
            async for event in events:
                if type(event) is Finish:
                    self._memory.add(request.messages, message)
                yield event

    def assert_finished(self) -> None:
        """Fail when turns of the script are left, or when an earlier failure was swallowed."""
        if self._failure is not None:
            raise self._failure
        turns, asked = len(self._turns), len(self.requests)
        if asked < turns:
            raise AssertionError(f"the script has {turns} turns, and {asked} of them were asked for")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _reply(self, request: Request, number: int) -> Reply:
        """What the script has for this request, once the request has passed every check."""
        try:
            self._check_history(request.messages)
            reply = await self._turn(request, number)
            _check_line(reply, msgspec.structs.replace(request, model=request.model or self.model))
        except AssertionError as error:
            failure = AssertionError(f"turn {number} of the script: {error}")
            self._failure = self._failure or failure
            raise failure from error
        return reply

    def _check_history(self, messages: tuple[Message, ...]) -> None:
        known = self._memory.known(messages)
        _shown.check_messages(messages, start=max(0, known - 1))
        if self._verbatim and not known:
            self._memory.check(messages)

    async def _turn(self, request: Request, number: int) -> Reply:
        turn = self._function
        if turn is None:
            if number > len(self._turns):
                raise AssertionError(f"there are only {len(self._turns)} turns; {_shown.last_of(request)}")
            turn = self._turns[number - 1]
        answer: object = await _called(turn, request) if callable(turn) else turn
        if isinstance(answer, str):
            return Line(text=answer)
        if not isinstance(answer, Reply):
            raise AssertionError(f"a turn is text or a Reply, not {type(answer).__name__}")
        return answer


def _call(tool: str, arguments: dict[str, object]) -> Call:
    return Call(tool, msgspec.json.encode(arguments).decode())


async def _called(function: Callable[[Request], object], request: Request) -> object:
    """What a function of the script gives; its bugs fail the test as what they are."""
    try:
        answer = function(request)
        return await cast("Awaitable[object]", answer) if isinstance(answer, Awaitable) else answer
    except (GnomonError, AssertionError):
        raise
    except Exception as error:
        raise AssertionError(f"its function raised {type(error).__name__}: {error}") from error


def _check_line(reply: Reply, request: Request) -> None:
    if not (isinstance(reply, Line) and reply.made_up):
        _shown.check_calls([call.name for call in reply.calls], request)
    for check in reply.checks if isinstance(reply, Line) else ():
        check(request)
