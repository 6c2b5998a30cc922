"""The suite of guardrails: a good one passes every check, and each has a fault that turns it red."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from unittest import SkipTest

import pytest

from gnomon.contracts.guardrail import Guardrail, Sentence, SupportsView, Whole, Window
from gnomon.testing import Contract, GuardrailContract
from gnomon.types.steps import GuardrailResult

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(GuardrailContract) if name.startswith("test_")]
GUARD = "test_no_check_is_overridden"

SAMPLES: dict[str, str] = {"a crab here": "crab", "crab": "crab", "one crab, two crab": "crab"}


# --- one that keeps its word, and those that do not -----------------------------------


class Good:
    """No crabs."""

    name = "crabs"
    positions: Any = frozenset({"input", "output"})
    view: Any = Window(4)

    async def check(self, content: str) -> Any:
        if "crab" not in content:
            return GuardrailResult(True)
        return GuardrailResult(False, "there is an animal in it", content.replace("crab", "fish"))


class Plain:
    """It keeps its word, too, and must see the whole."""

    name, positions = Good.name, Good.positions

    async def check(self, content: str) -> GuardrailResult:
        return await Good().check(content)


class BySentence(Good):
    view = Sentence()


class ByWhole(Good):
    view = Whole()


class Timid(Good):
    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("tide" not in content, "tides frighten me")


class Fussy(Good):
    """It passes a text, and has another one for it all the same."""

    async def check(self, content: str) -> GuardrailResult:
        result = await super().check(content)
        return GuardrailResult(True, "", content.strip()) if content and result.passed else result


class Exact(Good):
    """Only a text that is a crab and nothing else."""

    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult(content not in SAMPLES, "an animal")


class Hungry(Good):
    async def check(self, content: str) -> GuardrailResult:
        return await super().check(content) if content else GuardrailResult(False, "nothing to eat")


class Silent(Good):
    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("crab" not in content, " ")


class Chatty(Good):
    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("crab" not in content, f"it is in {content!r}" if "crab" in content else "")


class Leaky(Good):
    async def check(self, content: str) -> GuardrailResult:
        result = await super().check(content)
        return result if result.passed else GuardrailResult(False, "an animal", content)


class Once(Good):
    """It replaces the first one."""

    async def check(self, content: str) -> GuardrailResult:
        result = await super().check(content)
        return result if result.passed else GuardrailResult(False, "one", content.replace("crab", "fish", 1))


class Forgetful(Good):
    """It says so only once."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def check(self, content: str) -> GuardrailResult:
        is_new = content not in self.seen
        self.seen.add(content)
        return await super().check(content) if is_new else GuardrailResult(True)


class Numbered(Good):
    """Each has another reason: they are not alike."""

    made = 0

    def __init__(self) -> None:
        Numbered.made += 1
        self.reason = f"says number {Numbered.made}"

    async def check(self, content: str) -> GuardrailResult:
        result = await super().check(content)
        return result if result.passed else GuardrailResult(False, self.reason)


class Muddled(Good):
    """It keeps the text of a check where the next one finds it."""

    text = ""

    async def check(self, content: str) -> GuardrailResult:
        self.text = content
        await asyncio.sleep(0)
        return await super().check(self.text)


class Renamed(Good):
    def __init__(self) -> None:
        self.calls = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"crabs {self.calls}"

    async def check(self, content: str) -> GuardrailResult:
        self.calls += 1
        return await super().check(content)


class Nowhere(Good):
    positions: Any = frozenset[str]()


class Elsewhere(Good):
    positions: Any = frozenset({"somewhere"})


class Nameless(Good):
    name = " "


class Encoding(Good):
    async def check(self, content: str) -> GuardrailResult:
        content.encode()
        return await super().check(content)


class Bare(Good):
    """A word for a result."""

    async def check(self, content: str) -> Any:
        return await super().check(content) if content.isascii() else True


class Wordless(Good):
    """Against what it does not know, it has nothing to say."""

    async def check(self, content: str) -> GuardrailResult:
        return await super().check(content) if content.isascii() else GuardrailResult(False)


class Impatient(Good):
    async def check(self, content: str) -> GuardrailResult:
        return await super().check(content[:100_000])


