"""Statuses, codes and words become the one error that stands for them."""

from __future__ import annotations

from email.utils import formatdate
from time import time

import pytest

from gnomon import errors
from gnomon._status import Complaint, complaint_in, failure, retry_after_in


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
