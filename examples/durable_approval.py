"""One process asks for leave and exits; another gives it; a third does what was allowed.

Run without arguments, this starts itself three times. Between two of them nothing runs: what is waited for
stands in the store.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from gnomon import Agent, TurnUnfinished, tool
from gnomon.testing import ScriptedProvider, calls, says


def script(request: object) -> object:
    """In place of a real model: it wants to pay, and then says that it has."""
    return says("Paid.") if request.messages[-1].tool_results else calls("pay", to="Ada", amount=120)


async def main(folder: Path, what: str) -> None:
    @tool
    def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        (folder / "paid").open("a").write(f"{amount} to {to}\n")
        return "paid"

    storage = f"sqlite:///{folder / 'shop.db'}"
    async with Agent(ScriptedProvider(script), tools=[pay], permissions="ask", storage=storage) as agent:
        session = agent.session("order-17")
        if what == "ask":
            try:
                await session.run("Pay Ada for the order.")
            except TurnUnfinished as waits:
                print(f"asked: {waits.summary}")
        elif what == "approve":
            (asked,) = await session.approvals()
            print(f"to decide: {asked.call.name} {asked.call.arguments} ({asked.reason})")
            # The hash makes sure that what is approved is what was shown.
            await session.approve(asked.approval_id, by="grace", arguments_hash=asked.arguments_hash)
        else:
            print((await session.turn_result()).text)


def show() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for what in ("ask", "approve", "go on"):
            subprocess.run([sys.executable, __file__, folder, what], timeout=60, check=True)
        assert Path(folder, "paid").read_text() == "120 to Ada\n"


if len(sys.argv) == 3:
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
else:
    show()
