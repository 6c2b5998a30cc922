"""A session in this process: what a UI talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Generic, Self, cast, get_args

import msgspec

from gnomon.contracts.session import Input, OnLeave, WhenBusy
from gnomon.engine.fold import Fold
from gnomon.engine.given import one_of
from gnomon.engine.ids import new_id
from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import cancelling, has_work, is_held_back
from gnomon.engine.run import Run, check_not_waiting, turn_of
from gnomon.engine.turn import REPAIR, TurnState
from gnomon.errors import Conflict, InvalidInput, NotFound
from gnomon.session._answered import Answered
from gnomon.session._brought import Brought
from gnomon.session._reader import Reader
from gnomon.session._reading import Reading
from gnomon.session.runtime import LOST_WAKE, TENANT, Runtime
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    LedgerEntry,
    MessageReceived,
    QuestionAnswered,
    Released,
    TurnCancelled,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Content, Message, Part, Text, Thinking, ToolCall, ToolResult, as_parts
from gnomon.types.records import SessionRecord, SessionState
from gnomon.types.steps import CancelMode, Out, SessionStatus, Turn

__all__ = ["LocalSession", "as_message", "checked_metadata"]

_ASKING = ("user", "system")
_TRIES = 1_000
_LOOK_S, _HERE_S = 0.1, 2.0
"""How often whoever waits for a session looks at it: one that is run elsewhere, and one that is run here."""

_FORKED = "forked here"
_DOUBT_S = 2.0
"""After how long a session is looked at when a write was broken off, which may still be under way."""


class LocalSession(Generic[Out]):
    """One conversation, live. It is made by its first message; opening it costs nothing."""

    def __init__(
        self,
        runtime: Runtime,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self._runtime = runtime
        self._id = _checked_session_id(session_id)
        self._metadata = metadata or {}
        self._channel = runtime.channel(self._id)
        self._ledger: Ledger | None = None
        self._is_new = session_id is None
        """Whether nobody can know of it, so that there is nothing to read."""

    @property
    def id(self) -> str:
        return self._id

    @property
    def status(self) -> SessionStatus:
        """How it stands, as far as it was read here; `refresh` reads on."""
        agent = self._runtime.agent
        fold = self._ledger.fold if self._ledger is not None else Fold()
        turn = fold.open_turn
        spent = fold.usage.total_tokens
        return SessionStatus(
            state=_state(fold),
            agent=agent.name,
            model=agent.model,
            turn_id=turn.id if turn is not None else None,
            tokens_used=spent,
            cost=fold.cost,
            questions=turn.open_questions if turn is not None else (),
            position=fold.seq,
        )

    async def refresh(self) -> SessionStatus:
        """How it stands now."""
        await self._opened()
        return self.status

    async def is_attended(self) -> bool:
        """Whether somebody who is alive runs it now, here or in another process."""
        ledger = await self._opened()
        if ledger.fold.owner is None or self._id in self._runtime.loops:
            return ledger.fold.owner is not None
        try:
            await ledger.check_free(self._runtime.owner)
        except Conflict:
            return True
        return False

    # --- sending

    async def send(
        self, input: Input, *, when_busy: WhenBusy = "queue", message_id: str | None = None
    ) -> str:
        """Give the session something to answer. It is durable, and the session woken, when this returns."""
        received = _received(input, when_busy, message_id)
        await self._send(await self._opened(refresh=False), received, when_busy)
        return received.message_id

    async def _send(self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy) -> None:
        if await self._lacks_row(ledger):
            await self._create(ledger, received.message)
        await self._announce(ledger)
        with self._writing(ledger), self._wanting(received.message_id):
            if when_busy in ("reject", "interrupt"):
                await self._send_by_state(ledger, received, when_busy)
            else:
                await ledger.receive(received)
        if ledger.known_row is None:  # others have run the session since, and their row may not know of this
            await self._announce(ledger)
        await self._wake(ledger)

    async def run(self, input: Input, *, when_busy: WhenBusy = "queue") -> Turn[Out]:
        """Send, and wait for what the turn that answers it comes to.

        `TurnUnfinished` when that turn, or one before it, waits for a person.
        What was sent stays in its place.
        """
        received = _received(input, when_busy)
        ledger = await self._opened(refresh=False)
        answered = Answered(received.message_id, ledger.fold.open_turn)
        with ledger.following(answered.take), self._runtime.asked.waiting(self._id):
            brought = await self._bring(ledger, received, when_busy, answered.news)
            while not answered.is_over:
                if brought is not None:
                    brought.check()
                self._check_not_waiting(ledger.fold, answered.turn or ledger.fold.open_turn)
                await self._news(ledger, answered.news)
        assert answered.turn is not None
        return cast("Turn[Out]", turn_of(answered.turn, self._id, self._runtime.agent.answer))

    async def _bring(
        self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy, news: asyncio.Event
    ) -> Brought | None:
        """Send what its sender waits for anyway: a session that rests is claimed in the same breath."""
        if when_busy in ("reject", "interrupt") or not self._runtime.adopts or not self._rests(ledger):
            await self._send(ledger, received, when_busy)
            return None
        row = None
        if await self._lacks_row(ledger):
            row = self._new_row(received.message, is_run_here=True)
        else:
            await self._announce(ledger)
        brought = Brought(received, row, news)
        self._runtime.begin(self._id, brought)
        return brought

    def _rests(self, ledger: Ledger) -> bool:
        """Whether nobody has anything to do with it, as far as is known here."""
        fold = ledger.fold
        is_idle = fold.open_turn is None and not fold.waiting and fold.owner is None
        return is_idle and self._id not in self._runtime.loops

    def stream(
        self, input: Input, *, when_busy: WhenBusy = "queue", on_leave: OnLeave = "cancel"
    ) -> Run[Out]:
        """Send, and read the turn that answers it as it happens, in whichever process it is run.

        Nothing is sent before the first event is read; while other turns come first there are none. A
        reader that leaves before the end cancels the turn; with `on_leave="detach"` it goes on without it.
        A message that no turn has taken yet stays in its place. Where this turn, or one before it, waits
        for a person, the events end, and `Run.turn` raises `TurnUnfinished`.
        """
        message, message_id = as_message(input), new_id("msg")
        _checked_policy(when_busy)

        async def begin(ledger: Ledger) -> Answered:
            answered = Answered(message_id, ledger.fold.open_turn)
            await self.send(message, when_busy=when_busy, message_id=message_id)
            return answered

        return self._reading(begin, on_leave)

    async def follow(self, *, on_leave: OnLeave = "detach") -> Run[Out] | None:
        """The turn that is open, from here on, as `stream` gives it; `None` when nothing is open.

        Where no turn is, but messages wait, it is the turn of the first of them. What happens between
        this call and the first event that is read is not missed: an answer may be given, or the session
        resumed, in between.
        """
        ledger = await self._opened()
        answered, place = Answered.open_in(ledger.fold), ledger.fold.seq
        if answered is None:
            return None

        async def begin(_: Ledger) -> Answered:
            if not self._runtime.adopts:
                self._runtime.look_at(self._id, _LOOK_S)
            return answered

        return self._reading(begin, on_leave, place)

    def _reading(
        self, begin: Callable[[Ledger], Awaitable[Answered]], on_leave: OnLeave, place: int | None = None
    ) -> Run[Out]:
        leave = self._leaving if one_of("on_leave", on_leave, OnLeave) == "cancel" else None
        reading = Reading(self._runtime, self._id, self._channel, begin, leave, place)
        return Run(
            reading.events(),
            reading.state,
            turn_id="",
            session_id=self._id,
            answer=self._runtime.agent.answer,
        )

    async def _leaving(self, turn_id: str) -> None:
        """End that turn, if it still runs."""
        ledger = await self._opened()
        if ledger.fold.turn_id == turn_id:
            await self.cancel(reason="the reader left")

    async def _news(self, ledger: Ledger, news: asyncio.Event) -> None:
        """Until something is written here; what another process writes is looked for."""
        self._runtime.check_open()  # of an agent that was closed nothing is to be waited for
        with suppress(TimeoutError):
            async with asyncio.timeout(_HERE_S if self._id in self._runtime.loops else _LOOK_S):
                await news.wait()
        if not news.is_set():
            await ledger.refresh()
        news.clear()

    async def _send_by_state(self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy) -> None:
        """What is written depends on what is there, so both are looked at together."""
        for _ in range(_TRIES):
            await ledger.refresh()
            fold = ledger.fold
            is_busy = fold.open_turn is not None or bool(fold.waiting)
            if received.message_id in fold.recent:
                return
            if is_busy and when_busy == "reject":
                raise Conflict(f"session {self._id!r} is busy", hint="wait, or send with another when_busy")
            entries: list[LedgerEntry] = [received]
            if is_busy:
                entries.insert(0, CancelRequested("now", "interrupted by a message"))
            if await ledger.try_receive(entries, fold.seq):
                return
        raise self._crowded()

    def _crowded(self) -> Conflict:
        return Conflict(f"session {self._id!r} is written by too many at once")

    async def _lacks_row(self, ledger: Ledger) -> bool:
        if self._is_new:
            self._is_new = False
            return True
        return (ledger.known_row or await ledger.row()) is None

    async def _create(self, ledger: Ledger, message: Message) -> None:
        with suppress(Conflict):  # somebody else was first
            await ledger.create(self._new_row(message))

    def _new_row(self, message: Message, *, is_run_here: bool = False) -> SessionRecord:
        return self._runtime.new_row(self._id, message, is_run_here=is_run_here, metadata=self._metadata)

    async def _announce(self, ledger: Ledger) -> None:
        """The row says that there will be something to do, before there is: a wake may get lost."""
        runtime = self._runtime
        await runtime.rows.forget(ledger)
        row = ledger.known_row or await ledger.row()
        if row is None:
            return
        if row.status == "closed":
            raise Conflict(f"session {self._id!r} is closed", hint="start another, or fork it")
        if not row.runnable or row.metadata.get("owner") != runtime.owner:
            await ledger.announce(runtime.clock.now() + LOST_WAKE)

    async def _announce_again(self, ledger: Ledger) -> None:
        """The same of a session that is there: what is to be done about its turn must not get lost."""
        await self._runtime.rows.forget(ledger)
        with suppress(NotFound):  # whoever runs it makes its row
            await ledger.row()
            await ledger.announce(self._runtime.clock.now() + LOST_WAKE)

    @contextmanager
    def _writing(self, ledger: Ledger) -> Generator[None, None, None]:
        """What is broken off may stand all the same: then the session is looked at, and not left with it."""
        try:
            yield
        except BaseException:
            if ledger.is_unsure:
                self._runtime.look_at(self._id, _DOUBT_S)
            raise

    @contextmanager
    def _wanting(self, message_id: str) -> Generator[None, None, None]:
        """What is sent is to be answered; it is known before whoever runs the session may see it."""
        self._runtime.want(self._id, message_id)
        try:
            yield
        except Exception:
            self._runtime.asked.drop(self._id, message_id)
            raise

    def _want_next(self, fold: Fold) -> None:
        """Where no turn is open, going on means to begin the next."""
        if fold.open_turn is None:
            for message_id in tuple(fold.waiting)[:1]:
                self._runtime.want(self._id, message_id)

    async def _wake(self, ledger: Ledger) -> None:
        running = self._runtime.loops.get(self._id)
        if running is not None:
            running[0].look()
        else:
            await self._runtime.wake(self._id, ledger.fold.seq)

    # --- reading

    def events(self, after: int = 0) -> Reader:
        """What happened after that place, and then what happens."""
        return Reader(self._opened, self._channel, self._runtime.owner, after)

    async def turn_result(self) -> Turn[Out]:
        """What the latest turn came to, when it has ended. One whose runner died is gone on with.

        `TurnUnfinished` when it waits for a person.
        """
        ledger = await self._opened()
        if ledger.fold.turn is None and not ledger.fold.waiting:
            raise RuntimeError(f"session {self._id!r} has had no turn yet: send it something first")
        for message_id in ledger.fold.waiting:
            self._runtime.want(self._id, message_id)
        if has_work(ledger.fold, self._runtime.agent):
            await self._runtime.nudge(self._id)
        news = asyncio.Event()
        with ledger.following(lambda _: news.set()), self._runtime.asked.waiting(self._id):
            while ledger.fold.open_turn is not None or ledger.fold.waiting:
                self._check_not_waiting(ledger.fold, ledger.fold.open_turn)
                await self._news(ledger, news)
        turn = ledger.fold.turn
        assert turn is not None
        return cast("Turn[Out]", turn_of(turn, self._id, self._runtime.agent.answer))

    def _check_not_waiting(self, fold: Fold, turn: TurnState | None) -> None:
        """What waits for a person is not waited for here; unless it is about to be cancelled."""
        if turn is not None and fold.cancel is None:
            hint = "answer with session.answer(…), or cancel the turn"
            check_not_waiting(turn, hint, is_held_back=is_held_back(turn, self._runtime.agent))

    # --- acting on a turn

    async def cancel(self, mode: CancelMode = "now", *, reason: str = "") -> None:
        """End the running turn: at once, or when the step under way is done. Returns when it has ended."""
        if mode not in ("now", "after_step"):
            raise InvalidInput(f"a turn is cancelled 'now' or 'after_step', not {mode!r}")
        ledger = await self._opened()
        meant = _first_of(ledger.fold)
        if meant is None:
            return
        news = asyncio.Event()
        await self._announce_again(ledger)
        self._want_next(ledger.fold)
        with ledger.following(lambda _: news.set()), self._runtime.asked.waiting(self._id):
            while _first_of(ledger.fold) == meant:  # a turn that comes after it is not to be ended
                with self._writing(ledger):
                    if await ledger.try_receive((CancelRequested(mode, reason),), ledger.fold.seq):
                        break
            await self._wake(ledger)
            while _first_of(ledger.fold) == meant:
                await self._news(ledger, news)

    async def answer(
        self,
        content: Content | Sequence[Content] = (),
        *,
        call_id: str | None = None,
        run_again: bool = False,
    ) -> None:
        """Answer for a call that waits for a person. The answer is its result, or leave to run it again."""
        parts = _as_answer(content)
        if not parts and not run_again:
            raise InvalidInput("an answer is empty", hint="say what became of the call, or run_again=True")
        ledger = await self._opened()
        self._asked(ledger.fold, call_id)
        await self._announce_again(ledger)
        for _ in range(_TRIES):
            answer = QuestionAnswered(self._asked(ledger.fold, call_id), parts, run_again)
            with self._writing(ledger):
                if await ledger.try_receive((answer,), ledger.fold.seq):
                    break
        else:
            raise self._crowded()
        await self._wake(ledger)

    def _asked(self, fold: Fold, call_id: str | None) -> str:
        """The call that the answer is for."""
        questions = fold.open_turn.open_questions if fold.open_turn is not None else ()
        waiting = [question.call_id for question in questions]
        chosen = call_id or (waiting[0] if len(waiting) == 1 else None)
        if chosen is None or chosen not in waiting:
            hint = f"waiting: {', '.join(waiting)}" if waiting else "nothing waits for an answer"
            raise NotFound(f"session {self._id!r} has no open question of call {call_id!r}", hint=hint)
        return chosen

    async def resume(self, *, take_over: bool = False) -> None:
        """Go on with what is open: after a crash, or under the new definition of a paused turn.

        `take_over` takes the session away from a runner that seems to be alive.
        """
        ledger = await self._opened()
        if ledger.fold.open_turn is not None and ledger.fold.open_turn.is_paused:
            await self._announce_again(ledger)
        for _ in range(_TRIES):
            turn = ledger.fold.open_turn
            if turn is None or not turn.is_paused:
                break
            resumed = TurnResumed(turn.id, self._runtime.agent.hash, "resume")
            if await ledger.try_receive((resumed,), ledger.fold.seq):
                break
        else:
            raise self._crowded()
        if take_over:
            await self._runtime.run_segment(TENANT, self._id, take_over=True)
        elif has_work(ledger.fold, self._runtime.agent):
            await ledger.check_free(self._runtime.owner)
            self._want_next(ledger.fold)
            await self._runtime.nudge(self._id)

    async def fork(self, at: int | None = None, *, session_id: str | None = None) -> LocalSession[Out]:
        """A new session with the same events up to that place; what is open there ends in the new one.

        Its row has the title and the metadata of this one.
        """
        source = await self._opened()
        end = source.fold.seq if at is None else at
        if not source.fold.seq:
            raise NotFound(f"session {self._id!r} has no events to fork from", hint="send it something first")
        if type(end) is not int or not 0 < end <= source.fold.seq:
            raise InvalidInput(f"session {self._id!r} has events 1 to {source.fold.seq}; {end!r} was given")
        other = LocalSession[Out](self._runtime, session_id)
        await other._copy(source, end)
        return other

    async def _copy(self, source: Ledger, end: int) -> None:
        runtime = self._runtime
        storage = await runtime.storage()
        ledger = await runtime.ledger(self._id)
        if ledger.fold.seq:
            raise Conflict(f"session {self._id!r} is there already", hint="fork into another id")
        old = await storage.get_session(source.session_id)
        title, kept = (old.title, old.metadata) if old is not None else ("", {})
        kept = {key: value for key, value in kept.items() if key != "owner"}
        # Nobody is to find it before it is whole: what is open in the midst of it would be gone on with.
        await ledger.create(runtime.new_row(self._id, Message.user(title), is_runnable=False, metadata=kept))
        await ledger.copy_from(source.session_id, end)
        await ledger.receive(*self._ended_here(ledger.fold))
        await ledger.project("idle", runnable=False)
        self._ledger = ledger

    def _ended_here(self, fold: Fold) -> list[LedgerEntry]:
        """What ends that which is open in a copy; the claim on it is of the session it was copied from."""
        turn, owner, epoch = fold.open_turn, self._runtime.owner, fold.epoch + 1
        waiting = tuple(at for at in fold.waiting if not at.startswith(REPAIR))
        if turn is None and fold.owner is None and not waiting:
            return []
        ending = cancelling(turn, _FORKED, self._runtime.agent) if turn is not None else ()
        return [Claimed(owner, epoch), *ending, *self._unanswered(waiting), Released(owner, epoch)]

    def _unanswered(self, waiting: tuple[str, ...]) -> tuple[LedgerEntry, ...]:
        """Messages that waited are part of the conversation; the session they were sent to answers them."""
        if not waiting:
            return ()
        agent, turn_id = self._runtime.agent, new_id("turn")
        started = TurnStarted(turn_id, agent.name, agent.model, agent.hash, inputs=waiting)
        return started, TurnCancelled(turn_id, _FORKED, cost=0.0)

    async def close(self) -> None:
        """Let go of the session here. Nothing of it ends."""
        self._ledger = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self, *, refresh: bool = True) -> Ledger:
        if self._is_new and not refresh:
            self._ledger = await self._runtime.new_ledger(self._id)
        else:
            self._ledger = await self._runtime.ledger(self._id, refresh=refresh)
        return self._ledger


def _checked_session_id(given: object) -> str:
    """The id of a session, or a new one for none."""
    if given is None:
        return new_id("ses")
    if not isinstance(given, str) or not given:
        raise InvalidInput(
            "the id of a session is a text that is not empty", hint="leave it out for a new one"
        )
    return given


def checked_metadata(given: object) -> Mapping[str, object]:
    """What is kept with a session for whoever made it: an object that JSON can say."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"metadata are given as a dict, not as {type(given).__name__}")
    if "owner" in given:
        raise InvalidInput("metadata cannot have a key 'owner': it says who runs the session")
    try:
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(given)), dict[str, object])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata that JSON cannot say: {error}") from error


