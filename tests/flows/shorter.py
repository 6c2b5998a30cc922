"""An agent whose conversation is made shorter by a summary: what `killed_agent.py` plays, and what must hold
of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from effects import Effects
from killed_agent import Job, here, say
from recorded_effects import entries_of, of_kind

from gnomon import Agent
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.providers.scripted import Line, ScriptedProvider, says
from gnomon.types.events import Compacted, MessageCompleted, MessageReceived, TurnFinished
from gnomon.types.requests import Request

__all__ = ["TURNS", "check_shorter", "play"]

TURNS = 5
LIMIT = 10_000
_LONG = "word " * 2_000
SUMMARY = "What was said, in short."


def _script(effects: Effects, summarising: Callable[[], None]) -> Callable[[Request], Line]:
    def answer(request: Request) -> Line:
        last = request.messages[-1].text
        if not last.startswith("Q"):
            effects.note("asked", "summary")
            summarising()
            return says(SUMMARY)
        effects.note("asked", last.split()[0])
        said = " ".join(message.text for message in request.messages)
        assert len(said) < 6 * LIMIT, "the model is shown more than it takes"
        if last.startswith("Q-last"):
            assert SUMMARY in said, "the model is not told what was left out"
            assert said.startswith("Q0 "), "the first message is to stay"
        return says(f"re: {last.split()[0]} {_LONG}")

    return answer


def shorter_agent(effects: Effects, storage: Storage, summarising: Callable[[], None]) -> Agent[str]:
    provider = ScriptedProvider(_script(effects, summarising), verbatim=False)
    return Agent(provider, storage=storage, compactor="summarize", context_tokens=LIMIT)


async def play(job: Job, storage: Storage, effects: Effects) -> None:
    """To "fill" it until the next message is too much; or that message, which makes it shorter.

    With the act "ask" it is killed while the summary is asked for.
    """
    agent = shorter_agent(effects, storage, lambda: here(job, "summary") if job.act == "ask" else None)
    session = agent.session(job.session)
    if job.act == "fill":
        for at in range(TURNS - 1):
            await session.run(f"Q{at} ")
    else:
        await session.send(f"Q-last {_LONG[: len(_LONG) // 2]}", message_id="last")
        turn = await session.turn_result()
        assert turn.text.startswith("re: Q-last"), turn.error
    say(job, "done")
    await agent.close()


async def check_shorter(storage: Storage, session_id: str, effects: Effects) -> Counter[str]:
    """It was made shorter; the ledger keeps all, and the view is the same wherever it is read from."""
    entries = await entries_of(storage, session_id)
    assert len(of_kind(entries, TurnFinished)) == len(of_kind(entries, MessageReceived)) == TURNS
    assert len(of_kind(entries, MessageCompleted)) == TURNS
    compacted = of_kind(entries, Compacted)
    assert compacted
    asked = [line.name for line in effects.all("asked")]
    assert asked.count("summary") >= len([each for each in compacted if SUMMARY in str(each.head)]) >= 1
    opened, read = await Ledger.open(storage, session_id), Ledger(storage, session_id)
    await read.refresh()
    assert opened.fold.messages == read.fold.messages
    assert opened.fold.places == read.fold.places
    assert (opened.fold.usage, opened.fold.view_start) == (read.fold.usage, read.fold.view_start)
    again = Counter({"summaries again": asked.count("summary") - len(compacted)})
    return Counter(compactions=len(compacted)) + again
