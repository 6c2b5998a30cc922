"""The suite of tools: a good one passes every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from unittest import SkipTest

import msgspec
import pytest

from gnomon import Text, ToolContext, ToolFailed, ToolResult
from gnomon.contracts.tool import Tool
from gnomon.errors import InvalidArguments
from gnomon.testing import Contract, ToolContract
from gnomon.testing._tool_words import misfits
from gnomon.types.events import ToolProgress

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(ToolContract) if name.startswith("test_")]

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item"],
    "additionalProperties": False,
}


class Order(msgspec.Struct, forbid_unknown_fields=True):
    item: str
    count: int = 1


# --- a tool that keeps its word, and those that do not -----------------------------


class Good:
    """Puts orders down, once for each key; it can tell which it has, and reports on the way."""

    name = "order"
    description = "Order something."
    read_only = False
    destructive = False
    idempotent = True
    timeout_s: float | None = 5.0
    max_output_chars: Any = 1000
    on_unknown: Any = "ask"

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}
        self.effects = 0
        self.steps = 0
        self.is_blind = False

    @property
    def parameters(self) -> dict[str, object]:
        return SCHEMA

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        order = self.read(arguments)
        if order.item == "slow":
            await self.linger(context)
        await asyncio.sleep(0)
        return self.result(order, context)

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        order = self.read(arguments)
        for step in range(3):
            self.steps += 1
            yield self.progress(context, f"step {step}")
            await asyncio.sleep(1.0 if order.item == "slow" else 0)
        yield self.result(order, context)

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        await asyncio.sleep(0)
        if self.is_blind:
            raise ConnectionError("the shop does not answer")
        return ToolResult("", self.name, (Text(self.orders[key]),)) if key in self.orders else None

    def read(self, arguments: str) -> Order:
        try:
            return msgspec.json.decode(arguments, type=Order)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"invalid arguments: {str(error)[:200]}") from error

    def result(self, order: Order, context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, self.name, (Text(self.put_down(order, context)),))

    def progress(self, context: ToolContext, text: str) -> ToolProgress:
        return ToolProgress(context.turn_id, context.call_id, (Text(text),))

    def put_down(self, order: Order, context: ToolContext) -> str:
        if order.item == "none":
            raise ToolFailed("there is none left")
        if context.idempotency_key not in self.orders:
            self.effects += 1
            self.orders[context.idempotency_key] = f"{order.count} {order.item}"
        return self.orders[context.idempotency_key]

    async def linger(self, context: ToolContext) -> None:
        await asyncio.sleep(1.2)


class Threaded(Good):
    """It keeps its word, too: what takes long takes a thread, and waits for its place."""

    def __init__(self) -> None:
        super().__init__()
        self.places = asyncio.Semaphore(10)

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        order = self.read(arguments)
        context.hold_timer()
        async with self.places:
            context.start_timer()
            if order.item == "slow":
                await asyncio.to_thread(self.block, context)
            await asyncio.sleep(0)
            return self.result(order, context)

    def block(self, context: ToolContext) -> None:
        end = time.monotonic() + 1.2
        while time.monotonic() < end and not context.cancelled:
            time.sleep(0.01)


class Reads(Good):
    read_only = True

    def put_down(self, order: Order, context: ToolContext) -> str:
        return f"{order.count} {order.item}"


class NoName(Good):
    name = ""


class NoDescription(Good):
    description = "  "


class RenamesItself(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.description = "I have been called."
        return await super().execute(arguments, context)


class NoObject(Good):
    @property
    def parameters(self) -> dict[str, object]:
        return {"type": "array"}


class ChangesItsSchema(Good):
    reads = 0

    @property
    def parameters(self) -> dict[str, object]:
        self.reads += 1
        return {**SCHEMA, "title": f"read {self.reads}"}


class DanglingReference(Good):
    @property
    def parameters(self) -> dict[str, object]:
        return {**SCHEMA, "properties": {"item": {"$ref": "#/$defs/Item"}, "count": {"type": "integer"}}}


class DescribesOtherArguments(Good):
    @property
    def parameters(self) -> dict[str, object]:
        return {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class DescribesTooFew(Good):
    @property
    def parameters(self) -> dict[str, object]:
        return {"type": "object", "properties": {}}


class ReadsCarelessly(Good):
    def read(self, arguments: str) -> Order:
        return msgspec.json.decode(arguments, type=Order)


class TakesAnything(Good):
    def read(self, arguments: str) -> Order:
        try:
            return super().read(arguments)
        except InvalidArguments:
            return Order("something")


class TakesUnknownArguments(Good):
    def read(self, arguments: str) -> Order:
        class Loose(msgspec.Struct):
            item: str
            count: int = 1

        try:
            given = msgspec.json.decode(arguments, type=Loose)
        except msgspec.DecodeError:
            return super().read(arguments)
        return Order(given.item, given.count)


class ActsFirst(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.effects += 1
        self.read(arguments)
        self.effects -= 1
        return await super().execute(arguments, context)


class SaysNothing(Good):
    def read(self, arguments: str) -> Order:
        try:
            return super().read(arguments)
        except InvalidArguments:
            raise InvalidArguments("") from None


class IsVague(Good):
    def read(self, arguments: str) -> Order:
        try:
            return super().read(arguments)
        except InvalidArguments:
            raise InvalidArguments("the arguments are wrong") from None


class Echoes(Good):
    def read(self, arguments: str) -> Order:
        try:
            return super().read(arguments)
        except InvalidArguments:
            raise InvalidArguments(f"wrong: {arguments}") from None


class MixesUpIds(Good):
    last = "call_1"

    def result(self, order: Order, context: ToolContext) -> ToolResult:
        return msgspec.structs.replace(super().result(order, context), call_id=self.last)


class MixesUpAllIds(MixesUpIds):
    last = "no"


class MixesUpIdsOfNeighbours(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.call_id = context.call_id
        result = await super().execute(arguments, context)
        return msgspec.structs.replace(result, call_id=self.call_id)


class GivesText(Good):
    async def execute(self, arguments: str, context: ToolContext) -> Any:
        return (await super().execute(arguments, context)).text


class GivesHalfCharacters(Good):
    def result(self, order: Order, context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, self.name, (Text("half \ud800"),))


class AnswersOtherwise(Good):
    def put_down(self, order: Order, context: ToolContext) -> str:
        return f"{super().put_down(order, context)} in a bag"


class AnswersWithAnError(Good):
    def result(self, order: Order, context: ToolContext) -> ToolResult:
        return msgspec.structs.replace(super().result(order, context), status="error")


class MixesUpNeighbours(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.beside = getattr(self, "beside", 0) + 1
        try:
            await asyncio.sleep(0)
            result = await super().execute(arguments, context)
            return result if self.beside == 1 else msgspec.structs.replace(result, content=(Text("you?"),))
        finally:
            self.beside -= 1


class WritesThoughItReads(Good):
    read_only = True


class FailsWithAnything(Good):
    def put_down(self, order: Order, context: ToolContext) -> str:
        if order.item == "none":
            raise KeyError("none")
        return super().put_down(order, context)


class FailsWithAResult(Good):
    def result(self, order: Order, context: ToolContext) -> ToolResult:
        if order.item == "none":
            return ToolResult(context.call_id, self.name, (Text("none left"),), status="error")
        return super().result(order, context)


class FailsWithoutWords(Good):
    def put_down(self, order: Order, context: ToolContext) -> str:
        if order.item == "none":
            raise ToolFailed("")
        return super().put_down(order, context)


class StaysBroken(Good):
    broken = False

    def put_down(self, order: Order, context: ToolContext) -> str:
        if self.broken:
            return "broken"
        self.broken = order.item == "none"
        return super().put_down(order, context)


class SwallowsCancelling(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        order = self.read(arguments)
        try:
            await asyncio.sleep(1.2 if order.item == "slow" else 0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        return self.result(order, context)


class LeavesATask(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        task = asyncio.create_task(asyncio.sleep(1.5))
        result = await super().execute(arguments, context)
        task.cancel()
        return result


class IsHurtByCancelling(Good):
    hurt = False

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        try:
            result = await super().execute(arguments, context)
        except asyncio.CancelledError:
            self.hurt = True
            raise
        return msgspec.structs.replace(result, content=(Text("ouch"),)) if self.hurt else result


class IsNotSlow(Good):
    async def linger(self, context: ToolContext) -> None:
        pass


class TakesItsTime(Good):
    async def linger(self, context: ToolContext) -> None:
        try:
            await asyncio.sleep(1.2)
        finally:
            await asyncio.sleep(1.0)


class Blocks(Good):
    async def linger(self, context: ToolContext) -> None:
        time.sleep(1.2)  # noqa: ASYNC251 - that is the fault

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        order = self.read(arguments)
        if order.item == "slow":
            time.sleep(1.2)  # noqa: ASYNC251
        async for step in super().execute_stream(arguments, context):
            yield step


class AThreadEach(Threaded):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        order = self.read(arguments)
        if order.item == "slow":
            threading.Thread(target=self.block, args=(context,), daemon=True).start()
            await asyncio.sleep(1.2)
        return self.result(order, context)


class NeverStartsTheTimer(Threaded):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        result = await super().execute(arguments, context)
        context.hold_timer()
        return result


class TurnsTheTimerInAThread(Threaded):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        result = await super().execute(arguments, context)
        await asyncio.to_thread(context.start_timer)
        return result


class HasItsEffectTwice(Good):
    def put_down(self, order: Order, context: ToolContext) -> str:
        self.effects += context.idempotency_key in self.orders
        return super().put_down(order, context)


class KnowsOneKeyOnly(Good):
    def put_down(self, order: Order, context: ToolContext) -> str:
        if self.orders:
            return f"{order.count} {order.item}"
        return super().put_down(order, context)


class ForgetsWhenCutOff(Good):
    """The effect comes before it is put down that it was there."""

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        order = self.read(arguments)
        if context.idempotency_key not in self.orders:
            self.effects += 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.orders[context.idempotency_key] = f"{order.count} {order.item}"
        return self.result(order, context)


class DeletesThoughItReads(Reads):
    destructive = True


class SaysMaybe(Good):
    idempotent: Any = "maybe"


class ChangesItsMind(Good):
    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.idempotent = False
        return await super().execute(arguments, context)


class WithoutLimit(Good):
    timeout_s = float("inf")


class WithoutTime(Good):
    timeout_s = 0.0


class WithoutCap(Good):
    max_output_chars = float("inf")


class WithNoOutput(Good):
    max_output_chars = 0


class DoesNotCare(Good):
    on_unknown = "ignore"


class Silent(Good):
    """A stream without its result."""

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        async for step in super().execute_stream(arguments, context):
            if isinstance(step, ToolProgress):
                yield step


class SaysItTwice(Good):
    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        async for step in super().execute_stream(arguments, context):
            yield step
            if isinstance(step, ToolResult):
                yield step


class ReportsForAnother(Good):
    def progress(self, context: ToolContext, text: str) -> ToolProgress:
        return ToolProgress(context.turn_id, "another", (Text(text),))


class StreamsAnotherResult(Good):
    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        async for step in super().execute_stream(arguments, context):
            yield msgspec.structs.replace(step, content=(Text("streamed"),))


class ReportsBeforeItReads(Good):
    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        yield self.progress(context, "let me see")
        async for step in super().execute_stream(arguments, context):
            yield step


class ActsBeforeItReads(Good):
    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        self.effects += 1
        async for step in super().execute_stream(arguments, context):
            yield step


class GoesOnWorking(Good):
    """A task does the work, and nobody ends it."""

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        order = self.read(arguments)
        thread = threading.Thread(target=self.work, daemon=True)
        thread.start()
        for step in range(3):
            await asyncio.sleep(0)
            yield self.progress(context, f"step {step}")
        yield self.result(order, context)

    def work(self) -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            self.steps += 1
            time.sleep(0.005)


class StreamLeavesATask(Good):
    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        task = asyncio.create_task(asyncio.sleep(1.5))
        async for step in super().execute_stream(arguments, context):
            yield step
        task.cancel()


class FindsEverything(Good):
    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        return await super().lookup(key, arguments) or ToolResult("", self.name, (Text("1 tea"),))


class FindsNothing(Good):
    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        return None


class FindsSomethingElse(Good):
    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        found = await super().lookup(key, arguments)
        return None if found is None else msgspec.structs.replace(found, content=(Text("found"),))


class ActsWhenAsked(Good):
    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        self.effects += 1
        return await super().lookup(key, arguments)


class LooksAway(Good):
    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        return None if self.is_blind else await super().lookup(key, arguments)


class Suite(ToolContract):
    """A suite that is not collected here, over whichever tool."""

    __test__ = False

    arguments: ClassVar[str] = '{"item": "tea", "count": 2}'
    answer: ClassVar[str | None] = "2 tea"
    invalid = {"{}": "item", '{"item": 5}': "item", '{"item": "tea", "count": "two"}': "count"}
    failing = '{"item": "none"}'
    slow = '{"item": "slow"}'

    def __init__(self, make: Callable[[], Tool] = Good) -> None:
        self.make = make

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        self.tool: Any = self.make()
        yield self.tool

    def effects(self) -> int | None:
        return self.tool.effects

    def steps(self) -> int | None:
        return self.tool.steps

    def blind(self) -> bool:
        self.tool.is_blind = True
        return True


def _run(suite: ToolContract, check: str, limit_s: float = 20.0) -> None:
    RULES.run(getattr(suite, check), limit_s)


PLANTS: dict[str, list[tuple[type[Good], str]]] = {
    "test_name_and_description_are_set_and_do_not_change": [
        (NoName, "the tool's name: expected some, found ''"),
        (NoDescription, "the tool's description: expected some, found ''"),
        (RenamesItself, "name and description after a call: expected"),
    ],
    "test_parameters_are_the_schema_of_an_object_the_same_on_every_read": [
        (NoObject, "the type of the schema: expected 'object', found 'array'"),
        (ChangesItsSchema, "the schema after a call: expected"),
        (DanglingReference, "references that lead nowhere: expected .*found .'#/.defs/Item'"),
    ],
    "test_the_schema_takes_the_arguments_that_the_tool_takes": [
        (DescribesOtherArguments, "required arguments that the call leaves out: expected .* found .'name'"),
        (DescribesTooFew, "arguments that are not described: expected .* found .'count', 'item'"),
    ],
    "test_what_is_no_json_object_is_refused": [
        (ReadsCarelessly, "no JSON: expected InvalidArguments, found"),
        (TakesAnything, "no JSON: expected InvalidArguments, found a result"),
        (ActsFirst, "effects after no JSON: expected 0, found 1"),
        (SaysNothing, "the refusal of no JSON: expected some, found ''"),
        (Echoes, "expected at most 500 characters, found 100007"),
    ],
    "test_arguments_that_do_not_fit_are_refused_by_name": [
        (ReadsCarelessly, "expected InvalidArguments, found ValidationError"),
        (ActsFirst, "effects after arguments {}: expected 0, found 1"),
        (IsVague, "the refusal of {}: expected 'item' in it, found 'the arguments are wrong'"),
    ],
    "test_what_the_schema_forbids_is_refused_by_name": [
        (TakesUnknownArguments, "an argument nobody knows: expected InvalidArguments, found a result"),
        (IsVague, "the refusal of a call without 'item': expected 'item' in it"),
        (ActsFirst, "effects after a call without 'item': expected 0, found 1"),
    ],
    "test_a_refusal_is_short_whatever_was_sent": [
        (Echoes, "expected at most 500 characters, found"),
    ],
    "test_the_result_answers_the_call": [
        (MixesUpIds, "the id in the result: expected 'another', found 'call_1'"),
        (GivesText, "what came: expected 'ToolResult', found 'str'"),
        (GivesHalfCharacters, "surrogates not allowed|its text: expected"),
        (AnswersOtherwise, "the result, its text: expected '2 tea', found '2 tea in a bag'"),
        (AnswersWithAnError, "the result, its status: expected 'ok', found 'error'"),
    ],
    "test_calls_at_the_same_time_do_not_mix": [
        (MixesUpIdsOfNeighbours, "the ids: expected"),
        (MixesUpNeighbours, "a result beside others, its text: expected '2 tea', found 'you.'"),
    ],
    "test_a_call_of_a_read_only_tool_changes_nothing": [
        (WritesThoughItReads, "effects of a tool that only reads: expected 0, found 1"),
    ],
    "test_a_failure_that_the_tool_knows_is_told_to_the_model": [
        (FailsWithAnything, "a call that fails: expected ToolFailed, found KeyError"),
        (FailsWithAResult, "a call that fails: expected ToolFailed, found a result"),
        (FailsWithoutWords, "what the model is told: expected some, found ''"),
        (StaysBroken, "the call after it, its text: expected '2 tea', found 'broken'"),
    ],
    "test_a_cancellation_is_let_through_and_leaves_nothing_behind": [
        (SwallowsCancelling, "the call ended with: expected 'CancelledError', found 'a result, as if"),
        (LeavesATask, "left behind: expected .*found .'task at"),
        (IsHurtByCancelling, "the call after it, its text: expected '2 tea', found 'ouch'"),
    ],
    "test_a_call_that_takes_long_ends_when_it_is_cancelled": [
        (SwallowsCancelling, "a slow call that is cancelled ends with: expected 'CancelledError', found"),
        (LeavesATask, "left behind by a slow call: expected"),
        (IsHurtByCancelling, "the call after it, its text: expected '2 tea', found 'ouch'"),
        (TakesItsTime, "expected a slow call to end at once, found that it took 1"),
        (IsNotSlow, "expected one that takes a second, found one of 0.1 s"),
    ],
    "test_the_loop_goes_on_while_a_call_runs": [
        (Blocks, "expected a loop that goes on, found one that stood still for 1"),
    ],
    "test_many_calls_have_a_bounded_number_of_threads": [
        (AThreadEach, "200 calls at a time: expected at most 100 threads, found (1\\d\\d|200)"),
    ],
    "test_a_call_that_waits_for_its_place_says_so_on_the_loop": [
        (NeverStartsTheTimer, "the timer, when the call has worked, runs: expected True, found False"),
        (TurnsTheTimerInAThread, "the threads that turned the timer: expected"),
    ],
    "test_an_idempotent_tool_has_its_effect_once_under_one_key": [
        (HasItsEffectTwice, "effects of the same call, twice: expected 1, found 2"),
        (KnowsOneKeyOnly, "effects of two calls: expected 2, found 1"),
        (AnswersOtherwise, "the second result, its text: expected"),
    ],
    "test_a_call_that_was_cut_off_and_runs_again_has_its_effect_once": [
        (ForgetsWhenCutOff, "cut off after 1 turns and run again, effects: expected 1, found 2"),
    ],
    "test_effects_are_said_and_do_not_contradict_one_another": [
        (DeletesThoughItReads, "read-only and destructive: expected False, found True"),
        (SaysMaybe, "what they are: expected .'bool', 'bool'., found .'bool', 'str'."),
        (ChangesItsMind, "what is said after a call: expected"),
    ],
    "test_a_time_limit_is_one": [
        (WithoutLimit, "timeout_s: expected a number of seconds or None, found inf"),
        (WithoutTime, "timeout_s: expected a number of seconds or None, found 0.0"),
    ],
    "test_an_output_cap_is_one": [
        (WithoutCap, "max_output_chars: expected a number of characters or None, found inf"),
        (WithNoOutput, "max_output_chars: expected a number of characters or None, found 0"),
    ],
    "test_what_is_to_become_of_an_unknown_outcome_is_said": [
        (DoesNotCare, "on_unknown: expected 'ask' or 'tell', found 'ignore'"),
    ],
    "test_a_stream_is_progress_and_then_one_result": [
        (Silent, "the last of the stream: expected 'ToolResult', found 'ToolProgress'"),
        (SaysItTwice, "what came before it: expected"),
        (ReportsForAnother, "whose progress it is: expected"),
        (MixesUpAllIds, "the id in the result: expected 'call_1', found 'no'"),
    ],
    "test_the_result_of_a_stream_is_that_of_the_call": [
        (StreamsAnotherResult, "the result of the stream, its text: expected '2 tea', found 'streamed'"),
    ],
    "test_a_stream_is_refused_and_fails_as_a_call_does": [
        (TakesAnything, "a stream of ..: expected InvalidArguments, found a result"),
        (ReportsBeforeItReads, "progress of ..: expected 0, found 1"),
        (ActsBeforeItReads, "effects of ..: expected 0, found 1"),
        (FailsWithAnything, "expected ToolFailed, found KeyError"),
        (SaysNothing, "what the model is told: expected some, found ''"),
    ],
    "test_closing_a_stream_stops_the_work": [
        (GoesOnWorking, "closed after 1 steps: expected no further work after step"),
        (StreamLeavesATask, "closed after 1 steps, left behind: expected"),
    ],
    "test_a_reader_that_is_cancelled_stops_the_work": [
        (GoesOnWorking, "turns: expected no further work after step"),
        (StreamLeavesATask, "left behind: expected"),
    ],
    "test_the_loop_goes_on_while_a_stream_is_read": [
        (Blocks, "expected a loop that goes on, found one that stood still for 1"),
    ],
    "test_lookup_finds_nothing_where_nothing_was_done": [
        (FindsEverything, "a key that was never used: expected None, found"),
    ],
    "test_lookup_finds_the_result_of_a_call_that_was_done": [
        (FindsNothing, "lookup of a call that was done: expected its result, found None"),
        (FindsSomethingElse, "the result that was found: expected"),
    ],
    "test_lookup_changes_nothing": [
        (ActsWhenAsked, "effects of looking: expected 0, found 2"),
    ],
    "test_lookup_after_a_call_that_was_cut_off_tells_the_truth": [
        (ForgetsWhenCutOff, "cut off after 1 turns, None found, effects: expected 0, found 1"),
        (FindsEverything, "effects: expected 1, found 0"),
    ],
    "test_lookup_that_cannot_tell_raises": [
        (LooksAway, "lookup that cannot tell: expected an error, found None"),
    ],
}


NOT_OFFERED = {
    Good: {
        "test_a_call_of_a_read_only_tool_changes_nothing",
        "test_a_call_that_waits_for_its_place_says_so_on_the_loop",
    },
    Threaded: {"test_a_call_of_a_read_only_tool_changes_nothing"},
}


@pytest.mark.parametrize("make", [Good, Threaded])
@pytest.mark.parametrize("check", CHECKS)
def test_a_tool_that_keeps_its_word_passes(make: type[Good], check: str) -> None:
    if check in NOT_OFFERED[make]:
        with pytest.raises(SkipTest):
            _run(Suite(make), check)
    else:
        _run(Suite(make), check)


def test_a_tool_that_only_reads_passes() -> None:
    _run(Suite(Reads), "test_a_call_of_a_read_only_tool_changes_nothing")


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert set(PLANTS) == set(CHECKS) - {"test_no_check_is_overridden"}


@pytest.mark.parametrize(
    ("check", "make", "words"),
    [(check, make, words) for check, plants in PLANTS.items() for make, words in plants],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_a_planted_fault_is_found(check: str, make: type[Good], words: str) -> None:
    with pytest.raises((Exception, AssertionError), match=f"(?s){words}"):
        _run(Suite(make), check)


class Plain:
    """Nothing but a tool."""

    name = "plain"
    description = "Plain."
    read_only = False
    parameters: ClassVar[dict[str, object]] = {"type": "object"}

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        try:
            msgspec.json.decode(arguments, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments("no JSON object") from error
        return ToolResult(context.call_id, self.name, (Text("done"),))


def test_what_a_tool_does_not_offer_is_skipped_and_said() -> None:
    class Bare(ToolContract):
        __test__ = False

        @asynccontextmanager
        async def open(self) -> AsyncIterator[Tool]:
            yield Plain()

    skipped: dict[str, str] = {}
    for check in CHECKS:
        try:
            _run(Bare(), check)
        except SkipTest as why:
            skipped[check] = str(why).removeprefix("Bare does not offer ")
    assert set(skipped.values()) == {
        "SupportsEffects",
        "SupportsLookup",
        "SupportsOutputCap",
        "SupportsProgress",
        "SupportsTimeout",
        "SupportsUnknown",
        "a call that fails",
        "a call that takes long",
        "a call that waits for its place",
        "a schema that forbids anything",
        "a tool that only reads",
        "an idempotent tool with effects",
        "arguments that do not fit",
    }


def test_what_a_schema_forbids_is_read_from_it() -> None:
    found = misfits(SCHEMA, '{"item": "tea", "count": 2}')
    assert [(word, text) for _, text, word in found] == [
        ("item", '{"count":2}'),
        ("item", '{"item":[{}],"count":2}'),
        ("count", '{"item":"tea","count":"one"}'),
        ("nobody_knows", '{"item":"tea","count":2,"nobody_knows":1}'),
    ]
    assert misfits({"type": "object"}, '{"item": "tea"}') == []
