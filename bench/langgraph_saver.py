"""CPU seconds a step of LangGraph's `AsyncSqliteSaver`; run by a Python that has it.

    python bench/langgraph_saver.py SESSIONS STEPS

A step is what a graph of one node saves: a checkpoint, and the writes of the node, of some 500 bytes.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

TEXT = "The tide comes in twice a day. " * 15


async def _steps(saver: AsyncSqliteSaver, thread: str, steps: int) -> None:
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    for step in range(steps):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"text": TEXT}
        checkpoint["channel_versions"] = {"text": str(step + 1)}
        saved = await saver.aput(
            config, checkpoint, {"source": "loop", "step": step}, {"text": str(step + 1)}
        )
        await saver.aput_writes(saved, [("text", TEXT)], f"task-{step}")
        config = saved


async def main(sessions: int, steps: int) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/saver.db") as saver:
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous = FULL")
            await asyncio.gather(*(_steps(saver, f"warm-{at}", 1) for at in range(sessions)))
            gc.collect()
            start = time.process_time()
            await asyncio.gather(*(_steps(saver, f"thread-{at}", steps) for at in range(sessions)))
            return (time.process_time() - start) / (sessions * steps)


if __name__ == "__main__":
    print(asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]))))
