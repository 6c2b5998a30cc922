"""Conversations as a provider makes them: its answers are what its own decoder reads from its own wire.

Around them stands what every conversation may hold: instructions, texts in several scripts, images by
value and by address, audio, a document, and for each call a result: a text, an image beside a text, or
a failure.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence

import msgspec
from switch_ends import End
from switch_stage import Stage, on_stage

from gnomon.errors import BadRequest
from gnomon.types.messages import Audio, File, Image, Message, Text, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request, Response

__all__ = ["COMPOSITE", "History", "made_by", "names_of"]

COMPOSITE = "everything"
"""The conversation that holds one of each kind of answer."""

# Those of them that a wire has, in this order.
_ONE_OF_EACH = (
    "thinking",
    "thinking_then_tool",
    "thinking_with_tool",
    "thinking_interleaved",
    "thinking_twice",
    "thinking_redacted",
    "thinking_signed",
    "thinking_details",
    "signature_on_text",
    "tools",
    "tools_without_ids",
    "tools_interleaved",
    "text_around_calls",
    "tool_empty_arguments",
    "unicode_arguments",
    "unicode_split_arguments",
    "limit_in_arguments",
    "citations",
    "references",
    "image",
    "unicode_split",
    "tool_answer",
)

_SYSTEM = "You are a lighthouse; say so when asked — „ja“, 是的."
_OPENING = Message.system("You know every harbour: Γαλαξίδι, Żnin, 長崎.")
_LATE = Message.system("From here on, answer in rhymes.")
_LAST = Message.user('And now? \U0001f469\u200d\U0001f469\u200d\U0001f467 \u2028 \\ "both"')


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation up to the user's latest words."""

    source: str
    name: str
    request: Request

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.request.messages


def names_of(end: End) -> list[str]:
    """The conversations that can be made with the provider: one of everything, and one for each answer."""
    return [COMPOSITE, *(fixture.name for fixture in end.wire.answers())]


_made: dict[tuple[str, str], History] = {}


async def made_by(end: End, name: str) -> History:
    """The conversation; made once in a process, since nobody changes it."""
    if (end.title, name) not in _made:
        wanted = _ONE_OF_EACH if name == COMPOSITE else (name,)
        async with on_stage(end) as stage:
            found = [fixture for fixture in wanted if fixture in end.wire]
            request = await _talk(stage, end, found)
        _made[end.title, name] = History(source=end.title, name=name, request=request)
    return _made[end.title, name]


# --- the talk -------------------------------------------------------------------------


async def _talk(stage: Stage, end: End, fixtures: Sequence[str]) -> Request:
    """Each answer is asked for with all that was said before it, as an agent would."""
    said: list[Message] = [_OPENING]
    for number, fixture in enumerate(fixtures):
        if number == 2:
            said.append(_LATE)
        said.append(_question(number))
        response = await _answer(stage, end, said, fixture)
        said.append(response.message)
        if response.tool_calls:
            said.append(_results(response.tool_calls, number))
    said.append(_LAST)
    return _request(end, said)


async def _answer(stage: Stage, end: End, said: Sequence[Message], fixture: str) -> Response:
    """Who does not take media is asked without them; the conversation keeps them, as if begun elsewhere."""
    asked = await stage.ask(_request(end, said), end.wire[fixture])
    if isinstance(asked.error, BadRequest):
        asked = await stage.ask(_request(end, _without_media(said)), end.wire[fixture])
    assert asked.response is not None, f"{end}: no answer to {fixture}: {asked.error!r}"
    return asked.response


def _request(end: End, said: Sequence[Message]) -> Request:
    return Request(messages=tuple(said), model=end.model, system=_SYSTEM, tools=_tools(said))


def _question(number: int) -> Message:
    """Every third shows two images, one by value and one by address; one of them has more to show."""
    text = f"Question {number}: wie spät ist es in Ōsaka, и почему? «{chr(0x4E00 + number)}»"
    if number % 3:
        return Message.user(text)
    shown = Image(url=f"https://example.org/gnomon/map-{number}.png", media_type="image/png")
    more = (_WAVES, _PLAN) if number == 3 else ()
    return Message.user(text, _image(1000 + number), "and beside it", shown, *more)


def _results(calls: Sequence[ToolCall], turn: int) -> Message:
    return Message.tool(*(_result(call, turn, place) for place, call in enumerate(calls)))


def _result(call: ToolCall, turn: int, place: int) -> ToolResult:
    text = f"Result {place} of turn {turn}: 18 °C, «naïve»"
    if call.truncated:
        return ToolResult.of(call, f"{text}; it was cut off, and not run.", status="truncated")
    match (place + turn) % 3:
        case 0:
            return ToolResult.of(call, text)
        case 1:
            return ToolResult.of(call, _image(turn * 10 + place), text)
        case _:
            return ToolResult.of(call, f"{text}: no such place", status="error")


def _without_media(said: Sequence[Message]) -> list[Message]:
    return [
        Message.user(*(part for part in message.content if isinstance(part, Text)))
        if message.role == "user"
        else message
        for message in said
    ]


# --- tools and media ------------------------------------------------------------------

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


def _tools(said: Sequence[Message]) -> tuple[ToolDef, ...]:
    """Those that were called, so far as a tool may have such a name, and one more."""
    called = {
        call.name: None for message in said for call in message.tool_calls if _NAME.fullmatch(call.name)
    }
    return tuple(
        ToolDef(name=name, description=f"The {name} of a place.", schema=_PLACE)
        for name in dict.fromkeys((*called, "height_of"))
    )


_WAVES = Audio(
    data=b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x10\0\0\0"
    + bytes(range(16)),
    media_type="audio/wav",
)
_PLAN = File(
    data=b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
    media_type="application/pdf",
    name="plan.pdf",
)


def _image(number: int) -> Image:
    return Image(data=_png(number), media_type="image/png")


def _png(number: int) -> bytes:
    """One pixel, of a colour of its own."""
    pixel = bytes((0, number % 256, number // 256, 77))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(pixel)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
