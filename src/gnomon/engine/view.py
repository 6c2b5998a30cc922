"""The messages that a model is shown, as events make them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gnomon.types.events import Compacted, Event, MessageCompleted, MessageReceived, ToolFinished, ToolIntent
from gnomon.types.messages import Message, ToolCall, ToolResult

__all__ = ["View"]


class View:
    """The current view of a ledger: it starts where the last compaction said.

    Results become one message when the last of them is in, in the order of the
    calls; that message stands where the calls stand, so that a view never parts them.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._places = [0] * len(self._messages)
        self._calls: tuple[ToolCall, ...] = ()
        self._called_at = 0
        self._results: dict[str, ToolResult] = {}
        self._intents: dict[str, str] = {}

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for call in self._calls if call.id not in self._results)

    @property
    def intents(self) -> dict[str, str]:
        return {call_id: key for call_id, key in self._intents.items() if call_id not in self._results}

    def has_result(self, call_id: str) -> bool:
        """Whether that call of the last message is answered."""
        return call_id in self._results

    def take(self, seq: int, event: Event) -> None:
        match event:
            case MessageReceived(message=message):
                self._add(seq, message)
            case MessageCompleted():
                self._add(seq, event.message)
                self._calls, self._called_at = event.message.tool_calls, seq
                self._results, self._intents = {}, {}
            case ToolIntent(call_id=call_id, key=key):
                self._intents[call_id] = key
            case ToolFinished(result=result):
                self._answer(result)
            case Compacted(view_start=view_start, summary=summary):
                self._start(view_start, summary)
            case _:
                pass

    def _answer(self, result: ToolResult) -> None:
        """A call has one result: of two, the first holds."""
        wanted = {call.id for call in self._calls}
        if result.call_id not in wanted or result.call_id in self._results:
            return
        self._results[result.call_id] = result
        if len(self._results) == len(wanted):
            self._add(self._called_at, Message.tool(*(self._results[call.id] for call in self._calls)))

    def _add(self, seq: int, message: Message) -> None:
        self._messages.append(message)
        self._places.append(seq)

    def _start(self, view_start: int, summary: Message | None) -> None:
        placed = zip(self._places, self._messages, strict=True)
        kept = [(seq, message) for seq, message in placed if seq >= view_start]
        if summary is not None:
            kept.insert(0, (0, summary))  # before all events, so that the next compaction drops it
        self._places, self._messages = [seq for seq, _ in kept], [message for _, message in kept]
