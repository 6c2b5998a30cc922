"""What a turn used and what it cost, through the front door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from command import Gnomon

from gnomon import Agent, Message, Request, ToolDef, TurnFinished, Usage, model_facts, tool
from gnomon.engine.clock import SystemClock
from gnomon.errors import ConfigError, Overloaded, UnknownName
from gnomon.providers.fallback import FallbackProvider
from gnomon.testing import ScriptedProvider, calls, fails, says

USED = Usage(input_tokens=1_000_000, output_tokens=100_000)


def claude(*turns: object) -> ScriptedProvider:
    return ScriptedProvider(turns, name="anthropic", model="claude-opus-5-5")  # type: ignore[arg-type]


def price(model: str, of: str) -> Decimal:
    rate = getattr(model_facts(model).prices[-1].rates, of)
    assert isinstance(rate, Decimal)
    return rate


async def test_a_turn_costs_what_its_rounds_cost_together() -> None:
    @tool
    def look() -> str:
        return "seen"

    agent = Agent(
        claude(msgspec.structs.replace(calls("look"), usage=USED), says("Done.", usage=USED)), tools=[look]
    )
    async with agent.stream("Look.") as run:
        finished = [event async for event in run if isinstance(event, TurnFinished)]
    expected = 2 * (
        price("anthropic:claude-opus-5-5", "input") + price("anthropic:claude-opus-5-5", "output") / 10
    )
    assert run.turn.cost == finished[0].cost == pytest.approx(float(expected))


async def test_a_model_without_a_known_price_costs_nobody_knows_what() -> None:
    turn = await Agent(
        ScriptedProvider([says("Hi.", usage=USED)], name="anthropic", model="claude-of-2031")
    ).run("Hi")
    assert turn.cost is None


async def test_a_price_of_ones_own_counts() -> None:
    provider = ScriptedProvider([says("Hi.", usage=USED)], name="ollama", model="qwen3:4b")
    agent = Agent(provider, models={"ollama:*": {"input_price": 0.5, "output_price": 1}})
    assert (await agent.run("Hi")).cost == pytest.approx(0.6)


def test_a_price_that_cannot_be_used_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="demo:x"):
        Agent("demo", models={"demo:x": {"input_price": "cheap"}})


async def test_what_was_spent_on_failures_is_in_the_bill_at_the_price_of_who_failed() -> None:
    first = ScriptedProvider(
        [says("Hel", usage=USED).failing(Overloaded("down"))], name="openai", model="gpt-4o"
    )
    turn = await Agent(
        FallbackProvider(providers=[first, claude(says("Hello.", usage=USED))], retries=0)
    ).run("Hi")
    assert turn.text == "Hello."
    assert turn.usage.input_tokens == 2_000_000
    expected = sum(
        price(name, "input") + price(name, "output") / 10
        for name in ("anthropic:claude-opus-5-5", "openai:gpt-4o")
    )
    assert turn.cost == pytest.approx(float(expected))


async def test_tokens_that_nobody_reported_are_estimated_and_say_so() -> None:
    turn = await Agent(claude(says("Hello to you.", usage=Usage())), instructions="Be brief.").run(
        "Hello " * 400
    )
    assert turn.usage.estimated
    assert 200 < (turn.usage.input_tokens or 0) < 1600
    assert 1 <= (turn.usage.output_tokens or 0) < 20
    assert turn.cost is not None


async def test_what_was_reported_stays_as_it_is() -> None:
    turn = await Agent(claude(says("Hello.", usage=Usage(input_tokens=7, output_tokens=2)))).run("Hello")
    assert turn.usage == Usage(input_tokens=7, output_tokens=2)


async def test_a_failure_that_was_shown_and_not_reported_leaves_the_bill_unknown() -> None:
    first = ScriptedProvider([says("Hel" * 20, usage=Usage()).failing(Overloaded("down"), after=2)], name="a")
    agent = Agent(FallbackProvider(providers=[first, claude(says("Hello.", usage=USED))], retries=0))
    turn = await agent.run("Hi")
    assert turn.text == "Hello."
    assert turn.cost is None


class SlowClock(SystemClock):
    """Every look at it comes a second after the last: answers that come thick and fast teach less."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1.0
        return self.seconds


async def test_who_answered_is_who_is_learned_about_behind_a_fallback() -> None:
    from gnomon.counters.calibrated import CalibratedCounter

    counter = CalibratedCounter()
    first = claude(says("Hi.", usage=USED), fails(Overloaded("down")))
    second = ScriptedProvider([says("Hi.", usage=USED)], name="openai", model="gpt-5")
    agent = Agent(FallbackProvider(providers=[first, second], retries=0), counter=counter, clock=SlowClock())
    await agent.run("Hello")
    await agent.run("Hello")
    assert set(counter.models) == {"claude-opus-5-5", "gpt-5"}


