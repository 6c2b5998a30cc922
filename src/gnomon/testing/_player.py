"""Plays the replies of a wire, if need be as a model that does what it is told.

A recorded reply knows nothing of the request. An obedient player mends, from what was really sent,
what no model does: it calls no tool that it was not told of or may not call. And no player gives
a call an id that the conversation has already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import cast

import msgspec

from gnomon.testing._faults import Fault
from gnomon.testing._fixtures import Fixture, Wire
from gnomon.testing._server import ReceivedRequest, ServerReply

__all__ = ["Player", "Told", "strings_in", "told"]

_TOKEN = re.compile(rb"fixture-([A-Za-z0-9_]+)")


class Told(msgspec.Struct, frozen=True):
    """What a request says of tools: which there are, and which to call."""

    tools: tuple[str, ...] = ()
    choice: str = "any"
    """`any`, `none`, or the name of one."""


class Player:
    """Answers each request with the reply that its model names: `fixture-NAME`."""

    def __init__(
        self, wire: Wire, key: str, check: Callable[[ReceivedRequest], None], *, obedient: bool = False
    ) -> None:
        self._wire = wire
        self._key = key
        self._check = check
        self._obedient = obedient
        self.fault = Fault()

    def __call__(self, request: ReceivedRequest) -> ServerReply:
        if self._key in request.path:
            raise AssertionError(f"the key is in the URL: {request.path.replace(self._key, '<the key>')}")
        self._check(request)
        fixture = self._fixture(request)
        reply = ServerReply(
            status=fixture.status,
            reason=fixture.reason,
            headers=fixture.headers,
            body=self._body(fixture, request),
            framing="chunked" if fixture.is_stream else "length",
        )
        return self.fault.applied(reply)

    def _fixture(self, request: ReceivedRequest) -> Fixture:
        found = set(_TOKEN.findall(request.path.encode())) or set(_TOKEN.findall(request.body))
        names = sorted(name.decode() for name in found)
        if len(names) != 1 or names[0] not in self._wire:
            raise AssertionError(
                f"{request.method} {request.path} asks for {names or 'no reply'}: the model of the request "
                f"is to be sent as it is, and to name one of {sorted(self._wire.fixtures)}"
            )
        fixture = self._wire[names[0]]
        return self._fitting(fixture, told(request.body)) if self._obedient else fixture

    def _fitting(self, fixture: Fixture, request: Told) -> Fixture:
        """Another reply where this one would call what it may not, or the same with other names."""
        if not fixture.called:
            return fixture
        if request.choice == "none" or not request.tools:
            return self._wire.fixtures.get("text", fixture)
        offered = request.tools if request.choice == "any" else (request.choice,)
        foreign = {name: None for call in fixture.called if (name := str(call["name"])) not in offered}
        body = fixture.body
        for number, name in enumerate(foreign):
            body = body.replace(_quoted(name), _quoted(offered[number % len(offered)]))
        return msgspec.structs.replace(fixture, body=body)

    def _body(self, fixture: Fixture, request: ReceivedRequest) -> bytes:
        body = fixture.body.replace(b"{{key}}", self._key.encode())
        for call in fixture.called:
            if call.get("id") and _quoted(call["id"]) in request.body:
                body = body.replace(_quoted(call["id"]), _quoted(_unused(str(call["id"]), request.body)))
        return body


def _unused(call_id: str, body: bytes) -> str:
    """Another id of the same length: some vendors take no other."""
    tried = (_like(call_id, number) for number in range(2, 1000))
    return next(made for made in tried if _quoted(made) not in body)


def _like(call_id: str, number: int) -> str:
    end = sha256(f"{call_id}x{number}".encode()).hexdigest()[: min(8, len(call_id))]
    return call_id[: len(call_id) - len(end)] + end


def _quoted(text: object) -> bytes:
    return f'"{text}"'.encode()


def told(body: bytes) -> Told:
    """What can be seen of it without knowing the vendor: the names of `tools`, the words of a choice."""
    try:
        sent: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return Told()
    tools = tuple(dict.fromkeys(_names(_under(sent, ("tools", "functions")))))
    words = [word for value in _under(sent, ("choice", "config")) for word in strings_in(value)]
    one = [word for word in words if word in tools]
    if len(one) == 1:
        return Told(tools, one[0])
    return Told(tools, "none" if any(word.lower() == "none" for word in words) else "any")


def _under(value: object, ends: tuple[str, ...]) -> Iterator[object]:
    """The values whose key ends so, at any depth of objects; not inside of messages, which are lists."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            if key.lower().endswith(ends):
                yield inner
            elif isinstance(inner, dict):
                yield from _under(cast(object, inner), ends)


def _names(values: Iterator[object]) -> Iterator[str]:
    """The names of tools: not those of parameters, which stand deeper, in a schema."""
    for value in values:
        for tool in cast("list[object]", value) if isinstance(value, list) else []:
            if isinstance(tool, dict):
                yield from _names_of(cast("dict[str, object]", tool))


def _names_of(tool: dict[str, object]) -> Iterator[str]:
    if isinstance(tool.get("name"), str):
        yield str(tool["name"])
        return
    for inner in tool.values():
        if isinstance(inner, dict):
            yield from _names_of(cast("dict[str, object]", inner))
        elif isinstance(inner, list):
            yield from _names(iter([cast(object, inner)]))


def strings_in(value: object) -> Iterator[str]:
    """Every text in plain data, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from strings_in(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from strings_in(inner)
