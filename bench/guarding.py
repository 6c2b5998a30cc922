"""What a guardrail costs: beside one search of the same text by a compiled expression of ten words."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random

from measure import Row, Samples, compared, in_turns, say

from gnomon.contracts.guardrail import Guardrail
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.guardrails.pii import PIIGuardrail
from gnomon.guardrails.secrets import SecretsGuardrail
from gnomon.types.steps import GuardrailResult

ROUNDS, QUICK_ROUNDS = 41, 15
SIZE = 200_000
TERMS = 10_000
LIMIT = 2.0

SYLLABLES = (
    "ta",
    "ri",
    "mo",
    "len",
    "sha",
    "ku",
    "ber",
    "ti",
    "no",
    "wes",
    "ga",
    "dri",
    "pol",
    "ven",
    "ha",
    "su",
)
SIGNS = (" ",) * 12 + (", ", ". ", ".\n", " (", ") ", " - ", ": ", ' "', "'s ")


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"guarding: {rounds} rounds of {SIZE:,} characters, with nothing in them that is looked for")
    english, accented, chinese = _text(""), _text("é’– "), _chinese()
    terms = _terms()
    return [
        *_blocklist("English", english, terms, rounds, LIMIT),
        *_blocklist("with accents and dashes", accented, terms, rounds, LIMIT),
        *_blocklist("Chinese", chinese, [*terms, *_chinese_terms()], rounds),
        *_others(english, terms, rounds),
    ]


def _blocklist(what: str, text: str, terms: list[str], rounds: int, limit: float | None = None) -> list[Row]:
    samples = _sampled({"ours": BlocklistGuardrail(terms)}, text, terms, rounds)
    title = f"a blocklist of {len(terms):,} terms, {what}"
    return [
        compared(f"{title} / re of 10 words, any case", samples["ours"], samples["words"], limit=limit),
        compared(f"{title} / re of 10 literals", samples["ours"], samples["literals"]),
    ]


def _others(text: str, terms: list[str], rounds: int) -> list[Row]:
    few, many = BlocklistGuardrail(terms[:10]), BlocklistGuardrail(terms)
    guardrails = {"few": few, "many": many, "pii": PIIGuardrail(), "secrets": SecretsGuardrail()}
    samples = _sampled(guardrails, text, terms, rounds)
    return [
        compared(f"a blocklist of {TERMS:,} terms / of 10", samples["many"], samples["few"]),
        compared("pii / re of 10 words, any case", samples["pii"], samples["words"]),
        compared("secrets / re of 10 words, any case", samples["secrets"], samples["words"]),
    ]


def _sampled(guardrails: dict[str, Guardrail], text: str, terms: list[str], rounds: int) -> Samples:
    ten = "|".join(map(re.escape, terms[:10]))
    words = re.compile(rf"\b(?:{ten})\b", re.IGNORECASE)
    literals = re.compile(ten)
    timers: dict[str, Callable[[], float]] = {
        "words": partial(_timed, partial(words.search, text), None),
        "literals": partial(_timed, partial(literals.search, text), None),
    }
    for name, guardrail in guardrails.items():
        check = partial(guardrail.check, text)
        timers[name] = partial(_timed, lambda check=check: _result(check()), GuardrailResult(True))
    return in_turns(timers, rounds)


def _timed(job: Callable[[], object], expected: object) -> float:
    gc.collect()
    start = time.process_time()
    found = job()
    spent = time.process_time() - start
    if found != expected:
        raise RuntimeError(f"the text was to have nothing in it, and {found!r} was found")
    return spent


def _result(check: Coroutine[object, object, GuardrailResult]) -> GuardrailResult:
    """What a check gives that waits for nothing: without the cost of an event loop."""
    try:
        check.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the check waits for something")


# --- what is looked through, and for ------------------------------------------------


def _text(others: str) -> str:
    """About so many words as a language has, and here and there another sign."""
    random = Random(7)
    words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 4))) for _ in range(6_000)]
    pieces: list[str] = []
    for _ in range(SIZE // 7):
        pieces += [random.choice(words), random.choice(SIGNS)]
        if others and random.random() < 0.05:
            pieces.append(random.choice(others))
    return "".join(pieces)[:SIZE]


def _terms() -> list[str]:
    """Words that the text does not have: none of its words has an x."""
    random = Random(8)
    return ["".join(random.choices(SYLLABLES, k=random.randint(1, 3))) + f"x{n}" for n in range(TERMS)]


def _chinese() -> str:
    return "".join(Random(7).choices("潮汐每天来回两次没有人注意到它的起落月亮在海上升起，。", k=SIZE))


def _chinese_terms() -> list[str]:
    random = Random(9)
    return ["".join(random.choices("赌博毒品枪支弹药买卖水", k=3)) for _ in range(1_000)]


if __name__ == "__main__":
    from run import table

    print(table(rows(quick=True)))
