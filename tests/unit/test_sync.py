"""The same agent without an event loop: the same results, from any thread, and nothing left behind."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gnomon
import gnomon.agent
import gnomon.engine.run
import gnomon.session._reader
import gnomon.session.local
import gnomon.stream
from gnomon import (
    AskUser,
    Finish,
    Live,
    Message,
    MessageReceived,
    Provider,
    Request,
    TextDelta,
    ToolFinished,
    TurnFinished,
    TurnUnfinished,
    sync,
    tool,
)
from gnomon.errors import Overloaded
from gnomon.providers.scripted import Line, Script, ScriptedProvider, calls, says
from gnomon.types.events import ProviderEvent, QuestionAsked


@tool
def double(n: int) -> int:
    return 2 * n


SCRIPT = [says("Let me see.").calling("double", n=4), says("It is 8.").expecting(result="8")]


def agent(script: Script = SCRIPT, *tools: Any) -> sync.Agent:
    return sync.Agent(ScriptedProvider(script), tools=tools or [double])


class Watched(Provider):
    """Streams words, and keeps a book of what is open."""

    name = model = "watched"

    def __init__(self, words: int = 3, *, then_hang: bool = False) -> None:
        self.words = words
        self.then_hang = then_hang
        self.closed = threading.Event()
        self.shut = 0

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        try:
            for n in range(self.words):
                yield TextDelta(0, f"{n} ")
                await asyncio.sleep(0)
            if self.then_hang:
                await asyncio.Event().wait()
            yield Finish(stop_reason="end_turn")
        finally:
            self.closed.set()

    async def close(self) -> None:
        self.shut += 1


# --- the same ---------------------------------------------------------------


def test_the_turn_is_the_same_as_that_of_the_async_agent() -> None:
    turn = agent().run("go")
    other = asyncio.run(gnomon.Agent(ScriptedProvider(SCRIPT), tools=[double]).run("go"))
    assert (turn.messages, turn.stop, turn.rounds, turn.usage) == (
        other.messages,
        other.stop,
        other.rounds,
        other.usage,
    )


def test_the_events_are_the_same_as_those_of_the_async_agent() -> None:
    async def others() -> list[str]:
        async with gnomon.Agent(ScriptedProvider(SCRIPT), tools=[double]).stream("go") as run:
            return [type(event).__name__ async for event in run]

    with agent().stream("go") as run:
        found = list(run)
    assert [type(event).__name__ for event in found] == asyncio.run(others())
    assert isinstance(found[-1], TurnFinished)
    assert run.turn.text == "It is 8."
    assert run.turn.id == run.id == found[-1].turn_id


def test_it_says_who_it_is() -> None:
    provider = Watched()
    made = sync.Agent(provider, name="guide")
    assert (made.name, made.provider) == ("guide", provider)


def test_text_is_only_the_text_as_it_comes() -> None:
    with agent().stream("go") as run:
        assert "".join(run.text()) == "Let me see.It is 8."


def test_a_conversation_goes_on() -> None:
    made = agent(["Hello.", says("Again.").expecting(check=lambda request: len(request.messages) == 3)])
    first = made.run("hi")
    assert made.run("hi again", messages=first.messages).text == "Again."


def test_the_turn_is_not_there_before_its_end() -> None:
    with agent().stream("go") as run:
        next(run)
        with pytest.raises(RuntimeError, match="not over"):
            run.turn


def test_an_error_comes_out_as_it_is_and_the_agent_can_be_used_again() -> None:
    made = agent([says("x").failing(Overloaded("busy")), says("y").failing(Overloaded("busy")), "hello"])
    with pytest.raises(Overloaded, match="busy"):
        made.run("go")
    with pytest.raises(Overloaded, match="busy"), made.stream("go") as run:
        list(run)
    assert made.run("go").text == "hello"


def test_a_run_that_is_over_stays_over() -> None:
    with agent(["hi"]).stream("go") as run:
        assert list(run)
        assert list(run) == []
    assert list(run) == []


def test_the_events_of_one_response_can_be_read_alone() -> None:
    provider = Watched()
    with sync.Stream(provider.stream(Request(messages=(Message.user("go"),)))) as stream:
        with pytest.raises(RuntimeError, match="no response yet"):
            stream.response
        words = [event.text for event in stream if isinstance(event, TextDelta)]
    assert stream.response.text == "".join(words) == "0 1 2 "
    assert provider.closed.is_set()


def test_it_works_twice_and_after_asyncio_run() -> None:
    for _ in range(2):
        assert agent(["hi"]).run("go").text == "hi"
        assert asyncio.run(gnomon.Agent(ScriptedProvider(["ho"])).run("go")).text == "ho"


# --- leaving ----------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_leaving_early_closes_what_is_behind(count: int) -> None:
    provider = Watched(10)
    with sync.Agent(provider).stream("go") as run:
        for _ in range(count):
            next(run)
    assert provider.closed.is_set() == (count > 2), "the first two events are the turn's own"
    assert list(run) == []
    assert run.turn.stop == "cancelled"


def test_an_exception_of_the_reader_closes_what_is_behind() -> None:
    provider = Watched(10)

    def read() -> None:
        with sync.Agent(provider).stream("go") as run:
            for event in run:
                if isinstance(event, TextDelta):
                    raise LookupError

    with pytest.raises(LookupError):
        read()
    assert provider.closed.is_set()


def test_leaving_early_cancels_a_tool_that_runs() -> None:
    left = threading.Event()

    @tool(read_only=True)
    async def slow(n: int) -> int:
        if n:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
        return n

    with agent([calls("slow", n=0).calling("slow", n=1), "never"], slow).stream("go") as run:
        for event in run:
            if isinstance(event, ToolFinished):
                break
        assert not left.is_set()
    assert left.is_set()


def test_a_run_may_be_closed_twice_and_before_it_began() -> None:
    run = agent().stream("go")
    run.close()
    run.close()
    assert list(run) == []


def test_closing_the_agent_closes_the_provider_and_may_be_done_twice() -> None:
    provider = Watched()
    with sync.Agent(provider) as made:
        made.run("go")
    assert provider.shut == 1
    made.close()
    assert provider.shut == 2


# --- threads ----------------------------------------------------------------


def test_several_threads_use_one_agent_at_once() -> None:
    """All four are inside a tool at the same time."""
    meet = threading.Barrier(4, timeout=10)

    @tool
    def who(name: str) -> str:
        meet.wait()
        return f"I am {name}"

    def script(request: Request) -> Line:
        if len(request.messages) == 1:
            return calls("who", name=request.messages[0].text)
        return says(request.messages[-1].tool_results[0].text)

    made = agent(script, who)
    with ThreadPoolExecutor(4) as pool:
        turns = list(pool.map(made.run, ["ada", "bob", "cyd", "dan"]))
    assert [turn.text for turn in turns] == ["I am ada", "I am bob", "I am cyd", "I am dan"]


def test_a_stream_may_be_read_on_by_another_thread() -> None:
    with agent().stream("go") as run:
        next(run)
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(list, run).result(10)
    assert isinstance(rest[-1], TurnFinished)


def test_one_hung_stream_does_not_hold_up_another() -> None:
    provider = Watched(1, then_hang=True)
    with sync.Agent(provider).stream("go") as hung:
        for _ in range(3):
            next(hung)
        assert agent(["hi"]).run("go").text == "hi"
    assert provider.closed.is_set()


def test_there_is_one_thread_however_many_agents_there_are() -> None:
    for _ in range(5):
        agent(["hi"]).run("go")
    assert sum(thread.name == "gnomon-sync" for thread in threading.enumerate()) == 1


def test_a_tool_may_use_the_sync_agent_itself() -> None:
    inner = agent(["inner answer"])

    @tool
    def ask() -> str:
        return inner.run("go").text

    assert agent([calls("ask"), says("ok").expecting(result="inner answer")], ask).run("go").text == "ok"


# --- inside a loop ----------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda made: made.run("go"),
        lambda made: next(made.stream("go")),
        lambda made: made.stream("go").close(),
        lambda made: made.close(),
    ],
    ids=["run", "next", "close the run", "close"],
)
async def test_inside_a_running_loop_it_refuses_and_says_the_way_out(
    use: Callable[[sync.Agent], object],
) -> None:
    made = agent(["hi"])
    with pytest.raises(RuntimeError, match=r"would block the event loop.*gnomon\.Agent and await it"):
        use(made)
    assert (await asyncio.to_thread(made.run, "go")).text == "hi"


# --- processes --------------------------------------------------------------

PRELUDE = """
import asyncio, os, signal, sys, threading, time
from gnomon import Finish, Provider, TextDelta, ToolCall, ToolCallEnd, ToolCallStart, sync, tool

