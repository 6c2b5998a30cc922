"""What each provider carries, found out by asking it: a table of docs/providers.md.

A provider is given a request with the thing in it, and the body that it would send is looked at: the thing
is there, or it is there with a warning that says how, or it is not. What it reads is found out from the
replies in tests/wire. Nothing is sent, and the environment is left out of it.
"""

from __future__ import annotations

import os
import re
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast
from unittest.mock import patch

import msgspec

from gnomon import registry
from gnomon._sse import LineReader, SSEReader
from gnomon.errors import BadRequest
from gnomon.providers import local
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._local_process import Loaded
from gnomon.providers.openai import OpenAIProvider
from gnomon.stream import StreamFold
from gnomon.testing import Wire
from gnomon.testing._fixtures import Fixture
from gnomon.types.events import Finish
from gnomon.types.messages import Audio, File, Image, Message, Text, Thinking, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Reasoning, Request, Response, Usage

__all__ = ["COLUMNS", "NOTES", "Subject", "powers", "row", "subjects"]

WIRES = Path(__file__).resolve().parents[1] / "wire"
COLUMNS = (
    "provider",
    "text",
    "image",
    "audio",
    "file",
    "thinking",
    "tools",
    "parallel calls",
    "strict schema",
    "structured output",
    "usage",
)

_UNNAMED = "a-model"
NOTES = f"""\
Every provider was given a request with the thing in it. *Yes*: it went into the body as it was. *No*: it
was refused, or left out. Other words, or words in brackets, say how else it went, with a warning. A PNG, a
WAV and a PDF were given, by their bytes and by their address. *Thinking* can be asked for by effort or by a
budget in tokens, and what the model thought is *returned* to it with the next request. *Strict schema* is
that of a tool, which the vendor then keeps to. *Usage* names the classes that are read from the replies in
`tests/wire`, where those who speak Chat Completions by OpenAI's example share one set.

Models differ. Each provider was asked for its own choice of one, and where it has none, for `{_UNNAMED}`, of
which nothing is known; `azure` was told that this is a deployment of `openai`'s own choice, and `local` is a
model whose template has tools, and that takes images and audio."""

# What is not made of a request and a vendor's answer: these answer by themselves, or hand on to others.
_WITHOUT = frozenset({"demo", "fallback", "scripted"})
_SETTINGS: dict[str, dict[str, object]] = {
    "azure": {"base_model": signature(OpenAIProvider).parameters["model"].default}
}
# Providers with two ways to ask have a row for each; the second has a wire of its own.
_OTHER_WAYS: dict[str, dict[str, object]] = {"azure": {"api": "chat"}, "openai": {"api": "chat"}}
_WIRE_OF = {"local": "compatible"}

Ask: TypeAlias = Callable[[Request], Asked]


class Subject(NamedTuple):
    """Whom to ask: `ask` makes the body of a request; `replies` are what it may get."""

    title: str
    name: str
    model: str
    ask: Ask
    replies: Wire | None = None


@cache
def powers() -> tuple[tuple[str, ...], ...]:
    """A row for every provider that asks a vendor."""
    with subjects() as found:
        return tuple(row(subject) for subject in found)


def row(subject: Subject) -> tuple[str, ...]:
    ask = subject.ask
    text = _carried(ask, _said(Text(_MARK)), _MARK)
    if text != "yes":
        raise AssertionError(f"{subject.title} does not even carry a text: {text}")
    return (
        subject.title,
        text,
        _media(ask, Image, _PNG, "png"),
        _media(ask, Audio, _WAV, "wav"),
        _media(ask, File, _PDF, "pdf"),
        _thinking(subject),
        _carried(ask, _TOOLS, "weather", "says-the-weather", "city"),
        _parallel(subject),
        "yes" if _is_strict(ask) else "no",
        _carried(ask, _said(Text("Hi"), output_schema=_object(_MARK)), _MARK),
        _usage(subject),
    )


# --- what goes out -------------------------------------------------------------------

_MARK = "probe-7391"
_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde"
_WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
_PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"
_BUDGET = 4321


def _said(*parts: Any, **settings: Any) -> Request:
    return Request(messages=(Message.user(*parts),), max_tokens=16_000, **settings)


def _object(*names: str) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


_WEATHER = ToolDef(name="weather", description="says-the-weather", schema=_object("city"))
_TOOLS = _said(Text("Hi"), tools=(_WEATHER,))


