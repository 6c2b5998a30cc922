"""What comes over a wire: each reply is read as its file says, in every legal form, and no cut is missed."""

from __future__ import annotations

import re
from itertools import cycle
from random import Random

from gnomon.errors import BadReply
from gnomon.testing._asking import Log
from gnomon.testing._faults import Cut, Fault, Garbled, Gzipped, Split, Written
from gnomon.testing._fixtures import Fixture
from gnomon.testing._forms import FORMS, LONG_FORMS
from gnomon.testing._outcome import Outcome, expect_error, expect_expected, texts_of
from gnomon.testing._suite import expect, skip
from gnomon.testing._wire_suite import SOAK, Link, WireSuite

__all__ = ["WireReplies"]

_TWO_PIECES = 1000 if SOAK else 20
_MANY_PIECES = 100 if SOAK else 3
_SPLITS = 10**9 if SOAK else 800  # of all replies together
_BYTES_ALONE = 10**9 if SOAK else 15_000
_HOW = ("ended", "closed", "closed unframed")


class WireReplies(WireSuite):
    """The part of the suite that reads."""

    # --- what the files say

    async def test_every_required_reply_is_there_or_said_to_be_impossible(self) -> None:
        """A reply that a vendor cannot give is in `absent.json`, with a link to the reason."""
        expect(f"gaps in {self.wire.folder.name}", [], self.wire.gaps())

    async def test_every_reply_gives_what_its_file_says(self) -> None:
        """S2 to S5, S11, S12, S16, S17, U1 to U3: the whole answer, or the one error with all its facts."""
        wrong: list[str] = []
        async with self.serving() as link:
            for fixture in self.wire.fixtures.values():
                try:
                    expect_expected(fixture.name, fixture, await link.ask(fixture))
                except AssertionError as error:
                    wrong.append(str(error))
        if wrong:
            raise AssertionError("\n".join(wrong))

    async def test_no_failure_and_no_log_of_one_shows_the_key(self) -> None:
        """S12: also when the vendor sends it back."""
        async with self.serving() as link:
            for fixture in self.wire.failures():
                with Log() as log:
                    outcome = await link.ask(fixture)
                texts = [*texts_of(outcome.error or AssertionError()), *log.messages]
                shown = [text.replace(self.key, "<the key>") for text in texts if self.key in text]
                expect(f"{fixture.name}: texts that show the key", [], shown[:1])

    # --- the same in every form

    async def test_a_reply_may_be_split_anywhere(self) -> None:
        """S10: in the middle of a character, a line end or a JSON token."""
        async with self.serving() as link:
            for fixture in self.wire.fixtures.values():
                plain = await link.ask(fixture)
                for split in _splits(fixture, self.random(fixture.name), _SPLITS // len(self.wire.fixtures)):
                    _expect_same(fixture, split, plain, await link.ask(fixture, split))

    async def test_a_reply_may_come_byte_by_byte(self) -> None:
        """S10: and the events are the same, one by one."""
        left = _BYTES_ALONE
        async with self.serving() as link:
            for fixture in self._most_telling_first():
                plain, split = await link.ask(fixture), await link.ask(fixture, Split())
                _expect_same(fixture, Split(), plain, split, whole=True)
                left -= len(fixture.body)
                if left < 0:
                    break

    async def test_a_stream_may_be_written_in_any_legal_form(self) -> None:
        """S10: line ends, comments, missing spaces, data in several lines, a byte order mark."""
        async with self.serving() as link:
            for fixture in self._event_streams():
                plain = await link.ask(fixture)
                for form in map(Written, FORMS):
                    _expect_same(fixture, form, plain, await link.ask(fixture, form), whole=True)

    async def test_a_form_may_be_split_as_well(self) -> None:
        """S10: a byte order mark, a comment or a line end of two characters in two pieces."""
        fixtures = [fixture for fixture in self._event_streams() if SOAK or fixture.name == "text"]
        async with self.serving() as link:
            for fixture in fixtures:
                plain = await link.ask(fixture)
                for name in FORMS:
                    form = Written(name, every=2)
                    _expect_same(fixture, form, plain, await link.ask(fixture, form), whole=True)

    async def test_a_line_may_be_long(self) -> None:
        """S10: 10 MB are legal."""
        fixtures = [fixture for fixture in self._event_streams() if SOAK or fixture.name == "text"]
        async with self.serving() as link:
            for fixture in fixtures:
                plain = await link.ask(fixture)
                for form in map(Written, LONG_FORMS):
                    _expect_same(fixture, form, plain, await link.ask(fixture, form), whole=True)

    async def test_a_reply_may_be_compressed(self) -> None:
        """Whoever accepts gzip gets it, from the service or from what stands in between."""
        async with self.serving() as link:
            for fixture in self.wire.fixtures.values():
                plain = await link.ask(fixture)
                if "gzip" not in link.last.headers.get("accept-encoding", ""):
                    skip(self, "gzip: it is not in the accept-encoding that was sent")
                fault = Gzipped((0.1, 0.5, 0.9))
                _expect_same(fixture, fault, plain, await link.ask(fixture, fault), whole=True)

    # --- not the whole of it

    async def test_a_stream_that_is_cut_between_events_is_a_stream_cut(self) -> None:
        """S6: the end of the bytes without the vendor's final signal, however the bytes end."""
        async with self.serving() as link:
            for fixture in self._streams():
                hows = cycle(_HOW)
                for boundary in (0, *fixture.inner_boundaries):
                    for how in _HOW if SOAK or fixture.name == "text" else (next(hows),):
                        await _expect_cut(link, fixture, Cut(boundary, how))

    async def test_a_stream_that_is_cut_inside_an_event_is_a_stream_cut(self) -> None:
        """S6: an event that is not whole is no event."""
        async with self.serving() as link:
            for fixture in self._streams():
                hows, random = cycle(_HOW), self.random(fixture.name)
                ends = (*fixture.inner_boundaries, fixture.end)
                for start, end in zip((0, *ends), ends, strict=False):
                    inside = range(start + 1, end - 2)
                    for at in random.sample(inside, min(len(inside), 5 if SOAK else 1)):
                        await _expect_cut(link, fixture, Cut(at, next(hows)))

    async def test_a_connection_that_breaks_is_a_stream_cut(self) -> None:
        """S6: a reset is no end either."""
        async with self.serving() as link:
            for fixture in self._streams():
                middle = len(fixture.inner_boundaries) // 2
                for at in (0, *fixture.inner_boundaries[middle : middle + 1], fixture.end - 5):
                    await _expect_cut(link, fixture, Cut(at, "reset"))

    async def test_a_tail_that_is_optional_may_be_missing(self) -> None:
        """The answer is complete with the vendor's final signal, whatever would have come after it."""
        fixtures = [fixture for fixture in self._streams() if fixture.answer and fixture.answer.optional_tail]
        async with self.serving() as link:
            for fixture in fixtures or skip(self, "a reply with an optional tail"):
                fault = Cut(fixture.end, "ended")
                outcome = await link.ask(fixture, fault)
                if outcome.response is None:
                    raise AssertionError(f"{fixture.name}, {fault}: expected an answer, found {outcome}")

    async def test_data_that_is_no_json_is_a_bad_reply(self) -> None:
        """S11: what is unknown is passed over, what cannot be read is told."""
        async with self.serving() as link:
            for fixture in self.named("text", "tool"):
                shown = await self.shown_after(link, fixture)
                telling = [at for at in range(1, len(shown)) if shown[at] > shown[at - 1]]
                for at in telling:
                    fault = Garbled(fixture.boundaries[at - 1], fixture.boundaries[at])
                    expect_error(f"{fixture.name}, {fault}", await link.ask(fixture, fault), "bad_reply")

    # --- which replies

    def _streams(self) -> list[Fixture]:
        """The answers that come event by event."""
        return [fixture for fixture in self.wire.answers() if fixture.is_stream and fixture.boundaries]

    def _event_streams(self) -> list[Fixture]:
        found = [fixture for fixture in self.wire.fixtures.values() if fixture.is_event_stream]
        return found or skip(self, "server-sent events")

    def _most_telling_first(self) -> list[Fixture]:
        """Characters of several bytes, then chance."""
        fixtures = sorted(self.wire.fixtures.values(), key=lambda fixture: fixture.name)
        self.random("byte by byte").shuffle(fixtures)
        return sorted(fixtures, key=lambda fixture: fixture.name != "unicode_split")


def _splits(fixture: Fixture, random: Random, most: int) -> list[Split]:
    length = len(fixture.body)
    if length < 2:
        return []
    two = [
        Split((place,)) for place in (*_telling_places(fixture.body, random), *_places(length, random, most))
    ]
    many = [random.sample(range(1, length), min(length - 1, 40)) for _ in range(_MANY_PIECES)]
    return [*two, *(Split(tuple(sorted(places))) for places in many)]


def _places(length: int, random: Random, most: int) -> list[int]:
    return [random.randrange(1, length) for _ in range(min(_TWO_PIECES, most))]


def _telling_places(body: bytes, random: Random) -> list[int]:
    """Inside of characters and between line ends, where chance alone might not fall."""
    in_characters = [at for at, byte in enumerate(body) if 0x80 <= byte < 0xC0]
    in_ends = [found.start() + 1 for found in re.finditer(rb"\n\n", body)]
    return [
        place for places in (in_characters, in_ends) for place in random.sample(places, min(3, len(places)))
    ]


def _expect_same(
    fixture: Fixture, fault: Fault, plain: Outcome, outcome: Outcome, *, whole: bool = False
) -> None:
    # What cannot be read is quoted as it came, and so differs with the form it came in.
    messages = not (isinstance(plain.error, BadReply) and isinstance(outcome.error, BadReply))
    one = plain.story(fixture, whole=whole, messages=messages)
    expect(f"{fixture.name}, {fault}", one, outcome.story(fixture, whole=whole, messages=messages))


async def _expect_cut(link: Link, fixture: Fixture, cut: Cut) -> None:
    expect_error(f"{fixture.name}, {cut}", await link.ask(fixture, cut), "stream_cut", retryable=True)
