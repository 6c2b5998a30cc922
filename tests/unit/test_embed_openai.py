"""OpenAI's embeddings: what is sent, in how many requests, and what is made of the answers."""

from __future__ import annotations

import base64
import struct
from typing import Any

import msgspec
import openai
import pytest

from embedding_server import EmbeddingServer, tokens_in
from gnomon.embedders.openai import OpenAIEmbedder
from gnomon.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ContextTooLong,
    MissingKey,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Unauthorized,
)
from gnomon.testing import FaultServer, ServerReply
from gnomon.types.documents import EmbeddingRequest, Embeddings
from gnomon.types.requests import Usage

KEY = "sk-test-0123456789abcdef"
TEXTS = ["The tide comes in.", "東京は日本の首都です。", "A café 🙂"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


async def embedded(server: EmbeddingServer, texts: Any, **settings: Any) -> Embeddings:
    embedder = OpenAIEmbedder(base_url=f"{server.url}/v1", **settings)
    try:
        return await embedder.embed(texts)
    finally:
        await embedder.close()


def bodies(server: EmbeddingServer) -> list[dict[str, Any]]:
    return [msgspec.json.decode(asked.body) for asked in server.asked]


# --- what is sent -------------------------------------------------------------------


async def test_the_body_is_what_is_documented_and_no_more() -> None:
    async with EmbeddingServer() as server:
        await embedded(server, TEXTS)
        await embedded(server, TEXTS, dimensions=5, encoding_format="float", model="text-embedding-3-large")
    plain, chosen = bodies(server)
    assert plain == {"model": "text-embedding-3-small", "input": TEXTS, "encoding_format": "base64"}
    assert chosen["model"] == "text-embedding-3-large"
    assert (chosen["dimensions"], chosen["encoding_format"]) == (5, "float")


async def test_the_request_may_name_another_model() -> None:
    async with EmbeddingServer() as server:
        answer = await embedded(server, EmbeddingRequest(("x",), model="text-embedding-3-large"))
    assert bodies(server)[0]["model"] == answer.model == "text-embedding-3-large"
    assert len(answer.vectors[0]) == 48


async def test_what_a_user_adds_goes_into_the_body() -> None:
    async with EmbeddingServer() as server:
        await embedded(server, TEXTS, extra={"user": "team-7", "encoding_format": "float"})
    assert bodies(server)[0]["user"] == "team-7"
    assert bodies(server)[0]["encoding_format"] == "float"


async def test_the_key_goes_into_a_header_from_the_setting_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with EmbeddingServer(key=KEY) as server:
        await embedded(server, TEXTS, key=KEY, organization="org-1", headers={"x-team": "search"})
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1/")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-environment")
        embedder = OpenAIEmbedder()
        await embedder.embed(TEXTS)
        await embedder.close()
    first, second = [asked.headers for asked in server.asked]
    assert first["authorization"] == second["authorization"] == f"Bearer {KEY}"
    assert (first["openai-organization"], first["x-team"]) == ("org-1", "search")
    assert "openai-organization" not in second  # another address is not told who pays


async def test_without_a_key_openai_is_not_asked_and_the_constructor_does_not_mind() -> None:
    with pytest.raises(MissingKey, match=r"embedder 'openai' has no key \(set OPENAI_API_KEY, or pass key\)"):
        await OpenAIEmbedder().embed(TEXTS)
    assert (await OpenAIEmbedder().embed([])).vectors == ()


# --- what is made of the answer -----------------------------------------------------


async def test_base64_and_digits_give_the_very_same_vectors_in_the_order_of_the_texts() -> None:
    async with EmbeddingServer() as server:
        packed = await embedded(server, TEXTS)
        digits = await embedded(server, TEXTS, encoding_format="float")
        alone = [(await embedded(server, [text])).vectors[0] for text in TEXTS]
    assert packed == digits
    assert list(packed.vectors) == alone
    assert packed.usage == Usage(input_tokens=sum(map(tokens_in, TEXTS)))


async def test_openais_own_client_reads_the_same_vectors() -> None:
    async with EmbeddingServer() as server:
        ours = await embedded(server, TEXTS)
        async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
            theirs = await client.embeddings.create(model="text-embedding-3-small", input=TEXTS)
    by_index = sorted(theirs.data, key=lambda item: item.index)
    assert [tuple(item.embedding) for item in by_index] == list(ours.vectors)
    assert ours.usage.input_tokens == theirs.usage.prompt_tokens


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def item(at: int | None, embedding: object) -> dict[str, object]:
    return {"object": "embedding", "embedding": embedding, **({} if at is None else {"index": at})}