class Model(Provider):
    name = model = "model"

    async def events(self, request):
        try:
            yield TextDelta(0, "hello")
            if len(request.messages[0].text) > 2:
                print("waiting", flush=True)
                await asyncio.Event().wait()
            yield Finish(stop_reason="end_turn")
        finally:
            await asyncio.sleep(0)
            if len(request.messages[0].text) > 2:
                print("closed", flush=True)
"""


def python(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    "use", ["sync.Agent(Model()).run('wait for me')", "list(sync.Agent(Model()).stream('wait for me'))"]
)
def test_ctrl_c_cancels_and_closes_and_is_raised(use: str, processes: list[subprocess.Popen[str]]) -> None:
    program = f"""
try:
    {use}
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(sync.Agent(Model()).run("hi").text)
"""
    process = python(program)
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "closed\ninterrupted\nhello\n", "")
    assert time.monotonic() - began < 4, "it waited for something that was over"


def test_ctrl_c_inside_a_block_closes_once_and_leaves_it(processes: list[subprocess.Popen[str]]) -> None:
    process = python("""
try:
    with sync.Agent(Model()).stream("wait for me") as run:
        for event in run:
            pass
except KeyboardInterrupt:
    print("interrupted")
""")
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "closed\ninterrupted\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_it_works_in_a_forked_child_and_in_the_parent_after(processes: list[subprocess.Popen[str]]) -> None:
    process = python("""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
