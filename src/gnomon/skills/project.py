"""`ProjectInstructions`: what the `AGENTS.md` files of a project say."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from os import PathLike

from gnomon._fence import fenced
from gnomon._threads import run_in_thread
from gnomon._trust import decoded, home_folder, one_line, read_file, real_path
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import InvalidInput
from gnomon.skills._trusting import is_inside, is_trusted, not_trusted

__all__ = ["LIMIT_BYTES", "ProjectInstructions"]

log = logging.getLogger("gnomon.skills")

LIMIT_BYTES = 32 * 1024
"""Of all files together."""

FILE_NAME = "AGENTS.md"


class ProjectInstructions:
    """The `AGENTS.md` of a folder and of those above it, up to the root of the repository, outermost first.

    ```python
    project = ProjectInstructions(".")
    ```

    The root is the nearest folder with a `.git`; without one, the folder stands alone. Files are whole or
    left out: of more than `limit_bytes` the nearest to the folder are kept, and the model is told which are
    missing. They are read anew each turn, and the text changes only when they do.

    Nothing is read from a folder that the user does not trust (`NotTrusted`); `trusted=True` stands for it
    in code. What cannot be shown is left out: `problems` say why, and so does the log.
    """

    def __init__(
        self,
        folder: str | PathLike[str] = ".",
        *,
        trusted: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = real_path(os.path.expanduser(os.fspath(folder)))
        if not os.path.isdir(self._folder):
            raise InvalidInput(f"{one_line(os.fspath(folder))} is not a folder, or does not exist")
        self._is_vouched = trusted
        self._limit_bytes = limit_bytes
        self._env = os.environ if env is None else env
        self.problems: tuple[str, ...] = ()
        for path in self._paths():
            if not self._may_read(path):
                raise not_trusted(os.path.dirname(path))
        self._text()

    def tools(self) -> tuple[Tool, ...]:
        """None: it is all told at once."""
        return ()

    async def instructions(self, context: ToolContext) -> str:
        """What the model is told at the start of a turn."""
        return await run_in_thread(self._text, name="instructions")

    def _text(self) -> str:
        said: list[str] = []
        problems: list[str] = []
        left = self._limit_bytes
        for path in self._paths():  # the nearest first: what is most particular is kept
            shown = os.path.relpath(path, self._root())
            try:
                text = self._read(path, left)
            except InvalidInput as error:
                problems.append(f"{one_line(path)} is left out: {error}")
                text = "(it cannot be shown)"
            left -= len(text.encode())
            if text:
                said.append(f"## {one_line(shown)}\n\n{text}")
        self._tell(problems)
        return fenced("project_instructions", "\n\n".join(reversed(said))) if said else ""

    def _read(self, path: str, left_bytes: int) -> str:
        if not self._may_read(path):
            raise InvalidInput("its folder is no longer trusted")
        real = real_path(path)
        if not is_inside(real, self._root()):
            raise InvalidInput("it is a link that leads out of the project")
        content = read_file(real, limit_bytes=self._limit_bytes) or b""
        if len(content) > left_bytes:
            raise InvalidInput(f"with it there would be more than {self._limit_bytes} bytes")
        return decoded(one_line(path), content).strip()

    def _may_read(self, path: str) -> bool:
        return self._is_vouched or is_trusted(os.path.dirname(path), self._env)

    def _tell(self, problems: list[str]) -> None:
        """Once, and not each turn."""
        for problem in problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = tuple(problems)

    def _root(self) -> str:
        """The nearest folder with a `.git`, short of the home folder; else the folder itself."""
        home = home_folder(self._env)
        stop = real_path(home) if home else None
        for folder in _upward(self._folder):
            if folder == stop:
                break
            if os.path.lexists(os.path.join(folder, ".git")):
                return folder
        return self._folder

    def _paths(self) -> list[str]:
        """The files that are there, the nearest first."""
        root, found = self._root(), list[str]()
        for folder in _upward(self._folder):
            path = os.path.join(folder, FILE_NAME)
            if os.path.lexists(path):
                found.append(path)
            if folder == root:
                break
        return found


def _upward(folder: str) -> Iterator[str]:
    """The folder and all above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above
