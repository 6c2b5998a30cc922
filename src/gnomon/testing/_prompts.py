"""What the suite of token counters counts: texts, parts, histories and reports, odd ones among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from gnomon.types.messages import (
    Audio,
    Content,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
)
from gnomon.types.requests import Request, Response, Usage

__all__ = [
    "LONGER",
    "ODD_PARTS",
    "PARTS",
    "SENTENCE",
    "STEPS",
    "TEXTS",
    "TOOL",
    "answer_with",
    "grown_texts",
    "history_of",
    "message_of",
    "report_of",
    "seeded",
    "tool_with",
]

SENTENCE = "The tide comes in twice a day, and goes out again. "

TEXTS = (
    "a",
    " ",
    "\n",
    ".",
    "0",
    "é",
    "я",
    "字",
    "ก",
    "ع",
    "🙂",
    "e\u0301",
    "\u200d",
    "\ufeff",
    "\U0010ffff",
    "\x00",
    "\x7f",
    "\ud800",
    "\udfff\ud800",
    SENTENCE,
    "東京は日本の首都です。",
    '{"a": [1, 2.5, null]}',
    "def f(x):\n    return x ** 2\n",
)
"""In several scripts, and some that are no proper text at all."""

_PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000002800000016808060000")
"""The beginning of an image of 640 by 360 pixels."""

PARTS: dict[str, Content] = {
    "text": SENTENCE,
    "thinking": Thinking(SENTENCE, signature="c2lnbmF0dXJl"),
    "redacted thinking": Thinking(redacted="ZW5jcnlwdGVk" * 20),
    "tool call": ToolCall(id="call_1", name="search", arguments='{"query": "tides of the North Sea"}'),
    "tool result": ToolResult(call_id="call_1", name="search", content=(Text(SENTENCE),)),
    "image in a tool result": ToolResult(call_id="call_1", content=(Image(data=_PNG),)),
    "image": Image(data=_PNG, media_type="image/png"),
    "image by address": Image(url="https://example.org/tide.png"),
    "audio": Audio(data=bytes(64_000), media_type="audio/mpeg"),
    "audio by address": Audio(url="https://example.org/tide.mp3"),
    "file": File(data=SENTENCE.encode() * 20, media_type="text/plain", name="tides.txt"),
    "file by address": File(url="https://example.org/tides.pdf"),
}

LONGER: dict[str, Callable[[str], Content]] = {
    "text": Text,
    "thinking": Thinking,
    "a call's name": lambda text: ToolCall(id="1", name=text),
    "a call's arguments": lambda text: ToolCall(id="1", name="search", arguments=text),
    "a result": lambda text: ToolResult(call_id="1", content=(Text(text),)),
}

ODD_PARTS: tuple[Content, ...] = (
    Text(""),
    Thinking(),
    ToolCall(id="", name="", arguments=""),
    ToolCall(id="1", name="search", arguments='{"query": "ti', truncated=True),
    ToolCall(id="1", name="search", arguments="\x00\ud800"),
    ToolResult(call_id=""),
    ToolResult(call_id="1", content=(ToolResult(call_id="2", content=(Text("inside"),)),)),
    Image(data=b""),
    Image(data=b"\x89PNG\r\n\x1a\n"),
    Image(data=b"\xff\xd8\xff" + bytes(range(256)) * 4),
    Image(data=b"GIF89a"),
    Image(data=b"RIFF\x00\x00\x00\x00WEBPVP8X"),
    Image(url="data:image/png;base64,%%%"),
    Audio(data=b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(20)),
    File(data=b"%PDF-1.7"),
    File(data=b"\xff\xfe\x00", name="\udcff"),
)

TOOL = ToolDef(
    name="search",
    description="Looks things up.",
    schema={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)

STEPS = 40


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311


def tool_with(**changes: object) -> ToolDef:
    fields = {"name": TOOL.name, "description": TOOL.description, "schema": TOOL.schema}
    return ToolDef(**{**fields, **changes})  # type: ignore[arg-type]


def grown_texts(random: Random) -> Iterator[str]:
    text = ""
    for _ in range(STEPS):
        yield text
        text += random.choice(TEXTS) * random.choice((1, 1, 2, 7))


def history_of(random: Random) -> list[Message]:
    return [message_of(random) for _ in range(STEPS)]


def message_of(random: Random) -> Message:
    said = "".join(random.choices(TEXTS, k=random.randrange(6)))
    kinds = random.sample(sorted(PARTS), random.choice((0, 0, 0, 1, 2)))
    return Message.user(said, *(PARTS[kind] for kind in kinds))


def report_of(random: Random) -> tuple[Request, Response]:
    history = tuple(history_of(random)[: random.choice((0, 1, 3, 40))])
    tokens = random.choice((-5, 0, 1, 40, 5_000, 10**7, 10**12, 10**40))
    model = random.choice((None, "a-model", "another"))
    tools = (TOOL,) if random.random() < 0.5 else ()
    request = Request(messages=history, model=model, system=random.choice((None, "", SENTENCE)), tools=tools)
    cached = random.choice((None, 0, 100))
    return request, answer_with(
        Usage(input_tokens=tokens, cache_read_tokens=cached), random.choice((None, "a-model"))
    )


def answer_with(usage: Usage, model: str | None) -> Response:
    return Response(message=Message.assistant("Yes."), stop_reason="end_turn", usage=usage, model=model)
