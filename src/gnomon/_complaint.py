"""What a vendor says of a failure, in any of the shapes that services use, and when to come back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import cast

import msgspec

__all__ = [
    "MOST_READ",
    "PER_DAY",
    "PER_MINUTE",
    "Complaint",
    "complaint_from",
    "complaint_in",
    "retry_after_in",
    "verdicts_in",
    "wait_in",
]

MOST_READ = 20_000
"""Characters of a message that are looked at."""
PER_MINUTE = "quota_per_minute"
PER_DAY = "quota_per_day"
"""Kinds of a quota that is used up, where Google's details tell them apart."""

_WAIT = re.compile(r"(?i)\b(?:re)?try (?:again )?(?:in|after) (\d+(?:\.\d+)?) ?(ms|s|seconds?)\b")


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor says of a failure, in its own words. `code` is its most exact name for it."""

    message: str = ""
    code: str | None = None
    kind: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    """Seconds after which the vendor wants to be asked again."""


def complaint_in(body: bytes) -> Complaint:
    """What the body of a failed reply says, in any of the shapes that services use."""
    try:
        said: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Complaint(message=_plain_text(body))
    return complaint_from(said)


def complaint_from(said: object) -> Complaint:
    """The same for JSON that has been read: an object with `error`, `message` or `detail`, or bare text."""
    try:
        return _complaint(said)
    except RecursionError:  # it is nested as no complaint is, and the status says enough
        return Complaint()


def _complaint(said: object) -> Complaint:
    if isinstance(said, list):
        return _complaint(next(iter(cast("list[object]", said)), None))
    if isinstance(said, str):
        return Complaint(message=said)
    if not isinstance(said, dict):
        return Complaint()
    fields = cast("dict[str, object]", said)
    inner = _unwrapped(fields.get("error"))
    if isinstance(inner, dict):
        found = _complaint(cast(object, inner))
        return msgspec.structs.replace(found, request_id=_name(fields.get("request_id")) or found.request_id)
    details = fields.get("details")
    if isinstance(status := fields.get("status"), str) and status.isupper():
        return _google_complaint(status, fields)
    exact = cast("dict[str, object]", details).get("error_code") if isinstance(details, dict) else None
    message = _first_text(inner, fields.get("message"), fields.get("detail"), fields.get("msg"))
    if stopped := [name for name, verdict in verdicts_in(fields) if verdict.get("filtered") is True]:
        message = f"{message} (filtered: {', '.join(stopped)})".lstrip()
    return Complaint(
        message=message,
        code=_name(exact) or _name(fields.get("code")),
        kind=_name(fields.get("type")),
        request_id=_name(fields.get("request_id")),
    )


def _google_complaint(status: str, fields: Mapping[str, object]) -> Complaint:
    """`google.rpc.Status`: a name for the failure, and details that say more of it by their type."""
    details = cast("list[object]", fields.get("details") if isinstance(fields.get("details"), list) else [])
    found = {
        str(detail.get("@type")).rpartition(".")[2]: detail
        for detail in cast("list[dict[str, object]]", [one for one in details if isinstance(one, dict)])
    }
    message = _first_text(fields.get("message"))
    delay = found.get("RetryInfo", {}).get("retryDelay")
    kind = _quota(found.get("QuotaFailure"), delay, message) if status == "RESOURCE_EXHAUSTED" else None
    return Complaint(
        message=message,
        code=status,
        kind=kind or _name(found.get("ErrorInfo", {}).get("reason")),
        retry_after=_number(delay.removesuffix("s")) if isinstance(delay, str) else wait_in(message),
    )


def _quota(failure: Mapping[str, object] | None, delay: object, message: str) -> str | None:
    """Which quota it is: for a day, or none at all, a wait does not help."""
    said = msgspec.json.encode(failure or {}).decode()
    if "PerDay" in said or re.search(r"\blimit: 0\b", message) or '"quotaValue":"0"' in said:
        return PER_DAY
    return PER_MINUTE if failure or delay else None


def verdicts_in(said: object) -> Iterator[tuple[str, dict[str, object]]]:
    """What Azure's content filter says of each kind of content, wherever in a reply it stands.

    A kind is named with how bad it was found to be, such as `violence (medium)`.
    """
    if isinstance(said, list):
        for item in cast("list[object]", said):
            yield from verdicts_in(item)
    if not isinstance(said, dict):
        return
    for name, value in cast("dict[str, object]", said).items():
        if name in ("content_filter_result", "content_filter_results") and isinstance(value, dict):
            yield from _verdicts(cast("dict[str, object]", value))
        else:
            yield from verdicts_in(value)


def _verdicts(kinds: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    for kind, value in kinds.items():
        if isinstance(value, dict):
            verdict = cast("dict[str, object]", value)
            severity = verdict.get("severity")
            yield (f"{kind} ({severity})" if isinstance(severity, str) else kind), verdict


def _unwrapped(error: object) -> object:
    """What stands before another server may hand its error on as a text of JSON."""
    if not isinstance(error, str) or not error.startswith("{"):
        return error
    try:
        return cast(object, msgspec.json.decode(error))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return error


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
        text = title[1] if title else re.sub(r"(?s)<[^>]{0,2000}>", " ", text[:MOST_READ])
    return " ".join(text[:MOST_READ].split())


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


def wait_in(message: str) -> float | None:
    """The same, in words: the shortest way some services have to say it."""
    found = _WAIT.search(message)
    if found is None:
        return None
    value = _number(found[1])
    return value / 1000 if value is not None and found[2] == "ms" else value


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return _sensible(value)


def _sensible(seconds: float) -> float | None:
    """Nobody waits for thirty years: who says so has said nothing."""
    return seconds if 0 <= seconds < 1e9 else None


def _until(text: str) -> float | None:
    try:
        return _sensible(max(0.0, parsedate_to_datetime(text).timestamp() - time()))
    except (TypeError, ValueError, OverflowError):
        return None
