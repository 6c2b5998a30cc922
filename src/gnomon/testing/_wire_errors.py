"""Replies that no vendor has written: bare statuses, other kinds of content, places elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from gnomon.testing._faults import Instead, Retyped
from gnomon.testing._outcome import expect_error, expect_expected
from gnomon.testing._server import FaultServer, ServerReply
from gnomon.testing._suite import expect
from gnomon.testing._wire_suite import WireSuite

__all__ = ["WireErrors"]

_STATUSES: Mapping[str, tuple[int, ...]] = {
    "unauthorized": (401, 403),
    "model_not_found": (404,),
    "bad_request": (400, 409, 422),
    "context_too_long": (413,),
    "overloaded": (408, 500, 502, 503, 504, 529),
    "rate_limited": (429,),
}
_RETRYABLE = ("overloaded", "rate_limited")
_PAGE = b"<!doctype html><title>Sign in</title><p>This network asks you to sign in.</p>"
_BODIES = {"": b"", "text/plain": b"upstream connect error", "text/html": _PAGE}
_ROUNDING_S = 2.0  # a date has whole seconds


class WireErrors(WireSuite):
    """The part of the suite that is answered strangely."""

    async def test_a_bare_status_is_the_error_that_stands_for_it(self) -> None:
        """S17: also without a body, or with one from something in between."""
        fixture = self.named("text")[0]
        async with self.serving() as link:
            for code, statuses in _STATUSES.items():
                for status in statuses:
                    for kind, body in _BODIES.items():
                        fault = Instead(
                            _page(status, kind, body), f"status {status} with {kind or 'no body'}"
                        )
                        outcome = await link.ask(fixture, fault)
                        error = expect_error(str(fault), outcome, code, retryable=code in _RETRYABLE)
                        expect(f"{fault}: the status in the error", status, error.status)

    async def test_a_rate_limit_says_when_to_come_back(self) -> None:
        """S12: seconds, milliseconds or a date, as the service likes it."""
        fixture = self.named("text")[0]
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        async with self.serving() as link:
            for name, value, wanted_s in (
                ("retry-after", "7", 7.0),
                ("retry-after", "0.5", 0.5),
                ("retry-after-ms", "1500", 1.5),
                ("retry-after", date, 30.0),
            ):
                reply = ServerReply(status=429, headers=((name, value),), framing="length")
                fault = Instead(reply, f"status 429 with {name}: {value}")
                error = expect_error(str(fault), await link.ask(fixture, fault), "rate_limited")
                allowed = _ROUNDING_S if value == date else 0.001
                if error.retry_after is None or abs(error.retry_after - wanted_s) > allowed:
                    expect(f"{fault}: retry_after", wanted_s, error.retry_after)

    async def test_a_page_in_place_of_an_answer_is_a_bad_reply(self) -> None:
        """A portal or a proxy says 200 too."""
        fixture = self.named("text")[0]
        fault = Instead(_page(200, "text/html", _PAGE), "a page of HTML with status 200")
        async with self.serving() as link:
            expect_error(str(fault), await link.ask(fixture, fault), "bad_reply")

    async def test_an_error_under_status_200_is_the_error_it_says(self) -> None:
        """S11: the typed error is the same, wherever it comes from."""
        fixture, source = self.named("text")[0], self.named("bad_request")[0]
        fault = Instead(
            _page(200, "application/json", source.body), f"the body of {source.name} with status 200"
        )
        async with self.serving() as link:
            outcome = await link.ask(fixture, fault)
        expect_error(str(fault), outcome, getattr(source.expected, "error", "bad_request"))

    async def test_an_answer_under_another_content_type_is_read(self) -> None:
        """Servers that speak a vendor's language do not all know what it is called."""
        fixture = self.named("text")[0]
        async with self.serving() as link:
            for kind in ("text/plain", "application/octet-stream"):
                fault = Retyped(kind)
                expect_expected(f"{fixture.name}, {fault}", fixture, await link.ask(fixture, fault))

    async def test_an_empty_answer_is_a_stream_cut(self) -> None:
        """S6: status 200 and nothing else is no answer."""
        fixture = self.named("text")[0]
        kind = (("content-type", fixture.content_type),)
        async with self.serving() as link:
            for framing in ("chunked", "length", "close"):
                fault = Instead(ServerReply(headers=kind, framing=framing), f"an empty body ({framing})")
                expect_error(str(fault), await link.ask(fixture, fault), "stream_cut", retryable=True)

    async def test_a_redirect_is_a_bad_reply_and_nobody_else_is_asked(self) -> None:
        """S12: the key goes to the address it was given for, and to no other."""
        fixture = self.named("text")[0]
        async with FaultServer(lambda request: ServerReply(status=200)) as elsewhere, self.serving() as link:
            for status in (301, 302, 303, 307, 308):
                place = ("location", f"{elsewhere.url}/{status}")
                reply = ServerReply(status=status, headers=(place,), framing="length")
                fault = Instead(reply, f"a redirect with status {status}")
                expect_error(str(fault), await link.ask(fixture, fault), "bad_reply")
                expect(f"{fault}: connections to the other place", 0, elsewhere.opened)


def _page(status: int, kind: str, body: bytes) -> ServerReply:
    headers = (("content-type", kind),) if kind else ()
    return ServerReply(status=status, headers=headers, body=body, framing="length")
