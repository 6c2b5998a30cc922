"""Ollama's embeddings: which server, what is sent, and what is made of the answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import ollama
import pytest
from ollama._client import _parse_host
from ollama._types import EmbedRequest

from gnomon._ollama import ollama_url, server_address
from gnomon.embedders.ollama import OllamaEmbedder
from gnomon.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ContextTooLong,
    MissingKey,
    ModelNotFound,
    Overloaded,
)
from gnomon.testing import FaultServer, ServerReply
from gnomon.types.documents import Embeddings
from gnomon.types.requests import Usage
from ollama_standin import OllamaStandIn
from sdk_types import read_as

MODEL = "nomic-embed-text"
TEXTS = ["The tide comes in.", "東京は日本の首都です。", "A café 🙂"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def embedded(url: str, texts: Any = TEXTS, **settings: Any) -> Embeddings:
    embedder = OllamaEmbedder(**{"model": MODEL, "base_url": url, **settings})
    try:
        return await embedder.embed(texts)
    finally:
        await embedder.close()


def bodies(server: OllamaStandIn) -> list[dict[str, Any]]:
    """By Ollama's own type, which must know every field."""
    return [read_as(EmbedRequest, asked.body) for asked in server.asked]


# --- which server -------------------------------------------------------------------


FORMS = [eval(form) for form in re.findall(r"_parse_host\((.*?)\)", _parse_host.__doc__ or "")]


@pytest.mark.parametrize("form", FORMS)
def test_a_host_is_read_as_ollamas_own_client_reads_it(form: str | None) -> None:
    assert ollama_url(form) == _parse_host(form)


def test_there_are_forms_to_read() -> None:
    assert len(FORMS) > 20


@pytest.mark.parametrize(
    ("form", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("::1", "http://[::1]:11434"),
        ("ollama.com", "https://ollama.com"),
        ("http://gpu:8080/ollama/api/", "http://gpu:8080/ollama"),
        (' "gpu" ', "http://gpu:11434"),
    ],
)
def test_a_server_is_asked_where_it_can_be(form: str, address: str) -> None:
    assert server_address(form) == address


@pytest.mark.parametrize("form", ["gpu:99999", "ftp://gpu", "http://", "http://ana:secret@gpu:1", "gpu:x"])
def test_what_is_no_address_is_refused_without_its_password(form: str) -> None:
    with pytest.raises(ConfigError, match="is no address of an Ollama server") as caught:
        OllamaEmbedder(base_url=form)
    assert "secret" not in str(caught.value)


async def test_the_host_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with OllamaStandIn() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
        embedder = OllamaEmbedder(model=MODEL)
        assert len((await embedder.embed(TEXTS)).vectors) == 3
        await embedder.close()


async def test_a_key_goes_to_a_server_of_ones_own_only_when_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "key-of-the-cloud")
    async with OllamaStandIn() as server:
        await embedded(server.url)
        await embedded(server.url, key="key-of-the-server")
    assert [asked.headers.get("authorization") for asked in server.asked] == [
        None,
        "Bearer key-of-the-server",
    ]


async def test_the_cloud_is_not_asked_without_a_key() -> None:
    with pytest.raises(MissingKey, match=r"embedder 'ollama' has no key \(set OLLAMA_API_KEY, or pass key\)"):
        await OllamaEmbedder(base_url="ollama.com").embed(TEXTS)


# --- what is sent -------------------------------------------------------------------


async def test_nothing_may_be_cut_and_the_rest_is_left_to_the_server() -> None:
    async with OllamaStandIn() as server:
        answer = await embedded(server.url)
    assert bodies(server) == [{"model": MODEL, "input": TEXTS, "truncate": False}]
    assert answer.model == MODEL
    assert isinstance(answer.usage.input_tokens, int)


async def test_settings_go_where_ollama_has_them() -> None:
    async with OllamaStandIn() as server:
        answer = await embedded(
            server.url, dimensions=5, keep_alive="10m", options={"num_ctx": 2048}, extra={"truncate": True}
        )
        await embedded(server.url, keep_alive=0)
    first, second = bodies(server)
    assert first["dimensions"] == len(answer.vectors[0]) == 5
    assert (first["keep_alive"], first["options"], first["truncate"]) == ("10m", {"num_ctx": 2048}, True)
    assert second["keep_alive"] == 0


