"""Hypothesis strategies: any value of any type of `gnomon.types`, and any answer a provider may stream.

`values_of(kind)` reads the fields of a struct, so a new type is covered when it is written.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

import gnomon.types
from gnomon.types.documents import Document
from gnomon.types.events import (
    AttemptDiscarded,
    Finish,
    PartEnd,
    ProviderEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unknown,
    UsageUpdate,
)
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolStatus,
    UnknownPart,
)
from gnomon.types.records import Page, SessionRecord
from gnomon.types.requests import Spent, Usage, spent
from gnomon.types.steps import Turn

# --- plain values -----------------------------------------------------------

ODD_TEXTS = (
    "",
    "\x00",
    "\r\n\t\u2028\u2029\ufeff",
    'quote " backslash \\ </script>',
    "e\u0301 \u202eright to left",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0010ffff",
    "日本語 ελληνικά",
)

texts = st.one_of(st.text(max_size=12), st.sampled_from(ODD_TEXTS))
ints = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
times = st.datetimes(timezones=st.just(UTC))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), ints, floats, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=4,
)
metas = st.one_of(st.just({}), st.dictionaries(texts, json_values, max_size=2))

# --- any type of ours -------------------------------------------------------


def type_modules() -> list[types.ModuleType]:
    found = pkgutil.iter_modules(gnomon.types.__path__, "gnomon.types.")
    return [importlib.import_module(module.name) for module in found]


def struct_types() -> list[type[msgspec.Struct]]:
    """Every public struct of `gnomon.types`; a page stands with two kinds of rows."""
    found: dict[str, type[msgspec.Struct]] = {}
    for module in type_modules():
        for name, value in vars(module).items():
            ours = isinstance(value, type) and value.__module__ == module.__name__
            if ours and issubclass(value, msgspec.Struct) and not name.startswith("_"):
                found[name] = value
    del found["Page"], found["Turn"]
    return [*found.values(), Page[SessionRecord], Page[Document], Turn[str], Turn[dict[str, int]]]  # type: ignore[list-item]


@functools.cache
def values_of(kind: object) -> st.SearchStrategy[object]:
    """Any value of a type that may stand in a field."""
    if kind == Part:
        return parts
    special = _special().get(kind) if isinstance(kind, type) else None
    if special is not None:
        return special
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _structs(kind)
    return _values_of_generic(kind)


def _values_of_generic(kind: object) -> st.SearchStrategy[object]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return values_of(arguments[0])
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(one) for one in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[values_of(one) for one in arguments])
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if origin in (Page, Turn):
        return _structs(kind)
    raise NotImplementedError(f"no strategy for {kind!r}")


def _structs(kind: object) -> st.SearchStrategy[object]:
    fields = msgspec.structs.fields(kind)  # type: ignore[arg-type]
    needed = {one.name: values_of(one.type) for one in fields if one.required}
    optional = {one.name: values_of(one.type) for one in fields if not one.required}
    return st.fixed_dictionaries(needed, optional=optional).map(lambda given: kind(**given))  # type: ignore[operator]


def _media(kind: type[Image | Audio | File]) -> st.SearchStrategy[object]:
    source = st.one_of(
        st.fixed_dictionaries({"url": texts}), st.fixed_dictionaries({"data": st.binary(max_size=40)})
    )
    more: dict[str, st.SearchStrategy[object]] = {"media_type": st.none() | texts, "meta": metas}
    if kind is File:
        more["name"] = st.none() | texts
    rest = st.fixed_dictionaries({}, optional=more)
    return st.tuples(source, rest).map(lambda given: kind(**given[0], **given[1]))


def _tool_results(content: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.builds(
        ToolResult,
        call_id=texts,
        name=texts,
        content=st.lists(content, max_size=3).map(tuple),
        status=st.sampled_from(get_args(ToolStatus)),
        meta=metas,
    )


@functools.cache
def _special() -> dict[type, st.SearchStrategy[object]]:
    return {
        str: texts,
        int: ints,
        float: floats,
        bool: st.booleans(),
        bytes: st.binary(max_size=40),
        type(None): st.none(),
        object: json_values,
        datetime: times,
        Image: _media(Image),
        Audio: _media(Audio),
        File: _media(File),
        ToolResult: tool_results,
        # The names of kinds that no release has; a known one would turn into itself.
        UnknownPart: st.builds(UnknownPart, new_kinds, metas),
        Unknown: st.builds(Unknown, new_kinds, metas),
    }


new_kinds = texts.map(lambda text: "future_" + text)
leaf_parts: st.SearchStrategy[object] = st.deferred(
    lambda: st.one_of(
        [values_of(kind) for kind in (Text, Image, Audio, File, Thinking, ToolCall, UnknownPart)]
    )
)
tool_results = _tool_results(st.one_of(leaf_parts, _tool_results(leaf_parts)))
parts: st.SearchStrategy[object] = st.one_of(leaf_parts, tool_results)
usages: st.SearchStrategy[Usage] = values_of(Usage)  # type: ignore[assignment]

# --- any answer of a provider -----------------------------------------------


@dataclass
class Answer:
    """Events that a provider may stream, and what they come to by the plan they were made from."""

    events: list[ProviderEvent]
    finish: Finish
    parts: tuple[Part, ...]
    usage: Usage | None = None
    warnings: list[str] = field(default_factory=list)
    discarded: list[Spent] = field(default_factory=list)

    @property
    def all_events(self) -> list[ProviderEvent]:
        return [*self.events, self.finish]


@dataclass
class _Plan:
    """One block: its events in order, and its part."""

    events: list[ProviderEvent]
    part: Part


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """An answer with interleaved blocks, perhaps after attempts that were discarded."""
    events: list[ProviderEvent] = []
    discarded: list[Spent] = []
    for _ in range(draw(st.integers(0, 2))):
        attempt = _interleaved(draw, draw(_plans()))
        events += attempt[: draw(st.integers(0, len(attempt)))]
        event = AttemptDiscarded(draw(texts), draw(usages), *draw(st.sampled_from(((), ("acme", "a-1")))))
        events.append(event)
        discarded.append(spent(event.usage or Usage(), event.provider, event.model))
    plans = draw(_plans())
    tail = _sprinkled(draw, _interleaved(draw, plans))
    usage = next((one.usage for one in reversed(tail) if isinstance(one, UsageUpdate)), None)
    return Answer(
        events=events + tail,
        finish=draw(values_of(Finish)),  # type: ignore[arg-type]
        parts=tuple(plan.part for plan in sorted(plans, key=lambda plan: plan.events[0].index)),  # type: ignore[union-attr]
        usage=usage,
        warnings=[one.message for one in tail if isinstance(one, StreamWarning)],
        discarded=discarded,
    )


@st.composite
def _plans(draw: st.DrawFn) -> list[_Plan]:
    indexes = draw(st.lists(st.integers(0, 9), unique=True, max_size=4))
    return [draw(draw(st.sampled_from(_BLOCKS))(index)) for index in indexes]


@st.composite
def _spoken(draw: st.DrawFn, index: int) -> _Plan:
    """Text or thinking, with or without its end."""
    thinks = draw(st.booleans())
    pieces = draw(st.lists(texts, min_size=1, max_size=4))
    delta = ThinkingDelta if thinks else TextDelta
    events: list[ProviderEvent] = [delta(index, piece) for piece in pieces]
    text = "".join(pieces)
    part: Part = Thinking(text) if thinks else Text(text)
    if draw(st.booleans()):
        signature = {"signature": draw(texts)} if thinks else {}
        part = msgspec.structs.replace(part, meta=draw(metas), **signature)
        events.append(PartEnd(index, part))
    return _Plan(events, part)


@st.composite
def _whole(draw: st.DrawFn, index: int) -> _Plan:
    """A part that comes in one piece: redacted thinking, an image, something newer."""
    redacted = st.builds(Thinking, text=st.just(""), redacted=texts, provider=texts, model=texts, meta=metas)
    kinds = [redacted, *(values_of(kind) for kind in (Image, Audio, File, UnknownPart))]
    part: Part = draw(st.one_of(kinds))  # type: ignore[assignment]
    return _Plan([PartEnd(index, part)], part)


@st.composite
def _call(draw: st.DrawFn, index: int) -> _Plan:
    """A tool call, in pieces or whole, complete or cut off."""
    call_id, name = f"call-{index}", draw(texts)
    arguments = json.dumps(draw(metas), ensure_ascii=draw(st.booleans()))
    truncated = draw(st.booleans())
    if truncated:
        arguments = arguments[: draw(st.integers(0, len(arguments)))]
    call = ToolCall(call_id, name, arguments, index, truncated=truncated, meta=draw(metas))
    deltas = _pieces(draw, arguments) if draw(st.booleans()) else []
    return _Plan(
        [
            ToolCallStart(index, call_id, name),
            *(ToolCallDelta(index, call_id, piece) for piece in deltas),
            ToolCallEnd(index, call),
        ],
        call,
    )


_BLOCKS = (_spoken, _spoken, _whole, _call, _call)


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _interleaved(draw: st.DrawFn, plans: Sequence[_Plan]) -> list[ProviderEvent]:
    order = draw(st.permutations([number for number, plan in enumerate(plans) for _ in plan.events]))
    rest = [iter(plan.events) for plan in plans]
    return [next(rest[number]) for number in order]


def _sprinkled(draw: st.DrawFn, events: list[ProviderEvent]) -> list[ProviderEvent]:
    """The events with some between them that are no part of the message."""
    others = st.one_of(st.builds(UsageUpdate, usages), st.builds(StreamWarning, texts), values_of(Unknown))
    for other in draw(st.lists(others, max_size=3)):
        events.insert(draw(st.integers(0, len(events))), other)  # type: ignore[arg-type]
    return events
