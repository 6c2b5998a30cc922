"""The cache before an embedder: asked once, bounded, shared, and never in the way."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gnomon import registry
from gnomon.embedders import _cache_file
from gnomon.embedders._vectors import from_bytes, to_bytes
from gnomon.embedders.cached import CachedEmbedder
from gnomon.errors import BadReply, BadRequest, ConfigError, InvalidInput, Overloaded, UnknownName
from gnomon.types.documents import EmbeddingRequest, Embeddings, Vector
from gnomon.types.requests import Usage


class Counting:
    """An embedder that keeps a book of what it was asked, and may be made to wait or to fail."""

    def __init__(self, name: str = "counting", model: str = "m", dimensions: int | None = None) -> None:
        self.name = name
        self.model = model
        self.dimensions = dimensions
        self.calls: list[tuple[str, ...]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None
        self.cancelled = 0
        self.closed = 0

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]

    async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
        assert isinstance(request, EmbeddingRequest)
        self.calls.append(request.texts)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        if "bad" in request.texts:
            raise BadRequest("a bad text", vendor=self.name)
        vectors = tuple(self.vector(f"{request.model}{text}") for text in request.texts)
        return Embeddings(vectors=vectors, usage=Usage(input_tokens=10 * len(request.texts)))

    def vector(self, text: str) -> Vector:
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return tuple(byte / 7 for byte in digest)

    async def close(self) -> None:
        self.closed += 1


# --- asked once -----------------------------------------------------------------------


async def test_what_was_embedded_before_is_not_asked_for_again() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner)
    first = await cached.embed(["a", "b"])
    second = await cached.embed(["b", "c", "a"])
    third = await cached.embed(["a", "b"])
    assert inner.calls == [("a", "b"), ("c",)]
    assert first.vectors == third.vectors == (second.vectors[2], second.vectors[0])
    assert second.vectors[1] == inner.vector("mc")


async def test_a_text_that_is_there_twice_is_asked_for_once() -> None:
    inner = Counting()
    answer = await CachedEmbedder(inner).embed(["a", "b", "a", "a"])
    assert inner.calls == [("a", "b")]
    assert answer.vectors[0] == answer.vectors[2] == answer.vectors[3] != answer.vectors[1]


async def test_usage_is_what_was_really_asked() -> None:
    cached = CachedEmbedder(Counting())
    found = [(await cached.embed(texts)).usage.input_tokens for texts in (["a", "a", "b"], ["a", "c"], ["a"])]
    assert found == [20, 10, 0]


async def test_nothing_is_asked_for_no_texts() -> None:
    inner = Counting()
    assert await CachedEmbedder(inner).embed([]) == Embeddings(vectors=(), model="m")
    assert inner.calls == []


async def test_a_cached_vector_is_the_same_to_the_last_bit() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner)
    one = (await cached.embed("a")).vectors
    assert one == (await cached.embed("a")).vectors == (inner.vector("ma"),)


@pytest.mark.parametrize("vector", [(0.5, -0.0, 1e-40), (0.1, 1 / 3), (1e300, float("inf")), ()])
def test_a_vector_is_kept_without_loss_and_in_half_the_bytes_where_it_can_be(vector: Vector) -> None:
    kept = to_bytes(vector)
    assert from_bytes(kept) == vector
    assert len(to_bytes((0.5, 0.25))) == 1 + 8
    assert len(to_bytes((0.1, 0.25))) == 1 + 16
    with pytest.raises(ValueError, match=r"multiple|begin"):
        from_bytes(kept[:-1] if vector else b"x")


# --- what a vector depends on ---------------------------------------------------------


async def test_the_name_the_model_the_dimensions_and_the_space_keep_vectors_apart(tmp_path: Path) -> None:
    class Elsewhere(Counting):
        space = "http://gpu:8080/v1"

    makers = [
        Counting(),
        Counting(name="other"),
        Counting(model="n"),
        Counting(dimensions=5),
        Elsewhere(),
        Counting(name="countingm", model=""),
    ]
    for inner in makers:
        cached = CachedEmbedder(inner, path=tmp_path / "cache.db")
        await cached.embed("a")
        await cached.close()
    assert [inner.calls for inner in makers] == [[("a",)]] * len(makers)


async def test_a_request_for_another_model_gets_vectors_of_that_model() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner)
    plain = await cached.embed("a")
    other = await cached.embed(EmbeddingRequest(("a",), model="n"))
    assert (other.model, other.vectors[0]) == ("n", inner.vector("na"))
    assert other.vectors != plain.vectors
    assert (await cached.embed(EmbeddingRequest(("a",), model="m"))).vectors == plain.vectors
    assert len(inner.calls) == 2


async def test_a_model_whose_vectors_have_grown_is_found_out() -> None:
    class Grows(Counting):
        def vector(self, text: str) -> Vector:
            return (1.0,) * len(self.calls)

    cached = CachedEmbedder(Grows())
    await cached.embed("a")
    with pytest.raises(BadReply, match=r"not as long as those that come now.*'m' has changed"):
        await cached.embed(["a", "b"])


async def test_an_embedder_that_loses_a_vector_is_found_out_and_nothing_is_kept() -> None:
    class Loses(Counting):
        async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
            answer = await super().embed(request)
            return Embeddings(vectors=answer.vectors[:-1])

    inner = Loses()
    cached = CachedEmbedder(inner)
    for _ in range(2):
        with pytest.raises(BadReply, match="2 vectors were asked for, and 1 came"):
            await cached.embed(["a", "b"])
    assert len(inner.calls) == 2


# --- bounded ----------------------------------------------------------------------------


async def test_the_longest_unused_goes_when_there_are_too_many() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, most_entries=3)
    for text in ("a", "b", "c", "a", "d", "a", "c", "b"):
        await cached.embed(text)
    assert inner.texts == ["a", "b", "c", "d", "b"]


async def test_memory_is_bounded_in_bytes_too() -> None:
    cached = CachedEmbedder(Counting(), most_bytes=2000)
    await cached.embed([str(at) for at in range(100)])
    recent = cached._recent
    assert 1 < len(recent) < 10
    assert 0 < recent.size_bytes <= 2000
    tiny = CachedEmbedder(Counting(), most_bytes=1)
    assert len((await tiny.embed(["a", "b"])).vectors) == 2
    assert (len(tiny._recent), tiny._recent.size_bytes) == (0, 0)


# --- at the same time -------------------------------------------------------------------


async def calls(cached: CachedEmbedder, *asked: list[str]) -> list[asyncio.Task[Embeddings]]:
    """Each under way, and waiting."""
    tasks = [asyncio.ensure_future(cached.embed(texts)) for texts in asked]
    await asyncio.sleep(0.01)
    return tasks


async def test_what_several_want_at_the_same_time_is_asked_for_once() -> None:
    inner = Counting()
    inner.go.clear()
    cached = CachedEmbedder(inner)
    tasks = await calls(cached, ["a", "b"], ["b", "a"], ["b", "c"], ["a"])
    inner.go.set()
    answers = await asyncio.gather(*tasks)
    assert inner.calls == [("a", "b"), ("c",)]
    assert answers[0].vectors == answers[1].vectors[::-1]
    assert [answer.usage.input_tokens for answer in answers] == [20, 0, 10, 0]


async def test_when_the_one_who_asks_is_cancelled_the_others_still_get_theirs() -> None:
    inner = Counting()
    inner.go.clear()
    cached = CachedEmbedder(inner)
    first, second = await calls(cached, ["a", "b"], ["b"])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    inner.go.set()
    answer = await second
    assert answer.vectors == (inner.vector("mb"),)
    assert answer.usage.input_tokens == 20  # it was spent, and somebody has to be told
    assert (inner.calls, inner.cancelled) == ([("a", "b")], 0)


async def test_when_nobody_waits_any_more_the_call_is_called_off() -> None:
    inner = Counting()
    inner.go.clear()
    cached = CachedEmbedder(inner)
    first, second = await calls(cached, ["a"], ["a"])
    first.cancel()
    await asyncio.sleep(0)
    assert inner.cancelled == 0
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert inner.cancelled == 1
    inner.go.set()
    assert (await cached.embed("a")).vectors == (inner.vector("ma"),)


async def test_who_comes_while_a_call_is_being_called_off_is_not_taken_along() -> None:
    inner = Counting()
    inner.go.clear()
    cached = CachedEmbedder(inner)
    (first,) = await calls(cached, ["a"])
    first.cancel()
    late = asyncio.ensure_future(cached.embed("a"))
    await asyncio.sleep(0.01)
    inner.go.set()
    assert (await late).vectors == (inner.vector("ma"),)
    assert first.cancelled()


async def test_when_it_fails_all_who_wait_get_the_error_and_nothing_is_kept() -> None:
    inner = Counting()
    inner.go.clear()
    inner.error = Overloaded("busy", vendor="counting")
    cached = CachedEmbedder(inner)
    tasks = await calls(cached, ["a"], ["a"], ["a"])
    inner.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(error) for error in found] == ["counting: busy"] * 3
    assert len(inner.calls) == 1
    inner.error = None
    assert (await cached.embed("a")).vectors == (inner.vector("ma"),)
    assert len(inner.calls) == 2


async def test_a_bad_text_of_somebody_elses_is_no_reason_to_fail() -> None:
    inner = Counting()
    inner.go.clear()
    cached = CachedEmbedder(inner)
    theirs, ours = await calls(cached, ["a", "bad"], ["a", "b"])
    inner.go.set()
    with pytest.raises(BadRequest, match="a bad text"):
        await theirs
    assert (await ours).vectors == (inner.vector("ma"), inner.vector("mb"))
    assert sorted(inner.calls[1:]) == [("a",), ("b",)]


async def test_after_a_bad_text_of_somebody_elses_the_rest_is_asked_for_once() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner)
    calls = [cached.embed(["bad", "a"]), *(cached.embed(["a"]) for _ in range(9))]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [BadRequest, *[Embeddings] * 9]
    assert inner.calls == [("bad", "a"), ("a",)]


async def test_a_failure_of_a_call_that_was_joined_is_the_error_also_while_ones_own_goes_on() -> None:
    class Fails(Counting):
        async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
            assert isinstance(request, EmbeddingRequest)
            if "a" in request.texts:
                await self.go.wait()
                raise Overloaded("busy", vendor=self.name)
            return await self.slow.wait()  # type: ignore[return-value]

        slow = asyncio.Event()

    inner = Fails()
    inner.go.clear()
    first, second = await calls(CachedEmbedder(inner), ["a"], ["a", "b"])
    inner.go.set()
    found = await asyncio.gather(first, second, return_exceptions=True)
    assert [str(error) for error in found] == ["counting: busy"] * 2


async def test_ones_own_call_goes_on_when_that_of_another_fails_for_a_text_of_theirs() -> None:
    class Slow(Counting):
        async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
            assert isinstance(request, EmbeddingRequest)
            if "b" in request.texts:
                await asyncio.sleep(0.05)
            return await super().embed(request)

    inner = Slow()
    inner.go.clear()
    theirs, ours = await calls(CachedEmbedder(inner), ["a", "bad"], ["a", "b"])
    inner.go.set()
    assert (await ours).vectors == (inner.vector("ma"), inner.vector("mb"))
    assert isinstance(theirs.exception(), BadRequest)
    assert inner.cancelled == 0


def test_a_loop_that_was_left_in_the_middle_does_not_hold_up_the_next(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, path=tmp_path / "cache.db")

    async def left() -> None:
        inner.go = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)  # type: ignore[union-attr]
        await cached.embed("a")

    async def again() -> Embeddings:
        inner.go = asyncio.Event()
        inner.go.set()
        answer = await cached.embed("a")
        await cached.close()
        return answer

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(left())
    assert asyncio.run(again()).vectors == (inner.vector("ma"),)


# --- in a file --------------------------------------------------------------------------


async def embedded(path: Path, texts: Sequence[str], **settings: int) -> list[str]:
    """What had to be asked for, with a cache that knows nothing but the file."""
    inner = Counting()
    cached = CachedEmbedder(inner, path=path, **settings)
    answer = await cached.embed(texts)
    assert answer.vectors == tuple(inner.vector(f"m{text}") for text in texts)
    await cached.close()
    return inner.texts


async def test_what_is_in_the_file_outlives_the_embedder(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    texts = [f"text {at}" for at in range(1200)]
    assert await embedded(path, texts) == texts
    assert await embedded(path, [*texts, "new"]) == ["new"]


async def test_what_came_from_the_file_is_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    cached = CachedEmbedder(Counting(), path=path)
    first = await cached.embed("a")
    assert first.usage.input_tokens == 0
    await cached.close()
    path.unlink()
    assert await cached.embed("a") == first


async def test_the_file_holds_no_more_than_it_may_and_the_longest_unused_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(_cache_file, "_now", lambda: next(clock))
    path = tmp_path / "cache.db"
    for text in ("a", "b", "c", "a", "d"):
        await embedded(path, [text], most_stored=3)
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*), (SELECT entries FROM size) FROM vectors").fetchone() == (3, 3)
    file.close()
    assert await embedded(path, ["a", "c", "d"], most_stored=3) == []
    assert await embedded(path, ["b"], most_stored=3) == ["b"]


async def test_the_file_may_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, path=tmp_path / "cache.db", most_entries=1)
    for _ in range(2):
        await cached.embed(["a", "b", "c"])
        await cached.close()
        await cached.close()
    assert inner.texts == ["a", "b", "c"]
    assert inner.closed == 4


async def test_closing_in_the_middle_of_calls_harms_none_of_them(tmp_path: Path) -> None:
    """A connection that one thread closes while another uses it takes the whole process along."""
    cached = CachedEmbedder(Counting(), path=tmp_path / "cache.db", most_entries=1)

    async def asking(name: int) -> None:
        for at in range(20):
            await cached.embed([f"{name} {at} {n}" for n in range(5)])

    async def closing() -> None:
        for _ in range(40):
            await cached.close()
            await asyncio.sleep(0)

    await asyncio.gather(*(asking(name) for name in range(4)), closing(), closing())
    await cached.close()
    assert sound(tmp_path / "cache.db")


async def test_a_close_that_is_cancelled_closes_all_the_same(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, path=tmp_path / "cache.db")
    await cached.embed("a")
    closing = asyncio.ensure_future(cached.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert inner.closed == 1
    assert await embedded(tmp_path / "cache.db", ["a"]) == []


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


def without_head(path: Path) -> None:
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def of_something_else(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE vectors (x)")
    file.close()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


def text(path: Path) -> None:
    path.write_text("Dear diary, today I learned about databases. " * 50)


def without_its_size(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("DELETE FROM size")
        file.execute("DELETE FROM vectors")
    file.close()


def of_words(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("UPDATE vectors SET vector = 'none'")
    file.close()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damaged, "damaged"),
        (without_head, "damaged"),
        (of_something_else, "the SQLite file of something else"),
        (newer, "a newer Gnomon made it"),
        (text, "no SQLite file"),
        (without_its_size, "does not say how many vectors it holds"),
        (of_words, "a vector is none"),
        (a_folder, "unable to open"),
    ],
)
async def test_a_file_that_is_no_cache_of_ours_is_a_clear_error_and_is_left_as_it_is(
    tmp_path: Path, spoil: object, words: str
) -> None:
    path = tmp_path / "cache.db"
    await embedded(path, [f"text {at}" for at in range(200)])
    spoil(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    cached = CachedEmbedder(Counting(), path=path)
    with pytest.raises(InvalidInput, match=words) as caught:
        await cached.embed([f"text {at}" for at in range(200)])
    assert "cache.db" in str(caught.value)
    await cached.close()
    assert (path.read_bytes() if path.is_file() else b"") == before


async def test_a_vector_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    with sqlite3.connect(path) as file:
        file.execute("UPDATE vectors SET vector = x'00'")
    file.close()
    cached = CachedEmbedder(Counting(), path=path)
    with pytest.raises(InvalidInput, match=r"a vector in .*cache.db is damaged"):
        await cached.embed("a")
    await cached.close()


async def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(), path=tmp_path / "no" / "cache.db")
    with pytest.raises(InvalidInput, match="cannot be used as a cache of embeddings"):
        await cached.embed("a")
    await cached.close()


async def test_a_path_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="null byte"):
        await CachedEmbedder(Counting(), path=f"{tmp_path}/a\0b").embed("a")
    with pytest.raises(ConfigError, match="path is the name of a file, not 5"):
        registry.embedder("cached:hashed", {"path": 5})


async def test_what_is_there_is_read_at_once_while_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    assert await embedded(path, ["a"]) == []
    assert time.monotonic() - begun < 2.0
    other.close()


async def test_an_empty_file_becomes_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.touch()
    assert await embedded(path, ["a"]) == ["a"]
    assert await embedded(path, ["a"]) == []


async def test_a_file_that_is_busy_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.3, other.execute, "ROLLBACK")
    assert await embedded(path, ["b"]) == ["b"]
    other.close()
    assert await embedded(path, ["b"]) == []


async def test_a_busy_file_is_done_without_and_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cache_file, "_BUSY_S", 1.0)
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    late: list[float] = []
    ticks = asyncio.ensure_future(_ticking(late))
    try:
        assert await embedded(path, ["b"]) == ["b"]
    finally:
        other.execute("ROLLBACK")
        other.close()
        ticks.cancel()
    assert max(late) < 0.8, "the loop stood still"
    assert await embedded(path, ["a", "b"]) == ["b"]
    await asyncio.wait([ticks])


async def _ticking(late: list[float]) -> None:
    while True:
        begun = time.monotonic()
        await asyncio.sleep(0.005)
        late.append(time.monotonic() - begun - 0.005)


# --- several processes, and hard times --------------------------------------------------

CHILD = """
import asyncio, logging, resource, signal, sys
sys.path[:0] = {paths!r}
from test_embed_cached import Counting
from gnomon.embedders.cached import CachedEmbedder

