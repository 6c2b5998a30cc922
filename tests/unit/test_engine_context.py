"""When a conversation is too long, and what its view becomes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine import context as context_module
from gnomon.engine.context import Context
from gnomon.engine.fold import Fold
from gnomon.errors import ContextTooLong
from gnomon.types.events import (
    Event,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.requests import Request, Response, Usage


class Keeping:
    """Keeps the first message and so many of the last."""

    name = "keeping"

    def __init__(self, last: int) -> None:
        self._last = last
        self.budgets: list[int] = []

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        self.budgets.append(budget)
        if len(messages) <= self._last + 1:
            return tuple(messages)
        return (messages[0], *messages[-self._last :]) if self._last else (messages[0],)


async def nobody(_: Request) -> Response:
    raise AssertionError("nobody is to be asked")


def made(compactor: object, limit: int = 100) -> Context:
    return Context(compactor, EstimatingCounter, limit=limit, window=None)  # type: ignore[arg-type]


def filled(*events: Event) -> Fold:
    fold = Fold()
    for seq, event in enumerate(events, 1):
        fold.take(seq, event)
    return fold


def turn(number: int, *, usage: Usage | None = None) -> list[Event]:
    turn_id, said = f"turn_{number}", Message.assistant(f"answer {number}")
    response = Response(message=said, stop_reason="end_turn", usage=usage or Usage())
    return [
        MessageReceived(f"msg_{number}", Message.user(f"question {number}")),
        TurnStarted(turn_id, "a", "m", inputs=(f"msg_{number}",)),
        ModelStarted(turn_id, f"out_{number}", (1, 1)),
        MessageCompleted(turn_id, f"out_{number}", response),
        TurnFinished(turn_id, "end_turn", 1),
    ]


def texts(fold: Fold) -> list[str]:
    return [message.text for message in fold.messages]


async def test_the_tail_is_named_by_its_place_and_the_rest_is_written_out() -> None:
    fold = filled(*turn(1), *turn(2), *turn(3))
    compacted = await made(Keeping(2)).compacted(fold, "asked", nobody)
    assert compacted is not None
    assert [message.text for message in compacted.head] == ["question 1"]
    assert compacted.view_start == 11
    assert (compacted.messages_before, compacted.messages_after, compacted.compactor) == (6, 3, "keeping")
    fold.take(fold.seq + 1, compacted)
    assert texts(fold) == ["question 1", "question 3", "answer 3"]


async def test_a_view_that_keeps_nothing_starts_after_all_events() -> None:
    fold = filled(*turn(1), *turn(2))
    compacted = await made(Keeping(0)).compacted(fold, "asked", nobody)
    assert compacted is not None
    assert compacted.view_start == fold.seq + 1
    fold.take(fold.seq + 1, compacted)
    assert texts(fold) == ["question 1"]


async def test_a_question_that_waited_for_its_turn_is_not_lost() -> None:
    """It stands before the answer that is shown before it, so its place cannot be where the view starts."""
    first, second = turn(1), turn(2)
    early = second.pop(0)
    fold = filled(first[0], first[1], first[2], early, first[3], first[4], *second)
    assert texts(fold) == ["question 1", "answer 1", "question 2", "answer 2"]
    compacted = await made(Keeping(2)).compacted(fold, "asked", nobody)
    assert compacted is not None
    fold.take(fold.seq + 1, compacted)
    assert texts(fold) == ["question 1", "question 2", "answer 2"]
    again = Fold(fold.snapshot(), fold.seq)
    assert again.view_start == compacted.view_start


async def test_what_cannot_be_shorter_is_left_as_it_is() -> None:
    assert await made(Keeping(9)).compacted(filled(*turn(1)), "asked", nobody) is None


def test_what_was_reported_counts_and_what_came_after_is_estimated() -> None:
    context = made(Keeping(1), limit=1_000)
    assert not context.is_full(filled(*turn(1)), ())
    reported = filled(*turn(1, usage=Usage(input_tokens=990, output_tokens=5)))
    assert not context.is_full(reported, ())
    assert context.is_full(reported, [Message.user("word " * 40)])
    assert not context.is_full(filled(*turn(1, usage=Usage(input_tokens=9_999, estimated=True))), ())


def test_without_a_limit_the_window_of_the_model_decides() -> None:
    assert Context(Keeping(1), EstimatingCounter, limit=None, window=1_000).limit == 800
    assert Context(Keeping(1), EstimatingCounter, limit=None, window=None).limit == 102_400


async def test_after_a_refusal_the_view_becomes_half_of_what_it_was() -> None:
    keeping = Keeping(1)
    fold = filled(*turn(1), *turn(2), *turn(3))
    size = EstimatingCounter().count_messages(fold.messages)
    await made(keeping, limit=10_000).compacted(fold, "too_long", nobody)
    assert keeping.budgets == [size // 2]


class Odd:
    def __init__(self, given: object) -> None:
        self._given = given

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given  # type: ignore[return-value]


CALL = ToolCall("c1", "look", "{}")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "gave NoneType, not messages"),
        ((), "gave something else than messages"),
        (("text",), "gave something else than messages"),
        (ValueError("oh"), "failed: ValueError: oh"),
        (ContextTooLong("no way"), "no way"),
        ((Message.user("q"), Message.assistant(CALL)), "parted a call from its result"),
        ((Message.user("q"), Message.tool(ToolResult.of(CALL, "x"))), "parted a call from its result"),
    ],
)
async def test_what_a_compactor_does_wrong_is_said_with_its_name(given: object, told: str) -> None:
    with pytest.raises(ContextTooLong, match="compactor 'Odd'") as raised:
        await made(Odd(given)).compacted(filled(*turn(1), *turn(2)), "asked", nobody)
    assert told in str(raised.value)


async def test_a_compactor_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    class Hanging:
        async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
            await asyncio.sleep(3_600)
            return ()

    monkeypatch.setattr(context_module, "LIMIT_S", 0.01)
    with pytest.raises(ContextTooLong, match="compactor 'Hanging' failed: took over"):
        await made(Hanging()).compacted(filled(*turn(1)), "asked", nobody)


async def test_a_call_and_its_result_are_not_parted_by_the_view() -> None:
    asked = Message.assistant(CALL)
    fold = filled(
        MessageReceived("m", Message.user("go")),
        TurnStarted("t", "a", "m", inputs=("m",)),
        ModelStarted("t", "o", (1, 1)),
        MessageCompleted("t", "o", Response(message=asked, stop_reason="tool_use")),
        ToolFinished("t", ToolResult.of(CALL, "seen")),
    )
    compacted = await made(Keeping(2)).compacted(fold, "asked", nobody)
    assert compacted is None
    assert [message.role for message in fold.messages] == ["user", "assistant", "tool"]
