"""`Skills`: folders with a `SKILL.md`, of which a model reads what a task needs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from os import PathLike

from gnomon._fence import fenced
from gnomon._threads import run_in_thread
from gnomon._trust import one_line, real_path
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import InvalidInput, ToolFailed
from gnomon.skills._files import files_in, read_inside
from gnomon.skills._reading import SKILL_FILE, SKILL_LIMIT_BYTES, Found, Skill, read_skills
from gnomon.skills._trusting import is_inside, is_trusted, not_trusted
from gnomon.tools.function import tool

__all__ = ["FILE_LIMIT_BYTES", "Skills"]

log = logging.getLogger("gnomon.skills")

FILE_LIMIT_BYTES = 256 * 1024

_HEAD = (
    "Skills hold instructions for certain tasks. When a task fits the description of one, call the tool "
    "`skill` with its name before anything else, and follow what it says."
)


class Skills:
    """Skills in folders, read when they are asked for.

    ```python
    skills = Skills([".agents/skills"])
    ```

    Each path is a skill, a folder with a `SKILL.md` in it, or a folder of such folders; of two skills of one
    name the first counts. The model is told their names and descriptions, and reads the rest with the tools
    `skill` and `skill_file`. Files are read anew each turn, and what is told changes only when they do.

    Nothing is read from a folder that the user does not trust (`NotTrusted`); `trusted=True` stands for it in
    code. A skill that is not as it should be is left out: `problems` say why, and so does the log.
    """

    def __init__(
        self,
        paths: Sequence[str | PathLike[str]],
        *,
        trusted: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(paths, str | bytes | PathLike):
            raise TypeError("skills are given as a list of folders, not as one: write [path]")
        self._folders = [_folder(path) for path in paths]
        self._is_vouched = trusted
        self._env = env
        for folder in self._folders:
            if not self._may_read(folder):
                raise not_trusted(folder)
        self.problems: tuple[str, ...] = ()
        self._has_any = bool(self._read().skills)

    def tools(self) -> tuple[Tool, ...]:
        """`skill` and `skill_file`; none when there were no skills."""
        return (self.skill, self.skill_file) if self._has_any else ()

    async def instructions(self, context: ToolContext) -> str:
        """What the model is told at the start of a turn: which skills there are."""
        found = await run_in_thread(self._read, name="skills")
        listed = [f"- {skill.name}: {skill.description}" for skill in found.skills.values()]
        return fenced("skills", "\n".join((_HEAD, *listed))) if listed else ""

    @tool(read_only=True, max_output_chars=2 * SKILL_LIMIT_BYTES)  # half of an instruction is none
    def skill(self, name: str) -> str:
        """Read the instructions of a skill.

        Args:
            name: the name of the skill, as it is listed
        """
        wanted = self._named(name)
        files = files_in(wanted.folder, but=SKILL_FILE)
        listed = f"\n\nFiles, to be read with skill_file: {', '.join(files)}" if files else ""
        return fenced("skill", f"# {wanted.name}\n\n{wanted.body}{listed}")

    @tool(read_only=True)
    def skill_file(self, name: str, path: str) -> str:
        """Read a file of a skill.

        Args:
            name: the name of the skill
            path: the file, as the skill names it, such as references/forms.md
        """
        wanted = self._named(name)
        try:
            return read_inside(wanted.folder, path, limit_bytes=FILE_LIMIT_BYTES)
        except InvalidInput as error:
            raise ToolFailed(str(error)) from error

    def _named(self, name: str) -> Skill:
        skills = self._read().skills
        if name not in skills:
            there = ", ".join(skills) or "none any longer"
            raise ToolFailed(f"there is no skill {one_line(name, most=80)!r}; there are: {there}")
        return skills[name]

    def _read(self) -> Found:
        """The skills as they are now. What is wrong is said once, and not each turn."""
        trusted = [folder for folder in self._folders if self._may_read(folder)]
        found = read_skills(trusted, self._may_read)
        lost = [str(not_trusted(folder)) for folder in self._folders if folder not in trusted]
        problems = (*lost, *found.problems)
        for problem in problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = problems
        return found

    def _may_read(self, folder: str) -> bool:
        if self._is_vouched:
            return any(is_inside(folder, root) for root in self._folders)
        return is_trusted(folder, self._env)


def _folder(path: str | PathLike[str]) -> str:
    real = real_path(os.path.expanduser(os.fspath(path)))
    if not os.path.isdir(real):
        raise InvalidInput(f"{one_line(os.fspath(path))} is not a folder of skills, or does not exist")
    return real
