"""The calibrated counter: what it counts, what it learns and from whom, and how that is kept."""

from __future__ import annotations

import logging
from random import Random

import msgspec
import pytest

from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.contracts.storage import MemoryStore
from gnomon.counters._fit import start
from gnomon.counters._vendors import family_of
from gnomon.counters.calibrated import CalibratedCounter
from gnomon.types.messages import Image, Message, Text, ToolCall, ToolDef, ToolResult
from gnomon.types.records import MemoryRecord, Page, utc_now
from gnomon.types.requests import Request, Response, Usage

SENTENCE = "The tide comes in twice a day, and goes out again. "
TOOL = ToolDef(name="look_up", description="Looks things up.", schema={"type": "object"})


def asked(*texts: str, model: str | None = None, tools: int = 0, system: str | None = None) -> Request:
    offered = tuple(msgspec.structs.replace(TOOL, name=f"look_{number}") for number in range(tools))
    return Request(messages=tuple(map(Message.user, texts)), model=model, tools=offered, system=system)


def answer(tokens: int | None, *, model: str | None = None, **more: int | bool) -> Response:
    usage = Usage(input_tokens=tokens, **more)  # type: ignore[arg-type]
    return Response(message=Message.assistant("Yes."), stop_reason="end_turn", usage=usage, model=model)


def taught(counter: CalibratedCounter, scale: float, times: int = 30, model: str | None = None) -> None:
    """By a service whose every sentence is `scale` times what one would think."""
    random = Random(1)
    for _ in range(times):
        request = asked(SENTENCE * random.randrange(20, 200), model=model)
        tokens = CalibratedCounter(model=model or counter.model).count_request(request)
        counter.observe(request, answer(round(tokens * scale), model=model))


# --- counting ------------------------------------------------------------------------------


def test_it_is_a_counter_that_learns() -> None:
    assert isinstance(CalibratedCounter(), TokenCounter)
    assert isinstance(CalibratedCounter(), SupportsLearning)


def test_a_request_is_its_messages_its_system_prompt_its_tools_and_its_schema() -> None:
    counter = CalibratedCounter(model="gpt-5")
    plain = counter.count_request(asked(SENTENCE))
    assert plain == counter.count_messages((Message.user(SENTENCE),))
    assert counter.count_request(asked(SENTENCE, system=SENTENCE * 10)) > plain + 90
    assert counter.count_request(asked(SENTENCE, tools=2)) > plain + 10
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    assert counter.count_request(msgspec.structs.replace(asked(SENTENCE), output_schema=schema)) > plain + 10


def test_a_system_prompt_counts_alike_as_a_field_and_as_a_message() -> None:
    counter = CalibratedCounter(model="claude-opus-5-5")
    as_field = asked("Hello.", system=SENTENCE)
    as_message = Request(messages=(Message.system(SENTENCE), Message.user("Hello.")))
    assert counter.count_request(as_field) == counter.count_request(as_message)