async def test_ollamas_own_client_reads_the_same_vectors() -> None:
    async with OllamaStandIn() as server:
        ours = await embedded(server.url)
        client = ollama.AsyncClient(host=server.url)
        theirs = await client.embed(model=MODEL, input=TEXTS)
        await client.close()
    for one, other in zip(ours.vectors, theirs.embeddings, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert ours.usage.input_tokens == theirs.prompt_eval_count


async def test_many_texts_go_in_parts_and_come_back_in_order() -> None:
    texts = [f"text {at}" for at in range(1000)]
    async with OllamaStandIn() as server:
        together = await embedded(server.url, texts)
        last = await embedded(server.url, texts[-1:])
    assert sorted(len(body["input"]) for body in bodies(server)[:-1]) == [232, 256, 256, 256]
    assert together.vectors[-1] == last.vectors[0]


async def test_long_texts_go_in_parts_by_their_size() -> None:
    async with OllamaStandIn() as server:
        answer = await embedded(server.url, ["x" * 1000, "y" * 1000, "z" * 1000], batch_tokens=1200)
    assert [len(body["input"]) for body in bodies(server)] == [2, 1]
    assert len(answer.vectors) == 3


# --- what is made of the answer -----------------------------------------------------


async def answered(reply: object, status: int = 200, **settings: Any) -> Embeddings:
    made = ServerReply(
        status=status, body=msgspec.json.encode(reply), headers=(("content-type", "application/json"),)
    )
    async with FaultServer(lambda _: made) as server:
        return await embedded(server.url, ["a", "bb"], **settings)


async def test_a_text_that_is_too_long_is_an_error_that_says_which() -> None:
    with pytest.raises(ContextTooLong, match="text 1 is the longest, with 2 characters: split it"):
        await answered({"error": "the input length exceeds the context length"}, 400)


async def test_a_model_that_is_not_there_comes_with_the_line_that_fetches_it() -> None:
    async with OllamaStandIn() as server:
        with pytest.raises(ModelNotFound, match="ollama pull all-minilm"):
            await embedded(server.url, model="all-minilm")


async def test_an_empty_text_is_refused_before_the_server_makes_something_up() -> None:
    async with OllamaStandIn() as server:
        with pytest.raises(BadRequest, match="text 1 is empty"):
            await embedded(server.url, ["a", ""])
    assert server.asked == []


async def test_counts_that_are_not_reported_are_not_made_up() -> None:
    answer = await answered({"embeddings": [[1, 2], [3, 4]]})
    assert answer == Embeddings(vectors=((1.0, 2.0), (3.0, 4.0)), model=MODEL, usage=Usage())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"embeddings": [[1.0]]}, "2 vectors were asked for, and 1 came"),
        ({"embeddings": [[1.0], [1.0, 2.0]]}, "have 1 and 2 numbers"),
        ({"embeddings": []}, "and 0 came"),
        ({"embeddings": "x"}, "cannot be read"),
        ({}, "and 0 came"),
    ],
)
async def test_an_answer_that_is_none_is_a_bad_reply(reply: object, words: str) -> None:
    with pytest.raises(BadReply, match=words):
        await answered(reply)


async def test_a_model_that_has_no_shorter_vectors_is_found_out() -> None:
    with pytest.raises(BadReply, match="vectors of 9 numbers were asked for, and 2 came"):
        await answered({"embeddings": [[1.0, 2.0], [3.0, 4.0]]}, dimensions=9)


async def test_a_complaint_is_an_error_under_any_status() -> None:
    for status in (200, 500):
        with pytest.raises(Overloaded, match="llama runner"):
            await answered({"error": "llama runner process has terminated"}, status)


def test_vectors_of_two_servers_are_kept_apart() -> None:
    """`ollama create` gives any model any name."""
    servers = [OllamaEmbedder(base_url=f"http://gpu{number}:11434").space for number in (1, 2)]
    assert len({*servers, OllamaEmbedder(base_url="http://gpu1:11434", options={"num_ctx": 9}).space}) == 3
