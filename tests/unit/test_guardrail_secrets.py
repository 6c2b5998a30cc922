"""Secrets: those of the services, those that their names give away, and how they are taken out."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gnomon._secret_forms import FORMS, HEAD
from gnomon.errors import ConfigError, scrub
from gnomon.guardrails.secrets import SecretsGuardrail
from gnomon.types.steps import GuardrailResult
from secret_samples import HARMLESS, JWT, LETTERS, MADE, NAMED, key_block


def checked(text: str, guardrail: SecretsGuardrail | None = None) -> GuardrailResult:
    return asyncio.run((guardrail or SecretsGuardrail()).check(text))


# --- by their make ----------------------------------------------------------


@pytest.mark.parametrize("secret", MADE.values(), ids=MADE)
def test_a_secret_of_a_service_is_taken_out_whole(secret: str) -> None:
    expected = f"({'https://' if secret.startswith('https') else ''}[secret]), then"
    assert checked(f"({secret}), then").replacement == expected


@pytest.mark.parametrize("secret", MADE.values(), ids=MADE)
def test_a_secret_is_known_by_its_beginning(secret: str) -> None:
    """And so in a piece of a stream that ends there."""
    assert not checked(secret[:HEAD], SecretsGuardrail(on_match="stop")).passed


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Anthropic", "an Anthropic key"),
        ("OpenAI project", "an OpenAI key"),
        ("OpenRouter", "an OpenRouter key"),
        ("DeepSeek", "an API key"),
        ("GitHub", "a GitHub token"),
        ("AWS", "an AWS key"),
        ("JWT", "a JSON web token"),
        ("PGP key", "a private key"),
    ],
)
def test_the_reason_names_the_service(name: str, what: str) -> None:
    assert checked(f"this: {MADE[name]}").reason == f"{what} was found"


def test_every_form_has_a_sample() -> None:
    told = {checked(text, SecretsGuardrail(on_match="stop")).reason for text in (*MADE.values(), *NAMED)}
    assert [form.what for form in FORMS if not any(form.what in reason for reason in told)] == []


def test_a_piece_of_a_name_is_no_token() -> None:
    assert checked(f"x{MADE['GitHub']}").passed
    assert checked(f"my_{MADE['GitHub']}").replacement == "my_[secret]"


# --- by what stands around them ---------------------------------------------


@pytest.mark.parametrize(("text", "secret"), NAMED.items(), ids=NAMED)
def test_what_is_assigned_to_a_name_is_taken_out_and_the_name_stays(text: str, secret: str) -> None:
    instead = checked(text).replacement
    assert instead is not None
    assert instead.startswith(text.partition(secret)[0] + "[secret]")
    assert secret not in instead


@pytest.mark.parametrize("text", HARMLESS)
def test_words_about_secrets_are_left_alone(text: str) -> None:
    assert checked(text) == GuardrailResult(True)


def test_json_stays_json() -> None:
    text = msgspec.json.encode({"password": "hunter22", "url": "redis://:hunter22@h/0", "n": [1]}).decode()
    instead = checked(text).replacement
    assert instead is not None
    assert msgspec.json.decode(instead) == {"password": "[secret]", "url": "redis://:[secret]@h/0", "n": [1]}


def test_several_go_and_what_stands_around_them_stays() -> None:
    text = f"first {MADE['GitHub']}, then {JWT} and password=hunter22; end"
    result = checked(text)
    assert result.replacement == "first [secret], then [secret] and password=[secret]; end"
    assert result.reason == "a GitHub token, a JSON web token and a password were found"


def test_a_token_after_its_name_is_one_secret() -> None:
    assert checked(f"api_key={MADE['OpenAI project']}.").replacement in (
        "api_key=[secret].",
        "api_key=[secret]",
    )
    assert checked(f"token: {MADE['GitHub']}").replacement == "token: [secret]"
    long = f"password={LETTERS[:30]}{MADE['GitHub']}%%{LETTERS[:200]} x"
    assert checked(long).replacement == "password=[secret] x"


@pytest.mark.parametrize("secret", MADE.values(), ids=MADE)
def test_what_is_found_here_is_in_no_error_either(secret: str) -> None:
    """Nor is any long piece of it: what is kept is how its maker lets it begin."""
    shown = scrub(f"it was ({secret}) there")
    assert shown.startswith("it was (")
    assert shown.endswith(") there")
    assert not any(secret[at : at + 12] in shown.partition("[redacted]")[2] for at in range(len(secret) - 12))
    assert len(shown) < len("it was (https://hooks.slack.com/[redacted]) there") + 4
    assert scrub(shown) == shown


@pytest.mark.parametrize(("text", "secret"), NAMED.items(), ids=NAMED)
def test_what_is_assigned_to_a_name_is_in_no_error_either(text: str, secret: str) -> None:
    assert secret not in scrub(text)
    assert scrub(scrub(text)) == scrub(text)


# --- long ones --------------------------------------------------------------


def test_a_key_block_goes_from_its_first_line_to_its_last() -> None:
    assert checked(f"here:\n{key_block()}\nthanks").replacement == "here:\n[secret]\nthanks"
    in_json = msgspec.json.encode({"key": key_block(), "n": 1}).decode()
    assert checked(in_json).replacement == '{"key":"[secret]","n":1}'
    assert checked(f"{key_block()} - {key_block('EC PRIVATE KEY')}").replacement == "[secret] - [secret]"


def test_a_key_block_that_breaks_off_goes_to_the_end() -> None:
    assert checked("here: " + key_block()[:500]).replacement == "here: [secret]"


def test_a_secret_that_is_too_long_to_be_taken_out_stops() -> None:
    guardrail = SecretsGuardrail(longest=500)
    fits, too_long = (f"password={LETTERS[:60]}{'x' * (size - 60)}" for size in (500, 501))
    assert checked(fits, guardrail).replacement == "password=[secret]"
    assert checked(too_long, guardrail) == GuardrailResult(False, "a password was found")
    assert checked(key_block(lines=6), guardrail).replacement == "[secret]"
    assert checked(key_block(lines=60), guardrail).replacement is None
    assert checked(key_block(lines=60), SecretsGuardrail(longest=8_000)).replacement == "[secret]"


def test_the_view_is_what_it_takes_to_know_one_or_to_take_it_out() -> None:
    assert SecretsGuardrail(on_match="stop").view.size == HEAD
    assert SecretsGuardrail(longest=3_000).view.size == 3_001


HEADS = {
    "web token": "eyJ" + "a" * 384 + "." + "b" * 8,
    "address": "a" * 31 + "://" + "u" * 64 + ":" + "p4" * 64 + "@h",
    "key block": "-----BEGIN " + "A" * 30 + "PRIVATE KEY BLOCK-----" + "\\n" * 8 + "abcdefgh",
    "name": 'passphrase\\"    :=    bearer \\"' + LETTERS[:64],
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_the_longest_beginnings_are_within_the_view(head: str) -> None:
    assert len(head) <= HEAD
    assert not checked(head, SecretsGuardrail(on_match="stop")).passed


def test_a_longest_that_is_too_short_to_know_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="longest is 10"):
        SecretsGuardrail(longest=10)
