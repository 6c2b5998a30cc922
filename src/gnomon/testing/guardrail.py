"""What a guardrail promises, as checks that anybody's guardrail can run."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar, cast, get_args

from gnomon.contracts.guardrail import Guardrail, Position, Sentence, SupportsView, View, Whole, Window
from gnomon.testing._prompts import seeded
from gnomon.testing._suite import Contract, expect, expect_some, skip
from gnomon.types.steps import GuardrailResult

__all__ = ["GuardrailContract"]

_FILLER = "The tide comes in twice a day, and nobody minds. "
_LONG = 1_000_000
_SPLITS, _TIMES = 6, 4
_SHORT, _EIGHT_TIMES = 4_000, 32_000
_TRIES = 2
_MOST = 24
"""How many times as much eight times the text may cost: clocks are not exact, and 64 is what must not be."""
_SOON_S = 0.05

_ODD = (
    " ",
    "\n",
    "\x00",
    "\ud800",
    "\udfff\ud800 and text",
    "\ufeff\u200b\u2060",
    "e\u0301" * 20,
    "a" + "\u0336" * 500,
    "\u202eright to left\u202c",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 👩\u200d👩\u200d👧 1\ufe0f\u20e3",
    "ﷺ ﬁ ① ｆｕｌｌ ℌ",
    "東京は日本の首都です。",
    "שָׁלוֹם עֲלֵיכֶם कुत्ता ไม่มีช่องว่าง",
    '{"a": [1, 2.5, null]}',
    '{"a": "half of a',
)
_UNITS = ("a", " ", "1 ", "1-", ".", "@", "a@", ":", "=", "-----", "a://", "\u0301", "字", "\\", '"', "{")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class GuardrailContract(Contract[Guardrail]):
    """The suite of `Guardrail`. Besides `open` it needs texts to try:

        class TestAcme(GuardrailContract):
            passing = ("How high is the tide?",)
            failing = {"my card is 4111 1111 1111 1111": "4111"}

            @asynccontextmanager
            async def open(self):
                yield AcmeGuardrail()

    `failing` has texts that must not pass, and in each a piece that neither the reason nor the
    replacement may repeat; an empty one where there is nothing of the kind. `open` must give one
    that judges like any other it gives.
    """

    passing: ClassVar[Sequence[str]] = ()
    failing: ClassVar[Mapping[str, str]] = {}

    # --- what it says

    async def test_texts_that_are_fine_pass(self) -> None:
        """Each of `passing`, and then there is nothing to replace."""
        expect_some("texts in `passing`", self.passing)
        async with self.open() as guardrail:
            results = {text: await guardrail.check(text) for text in self.passing}
        expect("texts that did not pass", {}, {t: r.reason for t, r in results.items() if not r.passed})
        expect(
            "replacements of what passed", [], [t for t, r in results.items() if r.replacement is not None]
        )

    async def test_texts_that_are_not_fine_do_not_pass(self) -> None:
        """Each of `failing`, alone and with other text around it."""
        expect_some("texts in `failing`", self.failing)
        async with self.open() as guardrail:
            for text in self.failing:
                for shown in (text, f"{_FILLER}{text} {_FILLER}"):
                    expect(f"whether {shown!r} passed", False, (await guardrail.check(shown)).passed)

    async def test_an_empty_text_passes(self) -> None:
        """There is nothing to be said against it."""
        async with self.open() as guardrail:
            expect("the result for an empty text", GuardrailResult(True), await guardrail.check(""))

    async def test_what_did_not_pass_has_a_reason(self) -> None:
        """In words: somebody is going to read it."""
        async with self.open() as guardrail:
            reasons = {text: (await guardrail.check(text)).reason for text in self.failing}
        expect("texts without a reason", [], [text for text, reason in reasons.items() if not reason.strip()])

    async def test_neither_reason_nor_replacement_repeats_what_was_found(self) -> None:
        """Both are kept, and shown."""
        async with self.open() as guardrail:
            for text, secret in self.failing.items():
                result = await guardrail.check(text)
                told = result.reason + (result.replacement or "")
                expect(f"whether what was found in {text!r} is told", False, bool(secret) and secret in told)

    async def test_a_replacement_passes_itself(self) -> None:
        """And the one of a text that has it twice."""
        async with self.open() as guardrail:
            for text in self.failing:
                for shown in (text, f"{text} {_FILLER}{text}"):
                    instead = (await guardrail.check(shown)).replacement
                    if instead is not None:
                        again = await guardrail.check(instead)
                        expect(
                            f"the result for {instead!r}, given for {shown!r}", GuardrailResult(True), again
                        )

    # --- the same is the same

    async def test_the_same_text_gives_the_same_result(self) -> None:
        """Again, after others, and from another of them."""
        texts = [*self.passing, *self.failing]
        async with self.open() as guardrail, self.open() as other:
            first = [await guardrail.check(text) for text in texts]
            again = [await guardrail.check(text) for text in reversed(texts)][::-1]
            elsewhere = [await other.check(text) for text in texts]
        expect("the results, given again", first, again)
        expect("the results of another", first, elsewhere)

    async def test_checks_may_run_at_the_same_time(self) -> None:
        """And get what one alone gets."""
        texts = [*self.passing, *self.failing] * _TIMES
        async with self.open() as guardrail:
            alone = [await guardrail.check(text) for text in texts]
            together = await asyncio.gather(*(guardrail.check(text) for text in texts))
        expect("the results of checks at the same time", alone, list(together))

    async def test_its_name_and_place_stay(self) -> None:
        """A name in words, and positions that there are."""
        async with self.open() as guardrail:
            before = _standing(guardrail)
            expect_some("its name", guardrail.name.strip())
            expect_some("its positions", guardrail.positions)
            strange = [each for each in guardrail.positions if each not in get_args(Position)]
            expect("positions that there are not", [], strange)
            for text in (*self.passing, *self.failing):
                await guardrail.check(text)
            expect("its name, positions and view, later", before, _standing(guardrail))

    # --- any text

    async def test_odd_text_is_judged_too(self) -> None:
        """No text, however odd, is an error; what has not passed has its reason there, too."""
        async with self.open() as guardrail:
            for text in (*_ODD, "".join(_ODD)):
                result = cast(object, await guardrail.check(text))
                expect(f"the type of the result for {text!r}", GuardrailResult, type(result))
                if isinstance(result, GuardrailResult) and not result.passed:
                    expect_some(f"the reason against {text!r}", result.reason.strip())

    async def test_a_long_text_is_judged_to_its_end(self) -> None:
        """A million characters, and what must not pass at the end of them."""
        text = next(iter(self.failing), "")
        async with self.open() as guardrail:
            result = await guardrail.check(_FILLER * (_LONG // len(_FILLER)) + text)
        expect("whether the long text passed", False, result.passed)

    async def test_the_cost_grows_with_the_text_and_no_faster(self) -> None:
        """No text makes a check take for ever: not one sign again and again, nor what it looks for."""
        async with self.open() as guardrail:
            for unit in (*_UNITS, *self.failing, *(text[:9] for text in self.failing)):
                growth = min([await _growth(guardrail, unit) for _ in range(_TRIES)])
                expect(
                    f"whether eight times {unit[:20]!r} costs {growth:.0f} times as much",
                    False,
                    growth > _MOST,
                )

    # --- a stream

    async def test_what_is_in_the_whole_is_found_in_pieces(self) -> None:
        """G1: shown as its view says, split anywhere, it finds what it finds in the whole."""
        async with self.open() as guardrail:
            if not isinstance(guardrail, SupportsView):
                skip(self, "SupportsView")
            view = guardrail.view
            expect("whether its view is one", True, isinstance(cast(object, view), View))
            for text in self.failing:
                for seed in range(_SPLITS):
                    shown = _within_other_text(text, view, seeded(seed))
                    results = [await guardrail.check(piece) for piece in _pieces(shown, view, seeded(seed))]
                    is_found = not all(result.passed for result in results)
                    expect(f"whether {text!r} was found in pieces (split {seed})", True, is_found)


def _standing(guardrail: Guardrail) -> tuple[str, set[Position], View | None]:
    view = guardrail.view if isinstance(guardrail, SupportsView) else None
    return guardrail.name, set(guardrail.positions), view


async def _growth(guardrail: Guardrail, unit: str) -> float:
    """How many times as much eight times the text costs, where it costs anything."""
    short, long = (unit * (size // len(unit) + 1) for size in (_SHORT, _EIGHT_TIMES))
    cost = await _cost(guardrail, long)
    return cost / await _cost(guardrail, short) if cost > _SOON_S else 1.0


async def _cost(guardrail: Guardrail, text: str) -> float:
    start = time.process_time()
    await guardrail.check(text)
    return max(time.process_time() - start, 1e-6)


def _within_other_text(text: str, view: View, random: Random) -> str:
    room = view.size if isinstance(view, Window) else len(_FILLER)
    before, after = (_FILLER * (random.randrange(2 * room) // len(_FILLER) + 1) for _ in range(2))
    return f"{before}{text} {after}"


def _pieces(text: str, view: View, random: Random) -> Iterator[str]:
    match view:
        case Window(size=size):
            yield from _windows(text, size, random)
        case Sentence():
            yield from _SENTENCE_END.split(text)
        case Whole():
            yield text


def _windows(text: str, size: int, random: Random) -> Iterator[str]:
    """Pieces of which one has every passage of so many characters whole."""
    at = 0
    while True:
        end = at + size + random.randrange(size)
        yield text[at:end]
        if end >= len(text):
            return
        at += random.randint(1, end - at - size + 1)