class Told:
    """A counter that says what it is told, and remembers what it was asked."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.counted: list[tuple[tuple[Message, ...], tuple[ToolDef, ...]]] = []

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        if not any(message.content for message in messages):
            return 0
        self.counted.append((tuple(messages), tuple(tools)))
        return self.tokens

    def count_text(self, text: str) -> int:
        return self.tokens


async def test_a_counter_of_ones_own_is_asked_about_all_that_was_sent() -> None:
    @tool
    def look() -> str:
        return "seen"

    counter = Told(50)
    agent = Agent(
        claude(says("Hello.", usage=Usage())), instructions="Be brief.", tools=[look], counter=counter
    )
    turn = await agent.run("Hello")
    assert turn.usage == Usage(input_tokens=50, output_tokens=50, estimated=True)
    sent, tools = counter.counted[0]
    assert [message.text for message in sent] == ["Be brief.", "Hello"]
    assert [each.name for each in tools] == ["look"]


async def test_a_counter_may_be_named_and_a_wrong_name_is_said_at_once() -> None:
    turn = await Agent(claude(says("Hello.", usage=Usage())), counter="estimating").run("x" * 4000)
    assert 1000 <= (turn.usage.input_tokens or 0) < 1100
    with pytest.raises(UnknownName, match="estimatin"):
        Agent("demo", counter="estimatin")
    with pytest.raises(TypeError, match="a counter is"):
        Agent("demo", counter=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a counter is"):
        Agent("demo", counter=Told)  # type: ignore[arg-type]  # its class


async def test_the_usual_counter_learns_from_what_is_reported() -> None:
    """After ten answers that report two tokens a word, what is not reported is counted that way."""
    words = "alpha beta gamma delta " * 50

    def answer(request: Request) -> object:
        text = request.messages[-1].text
        if text.startswith("unreported"):
            return says("ok", usage=Usage())
        return says("ok", usage=Usage(input_tokens=2 * len(text.split()), output_tokens=1))

    agent = Agent(ScriptedProvider(answer, name="acme", model="a-1"), clock=SlowClock())  # type: ignore[arg-type]
    before = (await agent.run("unreported " + words)).usage.input_tokens or 0
    for count in range(1, 11):
        await agent.run(words * count)
    after = (await agent.run("unreported " + words)).usage.input_tokens or 0
    assert before < 330
    assert after == pytest.approx(2 * 201, rel=0.1)


async def test_a_failure_says_what_was_used_before_it() -> None:
    broken = says("Hel", usage=Usage(input_tokens=9, output_tokens=1)).failing(Overloaded("down"))
    with pytest.raises(Overloaded) as caught:
        await Agent(claude(broken)).run("Hi")
    assert [(spent.input_tokens, spent.provider) for spent in caught.value.spent] == [(9, "anthropic")]
    with pytest.raises(Overloaded) as nothing:
        await Agent(claude(fails(Overloaded("down")))).run("Hi")
    assert nothing.value.spent == ()


# --- at the terminal


def test_the_command_falls_back_with_the_settings_of_each(gnomon: Gnomon) -> None:
    config = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        '[providers.ollama]\nbase_url = "http://127.0.0.1:9"\n[providers.fallback]\nretries = 0\n'
        '[models."demo:*"]\ninput_price = 1\noutput_price = 1\n'
    )
    ran = gnomon("-m", "fallback:ollama:qwen3,demo", "--output", "json", "hello")
    told = json.loads(ran.stdout)
    assert told["answer"]
    assert "ollama:qwen3 failed (unreachable)" in told["warnings"][0]
    assert told["cost"] > 0


def test_what_a_failed_attempt_said_does_not_stand_in_a_pipe(gnomon: Gnomon) -> None:
    alone = gnomon("-m", "demo", "hello there")
    ran = gnomon("-m", "fallback:demo:flaky,demo", "hello there")
    assert b"starts again" in ran.stderr
    assert ran.stdout.count(b"I was asked") == alone.stdout.count(b"I was asked") == 1


def test_the_doctor_makes_the_members_with_their_own_settings_and_reads_the_models(gnomon: Gnomon) -> None:
    config = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        '[providers.compatible]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[models."demo:*"]\ninput_price = "cheap"\noutput_price = 1\n'
    )
    told = json.loads(gnomon("doctor", "-m", "fallback:compatible:x,demo", "--output", "json").stdout)
    assert told["model"]["problem"] is None
    assert "demo:*" in told["config"]["problem"]


def test_a_fallback_of_fallbacks_without_end_is_one_clear_line(gnomon: Gnomon) -> None:
    project = gnomon.folder / ".gnomon" / "config.toml"
    project.parent.mkdir(parents=True, exist_ok=True)
    project.write_text(f'model = "{"fallback:" * 3000}demo"\n')
    del gnomon.env["GNOMON_MODEL"]
    ran = gnomon("hello")
    assert ran.returncode == 2
    assert b"internal" not in ran.stderr


def test_a_project_that_is_not_trusted_names_no_weights_behind_a_fallback(gnomon: Gnomon) -> None:
    project = gnomon.folder / ".gnomon" / "config.toml"
    project.parent.mkdir(parents=True, exist_ok=True)
    project.write_text('model = "fallback:demo,local:evil.gguf"\n')
    del gnomon.env["GNOMON_MODEL"]
    ran = gnomon("hello")
    assert ran.returncode != 0
    assert b"weights" in ran.stderr
