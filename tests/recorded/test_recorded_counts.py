"""The calibrated counter beside what services reported: within a tenth after ten responses of a model."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import get_args

import msgspec
import pytest
from cassettes import Exchange
from questions import Api
from sdists import fetched_or_ended
from traffic import PLAIN, Counted, Traffic, plain_exchanges_in, traffic_of

from gnomon.counters.calibrated import CalibratedCounter
from gnomon.counters.estimating import EstimatingCounter
from gnomon.types.messages import Message
from gnomon.types.requests import Response, Usage

SEEDS = range(100 if os.environ.get("GNOMON_SOAK") == "1" else 10)
LEARNED, LEAST = 10, 15
"""Responses to learn from, and how many a model must have for the others to say something."""
WITHIN = 0.1

COUNTED = 1383
LEFT_OUT = {
    "no question to a model, or none that was answered": 404,
    "a tool of the vendor's": 76,
    "a file, which the service makes pages or text of": 55,
    "no usage in the answer": 29,
    "an answer without its question": 19,
    "a prompt that the service shortens": 13,
    "media by its address, whose size only the service sees": 9,
    "a call of a vendor's tool among the messages": 5,
    "earlier turns kept by the service": 3,
    "encrypted thinking": 2,
}
"""The archives are pinned, so the numbers are."""


@pytest.fixture(scope="module")
def traffic(recordings: list[Exchange]) -> Traffic:
    archives = fetched_or_ended()
    plain = [exchange for name in PLAIN for exchange in plain_exchanges_in(archives[name], name)]
    return traffic_of([*recordings, *plain])


def test_every_exchange_is_counted_or_left_out_for_a_reason(traffic: Traffic, counts: dict[str, str]) -> None:
    assert traffic.left_out == LEFT_OUT
    assert len(traffic.counted) == COUNTED
    reasons = ", ".join(f"{number} {reason}" for reason, number in traffic.left_out.most_common())
    counts["requests with their tokens"] = f"{len(traffic.counted)}; left out: {reasons}"


# --- how far off --------------------------------------------------------------------------


class Off(msgspec.Struct):
    """Sums over requests: reported, estimated, and how far each estimate was from its report."""

    reported: int = 0
    estimated: int = 0
    apart: int = 0
    requests: int = 0

    def add(self, reported: int, estimated: int) -> None:
        self.reported += reported
        self.estimated += estimated
        self.apart += abs(estimated - reported)
        self.requests += 1

    @property
    def share(self) -> float:
        return self.apart / self.reported

    @property
    def ratio(self) -> float:
        return self.estimated / self.reported


Keys = Callable[[Counted], Iterable[str]]


def by_wire(asked: Counted) -> Iterable[str]:
    yield asked.api
    yield "all"
    if not asked.has_images:  # which are exact, and large: without them it is the text that shows
        yield f"{asked.api} without images"
        yield "all without images"


def observed(counter: CalibratedCounter, asked: Counted) -> None:
    response = Response(
        message=Message.assistant("any"),
        stop_reason="end_turn",
        model=asked.model,
        usage=Usage(input_tokens=asked.tokens),
    )
    counter.observe(asked.request, response)


def grouped(traffic: Traffic, key: Callable[[Counted], str]) -> dict[str, list[Counted]]:
    groups: defaultdict[str, list[Counted]] = defaultdict(list)
    for asked in traffic.counted:
        groups[key(asked)].append(asked)
    return {name: group for name, group in groups.items() if len(group) >= LEAST}


def measured(groups: Iterable[Sequence[Counted]], seed: int, learned: int = LEARNED) -> dict[str, Off]:
    """Each group on its own: some are learned from, in any order, and all the others are counted."""
    off: defaultdict[str, Off] = defaultdict(Off)
    for group in groups:
        shuffled = Random(seed).sample(group, len(group))
        counter = CalibratedCounter()
        for asked in shuffled[:learned]:
            observed(counter, asked)
        for asked in shuffled[learned:]:
            estimate = counter.count_request(asked.request)
            for key in by_wire(asked):
                off[key].add(asked.tokens, estimate)
    return off


def shown(runs: Sequence[Off]) -> str:
    shares, ratios = [off.share for off in runs], [off.ratio for off in runs]
    return (
        f"{runs[0].requests} requests, off by {sum(shares) / len(shares):.1%} of the tokens "
        f"(at most {max(shares):.1%}), sum {min(ratios):.3f} to {max(ratios):.3f} of what was reported"
    )


def test_after_ten_responses_of_a_model_counts_are_within_a_tenth(
    traffic: Traffic, counts: dict[str, str]
) -> None:
    groups = grouped(traffic, lambda asked: f"{asked.api} {asked.model}").values()
    runs = [measured(groups, seed) for seed in SEEDS]
    for key in runs[0]:
        counts[f"counts of {key}"] = shown([run[key] for run in runs])
    wires = (*get_args(Api), "all", "all without images")
    for seed, run in zip(SEEDS, runs, strict=True):
        far = {key: run[key].share for key in wires if run[key].share > WITHIN}
        far |= {f"sum of {key}": run[key].ratio for key in wires if abs(run[key].ratio - 1) > WITHIN}
        assert not far, f"seed {seed}"


def test_after_ten_responses_of_any_models_of_a_wire_counts_are_near(
    traffic: Traffic, counts: dict[str, str]
) -> None:
    """Most of the models that are counted were not among the ten: their family was."""
    groups = grouped(traffic, lambda asked: asked.api).values()
    runs = [measured(groups, seed) for seed in SEEDS]
    for key in runs[0]:
        counts[f"counts of {key}, models mixed"] = shown([run[key] for run in runs])
    for key in runs[0]:
        assert sum(run[key].share for run in runs) / len(runs) <= 0.2, key
    assert all(run["all"].share <= WITHIN for run in runs)


def test_what_was_learned_is_better_than_four_characters_a_token(
    traffic: Traffic, counts: dict[str, str]
) -> None:
    groups = list(grouped(traffic, lambda asked: f"{asked.api} {asked.model}").values())
    rule, unlearned = Off(), Off()
    for group in groups:
        for asked in group:
            system = (Message.system(asked.request.system),) if asked.request.system else ()
            estimate = EstimatingCounter().count_messages(
                (*system, *asked.request.messages), asked.request.tools
            )
            if not asked.has_images:
                rule.add(asked.tokens, estimate)
                unlearned.add(asked.tokens, CalibratedCounter().count_request(asked.request))
    learned = measured(groups, 0)["all without images"]
    counts["counts without learning"] = (
        f"off by {unlearned.share:.1%}; four characters a token: {rule.share:.1%}"
    )
    assert learned.share < unlearned.share < rule.share
