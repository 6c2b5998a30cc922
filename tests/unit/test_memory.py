"""What is remembered, for whom, and that forgetting is forgetting."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from memory_shelves import CountingStore, Ticking, opened

from gnomon.contracts.storage import SupportsRetention
from gnomon.contracts.tool import ToolContext
from gnomon.errors import ConfigError, InvalidInput
from gnomon.memory import Memory
from gnomon.storage.memory import MemoryStorage
from gnomon.types.records import MemoryRecord, SessionRecord

both = pytest.mark.parametrize("kind", ["memory", "sqlite"])

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def values(records: tuple[MemoryRecord, ...]) -> list[object]:
    return [record.value for record in records]


# --- keeping ----------------------------------------------------------------


@both
async def test_a_fact_is_there_for_the_next_who_asks(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        await Memory(storage, agent_id="helper", user_id="ann").remember("colour", "She likes green.")
        (found,) = await Memory(storage, agent_id="helper", user_id="ann").recall("green")
    assert (found.key, found.value, found.kind) == ("colour", "She likes green.", "long_term")
    assert (found.agent_id, found.user_id, found.session_id) == ("helper", "ann", "")


@both
async def test_the_same_key_replaces_what_was_there_and_keeps_when_it_began(
    kind: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann", now=Ticking())
        assert await memory.remember("colour", "green")
        assert await memory.remember("colour", "blue")
        (found,) = await memory.recall()
    assert found.value == "blue"
    assert found.created_at < found.updated_at


@both
async def test_remembering_the_same_again_changes_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann", now=Ticking())
        await memory.remember("colour", "green")
        before = await memory.recall()
        assert not await memory.remember(" colour ", "green\n")
        assert await memory.recall() == before


async def test_a_key_is_the_same_in_all_its_unicode_forms() -> None:
    memory = Memory(CountingStore(), agent_id="helper", user_id="ann")
    await memory.remember("cafe\u0301", "round the corner")
    assert not await memory.remember("caf\u00e9", "round the corner")
    assert await memory.forget("caf\u00e9")


async def test_the_store_may_come_from_a_function() -> None:
    store = CountingStore()

    async def later() -> CountingStore:
        return store

    for source in (lambda: store, later):
        assert await Memory(source, agent_id="helper", user_id="ann").recall() == ()
    assert store.asked == ["list", "list"]
    with pytest.raises(InvalidInput, match="gave str"):
        await Memory(lambda: "sqlite://", agent_id="helper", user_id="ann").recall()  # type: ignore[arg-type,return-value]


# --- short term -------------------------------------------------------------


@both
async def test_what_is_of_a_session_is_seen_there_alone(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann", now=Ticking())
        await memory.remember("task", "write a letter", session_id="ses_1")
        await memory.remember("task", "paint a wall", session_id="ses_2")
        await memory.remember("task", "be happy")
        assert values(await memory.recall(session_id="ses_1")) == ["be happy", "write a letter"]
        assert values(await memory.recall(session_id="ses_2")) == ["be happy", "paint a wall"]
        assert values(await memory.recall()) == ["be happy"]
        assert "paint" not in await memory.block(session_id="ses_1")


@both
async def test_one_key_can_be_kept_for_good_and_for_a_session(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann", now=Ticking())
        await memory.remember("tone", "formal")
        await memory.remember("tone", "playful", session_id="ses_1")
        assert not await memory.remember("tone", "formal")  # the latest of this key is another record
        assert await memory.remember("tone", "formal, always")
        kept = {record.kind: record for record in await memory.recall(session_id="ses_1")}
        assert kept["short_term"].value == "playful"
        assert kept["long_term"].value == "formal, always"
        assert kept["long_term"].created_at < kept["short_term"].created_at < kept["long_term"].updated_at


@both
async def test_what_is_of_a_session_goes_with_it(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann")
        await storage.create_session(SessionRecord(id="ses_1", created_at=LONG_AGO, updated_at=LONG_AGO))
        await memory.remember("task", "write a letter", session_id="ses_1")
        await memory.remember("colour", "green")
        assert isinstance(storage, SupportsRetention)
        await storage.delete_session("ses_1")
        assert values(await memory.recall(session_id="ses_1")) == ["green"]


# --- whose it is ------------------------------------------------------------


@both
async def test_nobody_sees_or_forgets_what_is_another_ones(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        other = storage.scoped("acme")
        await other.migrate()
        mine = Memory(storage, agent_id="helper", user_id="ann")
        strangers = {
            "another user": Memory(storage, agent_id="helper", user_id="bob"),
            "another agent": Memory(storage, agent_id="clerk", user_id="ann"),
            "another tenant": Memory(other, agent_id="helper", user_id="ann"),
        }
        for value, memory in {"mine": mine, **strangers}.items():
            await memory.remember("secret plan", value)
            await memory.remember("secret plan", value, session_id="ses_1")
        for value, memory in strangers.items():
            assert values(await memory.recall("plan", 50, session_id="ses_1")) == [value, value]
            block = await memory.block(session_id="ses_1")
            assert value in block
            assert "mine" not in block
            assert await memory.forget("secret plan", session_id="ses_1")
            assert await memory.forget_all() == 0
        assert values(await mine.recall("plan", 50, session_id="ses_1")) == ["mine", "mine"]


async def test_a_store_that_gives_more_than_was_asked_for_shows_nothing_of_it() -> None:
    store = CountingStore()
    await Memory(store, agent_id="helper", user_id="bob").remember("plan", "bob's")
    await Memory(store, agent_id="clerk", user_id="ann").remember("plan", "the clerk's")
    memory = Memory(store, agent_id="helper", user_id="ann")
    assert await memory.recall() == ()
    assert await memory.block() == ""
    assert not await memory.forget("plan")
    assert await memory.forget_all() == 0
    assert len(store.rows) == 2


async def test_records_of_another_kind_are_left_alone() -> None:
    theirs = MemoryRecord(
        id="x",
        key="k",
        value="v",
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
        agent_id="helper",
        user_id="ann",
        kind="profile",
    )
    store = CountingStore([theirs])
    memory = Memory(store, agent_id="helper", user_id="ann")
    assert await memory.recall(session_id="ses_1") == ()
    assert await memory.forget_all() == 0
    assert store.rows == {"x": theirs}


async def test_a_function_says_whose_memory_a_call_is_about() -> None:
    memory = Memory(CountingStore(), agent_id="helper", user_id=lambda context: context.deps)
    called_by_ann = ToolContext(call_id="1", session_id="ses_1", deps="ann")
    assert memory.user_of(called_by_ann) == "ann"
    await memory.remember("colour", "green", user_id="ann")
    assert "green" in await memory.instructions(called_by_ann)
    assert await memory.instructions(ToolContext(call_id="1", session_id="ses_1", deps="bob")) == ""
    with pytest.raises(ConfigError, match="say it here, with user_id"):
        await memory.recall()


@pytest.mark.parametrize("nobody", ["", "  ", None, 7])
async def test_nobody_is_not_everybody(nobody: object) -> None:
    store = CountingStore()
    memory = Memory(store, agent_id="helper", user_id=lambda context: context.deps)
    for_nobody = ToolContext(call_id="1", deps=nobody)
    with pytest.raises(InvalidInput, match="user_id of a memory"):
        await memory.instructions(for_nobody)
    with pytest.raises(InvalidInput, match="user_id of a memory"):
        await memory.tools()[3].execute("{}", for_nobody)
    with pytest.raises(InvalidInput, match="agent_id of a memory"):
        Memory(store, agent_id=nobody, user_id="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="user_id of a memory"):
        Memory(store, agent_id="helper", user_id=nobody)  # type: ignore[arg-type]
    assert store.asked == []


# --- forgetting -------------------------------------------------------------


async def _rows(storage: object) -> list[MemoryRecord]:
    return list((await storage.list_memory(limit=1_000)).items)  # type: ignore[attr-defined]


@both
async def test_what_is_forgotten_is_no_longer_in_the_store(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann")
        await memory.remember("colour", "green")
        await memory.remember("colour", "blue today", session_id="ses_1")
        await memory.remember("town", "Rome")
        assert await memory.forget("colour", session_id="ses_1")
        assert not await memory.forget("colour", session_id="ses_1")
        assert [row.key for row in await _rows(storage)] == ["town"]


@both
async def test_all_of_a_user_is_forgotten_in_every_session(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id=lambda context: "never")
        for number in range(3):
            await memory.remember(f"fact {number}", "true", user_id="ann")
            await memory.remember("task", "dig", user_id="ann", session_id=f"ses_{number}")
        await memory.remember("fact", "true", user_id="bob")
        assert await memory.forget_all("ann") == 6
        assert await memory.forget_all("ann") == 0
        assert [row.user_id for row in await _rows(storage)] == ["bob"]


@both
async def test_a_user_who_is_deleted_from_the_store_is_not_remembered(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as storage:
        memory = Memory(storage, agent_id="helper", user_id="ann")
        await memory.remember("colour", "green")
        await memory.remember("task", "dig", session_id="ses_1")
        assert isinstance(storage, SupportsRetention)
        assert await storage.delete_user("ann") == 2
        assert await memory.recall(session_id="ses_1") == ()
        assert await memory.block(session_id="ses_1") == ""


# --- what may be kept -------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("k" * 101, "longer than 100"),
        ("k" + " " * 1_000_000, "longer than 100"),
        ("two\nlines", "line break"),
        ("bell\x07", "control character"),
        ("half \ud800", "control character"),
        (5, "text, not int"),
    ],
)
async def test_a_key_that_will_not_do_is_refused(key: object, complaint: str) -> None:
    store = CountingStore()
    memory = Memory(store, agent_id="helper", user_id="ann")
    with pytest.raises(InvalidInput, match=complaint):
        await memory.remember(key, "value")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=complaint):
        await memory.forget(key)  # type: ignore[arg-type]
    assert store.asked == []


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "is empty"),
        ("x" * 21, "has 21 characters, and 20 is the most"),
        ("a\0b", "cannot be stored"),
        ("half \udfff", "cannot be stored"),
        (["list"], "text, not list"),
    ],
)
async def test_a_value_that_will_not_do_is_refused(value: object, complaint: str) -> None:
    store = CountingStore()
    memory = Memory(store, agent_id="helper", user_id="ann", max_value_chars=20)
    with pytest.raises(InvalidInput, match=complaint):
        await memory.remember("key", value)  # type: ignore[arg-type]
    assert store.asked == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("note", "the api_key=abcdef123456 works"),
        ("password", "hunter22"),
        ("github token", "ghp_abcdefghijklmnop0123"),
        ("openai", "sk-abcdEFGH12345678"),
        ("sk-abcdEFGH12345678", "the key of openai"),
        ("database", "postgres://ann:hunter22@db.example/orders"),
    ],
)
async def test_what_looks_like_a_secret_is_not_remembered(key: str, value: str) -> None:
    store = CountingStore()
    with pytest.raises(InvalidInput, match="looks like a password or a key") as caught:
        await Memory(store, agent_id="helper", user_id="ann").remember(key, value)
    assert store.asked == []
    assert value not in str(caught.value)


async def test_a_full_memory_takes_nothing_new_and_still_changes_what_is_there() -> None:
    memory = Memory(CountingStore(), agent_id="helper", user_id="ann", max_entries=2)
    await memory.remember("one", "1")
    await memory.remember("two", "2", session_id="ses_1")
    with pytest.raises(InvalidInput, match="memory is full: 2 entries are there, and 2 are the most"):
        await memory.remember("three", "3")
    assert await memory.remember("one", "uno")
    assert await memory.forget("one")
    assert await memory.remember("three", "3")


@pytest.mark.parametrize(
    "given",
    [
        {"budget_tokens": 0},
        {"timeout_s": 0},
        {"max_entries": 1.5},
        {"max_value_chars": True},
        {"timeout_s": "5"},
    ],
)
def test_a_limit_that_is_none_is_refused_at_once(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(InvalidInput, match=f"{name} is a (whole )?number above 0"):
        Memory(CountingStore(), agent_id="helper", user_id="ann", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("storage", ["sqlite:///kept.db", None, MemoryStorage])
def test_what_is_no_store_is_refused_at_once(storage: object) -> None:
    with pytest.raises(TypeError, match="memory is kept in a Storage"):
        Memory(storage, agent_id="helper", user_id="ann")  # type: ignore[arg-type]
