"""One turn of a session that is there: run here when the session is free, read wherever it is run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from gnomon.engine.ledger import Read
from gnomon.engine.run import turn_of
from gnomon.engine.turn import TurnState
from gnomon.errors import GnomonError, StorageError, Superseded, TurnUnfinished
from gnomon.session._answered import Answered
from gnomon.types.codec import error_event
from gnomon.types.events import (
    Claimed,
    Error,
    Live,
    MessageReceived,
    Released,
    SessionEvent,
    ToolProgress,
    TurnFailed,
    Unknown,
)
from gnomon.types.records import utc_now

if TYPE_CHECKING:
    from gnomon.cli.render import Renderer
    from gnomon.cli.runner import CommandAgent
    from gnomon.session._reader import Reader
    from gnomon.session.local import LocalSession
    from gnomon.types.steps import Turn

__all__ = ["Conversing", "unfinished"]

_AGAIN_S = 0.25
"""Between two looks whether the session is free."""

_CANCEL_S = 5.0
_LEAVE_S = 10.0
_LOOK_S = 0.005
_UNSHOWN = (Claimed, Released, MessageReceived, TurnFailed, Error, Unknown)


class Conversing:
    """Reads on until the turn that answers a message has ended."""

    def __init__(
        self, agent: CommandAgent, session: LocalSession[str], show: Renderer, *, message_id: str
    ) -> None:
        self._agent = agent
        self._session = session
        self._show = show
        self._answered = Answered(message_id)
        self._failures: list[Exception] = []
        self._shown_after = 0

    async def turn(self, *, start: int, shown_after: int, turns: int = 1, take_over: bool = False) -> Turn:
        """What it comes to. What stands up to `shown_after` is read, and not shown.

        Ctrl-C cancels it; a message that no turn has taken yet stays where it is.
        """
        self._shown_after = shown_after
        work = asyncio.ensure_future(self._work(turns, take_over))
        try:
            async with self._session.events(after=start) as reader:
                while not await self._step(reader, work):
                    pass
        except TurnUnfinished:
            raise
        except BaseException:  # Ctrl-C, or nobody is left to read it
            await self._give_up()
            raise
        finally:
            await self._leave(work)
        return self._result()

    # --- running

    async def _work(self, turns: int, take_over: bool) -> None:
        """Run the session whenever nobody else does. Whose turn it was that failed is seen by its reader."""
        while True:
            try:
                await self._agent.run_turn(self._session.id, turns=turns, take_over=take_over)
            except Superseded:
                pass  # somebody took it over: it is read from there
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - what a model or its service may raise ends a turn
                self._failures.append(error)
            take_over = False
            await asyncio.sleep(_AGAIN_S)

    async def _give_up(self) -> None:
        turn = self._answered.turn
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                if turn is not None:
                    await self._session.cancel(reason="interrupted")

    async def _leave(self, work: asyncio.Future[None]) -> None:
        """Nothing of it is left running. A turn that is another's stays open, and is found by its reader."""
        self._agent.let_go(self._session.id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                while self._agent.is_running(self._session.id):  # noqa: ASYNC110 - once, at the end
                    await asyncio.sleep(_LOOK_S)
        work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # it was told already, or came after the end

    # --- reading

    async def _step(self, reader: Reader, work: asyncio.Future[None]) -> bool:
        """The next event; whether it was the last."""
        coming = asyncio.ensure_future(_next(reader))
        try:
            await asyncio.wait({coming, work}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                work.result()
            return self._take(await coming, reader)
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})

    def _take(self, event: SessionEvent, reader: Reader) -> bool:
        answered = self._answered
        if isinstance(event, Live | ToolProgress):
            if answered.turn is not None:
                self._show.show(event.event if isinstance(event, Live) else event)
            return False
        answered.take(Read(reader.position, event, reader.at or utc_now()))
        is_over = answered.is_over
        if answered.turn is None or reader.position <= self._shown_after:
            return is_over
        if not isinstance(event, _UNSHOWN):
            self._show.show(event)
        if isinstance(event, Released) and _waits(answered.turn):
            raise unfinished(answered.turn, self._session.id)
        return is_over

    def _result(self) -> Turn:
        state = self._answered.turn
        assert state is not None
        turn = turn_of(state, self._session.id, None)
        if turn.error is not None:
            raise self._failure(turn.error)
        return turn  # pyright: ignore[reportReturnType] - without an output type it is text

    def _failure(self, told: Error) -> Exception:
        """What was raised here, where it was here; else what the ledger says of it."""
        same = (error for error in self._failures if error_event(error) == told)
        return next(same, None) or _as_error(told)


def unfinished(turn: TurnState, session_id: str) -> TurnUnfinished:
    """What a person has to do before the turn goes on."""
    for asked in turn.open_questions:
        return question(asked.question, session_id, is_unknown=asked.unknown, turn_id=turn.id)
    hint = f"gnomon resume {session_id} goes on under the new definition"
    return TurnUnfinished("the turn is paused: its agent was changed", turn_id=turn.id, hint=hint)


def question(asked: str, session_id: str, *, is_unknown: bool, turn_id: str) -> TurnUnfinished:
    again = ", or --run-again" if is_unknown else ""
    hint = f"gnomon resume {session_id} --answer TEXT{again}; gnomon cancel {session_id} ends it"
    return TurnUnfinished(f"the turn waits for an answer: {asked}", turn_id=turn_id, hint=hint)


def _waits(turn: TurnState) -> bool:
    return turn.ended is None and (bool(turn.open_questions) or turn.is_paused)


def _as_error(told: Error) -> GnomonError:
    error = GnomonError(told.message, hint=told.hint)
    error.code, error.retryable = told.code, told.retryable
    return error


async def _next(reader: Reader) -> SessionEvent:
    return await reader.__anext__()
