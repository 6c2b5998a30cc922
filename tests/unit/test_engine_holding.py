"""What is held back of an answer: in blocks, in calls, in outputs, and in what hooks say in its place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from told_provider import USED, Answering, Told, Word, calling, ended, read

from gnomon import Agent, AttemptDiscarded, PartEnd, Text, TextDelta, Thinking, ThinkingDelta, tool
from gnomon.contracts.guardrail import Sentence, View, Whole, Window
from gnomon.errors import GuardrailTripped
from gnomon.types.events import UsageUpdate
from gnomon.types.requests import Usage

VIEWS = [Window(12), Sentence(), Whole()]
PRICES = {"told:m": {"input_price": 1.0, "output_price": 10.0}}


@dataclass
class Verdict:
    why: str


@tool(read_only=True)
def note(text: str) -> str:
    """Write it down.

    text: what
    """
    return "done"


def in_blocks(*texts: str) -> list[object]:
    said = [(TextDelta(at, text), PartEnd(at, Text(text))) for at, text in enumerate(texts)]
    return [*(event for pair in said for event in pair), ended()]


@pytest.mark.parametrize("view", VIEWS, ids=repr)
async def test_a_word_in_two_blocks_is_found(view: View) -> None:
    agent = Agent(Told(in_blocks("it is forb", "idden")), guardrails=[Word(view=view)])
    with pytest.raises(GuardrailTripped, match="stopped the answer"):
        await read(agent, "idden")


@pytest.mark.parametrize("view", VIEWS, ids=repr)
async def test_a_word_that_began_in_a_block_that_was_shown_is_not_replaced_but_stops(view: View) -> None:
    agent = Agent(Told(in_blocks("it is forb", "idden")), guardrails=[Word(view=view, replacement="***")])
    with pytest.raises(GuardrailTripped, match="would change what was shown already"):
        await read(agent, "idden")


@pytest.mark.parametrize("view", VIEWS, ids=repr)
async def test_each_block_keeps_its_own_text(view: View) -> None:
    texts = ("Well. This ", "is forbidden here", ", or so", " they say.")
    agent = Agent(Told(in_blocks(*texts)), guardrails=[Word(view=view, replacement="odd")])
    turn, events = await read(agent)
    assert [part.text for part in turn.messages[-1].content] == [  # type: ignore[union-attr]
        text.replace("forbidden", "odd") for text in texts
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text


async def test_blocks_that_do_not_end_are_shown_in_their_order() -> None:
    said = [ThinkingDelta(0, "let me see, then"), TextDelta(1, "one two three four"), TextDelta(2, "five")]
    agent = Agent(Told([*said, ended()]), guardrails=[Word(view=Window(10))])
    _, events = await read(agent)
    shown = [event.index for event in events if isinstance(event, TextDelta | ThinkingDelta)]
    assert shown == sorted(shown)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["woe", "w", "oe", " ", "so. ", "e"])), max_size=12
    ),
    st.sampled_from([Window(3), Window(8), Sentence(), Whole()]),
)
def test_no_order_of_blocks_shows_the_word(said: list[tuple[int, str]], view: View) -> None:
    async def shown() -> None:
        agent = Agent(Told([*(TextDelta(at, text) for at, text in said), ended()]), guardrails=[guard])
        turn, events = await read(agent, "woe")
        assert "woe" not in "".join(event.text for event in events if isinstance(event, TextDelta))
        for at in {at for at, _ in said}:
            assert "".join(text for index, text in said if index == at) in turn.text

    guard = Word("woe", view=view)
    try:
        asyncio.run(shown())
    except GuardrailTripped:
        in_blocks = "".join(text for _, text in sorted(said, key=lambda each: each[0]))
        assert "woe" in in_blocks or "woe" in "".join(text for _, text in said)


async def test_a_block_that_goes_on_after_a_later_one_began_is_looked_at_as_it_reads() -> None:
    said = [TextDelta(0, "forb"), TextDelta(1, ", he said"), TextDelta(0, "idden"), ended()]
    for replacement in (None, "***"):
        with pytest.raises(GuardrailTripped, match="stopped the answer"):
            await read(
                Agent(Told(said), guardrails=[Word(view=Window(12), replacement=replacement)]), "idden"
            )
    fine = [
        TextDelta(0, "for"),
        TextDelta(1, ", he said"),
        TextDelta(0, "given"),
        PartEnd(0, Text("forgiven")),
    ]
    turn, _ = await read(Agent(Told([*fine, ended()]), guardrails=[Word(view=Window(12))]))
    assert turn.text == "forgiven, he said"
    said = [TextDelta(1, "forb"), TextDelta(0, "idden"), ended()]
    with pytest.raises(GuardrailTripped):
        await read(Agent(Told(said), guardrails=[Word(view=Window(12))]), "idden")


async def test_a_sentence_that_does_not_end_hides_nothing_where_it_is_cut() -> None:
    text = "a" * 3996 + " forbidden " + "thing"
    pieces = [TextDelta(0, text[at : at + 4]) for at in range(0, len(text), 4)]
    with pytest.raises(GuardrailTripped):
        await read(Agent(Told([*pieces, ended()]), guardrails=[Word(view=Sentence())]))
    agent = Agent(Told([*pieces, ended()]), guardrails=[Word(view=Sentence(), replacement="***")])
    turn, _ = await read(agent)
    assert turn.text == text.replace("forbidden", "***")


async def test_a_word_of_any_length_is_found_where_a_sentence_is_cut() -> None:
    text = "x" * 3998 + "forbidden"
    pieces = [TextDelta(0, text[at : at + 3]) for at in range(0, len(text), 3)]
    with pytest.raises(GuardrailTripped):
        await read(Agent(Told([*pieces, ended()]), guardrails=[Word(view=Sentence())]))


async def test_what_a_vendor_keeps_of_a_text_goes_with_it_when_it_is_replaced() -> None:
    kept = {"item": {"text": "forbidden"}}
    said = [
        ThinkingDelta(0, "forbidden"),
        PartEnd(0, Thinking("forbidden", signature="s", meta=kept)),
        TextDelta(1, "forbidden"),
        PartEnd(1, Text("forbidden", kept)),
    ]
    turn, _ = await read(Agent(Told([*said, ended()]), guardrails=[Word(replacement="***")]))
    assert turn.messages[-1].content == (Thinking("***"), Text("***"))


@pytest.mark.parametrize("arguments", ['{"why":"forbidden"}', '{"why":"\\u0066orbidden"}'])
async def test_an_output_that_is_given_as_a_call_is_the_answer(arguments: str) -> None:
    told = Told(calling("final_output", arguments))
    with pytest.raises(GuardrailTripped, match="final_output"):
        await read(Agent(told, output=Verdict, output_mode="tool", guardrails=[Word()]))
    told = Told(calling("final_output", arguments))
    guardrails = [Word(replacement="***")]
    turn, _ = await read(Agent(told, output=Verdict, output_mode="tool", guardrails=guardrails))
    assert turn.output == Verdict("***")


async def test_an_output_hides_nothing_behind_escapes() -> None:
    said = [TextDelta(0, '{"why":"\\u0066orb'), TextDelta(0, 'idden"}'), ended()]
    for replacement in (None, "***"):
        agent = Agent(
            Told(said), output=Verdict, output_mode="native", guardrails=[Word(replacement=replacement)]
        )
        with pytest.raises(GuardrailTripped, match="the answer"):
            await read(agent)
    fine = [TextDelta(0, '{"why":"\\u0066ine\\n"}'), ended()]
    turn, _ = await read(Agent(Told(fine), output=Verdict, output_mode="native", guardrails=[Word()]))
    assert turn.output == Verdict("fine\n")


async def test_the_arguments_of_other_calls_are_not_the_answer() -> None:
    told = Told(calling("note", '{"text":"forbidden"}'), [TextDelta(0, "Noted."), ended()])
    async with Agent(told, tools=[note], guardrails=[Word()]) as agent:
        turn = await agent.run("Note it.")
    assert turn.text == "Noted."


async def test_of_a_name_that_is_given_twice_only_what_counts_is_kept() -> None:
    told = Told(calling("note", '{"text":"forbidden","text":"fine"}'), [TextDelta(0, "Noted."), ended()])
    turn, _ = await read(Agent(told, tools=[note], guardrails=[Word("forbidden", "tool_arguments")]))
    assert turn.messages[1].tool_calls[0].arguments == '{"text":"fine"}'


async def test_arguments_that_were_cut_off_hide_nothing_behind_escapes() -> None:
    told = Told(calling("note", '{"text":"\\u0066orbidden', truncated=True))
    with pytest.raises(GuardrailTripped, match="note"):
        await read(Agent(told, tools=[note], guardrails=[Word("forbidden", "tool_arguments")]))


@pytest.mark.parametrize("before", [(), (TextDelta(0, "fine"),)], ids=["nothing", "something else"])
async def test_what_a_hook_says_at_the_end_alone_is_looked_at(before: tuple[TextDelta, ...]) -> None:
    with pytest.raises(GuardrailTripped):
        await read(Agent(Told(), hooks=[Answering("forbidden", *before)], guardrails=[Word()]))
    hooks = [Answering("so forbidden", *before)]
    turn, _ = await read(Agent(Told(), hooks=hooks, guardrails=[Word(replacement="***")]))
    assert turn.text == "so ***"


async def test_an_answer_that_is_stopped_is_paid_for_as_the_vendor_says() -> None:
    said = [TextDelta(0, "it is forb"), TextDelta(0, "idden"), ended()]
    agent = Agent(Told(said), guardrails=[Word()], models=PRICES)
    async with agent, agent.session("s") as session:
        with pytest.raises(GuardrailTripped):
            await session.run("Go on.")
        turn = await session.turn_result()
    assert turn.usage == USED
    assert turn.cost == pytest.approx(0.0002)


async def test_an_answer_that_is_cancelled_is_paid_for_with_what_was_held_back() -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        reached.set()
        await never.wait()

    used = UsageUpdate(Usage(input_tokens=100, output_tokens=1))
    told = Told([TextDelta(0, "many words were said " * 10), used, hangs, ended()])
    async with Agent(told, guardrails=[Word()], models=PRICES) as agent, agent.session("s") as session:
        await session.send("Go on.")
        await reached.wait()
        await session.cancel()
        turn = await session.turn_result()
    assert turn.text == ""
    assert turn.usage.input_tokens == 100
    assert turn.usage.output_tokens is not None
    assert turn.usage.output_tokens > 20
    assert turn.usage.estimated


async def test_what_was_against_an_attempt_that_was_given_up_is_not_told_of_the_next() -> None:
    tripping = calling("note", '{"text":"forbidden"}')[:-1]
    said = [*tripping, AttemptDiscarded("again"), TextDelta(0, "fine"), ended()]
    guardrails = [Word("forbidden", "tool_arguments", replacement="***")]
    turn, events = await read(Agent(Told(said), tools=[note], guardrails=guardrails))
    assert turn.text == "fine"
    assert [event for event in events if type(event).__name__ == "Guarded"] == []
