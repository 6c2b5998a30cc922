"""Spans out of ledgers: which there are, how they hang together, and that they are always the same."""

from __future__ import annotations

import msgspec
import pytest
from session_stage import ledger_of
from traced import START, STARTED, after, answered, asked, by_kind, only, placed, tree

from gnomon import Agent, tool
from gnomon.errors import TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.tracing import Tracer, spans
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetWarning,
    CancelRequested,
    Claimed,
    Compacted,
    Error,
    Event,
    Guarded,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    Released,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Unknown,
)
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from gnomon.types.requests import Spent, Usage
from gnomon.types.steps import GuardrailResult

PAY = ToolCall("c1", "pay", '{"amount": 12}')
LOOK = ToolCall("c2", "look", "not json", index=1)
FINISHED = TurnFinished("t1", "end_turn", 2, Usage(input_tokens=20, output_tokens=8), 0.5)


def done(call: ToolCall, *, status: str = "ok", run_s: float = 0.0, text: str = "well") -> ToolFinished:
    return ToolFinished("t1", ToolResult.of(call, text, status=status), run_s)  # type: ignore[arg-type]


def made(*entries: Event | tuple[float, Event], content: bool = False):
    return spans("s", placed(*entries), content=content)


WHOLE = (
    MessageReceived("u1", Message.user("Buy it.")),
    Claimed("me", 1),
    STARTED,
    asked(),
    answered("I pay.", PAY, LOOK),
    ToolIntent("t1", "c1", "pay", "k"),
    done(PAY, run_s=0.5),
    done(LOOK, status="error", text="no such thing"),
    asked("m2"),
    answered("Bought.", message_id="m2"),
    FINISHED,
    Released("me", 1),
)


# --- a turn -------------------------------------------------------------------


def test_a_turn_its_answers_and_its_calls_are_spans_below_it() -> None:
    found = made(*WHOLE)
    assert tree(found) == {
        ("turn", "shop", None),
        ("model", "gpt-5", "turn shop"),
        ("tool", "pay", "turn shop"),
        ("tool", "look", "turn shop"),
    }
    assert [span.kind for span in found] == ["turn", "model", "tool", "tool", "model"]
    assert {span.session_id for span in found} == {"s"}
    assert {span.attributes["turn_id"] for span in found} == {"t1"}


def test_times_are_those_of_the_events() -> None:
    found = made(*WHOLE)
    assert [(span.started_at, span.ended_at) for span in by_kind(found, "turn")] == [(after(2), after(10))]
    assert [(span.started_at, span.ended_at) for span in by_kind(found, "model")] == [
        (after(3), after(4)),
        (after(8), after(9)),
    ]
    pay, look = by_kind(found, "tool")
    assert (pay.started_at, pay.ended_at) == (after(5), after(6)), "from its intent on"
    assert (look.started_at, look.ended_at) == (after(4), after(7)), "one that reads has no intent"


def test_a_turn_says_what_it_used_and_how_it_ended() -> None:
    turn = only(made(*WHOLE), "turn")
    assert turn.error is None
    assert turn.attributes == {
        "turn_id": "t1",
        "agent": "shop",
        "model": "openai:gpt-5",
        "agent_hash": "h1",
        "stop": "end_turn",
        "rounds": 2,
        "status": "finished",
        "input_tokens": 20,
        "output_tokens": 8,
        "cost": 0.5,
    }


def test_an_answer_says_who_gave_it_and_what_it_used() -> None:
    model = by_kind(made(*WHOLE), "model")[1]
    assert model.attributes == {
        "turn_id": "t1",
        "message_id": "m2",
        "attempt": "1.1",
        "provider": "openai",
        "request_model": "gpt-5",
        "response_model": "gpt-5-2026",
        "response_id": "r1",
        "stop": "end_turn",
        "input_tokens": 10,
        "output_tokens": 4,
        "cache_read_tokens": 30,
        "reasoning_tokens": 1,
        "cost": 0.25,
    }