async def answered(reply: object, texts: Any = ("a", "b"), status: int = 200, **settings: Any) -> Embeddings:
    body = reply if isinstance(reply, bytes) else msgspec.json.encode(reply)
    made = ServerReply(status=status, body=body, headers=(("content-type", "application/json"),))
    async with FaultServer(lambda _: made) as server:
        embedder = OpenAIEmbedder(base_url=server.url, key=KEY, **settings)
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.close()


async def test_a_server_may_leave_out_the_places_the_model_and_the_usage() -> None:
    answer = await answered({"data": [item(None, [1, 0.5]), item(None, packed(0.25, -2))]})
    assert answer.vectors == ((1.0, 0.5), (0.25, -2.0))
    assert (answer.model, answer.usage) == ("text-embedding-3-small", Usage())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"data": [item(0, [1.0])]}, "2 vectors were asked for, and 1 came"),
        ({"data": [item(0, [1.0]), item(0, [2.0])]}, "do not say one place each"),
        ({"data": [item(0, [1.0]), item(2, [2.0])]}, "do not say one place each"),
        ({"data": [item(0, [1.0]), item(1, [2.0, 3.0])]}, "have 1 and 2 numbers"),
        ({"data": [item(0, []), item(1, "")]}, "have 0 numbers"),
        ({"data": [item(0, "AAAA*"), item(1, "AAAAAA==")]}, "no base64"),
        ({"data": [item(0, "AAA="), item(1, "AAA=")]}, "not a multiple"),
        ({"data": [item(0, "é"), item(1, "é")]}, "ASCII"),
        ({"data": [item(0, [None]), item(1, [None])]}, "cannot be read"),
        ({"data": [item(0, packed(float("nan"))), item(1, [1.0])]}, "what is no number"),
        ({"data": [item(0, packed(float("-inf"))), item(1, [1.0])]}, "what is no number"),
        ({"data": [item(0, [1e300]), item(1, [1.0])]}, "what is no number"),
        ({"object": "list"}, "2 vectors were asked for, and 0 came"),
        (b"<html>hello</html>", "cannot be read"),
        (b"", "cannot be read"),
        ([], "cannot be read"),
    ],
)
async def test_an_answer_that_is_none_is_a_bad_reply(reply: object, words: str) -> None:
    with pytest.raises(BadReply, match=words) as caught:
        await answered(reply)
    assert caught.value.vendor == "openai"


async def test_tokens_below_nothing_were_not_reported() -> None:
    reply = {"data": [item(0, [1.0])], "usage": {"prompt_tokens": -5}}
    assert (await answered(reply, ["a"])).usage == Usage()


@pytest.mark.parametrize("settings", [{"extra": {"user": "\ud800"}}, {"model": "\ud800"}])
async def test_a_setting_that_cannot_be_sent_is_a_bad_request(settings: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="a setting cannot be sent"):
        await answered({}, **settings)


async def test_a_bare_string_in_a_request_is_one_text() -> None:
    request = EmbeddingRequest("word")  # type: ignore[arg-type]
    assert len((await answered({"data": [item(0, [1.0])]}, request)).vectors) == 1


async def test_vectors_of_another_length_than_was_asked_for_are_not_taken() -> None:
    reply = {"data": [item(0, [1.0, 2.0]), item(1, [2.0, 3.0])]}
    assert len((await answered(reply, dimensions=2)).vectors) == 2
    with pytest.raises(BadReply, match="vectors of 7 numbers were asked for, and 2 came"):
        await answered(reply, dimensions=7)


async def test_parts_whose_vectors_differ_in_length_are_not_joined() -> None:
    def reply(request: Any) -> ServerReply:
        (text,) = msgspec.json.decode(request.body)["input"]
        body = msgspec.json.encode({"data": [item(0, [1.0] * len(text))]})
        return ServerReply(body=body, headers=(("content-type", "application/json"),))

    async with FaultServer(reply) as server:
        embedder = OpenAIEmbedder(base_url=server.url, batch_texts=1)
        with pytest.raises(BadReply, match="different lengths"):
            await embedder.embed(["a", "bb"])
        await embedder.close()


