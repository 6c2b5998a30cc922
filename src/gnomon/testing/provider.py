"""What a provider promises, as checks that anybody's provider can run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import product
from typing import ClassVar

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import GnomonError, ProviderError
from gnomon.stream import StreamFold
from gnomon.testing._asking import (
    Log,
    accepted,
    answer,
    asked,
    failure,
    left_by_cancelling,
    left_by_leaving,
    next_round,
    offered,
    read,
    read_slowly,
    running_between_events,
    spread,
)
from gnomon.testing._scenarios import SCENARIOS, every_field, scenario_request, without_parameters
from gnomon.testing._suite import Contract, expect, expect_some
from gnomon.testing._watch import Watch, open_sockets
from gnomon.types.codec import decode_event, encode_event, error_event
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    StreamEvent,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Part, Thinking, ToolCall
from gnomon.types.requests import OneTool, Request, Response, ToolChoice, Usage

__all__ = ["ProviderContract"]


class ProviderContract(Contract[Provider]):
    """The suite of `Provider` and of the `Stream` it gives.

        class TestAcme(ProviderContract):
            @asynccontextmanager
            async def open(self):
                yield AcmeProvider(key=self.key, …)

            def request(self, scenario):
                return None if scenario == "thinking" else super().request(scenario)

    A check brings the provider into a scenario: "text", "thinking", "tool" (one
    call), "tools" (several), "tool_answer" (a call and its result are in the
    messages), "failure".
    """

    key: ClassVar[str] = "key-of-the-contract-suite-7d1f4e"
    """Give this key to the provider: the suite looks for it where it must not be."""

    repeatable: ClassVar[bool] = True
    """Whether the same request gets the same answer. Say `False` for a real service."""

    answers_as: ClassVar[str | None] = None
    """Who a response says gave it, where that is one that the provider falls back on."""

    def request(self, scenario: str) -> Request | None:
        """How to bring this provider into a scenario; `None` when it does not offer it."""
        return scenario_request(scenario)

    # --- what it says of itself

    async def test_name_and_model_are_set_and_stand_in_the_response(self) -> None:
        """A response says which provider and which model gave it."""
        request = asked(self, "text")
        async with self.open() as provider:
            expect_some("the provider's name", provider.name)
            expect_some("the provider's model", provider.model)
            response = await provider.complete(request)
        expect("Response.provider", self.answers_as or provider.name, response.provider)
        expect_some("Response.model", response.model)

    async def test_close_may_be_called_twice(self) -> None:
        """`close` must be safe to call twice, before anything was asked and after."""
        async with self.open() as provider:
            await provider.close()
            await provider.close()
        request = asked(self, "text")
        async with self.open() as provider:
            await provider.complete(request)
            await provider.close()
            await provider.close()

    # --- the shape of a stream

    async def test_exactly_one_done_comes_and_it_is_last(self) -> None:
        """S6: exactly one `Done` and nothing after it."""
        for scenario, request in offered(self, *SCENARIOS):
            events = await answer(self, request)
            places = [at for at, event in enumerate(events, start=1) if type(event) is Done]
            expect(f"{scenario}: the place of Done among {len(events)} events", [len(events)], places)

    async def test_finish_is_the_last_word_of_the_generator(self) -> None:
        """S6, S16: `events` ends with `Finish`, also where `Stream` would no longer listen."""
        for scenario, request in offered(self, *SCENARIOS):
            async with self.open() as provider, aclosing(provider.events(request)) as generator:
                events = [event async for event in generator]
            ends = [at for at, event in enumerate(events, start=1) if isinstance(event, Finish | Done)]
            if not ends:
                last = type(events[-1]).__name__ if events else "nothing"
                raise AssertionError(f"{scenario}: expected Finish at its end, found {last}")
            after = [type(event).__name__ for event in events[ends[0] :]]
            expect(f"{scenario}: after its Finish", [], after)

    async def test_done_is_the_fold_of_the_lines_on_the_wire(self) -> None:
        """S2: a reader of the wire rebuilds exactly the same message."""
        for scenario, request in offered(self, *SCENARIOS):
            events = await answer(self, request)
            arrived = [decode_event(encode_event(event)) for event in events]
            expect(f"{scenario}: the events after the wire", events, arrived)
            fold = StreamFold()
            for event in arrived[:-1]:
                fold.add(event)
            expect(f"{scenario}: the fold of the wire", _response(events).message, fold.message)

    async def test_complete_is_the_folded_stream(self) -> None:
        """The two ways of asking give the same response."""
        for scenario, request in offered(self, *SCENARIOS):
            streamed = _response(await answer(self, request))
            async with self.open() as provider:
                whole = await provider.complete(request)
            _expect_same(self, f"{scenario}: complete() beside the stream", streamed, whole)

    async def test_text_is_answered_with_text(self) -> None:
        """A plain question gets a plain answer, and no call when no tool was offered."""
        response = _response(await answer(self, asked(self, "text")))
        expect_some("the text of the answer", response.text)
        expect("tool calls, with no tool offered", (), response.tool_calls)

    async def test_thinking_is_streamed_and_says_who_thought(self) -> None:
        """S9: what goes back only to its maker must name its maker."""
        request = asked(self, "thinking")
        async with self.open() as provider:
            events = _since_discard(await read(provider, request))
        parts = [part for part in _response(events).message.content if isinstance(part, Thinking)]
        expect_some("thinking in the answer (request('thinking') may ask otherwise)", parts)
        streamed = "".join(event.text for event in events if type(event) is ThinkingDelta)
        expect("the thinking deltas, joined", "".join(part.text for part in parts), streamed)
        for part in parts:
            if part.signature or part.redacted:
                thinker = self.answers_as or provider.name
                expect("the provider of signed thinking", thinker, part.provider)
                expect_some("the model of signed thinking", part.model)

    # --- tool calls

    async def test_one_call_comes_as_one_call(self) -> None:
        """S4: nothing is torn apart."""
        events = await answer(self, asked(self, "tool"))
        expect("the number of calls", 1, len(_response(events).tool_calls))

    async def test_several_calls_come_as_several_calls(self) -> None:
        """S4: a new id always opens a new call; nothing is melted together."""
        events = await answer(self, asked(self, "tools"))
        called = [call.name for call in _response(events).tool_calls]
        if len(called) < 2:
            raise AssertionError(f"tools: expected at least two calls, found {called}")

    async def test_each_call_has_one_start_its_deltas_and_one_end(self) -> None:
        """S3, S4: in this order, under one id and one index."""
        for scenario, request in offered(self, "tool", "tools"):
            events = _since_discard(await answer(self, request))
            for start in (event for event in events if type(event) is ToolCallStart):
                _expect_order(scenario, start, events)
            ended = [event.call for event in events if type(event) is ToolCallEnd]
            expect(f"{scenario}: the calls in Done", ended, list(_response(events).tool_calls))

    async def test_ended_calls_carry_complete_json_for_a_tool_that_was_offered(self) -> None:
        """S5: complete JSON text, an object since a tool has named parameters, or a call marked truncated."""
        for scenario, request in offered(self, "tool", "tools"):
            for call in _response(await answer(self, request)).tool_calls:
                _expect_usable(scenario, call, request)

    async def test_ids_of_calls_are_unique_across_rounds(self) -> None:
        """S3: ids are unique, and made up when the vendor gives none, in a conversation as in a response."""
        request = asked(self, "tools")
        seen: list[str] = []
        async with self.open() as provider:
            for _ in range(3):
                response = await provider.complete(request)
                seen += [call.id for call in response.tool_calls]
                request = next_round(request, response)
        expect_some("tool calls in three rounds", seen)
        expect("ids used twice", [], sorted({name for name in seen if seen.count(name) > 1}))

    async def test_a_tool_without_parameters_can_be_called(self) -> None:
        """S16: no argument text is `{}`."""
        request = without_parameters(asked(self, "tool"))
        response = await accepted(self, request)
        for call in response.tool_calls if response else ():
            _expect_usable("a tool without parameters", call, request)

    async def test_a_tool_result_is_answered(self) -> None:
        """A call and its result are part of the conversation like any other message."""
        response = _response(await answer(self, asked(self, "tool_answer")))
        expect_some("the parts of the answer", response.message.content)

    async def test_a_tool_choice_is_kept_or_refused_or_warned_about(self) -> None:
        """S13: never in silence."""
        request = self.request("tools") or asked(self, "tool")
        choices: list[ToolChoice | None] = [None, "auto", "none", "required", OneTool(request.tools[-1].name)]
        for choice in choices:
            response = await accepted(self, msgspec.structs.replace(request, tool_choice=choice))
            if response is not None and not response.warnings:
                _expect_obeyed(choice, response)

    # --- bad times

    async def test_a_failure_is_one_typed_error_of_a_named_vendor(self) -> None:
        """S6, S12: one `ProviderError` that says whose it is, and no `Done` beside it."""
        request = asked(self, "failure")
        async with self.open() as provider:
            with Watch() as watch:
                error, events = await failure(provider, request)
            expect("left behind by the failure", [], await watch.left())
        _expect_typed(error)
        expect("Done beside the error", [], [event for event in events if type(event) is Done])

    async def test_complete_fails_like_the_stream(self) -> None:
        """The two ways of asking fail in the same way."""
        request = asked(self, "failure")
        async with self.open() as provider:
            streamed, _ = await failure(provider, request)
        async with self.open() as provider:
            try:
                found: object = await provider.complete(request)
            except GnomonError as error:
                found = error
        expect("the error of complete()", type(streamed), type(found))

    async def test_no_error_and_no_log_shows_the_key(self) -> None:
        """S12: keys never appear in errors, logs or URLs."""
        request = asked(self, "failure")
        with Log() as log:
            async with self.open() as provider:
                error, _ = await failure(provider, request)
        shown = [text for text in (*_texts_of(error), *log.messages) if self.key in text]
        # The finding must not print the key either.
        expect("texts that show the key", [], [text.replace(self.key, "<the key>") for text in shown])

    # --- pull, and let go

    async def test_nothing_is_started_before_the_first_event_is_asked_for(self) -> None:
        """S1: a stream that nobody reads asks nobody."""
        request = asked(self, "text")
        async with self.open() as provider:
            sockets = open_sockets()
            with Watch() as watch:
                stream = provider.stream(request)
            expect("running before the first event was asked for", [], await watch.left())
            expect("sockets opened before then", set[object](), set(open_sockets() - sockets))
            await stream.aclose()

    async def test_nothing_runs_on_while_the_reader_rests(self) -> None:
        """S1: nothing is read faster than the reader asks, so nothing works between two events."""
        for scenario, request in offered(self, "text", "tools"):
            for at, running in enumerate(await running_between_events(self, request), start=1):
                expect(f"{scenario}: running while the reader rests at event {at}", [], running)

    async def test_leaving_early_leaves_nothing_behind_at_any_event(self) -> None:
        """S7: leaving the block closes the generator, and no task is left."""
        for scenario, request in offered(self, "text", "tools"):
            length = len(await answer(self, request))
            for position in spread(length):
                left = await left_by_leaving(self, request, position)
                expect(f"{scenario}: left behind after event {position} of {length}", [], left)

    async def test_cancelling_the_reader_leaves_nothing_behind(self) -> None:
        """S7: so does cancelling, at an event or while waiting for the next one."""
        for scenario, request in offered(self, "text", "tools"):
            length = len(await answer(self, request))
            for position, resting in product((0, 1, length // 2, length - 1, length), (True, False)):
                end, left = await left_by_cancelling(self, request, position, resting=resting)
                place = f"{scenario}: cancelled {'at' if resting else 'after'} event {position} of {length}"
                expect(f"{place}, the reader ended with", "CancelledError", end)
                expect(f"{place}, left behind", [], left)

    async def test_requests_at_the_same_time_do_not_mix(self) -> None:
        """A provider serves many at once: each gets what it would have got alone."""
        chosen = offered(self, "text", "tool", "tools")
        chosen = chosen if len(chosen) > 1 else chosen * 2
        async with self.open() as provider:
            alone = [await provider.complete(request) for _, request in chosen]
        async with self.open() as provider:
            reading = [read_slowly(provider, request) for _, request in chosen]
            together = await asyncio.gather(*reading)
        for (scenario, _), one, other in zip(chosen, alone, together, strict=True):
            _expect_same(self, f"{scenario}: asked beside others", one, other)

    # --- what it costs, and what it is given

    async def test_counts_of_tokens_are_of_classes_that_do_not_overlap(self) -> None:
        """U1, U3: no count is negative, thinking is part of the output, and what is unknown is not zero."""
        for scenario, request in offered(self, *SCENARIOS):
            events = await answer(self, request)
            for usage in [*_snapshots(events), _response(events).usage]:
                _expect_counts(scenario, usage)
            _expect_not_zero(scenario, _response(events))

    async def test_the_last_usage_snapshot_is_the_usage_of_done(self) -> None:
        """U2: a snapshot replaces the one before; it is never added."""
        for scenario, request in offered(self, *SCENARIOS):
            events = await answer(self, request)
            for last in _snapshots(events)[-1:]:
                expect(f"{scenario}: Done.response.usage", last, _response(events).usage)

    async def test_a_request_with_every_field_is_answered_or_refused(self) -> None:
        """S13: what the vendor cannot carry is warned about or refused by one of our errors."""
        model = asked(self, "text").model
        async with self.open() as provider:
            request = every_field(model or provider.model)
        response = await accepted(self, request)
        if response is not None:
            expect_some("the parts of the answer", response.message.content)

    async def test_the_request_is_not_changed(self) -> None:
        """A request may be asked again, and of another provider."""
        for scenario, request in offered(self, *SCENARIOS):
            before = msgspec.json.encode(request)
            await answer(self, request)
            expect(f"{scenario}: the request after it was answered", before, msgspec.json.encode(request))


# --- judging what came ----------------------------------------------------------


def _response(events: Sequence[StreamEvent]) -> Response:
    last = events[-1] if events else None
    if not isinstance(last, Done):
        raise AssertionError(f"the last event: expected Done, found {last!r}")
    return last.response


def _since_discard(events: list[StreamEvent]) -> list[StreamEvent]:
    """The events of the attempt that counts."""
    starts = [at for at, event in enumerate(events, start=1) if type(event) is AttemptDiscarded]
    return events[starts[-1] :] if starts else events


def _snapshots(events: list[StreamEvent]) -> list[Usage]:
    return [event.usage for event in _since_discard(events) if type(event) is UsageUpdate]


def _expect_same(suite: ProviderContract, what: str, one: Response, other: Response) -> None:
    if suite.repeatable:
        expect(what, _without_ids(one), _without_ids(other))
    else:
        expect(f"{what}, the stop reason", one.stop_reason, other.stop_reason)


def _without_ids(response: Response) -> Response:
    """The ids of responses and calls differ from one answer to the next."""
    parts = tuple(_without_id(part) for part in response.message.content)
    message = msgspec.structs.replace(response.message, content=parts)
    return msgspec.structs.replace(response, id=None, message=message)


def _without_id(part: Part) -> Part:
    return msgspec.structs.replace(part, id="") if isinstance(part, ToolCall) else part


def _expect_order(scenario: str, start: ToolCallStart, events: list[StreamEvent]) -> None:
    """Start, deltas, end: read off the events themselves, whatever `Stream` has checked."""
    steps = [(kind, index) for call_id, kind, index in map(_step, events) if call_id == start.id]
    deltas = [step for step in steps if step[0] == "delta"]
    ordered = [("start", start.index), *[("delta", start.index)] * len(deltas), ("end", start.index)]
    expect(f"{scenario}: the steps of call {start.id!r} and their indexes", ordered, steps)


def _step(event: StreamEvent) -> tuple[str, str, int]:
    match event:
        case ToolCallStart():
            return event.id, "start", event.index
        case ToolCallDelta():
            return event.id, "delta", event.index
        case ToolCallEnd():
            return event.call.id, "end", event.index
        case _:
            return "", "other", 0


def _expect_usable(scenario: str, call: ToolCall, request: Request) -> None:
    tools = [tool.name for tool in request.tools]
    if call.name not in tools:
        raise AssertionError(f"{scenario}: expected a call to one of {tools}, found {call.name!r}")
    if not call.truncated:
        found = type(call.parsed()).__name__
        expect(f"{scenario}: the arguments {call.arguments!r} of {call.name!r}", "dict", found)


def _expect_obeyed(choice: ToolChoice | None, response: Response) -> None:
    called = {call.name for call in response.tool_calls}
    match choice:
        case "none":
            expect("calls under tool_choice 'none'", set[str](), called)
        case "required":
            expect_some("calls under tool_choice 'required'", called)
        case OneTool():
            expect(f"tools called under tool_choice {choice!r}", {choice.name}, called)
        case _:
            pass


def _expect_typed(error: Exception) -> None:
    if not isinstance(error, ProviderError):
        raise AssertionError(f"failure: expected a ProviderError, found {error!r}") from error
    expect_some(f"the vendor in {type(error).__name__}", error.vendor)


def _texts_of(error: Exception) -> list[str]:
    """Wherever an error is shown: as itself, in a traceback with those it came from, on the wire."""
    from traceback import format_exception

    return ["".join(format_exception(error)), repr(error), encode_event(error_event(error)).decode()]


def _expect_counts(scenario: str, usage: Usage) -> None:
    counts = {name: count for name, count in msgspec.structs.asdict(usage).items() if name != "estimated"}
    negative = {name: count for name, count in counts.items() if count is not None and count < 0}
    expect(f"{scenario}: negative counts", dict[str, int](), negative)
    if usage.reasoning_tokens and usage.reasoning_tokens > (usage.output_tokens or 0):
        found = f"{usage.reasoning_tokens} of {usage.output_tokens}"
        raise AssertionError(f"{scenario}: expected reasoning tokens among the output tokens, found {found}")


def _expect_not_zero(scenario: str, response: Response) -> None:
    usage = response.usage
    sent = [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
    known = [count for count in sent if count is not None]
    if known and not sum(known):
        raise AssertionError(f"{scenario}: expected tokens that were read, or None, found {usage}")
    if response.message.content and usage.output_tokens == 0:
        raise AssertionError(f"{scenario}: expected tokens that were written, or None, found {usage}")
