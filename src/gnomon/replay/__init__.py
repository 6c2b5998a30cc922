"""A session's ledger is a cassette: run the loop again on it, and hear of the first difference.

No model is asked and no tool is run: the answers and the results are those of the recording. The agent
is the one of now, so that a test can tell what a change to it would have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnomon.errors import InvalidInput
from gnomon.replay.provider import ReplayProvider
from gnomon.replay.recording import Recording, read_archive, read_store
from gnomon.replay.report import Difference, Replay, Skipped
from gnomon.replay.running import replayed

if TYPE_CHECKING:
    from gnomon.agent import Agent
    from gnomon.session.local import LocalSession

__all__ = [
    "Difference",
    "Recording",
    "Replay",
    "ReplayProvider",
    "Skipped",
    "read_archive",
    "read_store",
    "replay",
]


async def replay(
    source: LocalSession[Any] | Recording,
    *,
    agent: Agent[Any] | None = None,
    before: Agent[Any] | None = None,
) -> Replay:
    """How a recorded session goes again with `agent`; without one, with the agent of the session itself.

    `before` is the agent as it was then, where it is at hand: what was changed is named by it. For a
    session that is its own agent.
    """
    now = agent._definition if agent is not None else None  # pyright: ignore[reportPrivateUsage]
    was = before._definition if before is not None else None  # pyright: ignore[reportPrivateUsage]
    if isinstance(source, Recording):
        if now is None:
            raise InvalidInput(
                "a recording alone does not say which agent is to replay it", hint="give agent=…"
            )
        return await replayed(source, now, was)
    runtime = source._runtime  # pyright: ignore[reportPrivateUsage]
    recording = await read_store(await runtime.storage(), source.id)
    return await replayed(recording, now or runtime.agent, was or runtime.agent)
