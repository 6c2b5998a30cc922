"""A process is killed in the middle of a turn; the next one goes on where it stopped.

Run without arguments, this starts itself twice: the first is killed while its second tool runs.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from gnomon import Agent, tool
from gnomon.testing import ScriptedProvider, calls, says


def script(request: object) -> object:
    """In place of a real model: it books, then writes a letter, then says that it is done."""
    done = sum(len(message.tool_results) for message in request.messages)
    return [calls("book", room=12), calls("write", to="Ada"), says("Booked, and Ada knows.")][done]


async def main(folder: Path, is_killed: bool) -> None:
    @tool
    def book(room: int) -> str:
        """Book a room."""
        (folder / "effects").open("a").write(f"booked {room}\n")
        return "booked"

    @tool(idempotent=True)
    def write(to: str) -> str:
        """Write a letter; the same letter twice is one letter."""
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "effects").open("a").write(f"wrote to {to}\n")
        return "sent"

    storage = f"sqlite:///{folder / 'trips.db'}"
    async with Agent(ScriptedProvider(script), tools=[book, write], storage=storage) as agent:
        session = agent.session("trip-to-oslo")
        if is_killed:
            await session.send("Book room 12 and tell Ada.")
        turn = await session.turn_result()  # goes on with what is open
        print(turn.text)


def show() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for how in ("killed", "resumed"):
            ended = subprocess.run([sys.executable, __file__, folder, how], timeout=60, check=False)
            print(f"the {how} one ended with {ended.returncode}")
        effects = Path(folder, "effects").read_text().splitlines()
        assert effects == ["booked 12", "wrote to Ada"], effects


if len(sys.argv) == 3:
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "killed"))
else:
    show()
