"""LoggingHook: a line for every step, with fields, without secrets, and bounded (H8)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hook_stage import QUESTION, Clock, question, used

from gnomon import registry
from gnomon.contracts.hook import Hook, SupportsAround
from gnomon.errors import ConfigError
from gnomon.hooks._notes import add_retry
from gnomon.hooks.logging import LoggingHook
from gnomon.testing._hook_steps import SECRET, steps, tool_step
from gnomon.types.events import Error
from gnomon.types.messages import Image, Message, Text, ToolResult, ToolStatus
from gnomon.types.requests import Request, Response, Spent, Usage
from gnomon.types.steps import HookEvent

LOGGER = "gnomon.hooks.logging"


class Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    logger, handler = logging.getLogger(LOGGER), Keeping()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler.records
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {
        name.removeprefix("gnomon_"): value
        for name, value in vars(record).items()
        if name.startswith("gnomon_")
    }


def responded(event: HookEvent, text: str = "At noon.", **facts: Any) -> HookEvent:
    response = Response(
        message=Message.assistant(text),
        stop_reason="end_turn",
        provider="acme",
        model="large",
        usage=used(7, 5),
        **facts,
    )
    return msgspec.structs.replace(event, response=response)


def resulted(event: HookEvent, status: ToolStatus = "ok", *parts: Any) -> HookEvent:
    result = ToolResult("call-0", "tide", parts or (Text("noon"),), status=status)
    return msgspec.structs.replace(event, result=result)


def failed(event: HookEvent, code: str = "overloaded", message: str = "busy") -> HookEvent:
    return msgspec.structs.replace(event, error=Error(code, message, retryable=True))


# --- what is said -------------------------------------------------------------------------


async def test_a_step_is_logged_when_it_begins_and_when_it_ends(records: list[logging.LogRecord]) -> None:
    clock = Clock()
    hook, event = LoggingHook(clock=clock), question()
    await hook.before(event)
    clock.at += 1.5
    await hook.after(responded(event))
    begins, ends = records
    assert (begins.levelno, begins.getMessage()) == (logging.DEBUG, "model acme:large: begins")
    assert (ends.levelno, ends.getMessage()) == (logging.INFO, "model acme:large: ok")
    assert ends.name == LOGGER
    assert fields(ends) == {
        "kind": "model",
        "name": "acme:large",
        "session_id": "s1",
        "turn_id": "t1",
        "attempt": 1,
        "stop_reason": "end_turn",
        "model": "large",
        "provider": "acme",
        "input_tokens": 7,
        "output_tokens": 5,
        "duration_s": 1.5,
    }


async def test_what_happened_on_the_way_is_said(records: list[logging.LogRecord]) -> None:
    hook, event = LoggingHook(), question()
    add_retry(event)
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)
    event = responded(event, discarded=(Spent(input_tokens=1),))
    assert event.response is not None
    event = msgspec.structs.replace(event, response=msgspec.structs.replace(event.response, usage=usage))
    await hook.after(event)
    found = fields(records[0])
    assert {name: found[name] for name in found if name.endswith("_tokens")} == {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_tokens": 3,
        "cache_write_tokens": 4,
    }
    assert (found["retries"], found["discarded_attempts"]) == (1, 1)


async def test_a_step_that_failed_is_a_warning(records: list[logging.LogRecord]) -> None:
    hook = LoggingHook()
    for event in steps():
        await hook.after(failed(event))
    assert {record.levelno for record in records} == {logging.WARNING}
    assert [record.getMessage() for record in records] == [
        "session agent: overloaded",
        "turn agent: overloaded",
        "model suite:model: overloaded",
        "tool tide: overloaded",
    ]
    found = fields(records[2])
    assert (found["error"], found["error_code"], found["retryable"]) == ("busy", "overloaded", True)


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("ok", logging.INFO),
        ("denied", logging.INFO),
        ("cancelled", logging.INFO),
        ("truncated", logging.INFO),
        ("error", logging.WARNING),
        ("timeout", logging.WARNING),
        ("interrupted", logging.WARNING),
        ("unknown", logging.WARNING),
    ],
)
async def test_a_tool_that_failed_is_a_warning(
    status: ToolStatus, level: int, records: list[logging.LogRecord]
) -> None:
    await LoggingHook().after(resulted(tool_step(), status))
    assert (records[0].levelno, records[0].getMessage()) == (level, f"tool tide: {status}")
    assert fields(records[0])["call_id"] == "call-0"


async def test_a_cancellation_is_no_failure(records: list[logging.LogRecord]) -> None:
    await LoggingHook(level="debug").after(failed(question(), "cancelled", "the step was cancelled"))
    assert records[0].levelno == logging.DEBUG


async def test_the_level_and_the_logger_are_those_that_were_given(caplog: pytest.LogCaptureFixture) -> None:
    hook = LoggingHook(level="error", logger="acme.steps")
    with caplog.at_level(logging.WARNING, "acme.steps"):
        await hook.before(question())
        await hook.after(responded(question()))
    assert [(record.name, record.levelno) for record in caplog.records] == [("acme.steps", logging.ERROR)]


async def test_what_nobody_wants_to_read_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    written: list[object] = []

    class Unread:
        def __str__(self) -> str:
            written.append(self)
            return "x"

    event = msgspec.structs.replace(question(), name=Unread())
    with caplog.at_level(logging.ERROR, LOGGER):
        await LoggingHook().before(event)
        await LoggingHook().after(failed(event))
    assert caplog.records == written == []


# --- what is not said ---------------------------------------------------------------------


async def test_what_was_said_is_not_logged(records: list[logging.LogRecord]) -> None:
    hook = LoggingHook()
    for event in (responded(question()), resulted(tool_step(arguments='{"city": "Dover"}'))):
        await hook.before(event)
        await hook.after(event)
    said = " ".join(str(vars(record)) for record in records)
    assert QUESTION not in said
    assert "noon" not in said
    assert "Dover" not in said


async def test_with_content_it_is(records: list[logging.LogRecord]) -> None:
    hook = LoggingHook(content=True)
    for event in (question(), tool_step(arguments='{"city": "Dover"}')):
        await hook.before(event)
    assert fields(records[0])["asked"] == QUESTION
    assert fields(records[1])["arguments"] == '{"city": "Dover"}'
    await hook.after(responded(question()))
    await hook.after(resulted(tool_step(), "ok", Image(url="https://example.org/x.png"), Text("at noon")))
    assert fields(records[2])["said"] == "At noon."
    assert fields(records[2])["asked"] == QUESTION
    assert fields(records[3])["said"] == "at noon"


@pytest.mark.parametrize("limit", [5, 30, 40, 500])
async def test_no_secret_is_logged_wherever_the_cut_is(limit: int, records: list[logging.LogRecord]) -> None:
    hook = LoggingHook(content=True, limit=limit)
    for before in range(25):
        text = "x" * before + f" {SECRET} and more"
        event = msgspec.structs.replace(question(), request=Request(messages=(Message.user(text),)))
        await hook.after(responded(event, text))
        await hook.after(failed(question(), "odd", text))
    said = " ".join(str(vars(record)) for record in records)
    assert SECRET[:12] not in said


async def test_a_field_is_no_longer_than_its_limit(records: list[logging.LogRecord]) -> None:
    hook = LoggingHook(content=True, limit=20)
    event = msgspec.structs.replace(question(), name="n" * 10_000_000, session_id="s" * 21)
    await hook.after(responded(event, "y" * 10_000_000))
    found = fields(records[0])
    assert found["session_id"] == "s" * 19 + "…"
    assert found["said"] == "y" * 19 + "…"
    assert found["asked"] == QUESTION
    assert max(len(value) for value in found.values() if isinstance(value, str)) == 20
    assert len(records[0].getMessage()) < 50


async def test_a_name_cannot_begin_a_line_of_its_own(records: list[logging.LogRecord]) -> None:
    forged = "tide\n2025-01-01 ERROR all is lost\x1b[2J\u2028\ud800"
    await LoggingHook().after(resulted(msgspec.structs.replace(tool_step(), name=forged)))
    line = records[0].getMessage()
    assert line == "tool tide\\n2025-01-01 ERROR all is lost\\x1b[2J\\u2028\\ud800: ok"
    line.encode()


async def test_odd_values_are_written_somehow(records: list[logging.LogRecord]) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    hook, event = LoggingHook(content=True), question()
    event.notes[hook._note] = "yesterday"
    odd = msgspec.structs.replace(
        event,
        session_id=Odd(),
        request=Request(messages=()),
        error=Error("x", Odd()),  # type: ignore[arg-type]
    )
    await hook.after(odd)
    found = fields(records[0])
    assert found["session_id"] == "<Odd that cannot be written: RuntimeError>"
    assert "duration_s" not in found


async def test_fields_are_in_the_way_of_no_record_and_no_formatter() -> None:
    """Whatever else is put into a record under names of its own."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s %(gnomon_name)s %(gnomon_kind)s %(message)s"))
    logger = logging.getLogger("tests.formatted")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        for event in steps():
            await LoggingHook(logger="tests.formatted", level="critical").after(event)
    finally:
        logger.removeHandler(handler)
    assert written.getvalue().splitlines()[2] == "tests.formatted suite:model model model suite:model: ok"


# --- how it is made -----------------------------------------------------------------------


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit of hook 'logging'"):
        LoggingHook(limit=0)
    with pytest.raises(ConfigError, match="no level of the log called 'loud'"):
        LoggingHook(level="loud")


def test_it_stands_beside_steps_and_is_there_by_its_name() -> None:
    assert registry.load("hooks", "logging") is LoggingHook
    assert isinstance(LoggingHook(), Hook)
    assert not isinstance(LoggingHook(), SupportsAround)
