"""The suite of compactors: a good one passes every check, and each has a fault that turns it red."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest import SkipTest

import msgspec
import pytest

from gnomon.compactors._marks import mark_of
from gnomon.compactors.summarize import SummarizeCompactor
from gnomon.compactors.truncate import TruncateCompactor
from gnomon.contracts.compactor import Ask, Compactor
from gnomon.errors import ContextTooLong
from gnomon.testing import CompactorContract, Contract
from gnomon.testing._conversations import Secretary, conversation, parted, seeded
from gnomon.types.messages import Message, Part, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Request, Response

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(CompactorContract) if name.startswith("test_")]
GUARD = "test_no_check_is_overridden"
ASKING = {
    "test_a_summary_is_made_from_what_tools_were_asked_and_gave",
    "test_the_next_summary_is_made_from_the_one_before",
    "test_only_ask_is_asked",
    "test_a_cancelled_one_leaves_nothing_behind",
}


# --- those that do not keep their word ------------------------------------------------


class Good(SummarizeCompactor):
    """One that keeps it; the others change what it gets, or what it gives."""

    async def compact(self, messages: Sequence[Message], budget: int) -> Any:
        return self.given(messages, await super().compact(self.taken(messages), self.budget(budget)))

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        found = await super().compact_asking(self.taken(messages), self.budget(budget), ask)
        return self.given(messages, found)

    def taken(self, messages: Sequence[Message]) -> Sequence[Message]:
        return messages

    def budget(self, budget: int) -> int:
        return budget

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        return found


class Copying(Good):
    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        return tuple(msgspec.structs.replace(message) for message in found)


class Generous(Good):
    def budget(self, budget: int) -> int:
        return budget * 2


class Crashing(Good):
    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        if len(found) < len(messages) / 2:
            raise RuntimeError("too little is left")
        return found


class Unwilling(Good):
    """What does not fit is none of its business."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        if len(found) < len(messages) and len(messages) > 200:
            raise ContextTooLong("too long")
        return found


class Absent(Good):
    """The last message is the first to go."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        return found[:-1] if len(found) < len(messages) else found


class Fragile(Good):
    def taken(self, messages: Sequence[Message]) -> Sequence[Message]:
        return messages if messages[0].role else ()


class Eager(Good):
    """What was made shorter once is made shorter again."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        again = len(found) == len(messages) and any(map(mark_of, messages))
        return tuple(message for message in found if not mark_of(message)) if again else found


class Parting(Good):
    """A tail may begin anywhere."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        if len(found) == len(messages):
            return found
        at = next((at for at, message in enumerate(found) if message.tool_calls), None)
        return found if at is None else (*found[:at], *found[at + 1 :])


class Silencing(Good):
    """Results are long, and so they go."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        shorter = len(found) < len(messages)
        return tuple(message for message in found if not (shorter and message.role == "tool"))


class Beginning(Good):
    """What was said first is the oldest."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        first = next((message for message in messages if message.role == "user"), None)
        return tuple(message for message in found if len(found) == len(messages) or message is not first)


class Unprompted(Good):
    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        shorter = len(found) < len(messages)
        return tuple(message for message in found if not (shorter and message.role == "system"))


class Backwards(Good):
    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        return found if len(found) == len(messages) else found[::-1]


class Unsigning(Good):
    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        if len(found) == len(messages):
            return found
        return tuple(
            msgspec.structs.replace(message, content=tuple(map(_unsigned, message.content)))
            for message in found
        )


def _unsigned(part: Part) -> Part:
    return msgspec.structs.replace(part, signature=None) if isinstance(part, Thinking) else part


class Taking(Good):
    """The list is its own."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        if len(found) < len(messages) and isinstance(messages, list):
            del messages[2]
        return found


class Scribbling(Good):
    """A mark on every message that it has seen."""

    def given(self, messages: Sequence[Message], found: tuple[Message, ...]) -> Any:
        for message in messages:
            message.meta["seen"] = True
        return found


class Shared(Good):
    """The conversation is kept in one place for all."""

    async def compact(self, messages: Sequence[Message], budget: int) -> Any:
        self.messages = messages
        await asyncio.sleep(0)
        return await super().compact(self.messages, budget)


class ToolBlind(Good):
    """A summary of what was said."""

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        def blind(request: Request) -> Request:
            lines = request.messages[0].text.splitlines()
            said = [line for line in lines if " calls " not in line and " gives for id " not in line]
            return msgspec.structs.replace(request, messages=(Message.user("\n".join(said)),))

        return await super().compact_asking(messages, budget, lambda request: ask(blind(request)))


class Unheeding(Good):
    """It asks, and what is answered is not used."""

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        async def other(request: Request) -> Response:
            await ask(request)
            return Response(message=Message.assistant("Well."), stop_reason="end_turn")

        return await super().compact_asking(messages, budget, other)


class Forgetful(Good):
    """Its own summary is nothing to it."""

    def taken(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if not mark_of(message)]


class OnItsOwn(Good):
    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        return await self.compact(messages, budget)


class TwoModels(Good):
    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        await self.compact(messages, budget)
        return await super().compact_asking(messages, budget, ask)


class Persistent(Good):
    """It is not to be disturbed."""

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> Any:
        with suppress(asyncio.CancelledError):
            return await super().compact_asking(messages, budget, ask)
        return tuple(messages)


