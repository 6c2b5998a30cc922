"""The events of one response, checked as they are read.

A provider writes a generator of events; `Stream` reads it and promises the rest
(the numbers are those of the contract):

- S2 the parts of `Done.response` are the fold of the events, in block order;
- S3 a tool call has one start, its deltas and one end, and an id of its own;
- S4 a delta belongs to the block that its index and id name;
- S5 an ended call carries complete JSON text, or is marked truncated;
- S6 exactly one `Done` and nothing after it, or one exception: an end without
  the provider's `Finish` is `StreamCut`, anything after it a `ContractError`;
- S7 leaving the block closes the provider's generator, whatever happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeAlias, TypeVar, cast, get_args

import msgspec

from gnomon._begun import Begun
from gnomon.errors import ContractError, GnomonError, ProviderError, StreamCut
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Event,
    Finish,
    Live,
    MessageCompleted,
    PartEnd,
    ProviderEvent,
    StreamEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unknown,
    UsageUpdate,
)
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Response, Spent, StopReason, Usage, spent

__all__ = ["PullStream", "Stream", "StreamFold"]

_E = TypeVar("_E")
_Source: TypeAlias = AsyncGenerator[ProviderEvent, None]


class PullStream(Generic[_E]):
    """One generator of events: read it when you like, leave it whenever you like.

    Stable since 0.1.

    It is its own context manager and its own iterator. `async for` runs on the
    generator itself, so an event costs no Python call of this class.
    """

    def __init__(self, events: AsyncGenerator[_E, None]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncGenerator[_E, None]:
        return self._events

    def __anext__(self) -> Awaitable[_E]:
        return self._events.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of everything behind the stream. May be called twice, from the task that reads."""
        await self._events.aclose()


class Stream(PullStream[StreamEvent]):
    """The events of one response. `response` is there after `Done`.

    Stable since 0.1.
    """

    def __init__(
        self, source: AsyncGenerator[ProviderEvent, None], *, provider: str = "", model: str = ""
    ) -> None:
        super().__init__(self._checked(source))
        self._source = source
        self._provider = provider
        self._model = model
        self._response: Response | None = None
        self._over = False

    @property
    def response(self) -> Response:
        if self._response is None:
            raise RuntimeError("the stream has no response yet: read it to its Done first")
        return self._response

    async def aclose(self) -> None:
        if self._over:
            return  # it was read to its end, and has closed what is behind it
        await super().aclose()
        await self._close_source()  # for a stream that was never read

    async def _checked(self, source: _Source) -> AsyncGenerator[StreamEvent, None]:
        fold = StreamFold()
        final: Finish | Done | None = None
        # The block being streamed, kept at hand: the next delta for it needs no look-up.
        # This loop is what a token costs, so it asks for the class the quickest way, and
        # the events are untyped in it: type checkers do not follow that way.
        events = cast("AsyncGenerator[Any, None]", source)
        text_kind, index, call_id, append = object, -1, _NO_CALL, list[str]().append
        try:
            async for event in events:
                kind = event.__class__
                if kind is text_kind and event.index == index:
                    append(event.text)
                elif kind is ToolCallDelta:
                    if event.id != call_id or event.index != index:
                        append = fold.open_for(event)
                        text_kind, index, call_id = object, event.index, event.id
                    append(event.arguments)
                elif kind is TextDelta or kind is ThinkingDelta:
                    append = fold.open_for(event)
                    text_kind, index, call_id = kind, event.index, _NO_CALL
                    append(event.text)
                elif kind is Finish or kind is Done:
                    final = event
                    break
                elif kind in _OTHERS:
                    text_kind, call_id = object, _NO_CALL
                    fold.add(event)
                else:
                    _broken("S6", f"{_kind(event)} does not stand inside the stream of a provider")
                yield event
            response = await self._completed(source, fold, final)
        except ProviderError as error:
            error.spent = self._spent(error, fold)
            raise
        except (GnomonError, AssertionError):
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise self._foreign(error, "S6") from error  # something of the provider's own was cancelled
        except Exception as error:
            raise self._foreign(error, "S6") from error
        finally:
            await self._close_source()
        self._response = response
        yield Done(response)
        self._over = True

    def _spent(self, error: ProviderError, fold: StreamFold) -> tuple[Spent, ...]:
        """What was used until it failed. One that falls back on others knows whose last attempt it was."""
        return (*fold.discarded, *error.spent) if error.spent else fold.spent(self._provider, self._model)

    async def _completed(self, source: _Source, fold: StreamFold, final: Finish | Done | None) -> Response:
        if final is None:
            raise StreamCut("the answer ended before it was complete", vendor=self._provider or None)
        extra = await _remainder(source)
        if extra is not None:
            _broken("S6", f"{_kind(extra)} came after {_kind(final)}: nothing may follow the end")
        if isinstance(final, Finish):
            return fold.finish(final, provider=self._provider, model=self._model)
        return fold.confirm(final.response)

    async def _close_source(self) -> None:
        try:
            await self._source.aclose()
        except (GnomonError, AssertionError):
            raise
        except Exception as error:
            raise self._foreign(error, "S7") from error

    def _foreign(self, error: BaseException, rule: str) -> ContractError:
        return ContractError(
            f"provider {self._provider!r} raised {type(error).__name__}: {error}",
            rule=rule,
            hint="a provider raises ProviderErrors only",
        )


