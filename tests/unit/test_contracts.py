"""The contracts: what they hold, how they are written, and that no rule is forgotten."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

import msgspec
import pytest

import gnomon.stream
from gnomon.contracts import driver, guardrail, storage, vector_store
from gnomon.contracts.tool import SupportsLookup, SupportsProgress, Tool, ToolContext
from gnomon.testing.lock import contract_classes, name_of
from gnomon.types.messages import ToolResult
from gnomon.types.records import LedgerEvent, Page, SessionRecord, utc_now

CONTRACTS = [contract for contract in contract_classes() if not contract.__name__.startswith("Supports")]

THE_FOURTEEN = {
    "Provider", "Embedder", "TokenCounter", "Storage", "VectorStore", "Knowledge", "Guardrail",
    "Hook", "Sandbox", "Tool", "Session", "Compactor", "Subagent", "Driver",
}  # fmt: skip

SIX = {
    storage.SessionStore: {"create_session", "get_session", "update_session", "list_sessions"},
    storage.MemoryStore: {"put_memory", "get_memory", "list_memory", "delete_memory"},
    storage.AuditStore: {"append_audit_log", "list_audit_logs"},
    storage.TraceStore: {"insert_trace", "get_trace", "list_traces"},
    storage.LedgerStore: {"append_event", "list_events"},
    storage.CheckpointStore: {
        "save_checkpoint",
        "get_checkpoint",
        "get_latest_checkpoint",
        "list_checkpoints",
    },
}

LIFECYCLE = {"migrate", "close"}

# Group append and the scan for runnable sessions, which the ledger service needs.
BEYOND_THE_SEED = {"append_events", "list_runnable"}

RULES = {
    "S": 17, "D": 12, "G": 4, "H": 8, "X": 6, "T": 5, "Y": 5, "C": 4, "U": 3,
}  # fmt: skip

STABILITY = ("Stable since 0.1.", "Stable once two back ends keep it.", "Experimental.")


def methods(contract: type) -> dict[str, object]:
    """What a contract itself declares in public: functions, and what stands behind properties."""
    found = {name: getattr(value, "fget", value) for name, value in vars(contract).items()}
    return {name: value for name, value in found.items() if name[0] != "_" and inspect.isfunction(value)}


def cited(text: str) -> set[str]:
    """The rule numbers in a text; `U1 to U3` is all three."""
    spans = re.findall(r"\b([A-Z])(\d+)(?: to \1(\d+))?", text)
    return {f"{kind}{n}" for kind, first, last in spans for n in range(int(first), int(last or first) + 1)}


# --- which there are --------------------------------------------------------


def test_there_is_a_contract_for_each_of_the_fourteen() -> None:
    assert {contract.__name__ for contract in CONTRACTS} >= THE_FOURTEEN


def test_storage_has_exactly_the_21_methods_of_the_seed_in_six_protocols() -> None:
    seed = set().union(*SIX.values()) | LIFECYCLE
    assert len(seed) == 21
    declared = [name for protocol in (*SIX, storage.Storage) for name in methods(protocol)]
    assert sorted(declared) == sorted(seed | BEYOND_THE_SEED | {"scoped"})


@pytest.mark.parametrize("protocol", SIX, ids=lambda protocol: protocol.__name__)
def test_each_of_the_six_holds_its_own_methods(protocol: type) -> None:
    extra = BEYOND_THE_SEED if protocol is storage.LedgerStore else set()
    assert set(methods(protocol)) == SIX[protocol] | extra
    assert protocol in storage.Storage.__mro__


def test_every_list_is_a_page_with_a_cursor() -> None:
    lists = [function for name, function in _storage_methods().items() if name.startswith("list_")]
    assert len(lists) == 7
    for function in lists:
        signature = inspect.signature(function)
        assert signature.return_annotation.startswith("Page["), function
        assert signature.parameters["cursor"].kind is inspect.Parameter.KEYWORD_ONLY, function
        assert isinstance(signature.parameters["limit"].default, int), function


@pytest.mark.parametrize("name", ["list_sessions", "list_audit_logs"])
def test_the_limit_and_offset_form_of_the_seed_is_accepted(name: str) -> None:
    bound = inspect.signature(_storage_methods()[name]).bind(object(), "some-id", 10, 20)
    assert bound.arguments["limit"] == 10
    assert bound.arguments["offset"] == 20


def _storage_methods() -> dict[str, object]:
    return {name: value for protocol in (*SIX, storage.Storage) for name, value in methods(protocol).items()}


# --- how they are written ---------------------------------------------------


@pytest.mark.parametrize("contract", CONTRACTS, ids=name_of)
def test_a_contract_says_what_it_is_how_stable_and_what_must_hold(contract: type) -> None:
    lines = inspect.cleandoc(contract.__doc__ or "").split("\n")
    assert lines[0].endswith(".")
    assert lines[1] == ""
    assert lines[2] in STABILITY
    assert re.search(r"\bmust\b", "\n".join(lines[3:]))


@pytest.mark.parametrize("contract", CONTRACTS, ids=name_of)
def test_each_promise_says_must_or_may(contract: type) -> None:
    promises = inspect.cleandoc(contract.__doc__ or "").split("\n- ")[1:]
    assert promises
    for promise in promises:
        assert re.search(r"\b(must|may)\b", promise), promise


def test_only_what_is_new_is_experimental() -> None:
    experimental = {
        contract.__name__ for contract in CONTRACTS if "\nExperimental." in (inspect.getdoc(contract) or "")
    }
    assert experimental == {"Compactor", "Subagent", "Driver"}


@pytest.mark.parametrize("contract", contract_classes(), ids=name_of)
def test_every_parameter_and_result_is_annotated(contract: type) -> None:
    for name, function in methods(contract).items():
        signature = inspect.signature(function)  # type: ignore[arg-type]
        first, *others = signature.parameters.values()
        assert first.name == "self"
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in others:
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"


@pytest.mark.parametrize("contract", contract_classes(), ids=name_of)
def test_close_is_async_everywhere(contract: type) -> None:
    close = methods(contract).get("close")
    assert close is None or inspect.iscoroutinefunction(close)


# --- the rules --------------------------------------------------------------


def all_cited() -> set[str]:
    texts = [str(contract.__doc__) for contract in contract_classes()]
    texts += [str(ToolContext.__doc__), str(gnomon.stream.__doc__)]
    return set().union(*map(cited, texts))


@pytest.mark.parametrize("kind", RULES)
def test_every_numbered_rule_stands_in_a_docstring(kind: str) -> None:
    wanted = {f"{kind}{n}" for n in range(1, RULES[kind] + 1)}
    missing = sorted(wanted - all_cited(), key=lambda rule: int(rule[1:]))
    assert not missing, f"no contract speaks of {missing}"


def test_no_docstring_cites_a_rule_that_does_not_exist() -> None:
    wrong = {rule for rule in all_cited() if int(rule[1:]) > RULES.get(rule[0], 0)}
    assert not wrong


def test_a_span_of_rules_cites_each_of_them() -> None:
    assert cited("as said (U1 to U3, S12)") == {"U1", "U2", "U3", "S12"}


# --- the little code that stands in contracts -------------------------------


class Echo:
    name = "echo"
    description = "Says it again."
    parameters: dict[str, object] = {"type": "object"}
    read_only = True

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, self.name, (), "ok")


async def test_a_plain_class_can_be_a_tool_and_offers_no_more_than_it_has() -> None:
    echo = Echo()
    assert isinstance(echo, Tool)
    assert not isinstance(echo, SupportsProgress | SupportsLookup)
    assert (await echo.execute("{}", ToolContext(call_id="c1"))).call_id == "c1"


def test_a_tool_context_asks_whether_the_call_is_still_wanted() -> None:
    answers = iter([False, True])
    context = ToolContext(call_id="c1", is_cancelled=lambda: next(answers))
    assert [context.cancelled, context.cancelled] == [False, True]
    assert ToolContext(call_id="c2").cancelled is False


def test_a_tool_context_does_not_show_its_deps() -> None:
    assert "hunter2" not in repr(ToolContext(call_id="c1", deps={"password": "hunter2"}))


class PagedLedger:
    """A ledger of `length` events that counts how many it gives at once."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.pages: list[int] = []

    async def append_event(self, event: LedgerEvent) -> None: ...

    async def append_events(self, events: Sequence[LedgerEvent]) -> None: ...

    async def list_runnable(
        self, now: object, limit: int = 50, *, cursor: str | None = None
    ) -> Page[SessionRecord]:
        return Page(())

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = 50, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        first = int(cursor or after_seq) + 1
        last = min(first + limit - 1, self.length)
        self.pages.append(max(last - first + 1, 0))
        assert len(self.pages) <= self.length + 1, "the same pages are asked for again and again"
        items = tuple(_event(session_id, seq) for seq in range(first, last + 1))
        return Page(items, str(last) if last < self.length else None)


