"""What it costs to count the tokens of a history: beside encoding the same messages as JSON."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec
from measure import Row, Samples, compared, in_turns, say

from gnomon.counters.calibrated import CalibratedCounter
from gnomon.types.messages import Message, Text, ToolCall, ToolResult

ROUNDS, QUICK_ROUNDS = 41, 15
MESSAGES = 1_000
LIMIT = 3.0

WORDS = (
    *(
        "the",
        "tide",
        "comes",
        "in",
        "twice",
        "a",
        "day,",
        "and",
        "goes",
        "out",
        "(again)",
        "before",
        "anybody",
    ),
    *("has", "noticed.\n", "def", "total(items):", "return", "sum(item.price", "*", "1.19", "for", "item"),
    *('{"id":', "4711,", '"name":', '"Ebb",', '"tags":', '["sea",', '"moon"]}'),
)

Made = Callable[[], list[Message]]


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"counting: {rounds} rounds of {MESSAGES:,} messages, new objects each time")
    return [
        *_compared("a conversation with tools", _history(40, 120), rounds, LIMIT),
        *_compared("short messages", _history(5, 15), rounds, LIMIT),
        *_compared("long results", _history(60, 1_500), rounds),
        *_compared("in Chinese", _chinese, rounds),
    ]


def _compared(what: str, made: Made, rounds: int, limit: float | None = None) -> list[Row]:
    samples = _sampled(made, rounds)
    encode = samples["encode"]
    return [
        compared(f"count {what}", samples["count"], encode, limit=limit),
        compared(f"count {what}, one message more", samples["grown"], encode),
    ]


def _sampled(made: Made, rounds: int) -> Samples:
    """Each on messages that nobody has seen, but for the one that counts a history that has grown."""
    return in_turns(
        {
            "encode": lambda: _timed(msgspec.json.encode, made()),
            "count": lambda: _timed(CalibratedCounter(model="gpt-5").count_messages, made()),
            "grown": lambda: _grown(made()),
        },
        rounds,
    )


def _grown(messages: list[Message]) -> float:
    counter = CalibratedCounter(model="gpt-5")
    counter.count_messages(messages)
    return _timed(counter.count_messages, [*messages, Message.user("And then?")])


def _timed(job: Callable[[Sequence[Message]], object], messages: Sequence[Message]) -> float:
    gc.collect()
    start = time.process_time()
    job(messages)
    return time.process_time() - start


# --- what is counted ------------------------------------------------------------------


def _history(said: int, found: int) -> Made:
    """Rounds of a question, a call, its result and an answer; in words, what is said and what is found."""

    def made() -> list[Message]:
        random = Random(7)

        def text(words: int) -> str:
            return " ".join(random.choices(WORDS, k=random.randint(words // 2, words * 3 // 2)))

        messages: list[Message] = []
        for number in range(MESSAGES // 4):
            call = ToolCall(id=f"call_{number}", name="search", arguments=f'{{"query": {text(5)!r}}}')
            result = ToolResult(call_id=call.id, name=call.name, content=(Text(text(found)),))
            messages += [Message.user(text(said)), Message.assistant(text(said // 2), call)]
            messages += [Message.tool(result), Message.assistant(text(said))]
        return messages

    return made


def _chinese() -> list[Message]:
    random = Random(7)
    characters = "潮汐每天来回两次没有人注意到它的起落月亮在海上升起"
    return [
        Message.user("".join(random.choices(characters, k=random.randint(50, 250)))) for _ in range(MESSAGES)
    ]
