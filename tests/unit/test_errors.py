from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys

import pytest

from gnomon import errors
from gnomon.errors import (
    BadRequest,
    ContextTooLong,
    ContractError,
    GnomonError,
    InvalidInput,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamCut,
    Unauthorized,
    scrub,
)


def every_error(root: type[GnomonError] = GnomonError) -> list[type[GnomonError]]:
    below = [kind for child in root.__subclasses__() for kind in every_error(child)]
    return [root, *(kind for kind in below if kind.__module__ == errors.__name__)]


ERRORS = every_error()
every = pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)


def make(kind: type[GnomonError], message: str = "the pump failed", **facts: object) -> GnomonError:
    if issubclass(kind, ContractError):
        facts["rule"] = "S6"
    return kind(message, **facts)  # type: ignore[arg-type]


# --- the tree ---------------------------------------------------------------


def drawn_tree() -> dict[str, str]:
    """Each class and the one above it, as the docstring of the module draws them."""
    above: dict[str, str] = {}
    path: list[str] = []
    for line in str(errors.__doc__).splitlines():
        found = re.match(r"^    ((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + (1 if "── " in line else 0)
        del path[depth:]
        above[found[2]] = path[-1] if path else ""
        path.append(found[2])
    return above


def test_the_drawing_is_the_real_tree() -> None:
    real = {kind.__name__: kind.__bases__[0].__name__ for kind in ERRORS}
    assert drawn_tree() == {**real, "GnomonError": ""}
    assert len(ERRORS) > 30


def test_everything_is_exported_and_nothing_else() -> None:
    assert sorted(errors.__all__) == sorted([*(kind.__name__ for kind in ERRORS), "scrub"])


@every
def test_every_error_has_a_code_of_its_own(kind: type[GnomonError]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
    assert "code" in vars(kind)
    assert [other for other in ERRORS if other.code == kind.code] == [kind]


@every
def test_an_error_has_one_parent_of_ours_and_is_an_exception(kind: type[GnomonError]) -> None:
    assert len(kind.__bases__) == 1
    assert issubclass(kind, Exception)
    with pytest.raises(GnomonError):
        raise make(kind)


RETRYABLE = {
    "RateLimited",
    "Overloaded",
    "StreamCut",
    "ProviderTimeout",
    "ConnectTimeout",
    "FirstByteTimeout",
    "IdleTimeout",
    "TotalTimeout",
    "Unavailable",
    "Unreachable",
}


@every
def test_what_may_be_tried_again_is_a_fact_of_the_class(kind: type[GnomonError]) -> None:
    assert kind.retryable is (kind.__name__ in RETRYABLE)
    assert make(kind).retryable is kind.retryable


def test_the_class_of_a_status_is_where_the_contract_puts_it() -> None:
    assert issubclass(ModelNotFound, BadRequest)
    assert not issubclass(ContextTooLong, BadRequest)
    assert not issubclass(Unauthorized, BadRequest)


def test_a_quota_that_is_used_up_is_not_retryable() -> None:
    spent = RateLimited("the quota is used up", retryable=False, retry_after=3.0)
    assert not spent.retryable
    assert RateLimited.retryable
    assert BadRequest("odd", retryable=True).retryable


# --- what it says -----------------------------------------------------------


@every
def test_an_error_says_its_message_and_its_hint(kind: type[GnomonError]) -> None:
    rule = " [rule S6]" if issubclass(kind, ContractError) else ""
    assert str(make(kind)) == f"the pump failed{rule}"
    assert str(make(kind, hint="call a plumber")) == f"the pump failed{rule} (call a plumber)"
    assert make(kind).hint is None
    assert make(kind, hint="call a plumber").hint == "call a plumber"
    assert kind.hint is None


def test_a_provider_error_says_who_and_what() -> None:
    error = Overloaded(
        "busy", vendor="acme", status=529, vendor_code="overloaded_error", request_id="req_1", hint="wait"
    )
    assert str(error) == "acme: busy [status 529, overloaded_error, request req_1] (wait)"
    assert str(Overloaded("busy", request_id="req_1")) == "busy [request req_1]"
    assert str(Overloaded("busy")) == "busy"
    facts = (error.vendor, error.status, error.vendor_code, error.request_id, error.retry_after)
    assert facts == ("acme", 529, "overloaded_error", "req_1", None)


def test_retry_after_zero_is_a_value() -> None:
    assert RateLimited("busy", retry_after=0.0).retry_after == 0.0


def test_a_contract_error_names_its_rule() -> None:
    error = ContractError("two ends", rule="S6")
    assert error.rule == "S6"
    assert "S6" in str(error)
    with pytest.raises(TypeError):
        ContractError("which one?")  # type: ignore[call-arg]


# --- across copies and processes --------------------------------------------

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
@every
def test_an_error_survives_being_copied(kind: type[GnomonError], again: object) -> None:
    facts: dict[str, object] = {"hint": "wait"}
    if issubclass(kind, ProviderError):
        facts |= {"vendor": "acme", "status": 500, "vendor_code": "c", "request_id": "r", "retry_after": 1.5}
        facts["retryable"] = not kind.retryable
    error = make(kind, **facts)
    twin = again(error)  # type: ignore[operator]
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert twin.args == error.args
    assert vars(twin) == vars(error)


# --- secrets ----------------------------------------------------------------

OPENAI = "sk-abcdEFGH1234ijklMNOP5678qrstUVWX9012yzABCDEF3456"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

SECRETS = {
    "an OpenAI key": (f"Incorrect API key provided: {OPENAI}.", OPENAI),
    "an OpenAI project key": (
        "key sk-proj-Ab12_Cd34-Ef56Gh78Ij90Kl12Mn34 refused",
        "Ab12_Cd34-Ef56Gh78Ij90Kl12Mn34",
    ),
    "an Anthropic key": (
        "using sk-ant-api03-Zx9_yW8-vU7tS6rQ5pO4nM3lK2jI1-AA",
        "Zx9_yW8-vU7tS6rQ5pO4nM3lK2jI1",
    ),
    "a Google key": ("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
    "a Google key in a URL": (
        "GET https://example.com/v1/models?key=AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY&alt=sse",
        "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    ),
    "an AWS key id": ("credential AKIAIOSFODNN7EXAMPLE is not valid", "IOSFODNN7EXAMPLE"),
    "an AWS temporary key id": ("credential ASIAIOSFODNN7EXAMPLE is not valid", "IOSFODNN7EXAMPLE"),
    "an AWS secret key": (f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}", AWS_SECRET),
    "an AWS secret key in a file": (f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    "a GitHub token": (
        "remote: ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "16C7e42F292c6912E7710c838347Ae178B4a",
    ),
    "a fine-grained GitHub token": (
        "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
        "mNoPqRsTuVwXyZ0123456789",
    ),
    "a Slack token": ("xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzzqgy", "17653672481-19874698323"),
    "a Hugging Face token": ("hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"),
    "a web token": (f"session {JWT} has expired", JWT.split(".")[1]),
    "a bearer header": ("Authorization: Bearer abc123.DEF-456_ghi~789+/=", "abc123.DEF-456_ghi~789"),
    "a bearer header in lower case": ("authorization: bearer 0123456789abcdef", "0123456789abcdef"),
    "a basic header": ("Authorization: Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
    "a basic header in a dict": ("{'Authorization': 'Basic dXNlcjpodW50ZXIy'}", "dXNlcjpodW50ZXIy"),
    "a password in a URL": ("cannot reach postgresql://user:hunter22@db:5432/app", "hunter22"),
    "a password with an at sign in a URL": ("postgresql://user:hunter@22secret@db:5432/app", "22secret"),
    "a password without a user": ("redis://:hunter22@cache:6379/0", "hunter22"),
    "a short password in a URL": ("amqp://u:pw@host", "u:pw"),
    "a query": ("GET https://example.com/v1?model=x&api_key=Zm9vYmFyYmF6&stream=1", "Zm9vYmFyYmF6"),
    "an access token in a query": ("https://example.com/?access_token=Zm9vYmFyYmF6", "Zm9vYmFyYmF6"),
    "JSON": ('{"model": "x", "api_key": "Zm9vYmFyYmF6"}', "Zm9vYmFyYmF6"),
    "JSON in camel case": ('{"apiKey":"Zm9vYmFyYmF6"}', "Zm9vYmFyYmF6"),
    "JSON inside a string": (r'"{\"api_key\": \"Zm9vYmFyYmF6\"}"', "Zm9vYmFyYmF6"),
    "JSON with a phrase": ('{"password": "correct horse battery staple"}', "horse battery staple"),
    "a dict": ("{'client_secret': 'Zm9vYmFyYmF6'}", "Zm9vYmFyYmF6"),
    "a header": ("x-api-key: Zm9vYmFyYmF6", "Zm9vYmFyYmF6"),
    "a header in a dict": ("{'X-Api-Key': 'Zm9vYmFyYmF6'}", "Zm9vYmFyYmF6"),
    "an environment variable": ("OPENAI_API_KEY=Zm9vYmFyYmF6", "Zm9vYmFyYmF6"),
    "a password in a form": ("user=ada&password=hunter22&next=/", "hunter22"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_a_secret_does_not_survive(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in scrub(text)
    assert "[redacted]" in scrub(text)


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_scrubbing_twice_changes_nothing_more(text: str, secret: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def test_several_secrets_go_and_what_stands_around_them_stays() -> None:
    text = scrub(f"first {OPENAI}, then postgresql://ada:hunter22@db/app and Bearer 0123456789abcdef end")
    assert OPENAI not in text
    assert "hunter22" not in text
    assert "0123456789abcdef" not in text
    assert text.startswith("first ")
    assert "@db/app and" in text
    assert text.endswith(" end")


HARMLESS = [
    "the answer ended before it was complete",
    "model 'gpt-5' was not found; did you mean gpt-5-mini, claude-sonnet-4-5 or gemini-2.5-pro?",
    "claude-3-5-sonnet-20241022 and pplx-70b-online are models, and so is o4-mini-2025-04-16",
    "the basic settings are fine, and basic authentication is off",
    "a bearer instrument is a document",
    "the skyscraper in asia-northeast1 is for skateboarding",
    "a ghostwriter of skepticism, a skeleton_loader",
    "pass --skip-validation or use pkg_resources",
    "/usr/lib/python3/site-packages/sklearn_extra/__init__.py",
    "cannot attach 'photos/skiing-holiday.png' as an image: no such file or directory",
    r"C:\Users\ada\skeleton-project\main.py",
    "2e5fc14",
    "9c1185a5c5e9fc54612808977ee8f548b2258d31",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "123e4567-e89b-12d3-a456-426614174000",
    "request req_011CSHoEeqs5C35K2UUqR7Fy failed",
    "max_tokens=4096 and tokens: 12, total_tokens: 1200",
    "see https://example.com/docs/errors#keys and http://localhost:8080/v1/chat",
    "mail ada@example.com at 12:30, ratio 3:4@once",
    "no API key was found",
    "set the password in the settings",
    "the token count is 5",
    "tool call 'call_abc123DEF456' was started and never ended [rule S3]",
    "日本語 and ελληνικά",
    "request 0HMVD9G3K8Q2N:00000002 and chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ01 failed",
    "request_id=01JD3K8Q2NABCDEFGHJKMNPQRS, trace 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "models/lora_r8_alpha16_lr2e-4_epochs3_batch16_seed42_final/adapter.safetensors",
    "accounts/fireworks/models/llama-v3p1-405b-instruct, us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "~/.cache/huggingface/hub/models--gpt2/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e",
    "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    "arn:aws:iam::123456789012:role/x may not assume arn:aws:sts::123456789012:assumed-role/y",
    "see https://hooks.example.org/services/documentation-of-everything and C:/data/glc_maps/a.png",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJRTES",
    "",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert scrub(text) == text


@every
def test_no_error_holds_a_secret(kind: type[GnomonError]) -> None:
    error = make(kind, f"refused {OPENAI}", hint=f"replace {OPENAI}")
    for text in (str(error), repr(error), repr(error.args), repr(vars(error))):
        assert OPENAI not in text


@pytest.mark.parametrize("name", ["vendor", "vendor_code", "request_id"])
def test_no_fact_of_a_provider_error_shows_a_secret(name: str) -> None:
    """These come from a reply, and replies have echoed keys."""
    assert OPENAI not in str(StreamCut("cut", **{name: OPENAI}))  # type: ignore[arg-type]


def test_an_error_made_from_another_holds_no_secret_of_it() -> None:
    cause = ValueError(f"bad key {OPENAI}")
    assert OPENAI not in str(InvalidInput(f"cannot read: {cause}"))


@pytest.mark.parametrize(
    "run",
    ["'a' * n", "'QUJD' * (n // 4)", "'a-' * (n // 2)", "'eyJ' * (n // 3)", "' ' * n", "'-eyJ' * (n // 4)"],
)
def test_a_long_text_is_scrubbed_in_linear_time(run: str) -> None:
    """A vendor may echo an attachment. What is quadratic takes minutes here, and freezes the event loop."""
    code = f"from gnomon.errors import scrub; n = 300_000; text = {run}; assert scrub(text) == text"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_secret_in_a_long_reply_is_found_before_anybody_waits_for_it() -> None:
    """Ten megabytes of prose that speaks of tokens and keys, with one that is real at the end."""
    code = f"""
from gnomon.errors import BadRequest
text = "the token of a request, its api and the secret key: see https://example.org/a. " * 125_000
said = BadRequest(text + "{OPENAI}").message
assert len(said) > 9_000_000 and said.endswith("sk-[redacted]"), said[-80:]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY"])
def test_a_private_key_goes_from_its_first_line_to_its_last(kind: str) -> None:
    body = "\n".join(["MIIEpAIBAAKCAQEA7bq8" * 3] * 20)
    text = scrub(f"token=-----BEGIN {kind}-----\n{body}\n-----END {kind}----- is refused")
    assert text.endswith("[redacted] is refused")
    assert "MIIE" not in text


def test_a_code_that_only_repeats_the_status_is_not_said_twice() -> None:
    error = ProviderError("no", vendor="acme", status=400, vendor_code="400")
    assert str(error) == "acme: no [status 400]"
    assert error.vendor_code == "400"