def as_message(given: object) -> Message:
    """What is sent, as one message of the user's."""
    if isinstance(given, str):
        return Message("user", (Text(given),))
    if isinstance(given, Message):
        return _checked_message(given)
    if isinstance(given, Part):
        return _checked_message(Message("user", (given,)))
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return _checked_message(Message("user", as_parts(cast("Sequence[Content]", given))))
    raise TypeError(f"a prompt is text, parts or a Message, not {type(given).__name__}")


def _as_answer(given: object) -> tuple[Part, ...]:
    if isinstance(given, str | Part):
        return as_parts((given,))
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return as_parts(cast("Sequence[Content]", given))
    raise TypeError(f"an answer is text or parts, not {type(given).__name__}")


def _checked_message(message: Message) -> Message:
    """What no model could be shown would stand in the conversation for ever, and fail each turn of it."""
    if message.role not in _ASKING:
        hint = "earlier messages of others are handed to a run as messages=[…]"
        raise InvalidInput(f"a message of role {message.role!r} is nothing to answer", hint=hint)
    for part in message.content:
        if isinstance(part, ToolCall | ToolResult | Thinking):
            raise InvalidInput(f"a {type(part).__name__} is no part of what a model is asked")
    return message


def _received(input: object, when_busy: WhenBusy, message_id: object = None) -> MessageReceived:
    """What is sent, as it is written."""
    return MessageReceived(
        new_id("msg") if message_id is None else _checked_id(message_id),
        as_message(input),
        steer=_checked_policy(when_busy) == "steer",
    )


def _checked_id(message_id: object) -> str:
    if not isinstance(message_id, str) or not message_id or message_id.startswith(REPAIR):
        raise InvalidInput(
            f"{message_id!r} cannot be the id of a message", hint="leave it out, or choose another"
        )
    return message_id


def _checked_policy(when_busy: str) -> str:
    if when_busy not in get_args(WhenBusy):
        known = ", ".join(get_args(WhenBusy))
        raise InvalidInput(f"when_busy is {when_busy!r}; it may be one of {known}")
    return when_busy


def _first_of(fold: Fold) -> str | None:
    """The message that the open turn answers, or that the next one will: a turn by any time of its life."""
    turn = fold.open_turn
    return next(iter(fold.waiting if turn is None else turn.started.inputs or (turn.id,)), None)


def _state(fold: Fold) -> SessionState:
    turn = fold.open_turn
    if turn is None:
        return "running" if fold.waiting else "idle"
    if fold.cancel is not None:
        return "cancelling"
    return "waiting" if turn.open_questions or turn.is_paused else "running"
