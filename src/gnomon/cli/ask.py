"""One shot: a prompt in, an answer out. It is a session, which `-c` and `-r` go on with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from gnomon import config
from gnomon.agent import Agent
from gnomon.cli.choice import Choice, chosen
from gnomon.cli.conversing import Shows, shown_turn
from gnomon.cli.keeping import Place, place, prepare
from gnomon.cli.kept import Kept
from gnomon.cli.leave import Leave
from gnomon.cli.making import command_agent, going_on, kept_of, kit_for
from gnomon.cli.problems import BUDGET, FAILED, report
from gnomon.cli.prompt import compose, piped_text, spoken
from gnomon.cli.render import renderer
from gnomon.cli.screen import Screen
from gnomon.contracts.session import WhenBusy
from gnomon.engine.permissions import Mode
from gnomon.errors import InvalidInput, StorageError
from gnomon.types.events import ApprovalRequested, RunEvent
from gnomon.types.messages import attachment

if TYPE_CHECKING:
    from gnomon.cli.render import Renderer
    from gnomon.types.messages import Content
    from gnomon.types.records import SessionRecord
    from gnomon.types.steps import Turn

__all__ = ["Question", "ask", "flags", "show_turn"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed; `None` was not."""

    words: tuple[str, ...] = ()
    model: str | None = None
    system: str | None = None
    attach: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    goes_on: bool = False
    session: str | None = None
    when_busy: WhenBusy | None = None
    output: config.Output | None = None
    permissions: Mode | None = None
    max_rounds: int | None = None
    no_store: bool = False
    no_project: bool = False
    quiet: bool = False
    debug: bool = False

    @property
    def is_next(self) -> bool:
        """Whether it is asked in a session that is there."""
        return self.goes_on or self.session is not None


def ask(question: Question) -> int:
    """Show the answer to a question, in the form it was asked for; the exit code."""
    return show_turn(question, _asked)


def show_turn(
    question: Question, work: Callable[[Question, config.Config, Renderer, Screen], Turn | None]
) -> int:
    """Do what ends with a turn, if any; whoever asked for JSON is told of failures in it. The exit code."""
    screen = Screen(quiet=question.quiet)
    show = renderer(question.output or "text", screen)
    try:
        loaded = config.load(flags=flags(question), use_project=not question.no_project).config
        show = renderer(loaded.output or "text", screen)
        turn = work(question, loaded, show, screen)
    except BaseException as error:
        with suppress(OSError):  # the output itself may be what failed
            show.fail(error)
        raise
    return _verdict(turn) if turn is not None else 0


def flags(question: Question) -> dict[str, object]:
    """The options in the shape of a config file, which they stand above."""
    return {
        "model": question.model,
        "system": None if question.system is None else spoken([question.system]),
        "output": question.output,
        "tools": list(question.tool) or None,
        "budget": {"rounds": question.max_rounds},
    }


def _asked(question: Question, loaded: config.Config, show: Renderer, screen: Screen) -> Turn:
    _check(question)
    where = None if question.no_store else place(loaded, os.environ)
    if question.is_next:
        return _next_turn(question, loaded, where, show, screen)
    choice = Choice(loaded.model, "named") if loaded.model else chosen(loaded, os.environ)
    if loaded.model is None:
        screen.aside(f"gnomon: {choice.model} answers: {choice.because} (choose with -m or GNOMON_MODEL)")
    kit = kit_for(question, loaded, choice)
    agent, prompt = command_agent(loaded, choice, kit, where), _prompt(question)
    kept = kept_of(loaded, choice, kit)
    _hold(agent, screen)
    if where is None and not question.no_store:
        _warn(screen, "there is no home folder to keep it in (set HOME, or GNOMON_STORE)")
    turn, agent = asyncio.run(
        _once(agent, where, kept, lambda: command_agent(loaded, choice, kit, None), prompt, show, screen)
    )
    show.finish(turn, agent.provider)  # after everything is closed, which may fail as well
    return turn


