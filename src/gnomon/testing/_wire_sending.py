"""What goes over a wire: nothing of a request is lost in silence, and nothing goes to the wrong place."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator

import msgspec

from gnomon.testing._histories import HISTORIES, MEDIA, Sent
from gnomon.testing._outcome import Outcome, refused
from gnomon.testing._player import strings_in
from gnomon.testing._server import ReceivedRequest
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.testing._wire_suite import Link, WireSuite
from gnomon.types.messages import Message, Part, Thinking, ToolResult
from gnomon.types.requests import OneTool, Request, Response

__all__ = ["WireSending"]


class WireSending(WireSuite):
    """The part of the suite that reads what was sent."""

    async def test_every_text_of_a_conversation_is_sent_or_warned_about(self) -> None:
        """S13: system texts, messages, names of tools, calls, arguments and results."""
        await self._expect_sent(HISTORIES)

    async def test_images_audio_and_files_are_sent_or_warned_about(self) -> None:
        """S13, S14: from bytes and from an address."""
        await self._expect_sent(MEDIA)

    async def test_a_tool_choice_is_sent_or_warned_about(self) -> None:
        """S13: each makes another request."""
        fixture = self.named("tools", "tool")[0]
        request = self.request_for(fixture)
        async with self.serving() as link:
            plain = await self._sent_with(link, msgspec.structs.replace(request, tool_choice=None))
            for choice in ("none", "required", OneTool(request.tools[0].name)):
                chosen = msgspec.structs.replace(request, tool_choice=choice)
                body = await self._sent_with(link, chosen)
                expect(f"tool_choice {choice!r}: sent, refused or warned about", True, body != plain)

    async def test_signed_thinking_returns_byte_for_byte_to_who_made_it(self) -> None:
        """S9: a signature that was touched is none."""
        async with self.serving() as link:
            for name, request, secrets in await self._second_rounds(link):
                outcome = await link.ask(self.wire[name], request=request)
                _answered(f"{name}, its second round", outcome)
                lost = [secret for secret in secrets if not _holds(link.last, secret)]
                expect(f"{name}: signatures that did not return", [], lost)

    async def test_signed_thinking_goes_to_nobody_else(self) -> None:
        """S9: to another model or provider it is not sent, and that is warned about."""
        other = self.named("text")[0]
        async with self.serving() as link:
            for name, request, secrets in await self._second_rounds(link):
                model = self.request_for(other).model
                for to, changed in (
                    ("another model", msgspec.structs.replace(request, model=model)),
                    ("another provider", _thought_by("another-provider", request)),
                ):
                    outcome = await link.ask(other, request=changed)
                    what = f"{name}: thinking sent to {to}"
                    expect(what, [], [secret for secret in secrets if _holds(link.last, secret)])
                    response = _answered(what, outcome)
                    expect_some(f"{what}: warnings", response.warnings)

    async def _expect_sent(self, histories: Iterable[Sent]) -> None:
        fixture = self.named("text")[0]
        model = self.request_for(fixture).model
        async with self.serving() as link:
            usual = set(_warnings(await link.ask(fixture)))
            for sent in histories:
                request = msgspec.structs.replace(sent.request, model=model)
                outcome = await link.ask(fixture, request=request)
                if refused(outcome) or set(_warnings(outcome)) - usual:
                    continue
                _answered(sent.what, outcome)
                lost = [text for text in sent.texts if not _holds(link.last, text)]
                lost += [f"{len(data)} bytes" for data in sent.media if not _holds_bytes(link.last, data)]
                expect(f"{sent.what}: not sent, and no warning", [], lost)

    async def _sent_with(self, link: Link, request: Request) -> bytes | None:
        """What was sent, or nothing when it was refused or warned about."""
        before = len(link.server.requests)
        fixture = self.named("tools", "tool")[0]
        outcome = await link.ask(fixture, request=request)
        told = refused(outcome) or _warnings(outcome)
        return None if told or len(link.server.requests) == before else link.last.body

    async def _second_rounds(self, link: Link) -> list[tuple[str, Request, list[str]]]:
        """The conversations in which something signed was said, and what was signed."""
        rounds: list[tuple[str, Request, list[str]]] = []
        for fixture in self.wire.answers():
            request = self.request_for(fixture)
            response = (await link.ask(fixture)).response
            secrets = list(_signed(response.message.content)) if response else []
            if response and secrets:
                said = (*request.messages, response.message, *_next(response))
                rounds.append((fixture.name, msgspec.structs.replace(request, messages=said), secrets))
        return rounds or skip(self, "signed thinking")


def _next(response: Response) -> tuple[Message, ...]:
    results = [ToolResult.of(call, "18 degrees") for call in response.tool_calls]
    return (Message.tool(*results),) if results else (Message.user("Go on."),)


def _signed(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Thinking):
            yield from filter(None, (part.signature, part.redacted))


def _thought_by(provider: str, request: Request) -> Request:
    messages = tuple(
        msgspec.structs.replace(message, content=tuple(_by(provider, part) for part in message.content))
        for message in request.messages
    )
    return msgspec.structs.replace(request, messages=messages)


def _by(provider: str, part: Part) -> Part:
    return msgspec.structs.replace(part, provider=provider) if isinstance(part, Thinking) else part


def _answered(what: str, outcome: Outcome) -> Response:
    if outcome.response is None:
        raise AssertionError(f"{what}: expected an answer, found {outcome}") from outcome.error
    return outcome.response


def _warnings(outcome: Outcome) -> tuple[str, ...]:
    return outcome.response.warnings if outcome.response else ()


def _holds(request: ReceivedRequest, text: str) -> bool:
    """Whether a text was sent: as it is, or as JSON writes it."""
    if text.encode() in request.body:
        return True
    try:
        return any(text in found for found in strings_in(msgspec.json.decode(request.body)))
    except (msgspec.DecodeError, UnicodeError):
        return False


def _holds_bytes(request: ReceivedRequest, data: bytes) -> bool:
    plain = request.body.replace(b"\\/", b"/")
    return any(form in plain for form in (data, b64encode(data), urlsafe_b64encode(data)))