FAULTS: list[tuple[str, type[Good], str]] = [
    ("test_a_conversation_that_fits_comes_back_as_it_is", Copying, "what comes back of what fits"),
    ("test_the_result_fits_the_budget_or_it_raises", Generous, "tokens over the budget"),
    ("test_the_result_fits_the_budget_or_it_raises", Crashing, "too little is left"),
    ("test_a_long_conversation_of_short_messages_is_made_to_fit", Unwilling, "too long"),
    ("test_a_long_conversation_of_short_messages_is_made_to_fit", Absent, "the last message"),
    ("test_odd_conversations_fit_or_raise", Fragile, "index out of range"),
    ("test_odd_conversations_fit_or_raise", Generous, "fits"),
    ("test_what_was_made_to_fit_is_not_made_shorter_again", Eager, "what comes back of a result"),
    ("test_calls_and_results_stay_together", Parting, "results without a call"),
    ("test_calls_and_results_stay_together", Silencing, "calls without a result"),
    ("test_the_system_prompt_and_the_first_message_of_the_user_stay", Beginning, "first message of the user"),
    ("test_the_system_prompt_and_the_first_message_of_the_user_stay", Unprompted, "the system prompt"),
    ("test_what_is_kept_is_kept_in_order", Backwards, "the places of what is kept"),
    ("test_what_is_kept_is_kept_in_order", Copying, "messages that are kept as they are"),
    ("test_thinking_is_kept_whole_or_not_at_all", Unsigning, "thinking that was not there"),
    ("test_the_messages_are_not_changed", Taking, "afterwards"),
    ("test_the_messages_are_not_changed", Scribbling, "afterwards"),
    ("test_a_few_thousand_messages_take_no_time", Unwilling, "too long"),
    ("test_several_at_once_do_not_disturb_each_other", Shared, "what several at once give"),
    ("test_a_summary_is_made_from_what_tools_were_asked_and_gave", ToolBlind, "not shown to the model"),
    ("test_a_summary_is_made_from_what_tools_were_asked_and_gave", Unheeding, "is not in the view"),
    ("test_the_next_summary_is_made_from_the_one_before", Forgetful, "not known any more"),
    ("test_only_ask_is_asked", OnItsOwn, "what was asked through ask"),
    ("test_only_ask_is_asked", TwoModels, "asked of another model"),
    ("test_a_cancelled_one_leaves_nothing_behind", Persistent, "whether it was cancelled"),
]


def run(make: type[Any], check: str) -> None:
    class Suite(CompactorContract):
        @asynccontextmanager
        async def open(self) -> AsyncIterator[Compactor]:
            yield make(provider=self.model()) if issubclass(make, SummarizeCompactor) else make()

    RULES.run(getattr(Suite(), check), 60.0)


@pytest.mark.parametrize("check", CHECKS)
def test_a_compactor_that_keeps_its_word_passes(check: str) -> None:
    run(Good, check)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert sorted({check for check, _, _ in FAULTS}) == sorted(set(CHECKS) - {GUARD})


@pytest.mark.parametrize(("check", "make", "words"), FAULTS)
def test_a_planted_fault_is_found(check: str, make: type[Good], words: str) -> None:
    with pytest.raises(Exception, match=words) as found:
        run(make, check)
    assert not isinstance(found.value, SkipTest)


def test_one_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.testing.compactor._CPU_S", 0.0)
    with pytest.raises(AssertionError, match="are less than"):
        run(TruncateCompactor, "test_a_few_thousand_messages_take_no_time")


def test_one_without_a_model_skips_what_is_about_a_model() -> None:
    for check in sorted(ASKING):
        with pytest.raises(SkipTest, match="SupportsAsking"):
            run(TruncateCompactor, check)


# --- what it works with ---------------------------------------------------------------


def test_the_conversations_hold_what_they_should() -> None:
    said = [message for seed in range(10) for message in conversation(seeded(seed))]
    roles = {message.role for message in said}
    kinds = {type(part).__name__ for message in said for part in message.content}
    assert roles == {"system", "user", "assistant", "tool"}
    assert kinds == {"Text", "Image", "Thinking", "ToolCall", "ToolResult"}
    assert max(len(message.tool_calls) for message in said) > 1
    assert any(
        parts[1].role == "system" for parts in zip(said, said[2:], strict=False) if parts[0].role != "system"
    )
    assert [parted(conversation(seeded(seed))) for seed in range(10)] == [[]] * 10
    assert conversation(seeded(3)) == conversation(seeded(3))


def test_what_is_parted_is_found() -> None:
    call, result = ToolCall("c1", "look"), ToolResult("c1")
    assert parted([Message.assistant(call), Message.tool(result)]) == []
    assert parted([Message.tool(result), Message.assistant(call)]) == [result, call]
    assert parted([Message.assistant(call), Message.assistant(call), Message.tool(result)]) == [call]


def test_a_secretary_insists_on_being_asked_for_a_summary() -> None:
    from gnomon.types.messages import ToolDef

    for request in (
        Request(messages=()),
        Request(messages=(Message.user("asked1x"),), tools=(ToolDef(name="look"),)),
    ):
        with pytest.raises(AssertionError, match="with messages, and without tools"):
            asyncio.run(Secretary().ask(request))
    seen = asyncio.run(Secretary().ask(Request(messages=(Message.user("asked1x gave2x asked1x"),))))
    assert seen.text == "Known of tools: asked1x gave2x."
