"""Spans as OpenTelemetry's own SDK gets them: linked, timed, named, and with no content unless asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from traced import STARTED, after, answered, asked, placed

from gnomon.errors import MissingExtra, UnknownName
from gnomon.tracing import Exporter, Tracing, names, spans
from gnomon.tracing.otel import OpenTelemetryExporter
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Error,
    Guarded,
    MessageReceived,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    TurnFailed,
    TurnFinished,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.requests import Usage

PAY = ToolCall("c1", "pay", '{"amount": 12}')

LEDGER = placed(
    MessageReceived("u1", Message.user("Buy it.")),
    STARTED,
    asked(),
    answered("I pay.", PAY),
    ApprovalRequested("t1", "a1", PAY, "hash"),
    ApprovalDecided("a1", "approved", "ann"),
    Guarded(
        turn_id="t1", guardrail="keys", position="tool_arguments", reason="z", call_id="c1", replaced=True
    ),
    SubagentStarted("t1", "sub1", "ses_child", "helper", "c1"),
    SubagentFinished("t1", "sub1", "finished", Usage(input_tokens=5)),
    ToolFinished("t1", ToolResult.of(PAY, "No money.", status="error"), 0.5),
    asked("m2"),
    answered("Not bought.", message_id="m2"),
    TurnFinished("t1", "end_turn", 2, Usage(input_tokens=20, output_tokens=8, cache_write_tokens=2), 0.5),
)


class Collected:
    """An SDK of our own, so that nothing global is touched."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.exporter = OpenTelemetryExporter(self.provider)
        self.tracer = self.provider.get_tracer("the application")

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.memory.get_finished_spans()}


@pytest.fixture
def collected() -> Collected:
    return Collected()


def exported(collected: Collected, *, content: bool = False) -> dict[str, ReadableSpan]:
    collected.exporter.export(spans("ses_1", LEDGER, content=content))
    return collected.spans()


def parent_of(span: ReadableSpan, found: dict[str, ReadableSpan]) -> str | None:
    by_id = {each.context.span_id: name for name, each in found.items()}
    return None if span.parent is None else by_id[span.parent.span_id]


def test_a_turn_is_one_trace_whose_spans_are_linked(collected: Collected) -> None:
    found = exported(collected)
    assert {name: parent_of(span, found) for name, span in found.items()} == {
        "invoke_agent shop": None,
        "chat gpt-5": "invoke_agent shop",
        "execute_tool pay": "invoke_agent shop",
        "wait approval": "execute_tool pay",
        "guardrail keys": "execute_tool pay",
        "invoke_agent helper": "execute_tool pay",
    }
    every = collected.memory.get_finished_spans()
    assert len(every) == 7, "two of them are answers of the model"
    assert len({span.context.trace_id for span in every}) == 1


def test_two_turns_are_two_traces(collected: Collected) -> None:
    exported(collected)
    exported(collected)
    assert len({span.context.trace_id for span in collected.memory.get_finished_spans()}) == 2


def test_spans_have_the_times_of_the_ledger_to_the_microsecond(collected: Collected) -> None:
    turn = exported(collected)["invoke_agent shop"]
    assert turn.start_time == 1_793_534_401_123_456_000
    assert turn.end_time == 1_793_534_412_123_456_000
    assert turn.start_time / 1e9 == pytest.approx(after(1).timestamp())


def test_an_answer_is_named_and_counted_by_the_conventions(collected: Collected) -> None:
    chat = exported(collected)["chat gpt-5"]
    assert chat.kind is SpanKind.CLIENT
    told = dict(chat.attributes or {})
    assert told.pop("gnomon.span.id", "").startswith("spn_")
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "ses_1",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "gpt-5-2026",
        "gen_ai.response.id": "r1",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "gnomon.kind": "model",
        "gnomon.turn_id": "t1",
        "gnomon.message_id": "m2",
        "gnomon.attempt": "1.1",
        "gnomon.provider": "openai",
        "gnomon.stop": "end_turn",
        "gnomon.cost": 0.25,
    }


