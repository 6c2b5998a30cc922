"""MetricsHook: counts and histograms, as Prometheus and OpenTelemetry read them (H7)."""

from __future__ import annotations

import sys
import time
from threading import Thread
from typing import Any

import msgspec
import pytest
from hook_stage import PRICES, Clock, Service, answer, ask, inside, question, read, used

from gnomon import registry
from gnomon.contracts.hook import Step
from gnomon.errors import ConfigError, MissingExtra, Overloaded
from gnomon.hooks.metrics import MetricsHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing._hook_steps import Inside, steps, tool_events, tool_step
from gnomon.types.events import AttemptDiscarded, Error, Finish, TextDelta, UsageUpdate
from gnomon.types.messages import Text, ToolResult
from gnomon.types.requests import Usage
from gnomon.types.steps import HookEvent

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def hook(clock: Clock | None = None, **settings: Any) -> MetricsHook:
    return MetricsHook(**{"models": PRICES, "clock": clock or Clock(), **settings})


def samples(metrics: MetricsHook) -> Samples:
    """What Prometheus' own reader finds."""
    parser = pytest.importorskip("prometheus_client.parser")
    found: Samples = {}
    for family in parser.text_string_to_metric_families(metrics.text()):
        assert family.documentation, family.name
        assert family.type in ("counter", "histogram"), family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def value(metrics: MetricsHook, name: str, /, **labels: str) -> float | None:
    return samples(metrics).get((name, frozenset(labels.items())))


async def step(metrics: MetricsHook, event: HookEvent, call: Step | None = None, **ended: Any) -> None:
    await metrics.before(event)
    if call is not None:
        await read(metrics, event, call)
    await metrics.after(msgspec.structs.replace(event, **ended))


# --- steps --------------------------------------------------------------------------------


async def test_steps_are_counted_by_kind_name_and_outcome() -> None:
    metrics = hook()
    for event in (*steps(), *steps(1)):
        await step(metrics, event)
    await step(metrics, question(), error=Error("overloaded", "busy"))
    result = ToolResult("call-0", "tide", (Text("x"),), status="timeout")
    await step(metrics, tool_step(), result=result)
    found = {dict(labels)["kind"]: n for (name, labels), n in samples(metrics).items() if is_ok(name, labels)}
    assert found == {"session": 2, "turn": 2, "model": 2, "tool": 2}
    steps_total = "gnomon_steps_total"
    assert value(metrics, steps_total, kind="model", name="acme:large", outcome="overloaded") == 1
    assert value(metrics, steps_total, kind="tool", name="tide", outcome="timeout") == 1


def is_ok(name: str, labels: frozenset[tuple[str, str]]) -> bool:
    return name == "gnomon_steps_total" and ("outcome", "ok") in labels


async def test_how_long_a_step_took_is_in_a_histogram() -> None:
    clock = Clock()
    metrics = hook(clock, buckets_s=(0.125, 1.0, 10.0))
    for seconds in (0.0625, 0.125, 0.5, 99.0):
        event = tool_step()
        await metrics.before(event)
        clock.at += seconds
        await metrics.after(event)
    name = "gnomon_step_duration_seconds"
    labels = {"kind": "tool", "name": "tide"}
    buckets = {le: value(metrics, f"{name}_bucket", **labels, le=le) for le in ("0.125", "1", "10", "+Inf")}
    assert buckets == {"0.125": 2, "1": 3, "10": 3, "+Inf": 4}
    assert value(metrics, f"{name}_count", **labels) == 4
    assert value(metrics, f"{name}_sum", **labels) == pytest.approx(99.6875)


async def test_an_end_without_a_beginning_is_counted_and_not_timed() -> None:
    metrics = hook()
    await metrics.after(tool_step())
    assert value(metrics, "gnomon_steps_total", kind="tool", name="tide", outcome="ok") == 1
    assert value(metrics, "gnomon_step_duration_seconds_count", kind="tool", name="tide") is None


async def test_a_clock_that_goes_back_gives_no_negative_time() -> None:
    clock = Clock()
    metrics, event = hook(clock), tool_step()
    await metrics.before(event)
    clock.at -= 5
    await metrics.after(event)
    assert value(metrics, "gnomon_step_duration_seconds_sum", kind="tool", name="tide") == 0


def test_the_clock_is_one_that_does_not_go_back() -> None:
    assert MetricsHook()._clock is time.monotonic


async def test_steps_that_were_done_again_are_counted_wherever_the_retry_stands() -> None:
    metrics, retry = hook(), RetryHook(sleep=Clock().sleep)
    event = question()
    await metrics.before(event)
    service = Service((Overloaded("busy"),), (Overloaded("busy"),), answer())
    await ask(metrics, event, inside(retry, call=service))
    await metrics.after(event)
    assert value(metrics, "gnomon_retries_total", kind="model", name="acme:large") == 2
    event = question()
    await metrics.before(event)
    await ask(retry, event, inside(metrics, call=Service((Overloaded("busy"),), answer())))
    await metrics.after(event)
    assert value(metrics, "gnomon_retries_total", kind="model", name="acme:large") == 3


