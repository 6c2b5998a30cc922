"""The embedded model of the first run: no key and no server, but a real stream and real tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import ConfigError, ModelNotFound, Overloaded, StreamCut
from gnomon.providers._play import Reply, Sleep, limited, middle_of_text, play
from gnomon.types.events import ProviderEvent
from gnomon.types.requests import Request

__all__ = ["DemoProvider"]

_MODELS = ("demo", "flaky", "slow")
_SLOW_DELAY_S = 0.06
_LONGEST_DELAY_S = 60
_MOST_REMEMBERED = 1_000


class DemoProvider(Provider):
    """A deterministic stand-in for a model, which says so.

    It calls the tools that fit the prompt and answers with what they say. `flaky`
    fails twice before it answers a request, first before anything is said and then
    in the middle of the text; `slow` takes about three seconds for a short answer.
    """

    name = "demo"

    def __init__(
        self, model: str | None = "demo", *, delay_s: float | None = None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.model = _known(model or "demo")
        if delay_s is not None and not (type(delay_s) in (int, float) and 0 <= delay_s < _LONGEST_DELAY_S):
            hint = f"a number of seconds below {_LONGEST_DELAY_S}"
            raise ConfigError("provider 'demo' cannot use this delay_s", hint=hint)
        if not callable(sleep):
            raise ConfigError("provider 'demo' takes sleep from code only, as a function")
        self._delay_s = delay_s
        self._sleep = sleep
        self._failures: dict[bytes, int] = {}

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        # Only who asks needs the mind; who makes an agent does not wait for it.
        from gnomon.providers._demo.mind import answer

        model = _known(request.model or self.model)
        reply = limited(answer(request), request)
        if model == "flaky":
            reply = self._failing(request, reply)
        playing = play(
            reply, request, provider=self.name, model=model, delay_s=self._delay(model), sleep=self._sleep
        )
        async with aclosing(playing) as events:
            async for event in events:
                yield event

    async def list_models(self) -> tuple[str, ...]:
        return _MODELS

    def _delay(self, model: str) -> float:
        if self._delay_s is not None:
            return self._delay_s
        return _SLOW_DELAY_S if model == "slow" else 0.0

    def _failing(self, request: Request, reply: Reply) -> Reply:
        """The reply with the failure that is due: each question fails twice, whoever else asks meanwhile."""
        question = msgspec.json.encode(request.messages)
        attempt = self._failures.pop(question, 0)
        if attempt == 2:
            return reply
        if len(self._failures) >= _MOST_REMEMBERED:
            self._failures.clear()
        self._failures[question] = attempt + 1
        if attempt == 0:
            error = Overloaded("the flaky demo model is busy", vendor="demo", hint="ask again")
            return msgspec.structs.replace(reply, error=error)
        cut = StreamCut("the flaky demo model broke off", vendor="demo", hint="ask again")
        return msgspec.structs.replace(reply, error=cut, error_after=middle_of_text(reply))


def _known(model: str) -> str:
    if model not in _MODELS:
        raise ModelNotFound(
            f"there is no model {model!r}", vendor="demo", hint=f"the models are {', '.join(_MODELS)}"
        )
    return model
