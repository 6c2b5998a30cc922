"""Statuses, codes and words become the one error that stands for them."""

from __future__ import annotations

from email.utils import formatdate
from time import time

import msgspec
import pytest

from gnomon import errors
from gnomon._complaint import Complaint, complaint_in, retry_after_in
from gnomon._status import failure


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, errors.BadRequest, False),
        (401, errors.Unauthorized, False),
        (402, errors.RateLimited, False),
        (403, errors.Unauthorized, False),
        (404, errors.ModelNotFound, False),
        (408, errors.Overloaded, True),
        (409, errors.BadRequest, False),
        (413, errors.ContextTooLong, False),
        (422, errors.BadRequest, False),
        (429, errors.RateLimited, True),
        (500, errors.Overloaded, True),
        (503, errors.Overloaded, True),
        (529, errors.Overloaded, True),
        (302, errors.BadReply, False),
    ],
)
def test_a_status_has_one_error(status: int, kind: type[errors.ProviderError], retryable: bool) -> None:
    error = failure("acme", Complaint(), status=status)
    assert type(error) is kind
    assert error.retryable is retryable
    assert (error.vendor, error.status) == ("acme", status)
    assert str(status) in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", errors.Overloaded),
        ("rate_limit_error", errors.RateLimited),
        ("rate_limit_exceeded", errors.RateLimited),
        ("server_error", errors.Overloaded),
        ("authentication_error", errors.Unauthorized),
        ("invalid_request_error", errors.BadRequest),
        ("context_length_exceeded", errors.ContextTooLong),
        ("model_not_found", errors.ModelNotFound),
        ("content_policy_violation", errors.Refused),
        ("never heard of", errors.ProviderError),
    ],
)
def test_an_error_inside_a_stream_has_the_class_of_its_code(
    code: str, kind: type[errors.ProviderError]
) -> None:
    assert type(failure("acme", Complaint(message="no", code=code))) is kind
    assert type(failure("acme", Complaint(message="no", kind=code))) is kind


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 200001 tokens > 200000 maximum",
        "This model's maximum context length is 128000 tokens. Your messages resulted in 130000.",
        "the request exceeds the available context size, try increasing it",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ],
)
@pytest.mark.parametrize("status", [400, 500, None])
def test_a_prompt_that_is_too_long_is_known_by_its_words_whatever_the_status(
    message: str, status: int | None
) -> None:
    assert type(failure("acme", Complaint(message=message), status=status)) is errors.ContextTooLong


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        (429, Complaint(message="You exceeded your current quota.", code="insufficient_quota")),
        (402, Complaint()),
        (400, Complaint(message="Your credit balance is too low.", kind="invalid_request_error")),
        (402, Complaint(message="Insufficient Balance")),
        (402, Complaint(message="This request requires more credits, or fewer max_tokens.")),
    ],
)  # fmt: skip
def test_where_money_is_used_up_a_wait_does_not_help(status: int, complaint: Complaint) -> None:
    error = failure("acme", complaint, status=status)
    assert not error.retryable
    assert "credit or quota" in str(error)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            b'{"error":{"message":"no","type":"t","code":"c"}}',
            Complaint(message="no", code="c", kind="t"),
        ),
        (b'{"error":{"message":"no","code":429}}', Complaint(message="no", code="429")),
        (b'{"error":"plain"}', Complaint(message="plain")),
        (b'{"message":"m","type":"error"}', Complaint(message="m", kind="error")),
        (b'{"detail":[{"msg":"missing"}]}', Complaint(message='[{"msg":"missing"}]')),
        (b'[{"error":{"message":"first"}}]', Complaint(message="first")),
        (b'"words"', Complaint(message="words")),
        (b"", Complaint()),
        (b"null", Complaint()),
        (b"not found", Complaint(message="not found")),
        (b"<html><head><title>502 Bad Gateway</title></head></html>", Complaint(message="502 Bad Gateway")),
        (b"<p>Sorry,\n <b>closed</b></p>", Complaint(message="Sorry, closed")),
        (b'{"error":null,"message":"said here"}', Complaint(message="said here")),
        (b"\xff\xfe", Complaint(message="��")),
    ],
)  # fmt: skip
def test_what_a_service_says_is_found_in_every_shape_it_is_said_in(body: bytes, complaint: Complaint) -> None:
    assert complaint_in(body) == complaint


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_in(headers) == seconds


def test_a_date_to_come_back_at_is_counted_from_now() -> None:
    wait = retry_after_in({"retry-after": formatdate(time() + 30, usegmt=True)})
    assert wait is not None
    assert 25 < wait <= 31


def test_an_endless_message_is_cut() -> None:
    assert len(str(failure("acme", Complaint(message="x" * 100_000), status=500))) < 1000


def test_a_stream_that_breaks_off_with_words_alone_may_be_tried_again() -> None:
    assert type(failure("acme", Complaint(message="oops"))) is errors.Overloaded