# --- models -------------------------------------------------------------------------------


async def test_the_time_until_a_model_began_to_answer_is_measured_once() -> None:
    clock = Clock()
    metrics = hook(clock)
    told = (UsageUpdate(used(1, 0)), TextDelta(0, "x"), AttemptDiscarded("again"), *answer())
    async with await metrics.around(question(), Service(told)) as stream:
        async for event in stream:
            if isinstance(event, UsageUpdate):
                clock.at += 2.0  # which nobody sees
            elif isinstance(event, TextDelta):
                clock.at += 3.0
    name = "gnomon_model_first_event_seconds"
    assert value(metrics, f"{name}_count", name="acme:large") == 1
    assert value(metrics, f"{name}_sum", name="acme:large") == 2.0


async def test_tokens_are_counted_by_class_with_those_of_failed_attempts() -> None:
    metrics = hook()
    usage = Usage(
        input_tokens=1, output_tokens=20, cache_read_tokens=300, cache_write_tokens=4_000, reasoning_tokens=5
    )
    failed = (TextDelta(0, "x"), AttemptDiscarded("again", used(7, 0), "acme", "large"))
    await ask(metrics, question(), Service((*failed, *answer(usage=usage))))
    found = {
        kind: value(metrics, "gnomon_tokens_total", name="acme:large", **{"class": kind})
        for kind in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    assert found == {"input": 8, "output": 20, "cache_read": 300, "cache_write": 4_000, "reasoning": 5}


async def test_costs_are_counted_and_what_has_no_price_by_itself() -> None:
    metrics = hook()
    await ask(metrics, question(), Service(answer()))
    end = Finish(stop_reason="end_turn", usage=used(), provider="nobody", model="knows")
    await ask(metrics, question(name="nobody:knows"), Service((TextDelta(0, "x"), end)))
    with pytest.raises(Overloaded):
        await ask(metrics, question(), Service((UsageUpdate(used()), Overloaded("busy"))))
    assert value(metrics, "gnomon_cost_usd_total", name="acme:large") == pytest.approx(0.4)
    assert value(metrics, "gnomon_cost_usd_total", name="nobody:knows") is None
    assert value(metrics, "gnomon_unpriced_total", name="nobody:knows") == 1


async def test_tools_pass_untouched() -> None:
    metrics, tool = hook(), Inside(tool_events())
    stream = await metrics.around(tool_step(), tool)
    async with stream:
        assert [event async for event in stream] == [*tool_events()]
    assert value(metrics, "gnomon_model_first_event_seconds_count", name="tide") is None


# --- labels -------------------------------------------------------------------------------


async def test_names_are_labels_as_long_as_they_are_few() -> None:
    metrics = hook(names=2)
    for name in ("a", "b", "c", "d", "a"):
        await step(metrics, msgspec.structs.replace(tool_step(), name=name))
    await step(metrics, msgspec.structs.replace(tool_step(), name="c"), error=Error("odd", "x"))
    await step(metrics, msgspec.structs.replace(tool_step(), name="c"), error=Error("odder", "x"))
    found = {
        (dict(labels)["name"], dict(labels)["outcome"]): count
        for (name, labels), count in samples(metrics).items()
        if name == "gnomon_steps_total"
    }
    assert found == {
        ("a", "ok"): 2,
        ("b", "ok"): 1,
        ("other", "ok"): 2,
        ("other", "odd"): 1,
        ("other", "other"): 1,
    }


async def test_models_that_answer_under_many_names_are_folded_too() -> None:
    metrics = hook(names=3)
    for number in range(50):
        end = Finish(stop_reason="end_turn", usage=used(), provider="acme", model=f"m-{number}")
        await ask(metrics, question(), Service((TextDelta(0, "x"), end)))
    names = {dict(labels)["name"] for (name, labels) in samples(metrics) if name == "gnomon_tokens_total"}
    assert names == {"acme:m-0", "acme:m-1", "other"}


@pytest.mark.parametrize("name", ['a "quoted" one', "back\\slash", "two\nlines", "é字🙂", "a,b{c}=d", "\\n"])
async def test_any_name_is_read_as_it_was(name: str) -> None:
    metrics = hook()
    await step(metrics, msgspec.structs.replace(tool_step(), name=name))
    assert value(metrics, "gnomon_steps_total", kind="tool", name=name, outcome="ok") == 1


async def test_half_a_character_in_a_name_can_be_sent() -> None:
    metrics = hook()
    await step(metrics, msgspec.structs.replace(tool_step(), name="a\ud800"))
    metrics.text().encode()
    assert value(metrics, "gnomon_steps_total", kind="tool", name="a?", outcome="ok") == 1


# --- the text -----------------------------------------------------------------------------


async def test_the_text_is_prometheus_own() -> None:
    clock = Clock()
    metrics, event = hook(clock, buckets_s=(0.25, 2.5)), tool_step()
    await metrics.before(event)
    clock.at += 0.5
    await metrics.after(event)
    lines = metrics.text().split("\n")
    assert lines[:10] == [
        "# HELP gnomon_steps_total Steps that ended.",
        "# TYPE gnomon_steps_total counter",
        'gnomon_steps_total{kind="tool",name="tide",outcome="ok"} 1',
        "# HELP gnomon_step_duration_seconds How long steps took.",
        "# TYPE gnomon_step_duration_seconds histogram",
        'gnomon_step_duration_seconds_bucket{kind="tool",name="tide",le="0.25"} 0',
        'gnomon_step_duration_seconds_bucket{kind="tool",name="tide",le="2.5"} 1',
        'gnomon_step_duration_seconds_bucket{kind="tool",name="tide",le="+Inf"} 1',
        'gnomon_step_duration_seconds_sum{kind="tool",name="tide"} 0.5',
        'gnomon_step_duration_seconds_count{kind="tool",name="tide"} 1',
    ]
    assert metrics.text().endswith("\n")
    assert MetricsHook.content_type.startswith("text/plain; version=0.0.4")


def test_it_can_be_read_before_anything_happened() -> None:
    assert samples(hook()) == {}
    assert "# TYPE gnomon_steps_total counter" in hook().text()


async def test_a_reader_waits_for_what_is_being_counted() -> None:
    """It may be another thread."""
    metrics, texts = hook(), list[str]()
    await step(metrics, tool_step())
    thread = Thread(target=lambda: texts.append(metrics.text()))
    with metrics._lock:
        thread.start()
        thread.join(0.05)
        assert texts == []
    thread.join()
    assert texts == [metrics.text()]


# --- OpenTelemetry ------------------------------------------------------------------------


class FakeMeter:
    """Keeps what its instruments are told."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.told: list[tuple[str, float, dict[str, str]]] = []

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Any:
        return self._made(name, unit, description)

    def create_histogram(self, name: str, unit: str = "", description: str = "") -> Any:
        return self._made(name, unit, description)

    def _made(self, name: str, unit: str, description: str) -> Any:
        assert description
        self.made[name] = unit
        meter = self

        class Instrument:
            def add(self, amount: float, attributes: dict[str, str]) -> None:
                meter.told.append((name, amount, attributes))

            record = add

        return Instrument()


async def test_a_meter_is_told_the_same() -> None:
    clock, meter = Clock(), FakeMeter()
    metrics, event = hook(clock, meter=meter), question()
    await metrics.before(event)
    await ask(metrics, event, Service(answer()))
    clock.at += 1.5
    await metrics.after(event)
    assert meter.made == {
        "gnomon.steps": "{step}",
        "gnomon.step.duration": "s",
        "gnomon.model.first_event": "s",
        "gnomon.tokens": "{token}",
        "gnomon.cost.usd": "{USD}",
        "gnomon.unpriced": "{answer}",
        "gnomon.retries": "{retry}",
    }
    assert meter.told == [
        ("gnomon.model.first_event", 0.0, {"name": "acme:large"}),
        ("gnomon.tokens", 100_000, {"name": "acme:large", "class": "input"}),
        ("gnomon.tokens", 10_000, {"name": "acme:large", "class": "output"}),
        ("gnomon.cost.usd", pytest.approx(0.2), {"name": "acme:large"}),
        ("gnomon.steps", 1, {"kind": "model", "name": "acme:large", "outcome": "ok"}),
        ("gnomon.step.duration", 1.5, {"kind": "model", "name": "acme:large"}),
    ]


async def test_a_real_sdk_reads_it() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    try:
        metrics = hook(meter=provider.get_meter("gnomon"))
        await step(metrics, question(), Service(answer()))
        found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    finally:
        provider.shutdown()
    points = {metric.name: metric.data.data_points for metric in found}
    assert points["gnomon.steps"][0].value == 1
    assert dict(points["gnomon.steps"][0].attributes) == {
        "kind": "model",
        "name": "acme:large",
        "outcome": "ok",
    }
    assert points["gnomon.step.duration"][0].count == 1
    assert sorted(point.value for point in points["gnomon.tokens"]) == [10_000, 100_000]


async def test_the_meter_of_the_process_is_used_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = FakeMeter()

    class API:
        @staticmethod
        def get_meter(name: str) -> FakeMeter:
            assert name == "gnomon"
            return meter

    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", API)
    metrics = hook(opentelemetry=True)
    await step(metrics, tool_step())
    assert [name for name, _, _ in meter.told] == ["gnomon.steps", "gnomon.step.duration"]


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(MissingExtra, match="opentelemetry"):
        hook(opentelemetry=True)
    hook()  # which needs nothing


# --- how it is made -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"names": 0}, "names of hook 'metrics'"),
        ({"buckets_s": ()}, "seconds above zero"),
        ({"buckets_s": (0.0, 1.0)}, "seconds above zero"),
        ({"buckets_s": (1.0, float("inf"))}, "seconds above zero"),
        ({"buckets_s": (1.0, 1.0)}, "rise"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MetricsHook(**settings)


def test_it_is_there_by_its_name() -> None:
    assert registry.load("hooks", "metrics") is MetricsHook
