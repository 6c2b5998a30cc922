"""What an embedder promises, as checks that anybody's embedder can run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import sqrt
from traceback import format_exception
from typing import ClassVar

from gnomon.contracts.embedder import Embedder
from gnomon.errors import ProviderError
from gnomon.testing._asking import Log
from gnomon.testing._suite import Contract, expect, expect_some, skip
from gnomon.testing._watch import Watch, open_sockets
from gnomon.types.documents import EmbeddingRequest, Embeddings, Vector
from gnomon.types.requests import add_usage

__all__ = ["EmbedderContract"]

TEXTS = (
    "The tide comes in twice a day.",
    "Der Zug nach Zürich fährt um acht.",
    "東京は日本の首都です。",
    "กรุงเทพเป็นเมืองหลวงของไทย",
    "A café — naïve, isn't it? 🙂🇨🇭",
    "القطار يصل في الثامنة",
    "line one\nline two\ttab",
    "x",
)
"""Short, all different, in several scripts."""

_ODD_TEXTS = ("e\u0301", "\u200d👩‍👩‍👧", "\x00 and \x7f", "\ufeff\u2028", " ", "\U0010ffff", "ﷺ" * 20)

_ROUNDS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
"""After how many turns of the loop a call is cancelled."""


class EmbedderContract(Contract[Embedder]):
    """The suite of `Embedder`.

        class TestAcme(EmbedderContract):
            @asynccontextmanager
            async def open(self):
                embedder = AcmeEmbedder(key=self.key, batch_texts=7, …)
                yield embedder
                await embedder.close()

    Give it an embedder that sends few texts at once, so that the checks of
    splitting have something to see.
    """

    key: ClassVar[str] = "key-of-the-contract-suite-7d1f4e"
    """Give this key to the embedder: the suite looks for it where it must not be."""

    repeatable: ClassVar[bool] = True
    """Whether the same text gets the same vector, to the last bit. Say `False` for a real model."""

    many: ClassVar[int] = 50
    """How many texts make several requests."""

    def failure(self) -> EmbeddingRequest | None:
        """A request that must fail; `None` when there is none."""
        return EmbeddingRequest(("A text.",), model="no-such-model")

    # --- what comes

    async def test_name_and_model_are_set_and_the_answer_says_the_model(self) -> None:
        """Vectors of two models must not be compared, so each answer says whose they are."""
        async with self.open() as embedder:
            expect_some("the embedder's name", embedder.name)
            expect_some("the embedder's model", embedder.model)
            expect_some("Embeddings.model", (await embedder.embed(TEXTS)).model)
            expect_some("Embeddings.model for no texts", (await embedder.embed([])).model)

    async def test_there_is_one_vector_a_text_and_all_have_one_length(self) -> None:
        """Whether alone or with others."""
        async with self.open() as embedder:
            together = await embedder.embed(TEXTS)
            alone = [await embedder.embed([text]) for text in TEXTS]
        expect("the number of vectors", len(TEXTS), len(together.vectors))
        expect("vectors for one text", [1] * len(TEXTS), [len(answer.vectors) for answer in alone])
        every = [*together.vectors, *(answer.vectors[0] for answer in alone)]
        expect("the lengths of the vectors", 1, len({len(vector) for vector in every}))
        expect_some("the numbers in a vector", len(every[0]))
        kinds = {type(number).__name__ for number in every[0]}
        expect("what a vector is made of", ("tuple", {"float"}), (type(every[0]).__name__, kinds))

    async def test_vectors_are_in_the_order_of_the_texts(self) -> None:
        """Each is the vector that its text gets alone, and texts that differ have vectors that differ."""
        async with self.open() as embedder:
            forward = (await embedder.embed(TEXTS)).vectors
        async with self.open() as embedder:
            backward = (await embedder.embed(TEXTS[::-1])).vectors
            alone = [(await embedder.embed([text])).vectors[0] for text in TEXTS]
        for text, one, other, single in zip(TEXTS, forward, backward[::-1], alone, strict=True):
            _expect_same(self, f"the vector of {text!r} among others", single, one)
            _expect_same(self, f"the vector of {text!r} in the other order", single, other)
        expect("different vectors for different texts", len(TEXTS), len(set(forward)))

    async def test_a_text_that_is_there_twice_has_its_vector_twice(self) -> None:
        """As if each stood there alone."""
        twice = [TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[0]]
        async with self.open() as embedder:
            vectors = (await embedder.embed(twice)).vectors
        expect("the number of vectors", 4, len(vectors))
        for at in (2, 3):
            _expect_same(self, f"the vector of text {at}, which is text 0", vectors[0], vectors[at])

    async def test_splitting_cannot_be_seen(self) -> None:
        """More texts than go into one request, short and long, come as one answer in one order."""
        texts = _many(self)
        async with self.open() as embedder:
            together = (await embedder.embed(texts)).vectors
        async with self.open() as embedder:
            apart = [(await embedder.embed([text])).vectors[0] for text in texts]
        expect("the number of vectors", len(texts), len(together))
        for at, (one, other) in enumerate(zip(apart, together, strict=True)):
            _expect_same(self, f"the vector of text {at} of {len(texts)}", one, other)

    async def test_usage_is_the_sum_over_the_parts_or_not_reported(self) -> None:
        """U3: what was not reported is `None`, and what was is counted once."""
        texts = _many(self)
        async with self.open() as embedder:
            together = (await embedder.embed(texts)).usage
        async with self.open() as embedder:
            apart = add_usage([(await embedder.embed([text])).usage for text in texts])
        expect("the usage of one call, beside that of many", apart, together)
        if together.input_tokens is not None and together.input_tokens < 1:
            raise AssertionError(f"expected tokens that were read, or None, found {together}")

    # --- what may be asked

    async def test_no_texts_give_no_vectors_and_nobody_is_asked(self) -> None:
        """Also when the service is not there."""
        async with self.open() as embedder:
            sockets = open_sockets()
            with Watch() as watch:
                empty: tuple[list[str] | tuple[str, ...] | EmbeddingRequest, ...] = (
                    [],
                    (),
                    EmbeddingRequest(()),
                )
                answers = [await embedder.embed(none) for none in empty]
                opened = open_sockets() - sockets
            expect("running after no texts", [], await watch.left())
        expect("vectors of no texts", [()] * 3, [answer.vectors for answer in answers])
        expect("sockets opened for no texts", set[object](), set(opened))
        expect("tokens for no texts", [0] * 3, [answer.usage.total_tokens or 0 for answer in answers])

    async def test_a_bare_string_is_one_text(self) -> None:
        """And not its characters."""
        async with self.open() as embedder:
            bare = (await embedder.embed(TEXTS[0])).vectors
            listed = (await embedder.embed([TEXTS[0]])).vectors
        expect("vectors of a bare string", 1, len(bare))
        _expect_same(self, "the vector of a bare string", listed[0], bare[0])

    async def test_a_list_or_a_tuple_stands_for_a_request(self) -> None:
        """Which may name the embedder's own model, and is left as it was."""
        given = list(TEXTS)
        async with self.open() as embedder:
            requests = EmbeddingRequest(TEXTS), EmbeddingRequest(TEXTS, model=embedder.model)
            answers = [await embedder.embed(request) for request in (given, TEXTS, *requests)]
        expect("the list that was given", list(TEXTS), given)
        for answer in answers[1:]:
            for one, other in zip(answers[0].vectors, answer.vectors, strict=True):
                _expect_same(self, "the same texts, asked for otherwise", one, other)

    async def test_any_text_is_embedded(self) -> None:
        """Whatever characters it is made of."""
        async with self.open() as embedder:
            vectors = (await embedder.embed(_ODD_TEXTS)).vectors
        expect("the number of vectors", len(_ODD_TEXTS), len(vectors))

    async def test_what_cannot_be_embedded_is_a_provider_error(self) -> None:
        """An empty text and half a character have a vector, or are refused; they are never left out."""
        for text in ("", "half \ud83d"):
            async with self.open() as embedder:
                answer = await _answer_or_error(embedder, [TEXTS[0], text, TEXTS[1]])
            if isinstance(answer, Embeddings):
                lengths = {len(vector) for vector in answer.vectors}
                expect(
                    f"vectors and lengths with {text!r} among them",
                    (3, 1),
                    (len(answer.vectors), len(lengths)),
                )
            elif not isinstance(answer, ProviderError):
                raise AssertionError(f"{text!r}: expected a ProviderError, found {answer!r}") from answer

    # --- bad times

    async def test_a_failure_is_a_provider_error_of_a_named_vendor(self) -> None:
        """S12; and after it the embedder works as before."""
        async with self.open() as embedder:
            with Watch() as watch:
                error = await _answer_or_error(embedder, _failing(self))
            expect("left behind by the failure", [], await watch.left())
            after = await embedder.embed(TEXTS[:1])
        if not isinstance(error, ProviderError):
            raise AssertionError(f"failure: expected a ProviderError, found {error!r}")
        expect_some(f"the vendor in {type(error).__name__}", error.vendor)
        expect("vectors after the failure", 1, len(after.vectors))

    async def test_no_error_and_no_log_shows_the_key(self) -> None:
        """S12: keys never appear in errors, logs or URLs."""
        with Log() as log:
            async with self.open() as embedder:
                error = await _answer_or_error(embedder, _failing(self))
        texts = ["".join(format_exception(error)), repr(error)] if isinstance(error, Exception) else []
        shown = [text for text in (*texts, *log.messages) if self.key in text]
        expect("texts that show the key", [], [text.replace(self.key, "<the key>") for text in shown])

    async def test_close_may_be_called_twice(self) -> None:
        """Before anything was asked, and after."""
        async with self.open() as embedder:
            await embedder.close()
            await embedder.close()
        async with self.open() as embedder:
            await embedder.embed(TEXTS)
            await embedder.close()
            await embedder.close()

    # --- at the same time, and not to the end

    async def test_calls_at_the_same_time_do_not_mix(self) -> None:
        """Each gets what it would have got alone, also where they ask for the same."""
        async with self.open() as embedder:
            alone = [(await embedder.embed([text])).vectors[0] for text in TEXTS]
        places = [range(at, at + 3) for at in range(len(TEXTS) - 2)]
        async with self.open() as embedder:
            calls = [embedder.embed([TEXTS[at] for at in place]) for place in places]
            together = await asyncio.gather(*calls)
        for place, answer in zip(places, together, strict=True):
            for at, vector in zip(place, answer.vectors, strict=True):
                _expect_same(self, f"the vector of {TEXTS[at]!r}, asked for beside others", alone[at], vector)

    async def test_a_cancelled_call_leaves_nothing_behind(self) -> None:
        """At whatever moment; and the next call is answered."""
        texts = _many(self)
        for rounds in _ROUNDS:
            async with self.open() as embedder:
                with Watch() as watch:
                    end = await _cancelled(embedder, texts, rounds)
                expect(f"cancelled after {rounds} turns, left behind", [], await watch.left())
                expect(f"cancelled after {rounds} turns, the call ended with", "CancelledError", end)
                expect("vectors after it", 2, len((await embedder.embed(TEXTS[:2])).vectors))

    async def test_one_event_loop_may_follow_another(self) -> None:
        """An embedder may outlive the loop that it was used on."""
        async with self.open() as embedder:
            here = (await embedder.embed(TEXTS)).vectors
            others = [await asyncio.to_thread(_on_another_loop, embedder) for _ in range(2)]
            again = (await embedder.embed(TEXTS)).vectors
        for vectors in (*others, again):
            for one, other in zip(here, vectors, strict=True):
                _expect_same(self, "a vector from another event loop", one, other)


