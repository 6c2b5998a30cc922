"""The suite of token counters: a good one passes every check, and each has a fault that turns it red."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self
from unittest import SkipTest

import msgspec
import pytest

from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.testing import Contract, TokenCounterContract
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
)
from gnomon.types.requests import Request, Response

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(TokenCounterContract) if name.startswith("test_")]
GUARD = "test_no_check_is_overridden"


# --- a counter that keeps its word, and those that do not -----------------------------


class Good:
    """A token a character; an image is a hundred."""

    scale = 1.0

    def for_model(self, model: str) -> Self:
        return self

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        return self.tokens(sum(map(self.message, messages)) + sum(map(self.tool, tools)))

    def count_text(self, text: str) -> int:
        return self.tokens(len(text))

    def count_request(self, request: Request) -> int:
        return self.count_messages(request.messages, request.tools) + len(request.system or "")

    def tokens(self, size: int) -> int:
        return max(1, int(size * self.scale)) if size else 0

    def message(self, message: Message) -> int:
        return 1 + sum(map(self.part, message.content))

    def tool(self, tool: ToolDef) -> int:
        return len(tool.name) + len(tool.description) + len(repr(tool.schema))

    def part(self, part: Part) -> int:
        match part:
            case Text():
                return len(part.text)
            case Thinking():
                return len(part.text) + len(part.redacted or "")
            case ToolCall():
                return len(part.name) + len(part.arguments)
            case ToolResult():
                return 1 + sum(map(self.part, part.content))
            case _:
                return 100

    def observe(self, request: Request, response: Response) -> None:
        usage = response.usage
        if usage.estimated or usage.input_tokens is None or not 0 < usage.input_tokens < 10**9:
            return
        share = usage.input_tokens / (self.count_request(request) or 1)
        self.scale = min(4.0, max(0.5, self.scale * share))


class Plain:
    """It keeps its word, too, and learns nothing."""

    def __init__(self) -> None:
        self.count_messages = Good().count_messages
        self.count_text = Good().count_text


class NothingIsOne(Good):
    def tokens(self, size: int) -> int:
        return size + 1


class RoundsDown(Good):
    def count_text(self, text: str) -> int:
        return len(text) // 4


class Proper(Good):
    """White space and what is no proper text is nothing to it."""

    def count_text(self, text: str) -> int:
        return len(text.encode(errors="ignore").split())


class Fraction(Good):
    def count_text(self, text: str) -> Any:
        return len(text) / 4


class Later(Good):
    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> Any:
        async def count() -> int:
            return 1

        return count() if tools else super().count_messages(messages)


class Blind(Good):
    def part(self, part: Part) -> int:
        return 0 if isinstance(part, Image) else super().part(part)


class Deaf(Good):
    def part(self, part: Part) -> int:
        return 0 if isinstance(part, Audio | File) else super().part(part)


class Shallow(Good):
    """It does not look into results."""

    def part(self, part: Part) -> int:
        return 100 if isinstance(part, ToolResult) else super().part(part)


class NoArguments(Good):
    def part(self, part: Part) -> int:
        return len(part.name) if isinstance(part, ToolCall) else super().part(part)


class NoTools(Good):
    def tool(self, tool: ToolDef) -> int:
        return 0


class NoSchemas(Good):
    def tool(self, tool: ToolDef) -> int:
        return len(tool.name) + len(tool.description)


class Average(Good):
    """It guesses by the first and the last characters, and so a text that grows may shrink."""

    def count_text(self, text: str) -> int:
        dense = sum(character.isalpha() for character in text[:20] + text[-20:])
        return -(-len(text) * (10 + dense) // 40)


class Shortening(Good):
    """A long history is taken to be compacted by somebody."""

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        return super().count_messages(messages[-20:], tools)


class Rising(Good):
    def __init__(self) -> None:
        self.calls = 0

    def tokens(self, size: int) -> int:
        self.calls += 1
        return size + self.calls // 5 if size else 0


class ByLength(Good):
    """It remembers a history by how long it is."""

    def __init__(self) -> None:
        self.kept: dict[int, int] = {}

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        if tools:
            return super().count_messages(messages, tools)
        return self.kept.setdefault(len(messages), super().count_messages(messages))


class ById(Good):
    """It remembers messages by their ids and does not hold them: another object gets the id."""

    def __init__(self) -> None:
        self.kept: dict[int, int] = {}

    def message(self, message: Message) -> int:
        return self.kept.setdefault(id(message), super().message(message))


class Shared(Good):
    """Two threads add to one sum."""

    def __init__(self) -> None:
        self.sum = 0

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        self.sum = 0
        for message in messages:
            self.sum += self.message(message)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0)
        return self.sum + sum(map(self.tool, tools))


class Fetching(Good):
    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        with socket.socket():
            return super().count_messages(messages, tools)


class LookingUp(Good):
    def count_text(self, text: str) -> int:
        socket.getaddrinfo("localhost", 80)
        return super().count_text(text)


class Sleeping(Good):
    def count_text(self, text: str) -> int:
        time.sleep(0.0001)
        return super().count_text(text)


class Strict(Good):
    """It wants what JSON can hold."""

    def tool(self, tool: ToolDef) -> int:
        return len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.schema))


class Parsing(Good):
    def part(self, part: Part) -> int:
        return len(repr(part.parsed())) if isinstance(part, ToolCall) else super().part(part)


class Encoding(Good):
    def count_text(self, text: str) -> int:
        return len(text.encode())


class Credulous(Good):
    """What is reported is believed, whatever it is."""

    def observe(self, request: Request, response: Response) -> None:
        if response.usage.input_tokens is not None and not response.usage.estimated:
            self.scale = response.usage.input_tokens / (self.count_request(request) or 1)

    def tokens(self, size: int) -> int:
        return int(size * self.scale)


class Stubborn(Good):
    def observe(self, request: Request, response: Response) -> None:
        pass


class Alone(Good):
    """What one is told, the others do not learn."""

    def for_model(self, model: str) -> Self:
        return type(self)()


class LearnsFromItself(Good):
    """An estimate is a report like any other to it."""

    def observe(self, request: Request, response: Response) -> None:
        usage = msgspec.structs.replace(response.usage, estimated=False)
        super().observe(request, msgspec.structs.replace(response, usage=usage))


FAULTS: list[tuple[str, type[Good], str]] = [
    ("test_nothing_counts_as_zero", NothingIsOne, "an empty text: expected 0, found 1"),
    ("test_no_text_that_is_not_empty_counts_as_zero", RoundsDown, "count as nothing"),
    ("test_no_text_that_is_not_empty_counts_as_zero", Proper, "count as nothing"),
    ("test_a_count_is_a_whole_number", Fraction, "'float'"),
    ("test_a_count_is_a_whole_number", Later, "'coroutine'"),
    ("test_every_kind_of_part_counts", Blind, "'image', 'image by address'"),
    ("test_every_kind_of_part_counts", Deaf, "'audio'"),
    ("test_all_of_a_part_counts", Shallow, "a result, fifty times as long"),
    ("test_all_of_a_part_counts", NoArguments, "a call's arguments, fifty times as long"),
    ("test_tools_and_their_schemas_count", NoTools, "whether a tool counts"),
    ("test_tools_and_their_schemas_count", NoSchemas, "'a larger schema'"),
    ("test_more_of_a_text_does_not_count_as_less", Average, "counts that fall"),
    ("test_more_messages_do_not_count_as_less", Shortening, "counts that fall"),
    ("test_the_same_input_gives_the_same_count", Rising, "the same messages"),
    ("test_a_changed_history_is_counted_anew", ByLength, "a changed history"),
    ("test_a_changed_history_is_counted_anew", ById, "a changed history"),
    ("test_threads_may_count_at_once", Shared, "counts of several threads"),
    ("test_it_uses_no_network_and_does_not_wait", Fetching, "must not use the network"),
    ("test_it_uses_no_network_and_does_not_wait", LookingUp, "must not use the network"),
    ("test_it_uses_no_network_and_does_not_wait", Sleeping, "must not wait"),
    ("test_odd_input_is_counted_too", Strict, "object"),
    ("test_odd_input_is_counted_too", Parsing, "truncated"),
    ("test_odd_input_is_counted_too", Encoding, "surrogates"),
    ("test_what_is_learned_breaks_no_promise", Credulous, "nothing|fall|large"),
    ("test_reports_bring_the_count_nearer", Stubborn, "whether the count has risen"),
    (
        "test_what_was_learned_is_shared_with_a_counter_for_another_model",
        Alone,
        "whether the count has risen",
    ),
    ("test_a_report_that_says_nothing_teaches_nothing", LearnsFromItself, "the count"),
]


def run(make: type[Any], check: str) -> None:
    class Suite(TokenCounterContract):
        @asynccontextmanager
        async def open(self) -> AsyncIterator[TokenCounter]:
            yield make()

    RULES.run(getattr(Suite(), check), 30.0)


@pytest.mark.parametrize("check", CHECKS)
def test_a_counter_that_keeps_its_word_passes(check: str) -> None:
    assert isinstance(Good(), TokenCounter)
    assert isinstance(Good(), SupportsLearning)
    run(Good, check)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert sorted({check for check, _, _ in FAULTS}) == sorted(set(CHECKS) - {GUARD})


@pytest.mark.parametrize(("check", "make", "words"), FAULTS, ids=[make.__name__ for _, make, _ in FAULTS])
def test_a_planted_fault_is_found(check: str, make: type[Good], words: str) -> None:
    with pytest.raises(Exception, match=words) as found:
        run(make, check)
    assert not isinstance(found.value, SkipTest)


def test_a_counter_that_does_not_learn_skips_the_checks_of_learning() -> None:
    learning = [check for check, make, _ in FAULTS if make in (Credulous, Stubborn, Alone, LearnsFromItself)]
    for check in CHECKS:
        if check in learning:
            with pytest.raises(SkipTest, match="SupportsLearning"):
                run(Plain, check)
        else:
            run(Plain, check)


def test_what_is_forbidden_during_a_check_is_allowed_again_after_it() -> None:
    with pytest.raises(AssertionError, match="network"):
        run(Fetching, "test_it_uses_no_network_and_does_not_wait")
    with socket.socket():
        time.sleep(0)
    assert socket.getaddrinfo("127.0.0.1", 80)
