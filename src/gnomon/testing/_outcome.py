"""What came of a request, beside what was expected of it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from typing import cast

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import ContractError, GnomonError, ProviderError
from gnomon.testing._fixtures import Answer, Failure, Fixture
from gnomon.testing._suite import expect, expect_some
from gnomon.types.codec import encode_event, error_event
from gnomon.types.events import Done, StreamEvent
from gnomon.types.messages import Part, ToolCall, UnknownPart
from gnomon.types.requests import Request, Response, Usage

__all__ = ["Outcome", "expect_error", "expect_expected", "outcome_of", "refused", "texts_of"]


class Outcome(msgspec.Struct, frozen=True):
    """The events of a stream, and the error that it ended with, if it did."""

    events: list[StreamEvent]
    error: Exception | None = None

    @property
    def response(self) -> Response | None:
        last = self.events[-1] if self.events else None
        return last.response if isinstance(last, Done) else None

    def story(self, fixture: Fixture, *, whole: bool = False, messages: bool = True) -> str:
        """All of it as text, or the end alone, to be compared; ids that were made up are numbered."""
        told = self.events if whole else self.events[-1:] if self.response else []
        lines = [encode_event(event).decode() for event in told]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error if messages else '…'}")
        return _numbered("\n".join(lines), _made_up(self.events, fixture))

    def __str__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__} ({self.error}) after {len(self.events)} events"
        return f"an answer of {len(self.events)} events"


async def outcome_of(provider: Provider, request: Request) -> Outcome:
    """The outcome of asking, whatever it is."""
    events: list[StreamEvent] = []
    try:
        async with provider.stream(request) as stream:
            async for event in stream:
                events.append(event)
    except Exception as error:  # noqa: BLE001 - which one it is, is what is asked
        return Outcome(events, error)
    return Outcome(events)


def _made_up(events: Sequence[StreamEvent], fixture: Fixture) -> list[str]:
    """The ids of calls that do not come from the vendor."""
    ids = [getattr(event, "id", None) for event in events]
    last = events[-1] if events else None
    ids += [call.id for call in last.response.tool_calls] if isinstance(last, Done) else []
    known = [call_id for call_id in dict.fromkeys(ids) if isinstance(call_id, str)]
    return [call_id for call_id in known if call_id.encode() not in fixture.body]


def _numbered(text: str, ids: list[str]) -> str:
    for number, call_id in enumerate(ids):
        text = text.replace(call_id, f"<id {number}>")
    return text


# --- what is in the files ---------------------------------------------------------


def expect_expected(what: str, fixture: Fixture, outcome: Outcome) -> None:
    """The whole of what its file says."""
    if isinstance(fixture.expected, Failure):
        _expect_failure(what, fixture.expected, outcome)
    else:
        _expect_answer(what, fixture.expected, outcome)


def _expect_answer(what: str, expected: Answer, outcome: Outcome) -> None:
    response = outcome.response
    if response is None:
        raise AssertionError(f"{what}: expected an answer, found {outcome}") from outcome.error
    _expect_parts(what, expected.parts, response.message.content)
    expect(f"{what}: stop_reason", expected.stop_reason, response.stop_reason)
    for name in ("raw_stop_reason", "id", "model"):
        wanted: object = getattr(expected, name)
        if wanted is not msgspec.UNSET:
            expect(f"{what}: {name}", wanted, getattr(response, name))
    expect(f"{what}: usage", msgspec.convert(expected.usage, Usage), response.usage)


def _expect_parts(what: str, expected: list[dict[str, object]], parts: tuple[Part, ...]) -> None:
    # What only a newer reader knows is carried along; who does not expect it does not look at it.
    if all(part.get("type") != "unknown" for part in expected):
        parts = tuple(part for part in parts if not isinstance(part, UnknownPart))
    found = [cast("dict[str, object]", msgspec.to_builtins(part)) for part in parts]
    kinds = [part["type"] for part in found]
    expect(f"{what}: the kinds of its parts", [part.get("type") for part in expected], kinds)
    for number, (wanted, part) in enumerate(zip(expected, found, strict=True)):
        # A field that has its default is left out of plain data.
        shown = {name: part.get(name, _DEFAULTS.get(name)) for name in wanted}
        fields = {name: value for name, value in wanted.items() if not _is_any_id(name, value)}
        expect(f"{what}: part {number}", fields, {name: shown[name] for name in fields})
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    expect(f"{what}: ids of calls, each there and once", len(ids), len(set(filter(None, ids))))


_DEFAULTS: dict[str, object] = {"arguments": "{}", "truncated": False, "text": "", "meta": {}, "index": 0}


def _is_any_id(name: str, value: object) -> bool:
    return name == "id" and value is None


def _expect_failure(what: str, expected: Failure, outcome: Outcome) -> None:
    error = expect_error(what, outcome, expected.error)
    for name in ("status", "vendor_code", "request_id", "retryable"):
        wanted: object = getattr(expected, name)
        if wanted is not msgspec.UNSET:
            expect(f"{what}: {name}", wanted, getattr(error, name))
    if isinstance(expected.retry_after, float) and error.retry_after is not None:
        if not math.isclose(expected.retry_after, error.retry_after, abs_tol=0.01):
            expect(f"{what}: retry_after", expected.retry_after, error.retry_after)
    elif expected.retry_after is not msgspec.UNSET:
        expect(f"{what}: retry_after", expected.retry_after, error.retry_after)
    if expected.says not in error.message:
        raise AssertionError(
            f"{what}: expected a message that says {expected.says!r}, found {error.message!r}"
        )


def expect_error(what: str, outcome: Outcome, *codes: str, retryable: bool | None = None) -> ProviderError:
    """The one error, of one of these kinds and with its vendor, and no answer beside it."""
    wanted = " or ".join(codes)
    if not isinstance(outcome.error, ProviderError) or outcome.response is not None:
        raise AssertionError(f"{what}: expected the error {wanted}, found {outcome}") from outcome.error
    error = outcome.error
    if error.code not in codes:
        raise AssertionError(f"{what}: expected the error {wanted}, found {error.code}: {error}") from error
    expect_some(f"{what}: the vendor in the error {error.code}", error.vendor)
    if retryable is not None:
        expect(f"{what}: retryable in the error {error.code}", retryable, error.retryable)
    return error


def refused(outcome: Outcome) -> bool:
    """Whether the request was turned down for good, by an error of ours."""
    error = outcome.error
    return isinstance(error, GnomonError) and not isinstance(error, ContractError) and not error.retryable


# --- where a secret would show ----------------------------------------------------


def texts_of(error: BaseException) -> list[str]:
    """Every text that an error can show, with those of the errors it came from."""
    texts = ["".join(traceback.format_exception(error)), encode_event(error_event(error)).decode()]
    link: BaseException | None = error
    while link is not None:
        texts += [str(link), repr(link), repr(link.args), repr(vars(link))]
        link = link.__cause__ or link.__context__
    return texts