# --- asking -----------------------------------------------------------------------


def _many(suite: EmbedderContract) -> list[str]:
    """All different; some are long."""
    return [f"Text {at} of many. " + "And so on. " * (at % 7 * 5) for at in range(suite.many)]


def _failing(suite: EmbedderContract) -> EmbeddingRequest:
    request = suite.failure()
    return request if request is not None else skip(suite, "a failure")


async def _answer_or_error(
    embedder: Embedder, request: EmbeddingRequest | Sequence[str]
) -> Embeddings | Exception:
    try:
        return await embedder.embed(request)
    except Exception as error:  # noqa: BLE001 - which one it is, is what the check asks
        return error


async def _cancelled(embedder: Embedder, texts: Sequence[str], rounds: int) -> str:
    """How the call ended; one that was faster than that is as good as cancelled."""
    call = asyncio.ensure_future(embedder.embed(texts))
    for _ in range(rounds):
        await asyncio.sleep(0)
    was_over = call.done()
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return "CancelledError"
    return "CancelledError" if was_over else "an answer"


def _on_another_loop(embedder: Embedder) -> tuple[Vector, ...]:
    async def once() -> tuple[Vector, ...]:
        vectors = (await embedder.embed(TEXTS)).vectors
        await embedder.close()
        return vectors

    return asyncio.run(once())


# --- judging what came --------------------------------------------------------------


def _expect_same(suite: EmbedderContract, what: str, one: Vector, other: Vector) -> None:
    if suite.repeatable:
        expect(what, one, other)
    elif _cosine(one, other) < 0.99:
        raise AssertionError(f"{what}: expected the same direction, found a cosine of {_cosine(one, other)}")


def _cosine(one: Vector, other: Vector) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    lengths = sqrt(sum(a * a for a in one)) * sqrt(sum(b * b for b in other))
    return product / lengths if lengths else float(one == other)
