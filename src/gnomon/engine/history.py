"""Earlier messages that are handed to an agent, made whole: every call in them gets its one result."""

from __future__ import annotations

from collections.abc import Iterable

from gnomon.types.messages import Message, ToolCall, ToolResult

__all__ = ["interrupted", "settled"]


def settled(messages: Iterable[Message]) -> list[Message]:
    """The messages with one result for every call: a call without one poisons all that follows."""
    whole: list[Message] = []
    calls: tuple[ToolCall, ...] = ()
    answers: list[Message] = []
    for message in messages:
        if message.role == "tool":
            answers.append(message)
            continue
        whole += _settled_answers(calls, answers)
        whole.append(message)
        calls, answers = message.tool_calls, []
    return whole + _settled_answers(calls, answers)


def _settled_answers(calls: tuple[ToolCall, ...], answers: list[Message]) -> list[Message]:
    """One message of results for these calls, whether they came in one, in several, or not at all."""
    if not calls:
        return []
    wanted = tuple(call.id for call in calls)
    if len(answers) == 1 and tuple(result.call_id for result in answers[0].tool_results) == wanted:
        return answers
    # From the last to the first, so that of two results for one call the first holds.
    results = reversed([result for answer in answers for result in answer.tool_results])
    given = {result.call_id: result for result in results}
    return [Message.tool(*(given.get(call.id) or interrupted(call) for call in calls))]


def interrupted(call: ToolCall) -> ToolResult:
    return ToolResult.of(call, "this call was interrupted; it is not known to have run", status="interrupted")
