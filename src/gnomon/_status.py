"""What went wrong, as one of our errors: a status, a vendor's error code, or what the words say.

A status and an error inside a stream that began well become the same class (S17).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import cast

import msgspec

from gnomon.errors import (
    BadReply,
    BadRequest,
    ContextTooLong,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Unauthorized,
    scrub,
)

__all__ = ["Complaint", "complaint_from", "complaint_in", "failure", "retry_after_in"]


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor says of a failure, in its own words. `code` is its most exact name for it."""

    message: str = ""
    code: str | None = None
    kind: str | None = None
    request_id: str | None = None


def failure(
    vendor: str,
    complaint: Complaint,
    *,
    status: int | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
    model: str | None = None,
) -> ProviderError:
    """The one error that stands for it, with what to do about it."""
    kind, retryable = _class_of(status, complaint)
    return kind(
        _words(complaint, status),
        vendor=vendor,
        status=status,
        vendor_code=complaint.code or complaint.kind,
        request_id=request_id or complaint.request_id,
        retry_after=retry_after,
        retryable=retryable,
        hint=_hint(kind, vendor, retryable, model, retry_after),
    )


def _class_of(status: int | None, complaint: Complaint) -> tuple[type[ProviderError], bool | None]:
    """The class, and whether to try again where that differs from what is usual for it."""
    names = [name.lower() for name in (complaint.code, complaint.kind) if name]
    if status == 402 or _OUT_OF_MONEY.search(complaint.message) or not _MONEY_CODES.isdisjoint(names):
        # Under 429 a wait would help if it were about speed; here nothing but money does.
        return (Unauthorized if status in (401, 403) else RateLimited), False
    if status == 413 or not _TOO_LONG_CODES.isdisjoint(names) or _TOO_LONG.search(complaint.message):
        return ContextTooLong, None
    if status is not None and not 200 <= status < 300:
        return _by_status(status, complaint), None
    known = next((found for name in names if (found := _by_name(name)) is not None), None)
    # A service that breaks off without a name for the reason has failed, for all one can tell.
    return known or (ProviderError if names else Overloaded), None


def _by_name(name: str) -> type[ProviderError] | None:
    """The class that a vendor's name for it stands for, or that the words in the name do."""
    if name in _BY_CODE:
        return _BY_CODE[name]
    return next((kind for words, kind in _BY_WORDS.items() if words in name), None)


def _by_status(status: int, complaint: Complaint) -> type[ProviderError]:
    exact = _BY_CODE.get((complaint.code or "").lower())
    if status in _UNSPECIFIC and exact in (ModelNotFound, Refused, Unauthorized):
        return exact
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return Overloaded
    return BadRequest if status >= 400 else BadReply


def _words(complaint: Complaint, status: int | None) -> str:
    said = " ".join(complaint.message[:_MOST_READ].split())
    if len(said) > _MOST_CHARACTERS:
        said = scrub(said)[:_MOST_CHARACTERS] + "…"  # half a secret is not recognised any more
    if said:
        return said
    return f"the service answered with status {status}" if status else "the service reported an error"


def _hint(
    kind: type[ProviderError],
    vendor: str,
    retryable: bool | None,
    model: str | None,
    retry_after: float | None,
) -> str | None:
    if retryable is False:
        return f"the account at {vendor} has no credit or quota left: add some, or use another key"
    if kind is Unauthorized:
        return f"check the key for {vendor}, and that it may use this model"
    if kind is ModelNotFound:
        return f"`gnomon models {vendor}` lists the models" + (f"; {model!r} was asked for" if model else "")
    if kind is ContextTooLong:
        return "shorten the conversation, or use a model with a larger window"
    if kind is RateLimited:
        return f"ask again {_when(retry_after)}, or less often"
    return f"ask again {_when(retry_after)}" if kind is Overloaded else None


def _when(retry_after: float | None) -> str:
    return f"in {retry_after:.3g} s" if retry_after else "in a while"


_MOST_CHARACTERS = 600
_MOST_READ = 20_000

_UNSPECIFIC = (400, 409, 422)  # statuses that the vendor's code may make more exact

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: ModelNotFound,
    408: Overloaded,
    425: Overloaded,
    429: RateLimited,
}

