"""Several providers as one: the next answers when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from gnomon import registry
from gnomon.contracts.provider import Provider
from gnomon.errors import ConfigError, GnomonError, ProviderError, StreamCut
from gnomon.providers._breaker import Breaker
from gnomon.providers._course import Course, Member, Policy
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    ProviderEvent,
    StreamWarning,
    Unknown,
    UsageUpdate,
)
from gnomon.types.requests import Request, Response, Spent, Usage, add_usage, spent

__all__ = ["FallbackProvider"]

_NOTED = frozenset({StreamWarning, Unknown, UsageUpdate, AttemptDiscarded})
"""What shows nobody anything, so that one can still start again in silence; or takes back what was shown."""

_LAST = frozenset({Finish, Done})


class FallbackProvider(Provider):
    """Asks the first provider, and the next when it fails.

    ```python
    Agent("fallback:anthropic,openai:gpt-5.5,ollama:qwen3")
    ```

    Each answers with its own model. What may pass (busy, too many requests, cut off, too slow) is
    tried again on the same provider, `retries` times, after a random part of `wait_s` that doubles,
    or after the time the service asks for, unless that is more than `most_wait_s`. What would
    not pass (no key, no such model, too long, no money) goes to the next at once. A refusal of what
    was asked is nobody else's business, and is raised.

    As long as nothing was shown this happens in silence; a warning of the answer says who failed.
    After that `AttemptDiscarded` says that the answer starts again. What failed attempts used is
    in `Response.discarded`, or in `spent` of the error.

    A provider that failed `failures` times in a row is left alone for `rest_s` seconds; then one
    request tries it, and what becomes of that decides. `settings` are those of the providers, by name.
    """

    name = "fallback"

    def __init__(
        self,
        *,
        model: str = "",
        providers: Sequence[Provider] = (),
        settings: Mapping[str, Mapping[str, object]] | None = None,
        retries: int = 1,
        wait_s: float = 0.5,
        most_wait_s: float = 20.0,
        failures: int = 3,
        rest_s: float = 30.0,
    ) -> None:
        _check(retries=retries, wait_s=wait_s, most_wait_s=most_wait_s, rest_s=rest_s)
        if failures < 1:
            raise ConfigError(f"failures of provider 'fallback' is 1 or more, not {failures}")
        members = tuple(providers) or _named(model, settings or {})
        self._policy = Policy(retries=retries, wait_s=wait_s, most_wait_s=most_wait_s)
        self._members = tuple(Member(member, Breaker(failures, rest_s)) for member in members)
        self.model = ",".join(member.name for member in self._members)

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The providers, in the order in which they are asked."""
        return tuple(member.provider for member in self._members)

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        course, told = Course(self._members, self._policy), _other_model(request, self.model)
        asked = msgspec.structs.replace(request, model=None)
        try:
            while True:
                attempt = _Attempt(course)
                try:
                    async with aclosing(course.member.provider.events(asked)) as source:
                        async for event in source:
                            # This is what a token costs: nearly all events are of a kind that is shown.
                            if event.__class__ in _NOTED and not attempt.is_due(event):
                                continue
                            if not attempt.shown:
                                attempt.shown = True
                                for earlier in (*told, *attempt.held):
                                    yield earlier
                                told = ()
                            yield attempt.signed(event) if event.__class__ in _LAST else event
                    attempt.expect_end()
                    return
                except (ProviderError, ConfigError) as error:
                    before, used = course.member, attempt.used(error)
                    wait_s = attempt.after(error)
                    if wait_s is None:
                        failure = course.failure(used)
                        raise failure from failure.__cause__
                    discarded = attempt.discarded(before, error, used)
                    if course.member is not before:
                        told = (*told, _switched(before, course.member, error))
                if discarded is not None:
                    yield discarded
                await asyncio.sleep(wait_s)
        finally:
            course.leave()

    async def close(self) -> None:
        """Let go of what each of them holds; one that cannot does not keep the others from it."""
        results = await asyncio.gather(
            *(member.provider.close() for member in self._members), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result


class _Attempt:
    """One request to one of the providers: what is held back of it, and what it has used."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._usage: Usage | None = None
        self._restarts = 0  # of its own, whose spend an `AttemptDiscarded` has told
        self._ended = False
        self.shown = False
        self.held: list[ProviderEvent] = []

    def is_due(self, event: ProviderEvent) -> bool:
        """Whether what nobody sees may go out already: it waits for something that is seen."""
        if isinstance(event, UsageUpdate):
            self._usage = event.usage
        elif isinstance(event, AttemptDiscarded):
            self._restarts += event.usage is not None or self._usage is not None
            self._usage = None
            return True
        if not self.shown:
            self.held.append(event)
        return self.shown

    def signed(self, final: ProviderEvent) -> ProviderEvent:
        """The last word, with the name of who said it and what was spent before."""
        if isinstance(final, Done):
            final = _as_finish(final.response, self._restarts)
        if not isinstance(final, Finish):
            return final
        self._ended = True
        self._course.succeeded()
        provider = self._course.member.provider
        return msgspec.structs.replace(
            final,
            provider=final.provider or provider.name,
            model=final.model or provider.model or None,
            discarded=(*self._course.spent, *final.discarded),
        )

    def expect_end(self) -> None:
        if not self._ended:
            name = self._course.member.provider.name
            raise StreamCut("the answer ended before it was complete", vendor=name)

    def used(self, error: GnomonError) -> tuple[Spent, ...]:
        """What no `AttemptDiscarded` has said. A member that falls back on others says it by its error."""
        if isinstance(error, ProviderError) and error.spent:
            return error.spent
        provider = self._course.member.provider
        return () if self._usage is None else (spent(self._usage, provider.name, provider.model or None),)

    def discarded(
        self, member: Member, error: GnomonError, used: tuple[Spent, ...]
    ) -> AttemptDiscarded | None:
        """What tells a reader to forget what was shown; what was not shown is noted as spent."""
        if not self.shown:
            self._course.spent += used
            return None
        self._course.spent += used[:-1]
        # Something was shown, so something was used: what nobody has reported is unknown, and not nothing.
        last = used[-1] if used else spent(Usage(), member.provider.name, member.provider.model or None)
        reason = f"{member.name} failed: {error.summary}"
        return AttemptDiscarded(reason, add_usage((last,)), last.provider, last.model)

    def after(self, error: ProviderError | ConfigError) -> float | None:
        """Seconds until the next attempt. An answer that was complete is not asked for again."""
        if self._ended:
            raise error
        return self._course.after(error)


def _as_finish(response: Response, restarts: int) -> Finish:
    """The end of an answer that came whole. What events have said of earlier attempts is not said again."""
    return Finish(
        stop_reason=response.stop_reason,
        id=response.id,
        raw_stop_reason=response.raw_stop_reason,
        usage=response.usage,
        model=response.model,
        provider=response.provider,
        discarded=response.discarded[restarts:],
    )


def _named(model: str, settings: Mapping[str, Mapping[str, object]]) -> tuple[Provider, ...]:
    names = [name.strip() for name in model.split(",") if name.strip()]
    if not names:
        raise ConfigError(
            "provider 'fallback' needs the models to fall back on",
            hint="write fallback:anthropic,openai:gpt-5.5",
        )
    return tuple(_member(name, settings) for name in names)


def _member(name: str, settings: Mapping[str, Mapping[str, object]]) -> Provider:
    provider = registry.parse_model(name).provider
    if provider == FallbackProvider.name:
        raise ConfigError(
            "a fallback does not stand inside another", hint="write all models behind one: fallback:a,b,c"
        )
    return registry.provider(name, settings.get(provider))


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{name} of provider 'fallback' is a number from zero on, not {value!r}")


def _other_model(request: Request, own: str) -> tuple[StreamWarning, ...]:
    if request.model in (None, "", own):
        return ()
    return (
        StreamWarning(
            f"fallback: each provider answers with its own model, and not with {request.model}", "model"
        ),
    )


def _switched(before: Member, after: Member, error: GnomonError) -> StreamWarning:
    return StreamWarning(f"{before.name} failed ({error.code}), so {after.name} is asked", "fallback")
