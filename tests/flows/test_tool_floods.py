"""Results that are too long for a model: head and tail are shown, and the rest can be read back (T3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from faced import PATIENCE_S, WAYS, ByHand, asked, faced, longest_gap_s, opened, results_in

from gnomon import Agent, Image, Text, ToolContext, ToolFailed, ToolResult, tool
from gnomon.testing import Line, ScriptedProvider, calls, hallucinates, says
from gnomon.types.requests import Request

CAP = 1_000
NOTE = 400
"""How much longer than its cap a result may be, for saying what was left out."""

LINES = "".join(f"line {number:06}\n" for number in range(5_000))  # 60,000 characters


def flood(text: str = LINES, cap: int | None = CAP) -> Any:
    @tool(read_only=True, max_output_chars=cap)
    def act() -> str:
        """Says a lot."""
        return text

    return act


def reading(offset: int, length: int) -> Callable[[Request], Line]:
    """The model reads on in the first result."""

    def line(request: Request) -> Line:
        return calls("read_output", call_id=results_in(request)[0].call_id, offset=offset, length=length)

    return line


def tools_of(request: Request) -> list[str]:
    return [definition.name for definition in request.tools]


# --- what the model sees -------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_of_a_long_result_head_and_tail_are_shown_and_what_is_missing_is_said(way: str) -> None:
    found = (await faced(way, flood())).result
    assert found.status == "ok"
    assert CAP / 2 < len(found.text) <= CAP + NOTE
    assert found.text.startswith(LINES[: CAP // 4])
    assert found.text.endswith(LINES[-CAP // 4 :])
    assert "read_output" in found.text
    assert str(len(LINES)) in found.text.replace(",", "").replace("_", "")


@pytest.mark.parametrize("way", WAYS)
async def test_a_hundred_megabytes_do_not_reach_the_model(way: str) -> None:
    found = await faced(way, flood("0123456789" * 10_000_000, cap=None))
    assert len(found.result.text) < 100_000, "there is a cap though the tool names none"
    assert found.took_s < 10


@pytest.mark.parametrize("length", [0, 1, CAP - 1, CAP])
async def test_a_result_that_fits_is_shown_as_it_is(length: int) -> None:
    def check(request: Request) -> bool:
        return results_in(request)[0].text == LINES[:length] and tools_of(request) == ["act"]

    provider = ScriptedProvider([calls("act"), says("Thank you.").expecting(check=check)])
    async with Agent(provider, tools=[flood(LINES[:length])]) as agent:
        await agent.run("Go.")
    provider.assert_finished()


async def _one_part(context: ToolContext) -> ToolResult:
    return ToolResult(context.call_id, "act", (Text(LINES),))


async def _many_parts(context: ToolContext) -> ToolResult:
    return ToolResult(context.call_id, "act", tuple(Text(f"{number}\n") for number in range(100_000)))


async def _fails_at_length(context: ToolContext) -> ToolResult:
    raise ToolFailed(LINES * 20)


async def _error_result(context: ToolContext) -> ToolResult:
    return ToolResult(context.call_id, "act", (Text(LINES),), status="error")


async def _half_characters(context: ToolContext) -> ToolResult:
    return ToolResult(context.call_id, "act", (Text("\ud83d" * 20_000),))


async def _many_bytes_a_character(context: ToolContext) -> ToolResult:
    return ToolResult(context.call_id, "act", (Text("🇨🇭👩‍👩‍👧" * 10_000),))


FLOODS = [
    _one_part,
    _many_parts,
    _fails_at_length,
    _error_result,
    _half_characters,
    _many_bytes_a_character,
]


class Capped(ByHand):
    max_output_chars = CAP


@pytest.mark.parametrize("work", FLOODS)
@pytest.mark.parametrize("way", WAYS)
async def test_the_cap_holds_however_the_text_comes(way: str, work: Any) -> None:
    found = (await faced(way, Capped(work))).result
    assert sum(len(part.text) for part in found.content if isinstance(part, Text)) <= CAP + NOTE
    assert len(found.content) < 10


async def test_pictures_beside_a_long_text_are_kept() -> None:
    picture = Image(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")

    async def work(context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, "act", (Text(LINES), picture, Text(LINES)))

    found = (await faced("run", Capped(work))).result
    assert found.images == (picture,)
    assert len(found.text) <= CAP + NOTE


async def test_a_tool_that_reports_is_capped_like_any_other() -> None:
    @tool(max_output_chars=CAP)
    async def act() -> AsyncGenerator[str, None]:
        yield "one moment"
        yield LINES

    assert len((await faced("stream", act)).result.text) <= CAP + NOTE


@pytest.mark.parametrize("cap", [1, 2, 3, 10])
async def test_a_cap_of_a_few_characters_is_kept_to(cap: int) -> None:
    found = (await faced("run", flood(cap=cap))).result
    assert len(found.text) <= cap + NOTE


# --- reading the rest ------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_the_rest_can_be_read_as_soon_as_something_was_left_out(way: str) -> None:
    middle = LINES[30_000:30_600]
    provider = ScriptedProvider(
        [
            calls("act").expecting(tools=["act"]),
            reading(30_000, 600),
            says("Thank you.").expecting(result=middle, tools=["act", "read_output"]),
        ]
    )
    async with opened(way, provider, flood()) as agent, asyncio.timeout(PATIENCE_S):
        await asked(agent, way, "Go.")
    provider.assert_finished()


async def test_page_by_page_the_whole_result_can_be_read() -> None:
    length = 7_000
    pages = range(0, len(LINES), length)
    seen: list[str] = []

    def look(request: Request) -> None:
        seen.extend(result.text for result in results_in(request)[1:])

    provider = ScriptedProvider(
        [calls("act"), *(reading(at, length) for at in pages), says("All read.").expecting(check=look)]
    )
    async with Agent(provider, tools=[flood()]) as agent, asyncio.timeout(PATIENCE_S):
        await agent.run("Go.")
    assert len(seen) == len(pages)
    for at, text in zip(pages, seen, strict=True):
        assert LINES[at : at + length] in text
        assert len(text) <= length + NOTE


async def test_a_later_turn_can_read_on_and_so_can_another_process(tmp_path: Path) -> None:
    """What was left out is in the ledger, and not in somebody's memory."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    first = ScriptedProvider(
        [
            calls("act"),
            says("A lot."),
            reading(30_000, 100),
            says("Read.").expecting(result=LINES[30_000:30_100], tools=["act", "read_output"]),
        ]
    )
    async with Agent(first, tools=[flood()], storage=url) as agent, asyncio.timeout(PATIENCE_S):
        session_id = (await agent.run("Go.")).session_id
        assert (await agent.session(session_id).run("And in the middle?")).text == "Read."
    second = ScriptedProvider(
        [
            reading(40_000, 100),
            says("Read again.").expecting(result=LINES[40_000:40_100], tools=["act", "read_output"]),
        ],
        verbatim=False,
    )
    async with Agent(second, tools=[flood()], storage=url) as agent, asyncio.timeout(PATIENCE_S):
        assert (await agent.session(session_id).run("And further on?")).text == "Read again."


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"call_id": "nobody"}, "error"),
        ({}, "error"),
        ({"call_id": 5}, "error"),
        ({"call_id": "", "offset": 0, "length": 10}, "error"),
        ({"call_id": "nobody" * 100_000}, "error"),
        ({"call_id": "the first", "offset": -5, "length": 100}, ""),
        ({"call_id": "the first", "offset": 10**9, "length": 100}, ""),
        ({"call_id": "the first", "offset": 0, "length": -1}, ""),
        ({"call_id": "the first", "offset": 0, "length": 0}, ""),
        ({"call_id": "the first", "offset": 0, "length": 10**9}, ""),
        ({"call_id": "the first", "offset": 2**70, "length": 2**70}, ""),
        ({"call_id": "the first", "offset": "zero"}, "error"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_reading_that_makes_no_sense_is_answered_and_the_turn_goes_on(
    arguments: dict[str, object], status: str
) -> None:
    def read(request: Request) -> Line:
        given = dict(arguments)
        if given.get("call_id") == "the first":
            given["call_id"] = results_in(request)[0].call_id
        return calls("read_output", **given)

    results: list[ToolResult] = []
    provider = ScriptedProvider(
        [
            calls("act"),
            read,
            says("Well.").expecting(check=lambda request: results.extend(results_in(request))),
        ]
    )
    async with Agent(provider, tools=[flood()]) as agent, asyncio.timeout(PATIENCE_S):
        assert (await agent.run("Go.")).text == "Well."
    assert results[1].status == (status or results[1].status)
    assert results[1].status in ("ok", "error")
    assert len(results[1].text) < 40_000


async def test_a_model_that_asks_before_anything_was_left_out_is_told_so() -> None:
    provider = ScriptedProvider(
        [hallucinates("read_output", call_id="nobody"), says("Well.").expecting(tools=["act"])]
    )
    async with Agent(provider, tools=[flood()]) as agent:
        turn = await agent.run("Go.")
    assert [result.status for result in results_in(turn)] == ["error"]


async def test_nobody_reads_what_was_left_out_in_another_session() -> None:
    """The second session has cut a result of its own, and asks for that of the first."""
    first: list[str] = []

    def script(request: Request) -> Line:
        results = results_in(request)
        prompt = request.messages[0].text
        if not results:
            return calls("act").calling("act") if prompt == "First." else calls("act")
        if prompt == "First.":
            first.append(results[1].call_id)
            return says("Done.")
        if len(results) > 1:
            return says(results[1].status)
        assert results[0].call_id != first[0]
        return calls("read_output", call_id=first[0], offset=30_000, length=100)

    async with Agent(ScriptedProvider(script), tools=[flood()], storage="memory://") as agent:
        assert (await agent.run("First.")).text == "Done."
        assert (await agent.run("Second.")).text == "error"


@pytest.mark.parametrize("way", WAYS)
async def test_a_second_long_result_is_read_by_its_own_id(way: str) -> None:
    @tool(read_only=True, max_output_chars=CAP)
    def act(letter: str) -> str:
        """Says a letter a lot."""
        return letter * 10_000

    def read(request: Request) -> Line:
        second = results_in(request)[1].call_id
        return calls("read_output", call_id=second, offset=5_000, length=50)

    first = calls("act", letter="a").calling("act", letter="b")
    provider = ScriptedProvider([first, read, says("b it is.").expecting(result="b" * 50)])
    async with opened(way, provider, act) as agent, asyncio.timeout(PATIENCE_S):
        turn = await asked(agent, way, "Go.")
    read_back = results_in(turn)[2]
    assert "a" * 50 not in read_back.text


# --- and what it costs ------------------------------------------------------------------


async def test_a_flood_does_not_hold_up_the_loop_for_long() -> None:
    stop = asyncio.Event()
    watching = asyncio.create_task(longest_gap_s(stop))
    await faced("run", flood("x" * 100_000_000, cap=None))
    stop.set()
    assert await watching < 2.0