def _check(question: Question) -> None:
    if question.goes_on and question.session is not None:
        raise InvalidInput(
            "-c and -r were both given", hint="-c is the latest session of this folder, -r ID any"
        )
    if question.is_next and question.no_store:
        raise InvalidInput("--no-store keeps nothing, so there is nothing to go on with", hint="leave it out")
    if question.when_busy is not None and not question.is_next:
        raise InvalidInput("--when-busy is for a session that is there", hint="give -c or -r ID as well")


def _prompt(question: Question) -> str | list[Content]:
    words = spoken(question.words)
    attachments = [attachment(path) for path in question.attach]
    return compose(words, piped_text(quiet=question.quiet), attachments)


def _hold(agent: Agent, screen: Screen) -> None:
    if agent.provider.name == "fallback":
        screen.hold_answer()


# --- a session of its own -----------------------------------------------------------


async def _once(
    agent: Agent,
    where: Place | None,
    kept: Kept,
    unkept: Callable[[], Agent],
    prompt: str | list[Content],
    show: Renderer,
    screen: Screen,
) -> tuple[Turn, Agent]:
    """An answer is worth more than its record: where nothing can be stored, it is given all the same."""
    shown = _Counted(show)
    try:
        if where is not None:
            prepare(where)
        return await _answer(agent, prompt, shown, kept if where is not None else None), agent
    except StorageError as error:
        if shown.count or where is None:
            raise
        _warn(screen, str(error))
    agent = unkept()
    return await _answer(agent, prompt, show, None), agent


class _Counted:
    """Shows events, and knows whether there were any: after the first, nothing is done over."""

    def __init__(self, show: Renderer) -> None:
        self._show = show
        self.count = 0

    def show(self, event: RunEvent) -> None:
        self.count += 1
        self._show.show(event)

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        return await self._show.leave(asked)


async def _answer(agent: Agent, prompt: str | list[Content], show: Shows, kept: Kept | None) -> Turn:
    metadata = kept.as_metadata() if kept is not None else None
    async with agent, agent.stream(prompt, metadata=metadata) as run:
        turn = await shown_turn(agent, run, show, is_kept=kept is not None)
        return turn if kept is not None else msgspec.structs.replace(turn, session_id="")


def _warn(screen: Screen, why: str) -> None:
    from gnomon.cli.problems import one_line

    screen.note(f"gnomon: warning: this run is not kept: {one_line(why, 400)}")


# --- the next turn of a session -----------------------------------------------------


def _next_turn(
    question: Question, loaded: config.Config, where: Place | None, show: Renderer, screen: Screen
) -> Turn:
    from gnomon.cli.asking import asked_in

    row = _meant(question, where)
    assert where is not None
    agent = going_on(question, loaded, row, where)
    _hold(agent, screen)
    prompt = _prompt(question)
    turn = asyncio.run(asked_in(agent, row.id, prompt, show, screen, when_busy=question.when_busy or "queue"))
    show.finish(turn, agent.provider)
    return turn


def _meant(question: Question, where: Place | None) -> SessionRecord:
    from gnomon.cli.finding import by_id, in_store, latest_here, nothing_here

    if where is None:
        raise InvalidInput("there is no home folder to keep sessions in", hint="set HOME or GNOMON_STORE")
    if not where.is_there:
        raise nothing_here()
    typed = question.session
    return in_store(where, latest_here if typed is None else lambda store: by_id(store, typed))


def _verdict(turn: Turn) -> int:
    if turn.stop == "cancelled":
        report("the turn was cancelled elsewhere", kind="stopped: ")
        return FAILED
    if turn.stop not in ("rounds", "tokens", "seconds", "cost"):
        return 0
    report(f"the budget of {turn.stop} was reached, so the answer may not be complete", kind="stopped: ")
    return BUDGET