agent = sync.Agent(Model())
print(agent.run("hi").text, "before", flush=True)
child = os.fork()
if child == 0:
    print(agent.run("hi").text, "in the child", flush=True)
    with agent.stream("hi") as run:
        print(len(list(run)), "events in the child", flush=True)
    os._exit(0)
print("child ended with", os.waitpid(child, 0)[1], flush=True)
print(agent.run("hi").text, "after", flush=True)
""")
    processes.append(process)
    out, err = process.communicate(timeout=20)
    assert err == ""
    assert out.splitlines() == [
        "hello before",
        "hello in the child",
        "5 events in the child",
        "child ended with 0",
        "hello after",
    ]


def test_a_process_ends_though_a_stream_is_open_and_a_tool_hangs(
    processes: list[subprocess.Popen[str]],
) -> None:
    process = python("""
@tool(timeout_s=0.05)
def hang() -> None:
    time.sleep(600)

class Calls(Provider):
    name = model = "calls"

    async def events(self, request):
        if len(request.messages) == 1:
            yield ToolCallStart(0, "a", "hang")
            yield ToolCallEnd(0, ToolCall("a", "hang", "{}", 0))
        yield Finish(stop_reason="end_turn")

print(sync.Agent(Calls(), tools=[hang]).run("go").rounds)
left_open = sync.Agent(Model()).stream("hi")
next(left_open)
next(left_open)
""")
    processes.append(process)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "2\n", "")


def test_what_ends_a_program_does_not_hang_it(processes: list[subprocess.Popen[str]]) -> None:
    """`sys.exit` in a provider would end the thread that everybody waits for."""
    process = python("""
class Exits(Provider):
    name = model = "exits"

    async def events(self, request):
        sys.exit(3)
        yield

try:
    sync.Agent(Exits()).run("go")
except BaseException as error:
    print(type(error).__name__, flush=True)
print(sync.Agent(Model()).run("hi").text)
""")
    processes.append(process)
    try:
        out, _ = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        pytest.fail("the caller waits for ever")
    assert out == "SystemExit\nhello\n"


class Patient(Provider):
    """Answers when it is released, and remembers how it ended."""

    name = model = "patient"

    def __init__(self, released: threading.Event) -> None:
        self.released = released
        self.began = False
        self.ended = ""
        self.closed = threading.Event()

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.began = True
        try:
            for _ in range(10_000):
                if self.released.is_set():
                    break
                await asyncio.sleep(0.001)
            yield Finish(stop_reason="end_turn")
            self.ended = "finished"
        except (asyncio.CancelledError, GeneratorExit):
            self.ended = "cancelled"
            raise
        finally:
            self.closed.set()


HANDING_OVER = ("run_coroutine_threadsafe", "call_soon_threadsafe")


def interrupted_at(number: int, work: Callable[[], object]) -> bool:
    """Press Ctrl-C at that line of the handing over; whether the work came so far."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        code = frame.f_code
        # Not where a lock is held: Python itself does not break in between a lock and its block.
        if code.co_name not in HANDING_OVER and (
            code.co_filename != sync.__file__ or code.co_name == "_running"
        ):
            return None
        count += event == "line"
        if count == number and event == "line":
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_line_of_the_way_leaves_no_work_behind() -> None:
    agent(["hi"]).run("start the thread")
    for number in range(1, 200):
        released = threading.Event()
        timer = threading.Timer(0.3, released.set)
        timer.start()
        provider = Patient(released)
        began = time.monotonic()
        was_interrupted = interrupted_at(number, partial(sync.Agent(provider).run, "go"))
        in_time = not released.is_set()
        assert time.monotonic() - began < 4, f"at line event {number} it waited for something that was over"
        agent(["hi"]).run("everything handed over before is under way by now")
        if provider.began:
            assert provider.closed.wait(5)
        timer.cancel()
        if not was_interrupted:
            break
        if in_time and provider.began:
            assert provider.ended == "cancelled", f"at line event {number} nobody called the work back"
    assert number >= 4