def _carried(ask: Ask, request: Request, *marks: str) -> str:
    """Whether all the marks are in the body: "yes", how else they went, or "no"."""
    try:
        asked = ask(request)
    except BadRequest:
        return "no"
    texts = [str(value) for value in _leaves(msgspec.json.decode(asked.body))]
    if not all(any(mark in text for text in texts) for mark in marks):
        return "no"
    return _how(asked) or "yes"


def _leaves(value: object) -> Iterator[object]:
    """Every name and every value of a body, however deep."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    else:
        yield value


_WAYS = (
    (re.compile("instructions"), "in the instructions"),
    (re.compile("budget.*(effort|level)"), "as an effort"),
    (re.compile("moved|another message|user message"), "moved"),
)


def _how(asked: Asked) -> str:
    """The warnings in a word or two; nothing when there are none."""
    said = [warning.message for warning in asked.warnings]
    found = dict.fromkeys(how for text in said for words, how in _WAYS if words.search(text))
    return ", ".join(found) or ("rewritten" if said else "")


def _listed(ways: Mapping[str, str]) -> str:
    """The ways that lead somewhere, each with its remark."""
    found = [way if how == "yes" else f"{way} ({how})" for way, how in ways.items() if how != "no"]
    return ", ".join(found) or "no"


def _media(ask: Ask, kind: type[Image | Audio | File], data: bytes, ending: str) -> str:
    url = f"https://example.org/{_MARK}.{ending}"
    by_bytes, by_url = _said(Text("Look"), kind(data=data)), _said(Text("Look"), kind(url=url))
    encoded = b64encode(data).decode()
    return _listed({"bytes": _carried(ask, by_bytes, encoded), "URL": _carried(ask, by_url, url)})


def _is_strict(ask: Ask) -> bool:
    return any(fields.get("strict") is True for fields in _objects(msgspec.json.decode(ask(_TOOLS).body)))


def _objects(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        yield fields
        value = list(fields.values())
    for inner in cast("list[object]", value) if isinstance(value, list) else ():
        yield from _objects(inner)


# --- thinking, and several calls: what goes out and what comes back --------------------------


def _thinking(subject: Subject) -> str:
    ask = subject.ask
    budget = _said(Text("Hi"), thinking=Reasoning(budget_tokens=_BUDGET))
    kept = _carried(ask, budget, str(_BUDGET))
    return _listed(
        {
            "effort": _noticed(ask, Reasoning(effort="high")),
            "budget": kept if kept != "no" else _noticed(ask, Reasoning(budget_tokens=_BUDGET)),
            "returned": _returned(subject),
        }
    )


def _noticed(ask: Ask, thinking: Reasoning) -> str:
    """Whether a wish to think changes anything."""
    try:
        asked = ask(_said(Text("Hi"), thinking=thinking))
    except BadRequest:
        return "no"
    return "no" if asked.body == ask(_said(Text("Hi"))).body else _how(asked) or "yes"


def _returned(subject: Subject) -> str:
    """What the model thought, in the reply that is called so, must stand in the next request."""
    response = _read(subject, "thinking")
    thoughts = [part for part in response.message.content if isinstance(part, Thinking)] if response else []
    if response is None or not thoughts:
        return "no"
    call = _call("Paris")
    said = Message.assistant(*response.message.content, call)
    history = (Message.user("Hi"), said, Message.tool(ToolResult.of(call, "18 degrees")))
    request = Request(messages=history, max_tokens=16_000, tools=(_WEATHER,))
    marks = [mark for part in thoughts for mark in (part.signature, part.redacted, part.text) if mark]
    found = [_carried(subject.ask, request, mark) for mark in marks]
    return next((how for how in found if how != "no"), "no")


def _parallel(subject: Subject) -> str:
    """Two calls in one answer are read, and go back with their results."""
    response = _read(subject, "tools")
    if response is None or len(response.tool_calls) < 2:
        return "no"
    calls = [_call("Paris"), _call("Vilna")]
    results = Message.tool(*(ToolResult.of(call, f"result of {call.id}") for call in calls))
    history = (Message.user("Hi"), Message.assistant(*calls), results)
    request = Request(messages=history, max_tokens=16_000, tools=(_WEATHER,))
    return _carried(subject.ask, request, "Paris", "Vilna", *(f"result of {call.id}" for call in calls))


def _call(city: str) -> ToolCall:
    """Under an id that no vendor finds odd: nine letters, as Mistral wants them."""
    return ToolCall(f"call{city}", "weather", f'{{"city": "{city}"}}')


# --- what comes in ---------------------------------------------------------------------


def _read(subject: Subject, name: str) -> Response | None:
    if subject.replies is None or name not in subject.replies:
        return None
    return _response(subject, subject.replies[name])


def _response(subject: Subject, fixture: Fixture) -> Response | None:
    """What the provider makes of a reply; it is a reply to the plainest of requests."""
    decoder = subject.ask(_said(Text("Hi"))).decoder
    fold = StreamFold()
    for event in _fed(decoder.feed, fixture, lambda: decoder.done):
        if isinstance(event, Finish):
            return fold.finish(event, provider=subject.name, model=subject.model)
        fold.add(event)
    for event in decoder.end():
        if isinstance(event, Finish):
            return fold.finish(event, provider=subject.name, model=subject.model)
        fold.add(event)
    return None


def _fed(feed: Callable[[bytes], Iterable[Any]], fixture: Fixture, done: Callable[[], bool]) -> Iterator[Any]:
    reader = SSEReader() if fixture.is_event_stream else LineReader()
    for data in reader.feed(fixture.body):
        if not done():
            yield from feed(data)


_CLASSES = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "reasoning_tokens": "reasoning",
}


def _usage(subject: Subject) -> str:
    if subject.replies is None:
        return ""
    read = [_response(subject, fixture) for fixture in subject.replies.answers() if fixture.is_stream]
    usages = [response.usage for response in read if response is not None]
    return ", ".join(word for name, word in _CLASSES.items() if _is_given(usages, name)) or "none"


def _is_given(usages: Iterable[Usage], name: str) -> bool:
    return any(getattr(usage, name) is not None for usage in usages)


# --- whom to ask -------------------------------------------------------------------------


@contextmanager
def subjects() -> Iterator[list[Subject]]:
    """Every provider of the registry that asks a vendor, made without looking at the environment."""
    with patch.dict(os.environ, clear=True), tempfile.TemporaryDirectory() as folder:
        found: list[Subject] = []
        for name in registry.names("providers"):
            kind = cast("type[Any]", registry.load("providers", name))
            if name not in _WITHOUT and kind.__module__.startswith("gnomon."):
                found += _ways_of(name, kind, Path(folder))
        yield found


def _ways_of(name: str, kind: type[Any], folder: Path) -> Iterator[Subject]:
    if kind is local.LocalProvider:
        yield _local(name, folder)
        return
    if not issubclass(kind, HTTPProvider):
        raise AssertionError(f"{name} is no HTTPProvider: say in {Path(__file__).name} how to ask it")
    yield _over_http(name, kind, f"`{name}`", _wire(kind), {})
    if name in _OTHER_WAYS:
        ((setting, value),) = _OTHER_WAYS[name].items()
        title = f'`{name}`, `{setting}="{value}"`'
        yield _over_http(name, kind, title, _wire_at(f"{name}_{value}"), _OTHER_WAYS[name])


def _over_http(
    name: str, kind: type[Any], title: str, replies: Wire | None, settings: Mapping[str, object]
) -> Subject:
    usual = signature(kind).parameters["model"].default
    model = usual if isinstance(usual, str) else _UNNAMED
    given = {"key": "none", "base_url": "http://127.0.0.1:9/v1", "model": model}
    provider = kind(**given, **_SETTINGS.get(name, {}), **settings)
    return Subject(title, name, model, provider._ask, replies)


def _local(name: str, folder: Path) -> Subject:
    """It reads no more of a file, here, than that it is one; nothing of llama.cpp need be installed."""
    weights = folder / f"{_UNNAMED}.gguf"
    weights.write_bytes(b"GGUF")
    with patch.object(local, "engine_installed", lambda: True):
        provider = local.LocalProvider(model=str(weights))
    loaded = Loaded(address="http://127.0.0.1:9", tools=True, images=True, audio=True)
    ask = partial(provider._ask, model=_UNNAMED, loaded=loaded, small=False)
    return Subject(f"`{name}`", name, _UNNAMED, ask, _wire_at(_WIRE_OF[name]))


def _wire(kind: type[Any]) -> Wire | None:
    """The replies under its own name, or under that of the class that it only gives a name to."""
    names = [vars(cls)["name"] for cls in kind.__mro__ if "name" in vars(cls)]
    found = (_wire_at(name) for name in names if isinstance(name, str))
    return next((wire for wire in found if wire is not None), None)


@cache
def _wire_at(name: str) -> Wire | None:
    return Wire(WIRES / name) if (WIRES / name).is_dir() else None
