"""The suite of providers: a good one passes every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from unittest import SkipTest

import msgspec
import pytest

from gnomon.contracts.provider import Provider
from gnomon.errors import BadRequest, GnomonError, Overloaded, ProviderError
from gnomon.stream import PullStream, Stream
from gnomon.testing import Contract, ProviderContract
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Finish,
    PartEnd,
    ProviderEvent,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Message, Text, Thinking, ToolCall
from gnomon.types.requests import OneTool, Request, Response, Usage

USAGE = Usage(input_tokens=20, output_tokens=10, reasoning_tokens=4)
RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(ProviderContract) if name.startswith("test_")]


# --- a provider that keeps its word, and those that do not ----------------------


class Good(Provider):
    name = "good"
    model = "good-1"

    def __init__(self, key: str) -> None:
        self.key = key

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for event in self.said(request):
            await asyncio.sleep(0)
            yield event

    def said(self, request: Request) -> list[ProviderEvent]:
        if request.messages[-1].text == "Fail.":
            raise self.error()
        names = self.called(request)
        body = _calls(request, names) if names else _words()
        return [*body, UsageUpdate(USAGE), Finish(stop_reason="end_turn", usage=USAGE)]

    def called(self, request: Request) -> list[str]:
        if isinstance(request.tool_choice, OneTool):
            return [request.tool_choice.name]
        return [tool.name for tool in request.tools] if request.tool_choice == "required" else []

    def error(self) -> Exception:
        return Overloaded("busy", vendor="good")


def _words() -> list[ProviderEvent]:
    thought = Thinking("Well.", "c2lnbmVk", provider="good", model="good-1")
    return [ThinkingDelta(0, "Well."), PartEnd(0, thought), TextDelta(1, "Hel"), TextDelta(1, "lo.")]


def _calls(request: Request, names: list[str]) -> list[ProviderEvent]:
    events: list[ProviderEvent] = []
    for index, name in enumerate(names):
        call = ToolCall(f"call_{len(request.messages)}_{index}", name, '{"x": 1}', index)
        events += [ToolCallStart(index, call.id, name), ToolCallDelta(index, call.id, '{"x"')]
        events += [ToolCallDelta(index, call.id, ": 1}"), ToolCallEnd(index, call)]
    return events


def _changed(change: Callable[[list[ProviderEvent]], list[ProviderEvent]]) -> type[Good]:
    """A provider whose events are changed on the way out."""

    class Changed(Good):
        def said(self, request: Request) -> list[ProviderEvent]:
            return change(super().said(request))

    return Changed


def _without_waiting(change: Callable[[list[ProviderEvent]], list[ProviderEvent]]) -> type[Good]:
    """The same, with every event at hand at once."""

    class Ready(_changed(change)):
        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            for event in self.said(request):
                yield event

    return Ready


def _with_usage(usage: Usage, final: Usage | None = None) -> type[Good]:
    return _changed(
        lambda events: [*events[:-2], UsageUpdate(usage), Finish(stop_reason="end_turn", usage=final)]
    )


class StartsAgain(Good):
    """It keeps its word too: what came before the discard is not part of the answer."""

    def said(self, request: Request) -> list[ProviderEvent]:
        lost: list[ProviderEvent] = [ThinkingDelta(0, "Hm."), ToolCallStart(1, "lost", "weather")]
        spent = Usage(input_tokens=20, output_tokens=1)
        return [*lost, UsageUpdate(spent), AttemptDiscarded("cut", spent), *super().said(request)]


class NoName(Good):
    name = ""


class ClosesOnce(Good):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Drifts(Good):
    """`complete` goes another way."""

    async def complete(self, request: Request) -> Response:
        response = await super().complete(request)
        return msgspec.structs.replace(response, message=Message.assistant("Hello!"))


class FailsOtherwise(Good):
    """`complete` fails in another way."""

    async def complete(self, request: Request) -> Response:
        with suppress(Overloaded):
            return await super().complete(request)
        raise GnomonError("no answer")


class MeltsTools(Good):
    def called(self, request: Request) -> list[str]:
        return super().called(request)[:1]


class TearsTools(Good):
    def called(self, request: Request) -> list[str]:
        return super().called(request) * 2


class CallsWhatIsNotOffered(Good):
    def called(self, request: Request) -> list[str]:
        return ["other" for _ in super().called(request)]


class IgnoresToolChoice(Good):
    def called(self, request: Request) -> list[str]:
        return [tool.name for tool in request.tools] if request.tool_choice != "auto" else []


class NeverCalls(Good):
    def called(self, request: Request) -> list[str]:
        return []


class UsesIdsAgain(Good):
    def said(self, request: Request) -> list[ProviderEvent]:
        first = msgspec.structs.replace(request, messages=request.messages[:1])
        return super().said(first)


class SendsAList(Good):
    """For a tool that has no parameters."""

    def said(self, request: Request) -> list[ProviderEvent]:
        if [tool.name for tool in request.tools] != ["ping"]:
            return super().said(request)
        call = ToolCall("call_1", "ping", "[]")
        return [ToolCallStart(0, "call_1", "ping"), ToolCallEnd(0, call), Finish(stop_reason="tool_use")]


class SaysNothingToResults(Good):
    def said(self, request: Request) -> list[ProviderEvent]:
        if request.messages[-1].role == "tool":
            return [Finish(stop_reason="end_turn")]
        return super().said(request)


class StumblesOverFields(Good):
    def said(self, request: Request) -> list[ProviderEvent]:
        if request.metadata:
            raise KeyError("metadata")
        return super().said(request)


class Mutates(Good):
    def said(self, request: Request) -> list[ProviderEvent]:
        for tool in request.tools:
            tool.schema["strict"] = True
        return super().said(request)


class FailsWithKeyError(Good):
    def error(self) -> Exception:
        return KeyError("choices")


class FailsWithoutVendor(Good):
    def error(self) -> Exception:
        return Overloaded("busy")


class ShowsKey(Good):
    def error(self) -> Exception:
        return Overloaded(f"GET /chat/{self.key} was refused", vendor="good")


class ShowsKeyInTheCause(Good):
    def error(self) -> Exception:
        error = Overloaded("busy", vendor="good")
        error.__cause__ = OSError(f"the header was {self.key}")
        return error


class LogsKey(Good):
    def error(self) -> Exception:
        logging.getLogger("good.http").debug("header %s", self.key)
        return super().error()


class LeaksTask(Good):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.task = asyncio.create_task(asyncio.sleep(60))
        async for event in super().events(request):
            yield event


class LeaksGenerator(Good):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.lines = super().events(request)
        async for event in self.lines:
            yield event


class LeaksOnlyWhenCancelled(Good):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        try:
            async for event in super().events(request):
                yield event
        except asyncio.CancelledError:
            self.task = asyncio.create_task(asyncio.sleep(60))
            raise


class SwallowsCancelling(Good):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for event in self.said(request):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)
            yield event


class StartsAtOnce(Good):
    def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.task = asyncio.create_task(asyncio.sleep(60))
        return super().events(request)


class RunsAhead(Good):
    """A task reads on into a queue, whether anybody asks or not."""

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        queue: asyncio.Queue[ProviderEvent] = asyncio.Queue()
        pump = asyncio.create_task(self._pump(request, queue))
        try:
            while True:
                event = await queue.get()
                yield event
                if type(event) is Finish:
                    return
        finally:
            pump.cancel()

    async def _pump(self, request: Request, queue: asyncio.Queue[ProviderEvent]) -> None:
        for event in self.said(request):
            await queue.put(event)
            await asyncio.sleep(0.01)


class Mixes(Good):
    """What was asked stands on the provider, where the next one who asks puts his own."""

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.request = request
        await asyncio.sleep(0)
        for event in self.said(self.request):
            yield event


class Bare(Stream):
    """A stream that checks nothing, with a `Done` of its own."""

    def __init__(self, events: list[ProviderEvent], response: Response, *, dones: int = 1) -> None:
        PullStream.__init__(self, self._all(events, [Done(response)] * dones))
        self._response = response

    async def aclose(self) -> None:
        await PullStream.aclose(self)

    async def _all(self, events: list[ProviderEvent], end: list[Done]) -> AsyncGenerator[StreamEvent, None]:
        for event in (*events[:-1], *end):
            assert not isinstance(event, Finish)
            yield event


class EndsTwiceUnchecked(Good):
    def stream(self, request: Request) -> Stream:
        response = Response(message=Message.assistant("Hello."), stop_reason="end_turn")
        return Bare(self.said(request), response, dones=2)


class StartsLateUnchecked(Good):
    def stream(self, request: Request) -> Stream:
        start, *others = self.said(request)
        calls = [event.call for event in others if isinstance(event, ToolCallEnd)]
        response = Response(message=Message.assistant(*calls), stop_reason="tool_use")
        return Bare([others[0], start, *others[1:]], response)


class Suite(ProviderContract):
    """A suite that is not collected here, over whichever provider."""

    __test__ = False

    def __init__(self, make: Callable[[str], Provider] = Good) -> None:
        self.make = make

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield self.make(self.key)

    def request(self, scenario: str) -> Request | None:
        if scenario == "failure":
            return Request(messages=(Message.user("Fail."),))
        return super().request(scenario)


def _run(suite: Contract[Provider], check: str, limit_s: float = 10.0) -> None:
    RULES.run(getattr(suite, check), limit_s)


_odd_meta = PartEnd(1, Text("Hello.", {"vendor": (1, 2)}))
_nobodys = PartEnd(0, Thinking("Well.", "c2lnbmVk"))

PLANTS: dict[str, list[tuple[type[Good], str]]] = {
    "test_name_and_model_are_set_and_stand_in_the_response": [
        (NoName, "the provider's name: expected some, found ''"),
    ],
    "test_close_may_be_called_twice": [
        (ClosesOnce, "closed already"),
    ],
    "test_exactly_one_done_comes_and_it_is_last": [
        (_without_waiting(lambda events: [*events, events[-1]]), "Finish came after Finish.*rule S6"),
        (_changed(lambda events: events[:-1]), "the answer ended before it was complete"),
        (_without_waiting(lambda events: [*events, TextDelta(9, "more")]), "TextDelta came after Finish.*S6"),
        (EndsTwiceUnchecked, "the place of Done among 7 events: expected .7., found .6, 7."),
    ],
    "test_finish_is_the_last_word_of_the_generator": [
        (
            _changed(lambda events: [*events, events[-1]]),
            r"after its Finish: expected \[\], found \['Finish'\]",
        ),
        (_changed(lambda events: [*events, TextDelta(9, "more")]), r"found \['TextDelta'\]"),
        (_changed(lambda events: events[:-1]), "expected Finish at its end, found UsageUpdate"),
    ],
    "test_done_is_the_fold_of_the_lines_on_the_wire": [
        (_changed(lambda events: [*events[:4], _odd_meta, *events[4:]]), "the events after the wire"),
    ],
    "test_complete_is_the_folded_stream": [
        (Drifts, r"text: complete\(\) beside the stream: expected .*'Hello\.'.* found .*'Hello!'"),
    ],
    "test_text_is_answered_with_text": [
        (_changed(lambda events: events[-1:]), "the text of the answer: expected some, found ''"),
    ],
    "test_thinking_is_streamed_and_says_who_thought": [
        (_changed(lambda events: [events[0], _nobodys, *events[2:]]), "expected 'good', found None"),
        (_changed(lambda events: events[2:]), "thinking in the answer .*: expected some, found"),
    ],
    "test_one_call_comes_as_one_call": [
        (TearsTools, "the number of calls: expected 1, found 2"),
    ],
    "test_several_calls_come_as_several_calls": [
        (MeltsTools, "expected at least two calls, found .'weather'."),
    ],
    "test_each_call_has_one_start_its_deltas_and_one_end": [
        (_changed(lambda events: [events[1], events[0], *events[2:]]), "before its start.*rule S3"),
        (StartsLateUnchecked, "the steps of call 'call_1_0' and their indexes: expected .*'start'.* found"),
    ],
    "test_ended_calls_carry_complete_json_for_a_tool_that_was_offered": [
        (CallsWhatIsNotOffered, r"expected a call to one of \['weather'\], found 'other'"),
        (_changed(lambda events: [*events[:2], *events[3:]]), "not the sum of its deltas"),
    ],
    "test_ids_of_calls_are_unique_across_rounds": [
        (UsesIdsAgain, r"ids used twice: expected \[\], found \['call_1_0', 'call_1_1'\]"),
    ],
    "test_a_tool_without_parameters_can_be_called": [
        (SendsAList, r"the arguments '\[\]' of 'ping': expected 'dict', found 'list'"),
    ],
    "test_a_tool_result_is_answered": [
        (SaysNothingToResults, r"the parts of the answer: expected some, found \(\)"),
    ],
    "test_a_tool_choice_is_kept_or_refused_or_warned_about": [
        (IgnoresToolChoice, r"calls under tool_choice 'none': expected set\(\), found"),
        (NeverCalls, "calls under tool_choice 'required': expected some"),
        (
            CallsWhatIsNotOffered,
            "tools called under tool_choice OneTool.*: expected {'calculate'}, found {'other'}",
        ),
    ],
    "test_a_failure_is_one_typed_error_of_a_named_vendor": [
        (FailsWithKeyError, "expected a ProviderError, found ContractError.*KeyError"),
        (FailsWithoutVendor, "the vendor in Overloaded: expected some, found None"),
    ],
    "test_complete_fails_like_the_stream": [
        (FailsOtherwise, "the error of complete.*expected .*Overloaded.*found .*GnomonError"),
    ],
    "test_no_error_and_no_log_shows_the_key": [
        (ShowsKey, "GET /chat/<the key> was refused"),
        (ShowsKeyInTheCause, "the header was <the key>"),
        (LogsKey, r"expected \[\], found \['header <the key>'\]"),
    ],
    "test_nothing_is_started_before_the_first_event_is_asked_for": [
        (StartsAtOnce, r"running before .*: expected \[\], found \['task at sleep"),
    ],
    "test_nothing_runs_on_while_the_reader_rests": [
        (RunsAhead, r"rests at event 1: expected \[\], found \['task at RunsAhead._pump"),
    ],
    "test_leaving_early_leaves_nothing_behind_at_any_event": [
        (LeaksTask, r"left behind after event 1 of 6: expected \[\], found \['task at sleep"),
        (
            LeaksGenerator,
            r"left behind after event 1 of 6: expected \[\], found \['generator open at Good.events",
        ),
    ],
    "test_cancelling_the_reader_leaves_nothing_behind": [
        (
            LeaksOnlyWhenCancelled,
            r"cancelled after event 0 of 6, left behind: expected \[\], found \['task at",
        ),
        (SwallowsCancelling, "the reader ended with: expected 'CancelledError', found 'its last event"),
    ],
    "test_requests_at_the_same_time_do_not_mix": [
        (Mixes, "text: asked beside others: expected .*'Hello.'.* found .*'weather'"),
    ],
    "test_counts_of_tokens_are_of_classes_that_do_not_overlap": [
        (_with_usage(Usage(input_tokens=-1)), "negative counts: expected {}, found {'input_tokens': -1}"),
        (_with_usage(Usage(output_tokens=3, reasoning_tokens=4)), "found 4 of 3"),
        (_with_usage(Usage(input_tokens=0, output_tokens=3)), "expected tokens that were read, or None"),
        (_with_usage(Usage(output_tokens=0)), "expected tokens that were written, or None"),
    ],
    "test_the_last_usage_snapshot_is_the_usage_of_done": [
        (
            _with_usage(USAGE, Usage(input_tokens=40, output_tokens=20)),
            "usage: expected .*=20,.* found .*=40,",
        ),
    ],
    "test_a_request_with_every_field_is_answered_or_refused": [
        (StumblesOverFields, "raised KeyError: 'metadata'"),
    ],
    "test_the_request_is_not_changed": [
        (Mutates, "the request after it was answered"),
    ],
}


@pytest.mark.parametrize("provider", [Good, StartsAgain])
@pytest.mark.parametrize("check", CHECKS)
def test_a_good_provider_passes_every_check(check: str, provider: type[Good]) -> None:
    _run(Suite(provider), check)


@pytest.mark.parametrize(
    ("check", "provider", "says"),
    [
        pytest.param(check, provider, says, id=f"{check}-{number}")
        for check, plants in PLANTS.items()
        for number, (provider, says) in enumerate(plants)
    ],
)
def test_a_planted_fault_turns_its_check_red(check: str, provider: type[Good], says: str) -> None:
    with pytest.raises((AssertionError, GnomonError, RuntimeError), match=f"(?s){says}"):
        _run(Suite(provider), check)


def test_every_check_has_a_planted_fault() -> None:
    assert sorted({*PLANTS, "test_no_check_is_overridden"}) == CHECKS


# --- what is not offered --------------------------------------------------------


class OffersText(Suite):
    def request(self, scenario: str) -> Request | None:
        return super().request(scenario) if scenario == "text" else None


def test_what_a_provider_does_not_offer_is_skipped_with_the_reason() -> None:
    with pytest.raises(SkipTest, match="OffersText does not offer 'thinking'"):
        _run(OffersText(), "test_thinking_is_streamed_and_says_who_thought")
    with pytest.raises(SkipTest, match="OffersText does not offer 'tool' or 'tools'"):
        _run(OffersText(), "test_each_call_has_one_start_its_deltas_and_one_end")
    _run(OffersText(), "test_requests_at_the_same_time_do_not_mix")


@pytest.mark.parametrize(("error", "is_fine"), [(BadRequest, True), (Overloaded, False)])
def test_a_request_may_be_refused_for_good_but_not_for_now(error: type[ProviderError], is_fine: bool) -> None:
    class Refuses(Good):
        def said(self, request: Request) -> list[ProviderEvent]:
            if request.top_k is not None:
                raise error("top_k is not known", vendor="good")
            return super().said(request)

    with nullcontext() if is_fine else pytest.raises(error):
        _run(Suite(Refuses), "test_a_request_with_every_field_is_answered_or_refused")


def test_a_service_that_never_answers_the_same_is_compared_by_its_stop_reason() -> None:
    class Unrepeatable(Suite):
        repeatable = False

    _run(Unrepeatable(Drifts), "test_complete_is_the_folded_stream")
