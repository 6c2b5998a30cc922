"""CPU seconds a tool step of LangGraph with its SQLite saver; run by a Python that has both.

    python bench/langgraph_loop.py      reads how many loops and how many at once, answers with seconds a step

A loop is a thread of its own with ten calls of one plain tool, by a model in the same process. A step is
an answer with a call and its result: what an agent of theirs does, two nodes, each with a checkpoint that
is durable before it goes on.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.messages import AIMessage, HumanMessage  # pyright: ignore[reportMissingImports]
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # pyright: ignore[reportMissingImports]
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingImports]
from langgraph.prebuilt import ToolNode, tools_condition  # pyright: ignore[reportMissingImports]

STEPS = 10


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def model(state: MessagesState) -> dict[str, Any]:
    done = sum(message.type == "tool" for message in state["messages"])
    if done == STEPS:
        return {"messages": [AIMessage("done")]}
    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": f"call_{done + 1}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def graph(saver: AsyncSqliteSaver) -> Any:
    made = StateGraph(MessagesState)
    made.add_node("model", model)
    made.add_node("tools", ToolNode([add]))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


async def loop(made: Any) -> None:
    config = {"configurable": {"thread_id": f"thread-{time.monotonic_ns()}"}, "recursion_limit": 100}
    ended = await made.ainvoke({"messages": [HumanMessage("add")]}, config, durability="sync")
    assert len(ended["messages"]) == 2 * STEPS + 2


async def loops(folder: str, count: int, together: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(f"{folder}/saver.db") as saver:
        await saver.setup()
        await saver.conn.execute("PRAGMA synchronous = FULL")
        made = graph(saver)
        gc.collect()
        start = time.process_time()
        for _ in range(0, count, together):
            await asyncio.gather(*(loop(made) for _ in range(together)))
        return (time.process_time() - start) / (count * STEPS)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder, asyncio.Runner() as runner:
        for line in sys.stdin:
            print(runner.run(loops(folder, *map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
