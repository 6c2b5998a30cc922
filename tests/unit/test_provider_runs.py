"""Messages that were sent before are not encoded again, and nothing but what they say is sent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st
from strategies import values_of

from gnomon.errors import BadRequest
from gnomon.providers import _runs
from gnomon.providers._chat_body import chat_body
from gnomon.providers._chat_quirks import ChatQuirks
from gnomon.providers._responses_body import responses_body
from gnomon.providers._responses_wire import ITEM
from gnomon.providers._runs import RUN, Runs
from gnomon.providers._vendors import VENDORS
from gnomon.types.messages import File, Image, Message, Text, Thinking, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 9


class Encoder:
    """Counts how often it is asked; what it gives holds the texts and a word of its own."""

    def __init__(self, word: str = "") -> None:
        self.word = word
        self.asked = 0

    def __call__(self, messages: tuple[Message, ...]) -> bytes:
        self.asked += 1
        return ",".join(f"{self.word}{message.text}" for message in messages).encode()


def said(count: int, word: str = "m") -> tuple[Message, ...]:
    return tuple(Message.user(f"{word}{at}") for at in range(count))


def words(runs: Runs, messages: tuple[Message, ...], encode: Encoder, rules: object = "r") -> list[bytes]:
    """Of what is sent twice: of the first time, nothing is kept."""
    list(runs.of(messages, rules, encode))
    return [bytes(run.words) for run in runs.of(messages, rules, encode) if run.words is not None]


def test_a_run_is_encoded_once_however_the_conversation_grows() -> None:
    runs, encode, messages = Runs(), Encoder(), said(3 * RUN)
    for length in range(2 * RUN, 3 * RUN):
        assert len(words(runs, messages[:length], encode)) == 2
    assert encode.asked == 2
    assert len(words(runs, messages, encode)) == 3
    assert encode.asked == 3


def test_every_message_is_in_one_run_and_the_end_has_no_words() -> None:
    messages = said(2 * RUN + 3)
    runs = Runs()
    for has_words in (False, True, True):
        found = list(runs.of(messages, "r", Encoder()))
        assert tuple(message for run in found for message in run.messages) == messages
        assert [run.words is not None for run in found] == [has_words, has_words, False]


def test_what_is_sent_once_is_not_kept() -> None:
    runs, encode = Runs(), Encoder()
    for number in range(100):
        list(runs.of(said(RUN, f"{number}-"), number, encode))
    assert (encode.asked, runs._bytes) == (0, 100 * 250)


def test_what_differs_in_the_middle_is_another() -> None:
    """As a history that was edited."""
    runs, encode, messages = Runs(), Encoder(), said(RUN)
    words(runs, messages, encode)
    edited = (*messages[:5], Message.user("edited"), *messages[6:])
    assert words(runs, edited, encode) == [encode(edited)]
    assert words(runs, messages, encode) == [encode(messages)]


def test_other_rules_have_other_words() -> None:
    runs, messages = Runs(), said(RUN)
    plain, loud = Encoder(), Encoder("!")
    for _ in range(2):
        assert words(runs, messages, plain, ("a", 1)) == [plain(messages)]
        assert words(runs, messages, loud, ("a", 2)) == [loud(messages)]
    assert (plain.asked, loud.asked) == (3, 3), "once each by the runs, and twice by this test"


def test_rules_that_were_forgotten_are_never_taken_for_others() -> None:
    runs, messages = Runs(), said(RUN)
    for _ in range(3):
        for number in range(40):
            encode = Encoder(f"{number}:")
            assert words(runs, messages, encode, number) == [encode(messages)]
    assert len(runs._rules) <= 16


def test_a_message_that_says_the_same_but_is_another_is_encoded_anew() -> None:
    """Two may be equal and yet be written differently: 1 is True, but not in JSON."""
    runs, encode = Runs(), Encoder()
    words(runs, said(RUN), encode)
    words(runs, said(RUN), encode)
    assert encode.asked == 2


def test_messages_that_are_gone_are_never_taken_for_new_ones() -> None:
    """The next object often gets the place, and so the id, of one that was let go of."""
    runs = Runs()
    for number in range(200):
        encode, messages = Encoder(), said(RUN, f"{number}-")
        assert words(runs, messages, encode) == [encode(messages)]


@pytest.mark.parametrize("length", [1, 200])
def test_what_is_kept_is_bounded_in_bytes(length: int) -> None:
    runs = Runs(most_bytes=4_000_000)
    for number in range(400):
        words(runs, said(RUN, f"{number}" * length), Encoder())
    kept = [*runs._young.values(), *runs._old.values()]
    held = sum(2 * len(run.words or b"") + 500 * len(run.messages) for run in kept)
    assert len(kept) == len(runs)
    assert 1_000_000 < held <= 4_000_000


def test_what_is_asked_for_stays_when_others_come_and_go() -> None:
    runs, encode, messages = Runs(most_bytes=1_000_000), Encoder(), said(RUN)
    for number in range(300):
        words(runs, messages, encode)
        words(runs, said(RUN, f"{number}"), Encoder())
    assert encode.asked == 1


def test_a_run_that_is_large_is_not_kept() -> None:
    runs, encode = Runs(most_bytes=1_000_000), Encoder()
    messages = (*said(RUN - 1), Message.user("w" * 500_000))
    words(runs, messages, encode)
    words(runs, messages, encode)
    assert encode.asked == 3, "of four times, the first is no reason to encode it by itself"
    assert not any(run.messages for run in runs._young.values())


# --- in the words of vendors --------------------------------------------------------

TOOLS = ((), (ToolDef(name="act!"),), (ToolDef(name="act!"), ToolDef(name="b")))
CHATS = [
    partial(chat_body, quirks=quirks) for quirks in (ChatQuirks(), *(one.quirks for one in VENDORS.values()))
]
RESPONSES = [partial(responses_body, file_urls=file_urls) for file_urls in (True, False)]
BODIES = [*CHATS, *RESPONSES]


def outcome(
    body: Callable[..., object], request: Request, vendor: str = "openai", model: str = "one"
) -> object:
    """What is sent, with the warnings; or why nothing is."""
    try:
        return body(request, vendor=vendor, model=model, extra={})
    except (BadRequest, UnicodeEncodeError) as error:
        return str(error)


def check_same(body: Callable[..., object], request: Request, *of: str) -> None:
    """As if nothing was remembered; also when it is sent again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runs, "RUN", 1_000)
        expected = outcome(body, request, *of)
        patch.setattr(_runs, "RUN", 2)
        for _ in range(3):
            assert outcome(body, request, *of) == expected