def test_a_call_says_how_it_ended_and_how_long_it_ran() -> None:
    pay, look = by_kind(made(*WHOLE), "tool")
    assert (pay.error, look.error) == (None, "error")
    assert pay.attributes == {"turn_id": "t1", "call_id": "c1", "status": "ok", "run_s": 0.5}
    assert look.attributes["status"] == "error"


def test_what_was_spent_on_attempts_that_failed_stands_with_the_answer() -> None:
    lost = (
        Spent(input_tokens=7, output_tokens=2, provider="a"),
        Spent(input_tokens=5, provider="b"),
    )
    model = only(made(STARTED, asked(), answered("Hi.", discarded=lost), FINISHED), "model")
    told = {name: value for name, value in model.attributes.items() if name.startswith("discarded")}
    assert told == {"discarded": 2, "discarded_input_tokens": 12, "discarded_output_tokens": 2}


def test_unknown_usage_and_cost_are_left_out_and_zero_is_not() -> None:
    (turn,) = made(STARTED, TurnFinished("t1", "rounds", 0, Usage(input_tokens=0), None))
    assert turn.attributes["input_tokens"] == 0
    assert not {"cost", "output_tokens"} & turn.attributes.keys()


def test_a_model_that_names_no_provider_is_a_name_all_the_same() -> None:
    found = made(TurnStarted("t1", "shop", "gpt"), asked(), TurnCancelled("t1"))
    model = only(found, "model")
    assert (model.name, "provider" in model.attributes) == ("gpt", False)


# --- the same again -------------------------------------------------------------


def test_the_same_events_give_the_same_spans() -> None:
    assert made(*WHOLE) == made(*WHOLE)
    assert len({span.id for span in made(*WHOLE)}) == 5


def test_another_session_has_other_ids() -> None:
    """A fork has the same events, with the same ids of turns and messages."""
    one, two = spans("a", placed(*WHOLE)), spans("b", placed(*WHOLE))
    assert not {span.id for span in one} & {span.id for span in two}


def test_an_id_cannot_be_made_to_reach_into_its_neighbour() -> None:
    def ids(turn_id: str, message_id: str) -> set[str]:
        started = TurnStarted(turn_id, "shop", "m")
        asking = msgspec.structs.replace(asked(message_id), turn_id=turn_id)
        return {span.id for span in spans("s", placed(started, asking))}

    assert not ids("t', 'x", "m") & ids("t", "x', 'm")
    assert ids("t\ud83d", "m"), "half a character is somebody's id too"


def test_a_turn_that_is_read_while_it_runs_gets_the_same_ids_when_it_has_ended() -> None:
    whole = {span.id for span in made(*WHOLE)}
    for end in range(3, len(WHOLE)):
        part = made(*WHOLE[:end])
        assert {span.id for span in part} <= whole
        assert (part[0].ended_at is None) == (end < 11)


def test_the_calls_of_two_messages_may_have_the_same_id() -> None:
    """Some servers name the first call of every answer alike."""
    found = made(
        STARTED, asked(), answered(PAY), done(PAY), asked("m2"), answered(PAY, message_id="m2"), done(PAY)
    )
    assert len({span.id for span in by_kind(found, "tool")}) == 2
    assert all(span.ended_at for span in by_kind(found, "tool"))


# --- what is open, cut short or odd ---------------------------------------------


def test_what_is_open_has_no_end() -> None:
    found = made(STARTED, asked(), answered(PAY), ToolIntent("t1", "c1", "pay", "k"))
    assert [(span.kind, span.ended_at is None) for span in found] == [
        ("turn", True),
        ("model", False),
        ("tool", True),
    ]


def test_a_call_of_the_model_that_another_runner_makes_again_was_interrupted() -> None:
    found = made(STARTED, asked(), Claimed("other", 2), asked(attempt=(2, 1)), answered("Hi."), FINISHED)
    first, second = by_kind(found, "model")
    assert (first.error, first.ended_at, first.attributes["attempt"]) == ("interrupted", after(3), "1.1")
    assert (second.error, second.ended_at, second.attributes["attempt"]) == (None, after(4), "2.1")
    assert first.id != second.id


