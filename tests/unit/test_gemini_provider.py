"""Gemini as a provider: who is asked, in whose name, and for what else than answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import SupportsModels, SupportsTokenCount
from gnomon.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ContextTooLong,
    MissingKey,
    RateLimited,
    Unauthorized,
)
from gnomon.providers.gemini import GeminiProvider
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request

HELLO = Request(messages=(Message.user("Hello"),))
TEXT = (Path(__file__).parent.parent / "wire" / "gemini" / "text.http").read_bytes()
KEY = "AIzaSyTest-0123456789abcdef"
TO = ":streamGenerateContent?alt=sse"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def answered(request: ReceivedRequest) -> ServerReply:
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=TEXT.partition(b"\n\n")[2])


def saying(*replies: object, status: int = 200) -> FaultServer:
    """A server that gives these replies, one after the other."""
    left = [msgspec.json.encode(reply) for reply in replies]
    kind = (("content-type", "application/json"),)
    return FaultServer(
        lambda request: ServerReply(status=status, headers=kind, body=left.pop(0), framing="length")
    )


async def asked(server: FaultServer, provider: GeminiProvider, request: Request = HELLO) -> ReceivedRequest:
    try:
        await provider.complete(request)
    finally:
        await provider.close()
    return server.requests[-1]


async def test_a_key_goes_into_its_own_header_and_never_into_the_address() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, GeminiProvider(key=KEY, base_url=server.url))
    assert request.path == f"/v1beta/models/gemini-3.8-flash{TO}"
    assert request.headers["x-goog-api-key"] == KEY
    assert "authorization" not in request.headers


async def test_the_environment_names_who_asks_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultServer(answered) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url + "/")
        monkeypatch.setenv("GOOGLE_API_KEY", "the-second-0123456789")
        request = await asked(server, GeminiProvider())
        assert request.headers["x-goog-api-key"] == "the-second-0123456789"
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        assert (await asked(server, GeminiProvider())).headers["x-goog-api-key"] == KEY


@pytest.mark.parametrize(
    ("after", "settings", "model", "path"),
    [
        ("/v1", {}, "gemini-x", "/v1/models/gemini-x"),
        ("/proxy", {}, "gemini-x", "/proxy/v1beta/models/gemini-x"),
        ("/proxy/v1beta/", {}, "gemini-x", "/proxy/v1beta/models/gemini-x"),
        ("", {"version": "v1alpha"}, "models/gemini-x", "/v1alpha/models/gemini-x"),
        ("", {}, "tunedModels/mine", "/v1beta/tunedModels/mine"),
        (
            "",
            {"project": "p-1", "location": "europe-west4"},
            "gemini-x",
            "/v1/projects/p-1/locations/europe-west4/publishers/google/models/gemini-x",
        ),
        (
            "",
            {"project": "p-1"},
            "publishers/other/models/m@1",
            "/v1/projects/p-1/locations/global/publishers/other/models/m@1",
        ),
        (
            "",
            {"project": "p-1"},
            "projects/q/locations/l/endpoints/7",
            "/v1/projects/q/locations/l/endpoints/7",
        ),
        (
            "/v1/projects/p/locations/l/publishers/google",
            {},
            "gemini-x",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-x",
        ),
    ],
)
async def test_a_model_is_where_its_name_and_the_address_say(
    after: str, settings: dict[str, Any], model: str, path: str
) -> None:
    async with FaultServer(answered) as server:
        provider = GeminiProvider(model=model, key=KEY, base_url=server.url + after, **settings)
        assert (await asked(server, provider)).path == path + TO


@pytest.mark.parametrize(
    ("location", "url"),
    [
        (None, "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("us-central1", "https://us-central1-aiplatform.googleapis.com"),
    ],
)
def test_google_cloud_has_an_address_for_each_region(location: str | None, url: str) -> None:
    provider = GeminiProvider(project="p-1", location=location)
    assert provider._http.base_url == url  # pyright: ignore[reportPrivateUsage]


async def test_a_token_is_fetched_for_every_request_and_no_key_goes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    tokens = iter(["ya29.first-0123456789", "ya29.second-0123456789"])
    async with FaultServer(answered) as server:
        provider = GeminiProvider(project="p-1", token=lambda: next(tokens), base_url=server.url)
        for _ in range(2):
            await provider.complete(HELLO)
        await provider.close()
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer ya29.first-0123456789",
        "Bearer ya29.second-0123456789",
    ]
    assert "x-goog-api-key" not in server.requests[-1].headers


async def test_a_token_takes_the_place_of_a_key_of_the_gemini_api_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    async with FaultServer(answered) as server:
        request = await asked(server, GeminiProvider(token=lambda: "ya29.0123456789", base_url=server.url))
    assert request.headers["authorization"] == "Bearer ya29.0123456789"
    assert "x-goog-api-key" not in request.headers


async def test_what_is_missing_is_told_at_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingKey, match="'gemini' has no key") as missing:
        await GeminiProvider().complete(HELLO)
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in (missing.value.hint or "")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)  # which is none for Google Cloud
    with pytest.raises(ConfigError, match="no token for Google Cloud"):
        await GeminiProvider(project="p-1").complete(HELLO)
    with pytest.raises(ConfigError, match="a location and no project"):
        GeminiProvider(location="eu")
    with pytest.raises(ConfigError, match="project of provider 'gemini' is none"):
        GeminiProvider(project="p/../q")


async def test_the_environment_may_name_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-9")
    async with FaultServer(answered) as server:
        monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        request = await asked(server, GeminiProvider(location="eu", key=KEY))
    assert request.path.startswith("/v1/projects/p-9/locations/eu/")


@pytest.mark.parametrize("model", ["../../secrets", "a/../b"])
async def test_a_model_does_not_lead_elsewhere(model: str) -> None:
    async with FaultServer(answered) as server:
        provider = GeminiProvider(key=KEY, base_url=server.url)
        with pytest.raises(BadRequest, match="is no name of a model"):
            await asked(server, provider, Request(messages=HELLO.messages, model=model))
    assert server.requests == []


async def test_odd_characters_of_a_name_are_quoted() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, GeminiProvider(model="a?b#c d", key=KEY, base_url=server.url))
    assert request.path == f"/v1beta/models/a%3Fb%23c%20d{TO}"


async def test_models_are_listed_over_all_pages() -> None:
    pages = (
        {
            "models": [
                {"name": "models/gemini-a", "supportedGenerationMethods": ["generateContent", "countTokens"]},
                {"name": "models/embedding-b", "supportedGenerationMethods": ["embedContent"]},
            ],
            "nextPageToken": "to+page",
        },
        {"models": [{"name": "models/gemini-c"}]},
    )
    async with saying(*pages) as server:
        provider = GeminiProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsModels)
        assert await provider.list_models() == ("gemini-a", "gemini-c")
        await provider.close()
    assert [request.path for request in server.requests] == [
        "/v1beta/models?pageSize=1000",
        "/v1beta/models?pageSize=1000&pageToken=to%2Bpage",
    ]


async def test_google_cloud_lists_its_models_in_one_place() -> None:
    async with saying({"publisherModels": [{"name": "publishers/google/models/gemini-a"}]}) as server:
        provider = GeminiProvider(project="p-1", key=KEY, base_url=server.url)
        assert await provider.list_models() == ("gemini-a",)
        await provider.close()
    assert server.requests[0].path == "/v1beta1/publishers/google/models?pageSize=1000"


async def test_tokens_are_counted_by_the_vendor() -> None:
    tool = ToolDef(name="ping", description="Asks for a sign of life.")
    async with saying({"totalTokens": 31, "promptTokensDetails": []}) as server:
        provider = GeminiProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsTokenCount)
        assert await provider.count_tokens(HELLO.messages, (tool,)) == 31
        await provider.close()
    assert server.requests[0].path == "/v1beta/models/gemini-3.8-flash:countTokens"
    assert b"Asks for a sign of life." in server.requests[0].body


def complaint(code: int, message: str, status: str, *details: object) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


async def test_a_key_that_is_not_valid_is_no_bad_request_and_is_not_shown() -> None:
    said = complaint(
        400,
        f"API key not valid: {KEY}. Please pass a valid API key.",
        "INVALID_ARGUMENT",
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
    )
    async with saying(said, status=400) as server:
        with pytest.raises(Unauthorized) as refused:
            await asked(server, GeminiProvider(key=KEY, base_url=server.url))
    assert KEY not in str(refused.value)


async def test_an_overlong_prompt_is_one_by_its_words() -> None:
    words = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    async with saying(complaint(400, words, "INVALID_ARGUMENT"), status=400) as server:
        with pytest.raises(ContextTooLong):
            await asked(server, GeminiProvider(key=KEY, base_url=server.url))


async def test_a_limit_says_when_to_come_back() -> None:
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}
    async with saying(
        complaint(429, "Resource exhausted.", "RESOURCE_EXHAUSTED", wait), status=429
    ) as server:
        with pytest.raises(RateLimited) as limited:
            await asked(server, GeminiProvider(key=KEY, base_url=server.url))
    assert limited.value.retry_after == 30.0
    assert limited.value.retryable


def test_the_registry_knows_it() -> None:
    made = registry.provider("gemini:gemini-x", {"key": KEY, "project": "p-1"})
    assert isinstance(made, GeminiProvider)
    assert made.model == "gemini-x"
    with pytest.raises(ConfigError, match="validated"):
        registry.provider("gemini", {"validated": "yes"})


@pytest.mark.parametrize("end", ["", "/", "/v1beta", "/v1beta/", "/v1alpha"])
def test_google_itself_wants_a_key_however_its_address_is_written(end: str) -> None:
    provider = GeminiProvider(base_url=f"https://generativelanguage.googleapis.com{end}")
    with pytest.raises(MissingKey):
        provider._ask(HELLO)


def test_a_key_and_a_token_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="a key and a token"):
        GeminiProvider(key=KEY, token=lambda: "t")


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("google/gemini-a", "publishers/google/models/gemini-a"),
        ("publishers/meta/models/llama", "publishers/meta/models/llama"),
        ("endpoints/77", "endpoints/77"),
    ],
)
def test_google_cloud_has_models_of_several_publishers(model: str, named: str) -> None:
    provider = GeminiProvider(project="p-1", key=KEY)
    asked_for = provider._ask(msgspec.structs.replace(HELLO, model=model))
    assert asked_for.path == f"/v1/projects/p-1/locations/global/{named}{TO}"


async def test_a_list_of_models_without_an_end_is_given_up() -> None:
    page = {"models": [{"name": "models/gemini-a"}], "nextPageToken": "again"}
    async with saying(*[page] * 101) as server:
        provider = GeminiProvider(key=KEY, base_url=server.url)
        with pytest.raises(BadReply, match="more than 100 pages"):
            await provider.list_models()
        await provider.close()
    assert len(server.requests) == 100