def conversation() -> list[Message]:
    """With all that is written in ways of its own."""
    call = ToolCall("call_" + "x" * 80, "act!", '{"a": 1', truncated=True, meta={"extra_content": '{"k": 1}'})
    thought = Thinking("hm", provider="openai", model="one", meta={"reasoning_details": "[1]"})
    own = Thinking("so", provider="openai", model="one", meta={ITEM: '{"type": "reasoning"}'})
    return [
        Message.user("plain"),
        Message.assistant(own, "said"),
        Message.user(File(url="https://example.com/a.pdf")),
        Message.assistant("read"),
        Message.user(Image(data=b"of no kind")),
        Message.assistant("seen"),
        Message.user("plain"),
        Message.assistant(thought, "said", call),
        Message.tool(ToolResult.of(call, "text", Image(data=PNG))),
        Message.assistant(Text("no", {"refusal": True})),
        Message.user("see", Image(data=PNG), name="ann"),
        Message.assistant("done"),
        Message("tool", (Text("of no call"),)),
        Message.system("be brief"),
        *(Message.assistant() for _ in range(4)),
    ]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_the_same_byte_for_byte_and_so_are_its_warnings(body: Callable[..., object]) -> None:
    messages = conversation()
    for tools in TOOLS:
        for vendor, model in (("openai", "one"), ("openai", "two"), ("other", "one")):
            for start in (0, 1):
                for end in range(start + 1, len(messages) + 1):
                    request = Request(messages=(*messages[start:end], Message.user("next")), tools=tools)
                    check_same(body, request, vendor, model)


def test_the_same_messages_are_written_for_each_as_it_takes_them() -> None:
    request = Request(messages=(*conversation(), Message.user("next")))
    for body in BODIES:
        check_same(body, request)


@pytest.mark.parametrize("body", [CHATS[0], RESPONSES[0]])
def test_what_was_sent_before_is_not_written_again(body: Callable[..., object]) -> None:
    """Shown by what must not be done: a message is changed inside, and nobody looks."""
    turns = [message for _ in range(RUN) for message in (Message.user("plain"), Message.assistant("so"))]
    changed = turns[3]
    request = Request(messages=(*turns, Message.user("next")))
    before = outcome(body, request)
    assert outcome(body, request) == before
    msgspec.structs.force_setattr(changed, "content", (Text("other"),))
    assert outcome(body, request) == before
    turns[3] = Message.assistant("other")
    assert outcome(body, Request(messages=(*turns, Message.user("next")))) != before


@pytest.mark.parametrize(("body", "field"), [(CHATS[0], "messages"), (RESPONSES[0], "input")])
def test_it_is_one_list_of_messages(body: Callable[..., tuple[bytes, object]], field: str) -> None:
    said = [Message.user("a"), Message.assistant("b")] * RUN
    for _ in range(3):
        request = Request(messages=(*said, Message.user("c")))
        sent = msgspec.json.decode(body(request, vendor="v", model="m", extra={})[0])[field]
        assert [message["content"] for message in sent] == ["a", "b"] * RUN + ["c"]


@hypothesis.given(st.lists(values_of(Message), max_size=9), st.sampled_from(TOOLS), st.sampled_from(BODIES))
def test_whatever_was_said_it_is_sent_as_if_nothing_was_remembered(messages, tools, body) -> None:
    for end in range(len(messages) + 1):
        asked = (*messages[:end], Message.assistant("so"), Message.user("next"))
        check_same(body, Request(messages=asked, tools=tools))
