"""Images and files that a tool gives: into the ledger, to the model, and to whichever model goes on later."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from recorded_effects import entries_of

from gnomon import Agent, File, Image, Message, Text, ToolResult, tool
from gnomon.errors import BadRequest
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import Gate, within
from gnomon.types.events import LedgerEntry, ToolFinished
from gnomon.types.messages import Part
from gnomon.types.requests import Request
from standins import Asked, Reply, StandIn, json_reply
from storing import opened

SMALL = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
LARGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400
"""More than a store keeps in an event."""
PDF = b"%PDF-1.7\n" + b"0123456789" * 3_000
REPORT = File(data=PDF, media_type="application/pdf", name="report.pdf")


@tool(read_only=True)
def look(size: str) -> list[Part]:
    """Look at the thing."""
    image = Image(data=SMALL if size == "small" else LARGE, media_type="image/png")
    return [Text("Here it is:"), image, REPORT]


def results_of(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


def check_shown(request: Request, data: bytes) -> None:
    (result,) = results_of(request.messages)
    text, image, report = result.content
    assert isinstance(text, Text)
    assert text.text == "Here it is:"
    assert isinstance(image, Image)
    assert (image.data, image.media_type) == (data, "image/png")
    assert report == REPORT


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize(("size", "data"), [("small", SMALL), ("large", LARGE)])
async def test_what_a_tool_gives_is_shown_byte_for_byte_now_and_later(
    url: str, size: str, data: bytes
) -> None:
    async with opened(url) as storage:
        provider = ScriptedProvider([calls("look", size=size), says("Seen.")])
        async with Agent(provider, tools=[look], storage=storage) as agent:
            assert (await within("a turn", agent.session("s").run("Look."))).text == "Seen."
            check_shown(provider.requests[1], data)
        entries = await entries_of(storage, "s")
        (finished,) = [entry for entry in entries if isinstance(entry, ToolFinished)]
        assert finished.result.content[1] == Image(data=data, media_type="image/png")
        later = ScriptedProvider([says("Still there.")])
        async with Agent(later, tools=[look], storage=storage) as agent:
            fork = await agent.session("s").fork()
            assert (await within("a turn", fork.run("And now?"))).text == "Still there."
            check_shown(later.requests[0], data)


async def test_a_turn_that_is_gone_on_with_shows_what_the_tool_gave_before(tmp_path: Path) -> None:
    """The runner is gone when the result stands; the tool is not run again."""
    url = f"sqlite:///{tmp_path}/store.db"
    ran = 0

    @tool(name="look")
    def counted(size: str) -> list[Part]:
        """Look at the thing."""
        nonlocal ran
        ran += 1
        return [Text("Here it is:"), Image(data=LARGE, media_type="image/png"), REPORT]

    gate = Gate()

    async def hold(request: Request) -> Line:
        await gate.wait()
        return says("Never heard.")

    async with opened(url) as storage:
        agent = Agent(ScriptedProvider([calls("look", size="large"), hold]), tools=[counted], storage=storage)
        await agent.session("s").send("Look.")
        await gate.reached("the model")
        await agent.close()
    async with opened(url) as storage:
        provider = ScriptedProvider([says("Seen.")])
        async with Agent(provider, tools=[counted], storage=storage) as other:
            assert (await within("the turn", other.session("s").turn_result())).text == "Seen."
            check_shown(provider.requests[0], LARGE)
        entries: list[LedgerEntry] = await entries_of(storage, "s")
        assert unsound(entries) == []
    assert ran == 1


class Refusing(StandIn):
    """Keeps what it is sent, and says no to it: what is looked at is the question."""

    def check(self, asked: Asked) -> None: ...

    def answer(self, asked: Asked) -> Reply:
        return json_reply({"error": {"message": "not today", "type": "invalid_request_error"}}, 400)

    def refusal(self, reason: str) -> Reply:
        return json_reply({"error": {"message": reason}}, 400)


WIRES: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("anthropic:claude-opus-5-5", {}),
    "responses": ("openai:gpt-5", {}),
    "chat": ("openai:gpt-5", {"api": "chat"}),
    "gemini": ("gemini:gemini-3.8-flash", {}),
}


@pytest.mark.parametrize("wire", WIRES)
async def test_what_a_tool_gave_reaches_the_wire_of_the_model_that_goes_on(tmp_path: Path, wire: str) -> None:
    url, (model, more) = f"sqlite:///{tmp_path}/store.db", WIRES[wire]
    async with opened(url) as storage:
        first = ScriptedProvider([calls("look", size="large"), says("Seen.")])
        async with Agent(first, tools=[look], storage=storage) as agent:
            await within("a turn", agent.session("s").run("Look."))
    async with opened(url) as storage, Refusing() as server:
        settings = {"key": "k", "base_url": server.url, **more}
        async with Agent(model, tools=[look], storage=storage, settings=settings) as agent:
            with pytest.raises(BadRequest, match="not today"):
                await within("a turn", agent.session("s").run("And now?"))
        body = server.asked[-1].body.decode()
        assert b64encode(LARGE).decode() in body
        assert b64encode(PDF).decode() in body
        assert "Here it is:" in body
