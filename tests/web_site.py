"""A web site on this machine, under a name of its own, and the tool that may ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import pytest

from gnomon import ToolContext, ToolResult
from gnomon.errors import ToolError
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.tools.http_get import HTTPGet

__all__ = ["ELSEWHERE", "HERE", "Answers", "Names", "Site", "get", "inside", "leading", "page", "told"]

Answers: TypeAlias = Mapping[str, ServerReply] | ServerReply | Callable[[ReceivedRequest], ServerReply]

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, which no test allows."""


NOTHING: Answers = ServerReply(status=404, framing="length")
"""A site without pages."""


class Names:
    """What a name server would say, one answer after the other; the last one again and again."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers or [[HERE]])
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def page(text: str | bytes, kind: str = "text/plain; charset=utf-8", *, status: int = 200) -> ServerReply:
    body = text.encode() if isinstance(text, str) else text
    return ServerReply(status=status, headers=(("content-type", kind),), body=body, framing="length")


def leading(location: str, status: int = 302) -> ServerReply:
    return ServerReply(status=status, headers=(("location", location),), framing="length")


class Site(FaultServer):
    """A site on this machine, and the tool that may ask it under the name `site.example`."""

    def __init__(self, answers: Answers = NOTHING) -> None:
        super().__init__(self._answered)
        self.answers = answers
        """By path, or the same for all; it may be set once the port is known."""
        self.names = Names()

    def _answered(self, request: ReceivedRequest) -> ServerReply:
        if isinstance(self.answers, ServerReply):
            return self.answers
        return self.answers[request.path] if isinstance(self.answers, Mapping) else self.answers(request)

    @property
    def port(self) -> int:
        return self.address[1]

    @property
    def site(self) -> str:
        return f"http://site.example:{self.port}"

    def tool(self, *hosts: str, **more: object) -> HTTPGet:
        options = {"allow_private": [HERE], "resolve": self.names, "timeout_s": 5.0, **more}
        return HTTPGet(hosts or [f"site.example:{self.port}"], **options)  # pyright: ignore[reportArgumentType]

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


async def get(tool: HTTPGet, url: str) -> ToolResult:
    arguments = msgspec.json.encode({"url": url}).decode()
    return await tool.execute(arguments, ToolContext(call_id="call_1"))


def inside(result: ToolResult) -> str:
    """What stands between the two lines of the mark."""
    head, _, rest = result.text.partition(" begins ---\n")
    mark = head.rpartition("--- ")[2]
    assert len(mark) == 16
    assert f"the two lines with {mark} comes from outside" in head
    text, _, after = rest.partition(f"\n--- {mark} ends ---")
    assert mark not in text + after
    return text


async def told(kind: type[ToolError], tool: HTTPGet, url: str) -> str:
    """What the model is told of a call that comes to nothing."""
    with pytest.raises(kind) as caught:
        await get(tool, url)
    assert type(caught.value) is kind
    return str(caught.value)