async def main(path, *arguments):
    inner = Counting()
    cached = CachedEmbedder(inner, path=path, most_entries=1)
    {body}
    await cached.close()

asyncio.run(main(*sys.argv[1:]))
"""


def child(path: Path, body: str, *arguments: str) -> subprocess.Popen[str]:
    code = CHILD.format(paths=[path for path in sys.path if path], body=body)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


async def test_several_processes_use_one_file_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    body = """
    for at in range(40):
        await cached.embed([f"text {at + n}" for n in range(int(arguments[0]))])
    """.strip()
    processes = [child(path, body, str(count)) for count in (1, 2, 3, 4)]
    assert [await asyncio.to_thread(ended, process) for process in processes] == [""] * 4
    assert await embedded(path, [f"text {at}" for at in range(43)]) == []
    assert sound(path)


async def test_a_file_that_another_process_makes_at_the_same_moment_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sees nothing of it, or all, and never tables that seem to be somebody else's."""
    path = tmp_path / "cache.db"
    connect = sqlite3.connect
    seen: list[str] = []

    def meanwhile(statement: str) -> None:
        seen.append(statement)
        if seen.count("PRAGMA user_version") != 1 or statement != "PRAGMA user_version":
            return
        other = connect(path, timeout=0, isolation_level=None)
        with suppress(sqlite3.OperationalError):  # whoever looks at it now holds it still
            for made in ("BEGIN IMMEDIATE", *_cache_file._TABLES, "COMMIT"):
                other.execute(made)
        other.close()

    def watched(*arguments: Any, **settings: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(meanwhile)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    assert await embedded(path, ["a"]) == ["a"]
    assert "PRAGMA user_version" in seen
    assert await embedded(path, ["a"]) == []


FORKING = """
import asyncio, os, sys
sys.path[:0] = {paths!r}
from test_embed_cached import Counting
from gnomon.embedders.cached import CachedEmbedder

cached = CachedEmbedder(Counting(), path=sys.argv[1], most_entries=1)

async def asked(*texts):
    answer = await asyncio.wait_for(cached.embed(texts), 10)
    assert len(answer.vectors) == len(texts)

asyncio.run(asked("a"))
if (forked := os.fork()) == 0:
    failed = 1
    try:
        asyncio.run(asked("b", "a"))
        asyncio.run(cached.close())
        failed = 0
    finally:
        os._exit(failed)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
asyncio.run(asked("a", "b"))
asyncio.run(cached.close())
"""


def test_a_process_that_was_forked_off_opens_the_file_anew(tmp_path: Path) -> None:
    """The thread that has it open is not in the new process: whoever waits for that waits for ever."""
    code = FORKING.format(paths=[path for path in sys.path if path])
    command = [sys.executable, "-c", code, str(tmp_path / "cache.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert sound(tmp_path / "cache.db")


def sound(path: Path) -> bool:
    """Whether the file is whole, and its own count of entries right."""
    file = sqlite3.connect(path)
    try:
        checks = file.execute("PRAGMA integrity_check").fetchall()
        counts = file.execute("SELECT count(*), (SELECT entries FROM size) FROM vectors").fetchone()
    finally:
        file.close()
    return checks == [("ok",)] and counts[0] == counts[1]


async def test_a_killed_process_loses_its_last_writes_at_most(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    body = """
    for at in range(10**9):
        await cached.embed([f"text {at} {n}" for n in range(20)])
        print(at, flush=True)
    """.strip()
    for _ in range(3):
        process = child(path, body)
        assert process.stdout is not None
        reached = [process.stdout.readline().strip() for _ in range(15)][-1]
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert reached == "14"
        assert sound(path)
        assert await embedded(path, [f"text {at} {n}" for at in range(15) for n in range(20)]) == []


def test_a_full_disk_means_no_keeping_one_warning_and_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    body = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    logging.basicConfig(format="%(levelname)s %(message)s")
    for at in range(30):
        answer = await cached.embed([f"text {at} {n}" for n in range(100)])
        assert len(answer.vectors) == 100
    """.strip()
    said = ended(child(path, body))
    assert said.count("WARNING") == 1
    assert "embeddings are not kept in" in said
    assert sound(path)


async def test_a_file_that_may_only_be_read_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As it is for somebody who may not write there: every write fails."""
    path = tmp_path / "cache.db"
    await embedded(path, ["a"])
    inner = Counting()
    cached = CachedEmbedder(inner, path=path)
    await cached.embed("a")
    assert cached._file is not None
    await cached._file._in_thread(lambda file: file._connection.execute("PRAGMA query_only = ON"))  # type: ignore[union-attr]
    with caplog.at_level(logging.WARNING):
        for texts in (["b"], ["c"], ["d"]):
            await cached.embed(texts)
    assert inner.texts == ["b", "c", "d"]
    assert len(caplog.records) == 1
    await cached.close()


async def test_a_file_that_fails_again_and_again_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cache.db"
    inner = Counting()
    cached = CachedEmbedder(inner, path=path)
    await cached.embed("a")
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE vectors")  # under its feet
    file.close()
    with caplog.at_level(logging.WARNING):
        for texts in (["b"], ["c"], ["d"]):
            assert len((await cached.embed(texts)).vectors) == 1
    assert len(caplog.records) == 1
    await cached.close()


# --- how it is made ---------------------------------------------------------------------


async def test_it_is_named_before_another_with_settings_for_both(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    made = registry.embedder("cached:hashed:v1-64", {"path": str(path), "most_entries": 5})
    assert isinstance(made, CachedEmbedder)
    assert (made.name, made.model, made.dimensions) == ("cached", "v1-64", 64)
    await made.embed("a")
    await made.close()
    assert path.exists()
    inner = registry.embedder("cached:openai", {"settings": {"dimensions": 9}})
    assert isinstance(inner, CachedEmbedder)
    assert (inner.model, inner.dimensions) == ("text-embedding-3-small", 9)


def test_it_needs_exactly_one_other() -> None:
    for make in (CachedEmbedder, lambda: CachedEmbedder(Counting(), model="openai:x")):
        with pytest.raises(ConfigError, match="needs one other embedder"):
            make()
    with pytest.raises(UnknownName, match="did you mean 'hashed'"):
        registry.embedder("cached:hashde")


@pytest.mark.parametrize("setting", ["most_entries", "most_bytes", "most_stored"])
def test_a_bound_of_nothing_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is a whole number above zero"):
        CachedEmbedder(Counting(), **{setting: 0})  # type: ignore[arg-type]