def test_a_turn_and_a_sub_agent_invoke_an_agent(collected: Collected) -> None:
    found = exported(collected)
    turn, helper = found["invoke_agent shop"], found["invoke_agent helper"]
    assert turn.kind is helper.kind is SpanKind.INTERNAL
    assert turn.attributes is not None
    assert helper.attributes is not None
    assert turn.attributes["gen_ai.operation.name"] == helper.attributes["gen_ai.operation.name"]
    assert (turn.attributes["gen_ai.agent.name"], helper.attributes["gen_ai.agent.name"]) == (
        "shop",
        "helper",
    )
    assert helper.attributes["gen_ai.conversation.id"] == "ses_child"
    assert turn.attributes["gen_ai.usage.input_tokens"] == 22, "with what was written to a cache"
    assert turn.attributes["gen_ai.usage.cache_write.input_tokens"] == 2
    assert turn.attributes["gnomon.cost"] == 0.5


def test_a_call_that_failed_is_an_error_with_its_type(collected: Collected) -> None:
    pay = exported(collected)["execute_tool pay"]
    assert pay.kind is SpanKind.INTERNAL
    assert pay.attributes is not None
    assert pay.status.status_code is StatusCode.ERROR
    told = {name: value for name, value in pay.attributes.items() if not name.startswith("gnomon.")}
    assert told == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "ses_1",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "shop",
        "error.type": "error",
    }


def test_what_went_well_has_no_status(collected: Collected) -> None:
    turn = exported(collected)["invoke_agent shop"]
    assert turn.status.status_code is StatusCode.UNSET
    assert "error.type" not in (turn.attributes or {})


def test_a_failed_turn_is_an_error(collected: Collected) -> None:
    failed = TurnFailed("t1", Error("overloaded", "busy with sk-secret"))
    collected.exporter.export(spans("s", placed(STARTED, asked(), failed)))
    for span in collected.spans().values():
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == span.status.description == "overloaded"
        assert "sk-secret" not in span.to_json()


def test_providers_are_called_as_the_conventions_call_them(collected: Collected) -> None:
    started = type(STARTED)("t1", "shop", "gemini:flash")
    failed = TurnFailed("t1", Error("overloaded", "busy"))
    collected.exporter.export(spans("s", placed(started, asked(), failed)))
    assert (collected.spans()["chat flash"].attributes or {})["gen_ai.provider.name"] == "gcp.gemini"
    nameless = type(STARTED)("t1", "shop", "")
    collected.exporter.export(spans("s", placed(nameless, asked(), failed)))
    assert (collected.spans()["chat model"].attributes or {})["gen_ai.provider.name"] == "unknown"


# --- parents ----------------------------------------------------------------------


def test_a_turn_goes_below_the_parent_that_was_taken_down_before(collected: Collected) -> None:
    with collected.tracer.start_as_current_span("request") as request:
        parent = json.loads(json.dumps(collected.exporter.here()))  # it can be stored
    collected.exporter.export(spans("s", LEDGER), parent)
    turn = collected.spans()["invoke_agent shop"]
    assert turn.parent is not None
    assert turn.parent.span_id == request.get_span_context().span_id
    assert {span.context.trace_id for span in collected.spans().values()} == {
        request.get_span_context().trace_id
    }


def test_a_parent_may_be_a_context(collected: Collected) -> None:
    request = collected.tracer.start_span("request")
    collected.exporter.export(spans("s", LEDGER), api.set_span_in_context(request))
    turn = collected.spans()["invoke_agent shop"]
    assert turn.parent is not None
    assert turn.parent.span_id == request.get_span_context().span_id


def test_the_context_of_whoever_exports_is_not_looked_at(collected: Collected) -> None:
    with collected.tracer.start_as_current_span("somebody else's"):
        collected.exporter.export(spans("s", LEDGER))
    found = collected.spans()
    assert found["invoke_agent shop"].parent is None
    assert found["invoke_agent shop"].context.trace_id != found["somebody else's"].context.trace_id


def test_outside_of_any_trace_there_is_no_parent(collected: Collected) -> None:
    assert collected.exporter.here() == {}
    with collected.tracer.start_as_current_span("request") as request:
        context = request.get_span_context()
        place = f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-"
        assert collected.exporter.here()["traceparent"].startswith(place)


