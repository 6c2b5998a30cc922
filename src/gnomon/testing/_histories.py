"""Conversations of which everything must arrive: each says which of its texts and bytes to look for."""

from __future__ import annotations

import msgspec

from gnomon.types.messages import Audio, File, Image, Message, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request

__all__ = ["HISTORIES", "MEDIA", "Sent"]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and what of it must be found in what is sent."""

    what: str
    request: Request
    texts: tuple[str, ...] = ()
    media: tuple[bytes, ...] = ()


_HELLO = Message.user("Good evening to you.")
_TOOLS = tuple(
    ToolDef(
        name=name,
        description=f"The {name} of a place, or so it is said.",
        schema={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    )
    for name in ("weather_of", "height_of")
)
_FIRST = ToolCall("call_first_01", "weather_of", '{"place": "Zurich upon Limmat"}', 0)
_SECOND = ToolCall("call_second_02", "height_of", '{"place": "Mont Ventoux"}', 1)
_RESULTS = Message.tool(
    ToolResult.of(_FIRST, "Eighteen degrees, sunny."),
    ToolResult.of(_SECOND, "No such mountain.", status="error"),
)
_QUOTED = 'He said: "no\\yes" — ünïcode, \u2028 and a tab\tand\na line; 👩‍👩‍👧.'
_LATE = Message.system("From here on, answer in rhymes.")
_CALLED = ("weather_of", "height_of", _FIRST.id, _SECOND.id, "Zurich upon Limmat", "Mont Ventoux")
_FOUND = ("Eighteen degrees, sunny.", "No such mountain.")


def _sent(what: str, *messages: Message, texts: tuple[str, ...], system: str | None = None) -> Sent:
    calls = any(message.tool_calls for message in messages)
    request = Request(messages=messages, system=system, tools=_TOOLS if calls else ())
    return Sent(what=what, request=request, texts=texts)


HISTORIES: tuple[Sent, ...] = (
    _sent(
        "a system text", _HELLO, system="You are a lighthouse.", texts=("You are a lighthouse.", _HELLO.text)
    ),
    _sent("a system message", Message.system("You are a harbour."), _HELLO, texts=("You are a harbour.",)),
    _sent(
        "both",
        Message.system("You are a harbour."),
        _HELLO,
        system="You are a lighthouse.",
        texts=("You are a lighthouse.", "You are a harbour."),
    ),
    _sent(
        "a system message in the middle",
        _HELLO,
        Message.assistant("And to you."),
        _LATE,
        Message.user("Well?"),
        texts=(_LATE.text, "And to you.", "Well?"),
    ),
    _sent("a system message at the end", _HELLO, _LATE, texts=(_HELLO.text, _LATE.text)),
    _sent("quotes, line ends and other characters", Message.user(_QUOTED), texts=(_QUOTED,)),
    _sent(
        "two messages of the same role",
        _HELLO,
        Message.user("Are you there?"),
        texts=(_HELLO.text, "Are you there?"),
    ),
    _sent(
        "a message of several texts",
        Message.user("The first of two.", "The second of two."),
        texts=("The first of two.", "The second of two."),
    ),
    _sent(
        "two calls and their results",
        _HELLO,
        Message.assistant("Let me look.", _FIRST, _SECOND),
        _RESULTS,
        texts=(*_CALLED, *_FOUND, "Let me look."),
    ),
    _sent(
        "results in two messages",
        _HELLO,
        Message.assistant(_FIRST, _SECOND),
        *(Message.tool(result) for result in _RESULTS.tool_results),
        texts=(*_CALLED, *_FOUND),
    ),
    _sent(
        "a long conversation of everything",
        Message.system("You are a harbour."),
        _HELLO,
        Message.assistant("And to you."),
        Message.user(_QUOTED),
        Message.assistant("Let me look.", _FIRST, _SECOND),
        _RESULTS,
        Message.assistant("It is warm there."),
        Message.user("And now?", "Tell me more."),
        system="You are a lighthouse.",
        texts=(
            *("You are a lighthouse.", "You are a harbour.", _HELLO.text, "And to you.", _QUOTED),
            *("Let me look.", *_CALLED, *_FOUND, "It is warm there.", "And now?", "Tell me more."),
        ),
    ),
)

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
_WAV = b"".join(
    (
        b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0",  # PCM, one channel
        b"\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x10\0\0\0",  # 16,000 samples of 16 bits a second
        bytes(range(16)),
    )
)
_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
_AT = "https://example.org/gnomon"


def _shown(what: str, part: Image | Audio | File) -> Sent:
    request = Request(messages=(Message.user("Look at this, please.", part),))
    texts = ("Look at this, please.", *((part.url,) if part.url else ()))
    return Sent(what=what, request=request, texts=texts, media=(part.data,) if part.data else ())


def _in_result(what: str, part: Image) -> Sent:
    messages = (_HELLO, Message.assistant(_FIRST), Message.tool(ToolResult.of(_FIRST, "A map:", part)))
    request = Request(messages=messages, tools=_TOOLS)
    return Sent(what=what, request=request, texts=("A map:",), media=(part.data or b"",))


MEDIA: tuple[Sent, ...] = (
    _shown("an image from bytes", Image(data=_PNG, media_type="image/png")),
    _shown("an image from an address", Image(url=f"{_AT}/map.png", media_type="image/png")),
    _shown("audio from bytes", Audio(data=_WAV, media_type="audio/wav")),
    _shown("audio from an address", Audio(url=f"{_AT}/waves.wav", media_type="audio/wav")),
    _shown("a file from bytes", File(data=_PDF, media_type="application/pdf", name="plan.pdf")),
    _shown("a file from an address", File(url=f"{_AT}/plan.pdf", media_type="application/pdf")),
    _in_result("an image in the result of a tool", Image(data=_PNG, media_type="image/png")),
)
