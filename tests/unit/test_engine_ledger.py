"""The ledger of a session: who may write, what is folded, where it is opened from."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict, InvalidInput, NotFound, Superseded, Unavailable
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.events import (
    Claimed,
    Compacted,
    MessageCompleted,
    MessageReceived,
    Released,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Image, Message, ToolCall, ToolResult
from gnomon.types.records import SessionRecord, utc_now
from gnomon.types.requests import Response, Usage


@pytest.fixture(params=["memory", "sqlite"])
def storage(request, tmp_path):
    return MemoryStorage() if request.param == "memory" else SQLiteStorage(f"sqlite:///{tmp_path}/ledger.db")


@asynccontextmanager
async def opened(storage, session_id: str = "s"):
    await storage.migrate()
    now = utc_now()
    await storage.create_session(SessionRecord(id=session_id, created_at=now, updated_at=now))
    try:
        yield await Ledger.open(storage, session_id)
    finally:
        await storage.close()


def said(text: str, message_id: str | None = None) -> MessageReceived:
    return MessageReceived(message_id or f"msg_{text}", Message.user(text))


def answered(*content, turn_id: str = "turn_1", message_id: str = "msg_a") -> MessageCompleted:
    response = Response(
        id="r",
        provider="p",
        model="m",
        message=Message.assistant(*content),
        stop_reason="tool_use" if any(isinstance(part, ToolCall) for part in content) else "end_turn",
        usage=Usage(input_tokens=3, output_tokens=2),
    )
    return MessageCompleted(turn_id, message_id, response)


def call(name: str) -> ToolCall:
    return ToolCall(id=f"call_{name}", name=name, arguments="{}")


def result(name: str, text: str = "ok") -> ToolFinished:
    return ToolFinished("turn_1", ToolResult.of(call(name), text))


async def test_what_is_appended_is_read_by_another(storage) -> None:
    async with opened(storage) as ledger:
        assert await ledger.append(said("hello"), TurnStarted("turn_1", "agent", "m")) == 2
        other = await Ledger.open(storage, "s")
        assert (other.fold.seq, other.fold.turn_id) == (2, "turn_1")
        assert [message.text for message in other.fold.messages] == ["hello"]


async def test_a_message_that_is_sent_again_is_appended_once(storage) -> None:
    async with opened(storage) as ledger:
        other = await Ledger.open(storage, "s")
        assert await ledger.append(said("hello", "msg_1")) == 1
        assert await ledger.append(said("hello", "msg_1")) == 1
        assert await other.append(said("hello", "msg_1")) == 1
        assert len((await storage.list_events("s")).items) == 1


async def test_a_call_has_one_result(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(answered(call("a"), call("b")))
        await ledger.append(result("a", "first"))
        assert await ledger.append(result("a", "second")) == 2
        await ledger.append(result("b"))
        last = ledger.fold.messages[-1]
        assert [part.content[0].text for part in last.tool_results] == ["first", "ok"]
        assert ledger.fold.open_calls == ()


async def test_a_message_and_its_results_may_come_in_one_append(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(answered(call("a")), ToolIntent("turn_1", "call_a", "a", "key"), result("a"))
        assert ledger.fold.seq == 3
        assert [message.role for message in ledger.fold.messages] == ["assistant", "tool"]


async def test_an_intent_is_open_until_its_result(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(answered(call("a"), call("b")), ToolIntent("turn_1", "call_a", "a", "key"))
        assert [one.id for one in ledger.fold.open_calls] == ["call_a", "call_b"]
        assert ledger.fold.intents == {"call_a": "key"}
        await ledger.append(result("a"))
        assert (ledger.fold.intents, [one.id for one in ledger.fold.open_calls]) == ({}, ["call_b"])


async def test_writers_that_collide_all_get_in_and_in_one_order(storage) -> None:
    async with opened(storage) as ledger:
        others = [await Ledger.open(storage, "s") for _ in range(6)]
        await asyncio.gather(
            *(one.append(said(f"{at}.{n}")) for at, one in enumerate(others) for n in range(5))
        )
        await ledger.refresh()
        texts = [waiting.received.message.text for waiting in ledger.fold.waiting.values()]
        assert ledger.fold.messages == [], "nothing is part of the conversation before a turn takes it"
        assert sorted(texts) == sorted(f"{at}.{n}" for at in range(6) for n in range(5))
        for at in range(6):
            assert [text for text in texts if text.startswith(f"{at}.")] == [f"{at}.{n}" for n in range(5)]


# --- claims -------------------------------------------------------------------------


async def test_a_live_owner_keeps_its_session(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        assert await ledger.claim("one") == 1
        other = await Ledger.open(storage, "s")
        with pytest.raises(Conflict, match="held by 'one'"):
            await other.claim("two")
        assert [type(read.entry) for read in await other.refresh()] == []
        await ledger.append(said("still mine"))


async def test_a_dead_owner_loses_it_and_its_next_append_is_refused(storage) -> None:
    async with opened(storage) as ledger:
        async with storage.holding("one"):
            await ledger.claim("one")
        other = await Ledger.open(storage, "s")
        assert await other.claim("two") == 2
        with pytest.raises(Superseded, match="taken over by two"):
            await ledger.append(answered("late"))
        assert ledger.claim_held is None
        with pytest.raises(Superseded):  # not only the first time: it does not become a sender
            await ledger.append(said("late too"))
        types = [event.type for event in (await storage.list_events("s")).items]
        assert types == ["claimed", "claimed"]


async def test_a_person_may_take_a_session_over(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        await ledger.claim("one")
        other = await Ledger.open(storage, "s")
        assert await other.claim("two", take_over=True) == 2


async def test_an_owner_that_comes_again_gets_a_new_epoch(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        await ledger.claim("one")
        again = await Ledger.open(storage, "s")
        assert await again.claim("one") == 2
        with pytest.raises(Superseded):
            await ledger.append(said("from the former life"))


async def test_of_many_that_claim_at_once_one_holds_it(storage) -> None:
    async with opened(storage):
        ledgers = [await Ledger.open(storage, "s") for _ in range(5)]
        async with storage.holding("r0"), storage.holding("r1"), storage.holding("r2"):
            claims = [ledgers[at].claim(f"r{at}") for at in range(3)]
            ended = await asyncio.gather(*claims, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ended) == ["Conflict", "Conflict", "int"]


async def test_a_released_session_is_free(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        await ledger.claim("one")
        await ledger.release()
        await ledger.release()
        other = await Ledger.open(storage, "s")
        assert other.fold.owner is None
        assert await other.claim("two") == 2


async def test_release_after_a_take_over_does_nothing(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        await ledger.claim("one")
        other = await Ledger.open(storage, "s")
        await other.claim("two", take_over=True)
        await ledger.release()
        assert (await Ledger.open(storage, "s")).fold.owner == "two"


async def test_a_stale_release_does_not_end_a_later_claim(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(Claimed("one", 1), Claimed("two", 2), Released("one", 1))
        assert ledger.fold.owner == "two"


async def test_senders_do_not_need_a_claim(storage) -> None:
    async with opened(storage) as ledger, storage.holding("one"):
        await ledger.claim("one")
        sender = await Ledger.open(storage, "s")
        await sender.append(said("from outside"))
        await ledger.append(TurnStarted("turn_1", "agent", "m"))
        assert [message.text for message in ledger.fold.messages] == ["from outside"]


async def test_a_deleted_session_is_not_written_again(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(said("one"), said("two"))
        await storage.delete_session("s")
        with pytest.raises(NotFound, match="was deleted"):
            await ledger.append(said("three"))
        assert (await storage.list_events("s")).items == ()


# --- large parts ----------------------------------------------------------------------


async def test_a_large_part_is_stored_once_and_read_back(storage) -> None:
    image = Image(data=b"\x89PNG" + b"\x00" * 40_000, media_type="image/png")
    async with opened(storage) as ledger:
        for at in range(3):
            await ledger.append(MessageReceived(f"msg_{at}", Message.user("look", image)))
        events = (await storage.list_events("s")).items
        assert all(len(event.payload) < 1_000 for event in events)
        other = await Ledger.open(storage, "s")
        waiting = other.fold.waiting.values()
        assert [each.received.message.images for each in waiting] == [(image,)] * 3
        await other.append(TurnStarted("turn_1", "agent", "m"))
        assert [message.images for message in other.fold.messages] == [(image,)] * 3
        gone = await storage.sweep_blobs(frozenset(), utc_now() + timedelta(seconds=1))
        assert gone == 1


# --- checkpoints ------------------------------------------------------------------------


async def test_a_session_is_opened_from_its_view(storage) -> None:
    async with opened(storage) as ledger:
        for at in range(29):
            await ledger.append(said(f"old {at}"))
        await ledger.append(TurnStarted("turn_1", "agent", "m"))
        await ledger.append(Compacted("turn_1", 29, 900, 90, Message.user("what went before")))
        await ledger.append(
            answered("new"), TurnFinished("turn_1", "end_turn", 1, Usage(input_tokens=7), 0.5)
        )
        await ledger.checkpoint()
        await ledger.append(said("newest"), TurnStarted("turn_2", "agent", "m"))
        listed: list[int] = []
        reading = storage.list_events

        async def noted(session_id, after_seq=0, limit=50, *, cursor=None):
            page = await reading(session_id, after_seq, limit, cursor=cursor)
            listed.extend(event.seq for event in page.items)
            return page

        storage.list_events = noted
        other = await Ledger.open(storage, "s")
        assert listed == list(range(29, 36))
        assert [message.text for message in other.fold.messages] == [
            "what went before",
            "old 28",
            "new",
            "newest",
        ]
        assert (other.fold.usage.input_tokens, other.fold.cost) == (7, 0.5)
        whole = Ledger(storage, "s")
        await whole.refresh()
        assert whole.fold.snapshot() == other.fold.snapshot()
        assert list(whole.fold.messages) == list(other.fold.messages)


async def test_a_compaction_replaces_the_summary_before_it(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(said("one"), said("two"), TurnStarted("turn_1", "agent", "m"))
        for summary in ("first", "second"):
            await ledger.append(Compacted("turn_1", 2, 900, 90, Message.user(summary)))
        assert [message.text for message in ledger.fold.messages] == ["second", "two"]


async def test_appends_save_a_checkpoint_now_and_then_and_when_the_view_moves(storage) -> None:
    async with opened(storage) as ledger:
        for at in range(52):
            await ledger.append(said(f"{at}"))
        assert (await storage.get_latest_checkpoint("s")).seq == 50
        await ledger.append(Compacted("turn_1", 52, 900, 90))
        await ledger.append(said("after"))
        point = await storage.get_latest_checkpoint("s")
        assert (point.seq, point.state["view_start"]) == (53, 52)
        assert len((await storage.list_checkpoints("s")).items) == 1


async def test_a_lost_or_strange_checkpoint_changes_nothing(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(said("one"), answered("two"))
        point = await _strange_checkpoint(storage)
        other = await Ledger.open(storage, "s")
        assert point.seq == 2
        assert list(other.fold.messages) == list(ledger.fold.messages)
        assert other.fold.recent == ledger.fold.recent


async def _strange_checkpoint(storage):
    from gnomon.types.records import Checkpoint

    point = Checkpoint(id="odd", session_id="s", seq=2, created_at=utc_now(), state={"view_start": "later"})
    await storage.save_checkpoint(point)
    return point


async def test_the_checkpoint_of_somebody_else_says_nothing_of_the_ledger(storage) -> None:
    from gnomon.types.records import Checkpoint

    async with opened(storage) as ledger, storage.holding("a"):
        await ledger.claim("a")
        await ledger.append(said("one", "m1"))
        theirs = Checkpoint(id="graph", session_id="s", seq=2, created_at=utc_now(), state={"step": 3})
        await storage.save_checkpoint(theirs)
        other = await Ledger.open(storage, "s")
        assert other.fold.snapshot() == ledger.fold.snapshot()
        with pytest.raises(Conflict, match="is held by 'a'"):
            await other.claim("b")


@pytest.mark.parametrize(
    "state",
    [{"view_start": 2, "version": 3}, {"view_start": 2, "version": 1}, {"view_start": 150, "epoch": 3}],
)
async def test_a_checkpoint_of_a_newer_version_or_beyond_the_log_is_left_aside(storage, state) -> None:
    from gnomon.types.records import Checkpoint

    async with opened(storage) as ledger:
        await ledger.append(said("one", "m1"))
        point = Checkpoint(id="s", session_id="s", seq=200, created_at=utc_now(), state=state)
        await storage.save_checkpoint(point)
        other = await Ledger.open(storage, "s")
        assert other.fold.snapshot() == ledger.fold.snapshot()
        assert await other.append(said("two")) == 2


async def test_who_has_read_less_does_not_put_the_checkpoint_back(storage) -> None:
    async with opened(storage) as ledger:
        late = await Ledger.open(storage, "s")
        await ledger.append(said("one"), said("two"))
        await ledger.checkpoint()
        await late.checkpoint()
        assert (await storage.get_checkpoint("s")).seq == 2


async def test_a_release_that_did_not_get_through_can_be_done_again(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.claim("a")
        appending = storage.append_events

        async def away(*_, **__):
            raise Unavailable("away")

        storage.append_events = away
        with pytest.raises(Unavailable):
            await ledger.release()
        storage.append_events = appending
        assert ledger.claim_held is not None
        await ledger.release()
        assert (await Ledger.open(storage, "s")).fold.owner is None


async def test_a_message_that_stands_twice_in_an_append_is_appended_once(storage) -> None:
    async with opened(storage) as ledger:
        assert await ledger.append(said("one", "m1"), said("one", "m1"), said("two", "m2")) == 2


async def test_what_cannot_be_stored_is_said_and_the_ledger_goes_on(storage) -> None:
    async with opened(storage) as ledger:
        with pytest.raises(InvalidInput, match="MessageReceived cannot be stored"):
            await ledger.append(said("half a character: \ud800"))
        assert await ledger.append(said("whole")) == 1


# --- the row, and readers -----------------------------------------------------------------


async def test_the_row_follows_the_ledger_and_never_goes_back(storage) -> None:
    async with opened(storage) as ledger:
        late = await Ledger.open(storage, "s")
        await ledger.append(said("one"), said("two"))
        row = await ledger.project("running", runnable=True)
        assert (row.status, row.last_seq, row.runnable) == ("running", 2, True)
        assert (await late.project("idle")).status == "running"
        rows = await asyncio.gather(*(ledger.project("idle") for _ in range(5)))
        assert {row.last_seq for row in rows} == {2}


async def test_a_session_without_a_row_cannot_be_projected(storage) -> None:
    async with opened(storage):
        with pytest.raises(NotFound, match="there is no session 'other'"):
            await (await Ledger.open(storage, "other")).project("idle")


async def test_a_reader_sees_what_is_there_and_then_what_comes(storage) -> None:
    async with opened(storage) as ledger:
        await ledger.append(said("one"))
        seen: list[str] = []
        async with asyncio.timeout(10), ledger.watch() as reads:
            async for read in reads:
                seen.append(read.entry.message.text)
                if read.seq == 1:
                    await (await Ledger.open(storage, "s")).append(said("two"))
                if read.seq == 2:
                    break
        assert seen == ["one", "two"]


async def test_a_store_that_cannot_tell_is_asked_again(storage) -> None:
    class Plain:
        """Only what the contract asks for."""

        def __init__(self, inner) -> None:
            for name in ("list_events", "append_events", "get_checkpoint", "save_checkpoint"):
                setattr(self, name, getattr(inner, name))

    async with opened(storage):
        plain = await Ledger.open(Plain(storage), "s")  # type: ignore[arg-type]
        large = "x" * 40_000
        async with asyncio.timeout(10), plain.watch() as reads:
            writing = asyncio.create_task(plain.append(said(large, "msg_large")))
            assert (await anext(reads)).entry.message.text == large
            await writing
        await plain.claim("one")
        with pytest.raises(Conflict):
            await (await Ledger.open(Plain(storage), "s")).claim("two")  # type: ignore[arg-type]