def _is_cancelled() -> bool:
    """Whether it is the reader that somebody wants to end."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _remainder(source: _Source) -> ProviderEvent | None:
    """What comes after the last word: nothing, from a provider that keeps its promise.

    It may take a moment to let go of its connection. One that goes on reading, until
    the far end closes perhaps, is not waited for: the answer is complete.
    """
    step = source.__anext__()
    try:
        waits_for = step.send(None)  # nearly all have nothing to wait for, and need no time limit
    except StopAsyncIteration:
        return None
    except StopIteration as found:
        return cast("ProviderEvent", found.value)
    patience = asyncio.timeout(GRACE_S)
    try:
        async with patience:
            return cast("ProviderEvent", await Begun(step, waits_for))
    except StopAsyncIteration:
        return None
    except TimeoutError:
        if not patience.expired():
            raise  # the provider's own
        return None


class StreamFold:
    """Rebuilds a message from the events of a stream, here or on the far end of a wire.

    Feed it every event in order; `message` is what they come to so far. A new
    message starts after `Done` or `MessageCompleted`, so one fold can read a
    whole run and hold its latest message.

    Stable since 0.1.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._ids: set[str] = set()
        self._complete = False
        self.usage: Usage | None = None
        self.warnings: list[str] = []
        self.discarded: list[Spent] = []
        self.response: Response | None = None

    @property
    def message(self) -> Message:
        if self._complete and self.response is not None:
            return self.response.message
        return Message("assistant", self._parts())

    def add(self, event: Event | Finish) -> None:
        """Take in one event. Those that are no part of a message are passed over."""
        if isinstance(event, Live):
            event = event.event
        handler = self._handlers.get(event.__class__)
        if handler is not None:
            if self._complete and not isinstance(event, Done | MessageCompleted):
                self._begin()
            handler(self, event)

    def finish(self, final: Finish, *, provider: str = "", model: str = "") -> Response:
        """The whole response, now that the provider has said its last word."""
        self._expect_no_open_call()
        message = Message("assistant", self._parts())
        return Response(
            message=message,
            stop_reason=_stop_reason(final.stop_reason, message.tool_calls),
            id=final.id,
            provider=final.provider or provider or None,
            model=final.model or model or None,
            raw_stop_reason=final.raw_stop_reason,
            usage=final.usage or self.usage or Usage(),
            warnings=tuple(self.warnings),
            discarded=(*self.discarded, *final.discarded),
        )

    def confirm(self, response: Response) -> Response:
        """A response that came whole, from a recording or a far end: it must be what its events said."""
        self._expect_no_open_call()
        if response.message != Message("assistant", self._parts()):
            _broken("S2", "the message in Done is not the fold of the events before it")
        stop_reason = _stop_reason(response.stop_reason, response.tool_calls)
        if stop_reason == response.stop_reason:
            return response
        return msgspec.structs.replace(response, stop_reason=stop_reason)

    def spent(self, provider: str = "", model: str = "") -> tuple[Spent, ...]:
        """What has been used so far, also by attempts that were given up."""
        now = () if self.usage is None else (spent(self.usage, provider or None, model or None),)
        return (*self.discarded, *now)

    def open_for(self, event: TextDelta | ThinkingDelta | ToolCallDelta) -> Callable[[str], None]:
        """Where this delta goes, and the ones after it in the same block."""
        if isinstance(event, ToolCallDelta):
            return self._called(event).pieces.append
        return self._open(event.index, _DELTAS[event.__class__]).pieces.append

    # One small function a kind of event.

    def _add_text(self, event: TextDelta | ThinkingDelta) -> None:
        self.open_for(event)(event.text)

    def _add_arguments(self, event: ToolCallDelta) -> None:
        self.open_for(event)(event.arguments)

    def _start_call(self, event: ToolCallStart) -> None:
        if event.index in self._blocks:
            _broken("S4", f"tool call {event.id!r} starts in block {event.index}, which is taken")
        if not event.id or event.id in self._ids:
            _broken("S3", f"tool call id {event.id!r} is {'used twice' if event.id else 'empty'}")
        self._ids.add(event.id)
        self._blocks[event.index] = _Block("tool_call", event)

    def _end_call(self, event: ToolCallEnd) -> None:
        call, block = event.call, self._blocks.get(event.index)
        if block is None or block.call is None:
            _broken("S3", f"tool call {call.id!r} ended without a start")
        if block.part is not None:
            _broken("S3", f"tool call {call.id!r} ended twice")
        if (call.id, call.name, call.index) != (block.call.id, block.call.name, event.index):
            _broken("S4", f"block {event.index} started as {block.call.name!r} and ended as {call.name!r}")
        _check_arguments(call, "".join(block.pieces))
        block.part = call

    def _end_part(self, event: PartEnd) -> None:
        part = event.part
        if isinstance(part, ToolCall | ToolResult):
            _broken("S3", "a tool call ends with ToolCallEnd, and a result is no part of an answer")
        kind = "text" if isinstance(part, Text) else "thinking" if isinstance(part, Thinking) else "other"
        block = self._open(event.index, kind)
        if isinstance(part, Text | Thinking) and part.text != "".join(block.pieces):
            _broken("S2", f"the text of block {event.index} is not the sum of its deltas")
        block.part = part

    def _take_usage(self, event: UsageUpdate) -> None:
        self.usage = event.usage

    def _take_warning(self, event: StreamWarning) -> None:
        self.warnings.append(event.message)

    def _discard(self, event: AttemptDiscarded) -> None:
        usage = event.usage or self.usage
        if usage is not None:
            self.discarded.append(spent(usage, event.provider, event.model))
        self._clear()

    def _complete_with(self, event: Done | MessageCompleted) -> None:
        self.response = event.response
        self._complete = True

    def _refuse(self, event: Finish) -> NoReturn:
        _broken("S6", f"{_kind(event)} is a provider's word and does not stand on a wire")

    def _expect_no_open_call(self) -> None:
        for block in self._blocks.values():
            if block.call is not None and block.part is None:
                _broken("S3", f"tool call {block.call.id!r} was started and never ended")

    def _called(self, event: ToolCallDelta) -> _Block:
        block = self._blocks.get(event.index)
        if block is None or block.call is None:
            _broken("S3", f"arguments came for tool call {event.id!r} (block {event.index}) before its start")
        if block.part is not None:
            _broken("S3", f"arguments came for tool call {event.id!r} after its end")
        if block.call.id != event.id:
            _broken("S4", f"block {event.index} is tool call {block.call.id!r}, not {event.id!r}")
        return block

    def _open(self, index: int, kind: str) -> _Block:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block(kind)
        elif block.kind != kind:
            _broken("S4", f"block {index} is {block.kind}, and {kind} came for it")
        elif block.part is not None:
            _broken("S2", f"block {index} had already ended when more came for it")
        return block

    def _parts(self) -> tuple[Part, ...]:
        return tuple(self._blocks[index].whole() for index in sorted(self._blocks))

    def _begin(self) -> None:
        """The next message of the same run."""
        self._complete = False
        self.warnings, self.discarded = [], []
        self._clear()

    def _clear(self) -> None:
        self._blocks.clear()
        self._ids.clear()
        self.usage = None

    # A table of the class, not of each fold: an answer may be short.
    _handlers: ClassVar[dict[type, Callable[..., None]]] = {
        TextDelta: _add_text,
        ThinkingDelta: _add_text,
        ToolCallStart: _start_call,
        ToolCallDelta: _add_arguments,
        ToolCallEnd: _end_call,
        PartEnd: _end_part,
        UsageUpdate: _take_usage,
        StreamWarning: _take_warning,
        AttemptDiscarded: _discard,
        Done: _complete_with,
        MessageCompleted: _complete_with,
        Finish: _refuse,
    }


