"""What went wrong, as one of our errors: a status, a vendor's error code, or what the words say.

A status and an error inside a stream that began well become the same class (S17).
"""

from __future__ import annotations

import re

from gnomon._complaint import MOST_READ, PER_DAY, PER_MINUTE, Complaint, wait_in
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

__all__ = ["failure"]


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
    if retry_after is None:
        retry_after = complaint.retry_after or wait_in(complaint.message)
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
    if status == 402 or _is_out_of_money(complaint.message, names):
        # Under 429 a wait would help if it were about speed; here nothing but money does.
        return (Unauthorized if status in (401, 403) else RateLimited), False
    if status == 413 or not _TOO_LONG_CODES.isdisjoint(names) or _TOO_LONG.search(complaint.message):
        return ContextTooLong, None
    if status is not None and not 200 <= status < 300:
        return _by_status(status, complaint), None
    known = next((found for name in names if (found := _by_name(name)) is not None), None)
    # A service that breaks off without a name for the reason has failed, for all one can tell.
    return known or (ProviderError if names else Overloaded), None


def _is_out_of_money(message: str, names: list[str]) -> bool:
    if not _MONEY_CODES.isdisjoint(names):
        return True
    # Google says the same of a quota for a minute and of one for a day; its details tell them apart.
    return PER_MINUTE not in names and _OUT_OF_MONEY.search(message) is not None


def _by_name(name: str) -> type[ProviderError] | None:
    """The class that a vendor's name for it stands for, or that the words in the name do."""
    if name in _BY_CODE:
        return _BY_CODE[name]
    return next((kind for words, kind in _BY_WORDS.items() if words in name), None)


def _by_status(status: int, complaint: Complaint) -> type[ProviderError]:
    if status == 403 and (complaint.kind == "guardrail_violation" or _GUARDRAIL.search(complaint.message)):
        return Refused  # Mistral's way to say that it is the content, not the key
    if status in _UNSPECIFIC:
        if _BAD_KEY.search(complaint.message):
            return Unauthorized
        for name in (complaint.code, complaint.kind):
            exact = _BY_CODE.get((name or "").lower())
            if exact in (ModelNotFound, Refused, Unauthorized):
                return exact
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return Overloaded
    return BadRequest if status >= 400 else BadReply


def _words(complaint: Complaint, status: int | None) -> str:
    said = " ".join(complaint.message[:MOST_READ].split())
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
    if kind is ModelNotFound and model:
        return f"`gnomon models {vendor}` lists the models; {model!r} was asked for"
    if kind is ContextTooLong:
        return "shorten the conversation, or use a model with a larger window"
    if kind is RateLimited:
        return f"ask again {_when(retry_after)}, or less often"
    return f"ask again {_when(retry_after)}" if kind is Overloaded else None


def _when(retry_after: float | None) -> str:
    return f"in {retry_after:.3g} s" if retry_after else "in a while"


_MOST_CHARACTERS = 600

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
    "unauthenticated": Unauthorized,
    "api_key_invalid": Unauthorized,
    "not_found_error": ModelNotFound,
    "not_found": ModelNotFound,
    "model_not_found": ModelNotFound,
    "invalid_model": ModelNotFound,
    "invalid_request_error": BadRequest,
    "invalid_argument": BadRequest,
    "failed_precondition": BadRequest,
    "out_of_range": BadRequest,
    "invalid_prompt": BadRequest,
    "bad_request": BadRequest,
    "content_policy_violation": Refused,
    "content_filter": Refused,
    "responsibleaipolicyviolation": Refused,
    "cyber_policy": Refused,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "rate_limited": RateLimited,
    "too_many_requests": RateLimited,
    "resource_exhausted": RateLimited,
    "tokens": RateLimited,
    "requests": RateLimited,
    "overloaded_error": Overloaded,
    "overloaded": Overloaded,
    "api_error": Overloaded,
    "server_error": Overloaded,
    "internal_server_error": Overloaded,
    "internal_error": Overloaded,
    "service_unavailable": Overloaded,
    "unavailable": Overloaded,
    "internal": Overloaded,
    "unknown": Overloaded,
    "aborted": Overloaded,
    "deadline_exceeded": Overloaded,
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
    "unreachable": Overloaded,
    "server_error": Overloaded,
    "capacity": Overloaded,
    "timeout": Overloaded,
    "rate_limit": RateLimited,
    "too_many": RateLimited,
    "slow_down": RateLimited,
    "invalid argument": BadRequest,
    "invalid_request": BadRequest,
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
    r"|token count.{0,60}exceeds? the maximum|payload size exceeds|too large to process"
)
_MONEY_CODES = frozenset(
    {
        PER_DAY,
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
    r"|reached your (?:\w+ )?usage limit|credits? (?:are|is|have been) depleted"
)
_GUARDRAIL = re.compile(r"(?i)blocked by (?:a )?guardrail")
_BAD_KEY = re.compile(r"(?i)\bAPI key (?:not valid|expired|not found)")
