"""Which skills are in some folders, as the files are now.

The rules are those of the Agent Skills format (agentskills.io/specification): a folder with a `SKILL.md`,
whose head has a `name` (1 to 64 small letters, digits and single hyphens, as the folder is called) and a
`description` (1 to 1,024 characters).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from unicodedata import normalize

from gnomon._trust import one_line, real_path
from gnomon.errors import InvalidInput
from gnomon.skills._files import read_inside
from gnomon.skills._front_matter import split_front_matter

__all__ = [
    "LONGEST_DESCRIPTION",
    "LONGEST_LIST",
    "LONGEST_NAME",
    "MOST_SKILLS",
    "SKILL_FILE",
    "SKILL_LIMIT_BYTES",
    "Found",
    "Skill",
    "read_skills",
]

SKILL_FILE = "SKILL.md"
SKILL_LIMIT_BYTES = 64 * 1024
MOST_SKILLS = 100
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_LIST = 32_000
"""Of all names and descriptions together, in characters: they stand in every prompt."""


class Skill(NamedTuple):
    """A skill as its file says it."""

    name: str
    description: str
    body: str
    folder: str


class Found(NamedTuple):
    """The skills by name, and what was wrong with those that are not among them."""

    skills: dict[str, Skill]
    problems: tuple[str, ...]


def read_skills(folders: Sequence[str], vouched: Callable[[str], bool]) -> Found:
    """The skills of the folders: of two of one name, the first. `vouched` says what may be read."""
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for folder in folders:
        for place in _places(folder):
            try:
                skill = _skill(place, vouched)
                _check_new(skill, skills)
            except InvalidInput as error:
                problems.append(f"a skill is left out: {error}")
            else:
                skills[skill.name] = skill
    return Found(dict(sorted(skills.items())), tuple(problems))


def _places(folder: str) -> Iterator[str]:
    """The folder, if it is a skill itself; else those in it that are."""
    if os.path.lexists(os.path.join(folder, SKILL_FILE)):
        yield folder
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # it is gone, and its skills with it
    for name in names:
        place = os.path.join(folder, name)
        if not name.startswith(".") and os.path.lexists(os.path.join(place, SKILL_FILE)):
            yield place


def _skill(place: str, vouched: Callable[[str], bool]) -> Skill:
    real, where = real_path(place), one_line(os.path.join(place, SKILL_FILE))
    if not vouched(real):
        raise InvalidInput(f"{one_line(place)} is a link to {one_line(real)}, which is not trusted")
    try:
        text = read_inside(real, SKILL_FILE, limit_bytes=SKILL_LIMIT_BYTES)
    except InvalidInput as error:
        raise InvalidInput(f"{one_line(place)}: {error.message}", hint=error.hint) from None
    head, body = split_front_matter(where, text)
    name = _name(where, head.get("name", ""), {os.path.basename(place), os.path.basename(real)})
    return Skill(name, _description(where, head.get("description", "")), body, real)


def _name(where: str, said: str, folders: set[str]) -> str:
    name = normalize("NFKC", said[: 4 * LONGEST_NAME]).strip()
    is_plain = all(c == "-" or c.isalnum() for c in name) and name == name.lower()
    if not 0 < len(name) <= LONGEST_NAME or not is_plain or "--" in f"-{name}-":
        hint = f"1 to {LONGEST_NAME} small letters and digits, with single hyphens between them"
        raise InvalidInput(f"{where}: `name` is {one_line(said, most=80)!r}", hint=hint)
    if name not in {normalize("NFKC", folder) for folder in folders}:
        raise InvalidInput(
            f"{where}: `name` is {name!r}, and the folder is called otherwise", hint="name both alike"
        )
    return name


def _description(where: str, said: str) -> str:
    """On one line: it stands in a list."""
    description = " ".join(said.split())
    if not 0 < len(description) <= LONGEST_DESCRIPTION:
        hint = "say in a sentence or two what the skill is for, and when to use it"
        found = f"has {len(description)} characters, and 1 to {LONGEST_DESCRIPTION} are allowed"
        raise InvalidInput(f"{where}: `description` {found}", hint=hint)
    return description


def _check_new(skill: Skill, known: dict[str, Skill]) -> None:
    if skill.name in known:
        other = one_line(known[skill.name].folder)
        raise InvalidInput(
            f"{one_line(skill.folder)} is called {skill.name!r}, as {other} is, which comes first"
        )
    listed = sum(len(other.name) + len(other.description) for other in (skill, *known.values()))
    if len(known) >= MOST_SKILLS or listed > LONGEST_LIST:
        most = f"{MOST_SKILLS} skills are the most, and {LONGEST_LIST} characters to list them"
        raise InvalidInput(f"{one_line(skill.folder)} is one too many: {most}")