def test_a_failed_turn_names_its_error_and_so_does_the_call_it_failed_in() -> None:
    failed = TurnFailed("t1", Error("rate_limited", "too many: sk-secret"), Usage(input_tokens=3), 0.1)
    turn, model = made(STARTED, asked(), failed)
    assert (turn.error, turn.attributes["status"], turn.attributes["input_tokens"]) == (
        "rate_limited",
        "failed",
        3,
    )
    assert (model.error, model.ended_at, model.attributes["status"]) == ("rate_limited", after(2), "failed")
    assert "sk-secret" not in str((turn, model))


def test_a_cancelled_turn_is_no_error() -> None:
    turn, model = made(STARTED, asked(), CancelRequested(), TurnCancelled("t1", "enough"))
    assert (turn.error, turn.attributes["status"], turn.ended_at) == (None, "cancelled", after(3))
    assert (model.error, model.attributes["status"], model.ended_at) == (None, "cancelled", after(3))


@pytest.mark.parametrize(
    ("status", "error"),
    [("ok", None), ("cancelled", None), ("denied", "denied"), ("timeout", "timeout"), ("unknown", "unknown")],
)
def test_the_status_of_a_result_is_the_error_of_its_call(status: str, error: str | None) -> None:
    found = made(STARTED, asked(), answered(PAY), done(PAY, status=status))
    assert (only(found, "tool").error, only(found, "tool").attributes["status"]) == (error, status)


def test_of_two_results_the_first_holds() -> None:
    found = made(
        STARTED, asked(), answered(PAY), done(PAY), done(PAY, status="error", text="late"), content=True
    )
    assert (only(found, "tool").error, only(found, "tool").output) == (None, "well")
    assert only(found, "tool").ended_at == after(3)


def test_calls_without_a_result_end_with_their_turn() -> None:
    found = made(STARTED, asked(), answered(PAY, LOOK), ToolIntent("t1", "c1", "pay", "k"), FINISHED)
    assert [(span.name, span.error, span.ended_at) for span in by_kind(found, "tool")] == [
        ("pay", "interrupted", after(4)),
        ("look", "interrupted", after(4)),
    ]


def test_a_call_that_is_run_again_is_one_span() -> None:
    found = made(
        STARTED,
        asked(),
        answered(PAY),
        ToolIntent("t1", "c1", "pay", "k"),
        QuestionAsked("t1", "c1", "Was it paid?", unknown=True),
        QuestionAnswered("c1", run_again=True),
        ToolIntent("t1", "c1", "pay", "k"),
        done(PAY),
    )
    pay = only(found, "tool")
    assert (pay.attributes["runs"], pay.attributes["waited_s"]) == (2, 1.0)
    assert only(found, "wait").attributes["unknown"] is True


def test_a_log_that_begins_in_the_midst_of_a_turn_has_spans_too() -> None:
    turn, model, pay = made(answered(PAY), done(PAY), FINISHED)
    assert (turn.kind, turn.name, turn.started_at, turn.ended_at) == ("turn", "", START, after(2))
    assert (model.started_at, model.ended_at, model.attributes["attempt"]) == (START, START, "0.0")
    assert pay.parent_id == turn.id


def test_what_belongs_to_no_turn_that_is_open_is_passed_over() -> None:
    stray = (
        done(PAY),
        asked(),
        answered("Late."),
        ToolIntent("t1", "nobody", "x", "k"),
        QuestionAnswered("c9"),
        ApprovalDecided("a9", "approved", "x"),
        SubagentFinished("t1", "nobody", "finished"),
        BudgetWarning("t1", "tokens", 1, 2),
        Unknown("newer", {"turn_id": "t1"}),
    )
    assert made(STARTED, FINISHED, *stray) == made(STARTED, FINISHED)
    inside = made(STARTED, *(entry for entry in stray if entry not in stray[1:3]), (1, FINISHED))
    assert [span.kind for span in inside] == ["turn"]
    assert made(Unknown("newer"), QuestionAnswered("c9")) == ()


