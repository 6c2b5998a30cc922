"""The tools of an agent, whose calls come to what they came to before. Nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from gnomon.contracts.tool import OnUnknown, Tool, ToolContext, Touches
from gnomon.engine.capping import FULL_CHARS
from gnomon.engine.definition import Toolbox
from gnomon.engine.subagents import Subagents
from gnomon.errors import AskUser, GnomonError, ToolFailed
from gnomon.replay._matching import Mismatch
from gnomon.replay._tape import Tape
from gnomon.replay.report import short
from gnomon.types.events import (
    Claimed,
    Event,
    MessageCompleted,
    ModelStarted,
    QuestionAsked,
    Released,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from gnomon.types.messages import Meta, Text, ToolCall, ToolResult

__all__ = ["recorded_tools"]

_FOR_EVER_S = 86_400.0
_NEVER_RAN = ("there is no tool called ", "not run: ")


def recorded_tools(tools: Toolbox, tape: Tape) -> Toolbox:
    """The same tools as far as a model can tell, with recorded results."""
    return Toolbox(_recorded(tools, name, tape) for name in tools.names)


def _recorded(tools: Toolbox, name: str, tape: Tape) -> Tool:
    tool = tools.get(name)
    assert tool is not None
    if isinstance(tool, Subagents):  # who runs the calls has it start nobody
        return tool
    kind = _SearchedTool if tools.traits(tool).lookup is not None else _RecordedTool
    return kind(tool, tools, tape)


class _RecordedTool:
    """Gives each call the result that the recording has for it."""

    timeout_s = _FOR_EVER_S

    def __init__(self, tool: Tool, tools: Toolbox, tape: Tape) -> None:
        traits = tools.traits(tool)
        told = next(each for each in tools.definitions if each.name == tool.name)
        self.name, self.description, self.read_only = told.name, told.description, told.read_only
        self.parameters: Meta = told.schema
        self.destructive, self.idempotent = told.destructive, told.idempotent
        self.max_output_chars = traits.output_chars
        self.on_unknown: OnUnknown = "tell" if traits.tell_unknown else "ask"
        if traits.touches is not None:  # only then: who has no such method does not say it
            self.touches: Callable[[str], Touches] = traits.touches.touches
        self._tape = tape

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        tape = self._tape
        place, entry = _outcome(tape, context.call_id)
        if isinstance(entry, ToolFinished):
            ended = tape.ended_at(place)
            if ended is None:
                return self._result(entry, arguments, place)
            await tape.until_next(place)
            self._end(ended, place)
        elif isinstance(entry, QuestionAsked) and not entry.unknown:
            raise AskUser(entry.question, options=entry.options, multiple=entry.multiple)
        elif entry is None or isinstance(entry, Claimed | Released | QuestionAsked):
            await tape.until_next(place)
            tape.leave()  # the runner was lost, or is still at it
        else:
            tape.stop(self._unfinished(entry), tape.events[place].seq)
            tape.leave()
        return await _nothing_more()

    def _unfinished(self, entry: Event) -> Mismatch:
        if isinstance(entry, ToolIntent):
            return Mismatch("call", f"the call of {self.name!r} had side effects, and only reads now")
        if isinstance(entry, SubagentStarted):
            return Mismatch("call", f"the call of {self.name!r} was handed to a sub-agent, and is not now")
        return Mismatch("result", f"the call of {self.name!r} has no result in the recording")

    def _end(self, ended: TurnCancelled | TurnFailed, place: int) -> None:
        if isinstance(ended, TurnCancelled):
            self._tape.cancel(ended.reason)
        else:
            self._tape.give_up("the turn failed while a call was open", self._tape.events[place].seq)
            self._tape.leave()

    def _result(self, finished: ToolFinished, arguments: str, place: int) -> ToolResult:
        self._tape.let_time_pass()
        wrong = self._wrong(finished, arguments)
        if wrong is not None:
            self._tape.stop(wrong, self._tape.events[place].seq)
        elif len(finished.full) >= FULL_CHARS:
            self._tape.give_up("a result was longer than is kept", self._tape.events[place].seq)
        return _whole(finished)

    def _wrong(self, finished: ToolFinished, arguments: str) -> Mismatch | None:
        call = self._call(finished.result.call_id)
        if call is not None and _canonical(call.arguments) != _canonical(arguments):
            what = f"{self.name!r} is called with other arguments"
            return Mismatch("call", what, call.arguments, arguments)
        if finished.result.text.startswith(_NEVER_RAN) and not self._has_begun(finished.result.call_id):
            what = f"the call of {self.name!r} was not run, and is now"
            return Mismatch("call", what, finished.result.text, f"{self.name!r} is run")
        unfit = _unfit(arguments, self.parameters) if finished.result.status == "ok" else ""
        if unfit:
            return Mismatch(
                "call", f"the call does not fit the tool {self.name!r} any more: {unfit}", arguments
            )
        return None

    def _call(self, call_id: str) -> ToolCall | None:
        return next((call for call in self._tape.fold.open_calls if call.id == call_id), None)

    def _has_begun(self, call_id: str) -> bool:
        return call_id in self._tape.fold.intents


class _SearchedTool(_RecordedTool):
    """One that can find out what became of a call: what it found is recorded too."""

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        fold = self._tape.fold
        begun = [call for call in fold.open_calls if call.name == self.name and call.id in fold.intents]
        for call in begun:
            if call.arguments == arguments:
                match _outcome(self._tape, call.id)[1]:
                    case ToolFinished() as finished:
                        return _whole(finished)
                    case ToolIntent():
                        return None
                    case _:
                        break
        raise ToolFailed("what was found then is not in the recording")


def _outcome(tape: Tape, call_id: str) -> tuple[int, Event | None]:
    """What became of a call next, or what came before that could be known; nothing at the end."""
    for at, entry in tape.ahead():
        match entry:
            case ToolFinished(result=result) if result.call_id != call_id:
                continue
            case QuestionAsked(path=(_, *_)):
                continue
            case (
                QuestionAsked(call_id=other) | ToolIntent(call_id=other) | SubagentStarted(call_id=other)
            ) if other != call_id:
                continue
            case ToolFinished() | QuestionAsked() | ToolIntent() | SubagentStarted() | Claimed() | Released():
                return at, entry
            case ModelStarted() | MessageCompleted() | TurnFinished() | TurnFailed() | TurnCancelled():
                return at, entry
            case _:
                continue
    return len(tape.events), None


def _whole(finished: ToolFinished) -> ToolResult:
    """The result as the tool gave it, before it was cut."""
    if not finished.full:
        return finished.result
    others = [part for part in finished.result.content if not isinstance(part, Text)]
    return msgspec.structs.replace(finished.result, content=(Text(finished.full), *others))


def _canonical(arguments: str) -> object:
    try:
        return cast(object, msgspec.json.decode(arguments))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def _unfit(arguments: str, schema: Meta) -> str:
    """What a tool would complain of at first sight: a name too many, or one too few."""
    given, known = _canonical(arguments or "{}"), schema.get("properties", {})
    if not isinstance(given, dict) or not isinstance(known, dict):
        return ""
    names, needed = cast("dict[str, object]", given), cast("list[str]", schema.get("required", []))
    missing = [name for name in needed if name not in names]
    extra = (
        [name for name in names if name not in known] if schema.get("additionalProperties") is False else []
    )
    if missing:
        return f"{short(missing[0], 60)!r} is missing"
    return f"{short(extra[0], 60)!r} is not known" if extra else ""


async def _nothing_more() -> ToolResult:
    """The turn is over, or the runner lost: whoever waits is told to end."""
    await asyncio.Event().wait()
    raise GnomonError("a call went on after its turn")  # pragma: no cover - nobody wakes it
