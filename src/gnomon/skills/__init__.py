"""Folders of instructions for an agent: skills (`SKILL.md`), and what a project says (`AGENTS.md`)."""

from gnomon.skills.project import ProjectInstructions
from gnomon.skills.skills import Skills

__all__ = ["ProjectInstructions", "Skills"]
