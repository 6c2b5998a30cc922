"""What was said: every call has one result, in the order of the calls, whatever was handed in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import Image, Message, MessageCompleted, Response, Text, ToolCall, ToolFinished, ToolResult
from gnomon.engine.history import settled
from gnomon.engine.journal import Scratch
from gnomon.types.events import LedgerEntry, MessageReceived, ToolIntent, TurnFinished, TurnStarted

USER = Message.user("do it")
LATER = Message.user("and now?")


def calls(*ids: str) -> Message:
    return Message.assistant("let me see", *(ToolCall(id, "look", index=at) for at, id in enumerate(ids, 1)))


def result(id: str, text: str = "found") -> ToolResult:
    return ToolResult(id, "look", (Text(text),))


def statuses(message: Message) -> list[tuple[str, str]]:
    return [(result.call_id, result.status) for result in message.tool_results]


# --- what is handed in ------------------------------------------------------


def test_a_conversation_that_is_whole_stays_as_it_is() -> None:
    whole = [
        Message.system("be brief"),
        USER,
        calls("a", "b"),
        Message.tool(result("a"), result("b")),
        Message.assistant("there"),
        LATER,
    ]
    assert settled(whole) == whole
    assert all(kept is given for kept, given in zip(settled(whole), whole, strict=True))


def test_nothing_comes_of_nothing() -> None:
    assert settled([]) == []


@pytest.mark.parametrize("after", [[], [LATER]])
def test_a_call_without_a_result_gets_one_that_says_interrupted(after: list[Message]) -> None:
    whole = settled([USER, calls("a"), *after])
    assert [message.role for message in whole] == ["user", "assistant", "tool", *(m.role for m in after)]
    assert statuses(whole[2]) == [("a", "interrupted")]
    (told,) = whole[2].tool_results
    assert told.name == "look"
    assert "interrupted" in told.text


def test_only_the_missing_results_are_filled_in_and_the_order_is_that_of_the_calls() -> None:
    whole = settled([USER, calls("a", "b", "c"), Message.tool(result("c"), result("a")), LATER])
    assert statuses(whole[2]) == [("a", "ok"), ("b", "interrupted"), ("c", "ok")]


def test_results_in_several_messages_become_one() -> None:
    whole = settled([USER, calls("a", "b"), Message.tool(result("a")), Message.tool(result("b")), LATER])
    assert len(whole) == 4
    assert statuses(whole[2]) == [("a", "ok"), ("b", "ok")]


@pytest.mark.parametrize("together", [True, False])
def test_of_two_results_for_one_call_the_first_holds(together: bool) -> None:
    first, second = result("a", "first"), result("a", "second")
    answers = [Message.tool(first, second)] if together else [Message.tool(first), Message.tool(second)]
    whole = settled([USER, calls("a"), *answers])
    assert [answer.text for answer in whole[2].tool_results] == ["first"]
    assert len(whole) == 3


def test_results_for_calls_that_nobody_made_are_left_out() -> None:
    whole = settled([USER, calls("a"), Message.tool(result("a"), result("ghost")), Message.tool(result("z"))])
    assert statuses(whole[2]) == [("a", "ok")]
    assert len(whole) == 3


@pytest.mark.parametrize(
    "messages",
    [
        [Message.tool(result("a")), USER],
        [USER, Message.tool(result("a"))],
        [USER, Message.assistant("no call"), Message.tool(result("a"))],
    ],
)
def test_results_after_no_call_are_left_out(messages: list[Message]) -> None:
    assert all(message.role != "tool" for message in settled(messages))


def test_two_messages_with_calls_in_a_row_are_each_answered() -> None:
    whole = settled([USER, calls("a"), calls("b"), Message.tool(result("b"))])
    assert [message.role for message in whole] == ["user", "assistant", "tool", "assistant", "tool"]
    assert statuses(whole[2]) == [("a", "interrupted")]
    assert statuses(whole[4]) == [("b", "ok")]


def test_the_same_id_in_two_rounds_is_two_calls() -> None:
    whole = settled([USER, calls("a"), Message.tool(result("a", "old")), calls("a"), LATER])
    assert [answer.text for answer in whole[2].tool_results] == ["old"]
    assert statuses(whole[4]) == [("a", "interrupted")]


def test_what_a_result_shows_and_carries_is_kept() -> None:
    picture = Image(url="https://example.org/a.png")
    rich = ToolResult("b", "look", (Text("see"), picture), "error", {"vendor": 1})
    whole = settled([USER, calls("a", "b"), Message.tool(rich)])
    assert whole[2].tool_results[1] == rich


def test_the_given_messages_are_not_changed() -> None:
    given = [USER, calls("a", "b"), Message.tool(result("b"))]
    before = list(given)
    settled(given)
    assert given == before
    assert statuses(given[2]) == [("b", "ok")]


_ids = st.sampled_from("abcd")
_messages = st.lists(
    st.one_of(
        st.just(USER),
        st.builds(lambda ids: calls(*ids), st.lists(_ids, unique=True, max_size=3)),
        st.builds(lambda ids: Message.tool(*(result(id) for id in ids)), st.lists(_ids, max_size=4)),
    ),
    max_size=8,
)


def check_pairing(messages: Sequence[Message]) -> None:
    for at, message in enumerate(messages):
        following = messages[at + 1] if at + 1 < len(messages) else None
        if message.tool_calls:
            assert following is not None
            assert [r.call_id for r in following.tool_results] == [c.id for c in message.tool_calls]
        if message.role == "tool":
            assert at > 0
            assert messages[at - 1].tool_calls


@given(_messages)
def test_any_conversation_is_settled_once_and_for_all(messages: list[Message]) -> None:
    whole = settled(messages)
    check_pairing(whole)
    assert settled(whole) == whole
    assert [m for m in whole if m.role != "tool"] == [m for m in messages if m.role != "tool"]


# --- what happens -----------------------------------------------------------


def completed(message: Message) -> MessageCompleted:
    return MessageCompleted("turn", "msg", Response(message=message, stop_reason="tool_use"))


class Journal(Scratch):
    def __init__(self, messages: Sequence[Message] = ()) -> None:
        super().__init__("session", messages)

    @property
    def messages(self) -> Sequence[Message]:
        return self.fold.messages

    async def append(self, *entries: LedgerEntry) -> None:
        assert await self.try_append(entries, self.fold.seq)


async def test_results_become_one_message_when_the_last_is_in() -> None:
    history = Journal([Message.system("be brief")])
    await history.append(MessageReceived("m1", USER), TurnStarted("turn", "agent", "x"))
    await history.append(completed(calls("a", "b")))
    await history.append(ToolIntent("turn", "b", "look", "key"), ToolFinished("turn", result("b")))
    assert [message.role for message in history.messages] == ["system", "user", "assistant"]
    await history.append(ToolFinished("turn", result("a")))
    assert statuses(history.messages[-1]) == [("a", "ok"), ("b", "ok")]
    await history.append(completed(Message.assistant("done")), TurnFinished("turn", "end_turn", 2))
    assert [message.role for message in history.messages][2:] == ["assistant", "tool", "assistant"]


async def test_the_same_ids_in_the_next_round_do_not_find_the_old_results() -> None:
    history = Journal()
    for text in ("first", "second"):
        await history.append(completed(calls("a", "b")))
        await history.append(ToolFinished("turn", result("a", text)))
        assert history.messages[-1].role == "assistant"
        await history.append(ToolFinished("turn", result("b", text)))
    assert [m.tool_results[0].text for m in history.messages if m.role == "tool"] == ["first", "second"]