# --- sessions ---------------------------------------------------------------


class Point(msgspec.Struct):
    x: int
    y: int


def test_a_session_is_sent_to_read_and_gone_on_with() -> None:
    with agent(
        ["Hello.", says("Again.").expecting(check=lambda request: len(request.messages) == 3)]
    ) as made:
        session = made.session("talk")
        assert session.id == "talk"
        assert session.run("hi").text == "Hello."
        message_id = session.send("and now?", message_id="msg_2")
        assert message_id == "msg_2"
        turn = session.turn_result()
        assert (turn.text, turn.session_id) == ("Again.", "talk")
        assert session.refresh().state == "idle"
        assert session.status.tokens_used == session.refresh().tokens_used
        session.close()


def test_a_reader_knows_its_place_and_another_goes_on_from_there() -> None:
    with agent(["Hello."]) as made, made.session() as session:
        session.run("hi")
        with session.events() as reader:
            first = next(reader)
            place, at = reader.position, reader.at
        with session.events(after=place) as rest:
            found = []
            for event in rest:
                found.append(event)
                if isinstance(event, TurnFinished):
                    break
        assert isinstance(first, MessageReceived)
        assert (place, type(at)) == (1, datetime)
        assert not any(isinstance(event, MessageReceived) for event in found)
        assert rest.position > place


def test_a_turn_of_a_session_is_streamed_and_what_is_open_followed() -> None:
    @tool
    def ask() -> str:
        raise AskUser("Which one?")

    with agent([says("Hello."), calls("ask"), says("Then b.").expecting(result="b")], ask) as made:
        session = made.session(metadata={"from": "here"})
        assert session.follow() is None
        with session.stream("hi") as run:
            assert "".join(run.text()) == "Hello."
        assert (run.turn.text, run.session_id) == ("Hello.", session.id)
        assert not session.is_attended()
        with session.stream("choose", on_leave="detach") as asked:
            assert any(isinstance(event, QuestionAsked) for event in asked)
        rest = session.follow()
        assert rest is not None
        session.answer("b")
        assert "".join(rest.text()) == "Then b."
        rest.close()


def test_a_turn_that_waits_for_a_person_is_answered() -> None:
    @tool
    def ask() -> str:
        raise AskUser("Which one?", options=["a", "b"])

    with agent([calls("ask"), says("Then b.").expecting(result="b")], ask) as made:
        session = made.session()
        with pytest.raises(TurnUnfinished, match=r"Which one\?"):
            session.run("choose")
        assert [asked.options for asked in session.status.questions] == [("a", "b")]
        session.resume()
        session.answer("b")
        assert session.turn_result().text == "Then b."


def test_a_turn_is_cancelled_and_the_session_takes_the_next_message() -> None:
    provider = Watched(1, then_hang=True)
    with sync.Agent(provider) as made:
        session = made.session()
        session.send("go")
        with session.events() as reader:
            while not isinstance(next(reader), Live):
                pass
        session.cancel(reason="enough")
        turn = session.turn_result()
        assert (turn.stop, turn.text) == ("cancelled", "0 ")
        provider.then_hang = False
        assert session.run("again").text == "0 "


def test_a_fork_goes_its_own_way() -> None:
    with agent(["one", "two", "three"]) as made:
        session = made.session()
        session.run("a")
        other = session.fork(session_id="other")
        assert isinstance(other, sync.Session)
        assert (other.id, other.run("b").text) == ("other", "two")
        assert session.turn_result().text == "one"


