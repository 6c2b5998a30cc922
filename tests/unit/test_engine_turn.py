"""One turn, as its events make it."""

from __future__ import annotations

from decimal import Decimal

from gnomon import (
    Message,
    MessageCompleted,
    ModelStarted,
    Response,
    ToolCall,
    ToolFinished,
    ToolResult,
    Usage,
)
from gnomon.engine.turn import TurnState
from gnomon.types.events import (
    QuestionAnswered,
    QuestionAsked,
    Released,
    ToolIntent,
    TurnCancelled,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Text


def turn() -> TurnState:
    return TurnState(TurnStarted("t", "agent", "m", "hash"), seq=4)


def said(*calls: str, cost: float | None = 0.1) -> MessageCompleted:
    message = Message.assistant("so", *(ToolCall(id, "act", index=at) for at, id in enumerate(calls, 1)))
    used = Usage(input_tokens=2, output_tokens=1)
    return MessageCompleted("t", "m", Response(message=message, stop_reason="tool_use", usage=used), cost)


def result(id: str, text: str = "ok") -> ToolFinished:
    return ToolFinished("t", ToolResult(id, "act", (Text(text),)))


def question(id: str) -> QuestionAsked:
    return QuestionAsked("t", id, "Which?")


def test_what_is_asked_of_the_model_is_open_until_it_answers() -> None:
    state = turn()
    asked = ModelStarted("t", "m", (1, 1))
    assert state.take(asked) is None
    assert state.asking is asked
    state.take(said())
    assert (state.asking, state.rounds, state.cost) == (None, 1, Decimal("0.1"))


def test_how_often_it_was_repaired_is_counted_by_the_messages_that_asked_for_it() -> None:
    state = turn()
    state.take(ModelStarted("t", "m", (1, 1), ("msg_1",)))
    state.take(ModelStarted("t", "m", (1, 1), ("fix_1",)))
    assert state.repairs == 1


def test_the_results_of_all_calls_are_one_message_in_the_order_of_the_calls() -> None:
    state = turn()
    state.take(said("a", "b"))
    assert state.take(result("b")) is None
    assert state.take(result("b", "again")) is None
    assert state.take(result("nobodys")) is None
    message = state.take(result("a"))
    assert message is not None
    assert [(one.call_id, one.text) for one in message.tool_results] == [("a", "ok"), ("b", "ok")]
    assert state.messages[-1] is message
    assert state.open_calls == ()


def test_a_question_is_open_until_it_is_answered_once() -> None:
    state = turn()
    state.take(said("a"))
    state.take(QuestionAnswered("a", (Text("too early"),)))
    assert state.answers == {}
    state.take(question("a"))
    assert [asked.call_id for asked in state.open_questions] == ["a"]
    state.take(QuestionAnswered("a", (Text("first"),)))
    state.take(QuestionAnswered("a", (Text("second"),)))
    assert state.open_questions == ()
    assert state.answers["a"].content == (Text("first"),)


def test_leave_to_run_again_is_used_up_by_the_run() -> None:
    state = turn()
    state.take(said("a"))
    state.take(question("a"))
    state.take(QuestionAnswered("a", run_again=True))
    state.take(ToolIntent("t", "a", "act", "key"))
    assert (state.answers, state.questions, state.intents) == ({}, {}, {"a": "key"})
    state.take(question("a"))
    assert len(state.open_questions) == 1, "what it asks then is asked anew"


def test_a_question_that_comes_again_needs_another_answer() -> None:
    state = turn()
    state.take(said("a"))
    state.take(question("a"))
    state.take(QuestionAnswered("a", (Text("x"),)))
    state.take(question("a"))
    assert len(state.open_questions) == 1


def test_a_paused_turn_goes_on_under_the_new_definition() -> None:
    state = turn()
    state.take(TurnPaused("t", "hash", "changed"))
    assert state.is_paused
    state.take(TurnResumed("t", "newer"))
    assert (state.is_paused, state.agent_hash) == (False, "newer")


def test_what_is_not_the_turns_own_changes_nothing() -> None:
    state = turn()
    before = dict(state.__dict__)
    assert state.take(Released("me", 1)) is None
    assert state.__dict__ == before


def test_the_end_leaves_nothing_asked() -> None:
    state = turn()
    state.take(ModelStarted("t", "m", (1, 1)))
    state.take(TurnCancelled("t"))
    assert (state.asking, type(state.ended)) == (None, TurnCancelled)


def test_a_copy_goes_its_own_way() -> None:
    state = turn()
    state.take(said("a", "b"))
    other = state.copy()
    other.take(result("a"))
    other.take(question("b"))
    other.take(ToolIntent("t", "b", "act", "key"))
    assert (state.results, state.questions, state.intents, len(state.messages)) == ({}, {}, {}, 1)


def test_a_mark_keeps_what_was_used_and_where_it_began() -> None:
    state = turn()
    state.take(said())
    state.take(TurnResumed("t", "newer"))
    again = TurnState.of(state.mark())
    assert (again.id, again.seq, again.rounds, again.usage) == ("t", 4, 1, state.usage)
    assert (again.cost, again.agent_hash) == (Decimal("0.1"), "newer")


def test_a_price_that_is_not_known_stays_unknown() -> None:
    state = turn()
    state.take(said(cost=None))
    state.take(said())
    assert state.cost is None
    assert TurnState.of(state.mark()).cost is None
