"""The judges can say no: each planted fault is found, and what is sound is not blamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest
from switch_ends import ENDS, End
from switch_histories import COMPOSITE, made_by
from switch_judges import judged
from switch_stage import Asked, on_stage

from gnomon.contracts.provider import Provider
from gnomon.types.events import ProviderEvent, StreamWarning
from gnomon.types.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Request

SOURCE = ENDS["anthropic"]  # its thinking is signed
TARGETS = ("openai", "openai by chat", "gemini", "mistral", "azure", "litellm")
"""One of each form that takes images and tools; Anthropic is tried with what OpenAI said."""

Change = Callable[[Request], Request]


class _Planted(Provider):
    """A provider with a fault: it sends another request than it was given, or its warnings are gone."""

    def __init__(self, sound: Provider, change: Change, *, silent: bool = False) -> None:
        self._sound = sound
        self._change = change
        self._silent = silent
        self.name, self.model = sound.name, sound.model

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        async for event in self._sound.events(self._change(request)):
            if not (self._silent and isinstance(event, StreamWarning)):
                yield event

    async def close(self) -> None:
        await self._sound.close()


async def _judged(source: End, target: End, change: Change, *, silent: bool = False) -> list[str]:
    history = await made_by(source, COMPOSITE)
    async with on_stage(target) as stage:
        stage.provider = _Planted(stage.provider, change, silent=silent)
        asked = await stage.ask(msgspec.structs.replace(history.request, model=target.model))
    return judged(asked, history, source, target)


# --- faults ---------------------------------------------------------------------------


def _each(request: Request, change: Callable[[Part], Part | None]) -> Request:
    """Every part of every message, and of every result, as it is changed; `None` leaves it out."""
    return msgspec.structs.replace(
        request,
        messages=tuple(
            msgspec.structs.replace(message, content=_changed(message.content, change))
            for message in request.messages
        ),
    )


def _changed(parts: tuple[Part, ...], change: Callable[[Part], Part | None]) -> tuple[Part, ...]:
    made: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            part = msgspec.structs.replace(part, content=_changed(part.content, change))
        if (new := change(part)) is not None:
            made.append(new)
    return tuple(made)


def _without_the_first_image(request: Request) -> Request:
    first = next(part for message in request.messages for part in message.images)
    return _each(request, lambda part: None if part is first else part)


def _without_images_of_tools(request: Request) -> Request:
    shown = [
        part for message in request.messages for result in message.tool_results for part in result.images
    ]
    return _each(request, lambda part: None if isinstance(part, Image) and part in shown else part)


def _another_image(request: Request) -> Request:
    """One byte is another: the hash tells."""
    first = next(part for message in request.messages for part in message.images if part.data)
    other = msgspec.structs.replace(first, data=(first.data or b"")[:-1] + b"\0")
    return _each(request, lambda part: other if part is first else part)


def _two_calls_under_one_id(request: Request) -> Request:
    turn = next(message for message in request.messages if len(message.tool_calls) > 1)
    first, second, *_ = (call.id for call in turn.tool_calls)

    def change(part: Part) -> Part:
        if isinstance(part, ToolCall) and part.id == second:
            return msgspec.structs.replace(part, id=first)
        if isinstance(part, ToolResult) and part.call_id == second:
            return msgspec.structs.replace(part, call_id=first)
        return part

    return _each(request, change)


def _results_of_one_another(request: Request) -> Request:
    """Two calls of one turn get the other's result."""
    turn = next(message for message in request.messages if len(message.tool_results) > 1)
    first, second, *_ = (result.call_id for result in turn.tool_results)
    swapped = {first: second, second: first}

    def change(part: Part) -> Part:
        if isinstance(part, ToolResult):
            return msgspec.structs.replace(part, call_id=swapped.get(part.call_id, part.call_id))
        return part

    return _each(request, change)


def _without_the_first_result(request: Request) -> Request:
    first = next(part for message in request.messages for part in message.tool_results)
    return _each(
        request, lambda part: None if isinstance(part, ToolResult) and part.call_id == first.call_id else part
    )


def _without_a_text_of_a_result(request: Request) -> Request:
    first = next(part for message in request.messages for part in message.tool_results)
    return _each(request, lambda part: None if part in first.content and isinstance(part, Text) else part)


def _other_arguments(request: Request) -> Request:
    def change(part: Part) -> Part:
        if isinstance(part, ToolCall) and not part.truncated:
            return msgspec.structs.replace(part, arguments='{"city": "Elsewhere"}')
        return part

    return _each(request, change)


def _without_the_system_text(request: Request) -> Request:
    return msgspec.structs.replace(request, system=None)


def _without_a_system_message(request: Request) -> Request:
    late = [message for message in request.messages if message.role == "system"][-1]
    return msgspec.structs.replace(
        request, messages=tuple(message for message in request.messages if message is not late)
    )


def _as_the_user(request: Request) -> Request:
    """What the model said, in the mouth of the user."""
    first = next(message for message in request.messages if message.role == "assistant" and message.text)
    said = Message.user(*(part for part in first.content if isinstance(part, Text)))
    rest = msgspec.structs.replace(
        first, content=tuple(part for part in first.content if not isinstance(part, Text))
    )
    messages = [
        one for message in request.messages for one in ((rest, said) if message is first else (message,))
    ]
    return msgspec.structs.replace(request, messages=tuple(messages))


