"""What a compactor promises, as checks that anybody's compactor can run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias, cast

import msgspec

from gnomon import registry
from gnomon.contracts.compactor import Compactor, SupportsAsking
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.provider import Provider
from gnomon.errors import ContextTooLong
from gnomon.testing._conversations import (
    ODD,
    Secretary,
    conversation,
    long_conversation,
    parted,
    prompt,
    seeded,
    thoughts,
    tool_words,
    words_in,
)
from gnomon.testing._suite import Contract, expect, expect_some, skip
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response

__all__ = ["CompactorContract"]

_SEEDS = range(10)
_SHARES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.8, 0.99)
_LONG = 5_000
_CPU_S = 5.0
"""For a few thousand messages: one that counts every message again for each of them takes minutes."""

_SMALL_TALK = (Message.user("Go on. " * 40), Message.assistant("Yes. " * 40)) * 12
_COUNTER = cast("type[TokenCounter]", registry.load("counters", "calibrated"))()


class _View(NamedTuple):
    messages: Sequence[Message]
    budget: int
    found: tuple[Message, ...]


_Way: TypeAlias = Callable[[Sequence[Message], int], Awaitable[tuple[Message, ...]]]


class CompactorContract(Contract[Compactor]):
    """The suite of `Compactor`.

        class TestAcme(CompactorContract):
            @asynccontextmanager
            async def open(self):
                yield AcmeCompactor()

    `open` must give one that, from the same messages and the same answers of a model, makes the same view.
    One that needs a model for `compact` is given `self.model()`. The suite counts with `count`, by the
    counter that is called `calibrated`: fill it in when the compactor counts with another.
    """

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens, as the compactor counts them."""
        return _COUNTER.count_messages(messages)

    def model(self) -> Provider:
        """A model that writes summaries."""
        return self._secretary.provider

    # --- what fits

    async def test_a_conversation_that_fits_comes_back_as_it_is(self) -> None:
        """The same messages, and no other objects."""
        async with self.open() as compactor:
            for seed in _SEEDS:
                messages = conversation(seeded(seed))
                tokens = self.count(messages)
                for way in _ways(compactor):
                    for budget in (tokens, tokens * 2, 10**9):
                        found = await way(messages, budget)
                        expect("what comes back of what fits", list(map(id, messages)), list(map(id, found)))

    async def test_the_result_fits_the_budget_or_it_raises(self) -> None:
        """C1: whatever the budget, and nothing is raised but `ContextTooLong`."""
        async with self.open() as compactor:
            for messages, budget, found in await self._views(compactor):
                over = self.count(found) - budget
                expect(f"tokens over the budget of {budget}, of {len(messages)} messages", 0, max(0, over))

    async def test_a_long_conversation_of_short_messages_is_made_to_fit(self) -> None:
        """C1: it is no way out to raise where there is something to leave out."""
        async with self.open() as compactor:
            messages = long_conversation(400)
            budget = self.count(messages) // 2
            for way in _ways(compactor):
                found = await way(messages, budget)
                expect("whether it fits", True, self.count(found) <= budget)
                expect("whether the last message is still there", True, messages[-1] in found)

    async def test_odd_conversations_fit_or_raise(self) -> None:
        """None, one, one that is too long, results without calls, a model that talks to itself."""
        async with self.open() as compactor:
            for what, messages in ODD.items():
                for way in _ways(compactor):
                    for budget in (0, 40, 400, 10**9):
                        found = await _tried(way, messages, budget)
                        fits = found is None or self.count(found) <= budget
                        expect(f"whether {what} fits {budget}, or is refused", True, fits)

    async def test_what_was_made_to_fit_is_not_made_shorter_again(self) -> None:
        """It fits, so it comes back as it is."""
        async with self.open() as compactor:
            for _, budget, found in await self._views(compactor):
                for way in _ways(compactor):
                    expect("what comes back of a result", found, await way(found, budget))

    # --- what stays

    async def test_calls_and_results_stay_together(self) -> None:
        """C2: no result without its call, and no call without the result that it had."""
        async with self.open() as compactor:
            for _, _, found in await self._views(compactor):
                expect("results without a call, and calls without a result", [], parted(found))

    async def test_the_system_prompt_and_the_first_message_of_the_user_stay(self) -> None:
        """C2: as they are, and the prompt before all."""
        async with self.open() as compactor:
            for messages, _, found in await self._views(compactor):
                instructions = prompt(messages)
                expect("the system prompt", instructions, list(found[: len(instructions)]))
                first = next(message for message in messages if message.role == "user")
                expect("whether the first message of the user is there", True, first in found)

    async def test_what_is_kept_is_kept_in_order(self) -> None:
        """A view leaves out, and does not turn round."""
        async with self.open() as compactor:
            for messages, _, found in await self._views(compactor):
                places = {id(message): at for at, message in enumerate(messages)}
                kept = [places[id(message)] for message in found if id(message) in places]
                expect("the places of what is kept", sorted(kept), kept)
                expect_some("messages that are kept as they are", kept)

    async def test_thinking_is_kept_whole_or_not_at_all(self) -> None:
        """A signature is over what was thought: neither may change."""
        async with self.open() as compactor:
            for messages, _, found in await self._views(compactor):
                changed = [part for part in thoughts(found) if part not in thoughts(messages)]
                expect("thinking that was not there before", [], changed)

    async def test_the_messages_are_not_changed(self) -> None:
        """C3: neither the list nor anything in it."""
        async with self.open() as compactor:
            for seed in _SEEDS:
                messages = conversation(seeded(seed))
                before, objects = msgspec.json.encode(messages), list(messages)
                for way in _ways(compactor):
                    await _tried(way, messages, self.count(messages) // 3)
                expect("the messages, afterwards", before, msgspec.json.encode(messages))
                expect("the objects, afterwards", list(map(id, objects)), list(map(id, messages)))

    # --- how it is done

    async def test_a_few_thousand_messages_take_no_time(self) -> None:
        """CPU time: each message is counted a few times, however many there are."""
        messages = long_conversation(_LONG)
        async with self.open() as compactor:
            for way in _ways(compactor):
                started = time.process_time()
                found = await way(messages, self.count(messages) // 3)
                spent = time.process_time() - started
                expect(f"whether {spent:.1f} s are less than {_CPU_S} s", True, spent < _CPU_S)
                expect("whether something was left out", True, len(found) < len(messages))

    async def test_several_at_once_do_not_disturb_each_other(self) -> None:
        """They give what each gives alone."""
        conversations = [conversation(seeded(seed)) for seed in _SEEDS]
        async with self.open() as compactor:
            for way in _ways(compactor):
                work = [(messages, self.count(messages) // 2) for messages in conversations]
                alone = [await _tried(way, *each) for each in work]
                together = await asyncio.gather(*(_tried(way, *each) for each in work))
                expect("what several at once give", alone, together)

    # --- with a model

    async def test_a_summary_is_made_from_what_tools_were_asked_and_gave(self) -> None:
        """C4: all that is left out of calls and results was shown to the model; its words come back."""
        async with self.open() as compactor:
            asking, secretary = _asking(self, compactor), Secretary(most=400)
            messages = [*long_conversation(120), *_SMALL_TALK]
            found = await asking.compact_asking(messages, self.count(messages) // 2, secretary.ask)
        gone = tool_words(messages) - tool_words(found)
        shown = words_in([message for request in secretary.requests for message in request.messages])
        expect_some("what is left out of calls and results", gone)
        expect("what was left out and not shown to the model", [], sorted(gone - shown))
        expect("what the model wrote and is not in the view", [], sorted(gone - words_in(found)))

    async def test_the_next_summary_is_made_from_the_one_before(self) -> None:
        """C4: what was known once is not lost when the conversation goes on."""
        async with self.open() as compactor:
            asking, secretary = _asking(self, compactor), Secretary(most=400)
            found: Sequence[Message] = long_conversation(120)
            known = tool_words(found)
            for _ in range(3):
                messages = (*found, *_SMALL_TALK)
                found = await asking.compact_asking(messages, self.count(messages) // 2, secretary.ask)
        expect("what is not known any more", [], sorted(known - words_in(found)))

    async def test_only_ask_is_asked(self) -> None:
        """So that hooks see it, and what it cost is counted."""
        async with self.open() as compactor:
            asking, secretary = _asking(self, compactor), Secretary()
            messages = long_conversation(120)
            await asking.compact_asking(messages, self.count(messages) // 2, secretary.ask)
        expect_some("what was asked through ask", secretary.requests)
        expect("what was asked of another model", 0, len(self._secretary.requests))

    async def test_a_cancelled_one_leaves_nothing_behind(self) -> None:
        """It ends at once, and the next one is not disturbed."""
        async with self.open() as compactor:
            asking, asked = _asking(self, compactor), asyncio.Event()

            async def ask(request: Request) -> Response:
                asked.set()
                return await asyncio.Future[Response]()

            messages = long_conversation(120)
            budget = self.count(messages) // 2
            work = asyncio.ensure_future(asking.compact_asking(messages, budget, ask))
            await asked.wait()
            work.cancel()
            await asyncio.wait({work}, timeout=5)
            expect("whether it was cancelled", True, work.cancelled())
            found = await asking.compact_asking(messages, budget, Secretary().ask)
            expect("whether the next one fits", True, self.count(found) <= budget)

    # --- what the checks are made of

    @cached_property
    def _secretary(self) -> Secretary:
        """The one behind `model`."""
        return Secretary()

    async def _views(self, compactor: Compactor) -> list[_View]:
        """Of conversations of every kind, for budgets from none to nearly all that they come to."""
        found: list[_View] = []
        for seed in _SEEDS:
            messages = conversation(seeded(seed))
            tokens = self.count(messages)
            for way in _ways(compactor):
                for budget in (int(tokens * share) for share in _SHARES):
                    view = await _tried(way, messages, budget)
                    found += [_View(messages, budget, view)] if view is not None else []
        expect_some("conversations that were made to fit", found)
        return found


def _ways(compactor: Compactor) -> Iterator[_Way]:
    """Each way in which it can be asked for a view."""
    yield compactor.compact
    if isinstance(compactor, SupportsAsking):
        asking = compactor
        yield lambda messages, budget: asking.compact_asking(messages, budget, Secretary().ask)


async def _tried(way: _Way, messages: Sequence[Message], budget: int) -> tuple[Message, ...] | None:
    """The view, or nothing where there cannot be one."""
    try:
        return await way(messages, budget)
    except ContextTooLong:
        return None


def _asking(suite: object, compactor: Compactor) -> SupportsAsking:
    if not isinstance(compactor, SupportsAsking):
        skip(suite, "SupportsAsking")
    return compactor
