"""The tools that run things in a sandbox keep their word: on the rungs with bubblewrap and without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from gnomon.contracts.tool import Tool
from gnomon.sandboxes._survey import Protection
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.testing import ToolContract
from gnomon.tools.workspace import Workspace


def setup_module() -> None:
    """The process that starts commands is one for the whole program: no check is told that it has left it."""
    asyncio.run(_begin())


async def _begin() -> None:
    sandbox = ProcessSandbox(require="none")
    await sandbox.execute("true", [], 30)
    await sandbox.close()


class RunsSuite(ToolContract):
    """What they have in common: a workspace whose files are the effects that can be counted."""

    __test__ = False

    tool: ClassVar[str]
    without: ClassVar[tuple[Protection, ...]] = ()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        with TemporaryDirectory() as folder:
            self.folder = Path(folder)
            sandbox = ProcessSandbox(folder, without=self.without)
            try:
                async with Workspace(folder, sandbox=sandbox) as workspace:
                    yield workspace.tool(self.tool)
            finally:
                await sandbox.close()

    def effects(self) -> int | None:
        return sum(1 for _ in self.folder.glob("made*"))


class TestShell(RunsSuite):
    __test__ = True

    tool = "shell"
    arguments = '{"command": "mktemp made.XXXXXX >/dev/null; echo told; echo warned >&2"}'
    answer = "told\n[stderr]\nwarned"
    invalid = {
        "{}": "command",
        '{"command": 5}': "command",
        '{"command": " \\n "}': "command",
        '{"command": "touch made", "timeout_s": "long"}': "timeout_s",
        '{"command": "touch made", "timeout_s": 0}': "timeout_s",
        '{"command": "touch made", "cwd": "/"}': "cwd",
    }
    slow = '{"command": "sleep 1.5"}'


class TestShellWithoutBubblewrap(TestShell):
    without = ("bubblewrap",)


CODE = """
import sys, tempfile
made = tempfile.mkstemp(prefix="made", dir=".")
print("told")
print("warned", file=sys.stderr)
6 * 7
"""


class TestPython(RunsSuite):
    __test__ = True

    tool = "python"
    arguments = json.dumps({"code": CODE})
    answer = "told\n[stderr]\nwarned\n[value]\n42"
    invalid = {
        "{}": "code",
        '{"code": ["1"]}': "code",
        '{"code": "\\n"}': "code",
        '{"code": "open(\'made\', \'w\')", "timeout_s": -1}': "timeout_s",
        '{"code": "open(\'made\', \'w\')", "inputs": {}}': "inputs",
    }
    slow = '{"code": "import time; time.sleep(1.5)"}'


class TestPythonWithoutBubblewrap(TestPython):
    without = ("bubblewrap",)