# --- Google's way to say it ----------------------------------------------------------


def _google(status: str, message: str = "No.", *details: dict[str, object], code: int = 400) -> bytes:
    said = {"code": code, "message": message, "status": status, "details": details}
    return msgspec.json.encode({"error": said})


def _detail(kind: str, **fields: object) -> dict[str, object]:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}


def _quota(quota_id: str, value: str = "10") -> dict[str, object]:
    return _detail("QuotaFailure", violations=[{"quotaId": quota_id, "quotaValue": value}])


_USED_UP = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("INVALID_ARGUMENT", errors.BadRequest),
        ("FAILED_PRECONDITION", errors.BadRequest),
        ("UNAUTHENTICATED", errors.Unauthorized),
        ("PERMISSION_DENIED", errors.Unauthorized),
        ("NOT_FOUND", errors.ModelNotFound),
        ("RESOURCE_EXHAUSTED", errors.RateLimited),
        ("INTERNAL", errors.Overloaded),
        ("UNAVAILABLE", errors.Overloaded),
        ("DEADLINE_EXCEEDED", errors.Overloaded),
    ],
)
def test_a_name_of_googles_stands_for_an_error_inside_a_stream(
    status: str, kind: type[errors.ProviderError]
) -> None:
    error = failure("gemini", complaint_in(_google(status)))
    assert type(error) is kind
    assert error.vendor_code == status


@pytest.mark.parametrize(
    ("details", "retryable", "retry_after"),
    [
        ((_quota("RequestsPerMinutePerModel-FreeTier"), _detail("RetryInfo", retryDelay="26s")), True, 26.0),
        ((_detail("RetryInfo", retryDelay="1.5s"),), True, 1.5),
        ((_quota("RequestsPerDayPerModel-FreeTier"), _detail("RetryInfo", retryDelay="26s")), False, 26.0),
        ((_quota("RequestsPerMinutePerModel-FreeTier", "0"),), False, None),
        ((), False, None),
    ],
)
def test_a_quota_for_a_minute_comes_back_and_one_for_a_day_does_not(
    details: tuple[dict[str, object], ...], retryable: bool, retry_after: float | None
) -> None:
    body = _google("RESOURCE_EXHAUSTED", _USED_UP, *details, code=429)
    error = failure("gemini", complaint_in(body), status=429)
    assert type(error) is errors.RateLimited
    assert (error.retryable, error.retry_after) == (retryable, retry_after)


def test_the_exact_wait_wins_over_the_words_and_a_header_over_both() -> None:
    said = f"{_USED_UP}\nPlease retry in 47.434392449s."
    body = _google("RESOURCE_EXHAUSTED", said, _detail("RetryInfo", retryDelay="47s"), code=429)
    assert failure("gemini", complaint_in(body), status=429).retry_after == 47.0
    assert failure("gemini", complaint_in(body), status=429, retry_after=3.0).retry_after == 3.0


@pytest.mark.parametrize(
    ("words", "seconds"), [("Please try again in 250ms.", 0.25), ("retry in a bit", None)]
)
def test_a_wait_may_be_told_in_words(words: str, seconds: float | None) -> None:
    assert failure("acme", Complaint(message=words), status=429).retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [
        _google("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        _google("INVALID_ARGUMENT", "API key expired. Please renew the API key."),
        _google("INVALID_ARGUMENT", "No.", _detail("ErrorInfo", reason="API_KEY_INVALID")),
    ],
)
def test_a_bad_key_is_one_under_status_400_too(body: bytes) -> None:
    assert type(failure("gemini", complaint_in(body), status=400)) is errors.Unauthorized


@pytest.mark.parametrize("details", ["text", None, [None, 3, {}], {"error_code": 7}])
def test_details_of_another_shape_do_no_harm(details: object) -> None:
    said = {"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT", "details": details}}
    complaint = complaint_in(msgspec.json.encode(said))
    assert (complaint.code, complaint.message) == ("INVALID_ARGUMENT", "No.")


@pytest.mark.parametrize("said", ["9" * 400 + "s", "99999999999 seconds", "1" + "0" * 13 + "ms"])
def test_a_wait_that_nobody_waits_for_is_none(said: str) -> None:
    error = failure("acme", Complaint(message=f"Please try again in {said}."), status=429)
    assert error.retry_after is None
    assert retry_after_in({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}) is None


@pytest.mark.parametrize("shape", [(b'{"error":', b"}"), (b'{"x":', b"}"), (b"[", b"]")])
def test_a_complaint_may_be_nested_as_deep_as_it_likes(shape: tuple[bytes, bytes]) -> None:
    """Just below what the decoder refuses, our own reading comes to its end."""
    before, after = shape
    for depth in range(700, 1100):
        complaint_in(before * depth + b"1" + after * depth)