def test_a_request_is_counted_for_the_model_that_it_asks_for() -> None:
    counter = CalibratedCounter(model="claude-opus-5-5")
    image = Message.user(Image(data=b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x04\x00"))
    asked_of_another = Request(messages=(image,), model="gpt-4o-mini")
    assert counter.count_request(asked_of_another) == counter.for_model("gpt-4o-mini").count_messages(
        (image,)
    )
    assert counter.count_request(asked_of_another) > 10 * counter.count_messages((image,))


def test_a_tool_costs_what_the_vendor_says_it_adds() -> None:
    def added(model: str) -> int:
        counter = CalibratedCounter(model=model)
        return counter.count_request(asked("Hi", tools=1)) - counter.count_request(asked("Hi"))

    assert added("claude-opus-5-5") > 300 > added("gpt-5") > 10


def test_every_message_of_a_round_counts() -> None:
    counter = CalibratedCounter(model="gpt-5")
    call = ToolCall(id="1", name="look_up", arguments='{"what": "tides"}')
    rounds = [
        Message.user("When is high tide?"),
        Message.assistant("I look it up.", call),
        Message.tool(ToolResult.of(call, "At noon.", Image(url="https://example.org/tide.png"))),
    ]
    counts = [counter.count_messages(rounds[:size]) for size in range(4)]
    assert counts[0] == 0
    assert counts == sorted(set(counts))
    assert counts[3] - counts[2] > 600  # the image


def test_the_name_of_who_speaks_counts() -> None:
    counter = CalibratedCounter(model="gpt-5")
    named = counter.count_messages((Message.user("Hello.", name="Anastasia Konstantinopolskaya"),))
    assert named > counter.count_messages((Message.user("Hello."),))


def test_a_call_and_a_result_cost_something_besides_their_texts() -> None:
    counter = CalibratedCounter(model="claude-opus-5-5")
    said, call = Message.assistant(Text("look_up{}")), ToolCall(id="1", name="look_up")
    results = [Message.tool(*[ToolResult(call_id="1")] * number) for number in range(3)]
    assert counter.count_messages((Message.assistant(call),)) >= counter.count_messages((said,)) + 20
    costs = [counter.count_messages((message,)) for message in results]
    assert costs[2] - costs[1] == costs[1] - costs[0] >= 20


def test_a_result_inside_of_a_result_counts() -> None:
    inner = ToolResult(call_id="2", content=(Text(SENTENCE * 50), Image(data=b"x")))
    outer = ToolResult(call_id="1", content=(inner, ToolCall(id="3", name="x", arguments=SENTENCE * 50)))
    assert CalibratedCounter(model="gpt-5").count_messages((Message.tool(outer),)) > 1_000 + 600


# --- learning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.6, 0.8, 1.25, 1.7])
def test_it_learns_how_much_more_or_less_a_model_makes_of_a_text(scale: float) -> None:
    counter = CalibratedCounter(model="gpt-5")
    before = counter.count_text(SENTENCE * 100)
    taught(counter, scale)
    assert counter.count_text(SENTENCE * 100) == pytest.approx(before * scale, rel=0.05)


def test_it_learns_what_a_service_adds_of_its_own() -> None:
    counter = CalibratedCounter(model="claude-opus-5-5")
    fresh = CalibratedCounter(model="claude-opus-5-5")
    random = Random(3)
    for _ in range(30):
        request = asked(*[SENTENCE] * random.randrange(1, 9), tools=random.choice((0, 0, 1, 2, 3)))
        extra = 90 * len(request.messages) + (300 if request.tools else 0)
        counter.observe(request, answer(fresh.count_request(request) + extra // 10))
    request = asked(SENTENCE, SENTENCE, tools=2)
    assert counter.count_request(request) == pytest.approx(fresh.count_request(request) + 48, abs=20)


def test_what_is_read_from_a_cache_and_written_to_it_is_part_of_a_prompt() -> None:
    one, other = CalibratedCounter(model="gpt-5"), CalibratedCounter(model="gpt-5")
    request = asked(SENTENCE * 50)
    one.observe(request, answer(900))
    other.observe(request, answer(100, cache_read_tokens=500, cache_write_tokens=300))
    assert one.state() == other.state()


@pytest.mark.parametrize(
    "response",
    [
        answer(None),
        answer(None, cache_read_tokens=500),
        answer(0),
        answer(-4),
        answer(10**12),
        answer(10**400),
        answer(5_000, estimated=True),
    ],
    ids=["unknown", "part", "zero", "negative", "absurd", "no float", "estimated"],
)
def test_what_is_no_report_teaches_nothing(response: Response) -> None:
    counter = CalibratedCounter(model="gpt-5")
    counter.observe(asked(SENTENCE), response)
    assert counter.models == ()


@pytest.mark.parametrize(("sentences", "reported"), [(10, 40_000), (1_000, 1), (1_000, 100_000)])
def test_one_report_that_is_far_out_does_not_spoil_it(sentences: int, reported: int) -> None:
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.0)
    before = counter.count_text(SENTENCE * 100)
    counter.observe(asked(SENTENCE * sentences), answer(reported))
    assert counter.count_text(SENTENCE * 100) == pytest.approx(before, rel=0.05)
    taught(counter, 1.0, times=10)
    assert counter.count_text(SENTENCE * 100) == pytest.approx(before, rel=0.05)


def test_a_model_that_changes_under_its_name_is_followed() -> None:
    counter = CalibratedCounter(model="gpt-5")
    before = counter.count_text(SENTENCE * 100)
    taught(counter, 1.0, times=300)
    taught(counter, 1.3, times=100)
    assert counter.count_text(SENTENCE * 100) == pytest.approx(before * 1.3, rel=0.05)


def test_models_are_learned_apart_and_an_unknown_one_is_like_its_family() -> None:
    counter = CalibratedCounter(model="claude-opus-5-5")
    untaught = counter.count_text(SENTENCE * 100)
    taught(counter, 1.5, model="gpt-5")
    assert counter.count_text(SENTENCE * 100) == untaught
    gpt, cousin, stranger = (counter.for_model(name) for name in ("gpt-5", "gpt-5-mini", "my-model"))
    plain = CalibratedCounter(model="gpt-5-mini").count_text(SENTENCE * 100)
    assert gpt.count_text(SENTENCE * 100) == pytest.approx(plain * 1.5, rel=0.05)
    assert cousin.count_text(SENTENCE * 100) == pytest.approx(plain * 1.5, rel=0.05)
    assert stranger.count_text(SENTENCE * 100) == CalibratedCounter().count_text(SENTENCE * 100)


@pytest.mark.parametrize(
    ("named", "answered", "learned"),
    [
        (None, "gpt-5-2026-01-01", "gpt-5"),  # an alias was asked for, and is counted for
        ("gpt-5-mini", "gpt-5-mini-2026-01-01", "gpt-5-mini"),
        ("gpt-5", "claude-opus-5-5", "claude-opus-5-5"),  # somebody else jumped in
        ("my-deployment", "gpt-5-2026-01-01", "my-deployment"),
        ("gpt-5", "whatever.gguf", "gpt-5"),
        (None, None, "gpt-5"),
    ],
)
def test_who_answered_is_learned_of(named: str | None, answered: str | None, learned: str) -> None:
    counter = CalibratedCounter(model="gpt-5")
    counter.observe(asked(SENTENCE, model=named), answer(20, model=answered))
    assert counter.models == (learned,)


def test_without_a_model_it_learns_by_the_name_in_the_answer() -> None:
    counter = CalibratedCounter()
    counter.observe(asked(SENTENCE), answer(20, model="gpt-5"))
    assert counter.models == ("gpt-5",)


def test_a_bounded_number_of_models_is_remembered_the_last_ones() -> None:
    counter = CalibratedCounter(models_kept=3)
    for number in (1, 2, 3, 4, 2, 5):
        counter.observe(asked(SENTENCE, model=f"model-{number}"), answer(20))
    assert counter.models == ("model-4", "model-2", "model-5")
    with pytest.raises(ValueError, match="at least one"):
        CalibratedCounter(models_kept=0)


def test_every_worth_of_a_family_has_its_bounds() -> None:
    for name in ("", "gpt-5", "claude-3-haiku", "claude-opus-5-5", "gemini-3.5-flash", "mistral-large"):
        fit = start(family_of(name))
        assert fit.bounded().worths == fit.worths


# --- keeping it -----------------------------------------------------------------------------------


def test_a_state_restored_counts_the_same() -> None:
    counter, other = CalibratedCounter(model="gpt-5"), CalibratedCounter(model="gpt-5")
    taught(counter, 1.4)
    assert other.restore(counter.state())
    for size in (1, 10, 1_000):
        assert other.count_text(SENTENCE * size) == counter.count_text(SENTENCE * size)
    taught(counter, 0.8, times=5)
    taught(other, 0.8, times=5)
    assert other.count_text(SENTENCE * 100) == pytest.approx(counter.count_text(SENTENCE * 100), rel=0.001)


def test_a_state_is_small() -> None:
    counter = CalibratedCounter()
    for number in range(100):
        counter.observe(
            asked(SENTENCE * number, model=f"model-{number}", tools=number % 3), answer(10 + number)
        )
    assert len(counter.state()) < 64 * 1_500


def test_who_has_had_more_reports_is_believed() -> None:
    little, much = CalibratedCounter(model="gpt-5"), CalibratedCounter(model="gpt-5")
    taught(little, 0.7, times=3)
    taught(much, 1.5, times=20)
    known = much.count_text(SENTENCE * 100)
    assert much.restore(little.state())
    assert much.count_text(SENTENCE * 100) == known
    assert little.restore(much.state())
    assert little.count_text(SENTENCE * 100) == known


def _damaged() -> dict[str, bytes]:
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.4, times=3)
    state = msgspec.json.decode(counter.state())
    line = state["models"]["gpt-5"]
    return {
        "empty": b"",
        "half": counter.state()[:200],
        "no JSON": b"\xff\xfe",
        "no object": b"[]",
        "newer": msgspec.json.encode({**state, "version": 2}),
        "newer and other": b'{"version": 9, "anything": []}',
        "short": msgspec.json.encode({**state, "models": {"gpt-5": [line[0], line[1][:-1], line[2]]}}),
        "words": msgspec.json.encode({**state, "models": {"gpt-5": [line[0], ["x"] * 11, line[2]]}}),
        "no spread": msgspec.json.encode({**state, "models": {"gpt-5": [9, line[1], [-1.0] * len(line[2])]}}),
        "deep": b'{"version": 1, "anything": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "no two that hang together so": msgspec.json.encode(
            {**state, "models": {"gpt-5": [9, line[1], [value or 1e300 for value in line[2]]]}}
        ),
        "infinite": counter.state().replace(str(line[1][0]).encode(), b"1e999", 1),
    }


@pytest.mark.parametrize("what", _damaged())
def test_a_damaged_or_newer_state_is_left_with_a_line_in_the_log(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.2, times=2)
    before = counter.state()
    with caplog.at_level(logging.WARNING, "gnomon.counters.calibrated"):
        assert counter.restore(_damaged()[what]) is False
    assert counter.state() == before
    assert len(caplog.records) == 1


def test_families_that_are_none_are_not_taken_over() -> None:
    """What was restored is saved again: a state must not grow by what nobody knows."""
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.4, times=3)
    state = msgspec.json.decode(counter.state())
    line = state["families"]["openai"]
    state["families"] |= {f"family {number}": line for number in range(1_000)}
    restored = CalibratedCounter()
    assert restored.restore(msgspec.json.encode(state))
    assert restored.state() == counter.state()