def test_what_comes_late_is_not_taken_for_a_part_of_the_turn_after() -> None:
    second = TurnStarted("t2", "shop", "m")
    found = made(STARTED, FINISHED, second, asked(), done(PAY), FINISHED)
    assert [(span.kind, span.ended_at) for span in found] == [("turn", after(1)), ("turn", None)]


def test_a_turn_that_begins_while_another_is_open_leaves_that_one_open() -> None:
    first, second = made(STARTED, TurnStarted("t2", "shop", "m"))
    assert (first.attributes["turn_id"], first.ended_at) == ("t1", None)
    assert second.attributes["turn_id"] == "t2"


def test_no_span_ends_before_it_begins_when_clocks_differ() -> None:
    found = made((10, STARTED), (10, asked()), (4, answered("Hi.")), (5, FINISHED))
    assert all(span.ended_at == span.started_at == after(10) for span in found)


def test_a_long_ledger_is_handed_over_turn_by_turn() -> None:
    tracer = Tracer("s")
    handed = [
        len(tracer.take(seq, entry, at))
        for turn in range(3)
        for seq, entry, at in placed(
            TurnStarted(f"t{turn}", "shop", "m"), TurnFinished(f"t{turn}", "end_turn", 0)
        )
    ]
    assert handed == [0, 1, 0, 1, 0, 1]
    assert tracer.rest() == ()


# --- people, guardrails, compaction, sub-agents -----------------------------------


def test_waiting_for_leave_is_a_span_of_its_own_below_the_call() -> None:
    found = made(
        STARTED,
        asked(),
        answered(PAY),
        ApprovalRequested("t1", "a1", PAY, "hash"),
        ApprovalDecided("a1", "approved", "ann"),
        ToolIntent("t1", "c1", "pay", "k"),
        (9, done(PAY)),
        FINISHED,
    )
    wait, pay = only(found, "wait"), only(found, "tool")
    assert ("wait", "approval", "tool pay") in tree(found)
    assert (wait.started_at, wait.ended_at, wait.attributes["decision"]) == (after(3), after(4), "approved")
    assert (pay.started_at, pay.ended_at, pay.attributes["waited_s"]) == (after(3), after(9), 1.0)
    assert "ann" not in str(found)


def test_a_question_is_a_span_of_its_own_until_it_is_answered() -> None:
    asking = (STARTED, asked(), answered(PAY), QuestionAsked("t1", "c1", "How much?"))
    assert only(made(*asking), "wait").ended_at is None
    found = made(*asking, (50, QuestionAnswered("c1", (Text("12"),), by="bob")), (51, done(PAY)), FINISHED)
    wait = only(found, "wait")
    assert (wait.name, wait.ended_at, wait.input) == ("question", after(50), None)
    assert only(found, "tool").attributes["waited_s"] == 47.0


def test_what_a_call_waited_for_ends_with_it() -> None:
    found = made(
        STARTED,
        asked(),
        answered(PAY),
        QuestionAsked("t1", "c1", "?"),
        done(PAY, status="cancelled"),
        FINISHED,
    )
    assert only(found, "wait").ended_at == only(found, "tool").ended_at == after(4)


def test_leave_that_a_sub_agent_asks_for_is_waited_for_below_it_also_where_its_call_is_named_like_ours() -> (
    None
):
    theirs = ToolCall(LOOK.id, "rm")
    found = made(
        STARTED,
        asked(),
        answered(PAY, LOOK),
        SubagentStarted("t1", "sub1", "sub1", "helper", PAY.id),
        ApprovalRequested("t1", "a1", theirs, "hash", path=("sub1",)),
        ApprovalDecided("a1", "approved", "ann"),
        SubagentFinished("t1", "sub1", "finished"),
        done(PAY),
        done(LOOK),
        FINISHED,
    )
    assert ("wait", "approval", "subagent helper") in tree(found)
    wait = only(found, "wait")
    assert (wait.attributes["call_id"], wait.attributes["tool"]) == (LOOK.id, "rm")
    assert all("waited_s" not in span.attributes for span in found if span.kind == "tool")


