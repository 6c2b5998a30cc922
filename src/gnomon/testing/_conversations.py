"""What the suite of compactors makes shorter: conversations of every kind, and a model that sums them up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from random import Random

from gnomon.providers.scripted import ScriptedProvider
from gnomon.types.messages import Content, Image, Message, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Request, Response

__all__ = [
    "ODD",
    "Secretary",
    "conversation",
    "long_conversation",
    "parted",
    "prompt",
    "seeded",
    "thoughts",
    "tool_words",
    "words_in",
]

_PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000002800000016808060000")
_WORDS = ("the", "tide", "comes", "in", "twice", "a", "day", "and", "goes", "out", "again", "past", "boats")
_MARKED = re.compile(r"\b(?:asked|gave)\d+x\b")

ODD: dict[str, tuple[Message, ...]] = {
    "nothing": (),
    "one message": (Message.user("When is high tide?"),),
    "a message without content": (Message("user"),),
    "one message that is too long": (Message.user("tide " * 20_000),),
    "instructions alone": (Message.system("Be brief. " * 400),),
    "a model that talks to itself": tuple(Message.assistant(f"Number {n}. " * 9) for n in range(60)),
    "a greeting before the first question": (
        Message.system("Be brief."),
        Message.assistant("Welcome! " * 400),
        Message.user("When is high tide?"),
    ),
    "results without calls": (
        Message.user("When?"),
        *(Message.tool(ToolResult(f"lost_{n}", content=(Text("noon " * 20),))) for n in range(40)),
        Message.user("And now?"),
    ),
    "calls without results": (
        Message.user("When?"),
        *(Message.assistant("Well. " * 20, ToolCall(f"open_{n}", "tide")) for n in range(40)),
    ),
    "thinking alone": (
        Message.user("When?"),
        *(Message.assistant(Thinking("Hm. " * 30, signature="c2ln")) for _ in range(40)),
        Message.user("And now?"),
    ),
}


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311


def conversation(random: Random, turns: int = 12) -> list[Message]:
    """Instructions, questions, thinking, images, and calls side by side; it ends anywhere in a turn.

    Every call asks for a word of its own, `asked7x`, and every result gives one, `gave7x`.
    """
    said = [Message.system(_text(random)) for _ in range(random.randrange(3))]
    if random.random() < 0.2:
        said.append(Message.assistant("Welcome! ", _text(random)))
    for _ in range(random.randrange(1, turns + 1)):
        said += _turn(random, len(said))
    keep = random.choice((0, 0, 1, 2))
    return _whole(said[: len(said) - keep] if keep < len(said) - 3 else said)


def long_conversation(messages: int) -> list[Message]:
    """Of so many messages: a question, a call, its result, an answer, over and over."""
    said: list[Message] = [Message.system("Be brief."), Message.user("Watch the tides.")]
    while len(said) < messages:
        said += _exchange(len(said))
    return said[:messages]


def _exchange(at: int) -> list[Message]:
    call = ToolCall(f"call_{at}", "tide", f'{{"place": "asked{at}x"}}')
    return [
        Message.user(f"And what about place {at}?"),
        Message.assistant(call),
        Message.tool(ToolResult.of(call, f"gave{at}x: high water at noon, low water in the evening")),
        Message.assistant(f"At place {at} the water is high at noon."),
    ]


def _turn(random: Random, at: int) -> Iterator[Message]:
    yield Message.user(*_with_image(random, _text(random)))
    if random.random() < 0.1:
        yield Message.system("From now on: ", _text(random))
    for number in range(random.randrange(4)):
        yield from _round(random, at * 100 + number * 10)
        if random.random() < 0.1:
            yield Message.user("Wait. ", _text(random))
    yield Message.assistant(*_thought(random), _text(random))


def _round(random: Random, at: int) -> Iterator[Message]:
    """Calls side by side; ids are used again in some conversations, as some services do."""
    first = random.choice((0, at))
    calls = [
        ToolCall(f"call_{first + n}", "look", f'{{"for": "asked{at + n}x {_text(random)}"}}')
        for n in range(random.randrange(1, 5))
    ]
    yield Message.assistant(*_thought(random), _text(random), *calls)
    results = [_result(random, call, at + n) for n, call in enumerate(calls)]
    if random.random() < 0.3:
        yield from (Message.tool(result) for result in results)
    else:
        yield Message.tool(*results)


def _result(random: Random, call: ToolCall, at: int) -> ToolResult:
    long = " ".join([_text(random)] * random.choice((1, 1, 1, 30)))
    return ToolResult.of(call, *_with_image(random, f"gave{at}x {long}"))


def _text(random: Random) -> str:
    return " ".join(random.choices(_WORDS, k=random.randrange(1, 40)))


def _with_image(random: Random, text: str) -> tuple[Content, ...]:
    return (text, Image(data=_PNG, media_type="image/png")) if random.random() < 0.1 else (text,)


def _thought(random: Random) -> tuple[Content, ...]:
    if random.random() < 0.5:
        return ()
    return (Thinking(_text(random), signature=f"c2ln{random.random()}", provider="a", model="b"),)


def _whole(messages: list[Message]) -> list[Message]:
    """Without calls at the end that were to have results."""
    while messages and (messages[-1].tool_calls or _lacks_results(messages)):
        messages.pop()
    return messages


def _lacks_results(messages: Sequence[Message]) -> bool:
    waiting: set[str] = set()
    for message in messages:
        waiting |= {call.id for call in message.tool_calls}
        waiting -= {result.call_id for result in message.tool_results}
    return bool(waiting)


def words_in(messages: Sequence[Message]) -> set[str]:
    """The marked words that are shown anywhere in these."""
    return set(_MARKED.findall(repr(messages)))


def tool_words(messages: Sequence[Message]) -> set[str]:
    """The marked words of calls and of results."""
    parts = [part for message in messages for part in message.content]
    return set(_MARKED.findall(repr([part for part in parts if isinstance(part, ToolCall | ToolResult)])))


def prompt(messages: Sequence[Message]) -> list[Message]:
    """The instructions that stand before all else."""
    return list(takewhile(lambda message: message.role == "system", messages))


def thoughts(messages: Sequence[Message]) -> list[Thinking]:
    return [part for message in messages for part in message.content if isinstance(part, Thinking)]


def parted(messages: Sequence[Message]) -> list[ToolCall | ToolResult]:
    """Results that no call stands before, and calls that no result follows."""
    waiting: dict[str, ToolCall] = {}
    alone: list[ToolCall | ToolResult] = []
    for part in (part for message in messages for part in message.content):
        if isinstance(part, ToolCall):
            alone += [waiting[part.id]] if part.id in waiting else []
            waiting[part.id] = part
        elif isinstance(part, ToolResult) and waiting.pop(part.call_id, None) is None:
            alone.append(part)
    return [*alone, *waiting.values()]


class Secretary:
    """A model that sums up: it writes down the marked words it is shown, `most` of them.

    It fails the test when it is asked without messages, or is offered tools.
    """

    def __init__(self, most: int = 12) -> None:
        self.requests: list[Request] = []
        self.provider = ScriptedProvider(self._written, verbatim=False)
        self._most = most

    async def ask(self, request: Request) -> Response:
        message = Message.assistant(self._written(request))
        return Response(message=message, stop_reason="end_turn")

    def _written(self, request: Request) -> str:
        if request.tools or not request.messages:
            raise AssertionError("a summary is asked for with messages, and without tools")
        self.requests.append(request)
        shown = sorted(set(_MARKED.findall(repr(request.messages))))
        return f"Known of tools: {' '.join(shown[: self._most]) or 'nothing'}."