# Vendors' names for what went wrong, as `code` or as `type`.
_BY_CODE: dict[str, type[ProviderError]] = {
    "authentication_error": Unauthorized,
    "invalid_api_key": Unauthorized,
    "permission_error": Unauthorized,
    "permission_denied": Unauthorized,
    "not_found_error": ModelNotFound,
    "model_not_found": ModelNotFound,
    "invalid_request_error": BadRequest,
    "invalid_prompt": BadRequest,
    "bad_request": BadRequest,
    "content_policy_violation": Refused,
    "content_filter": Refused,
    "cyber_policy": Refused,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "rate_limited": RateLimited,
    "too_many_requests": RateLimited,
    "tokens": RateLimited,
    "requests": RateLimited,
    "overloaded_error": Overloaded,
    "overloaded": Overloaded,
    "api_error": Overloaded,
    "server_error": Overloaded,
    "internal_server_error": Overloaded,
    "internal_error": Overloaded,
    "service_unavailable": Overloaded,
    "unavailable_error": Overloaded,
    "engine_overloaded": Overloaded,
    "timeout": Overloaded,
    "timeout_error": Overloaded,
    "401": Unauthorized,
    "403": Unauthorized,
    "404": ModelNotFound,
    "400": BadRequest,
    "408": Overloaded,
    "429": RateLimited,
    "500": Overloaded,
    "502": Overloaded,
    "503": Overloaded,
    "504": Overloaded,
    "529": Overloaded,
}

_BY_WORDS: dict[str, type[ProviderError]] = {
    "overload": Overloaded,
    "unavailable": Overloaded,
    "server_error": Overloaded,
    "capacity": Overloaded,
    "timeout": Overloaded,
    "rate_limit": RateLimited,
    "too_many": RateLimited,
    "slow_down": RateLimited,
    "invalid argument": BadRequest,
    "api_key": Unauthorized,
    "permission": Unauthorized,
}

_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_TOO_LONG = re.compile(
    r"(?i)prompt is too long|maximum context length|context[_ ]length[_ ]exceeded"
    r"|exceeds? the (?:available )?context|context window|too many (?:input )?tokens|input is too long"
    r"|prompt.{0,40}exceed.{0,40}(?:context|tokens)"
    r"|exceeds? the (?:model'?s? )?(?:maximum )?(?:context|input)|exceeds? (?:the )?context (?:limit|size)"
    r"|greater than the context length"
)
_MONEY_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "enforced_spend_limit_reached",
        "billing_error",
        "budget_exceeded",
        "billing_not_active",
        "credit_exhausted",
        "insufficient_credits",
        "insufficient_balance",
    }
)
_OUT_OF_MONEY = re.compile(
    r"(?i)exceeded your current quota|credit balance is too low|insufficient (?:balance|credits?|quota|funds)"
    r"|out of credits?|requires? more credits|billing (?:hard )?limit|your specified api usage limits"
)


# --- what stands in a reply ----------------------------------------------------


def complaint_in(body: bytes) -> Complaint:
    """What the body of a failed reply says, in any of the shapes that services use."""
    try:
        said: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Complaint(message=_plain_text(body))
    return complaint_from(said)


def complaint_from(said: object) -> Complaint:
    """The same for JSON that has been read: an object with `error`, `message` or `detail`, or bare text."""
    if isinstance(said, list):
        return complaint_from(next(iter(cast("list[object]", said)), None))
    if isinstance(said, str):
        return Complaint(message=said)
    if not isinstance(said, dict):
        return Complaint()
    fields = cast("dict[str, object]", said)
    inner = fields.get("error")
    if isinstance(inner, dict):
        found = complaint_from(cast(object, inner))
        return msgspec.structs.replace(found, request_id=_name(fields.get("request_id")) or found.request_id)
    details = fields.get("details")
    exact = cast("dict[str, object]", details).get("error_code") if isinstance(details, dict) else None
    return Complaint(
        message=_first_text(inner, fields.get("message"), fields.get("detail"), fields.get("msg")),
        code=_name(exact) or _name(fields.get("code")),
        kind=_name(fields.get("type")),
        request_id=_name(fields.get("request_id")),
    )


def _first_text(*found: object) -> str:
    for value in found:
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict | list) and value:
            return msgspec.json.encode(cast(object, value)).decode(errors="replace")
    return ""


def _name(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _plain_text(body: bytes) -> str:
    """Words out of a page; the markup says nothing to whoever reads an error."""
    text = body.decode(errors="replace")
    if "<" in text:
        title = re.search(r"(?is)<title[^>]{0,200}>(.{0,300}?)</title", text)
        text = title[1] if title else re.sub(r"(?s)<[^>]{0,2000}>", " ", text[:_MOST_READ])
    return " ".join(text[:_MOST_READ].split())


def retry_after_in(headers: Mapping[str, str]) -> float | None:
    """How long a service asks to be left alone, in seconds."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    if said is None:
        return None
    seconds = _number(said)
    return seconds if seconds is not None else _until(said)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _until(text: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (TypeError, ValueError, OverflowError):
        return None