def test_leave_that_a_sub_agent_asks_for_is_waited_for_by_the_turn() -> None:
    asking = ApprovalRequested("t1", "a1", ToolCall("theirs", "rm"), "hash", path=("helper",))
    found = made(STARTED, asking, FINISHED)
    assert tree(found) == {("turn", "shop", None), ("wait", "approval", "turn shop")}
    assert only(found, "wait").ended_at == after(2), "it ends with its turn"


def test_a_pause_is_waited_for_too() -> None:
    found = made(STARTED, TurnPaused("t1", "h1"), (60, TurnResumed("t1", "h2")), (61, FINISHED))
    wait = only(found, "wait")
    assert (wait.name, wait.started_at, wait.ended_at) == ("pause", after(1), after(60))


def test_a_guardrail_stands_below_what_it_stopped() -> None:
    found = made(
        STARTED,
        Guarded(turn_id="t1", guardrail="words", position="input", reason="said x", message_id="u1"),
        asked(),
        answered(PAY),
        Guarded(turn_id="t1", guardrail="pii", position="output", reason="y", message_id="m1", replaced=True),
        Guarded(turn_id="t1", guardrail="keys", position="tool_arguments", reason="z", call_id="c1"),
        FINISHED,
    )
    assert {each for each in tree(found) if each[0] == "guardrail"} == {
        ("guardrail", "words", "turn shop"),
        ("guardrail", "pii", "model gpt-5"),
        ("guardrail", "keys", "tool pay"),
    }
    words, pii, _ = by_kind(found, "guardrail")
    assert (words.error, pii.error) == ("guardrail_tripped", None)
    assert words.started_at == words.ended_at == after(1)
    assert (pii.attributes["position"], pii.attributes["replaced"]) == ("output", True)
    assert "said x" not in str(found)


COMPACTED = Compacted(
    "t1", 4, 900, 100, compactor="summarize", usage=Usage(input_tokens=9), cost=0.1, messages_before=30
)


def test_a_compaction_says_what_it_saved_and_what_it_cost() -> None:
    span = only(made(STARTED, COMPACTED, FINISHED), "compaction")
    assert (span.name, span.started_at, span.ended_at) == ("summarize", after(1), after(1))
    told = {"tokens_before": 900, "tokens_after": 100, "messages_before": 30, "reason": "budget"}
    assert told.items() <= span.attributes.items()
    assert (span.attributes["input_tokens"], span.attributes["cost"]) == (9, 0.1)


def test_a_compaction_between_turns_stands_by_itself() -> None:
    by_hand = msgspec.structs.replace(COMPACTED, turn_id="", compactor="")
    found = made(STARTED, FINISHED, by_hand, by_hand)
    one, two = by_kind(found, "compaction")
    assert (one.name, one.parent_id, one.started_at) == ("compaction", None, after(2))
    assert one.id != two.id


def test_a_sub_agent_is_a_span_below_its_call() -> None:
    found = made(
        STARTED,
        asked(),
        answered(PAY),
        SubagentStarted("t1", "sub1", "ses_child", "helper", "c1"),
        SubagentFinished("t1", "sub1", "failed", Usage(input_tokens=5), 0.2),
        done(PAY),
        FINISHED,
    )
    span = only(found, "subagent")
    assert ("subagent", "helper", "tool pay") in tree(found)
    assert (span.started_at, span.ended_at, span.error) == (after(3), after(4), "failed")
    assert span.attributes["subagent_session_id"] == "ses_child"
    assert (span.attributes["input_tokens"], span.attributes["cost"]) == (5, 0.2)


def test_a_sub_agent_may_outlive_the_turn_that_started_it() -> None:
    found = made(STARTED, SubagentStarted("t1", "sub1", "ses_child", "helper"), FINISHED)
    assert only(found, "subagent").ended_at is None
    assert only(found, "turn").ended_at is not None


# --- content ------------------------------------------------------------------------


def test_what_was_said_is_left_out() -> None:
    found = made(*WHOLE)
    assert {(span.input, span.output) for span in found} == {(None, None)}
    assert not [word for word in ("Buy it", "I pay", "amount", "no such thing") if word in str(found)]


