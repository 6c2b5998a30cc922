"""What comes next in a session, decided from what is known."""

from __future__ import annotations

from typing import Any

import pytest

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
from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine.accounts import Accounts
from gnomon.engine.budget import Budget
from gnomon.engine.clock import SystemClock
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.fold import Fold
from gnomon.engine.plan import Planner, Step, has_work
from gnomon.errors import Overloaded
from gnomon.facts.catalogue import Catalogue
from gnomon.providers.scripted import ScriptedProvider
from gnomon.types.events import (
    CancelRequested,
    LedgerEntry,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Text


def defined(**more: Any) -> Definition:
    return Definition(
        name="agent",
        provider=ScriptedProvider(["x"]),
        tools=Toolbox(),
        budget=more.pop("budget", Budget()),
        accounts=Accounts(EstimatingCounter, Catalogue()),
        **more,
    )


AGENT = defined()


def received(id: str = "a", **more: Any) -> MessageReceived:
    return MessageReceived(id, Message.user(id), **more)


def started(agent: Definition = AGENT) -> TurnStarted:
    return TurnStarted("t", "agent", "m", agent.hash, inputs=("a",))


def said(*calls: str) -> MessageCompleted:
    message = Message.assistant("so", *(ToolCall(id, "act", index=at) for at, id in enumerate(calls, 1)))
    used = Usage(input_tokens=1, output_tokens=1)
    return MessageCompleted("t", "m", Response(message=message, stop_reason="end_turn", usage=used), 0.5)


def result(id: str) -> ToolFinished:
    return ToolFinished("t", ToolResult(id, "act", (Text("ok"),)))


ASKED = ModelStarted("t", "m1", (1, 1))
QUESTION = QuestionAsked("t", "x", "Which?")


def folded(*entries: LedgerEntry) -> Fold:
    fold = Fold()
    for entry in entries:
        fold.take(fold.seq + 1, entry)
    return fold


def planner(agent: Definition = AGENT, turns: int | None = None) -> Planner:
    made = Planner(agent, SystemClock(), turns=turns)
    made.begin(3)
    return made


def step(*entries: LedgerEntry, by: Planner | None = None, agent: Definition = AGENT) -> Step:
    fold = folded(*entries)
    return (by or planner(agent)).next(fold, fold.open_turn, ())


def kinds(found: Step) -> list[str]:
    return [type(entry).__name__ for entry in found.entries]


# --- between turns ----------------------------------------------------------


def test_without_a_message_there_is_nothing_to_do() -> None:
    assert step() == Step((), "end")


def test_a_message_begins_a_turn_and_each_has_its_own() -> None:
    found = step(received("a"), received("b"))
    assert (kinds(found), found.action) == (["TurnStarted", "ModelStarted"], "ask")
    begun, asked = found.entries
    assert isinstance(begun, TurnStarted)
    assert isinstance(asked, ModelStarted)
    assert (begun.inputs, begun.agent_hash) == (("a",), AGENT.hash)
    assert (asked.turn_id, asked.attempt) == (begun.turn_id, (3, 1))


def test_what_is_handed_in_together_is_answered_together() -> None:
    begun = step(received("a", joins_next=True), received("b"), received("c")).entries[0]
    assert isinstance(begun, TurnStarted)
    assert begun.inputs == ("a", "b")


def test_a_turn_that_was_cancelled_before_it_began_says_so_and_cost_nothing() -> None:
    entries = [received("a"), CancelRequested("now", "changed my mind")]
    found = step(*entries)
    assert (kinds(found), found.action) == (["TurnStarted", "TurnCancelled"], "again")
    cancelled = found.entries[1]
    assert isinstance(cancelled, TurnCancelled)
    assert cancelled.reason == "changed my mind"
    assert folded(*entries, *found.entries).cost == 0.0


@pytest.mark.parametrize("why", ["leaving", "stopped", "none left"])
def test_no_turn_begins_when_the_runner_is_not_to(why: str) -> None:
    made = planner(turns=0 if why == "none left" else None)
    made.is_leaving = why == "leaving"
    if why == "stopped":
        made.stop_after_this()
    assert step(received(), by=made) == Step((), "end")


# --- within a turn ----------------------------------------------------------


def test_a_message_that_was_not_answered_is_asked_for_again_under_its_id() -> None:
    made = planner()
    found = step(received(), started(), ASKED, by=made)
    (asked,) = found.entries
    assert isinstance(asked, ModelStarted)
    assert (asked.message_id, asked.attempt, made.is_again) == ("m1", (3, 1), True)


def test_calls_are_seen_to_before_the_model_is_asked() -> None:
    assert step(received(), started(), said("x")).action == "call"
    assert step(received(), started(), said("x"), result("x")).action == "ask"


def test_a_question_is_waited_for_until_it_is_answered() -> None:
    entries = [received(), started(), said("x"), QUESTION]
    assert step(*entries) == Step((), "wait")
    assert step(*entries, QuestionAnswered("x", (Text("yes"),))).action == "call"


def test_a_message_without_calls_ends_the_turn() -> None:
    found = step(received(), started(), said())
    (ended,) = found.entries
    assert isinstance(ended, TurnFinished)
    assert (ended.stop, ended.rounds, ended.cost, found.action) == ("end_turn", 1, 0.5, "end")


def test_the_end_of_a_turn_and_the_begin_of_the_next_are_one_step() -> None:
    found = step(received(), received("b"), started(), said())
    assert (kinds(found), found.action) == (["TurnFinished", "TurnStarted", "ModelStarted"], "ask")


def test_a_message_that_steers_goes_into_the_turn_and_keeps_it_going() -> None:
    found = step(received(), started(), said(), received("b", steer=True))
    (asked,) = found.entries
    assert isinstance(asked, ModelStarted)
    assert (asked.inputs, found.action) == (("b",), "ask")


def test_a_limit_ends_a_turn_that_would_go_on() -> None:
    agent = defined(budget=Budget(rounds=1))
    (ended,) = step(received(), started(agent), said("x"), result("x"), agent=agent).entries
    assert isinstance(ended, TurnFinished)
    assert ended.stop == "rounds"


def test_a_runner_that_leaves_lets_the_turn_stay_open() -> None:
    made = planner()
    made.is_leaving = True
    assert step(received(), started(), said("x"), by=made) == Step((), "end")


# --- how a turn ends otherwise ----------------------------------------------


@pytest.mark.parametrize("asked_by", ["the runner", "the ledger"])
def test_a_cancelled_turn_has_a_result_for_every_call(asked_by: str) -> None:
    made = planner()
    entries = [received(), started(), said("x", "y", "z"), result("x"), ToolIntent("t", "y", "act", "key")]
    if asked_by == "the runner":
        made.is_cancelled, made.reason = True, "enough"
    else:
        entries.append(CancelRequested("now", "enough"))
    found = step(*entries, by=made)
    assert kinds(found) == ["ToolFinished", "ToolFinished", "TurnCancelled"]
    begun, unbegun, ended = found.entries
    assert isinstance(begun, ToolFinished)
    assert isinstance(unbegun, ToolFinished)
    assert isinstance(ended, TurnCancelled)
    assert (begun.result.status, begun.result.call_id) == ("cancelled", "y")
    assert "before it was known to have had its effect" in begun.result.text
    assert "not run" in unbegun.result.text
    assert (ended.reason, ended.cost) == ("enough", 0.5)


def test_a_failure_ends_the_turn_with_what_went_wrong() -> None:
    made = planner()
    made.failure = Overloaded("too busy")
    found = step(received(), started(), said("x"), by=made)
    assert kinds(found) == ["ToolFinished", "TurnFailed"]
    failed = found.entries[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.error.code == "overloaded"
    after = folded(received(), started(), said("x"), *found.entries)
    assert (after.open_turn, after.open_calls) == (None, ())


# --- an agent that was changed ----------------------------------------------


def under(on_change: str, *more: LedgerEntry) -> Step:
    return step(received(), started(), said("x"), result("x"), *more, agent=changed(on_change))


def changed(on_change: str) -> Definition:
    return defined(instructions="Be another.", on_change=on_change)


def test_a_change_is_noted_and_the_turn_goes_on() -> None:
    found = under("continue")
    assert (kinds(found), found.action) == (["TurnResumed", "ModelStarted"], "ask")


def test_a_change_pauses_the_turn_once() -> None:
    found = under("pause")
    assert (kinds(found), found.action) == (["TurnPaused"], "wait")
    assert under("pause", *found.entries) == Step((), "wait")


def test_a_paused_turn_goes_on_when_it_is_resumed_under_the_new_definition() -> None:
    agent = changed("pause")
    found = under("pause", TurnPaused("t", AGENT.hash), TurnResumed("t", agent.hash, "resume"))
    assert (kinds(found), found.action) == (["ModelStarted"], "ask")


def test_a_change_that_is_refused_fails_the_turn() -> None:
    found = under("refuse")
    (failed,) = found.entries
    assert isinstance(failed, TurnFailed)
    assert failed.error.code == "definition_changed"


# --- whether there is anything to do ----------------------------------------


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([], False),
        ([received()], True),
        ([received(), started()], True),
        ([received(), started(), said("x"), QUESTION], False),
        ([received(), started(), said("x"), QUESTION, CancelRequested()], True),
        ([received(), started(), said("x"), QUESTION, QuestionAnswered("x", run_again=True)], True),
        ([received(), started(), said(), TurnFinished("t", "end_turn", 1)], False),
    ],
    ids=["empty", "a message", "a turn", "a question", "a cancel", "an answer", "an end"],
)
def test_whether_a_runner_would_find_something_to_do(entries: list[LedgerEntry], wanted: bool) -> None:
    assert has_work(folded(*entries), AGENT) is wanted


def test_a_paused_turn_is_work_only_for_the_agent_that_it_began_with() -> None:
    fold = folded(received(), started(), TurnPaused("t", AGENT.hash))
    assert has_work(fold, AGENT)
    assert has_work(fold, changed("continue"))
    assert not has_work(fold, changed("pause"))