def _event(session_id: str, seq: int) -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=f"e{seq}", type="t", payload=b"", created_at=utc_now()
    )


@pytest.mark.parametrize(("length", "after"), [(0, 0), (10, 0), (25, 0), (25, 7), (25, 25)])
async def test_reading_a_ledger_gives_every_event_once_and_holds_a_page(length: int, after: int) -> None:
    ledger = PagedLedger(length)
    async with storage.read_events(ledger, "s", after_seq=after, page_size=10) as events:
        seen = [event.seq async for event in events]
    assert seen == list(range(after + 1, length + 1))
    assert max(ledger.pages) <= 10


async def test_reading_a_ledger_asks_for_no_page_before_it_is_needed() -> None:
    ledger = PagedLedger(100)
    async with storage.read_events(ledger, "s", page_size=10) as events:
        await anext(events)
    assert ledger.pages == [10]


def test_filters_outcomes_and_views_survive_json() -> None:
    wanted = vector_store.And(
        (
            vector_store.Eq("kind", "note"),
            vector_store.Or(
                (vector_store.In("year", (2024, 2025)), vector_store.Range(field="size", below=9.5))
            ),
        )
    )
    for value, kind in (
        (wanted, vector_store.Filter),
        (driver.Yield(), driver.Outcome),
        (guardrail.Window(80), guardrail.View),
    ):
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


@pytest.mark.parametrize("size", [0, -1])
def test_a_window_sees_something(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        guardrail.Window(size)