def test_what_was_said_is_there_when_it_is_asked_for() -> None:
    turn, first, pay, look, second = made(*WHOLE, content=True)
    heard = {"role": "user", "parts": [{"type": "text", "content": "Buy it."}]}
    bought = {"role": "assistant", "parts": [{"type": "text", "content": "Bought."}]}
    assert (turn.input, turn.output) == ([heard], [bought])
    assert first.input == [heard]
    assert (pay.input, pay.output) == ({"amount": 12}, "well")
    assert (look.input, look.output) == ("not json", "no such thing"), "as it came, where it is no JSON"
    assert second.output == [bought]
    results = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "well"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": "no such thing"}]},
    ]
    assert second.input == results, "what is new since the answer before"


def test_a_message_that_steers_is_told_with_the_call_that_takes_it() -> None:
    steered = msgspec.structs.replace(asked("m2"), inputs=("u2",))
    found = made(
        STARTED,
        asked(),
        answered("Hm."),
        MessageReceived("u2", Message.user("Faster.")),
        steered,
        content=True,
    )
    assert by_kind(found, "model")[1].input == [
        {"role": "user", "parts": [{"type": "text", "content": "Faster."}]}
    ]


def guarded(message_id: str, shown: str | None) -> Guarded:
    message = None if shown is None else Message.user(shown)
    return Guarded(
        turn_id="t1",
        guardrail="words",
        position="input",
        reason="said x",
        message_id=message_id,
        replaced=shown is not None,
        message=message,
    )


@pytest.mark.parametrize("shown", [None, "Buy ***."])
@pytest.mark.parametrize("steers", [False, True])
def test_what_a_guardrail_keeps_from_the_model_is_kept_from_the_spans(
    shown: str | None, steers: bool
) -> None:
    secret = MessageReceived("u1", Message.user("Buy plutonium."), steer=steers)
    other = MessageReceived("u2", Message.user("And tea."))
    started = msgspec.structs.replace(STARTED, inputs=("u2",) if steers else ("u1", "u2"))
    asking = msgspec.structs.replace(asked(), inputs=("u1",) if steers else ())
    found = made(secret, other, started, guarded("u1", shown), asking, content=True)
    assert "plutonium" not in str(found)
    heard = [part["content"] for said in only(found, "model").input for part in said["parts"]]  # type: ignore[attr-defined]
    assert sorted(heard) == sorted(["And tea.", *([shown] if shown else [])])
    alone = made(secret, STARTED, guarded("u1", None), asked(), content=True)
    assert (alone[0].input, only(alone, "model").input) == (None, [])


def test_arguments_that_were_stopped_while_the_model_spoke_stand_below_its_answer() -> None:
    """The call is not known yet, and one of the answer before may have the same id."""
    stopped = Guarded(
        turn_id="t1",
        guardrail="keys",
        position="tool_arguments",
        reason="z",
        call_id="c1",
        message_id="m2",
        replaced=True,
    )
    found = made(
        STARTED, asked(), answered(PAY), done(PAY), asked("m2"), stopped, answered(PAY, message_id="m2")
    )
    assert only(found, "guardrail").parent_id == by_kind(found, "model")[1].id


def test_questions_and_reasons_are_content() -> None:
    found = made(
        STARTED,
        QuestionAsked("t1", "c1", "How much?"),
        Guarded(turn_id="t1", guardrail="words", position="input", reason="said x"),
        content=True,
    )
    assert only(found, "wait").input == "How much?"
    assert only(found, "guardrail").output == "said x"