class Slow(Good):
    """From every `a`, it reads to the end."""

    async def check(self, content: str) -> GuardrailResult:
        re.search("(?:a(?=[^!]*!))|(?:a[^?]*[?])", content[:40_000])
        return await super().check(content)


class Blinkered(Good):
    """It needs more than it says."""

    view = Window(3)


class HalfASentence(Good):
    """It looks for two sentences, and is shown them one by one."""

    view = Sentence()

    async def check(self, content: str) -> GuardrailResult:
        return await super().check(content if content.count("minds") > 1 else "")


class NoView(Good):
    view = 4


FAULTS: list[tuple[str, type[Good], str]] = [
    ("test_texts_that_are_fine_pass", Timid, "tides frighten me"),
    ("test_texts_that_are_fine_pass", Fussy, "replacements of what passed"),
    ("test_texts_that_are_not_fine_do_not_pass", Exact, "twice a day"),
    ("test_an_empty_text_passes", Hungry, "nothing to eat"),
    ("test_what_did_not_pass_has_a_reason", Silent, "without a reason"),
    ("test_neither_reason_nor_replacement_repeats_what_was_found", Chatty, "is told"),
    ("test_neither_reason_nor_replacement_repeats_what_was_found", Leaky, "is told"),
    ("test_a_replacement_passes_itself", Once, "the result for"),
    ("test_the_same_text_gives_the_same_result", Forgetful, "given again"),
    ("test_the_same_text_gives_the_same_result", Numbered, "the results of another"),
    ("test_checks_may_run_at_the_same_time", Muddled, "at the same time"),
    ("test_its_name_and_place_stay", Renamed, "later"),
    ("test_its_name_and_place_stay", Nowhere, "its positions"),
    ("test_its_name_and_place_stay", Elsewhere, "somewhere"),
    ("test_its_name_and_place_stay", Nameless, "its name"),
    ("test_odd_text_is_judged_too", Encoding, "surrogates"),
    ("test_odd_text_is_judged_too", Bare, "the type of the result"),
    ("test_odd_text_is_judged_too", Wordless, "the reason against"),
    ("test_a_long_text_is_judged_to_its_end", Impatient, "whether the long text passed"),
    ("test_the_cost_grows_with_the_text_and_no_faster", Slow, "times as much"),
    ("test_what_is_in_the_whole_is_found_in_pieces", Blinkered, "was found in pieces"),
    ("test_what_is_in_the_whole_is_found_in_pieces", HalfASentence, "was found in pieces"),
    ("test_what_is_in_the_whole_is_found_in_pieces", NoView, "whether its view is one"),
]


def run(make: type[Any], check: str, samples: Mapping[str, str] = SAMPLES) -> None:
    class Suite(GuardrailContract):
        passing = ("The tide is out.", "cra bs") if samples else ()
        failing = samples

        @asynccontextmanager
        async def open(self) -> AsyncIterator[Guardrail]:
            yield make()

    RULES.run(getattr(Suite(), check), 60.0)


@pytest.mark.parametrize("make", [Good, BySentence, ByWhole])
@pytest.mark.parametrize("check", CHECKS)
def test_a_guardrail_that_keeps_its_word_passes(check: str, make: type[Good]) -> None:
    assert isinstance(make(), Guardrail)
    assert isinstance(make(), SupportsView)
    run(make, check)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert sorted({check for check, _, _ in FAULTS}) == sorted(set(CHECKS) - {GUARD})


@pytest.mark.parametrize(("check", "make", "words"), FAULTS, ids=[make.__name__ for _, make, _ in FAULTS])
def test_a_planted_fault_is_found(check: str, make: type[Good], words: str) -> None:
    with pytest.raises(Exception, match=words) as found:
        run(make, check)
    assert not isinstance(found.value, SkipTest)


def test_one_that_must_see_the_whole_skips_the_check_of_pieces() -> None:
    for check in CHECKS:
        if check == "test_what_is_in_the_whole_is_found_in_pieces":
            with pytest.raises(SkipTest, match="SupportsView"):
                run(Plain, check)
        else:
            run(Plain, check)


def test_a_suite_without_texts_to_try_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="texts in `passing`"):
        run(Good, "test_texts_that_are_fine_pass", {})
    with pytest.raises(AssertionError, match="texts in `failing`"):
        run(Good, "test_texts_that_are_not_fine_do_not_pass", {})
