"""What a token counter promises, as checks that anybody's counter can run."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import NoReturn

from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.testing._prompts import (
    LONGER,
    ODD_PARTS,
    PARTS,
    SENTENCE,
    STEPS,
    TEXTS,
    TOOL,
    answer_with,
    grown_texts,
    history_of,
    message_of,
    report_of,
    seeded,
    tool_with,
)
from gnomon.testing._suite import Contract, expect, expect_some, skip
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request, Usage

__all__ = ["TokenCounterContract"]

_ROUNDS, _THREADS = 8, 8
_LONG = 1_000_000


class TokenCounterContract(Contract[TokenCounter]):
    """The suite of `TokenCounter`.

        class TestAcme(TokenCounterContract):
            @asynccontextmanager
            async def open(self):
                yield AcmeCounter()

    `open` must give one that counts like any other it gives. A counter that learns
    (`SupportsLearning`) is checked for keeping its word while it does.
    """

    # --- nothing and something

    async def test_nothing_counts_as_zero(self) -> None:
        """No message and no tool, or an empty text, is 0."""
        async with self.open() as counter:
            expect("count_text of an empty text", 0, counter.count_text(""))
            expect("count_messages of nothing", 0, counter.count_messages(()))
            expect("count_messages of empty lists", 0, counter.count_messages([], []))

    async def test_no_text_that_is_not_empty_counts_as_zero(self) -> None:
        """U3: the engine fills in usage with it, and never with zero."""
        async with self.open() as counter:
            nothing = [text for text in TEXTS if counter.count_text(text) < 1]
            expect("texts that count as nothing", [], nothing)
            nothing = [text for text in TEXTS if counter.count_messages((Message.user(text),)) < 1]
            expect("messages that count as nothing", [], nothing)

    async def test_a_count_is_a_whole_number(self) -> None:
        """And there at once: not something that has to be awaited."""
        async with self.open() as counter:
            counts: list[object] = [
                counter.count_text(SENTENCE),
                counter.count_text(""),
                counter.count_messages((Message.user(SENTENCE),), (TOOL,)),
                counter.count_messages(()),
            ]
        for count in counts:
            if asyncio.iscoroutine(count):
                count.close()
        expect("the types of counts", ["int"] * 4, [type(count).__name__ for count in counts])

    # --- everything counts

    async def test_every_kind_of_part_counts(self) -> None:
        """Tool calls, results, images and audio too."""
        async with self.open() as counter:
            without = counter.count_messages((Message.user("Look."),))
            counts = {kind: counter.count_messages((Message.user("Look.", PARTS[kind]),)) for kind in PARTS}
        expect("parts that count as nothing", [], [kind for kind in counts if counts[kind] <= without])

    async def test_all_of_a_part_counts(self) -> None:
        """A long one counts for more than a short one: its text is looked at, and not only its kind."""
        async with self.open() as counter:
            for kind, made in LONGER.items():
                short = counter.count_messages((Message.assistant(made(SENTENCE)),))
                long = counter.count_messages((Message.assistant(made(SENTENCE * 50)),))
                if long < 10 * short:
                    raise AssertionError(
                        f"{kind}, fifty times as long: expected many more than {short}, found {long}"
                    )

    async def test_tools_and_their_schemas_count(self) -> None:
        """The name, what it is for, and the schema."""
        fields = {f"field_{number}": {"type": "string", "description": SENTENCE} for number in range(20)}
        larger = {
            "a second tool": (TOOL, ToolDef(name="now", description="The time.")),
            "a longer name": (tool_with(name="search_" * 40),),
            "a longer description": (tool_with(description=SENTENCE * 20),),
            "a larger schema": (tool_with(schema={"type": "object", "properties": fields}),),
        }
        async with self.open() as counter:
            asked = (Message.user("Look."),)
            one = counter.count_messages(asked, (TOOL,))
            expect("whether a tool counts", True, one > counter.count_messages(asked))
            expect("whether a tool without messages counts", True, counter.count_messages((), (TOOL,)) > 0)
            counts = {what: counter.count_messages(asked, tools) for what, tools in larger.items()}
        expect("what counts as nothing", [], [what for what in counts if counts[what] <= one])

    # --- more is not less

    async def test_more_of_a_text_does_not_count_as_less(self) -> None:
        """Grown at its end, by anything."""
        async with self.open() as counter:
            for seed in range(_ROUNDS):
                texts = list(grown_texts(seeded(seed)))
                _expect_rising(
                    f"a text that grows (seed {seed})", [counter.count_text(text) for text in texts]
                )
            repeated = [counter.count_text(SENTENCE * times) for times in (1, 2, 10, 100)]
            expect(
                "whether 100 times a text is more than 10 times",
                True,
                repeated[3] > repeated[2] > repeated[0],
            )

    async def test_more_messages_do_not_count_as_less(self) -> None:
        """A history that grows, by any kind of message; and tools, one by one."""
        async with self.open() as counter:
            for seed in range(_ROUNDS):
                history = history_of(seeded(seed))
                counts = [counter.count_messages(history[:size]) for size in range(len(history) + 1)]
                _expect_rising(f"a history that grows (seed {seed})", counts)
            history = history_of(seeded(0))
            tools = [tool_with(name=f"tool_{number}") for number in range(20)]
            counts = [counter.count_messages(history, tools[:size]) for size in range(len(tools) + 1)]
            _expect_rising("tools, one by one", counts)

    # --- the same is the same

    async def test_the_same_input_gives_the_same_count(self) -> None:
        """Again, as new objects, as a list or a tuple, and after other things were counted."""
        async with self.open() as counter:
            first = counter.count_messages(tuple(history_of(seeded(1))), (TOOL,))
            text = counter.count_text(SENTENCE)
            for seed in range(_ROUNDS):
                counter.count_messages(history_of(seeded(seed)))
            history = history_of(seeded(1))
            again = [counter.count_messages(history, [TOOL]) for _ in range(2)]
            expect("the count of the same messages", [first, first], again)
            expect("the count of the same text", text, counter.count_text(SENTENCE))
        async with self.open() as other:
            expect("the count of another counter", first, other.count_messages(history, (TOOL,)))

    async def test_a_changed_history_is_counted_anew(self) -> None:
        """What a counter remembers must not be taken for something else: objects come and go."""
        async with self.open() as counter:
            for seed in range(_ROUNDS):
                random = seeded(seed)
                history = history_of(random)
                for _ in range(_ROUNDS):
                    counter.count_messages(history)
                    history[random.randrange(len(history))] = message_of(random)
                    del history[random.randrange(len(history))]
                found = counter.count_messages(history)
                async with self.open() as fresh:
                    expect(f"a changed history (seed {seed})", fresh.count_messages(history), found)

    async def test_threads_may_count_at_once(self) -> None:
        """And get what one alone gets."""
        histories = [history_of(seeded(seed)) for seed in range(_ROUNDS)]
        async with self.open() as alone:
            expected = [alone.count_messages(history, (TOOL,)) for history in histories] * _THREADS
        async with self.open() as counter:
            with ThreadPoolExecutor(_THREADS) as pool:
                work = [
                    pool.submit(counter.count_messages, history, (TOOL,)) for history in histories * _THREADS
                ]
                found = [each.result() for each in work]
        expect("counts of several threads", expected, found)

    # --- what it must not do

    async def test_it_uses_no_network_and_does_not_wait(self) -> None:
        """Not for the first count either: it is made inside of the check."""
        with _offline():
            async with self.open() as counter:
                counter.count_messages([*history_of(seeded(0)), Message.user(*PARTS.values())], (TOOL,))
                counter.count_text(SENTENCE)

    async def test_odd_input_is_counted_too(self) -> None:
        """Empty parts, half a call, files that are none, a million characters: a number, never an error."""
        async with self.open() as counter:
            for part in ODD_PARTS:
                count = counter.count_messages((Message.user(part),))
                expect(f"whether {part!r} counts as at least nothing", True, count >= 0)
            expect_some("the count of a long text", counter.count_text("tides " * (_LONG // 6)))
            expect_some("the count of long odd text", counter.count_text("\ud800字🙂" * (_LONG // 30)))
            schemas = ({"type": object()}, {"a": {1, 2}}, {"text": "\ud800"}, {"x": float("nan")})
            counts = [counter.count_messages((), (tool_with(schema=schema),)) for schema in schemas]
            expect("odd schemas that count as nothing", [], [count for count in counts if count < 1])

    # --- a counter that learns

    async def test_what_is_learned_breaks_no_promise(self) -> None:
        """Whatever is reported, true or not: nothing is 0, a text is not, and more is not less."""
        async with self.open() as counter:
            if not isinstance(counter, SupportsLearning):
                skip(self, "SupportsLearning")
            for seed in range(_ROUNDS):
                random = seeded(seed)
                for _ in range(STEPS):
                    counter.observe(*report_of(random))
                expect("nothing", (0, 0), (counter.count_text(""), counter.count_messages(())))
                zeros = [text for text in TEXTS if counter.count_text(text) < 1]
                expect(f"texts that count as nothing (seed {seed})", [], zeros)
                history = history_of(random)
                counts = [counter.count_messages(history[:size]) for size in range(len(history) + 1)]
                _expect_rising(f"a history that grows (seed {seed})", counts)

    async def test_reports_bring_the_count_nearer(self) -> None:
        """A service that counts twice as much for a text is believed, in the end."""
        asked = Request(messages=(Message.user(SENTENCE * 40),))
        async with self.open() as counter:
            if not isinstance(counter, SupportsLearning):
                skip(self, "SupportsLearning")
            before = counter.count_text(SENTENCE * 40)
            for _ in range(STEPS):
                counter.observe(asked, answer_with(Usage(input_tokens=before * 2), model=None))
            after = counter.count_text(SENTENCE * 40)
        expect("whether the count has risen", True, after > before)

    async def test_what_was_learned_is_shared_with_a_counter_for_another_model(self) -> None:
        """It learns with the others, whichever of them is told."""
        asked = Request(messages=(Message.user(SENTENCE * 40),), model="model-of-the-suite")
        async with self.open() as counter:
            if not isinstance(counter, SupportsLearning):
                skip(self, "SupportsLearning")
            other = counter.for_model("model-of-the-suite")
            expect("whether it is a counter that learns", True, _learns(other))
            before = counter.count_request(asked)
            expect("the count of one for the model", before, other.count_request(asked))
            for _ in range(STEPS):
                other.observe(asked, answer_with(Usage(input_tokens=before * 2), model=None))
            after = counter.count_request(asked)
        expect("whether the count has risen", True, after > before)

    async def test_a_report_that_says_nothing_teaches_nothing(self) -> None:
        """Usage that is missing, or was estimated, is no report."""
        asked = Request(messages=(Message.user(SENTENCE * 40),))
        async with self.open() as counter:
            if not isinstance(counter, SupportsLearning):
                skip(self, "SupportsLearning")
            before = counter.count_text(SENTENCE)
            for usage in (Usage(), Usage(output_tokens=5), Usage(input_tokens=9_000, estimated=True)):
                for _ in range(STEPS):
                    counter.observe(asked, answer_with(usage, model=None))
            expect("the count", before, counter.count_text(SENTENCE))


def _learns(counter: object) -> bool:
    return isinstance(counter, TokenCounter) and isinstance(counter, SupportsLearning)


def _expect_rising(what: str, counts: list[int]) -> None:
    falls = [f"{before} then {after}" for before, after in pairwise(counts) if after < before]
    expect(f"{what}: counts that fall", [], falls)


# --- what is forbidden --------------------------------------------------------------


@contextmanager
def _offline() -> Generator[None]:
    """While it lasts, a socket, a name looked up or a sleep is an error."""

    def network(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a counter must not use the network")

    def sleep(_: float) -> NoReturn:
        raise AssertionError("a counter must not wait for anything")

    places = ((socket.socket, "__init__", network), (socket, "getaddrinfo", network), (time, "sleep", sleep))
    kept = [(where, name, getattr(where, name)) for where, name, _ in places]
    for where, name, forbidden in places:
        setattr(where, name, forbidden)
    try:
        yield
    finally:
        for where, name, original in kept:
            setattr(where, name, original)