def test_an_output_is_of_the_type_that_was_asked_for_and_seen_as_it_comes() -> None:
    provider = ScriptedProvider(['{"x": 1, "y": 22}', '{"x": 1, "y": 22}'])
    with sync.Agent(provider, output=Point) as made:
        assert made.run("where?").output == Point(1, 22)
        with made.stream("where?") as run:
            seen = list(run.partials())
        assert seen[-1] == {"x": 1, "y": 22}
        assert len(seen) > 1
        assert run.turn.output == Point(1, 22)
        assert run.session_id == run.turn.session_id


def test_a_run_that_nobody_reads_on_goes_on_when_it_was_asked_to() -> None:
    with agent() as made:
        with made.stream("go", on_leave="detach") as run:
            next(run)
        assert made.session(run.session_id).turn_result().text == "It is 8."


def test_an_agent_of_a_file_and_a_store_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('name = "guide"\nmodel = "demo"\n')
    with sync.Agent.from_file(tmp_path / "agent.toml", storage=f"sqlite:///{tmp_path}/kept.db") as made:
        assert isinstance(made, sync.Agent)
        assert made.name == "guide"
        said = made.session("kept").run("hi").text
    with sync.Agent("demo", name="guide", storage=f"sqlite:///{tmp_path}/kept.db") as again:
        assert again.session("kept").turn_result().text == said


def test_serving_lasts_until_ctrl_c(processes: list[subprocess.Popen[str]]) -> None:
    process = python("""
agent = sync.Agent(Model())
print("serving", flush=True)
try:
    agent.serve()
except KeyboardInterrupt:
    agent.close()
    print("interrupted", flush=True)
""")
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")


# --- the same methods -------------------------------------------------------

PAIRS = [
    (gnomon.agent.Agent, sync.Agent),
    (gnomon.engine.run.Run, sync.Run),
    (gnomon.session.local.LocalSession, sync.Session),
    (gnomon.session.subagent.LocalSubagent, sync.Subagent),
    (gnomon.session._reader.Reader, sync.Reader),
    (gnomon.stream.Stream, sync.Stream),
]
ATTRIBUTES = {gnomon.engine.run.Run: ("id", "session_id"), gnomon.session._reader.Reader: ("at",)}
"""What is an attribute there, and a property here."""

RENAMED = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}


def public(kind: type) -> dict[str, object]:
    """The methods and properties a user sees, under the names they have without a loop."""
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, member in vars(base).items():
            if name in RENAMED or name in RENAMED.values() or name == "__init__" or not name.startswith("_"):
                found[RENAMED.get(name, name)] = member
    return found


def parameters(member: object) -> list[tuple[str, object, object, object]]:
    member = getattr(member, "__func__", member)  # of a classmethod
    return [
        (parameter.name, parameter.kind, parameter.default, parameter.annotation)
        for parameter in inspect.signature(member).parameters.values()  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(("wanted", "found"), PAIRS, ids=lambda kind: kind.__module__ + "." + kind.__name__)
def test_every_public_method_has_its_twin_with_the_same_parameters(wanted: type, found: type) -> None:
    theirs, ours = public(wanted), public(found)
    theirs |= dict.fromkeys(ATTRIBUTES.get(wanted, ()), property())
    assert set(ours) == set(theirs)
    for name, member in theirs.items():
        if isinstance(member, property):
            assert isinstance(ours[name], property)
        elif name != "__init__" or wanted is gnomon.agent.Agent:  # the others wrap what is made already
            assert parameters(ours[name]) == parameters(member), name


@pytest.mark.parametrize(("wanted", "found"), PAIRS, ids=lambda kind: kind.__module__ + "." + kind.__name__)
def test_nothing_in_the_facade_has_to_be_awaited(wanted: type, found: type) -> None:
    for name, member in public(found).items():
        assert not inspect.iscoroutinefunction(member), name
        assert not inspect.isasyncgenfunction(member), name


@pytest.mark.parametrize(("wanted", "found"), PAIRS, ids=lambda kind: kind.__module__ + "." + kind.__name__)
def test_results_are_of_the_same_types(wanted: type, found: type) -> None:
    ours = public(found)
    for name, member in public(wanted).items():
        if inspect.isfunction(member) and name.isidentifier() and not name.startswith("__"):
            assert returned(ours[name]) == returned(member), name


def returned(member: Any) -> str:
    """What a method gives, under the names that things have without a loop."""
    said = str(inspect.signature(member).return_annotation).replace("LocalSession[", "Session[")
    said = said.replace("LocalSubagent", "Subagent")
    return said.replace("AsyncGenerator[", "Iterator[").replace(", None]", "]")
