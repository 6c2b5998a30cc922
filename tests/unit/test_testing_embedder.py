"""The suite of embedders: a good one passes every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from unittest import SkipTest

import msgspec
import pytest

from gnomon.contracts.embedder import Embedder
from gnomon.errors import BadRequest, ModelNotFound
from gnomon.testing import Contract, EmbedderContract
from gnomon.types.documents import EmbeddingRequest, Embeddings, Vector
from gnomon.types.requests import Usage, add_usage

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(EmbedderContract) if name.startswith("test_")]

Asked = EmbeddingRequest | Sequence[str]


# --- an embedder that keeps its word, and those that do not -----------------------


class Good:
    name = "good"
    model = "good-1"
    most = 7

    def __init__(self, key: str) -> None:
        self.key = key

    async def embed(self, request: Asked) -> Embeddings:
        texts = self.texts(request)
        model = request.model if isinstance(request, EmbeddingRequest) else None
        if model not in (None, self.model):
            raise self.error()
        if "" in texts:
            raise BadRequest("an empty text", vendor="good")
        parts = [texts[at : at + self.most] for at in range(0, len(texts), self.most)]
        answers = await asyncio.gather(*(self.part(part) for part in parts))
        return self.joined(answers)

    def texts(self, request: Asked) -> list[str]:
        if isinstance(request, EmbeddingRequest):
            return list(request.texts)
        return [request] if isinstance(request, str) else list(request)

    async def part(self, texts: list[str]) -> Embeddings:
        await asyncio.sleep(0.001)
        vectors = tuple(self.vector(text) for text in texts)
        return Embeddings(vectors=vectors, usage=Usage(input_tokens=sum(map(self.tokens, texts))))

    def vector(self, text: str) -> Vector:
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        return tuple(byte / 255 for byte in digest)

    def tokens(self, text: str) -> int:
        return len(text.split()) + 1

    def joined(self, answers: list[Embeddings]) -> Embeddings:
        vectors = tuple(vector for answer in answers for vector in answer.vectors)
        usage = add_usage(answer.usage for answer in answers)
        return Embeddings(vectors=vectors, model=self.model, usage=usage)

    def error(self) -> Exception:
        return ModelNotFound("no such model", vendor="good")

    async def close(self) -> None:
        pass


class Quiet(Good):
    """It keeps its word, too: nothing is reported."""

    def tokens(self, text: str) -> int:
        return 0

    def joined(self, answers: list[Embeddings]) -> Embeddings:
        return msgspec.structs.replace(super().joined(answers), usage=Usage())


class NoName(Good):
    name = ""


class DoesNotSayTheModel(Good):
    def joined(self, answers: list[Embeddings]) -> Embeddings:
        return msgspec.structs.replace(super().joined(answers), model=None)


class LosesTheLast(Good):
    async def part(self, texts: list[str]) -> Embeddings:
        answer = await super().part(texts)
        return msgspec.structs.replace(answer, vectors=answer.vectors[:6])


class LengthByText(Good):
    def vector(self, text: str) -> Vector:
        return (1.0,) * (1 + len(text))


class GivesLists(Good):
    def vector(self, text: str) -> Vector:
        return list(super().vector(text))  # type: ignore[return-value]


class GivesWholeNumbers(Good):
    def vector(self, text: str) -> Vector:
        return tuple(round(number * 255) for number in super().vector(text))


class ByArrival(Good):
    """The parts in the order in which they come."""

    async def embed(self, request: Asked) -> Embeddings:
        texts = self.texts(request)
        halves = [texts[: len(texts) // 2], texts[len(texts) // 2 :]]
        calls = [self.late(half, 2 - at) for at, half in enumerate(halves) if half]
        return self.joined([await call for call in asyncio.as_completed(calls)])

    async def late(self, texts: list[str], turns: int) -> Embeddings:
        await asyncio.sleep(0.02 * turns)
        return await super().part(texts)


class AllAlike(Good):
    def vector(self, text: str) -> Vector:
        return (1.0, 0.0)


class DropsRepeats(Good):
    def texts(self, request: Asked) -> list[str]:
        return list(dict.fromkeys(super().texts(request)))


class NumbersRepeats(Good):
    """A text that was there before gets another vector."""

    async def part(self, texts: list[str]) -> Embeddings:
        named = [f"{text}{texts[:at].count(text) or ''}" for at, text in enumerate(texts)]
        return await super().part(named)


class CutsTheRest(Good):
    async def embed(self, request: Asked) -> Embeddings:
        texts = self.texts(request)
        if isinstance(request, EmbeddingRequest) and request.model not in (None, self.model):
            raise self.error()
        return self.joined([await self.part(texts[:20])])


class CutsLongTexts(Good):
    """In a part with others only: the caller cannot see which."""

    async def part(self, texts: list[str]) -> Embeddings:
        return await super().part([text[:60] for text in texts] if len(texts) > 1 else texts)


class CountsTheFirstPart(Good):
    def joined(self, answers: list[Embeddings]) -> Embeddings:
        usage = answers[0].usage if answers else Usage()
        return msgspec.structs.replace(super().joined(answers), usage=usage)


class SaysZero(Good):
    def tokens(self, text: str) -> int:
        return 0


class AsksForNothing(Good):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.socket = socket.socket()
        self.socket.close()

    async def embed(self, request: Asked) -> Embeddings:
        self.socket.close()
        self.socket = socket.socket()
        return await super().embed(request)

    async def close(self) -> None:
        self.socket.close()


class RefusesNothing(Good):
    async def embed(self, request: Asked) -> Embeddings:
        if not self.texts(request):
            raise BadRequest("input is empty", vendor="good")
        return await super().embed(request)


class MakesOneOfNothing(Good):
    def texts(self, request: Asked) -> list[str]:
        return super().texts(request) or ["nothing"]


class ByCharacter(Good):
    def texts(self, request: Asked) -> list[str]:
        return list(request.texts) if isinstance(request, EmbeddingRequest) else list(request)


class WantsARequest(Good):
    def texts(self, request: Asked) -> list[str]:
        if not isinstance(request, EmbeddingRequest):
            raise TypeError("a request is wanted")
        return list(request.texts)


class EmptiesTheList(Good):
    def texts(self, request: Asked) -> list[str]:
        texts = super().texts(request)
        if isinstance(request, list):
            request.clear()
        return texts


class RefusesItsOwnModel(Good):
    async def embed(self, request: Asked) -> Embeddings:
        if isinstance(request, EmbeddingRequest) and request.model is not None:
            raise self.error()
        return await super().embed(request)


class KnowsNoNUL(Good):
    def vector(self, text: str) -> Vector:
        if "\0" in text:
            raise BadRequest("a NUL", vendor="good")
        return super().vector(text)


class SkipsEmptyTexts(Good):
    def texts(self, request: Asked) -> list[str]:
        return [text for text in super().texts(request) if text]


class StumblesOverHalfACharacter(Good):
    def vector(self, text: str) -> Vector:
        text.encode()
        return super().vector(text)


class FailsWithKeyError(Good):
    def error(self) -> Exception:
        return KeyError("data")


class FailsWithoutVendor(Good):
    def error(self) -> Exception:
        return ModelNotFound("no such model")


class FallsSilentAfterAFailure(Good):
    failed = False

    async def embed(self, request: Asked) -> Embeddings:
        if self.failed:
            return Embeddings(vectors=())
        return await super().embed(request)

    def error(self) -> Exception:
        self.failed = True
        return super().error()


class LeaksATaskWhenItFails(Good):
    def error(self) -> Exception:
        self.task = asyncio.ensure_future(asyncio.sleep(60))
        return super().error()


class ShowsKey(Good):
    def error(self) -> Exception:
        return ModelNotFound(f"GET /models?x={self.key} was refused", vendor="good")


class LogsKey(Good):
    def error(self) -> Exception:
        logging.getLogger("good.http").debug("header %s", self.key)
        return super().error()


class ClosesOnce(Good):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Mixes(Good):
    """What was asked stands on the embedder, where the next one who asks puts his own."""

    async def part(self, texts: list[str]) -> Embeddings:
        self.asked = texts
        await asyncio.sleep(0.001)
        return await super().part(self.asked)


class LeaksATaskWhenCancelled(Good):
    async def embed(self, request: Asked) -> Embeddings:
        self.task = asyncio.ensure_future(super().embed(request))
        return await asyncio.shield(self.task)


class SwallowsCancelling(Good):
    async def part(self, texts: list[str]) -> Embeddings:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.001)
        return Embeddings(vectors=tuple(map(self.vector, texts)))

    async def embed(self, request: Asked) -> Embeddings:
        return self.joined([await self.part(self.texts(request))])


class StaysCancelled(Good):
    cancelled = False

    async def embed(self, request: Asked) -> Embeddings:
        if self.cancelled:
            return Embeddings(vectors=())
        try:
            return await super().embed(request)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class KeepsItsLoop(Good):
    gate: asyncio.Future[None] | None = None

    async def embed(self, request: Asked) -> Embeddings:
        if self.gate is None:
            self.gate = asyncio.get_running_loop().create_future()
        if self.gate.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await super().embed(request)


class Suite(EmbedderContract):
    """A suite that is not collected here, over whichever embedder."""

    __test__ = False

    def __init__(self, make: Callable[[str], Embedder] = Good) -> None:
        self.make = make

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        embedder = self.make(self.key)
        try:
            yield embedder
        finally:
            with suppress(RuntimeError):
                await embedder.close()


def _run(suite: EmbedderContract, check: str, limit_s: float = 10.0) -> None:
    RULES.run(getattr(suite, check), limit_s)


PLANTS: dict[str, list[tuple[type[Good], str]]] = {
    "test_name_and_model_are_set_and_the_answer_says_the_model": [
        (NoName, "the embedder's name: expected some, found ''"),
        (DoesNotSayTheModel, "Embeddings.model: expected some, found None"),
    ],
    "test_there_is_one_vector_a_text_and_all_have_one_length": [
        (LosesTheLast, "the number of vectors: expected 8, found 7"),
        (LengthByText, "the lengths of the vectors: expected 1, found"),
        (GivesLists, "what a vector is made of|unhashable"),
        (GivesWholeNumbers, "what a vector is made of: .* found .*'int'"),
    ],
    "test_vectors_are_in_the_order_of_the_texts": [
        (ByArrival, "the vector of .* among others: expected"),
        (AllAlike, "different vectors for different texts: expected 8, found 1"),
    ],
    "test_a_text_that_is_there_twice_has_its_vector_twice": [
        (DropsRepeats, "the number of vectors: expected 4, found 2"),
        (NumbersRepeats, "the vector of text 2, which is text 0: expected"),
    ],
    "test_splitting_cannot_be_seen": [
        (CutsTheRest, "the number of vectors: expected 50, found 20"),
        (CutsLongTexts, "the vector of text 1 of 50: expected"),
    ],
    "test_usage_is_the_sum_over_the_parts_or_not_reported": [
        (CountsTheFirstPart, "the usage of one call, beside that of many: expected"),
        (SaysZero, "expected tokens that were read, or None, found"),
    ],
    "test_no_texts_give_no_vectors_and_nobody_is_asked": [
        (AsksForNothing, "sockets opened for no texts: expected"),
        (RefusesNothing, "input is empty"),
        (MakesOneOfNothing, "vectors of no texts: expected"),
    ],
    "test_a_bare_string_is_one_text": [
        (ByCharacter, "vectors of a bare string: expected 1, found 30"),
    ],
    "test_a_list_or_a_tuple_stands_for_a_request": [
        (WantsARequest, "a request is wanted"),
        (EmptiesTheList, "the list that was given: expected .* found"),
        (RefusesItsOwnModel, "no such model"),
    ],
    "test_any_text_is_embedded": [
        (KnowsNoNUL, "a NUL"),
        (LosesTheLast, "the number of vectors: expected 7, found 6"),
    ],
    "test_what_cannot_be_embedded_is_a_provider_error": [
        (SkipsEmptyTexts, "with '' among them: expected .3, 1., found .2, 1."),
        (StumblesOverHalfACharacter, "expected a ProviderError, found UnicodeEncodeError"),
    ],
    "test_a_failure_is_a_provider_error_of_a_named_vendor": [
        (FailsWithKeyError, "expected a ProviderError, found KeyError"),
        (FailsWithoutVendor, "the vendor in ModelNotFound: expected some, found None"),
        (FallsSilentAfterAFailure, "vectors after the failure: expected 1, found 0"),
        (LeaksATaskWhenItFails, "left behind by the failure: expected"),
    ],
    "test_no_error_and_no_log_shows_the_key": [
        (ShowsKey, "texts that show the key: expected .*<the key>"),
        (LogsKey, "texts that show the key: expected .*<the key>"),
    ],
    "test_close_may_be_called_twice": [
        (ClosesOnce, "closed already"),
    ],
    "test_calls_at_the_same_time_do_not_mix": [
        (Mixes, "asked for beside others: expected"),
    ],
    "test_a_cancelled_call_leaves_nothing_behind": [
        (LeaksATaskWhenCancelled, "left behind: expected"),
        (SwallowsCancelling, "the call ended with: expected 'CancelledError', found 'an answer'"),
        (StaysCancelled, "vectors after it: expected 2, found 0"),
    ],
    "test_one_event_loop_may_follow_another": [
        (KeepsItsLoop, "attached to a different loop"),
    ],
}


@pytest.mark.parametrize("make", [Good, Quiet])
@pytest.mark.parametrize("check", CHECKS)
def test_an_embedder_that_keeps_its_word_passes(make: type[Good], check: str) -> None:
    _run(Suite(make), check)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert set(PLANTS) == set(CHECKS) - {"test_no_check_is_overridden"}


@pytest.mark.parametrize(
    ("check", "make", "words"),
    [(check, make, words) for check, plants in PLANTS.items() for make, words in plants],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_a_planted_fault_is_found(check: str, make: type[Good], words: str) -> None:
    with pytest.raises((Exception, AssertionError), match=f"(?s){words}"):
        _run(Suite(make), check)


def test_a_real_model_may_differ_in_the_last_digits_and_no_further() -> None:
    class Rough(Suite):
        __test__ = False
        repeatable = False

    class Trembles(Good):
        calls = 0

        def vector(self, text: str) -> Vector:
            self.calls += 1
            return tuple(number + self.calls % 3 * 1e-6 for number in super().vector(text))

    _run(Rough(Trembles), "test_vectors_are_in_the_order_of_the_texts")
    with pytest.raises(AssertionError, match="among others: expected"):
        _run(Suite(Trembles), "test_vectors_are_in_the_order_of_the_texts")
    with pytest.raises(AssertionError, match="expected the same direction, found a cosine of"):
        _run(Rough(ByArrival), "test_vectors_are_in_the_order_of_the_texts")


def test_an_embedder_that_cannot_fail_skips_the_checks_of_failures() -> None:
    class Sure(Suite):
        __test__ = False

        def failure(self) -> EmbeddingRequest | None:
            return None

    for check in CHECKS:
        if "failure" in check or "key" in check:
            with pytest.raises(SkipTest, match="does not offer a failure"):
                _run(Sure(), check)
