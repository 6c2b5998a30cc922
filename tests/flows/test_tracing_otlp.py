"""From a run to a collector: the real exporter sends, and a receiver on this machine reads it."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from gnomon import Agent, tool
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.session._tracing import write_traces
from gnomon.storage.memory import MemoryStorage
from gnomon.tracing import Tracing
from gnomon.tracing.otel import OpenTelemetryExporter
from gnomon.types.events import TextDelta


class Receiver:
    """Takes OTLP over HTTP, as a collector does."""

    def __init__(self) -> None:
        received = self.received = list[Span]()
        self.requests = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                if handler.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                message = ExportTraceServiceRequest.FromString(body)
                self.requests += 1
                for resource in message.resource_spans:
                    for scope in resource.scope_spans:
                        received.extend(scope.spans)
                handler.send_response(200)
                handler.end_headers()

            def log_message(handler, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def provider(receiver: Receiver) -> Iterator[TracerProvider]:
    made = TracerProvider(resource=Resource({"service.name": "shop"}))
    made.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=receiver.url)))
    yield made
    made.shutdown()


@tool
def price(what: str) -> str:
    """What something costs."""
    return f"{what} costs a fortune"


def agent(store: MemoryStorage) -> Agent[str]:
    script = [
        calls("price", what="tea").expecting(text="Tea, please."),
        says("Here you are, at last.").expecting(result="tea costs a fortune"),
    ]
    return Agent(ScriptedProvider(script, verbatim=False), tools=[price], name="shop", storage=store)


def by_name(spans: list[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans}


async def test_a_collector_gets_a_turn_as_one_trace_with_its_spans_linked(
    receiver: Receiver, provider: TracerProvider
) -> None:
    store, exporter = MemoryStorage(), OpenTelemetryExporter(provider)
    with provider.get_tracer("app").start_as_current_span("request"):
        parent = exporter.here()
        async with agent(store) as one:
            turn = await one.session("s").run("Tea, please.")
    await write_traces(store, "s", turn.id, Tracing(exporter=exporter), parent=parent)
    found = by_name(receiver.received)
    assert set(found) == {"request", "invoke_agent shop", "chat scripted", "execute_tool price"}
    assert len(receiver.received) == 5
    assert len({span.trace_id for span in receiver.received}) == 1
    assert found["request"].parent_span_id == b""
    assert found["invoke_agent shop"].parent_span_id == found["request"].span_id
    for name in ("chat scripted", "execute_tool price"):
        assert found[name].parent_span_id == found["invoke_agent shop"].span_id
    within = found["invoke_agent shop"]
    for span in (found["chat scripted"], found["execute_tool price"]):
        assert within.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= within.end_time_unix_nano


async def test_what_was_said_leaves_only_when_it_is_asked_for(
    receiver: Receiver, provider: TracerProvider
) -> None:
    words = ("Tea, please", "Here you are", "fortune")
    for content, expected in ((False, []), (True, list(words))):
        receiver.received.clear()
        store = MemoryStorage()
        async with agent(store) as one:
            turn = await one.session("s").run("Tea, please.")
        tracing = Tracing(content=content, exporter=OpenTelemetryExporter(provider))
        await write_traces(store, "s", turn.id, tracing)
        sent = str(receiver.received)
        assert len(receiver.received) == 4
        assert [word for word in words if word in sent] == expected


async def test_nothing_is_sent_unless_an_exporter_is_given(
    receiver: Receiver, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the environment names a collector, and an SDK is set up."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix("/v1/traces"))
    store = MemoryStorage()
    with provider.get_tracer("app").start_as_current_span("request"):
        async with agent(store) as one:
            turn = await one.session("s").run("Tea, please.")
            await write_traces(store, "s", turn.id, Tracing(content=True))
    assert [span.name for span in receiver.received] == ["request"], "which is not ours"
    assert len((await store.list_traces("s")).items) == 4


@pytest.mark.parametrize("closed_by", ["itself", "another task"])
async def test_a_stream_that_is_left_early_leaves_no_span_behind(
    closed_by: str, receiver: Receiver, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """A span that is current across a yield is detached elsewhere: "created in a different Context"."""
    store, exporter = MemoryStorage(), OpenTelemetryExporter(provider)
    with caplog.at_level(logging.DEBUG), provider.get_tracer("app").start_as_current_span("request"):
        parent = exporter.here()
        async with agent(store) as one:
            run = one.stream("Tea, please.")
            async for event in run:
                if isinstance(event, TextDelta):
                    break
            if closed_by == "itself":
                await run.aclose()
            else:
                await asyncio.create_task(run.aclose())
            turn = await one.session(run.session_id).turn_result()
            await asyncio.create_task(
                write_traces(store, run.session_id, turn.id, Tracing(exporter=exporter), parent=parent)
            )
    troubles = [record for record in caplog.records if record.name.startswith(("opentelemetry", "gnomon"))]
    assert [record.getMessage() for record in troubles if record.levelno >= logging.WARNING] == []
    assert "different Context" not in caplog.text
    found = by_name(receiver.received)
    assert found["invoke_agent shop"].parent_span_id == found["request"].span_id
    assert len({span.trace_id for span in receiver.received}) == 1
    cancelled = {each.key: each.value.string_value for each in found["invoke_agent shop"].attributes}
    assert cancelled["gnomon.status"] == "cancelled"


async def test_many_sessions_at_once_are_as_many_traces(receiver: Receiver, provider: TracerProvider) -> None:
    exporter, tracer = OpenTelemetryExporter(provider), provider.get_tracer("app")

    async def ask(number: int) -> None:
        store = MemoryStorage()
        with tracer.start_as_current_span(f"request {number}"):
            parent = exporter.here()
            async with agent(store) as one:
                turn = await one.session(f"s{number}").run("Tea, please.")
        await write_traces(store, f"s{number}", turn.id, Tracing(exporter=exporter), parent=parent)

    await asyncio.gather(*(ask(number) for number in range(5)))
    traces: dict[bytes, set[str]] = {}
    for span in receiver.received:
        sessions = {
            each.value.string_value for each in span.attributes if each.key == "gen_ai.conversation.id"
        }
        traces.setdefault(span.trace_id, set()).update(sessions)
    assert sorted(map(sorted, traces.values())) == [[f"s{number}"] for number in range(5)]