def test_a_parent_that_is_not_sampled_takes_the_turn_with_it(collected: Collected) -> None:
    collected.exporter.export(spans("s", LEDGER), {"traceparent": f"00-{'1' * 32}-{'2' * 16}-00"})
    assert collected.spans() == {}


# --- what is left out ---------------------------------------------------------------


def test_what_was_said_is_not_told(collected: Collected) -> None:
    told = "".join(span.to_json() for span in exported(collected).values())
    assert not [
        word for word in ("Buy it", "I pay", "amount", "No money", "Not bought", "ann") if word in told
    ]
    assert "messages" not in told


def test_what_was_said_is_told_when_it_is_asked_for(collected: Collected) -> None:
    found = exported(collected, content=True)
    turn, pay = found["invoke_agent shop"].attributes or {}, found["execute_tool pay"].attributes or {}
    assert json.loads(str(turn["gen_ai.input.messages"]))[0]["parts"][0]["content"] == "Buy it."
    assert json.loads(str(turn["gen_ai.output.messages"]))[0]["parts"][0]["content"] == "Not bought."
    assert json.loads(str(pay["gen_ai.tool.call.arguments"])) == {"amount": 12}
    assert pay["gen_ai.tool.call.result"] == "No money."
    assert (found["guardrail keys"].attributes or {})["gnomon.output"] == "z"
    chat = found["chat gpt-5"].attributes or {}
    assert "No money." in str(chat["gen_ai.input.messages"])


def test_what_is_still_open_is_left_out_with_all_below_it(collected: Collected) -> None:
    collected.exporter.export(spans("s", LEDGER[:8]))
    assert collected.spans() == {}
    outlived = placed(STARTED, SubagentStarted("t1", "x", "c", "helper"), TurnFinished("t1", "end_turn", 0))
    collected.exporter.export(spans("s", outlived))
    assert set(collected.spans()) == {"invoke_agent shop"}


def test_without_an_sdk_nothing_happens() -> None:
    """The API alone does nothing; and asking for it sets nothing up."""
    code = (
        "from opentelemetry import trace\n"
        "from gnomon.tracing import Tracing\n"
        "from gnomon.tracing.spans import spans\n"
        "from gnomon.types.events import TurnFinished, TurnStarted\n"
        "from gnomon.types.records import utc_now\n"
        "tracing = Tracing(exporter='otel')\n"
        "events = TurnStarted('t', 'a', 'm'), TurnFinished('t', 'end_turn', 0)\n"
        "ledger = [(seq, event, utc_now()) for seq, event in enumerate(events, 1)]\n"
        "tracing.exporter.export(spans('s', ledger))\n"
        "assert type(trace.get_tracer_provider()).__name__ == 'ProxyTracerProvider'\n"
        "import sys\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- asking for it --------------------------------------------------------------------


def test_it_is_known_by_name() -> None:
    assert isinstance(Tracing(exporter="otel").exporter, OpenTelemetryExporter)
    assert isinstance(OpenTelemetryExporter(), Exporter)
    assert Tracing().exporter is None
    assert Tracing().content is False


def test_an_exporter_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownName, match="otell"):
        Tracing(exporter="otell")


def test_it_says_what_to_install_where_the_api_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "gnomon.tracing.otel")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "site-packages" not in place])
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "editable" not in repr(each)])
    with pytest.raises(MissingExtra, match="opentelemetry") as caught:
        Tracing(exporter="otel")
    assert "gnomon[otel]" in str(caught.value.hint)


def test_the_names_are_those_that_opentelemetry_publishes() -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    known |= {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    known |= {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    own = {
        name: getattr(names, name) for name in names.__all__ if name not in ("OWN", "PROVIDERS", "FUNCTION")
    }
    unknown = {value for value in (*own.values(), *names.PROVIDERS.values()) if value not in known}
    # Renamed in August 2026; the package of constants still has the old name.
    assert unknown == {"gen_ai.usage.cache_write.input_tokens"}