async def test_a_complaint_is_the_same_error_under_any_status() -> None:
    complaint = {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
    for status in (200, 429):
        with pytest.raises(RateLimited, match="slow down"):
            await answered(complaint, status=status)
    with pytest.raises(Overloaded):
        await answered({"error": "busy"}, status=503)


async def test_a_refused_key_and_an_unknown_model_are_told_apart_and_the_key_is_not_shown() -> None:
    async with EmbeddingServer(key=KEY) as server:
        with pytest.raises(Unauthorized, match="Incorrect API key") as caught:
            await embedded(server, TEXTS, key="wrong-0123456789abcdef")
        with pytest.raises(ModelNotFound, match="no-such"):
            await embedded(server, TEXTS, key=KEY, model="no-such")
    assert "wrong-0123456789abcdef" not in str(caught.value)


# --- how many requests --------------------------------------------------------------


async def test_no_more_than_2048_texts_go_into_one_request() -> None:
    texts = [f"text {at}" for at in range(5000)]
    async with EmbeddingServer() as server:
        answer = await embedded(server, texts)
        last = await embedded(server, texts[-1:])
    sent = [body["input"] for body in bodies(server)[:-1]]
    assert sorted(map(len, sent)) == [904, 2048, 2048]
    assert answer.vectors[-1] == last.vectors[0]
    assert answer.usage == Usage(input_tokens=sum(map(tokens_in, texts)))


@pytest.mark.parametrize("word", ["word ", "a b ", "é ", "東京", "x1-"])
async def test_no_more_than_300_000_tokens_go_into_one_request(word: str) -> None:
    texts = [f"{at} " + word * (8000 // len(word)) for at in range(200)]
    texts = [text[: 2 * at + 4000] for at, text in enumerate(texts)]
    async with EmbeddingServer() as server:
        answer = await embedded(server, texts)
    assert len(answer.vectors) == 200
    assert sum(len(body["input"]) for body in bodies(server)) == 200, "nothing was sent twice"


async def test_a_request_that_turns_out_too_large_is_sent_in_halves() -> None:
    texts = [f"{at} " + "a " * 8000 for at in range(50)]
    async with EmbeddingServer() as server:
        answer = await embedded(server, texts, batch_tokens=10**9)
        alone = await embedded(server, texts[33:34])
    assert [len(body["input"]) for body in bodies(server)[:3]] == [50, 25, 25]
    assert answer.vectors[33] == alone.vectors[0]
    assert answer.usage.input_tokens == sum(map(tokens_in, texts))


async def test_a_body_that_a_proxy_does_not_take_is_sent_in_halves_down_to_one_text() -> None:
    async with EmbeddingServer(most_bytes=400) as server:
        answer = await embedded(server, ["x" * 90 + str(at) for at in range(9)])
        assert len(answer.vectors) == 9
        with pytest.raises(ContextTooLong, match="text 1 is the longest, with 500 characters"):
            await embedded(server, ["x", "y" * 500])


async def test_a_text_that_is_too_long_is_an_error_that_says_which_and_nothing_is_cut() -> None:
    texts = ["short", "word " * 9000, "also short"]
    async with EmbeddingServer() as server:
        with pytest.raises(ContextTooLong, match="text 1 is the longest, with 45,000 characters: split it"):
            await embedded(server, texts)
    assert len(server.asked) == 1


async def test_an_empty_text_is_refused_by_its_place_before_anybody_is_asked() -> None:
    async with EmbeddingServer() as server:
        with pytest.raises(BadRequest, match=r"text 2 is empty.*leave it out"):
            await embedded(server, ["a", "b", "", "c"])
        with pytest.raises(BadRequest, match="text 0 is empty"):
            await embedded(server, "")
    assert server.asked == []


async def test_half_a_character_is_refused_by_its_place() -> None:
    async with EmbeddingServer() as server:
        with pytest.raises(BadRequest, match="text 2 cannot be sent: it holds half a character"):
            await embedded(server, ["a", "b", "c \ud83d"])
    assert server.asked == []


async def test_what_is_no_text_is_refused_by_its_place() -> None:
    with pytest.raises(BadRequest, match="text 1 is no text but int"):
        await OpenAIEmbedder(key=KEY).embed(["a", 1])  # type: ignore[list-item]


@pytest.mark.parametrize("setting", ["dimensions", "batch_texts", "batch_tokens", "concurrency"])
def test_a_count_of_nothing_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is a whole number above zero, not 0"):
        OpenAIEmbedder(**{setting: 0})  # type: ignore[arg-type]


def test_vectors_of_two_servers_are_kept_apart() -> None:
    home, other = OpenAIEmbedder(), OpenAIEmbedder(base_url="http://gpu:8080/v1")
    assert home.space == ""
    assert OpenAIEmbedder(base_url="https://api.openai.com/v1").space == ""
    assert len({home.space, other.space, OpenAIEmbedder(extra={"input_type": "query"}).space}) == 3