def _without_the_last_words(request: Request) -> Request:
    return msgspec.structs.replace(request, messages=(*request.messages[:-1], Message.user("Go on.")))


_FAULTS: tuple[tuple[Change, str], ...] = (
    (_without_the_first_image, "Image"),
    (_without_images_of_tools, "Image"),
    (_another_image, "Image"),
    (_two_calls_under_one_id, "call"),
    (_results_of_one_another, "the result of"),
    (_without_the_first_result, "answered"),
    (_without_a_text_of_a_result, "the result of"),
    (_other_arguments, "arguments"),
    (_without_the_system_text, "system's text"),
    (_without_a_system_message, "system's text"),
    (_as_the_user, "assistant's text"),
    (_without_the_last_words, "user's text"),
)


@pytest.mark.parametrize("target", [*TARGETS, "anthropic"])
@pytest.mark.parametrize(("fault", "said"), _FAULTS, ids=[fault.__name__[1:] for fault, _ in _FAULTS])
async def test_a_planted_fault_is_found(fault: Change, said: str, target: str) -> None:
    source = ENDS["openai"] if target == "anthropic" else SOURCE
    wrong = await _judged(source, ENDS[target], fault)
    assert any(said in sentence for sentence in wrong), wrong


@pytest.mark.parametrize("target", [*TARGETS, "anthropic"])
async def test_a_sound_provider_is_not_blamed(target: str) -> None:
    source = ENDS["openai"] if target == "anthropic" else SOURCE
    assert await _judged(source, ENDS[target], lambda request: request) == []


# --- signatures -----------------------------------------------------------------------


def _signed_by_oneself(target: End) -> Change:
    """Every thought as if the one who is asked had had it."""

    def change(part: Part) -> Part:
        if isinstance(part, Thinking):
            return msgspec.structs.replace(part, provider=target.provider, model=target.model)
        return part

    return lambda request: _each(request, change)


@pytest.mark.parametrize("target", ["gemini", "mistral", "anthropic, an earlier model"])
async def test_a_foreign_signature_is_found(target: str) -> None:
    """These have a place for one, and so can send it on."""
    wrong = await _judged(SOURCE, ENDS[target], _signed_by_oneself(ENDS[target]))
    assert any("went to another" in sentence for sentence in wrong), wrong


@pytest.mark.parametrize("title", ["anthropic", "openai", "gemini", "openrouter"])
async def test_a_signature_that_does_not_return_is_found(title: str) -> None:
    end = ENDS[title]
    wrong = await _judged(end, end, _unsigned)
    assert any("did not return" in sentence for sentence in wrong), wrong


def _unsigned(request: Request) -> Request:
    return _each(request, lambda part: None if isinstance(part, Thinking) else part)


@pytest.mark.parametrize("target", ["openai", "openai by chat", "gemini", "mistral", "ollama", "litellm"])
async def test_thinking_that_is_dropped_in_silence_is_found(target: str) -> None:
    wrong = await _judged(SOURCE, ENDS[target], lambda request: request, silent=True)
    assert any("thought" in sentence for sentence in wrong), wrong


# --- what the service would refuse ----------------------------------------------------

_ROBOT: dict[str, dict[str, Any]] = {
    "openai": {"input": [{"role": "robot", "content": "beep"}]},
    "openai by chat": {"messages": [{"role": "robot", "content": "beep"}]},
    "azure": {"input": [{"role": "robot", "content": "beep"}]},
    "litellm": {"messages": [{"role": "robot", "content": "beep"}]},
    "anthropic": {"messages": [{"role": "robot", "content": "beep"}]},
    "gemini": {"contents": [{"role": "robot", "parts": [{"text": "beep"}]}]},
    "mistral": {"messages": [{"role": "robot", "content": "beep"}]},
    "ollama": {"messages": [{"role": "robot", "content": "beep"}]},
}


@pytest.mark.parametrize("title", _ROBOT)
async def test_a_role_that_there_is_not_is_found(title: str) -> None:
    assert any("not valid" in sentence for sentence in await _with_more(title, _ROBOT[title]))


@pytest.mark.parametrize("title", _ROBOT)
async def test_a_field_that_there_is_not_is_found(title: str) -> None:
    wrong = await _with_more(title, {"hologramme": True})
    assert any("not valid" in sentence for sentence in wrong), wrong


async def _with_more(title: str, more: dict[str, Any]) -> list[str]:
    """What is said of a request in which something else stands as well."""
    end = ENDS[title]
    history = await made_by(end, "text")
    async with on_stage(end) as stage:
        asked = await stage.ask(history.request)
    assert judged(asked, history, end, end) == []
    return judged(_more(asked, more), history, end, end)


def _more(asked: Asked, more: dict[str, Any]) -> Asked:
    assert asked.received is not None
    body: dict[str, Any] = msgspec.json.decode(asked.received.body)
    for name, value in more.items():
        body[name] = [*body[name], *value] if isinstance(value, list) else value
    received = msgspec.structs.replace(asked.received, body=msgspec.json.encode(body))
    return msgspec.structs.replace(asked, received=received)


async def test_a_request_that_is_refused_is_no_switch() -> None:
    asked = Asked(received=None, error=ValueError("no"))
    history = await made_by(SOURCE, "text")
    assert judged(asked, history, SOURCE, ENDS["openai"]) == ["nothing was sent: ValueError('no')"]
