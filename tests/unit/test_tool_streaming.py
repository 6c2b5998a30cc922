"""Functions that yield: what they report, what they come to, and that closing them ends them."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from gnomon import Image, Text, ToolContext, ToolFailed, ToolResult, tool
from gnomon._threads import abandoned
from gnomon.contracts.tool import SupportsProgress, Tool
from gnomon.errors import AskUser, InvalidArguments
from gnomon.tools import _steps
from gnomon.tools.function import FunctionTool, StreamingFunctionTool
from gnomon.types.events import ToolProgress

PIXEL = Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")

Made = FunctionTool[..., Any]


def context(**facts: Any) -> ToolContext:
    return ToolContext(call_id="call_1", turn_id="turn_1", **facts)


def streaming(made: Made) -> StreamingFunctionTool[..., Any]:
    assert isinstance(made, StreamingFunctionTool)
    return made


async def events(made: Made, arguments: str = "{}") -> list[ToolProgress | ToolResult]:
    return [event async for event in streaming(made).execute_stream(arguments, context())]


async def reported(made: Made, arguments: str = "{}") -> tuple[list[str], str]:
    """The texts of the progress, and that of the result, which must be the last and the one of `execute`."""
    *progress, result = await events(made, arguments)
    assert isinstance(result, ToolResult)
    assert await made.execute(arguments, context()) == result
    assert (result.call_id, result.name) == ("call_1", made.name)
    texts: list[str] = []
    for event in progress:
        assert isinstance(event, ToolProgress)
        assert (event.turn_id, event.call_id) == ("turn_1", "call_1")
        texts.append(
            "".join(
                part.text if isinstance(part, Text) else f"<{type(part).__name__}>" for part in event.content
            )
        )
    return texts, result.text


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("what the test waits for did not happen")


def twice(function: Callable[..., Generator[Any, None, Any]]) -> list[Made]:
    """The same function as a plain generator and as an async one."""

    async def likewise(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        for value in function(*args, **kwargs):
            yield value

    likewise.__signature__ = __import__("inspect").signature(function)  # type: ignore[attr-defined]
    likewise.__annotations__ = function.__annotations__
    return [tool(function), tool(name=function.__name__)(likewise)]


# --- what is reported -------------------------------------------------------


async def test_what_is_yielded_is_shown_and_the_last_of_it_is_the_result() -> None:
    def count(upto: int) -> Iterator[Any]:
        """Count."""
        for n in range(1, upto + 1):
            yield f"{n} of {upto}"

    for made in twice(count):
        assert await reported(made, '{"upto": 3}') == (["1 of 3", "2 of 3", "3 of 3"], "3 of 3")
        assert made.description in ("Count.", "")


async def test_parts_lists_and_values_are_shown_like_results() -> None:
    def show() -> Iterator[Any]:
        yield Text("a")
        yield ["look", PIXEL]
        yield b"\x89PNG\r\n\x1a\n"
        yield {"n": 1}
        yield None
        yield 5

    for made in twice(show):
        assert await reported(made) == (["a", "look<Image>", "<Image>", '{"n":1}', "5"], "5")


async def test_what_a_plain_generator_returns_is_its_result() -> None:
    @tool
    def count() -> Generator[str, None, dict[str, int]]:
        yield "one"
        yield "two"
        return {"count": 2}

    assert await reported(count) == (["one", "two"], '{"count":2}')


async def test_a_result_made_by_hand_is_not_shown_as_progress() -> None:
    def work() -> Iterator[Any]:
        yield "working"
        yield ToolResult("other", "other", (Text("made"),), "error")

    for made in twice(work):
        assert await reported(made) == (["working"], "made")
        assert (await made.execute("{}", context())).status == "error"


async def test_a_generator_that_yields_nothing_is_done() -> None:
    def work() -> Iterator[Any]:
        yield from ()

    for made in twice(work):
        assert await reported(made) == ([], "done")


async def test_progress_is_shown_before_the_next_step_is_taken() -> None:
    """A report that came only with the next one would be of no use during a long step."""
    taken: list[int] = []

    def work() -> Iterator[Any]:
        for n in range(3):
            taken.append(n)
            yield str(n)

    for made in twice(work):
        taken.clear()
        async with aclosing(streaming(made).execute_stream("{}", context())) as stream:
            for n in range(3):
                event = await anext(stream)
                assert isinstance(event, ToolProgress)
                await asyncio.sleep(0.01)
                assert taken == list(range(n + 1)), "it went on before it was asked to"


def test_only_tools_that_yield_support_progress() -> None:
    def plain() -> None: ...

    async def later() -> None: ...

    class Counter:
        def __call__(self) -> Iterator[int]:
            yield 1

        def each(self) -> Iterator[int]:
            yield 1

    async def yields(n: int) -> AsyncIterator[int]:
        yield n

    for function in (plain, later):
        assert not isinstance(tool(function), SupportsProgress)
    made: list[Made] = [tool(yields), tool(Counter().each), tool(name="counter")(Counter())]
    made += [tool(name="part")(functools.partial(yields, 1)), tool(name="again")(tool(yields))]
    for each in made:
        assert isinstance(each, Tool)
        assert isinstance(each, SupportsProgress)


async def test_a_method_that_yields_is_a_tool_of_each_object() -> None:
    class Shop:
        def __init__(self, stock: int) -> None:
            self.stock = stock

        @tool(read_only=True, max_output_chars=7)
        def take(self, count: int) -> Iterator[str]:
            yield f"{self.stock - count} left"

    made = Shop(10).take
    assert isinstance(made, SupportsProgress)
    assert (made.read_only, made.max_output_chars) == (True, 7)
    assert await reported(made, '{"count": 3}') == (["7 left"], "7 left")
    assert list(made(4)) == ["6 left"]


async def test_wrong_arguments_are_refused_before_the_first_step() -> None:
    ran: list[int] = []

    def work(n: int) -> Iterator[Any]:
        ran.append(n)
        yield n

    for made in twice(work):
        with pytest.raises(InvalidArguments, match="Expected `int`"):
            await events(made, '{"n": "x"}')
    assert ran == []


# --- errors -----------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ToolFailed("closed"), AskUser("sure?", options=("yes",)), KeyError("lost")]
)
async def test_an_error_comes_out_as_it_is_after_what_was_shown(error: Exception) -> None:
    def work() -> Iterator[Any]:
        yield "first"
        raise error

    for made in twice(work):
        stream = streaming(made).execute_stream("{}", context())
        assert isinstance(await anext(stream), ToolProgress)
        with pytest.raises(type(error)) as caught:
            await anext(stream)
        assert caught.value is error


async def test_what_cannot_be_shown_ends_the_work() -> None:
    closed: list[bool] = []

    def work() -> Iterator[Any]:
        try:
            yield object()
        finally:
            closed.append(True)

    for made in twice(work):
        with pytest.raises(ToolFailed, match="returned object, which cannot be shown"):
            await made.execute("{}", context())
        await until(lambda: bool(closed))
        closed.clear()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_would_end_the_loop_comes_back_as_an_error(error: BaseException) -> None:
    @tool
    def work() -> Iterator[str]:
        yield "first"
        raise error

    with pytest.raises(RuntimeError, match=f"{type(error).__name__} was raised"):
        await work.execute("{}", context())


# --- beside the loop --------------------------------------------------------


async def test_a_plain_generator_runs_in_one_thread_that_is_not_the_loops() -> None:
    user = contextvars.ContextVar("user", default="nobody")
    user.set("ada")

    @tool
    def work() -> Iterator[Any]:
        for _ in range(4):
            yield f"{threading.get_ident()} {user.get()}"
            user.set("eve")

    texts, _ = await reported(work)
    threads = {text.split()[0] for text in texts}
    assert len(threads) == 1
    assert threads != {str(threading.get_ident())}
    assert [text.split()[1] for text in texts] == ["ada", "eve", "eve", "eve"]
    assert user.get() == "ada"


async def test_a_step_that_blocks_does_not_hold_up_the_loop() -> None:
    released = threading.Event()

    @tool
    def work() -> Iterator[bool]:
        yield released.wait(10)

    waiting = asyncio.create_task(work.execute("{}", context()))
    await asyncio.sleep(0.01)
    released.set()
    assert (await waiting).text == "true"


async def test_waiting_for_a_thread_is_not_the_tools_time() -> None:
    timed: list[bool] = []

    @tool
    def work() -> Iterator[str]:
        timed.append(threading.current_thread() is threading.main_thread())
        yield "x"

    await work.execute("{}", context(run_timer=timed.append))
    assert timed == [False, True, False], "held, then started when it had its place"


# --- closing ----------------------------------------------------------------


async def test_closing_stops_the_work_where_it_stands() -> None:
    log: list[str] = []

    def work() -> Iterator[Any]:
        try:
            yield "first"
            log.append("second step")
            yield "second"
        finally:
            log.append("closed")

    for made in twice(work):
        log.clear()
        async with aclosing(streaming(made).execute_stream("{}", context())) as stream:
            await anext(stream)
        assert log == ["closed"], "when aclose returns, it has ended"
    assert abandoned() == 0


async def test_a_stream_that_was_never_read_starts_nothing() -> None:
    ran: list[int] = []

    @tool
    def work() -> Iterator[int]:
        ran.append(1)
        yield 1

    await streaming(work).execute_stream("{}", context()).aclose()
    assert ran == []


async def test_a_hung_step_is_abandoned_and_ends_at_its_next_yield() -> None:
    log: list[str] = []
    go_on = threading.Event()

    @tool
    def work() -> Iterator[str]:
        try:
            yield "first"
            go_on.wait(30)
            yield "second"
            log.append("third step")
        finally:
            log.append("closed")

    before = abandoned()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await work.execute("{}", context())
    assert abandoned() == before + 1
    go_on.set()
    await until(lambda: abandoned() == before)
    assert log == ["closed"]


async def test_a_generator_that_will_not_end_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_steps, "CLOSING_S", 0.05)
    go_on = threading.Event()

    @tool
    def work() -> Iterator[str]:
        try:
            yield "first"
        finally:
            go_on.wait(30)

    before = abandoned()
    stream = streaming(work).execute_stream("{}", context())
    await anext(stream)
    await asyncio.wait_for(stream.aclose(), 10)
    assert abandoned() == before + 1
    go_on.set()
    await until(lambda: abandoned() == before)


async def test_an_error_while_closing_is_logged_and_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def work() -> Iterator[str]:
        try:
            yield "first"
        finally:
            raise ValueError("while closing")

    stream = streaming(work).execute_stream("{}", context())
    await anext(stream)
    with caplog.at_level(logging.WARNING, "gnomon.tools"):
        await stream.aclose()
    assert "'work' failed while it was closed" in caplog.text
    assert "while closing" in caplog.text


async def test_one_who_waits_for_a_place_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon import _threads

    monkeypatch.setattr(_threads, "LIMIT", 1)
    monkeypatch.setattr(_threads, "_places", {})
    ran: list[str] = []

    @tool
    def work(name: str) -> Iterator[str]:
        ran.append(name)
        yield name

    first = streaming(work).execute_stream('{"name": "a"}', context())
    await anext(first)
    second = asyncio.create_task(work.execute('{"name": "b"}', context()))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await first.aclose()
    assert (await work.execute('{"name": "c"}', context())).text == "c"
    assert ran == ["a", "c"]
