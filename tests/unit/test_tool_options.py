"""What a tool may say of itself: limits, what becomes of an unknown outcome, and how to find it out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gnomon import ToolContext, ToolFailed, tool
from gnomon.contracts.tool import (
    SupportsLookup,
    SupportsOutputCap,
    SupportsProgress,
    SupportsTimeout,
    SupportsUnknown,
    Tool,
)
from gnomon.errors import AskUser, ConfigError, InvalidArguments
from gnomon.tools.function import as_tool

CONTEXT = ToolContext(call_id="call_1")


def pay(amount: int, to: str = "ada") -> str:
    """Pay."""
    return f"{amount} to {to}"


# --- limits -----------------------------------------------------------------


def test_a_tool_says_what_it_was_told_to_say() -> None:
    made = tool(max_output_chars=500, on_unknown="tell", timeout_s=2)(pay)
    assert isinstance(made, SupportsOutputCap)
    assert isinstance(made, SupportsUnknown)
    assert isinstance(made, SupportsTimeout)
    assert (made.max_output_chars, made.on_unknown, made.timeout_s) == (500, "tell", 2)


def test_a_tool_that_was_told_nothing_leaves_the_limits_to_the_engine_and_asks_a_person() -> None:
    made = tool(pay)
    assert (made.max_output_chars, made.on_unknown) == (None, "ask")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_output_chars": 0}, "above 0, not 0"),
        ({"max_output_chars": -1}, "above 0, not -1"),
        ({"max_output_chars": True}, "above 0, not True"),
        ({"max_output_chars": 1.5}, "above 0, not 1.5"),
        ({"timeout_s": "5"}, "timeout_s is a number of seconds, not '5'"),
        ({"timeout_s": True}, "timeout_s is a number of seconds, not True"),
        ({"timeout_s": 0}, "a limit of 0 seconds allows nothing"),
        ({"on_unknown": "again"}, "'ask' or 'tell', not 'again'"),
        ({"lookup": "pay"}, "its lookup is a function, not str"),
        ({"lookup": lambda: None}, "takes a key, or a key and arguments"),
        ({"lookup": lambda a, b, c: None}, "takes a key, or a key and arguments"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_the_tools_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        tool(**options)(pay)
    assert "tool 'pay'" in str(caught.value)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="tool name 5 is not one that every model takes"):
        tool(name=5)(pay)  # type: ignore[arg-type]


def test_an_option_that_does_not_exist_is_a_mistake_of_the_programmers() -> None:
    with pytest.raises(TypeError, match="retries"):
        tool(retries=3)(pay)  # type: ignore[call-overload]


# --- lookup -----------------------------------------------------------------


def test_only_a_tool_with_a_lookup_supports_it() -> None:
    assert not isinstance(tool(pay), SupportsLookup)
    assert not isinstance(tool(lookup=None)(pay), SupportsLookup)
    made = as_tool(pay, lookup=lambda key: None)
    assert isinstance(made, SupportsLookup)
    assert isinstance(made, Tool)
    assert not isinstance(made, SupportsProgress)
    assert not isinstance(tool(made), SupportsLookup), "a tool made anew has the new options"


async def looked_up(lookup: Any, arguments: str = '{"amount": 5}') -> Any:
    made = tool(lookup=lookup)(pay)
    assert isinstance(made, SupportsLookup)
    assert (await made.execute('{"amount": 5}', CONTEXT)).text == "5 to ada"
    return await made.lookup("key_1", arguments)


async def test_a_lookup_gets_the_key_and_the_arguments_and_gives_the_result() -> None:
    seen: list[object] = []

    def plain(key: str, arguments: dict[str, object]) -> str:
        seen.append((key, arguments, threading.current_thread() is threading.main_thread()))
        return "paid"

    async def later(key: str, arguments: dict[str, object]) -> str:
        seen.append((key, arguments, threading.current_thread() is threading.main_thread()))
        return "paid"

    for lookup in (plain, later):
        found = await looked_up(lookup)
        assert (found.text, found.name, found.status) == ("paid", "pay", "ok")
    assert seen == [("key_1", {"amount": 5}, False), ("key_1", {"amount": 5}, True)]


async def test_a_lookup_may_take_the_key_alone() -> None:
    async def by_key(key: str) -> str:
        return key

    assert (await looked_up(by_key, "these arguments are not even looked at")).text == "key_1"
    assert (await looked_up(lambda key: {"found": key})).text == '{"found":"key_1"}'


async def test_nothing_found_is_none_and_not_done() -> None:
    async def nothing(key: str) -> None: ...

    assert await looked_up(nothing) is None
    assert await looked_up(lambda key, arguments: None) is None


async def test_a_lookup_that_cannot_tell_raises() -> None:
    def unsure(key: str) -> None:
        raise ToolFailed("the bank does not answer")

    with pytest.raises(ToolFailed, match="the bank does not answer"):
        await looked_up(unsure)
    with pytest.raises(InvalidArguments):
        await looked_up(lambda key, arguments: "paid", "{}")


async def test_a_lookup_that_blocks_does_not_hold_up_the_loop() -> None:
    released = threading.Event()
    waiting = asyncio.create_task(looked_up(lambda key: released.wait(10)))
    await asyncio.sleep(0.01)
    released.set()
    assert (await waiting).text == "true"


async def test_a_tool_may_stream_and_look_up() -> None:
    @tool(lookup=lambda key: "found")
    def work(n: int) -> Iterator[str]:
        yield str(n)

    assert isinstance(work, SupportsLookup)
    assert isinstance(work, SupportsProgress)
    assert (await work.execute('{"n": 3}', CONTEXT)).text == "3"
    found = await work.lookup("k", "{}")
    assert found is not None
    assert found.text == "found"


async def test_the_lookup_of_a_method_may_be_a_method_or_a_function() -> None:
    class Bank:
        def __init__(self) -> None:
            self.paid = {"k": 3}

        def find(self, key: str) -> int | None:
            return self.paid.get(key)

        def find_more(self, key: str, arguments: dict[str, object]) -> object:
            return [self.paid.get(key), arguments]

        @tool(lookup=find, on_unknown="tell", max_output_chars=9)
        def pay(self, amount: int) -> int:
            return amount

        @tool(lookup=find_more)
        def give(self, amount: int) -> int:
            return amount

        @tool(lookup=lambda key: "elsewhere")
        def send(self, amount: int) -> int:
            return amount

    bank = Bank()
    for made, text in ((bank.pay, "3"), (bank.give, '[3,{"amount":1}]'), (bank.send, "elsewhere")):
        assert isinstance(made, SupportsLookup)
        found = await made.lookup("k", '{"amount": 1}')
        assert found is not None
        assert found.text == text
    assert (bank.pay.on_unknown, bank.pay.max_output_chars) == ("tell", 9)
    assert await bank.pay.lookup("other", "{}") is None


# --- asking a person --------------------------------------------------------


async def test_a_question_to_a_person_passes_through_unchanged() -> None:
    question = AskUser("Really?", options=("yes", "no"))

    @tool
    def plain() -> None:
        raise question

    @tool
    async def later() -> None:
        raise question

    for made in (plain, later):
        with pytest.raises(AskUser) as caught:
            await made.execute("{}", CONTEXT)
        assert caught.value is question
        assert caught.value.options == ("yes", "no")