class _Block:
    """A part in the making: its pieces, and the part itself once it is whole."""

    __slots__ = ("call", "kind", "part", "pieces")

    def __init__(self, kind: str, call: ToolCallStart | None = None) -> None:
        self.kind = kind
        self.call = call
        self.pieces: list[str] = []
        self.part: Part | None = None

    def whole(self) -> Part:
        if self.part is not None:
            return self.part
        text = "".join(self.pieces)
        if self.call is not None:
            return ToolCall(self.call.id, self.call.name, text, self.call.index, truncated=True)
        return Thinking(text) if self.kind == "thinking" else Text(text)


GRACE_S = 0.5
"""How long a provider may take to let go of its connection when the answer is complete."""

_NO_CALL: object = object()  # equal to no id that a provider may send
_STOP_REASONS = frozenset(get_args(StopReason))
_OTHERS = frozenset(
    {ToolCallStart, ToolCallEnd, PartEnd, UsageUpdate, StreamWarning, AttemptDiscarded, Unknown}
)
_DELTAS: dict[type, str] = {TextDelta: "text", ThinkingDelta: "thinking", ToolCallDelta: "tool_call"}


def _check_arguments(call: ToolCall, streamed: str) -> None:
    """The argument text is parsed once, when it is whole."""
    if streamed.strip() and call.arguments != streamed:  # blanks alone stand for `{}` too (S16)
        _broken("S2", f"the arguments of tool call {call.id!r} are not the sum of its deltas")
    if call.truncated:
        return
    try:
        msgspec.json.decode(call.arguments, type=msgspec.Raw)  # its form; a number may be too large for us
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _broken("S5", f"the arguments of tool call {call.id!r} are not complete JSON: {error}")


def _stop_reason(said: StopReason, calls: tuple[ToolCall, ...]) -> StopReason:
    """Where the label and the content disagree, the content wins (S16)."""
    if said not in _STOP_REASONS:
        said = "other"
    if any(call.truncated for call in calls):
        return "max_tokens"
    if calls and said in ("end_turn", "stop_sequence", "other"):
        return "tool_use"
    if not calls and said == "tool_use":
        return "end_turn"
    return said


def _kind(event: object) -> str:
    return type(event).__name__


def _broken(rule: str, message: str) -> NoReturn:
    raise ContractError(message, rule=rule)