def test_what_one_has_learned_oneself_is_not_lost_for_what_others_know() -> None:
    others, own = CalibratedCounter(models_kept=4), CalibratedCounter(model="gpt-5", models_kept=4)
    for number in range(4):
        taught(others.for_model(f"other-{number}"), 1.0, times=1)
    taught(own, 1.4, times=9)
    assert own.restore(others.state())
    assert own.models == ("other-1", "other-2", "other-3", "gpt-5")


def test_a_state_with_mad_numbers_breaks_no_promise() -> None:
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.4, times=3)
    state = msgspec.json.decode(counter.state())
    reports, worths, half = state["models"]["gpt-5"]
    state["models"]["gpt-5"] = [reports + 1, [-1e9 for _ in worths], half]
    assert counter.restore(msgspec.json.encode(state))
    assert counter.count_text(SENTENCE) >= 1
    crossed = [value if value > 0 else -1e9 for value in half]
    state["models"]["gpt-5"] = [reports + 2, worths, crossed]
    assert not counter.restore(msgspec.json.encode(state))
    taught(counter, 1.0, times=5)
    counts = [counter.count_text(SENTENCE * size) for size in range(5)]
    assert counts == sorted(set(counts))


# --- in a store -------------------------------------------------------------------------------------


class Memories:
    """A store of memories that keeps the rules of its contract, in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[str, MemoryRecord] = {}

    async def put_memory(self, memory: MemoryRecord) -> None:
        self.records[memory.id] = msgspec.json.decode(msgspec.json.encode(memory), type=MemoryRecord)

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        found = [each for each in self._of(agent_id, user_id) if each.key == key]
        return max(found, key=lambda each: each.updated_at, default=None)

    async def list_memory(
        self,
        agent_id: str = "",
        kind: str = "",
        limit: int = 50,
        offset: int = 0,
        *,
        user_id: str = "",
        cursor: str | None = None,
    ) -> Page[MemoryRecord]:
        found = [each for each in self._of(agent_id, user_id) if kind in ("", each.kind)]
        return Page(tuple(sorted(found, key=lambda each: (each.key, each.id))[offset : offset + limit]))

    async def delete_memory(self, memory_id: str) -> bool:
        return self.records.pop(memory_id, None) is not None

    def _of(self, agent_id: str, user_id: str) -> list[MemoryRecord]:
        records = self.records.values()
        return [each for each in records if agent_id in ("", each.agent_id) and user_id in ("", each.user_id)]


async def test_what_was_learned_comes_back_from_a_store() -> None:
    store = Memories()
    assert isinstance(store, MemoryStore)
    counter, other = CalibratedCounter(model="gpt-5"), CalibratedCounter(model="gpt-5")
    assert await other.load(store) is False
    taught(counter, 1.4)
    await counter.save(store)
    await counter.save(store)
    assert await other.load(store) is True
    assert other.count_text(SENTENCE * 100) == counter.count_text(SENTENCE * 100)
    assert [(each.key, each.agent_id) for each in store.records.values()] == [
        ("counters/calibrated/1", "gnomon")
    ]


async def test_two_processes_that_save_lose_nothing_of_each_other() -> None:
    store = Memories()
    one, two, three = CalibratedCounter(), CalibratedCounter(), CalibratedCounter()
    taught(one, 1.4, model="gpt-5")
    taught(two, 1.2, model="claude-opus-5-5")
    await one.save(store)
    await two.save(store)
    await three.load(store)
    assert sorted(three.models) == ["claude-opus-5-5", "gpt-5"]


@pytest.mark.parametrize("value", [None, "text", {"version": 7}, {"version": 1}, [1, 2]])
async def test_a_damaged_record_is_left_and_written_anew(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = Memories()
    counter = CalibratedCounter(model="gpt-5")
    taught(counter, 1.4, times=3)
    await counter.save(store)
    (record,) = store.records.values()
    await store.put_memory(msgspec.structs.replace(record, value=value, updated_at=utc_now()))
    other = CalibratedCounter(model="gpt-5")
    assert await other.load(store) is False
    assert "is not used" in caplog.text
    await counter.save(store)
    assert await other.load(store) is True


def test_after_the_first_reports_of_a_model_only_some_are_looked_at_and_a_change_is_still_seen() -> None:
    counter = CalibratedCounter(model="acme-1")
    request = Request(messages=(Message.user("word " * 200),))

    def reports(tokens: int, times: int) -> None:
        usage = Usage(input_tokens=tokens)
        answer = Response(message=Message.assistant("ok"), stop_reason="end_turn", usage=usage)
        for _ in range(times):
            counter.observe(request, answer)

    def learned_from(tokens: int, times: int) -> int:
        seen, states = 0, [counter.state()]
        for _ in range(times):
            reports(tokens, 1)
            seen += counter.state() != states[-1]
            states.append(counter.state())
        return seen

    assert learned_from(250, 20) == 20
    reports(250, 200)
    assert learned_from(250, 64) == 4
    reports(400, 100)  # the service has changed: once that is seen, every report counts again
    assert counter.count_request(request) == pytest.approx(400, rel=0.05)
