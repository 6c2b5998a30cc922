"""What `gnomon events` says of each kind of event around the loop, and how a request for leave is shown."""

from __future__ import annotations

import pytest

from gnomon.cli.event_words import words
from gnomon.cli.leave import Leave, _read, as_shown, request_lines
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetWarning,
    Compacted,
    Error,
    Guarded,
    SessionEvent,
    SubagentFinished,
    SubagentStarted,
)
from gnomon.types.messages import ToolCall
from gnomon.types.records import utc_now
from gnomon.types.requests import Usage

CALL = ToolCall("c1", "pay", '{"amount":5}')
ASKED = ApprovalRequested("t", "apr_1", CALL, "hash", reason="in mode ask", rule='allow pay(=={"amount":5})')


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ASKED, 'pay({"amount":5}) · in mode ask · apr_1'),
        (ApprovalRequested("t", "a", CALL, "h", path=("sub_1",)), 'pay({"amount":5}) · a · of a sub-agent'),
        (ApprovalDecided("a", "denied", "ada", "too dear"), "denied · by ada · too dear"),
        (ApprovalDecided("a", "approved", "", rule="allow pay"), "approved · always: allow pay"),
        (
            Guarded(turn_id="t", guardrail="pii", position="tool_results", reason="a card", replaced=True),
            "pii · tool results · replaced · a card",
        ),
        (Guarded(turn_id="t", guardrail="b", position="input", reason="r"), "b · input · stopped · r"),
        (
            Compacted(
                "t", 3, 9000, 400, messages_before=90, messages_after=7, compactor="truncate", cost=0.5
            ),
            "90 → 7 messages · 9,000 → 400 tokens · truncate · it grew long · $0.500000",
        ),
        (SubagentStarted("t", "sub_1", "sub_1", "helper"), "helper · sub_1"),
        (
            SubagentFinished("t", "s", "finished", Usage(output_tokens=7), 0.25, "Done."),
            "finished · Done. · 7 tokens · $0.250000",
        ),
        (SubagentFinished("t", "s", "failed", error=Error("cut", "broke off")), "failed · broke off"),
        (BudgetWarning("t", "tokens", 900, 1000), "tokens: 900 of 1,000"),
    ],
)
def test_what_an_event_says(event: SessionEvent, said: str) -> None:
    assert words(event) == said


def test_a_request_is_shown_whole_with_what_cannot_be_seen_spelt_out() -> None:
    call = ToolCall("c", "run", '{"a":  "x\u202ey",\n"b":"\x1b[2J"}')
    assert as_shown(call) == 'run({"a":  "x\\u202ey", "b":"\\u001b[2J"})'
    assert "(5,000 characters in all)" in as_shown(ToolCall("c", "run", "x" * 5_000))


def test_a_request_says_whose_it_is_why_and_until_when() -> None:
    lines = request_lines(ASKED)
    assert lines == ['pay({"amount":5})', "  needs leave: in mode ask", f"  always means: {ASKED.rule}"]
    late = ApprovalRequested("t", "a", CALL, "h", utc_now(), ("sub_1",), "r")
    assert request_lines(late)[1] == "  needs leave of a sub-agent: r"
    assert request_lines(late)[2].startswith("  until 2")


@pytest.mark.parametrize(
    ("line", "leave"),
    [
        ("y\n", Leave("approve")),
        ("YES", Leave("approve")),
        ("n", Leave("deny")),
        ("no, too dear\n", Leave("deny", "too dear")),
        ("a", Leave("always")),
        ("", None),
        ("yes but", None),
        ("yn", None),
    ],
)
def test_an_answer_is_read_or_asked_for_again(line: str, leave: Leave | None) -> None:
    assert _read(line, may_always=True) == leave


def test_always_is_no_answer_where_there_is_no_rule_to_save() -> None:
    assert _read("always", may_always=False) is None