def test_media_are_told_by_kind_and_size() -> None:
    parts = (
        Image(data=b"123", media_type="image/png"),
        Audio(url="https://example.org/a.mp3", media_type="audio/mpeg"),
        File(url="data:text/plain;base64,AAAA"),
        Thinking("hm"),
        PAY,
        UnknownPart("hologram", {"secret": 1}),
        ToolResult("c1", content=(Text("a"), Image(data=b"12"))),
    )
    received = MessageReceived("u1", Message("user", parts))
    (said,) = made(received, STARTED, content=True)[0].input  # type: ignore[misc]
    assert said["parts"] == [
        {"type": "image", "mime_type": "image/png", "bytes": 3},
        {"type": "uri", "modality": "audio", "mime_type": "audio/mpeg", "uri": "https://example.org/a.mp3"},
        {"type": "document", "mime_type": None, "bytes": 27},
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "id": "c1", "name": "pay", "arguments": {"amount": 12}},
        {"type": "hologram"},
        {
            "type": "tool_call_response",
            "id": "c1",
            "response": [
                {"type": "text", "content": "a"},
                {"type": "image", "mime_type": None, "bytes": 2},
            ],
        },
    ]


# --- ledgers that an agent has written ------------------------------------------------


@tool(read_only=True)
def price(what: str) -> str:
    """What something costs."""
    return f"{what} costs 3"


@tool
def order(what: str) -> str:
    """Order something."""
    return f"{what} is ordered"


class NoSecrets:
    name = "no-secrets"
    positions = frozenset({"input", "output", "tool_results"})

    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("secret" not in content, "a secret", content.replace("secret", "***"))


async def test_the_ledger_of_an_agent_with_leave_and_guardrails_gives_its_spans() -> None:
    store = MemoryStorage()
    script = [
        calls("order", what="tea").expecting(text="A *** tea."),
        says("It is a secret.").expecting(result="tea is ordered"),
    ]
    asking = Agent(
        ScriptedProvider(script), tools=[order], storage=store, permissions="ask", guardrails=[NoSecrets()]
    )
    async with asking as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("A secret tea.")
        await session.approve(by="ann")
        await session.turn_result()
        page = await store.list_events("s", 0, 1_000)
        entries = await ledger_of(store)
    reads = [(event.seq, entry, event.created_at) for event, entry in zip(page.items, entries, strict=True)]
    found = spans("s", reads, content=True)
    assert tree(found) == {
        ("turn", "agent", None),
        ("guardrail", "no-secrets", "turn agent"),
        ("guardrail", "no-secrets", "model scripted"),
        ("model", "scripted", "turn agent"),
        ("tool", "order", "turn agent"),
        ("wait", "approval", "tool order"),
    }
    assert all(span.ended_at is not None and span.error is None for span in found)
    assert only(found, "wait").attributes["decision"] == "approved"
    said = str([(span.input, span.output) for span in found if span.kind != "guardrail"])
    assert "secret" not in said
    assert "A *** tea." in said


async def test_the_ledger_of_an_agent_gives_its_spans() -> None:
    store = MemoryStorage()
    script = [
        calls("price", what="tea").expecting(text="Tea, please."),
        calls("order", what="tea").expecting(result="tea costs 3"),
        says("Ordered.").expecting(result="tea is ordered"),
        says("Goodbye.").expecting(text="Thanks."),
    ]
    async with Agent(ScriptedProvider(script), tools=[price, order], name="shop", storage=store) as agent:
        session = agent.session("s")
        turns = [await session.run("Tea, please."), await session.run("Thanks.")]
        page = await store.list_events("s", 0, 1_000)
        entries = await ledger_of(store)
    reads = [(event.seq, entry, event.created_at) for event, entry in zip(page.items, entries, strict=True)]
    found = spans("s", reads)
    assert tree(found) == {
        ("turn", "shop", None),
        ("model", "scripted", "turn shop"),
        ("tool", "price", "turn shop"),
        ("tool", "order", "turn shop"),
    }
    assert [span.kind for span in found] == [
        "turn",
        "model",
        "tool",
        "model",
        "tool",
        "model",
        "turn",
        "model",
    ]
    assert all(span.ended_at is not None and span.error is None for span in found)
    assert [span.attributes["turn_id"] for span in by_kind(found, "turn")] == [turn.id for turn in turns]
    assert [span.attributes["input_tokens"] for span in by_kind(found, "turn")] == [
        turn.usage.input_tokens for turn in turns
    ]
