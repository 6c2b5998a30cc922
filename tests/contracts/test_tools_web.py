"""The tools `todo`, `http_get` and `ask_user` keep their word, and what each is for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from gnomon import Agent, ToolContext, ToolResult
from gnomon.contracts.tool import Tool
from gnomon.errors import InvalidArguments
from gnomon.testing import ScriptedProvider, ToolContract, calls, says
from gnomon.testing._server import Pause, Send, ServerReply
from gnomon.tools.http_get import HTTPGet
from gnomon.tools.todo import todo
from web_site import HERE, Site, page

# --- todo ---------------------------------------------------------------------


class TestTodo(ToolContract):
    arguments = '{"items": [{"content": "buy tea", "status": "completed"}, {"content": "drink it"}]}'
    answer = "1. [x] buy tea\n2. [ ] drink it\n1 of 2 completed"
    invalid = {
        '{"items": [{"content": "tea", "status": "doing"}]}': "$.items[0].status",
        '{"items": [{"status": "pending"}]}': "content",
        '{"items": [{"content": "tea", "due": "today"}]}': "due",
        '{"items": [{"content": " \\n "}]}': "item 1 says nothing",
        '{"items": [{"content": "a"}, {"content": "b"}, {"content": " a "}]}': "items 1 and 3 say the same",
    }

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        yield todo

    def effects(self) -> int | None:
        return 0


async def listed(*items: object) -> str:
    arguments = msgspec.json.encode({"items": items}).decode()
    return (await todo.execute(arguments, ToolContext(call_id="call_1"))).text


async def test_a_list_says_what_is_being_worked_on() -> None:
    said = await listed({"content": "a", "status": "in_progress"}, {"content": "b"})
    assert said == "1. [>] a\n2. [ ] b\n0 of 2 completed"


async def test_an_item_cannot_look_like_another_line() -> None:
    assert await listed({"content": "a\n2. [x] b"}) == "1. [ ] a 2. [x] b\n0 of 1 completed"


async def test_an_empty_list_clears_it() -> None:
    assert await listed() == "The list is empty."


async def test_two_items_in_progress_are_named() -> None:
    working = {"content": "a", "status": "in_progress"}
    with pytest.raises(InvalidArguments, match="items 1 and 3 are both in_progress, and one at most may be"):
        await listed(working, {"content": "b"}, {**working, "content": "c"})


async def test_lists_that_are_too_long_are_refused_with_their_size() -> None:
    with pytest.raises(InvalidArguments, match="101 are too many, 100 are allowed"):
        await listed(*({"content": str(n)} for n in range(101)))
    with pytest.raises(InvalidArguments, match="item 2 has 501 characters, 500 are allowed"):
        await listed({"content": "a"}, {"content": "b" * 501})


async def test_a_list_is_still_known_when_another_process_goes_on(tmp_path: Path) -> None:
    """Nothing but the conversation holds it: another agent object, on the same store, sends it along."""
    store = f"sqlite:///{tmp_path / 'work.db'}"
    first = ScriptedProvider([calls("todo", items=[{"content": "buy tea"}]), says("Begun.")])
    async with Agent(first, tools=["todo"], storage=store) as agent:
        assert (await agent.session("s").run("Plan it.")).text == "Begun."
    second = ScriptedProvider([says("It is.")])
    async with Agent(second, tools=["todo"], storage=store) as agent:
        await agent.session("s").run("Is it still to be done?")
    (request,) = second.requests
    texts = [part.text for message in request.messages for part in message.tool_results]
    assert texts == ["1. [ ] buy tea\n0 of 1 completed"]


async def test_a_bad_list_is_told_to_the_model_and_the_turn_goes_on() -> None:
    both = [{"content": word, "status": "in_progress"} for word in "ab"]
    model = ScriptedProvider(
        [
            calls("todo", items=both),
            calls("todo", items=both[:1]).expecting(result="items 1 and 2 are both in_progress"),
            says("Done.").expecting(result="1. [>] a"),
        ]
    )
    async with Agent(model, tools=["todo"], permissions="plan") as agent:
        assert (await agent.run("Plan it.")).text == "Done."


# --- http_get -------------------------------------------------------------------


class TestHTTPGet(ToolContract):
    repeatable = False  # the mark around what came is another one each time
    invalid = {
        '{"url": 5}': "url",
        '{"url": "example.com"}': "neither http:// nor https://",
        '{"url": "ftp://example.com/"}': "neither http:// nor https://",
        '{"url": "https://user:pw@example.com/"}': "password",
        '{"url": "https://example.com/", "method": "POST"}': "method",
    }

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        slow = ServerReply(headers=(("content-type", "text/plain"),), steps=(Pause(1.2), Send(b"late")))
        async with Site({"/": page("hello"), "/slow": slow, "/broken": ServerReply(steps=())}) as site:
            # The contract knows the calls before there is a server with a port.
            self.site = site
            yield Moved(site)

    arguments = '{"url": "http://site.example:1/"}'
    slow = '{"url": "http://site.example:1/slow"}'
    failing = '{"url": "http://other.example:1/"}'

    def effects(self) -> int | None:
        return 0


class Moved(HTTPGet):
    """The tool, with a place of the test's server for one that the suite names."""

    def __init__(self, site: Site) -> None:
        self._port = site.port
        super().__init__(
            [f"site.example:{site.port}", f"other.example:{site.port}"],
            allow_private=[HERE],
            resolve=self._resolved,
        )

    async def _resolved(self, host: str) -> Sequence[str]:
        if host == "other.example":
            raise OSError("no such host")
        return [HERE]

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        return await super().execute(arguments.replace("example:1/", f"example:{self._port}/"), context)
