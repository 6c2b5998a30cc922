"""Code that nobody has read: what it may not do is not done, and the model is told how it ended."""

import asyncio
import tempfile
from pathlib import Path

from gnomon import Agent
from gnomon.testing import ScriptedProvider, calls, says

CODE = """
import socket
try:
    print(open({key!r}).read())
except OSError as error:
    print("the key:", error.strerror)
try:
    socket.create_connection(("127.0.0.1", 22), timeout=1)
except OSError:
    print("no network")
sum(range(10))
"""


async def main() -> None:
    with tempfile.NamedTemporaryFile("w", dir=Path.cwd(), suffix=".key") as key:
        key.write("hunter2")
        key.flush()
        model = ScriptedProvider(
            [
                calls("python", code=CODE.format(key=key.name)),
                calls("shell", command="sleep 60 & sleep 60", timeout_s=0.5).expecting(result="no network"),
                says("It saw no key, and was ended on time.").expecting(result="its time of 0.5 s was up"),
            ]
        )
        agent = Agent(model, tools=["python", "shell"])  # with no workspace, they have an empty folder
        turn = await agent.run("Read the key, then wait for a minute.")
        await agent.close()
    for message in turn.messages:
        for result in message.tool_results:
            print(f"[{result.name}, held at level {result.meta['level']}]\n{result.text}")
            assert "hunter2" not in result.text
    print(turn.text)


asyncio.run(main())
