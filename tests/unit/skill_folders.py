"""Folders of skills for tests, on a machine of their own: a home, and a project that is trusted or not."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import trust

GOOD = "---\nname: {name}\ndescription: {description}\n---\n{body}\n"


class Place:
    """A home folder and a project in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        (self.project / ".git").mkdir(parents=True)
        self.env = {"HOME": str(self.home)}

    @property
    def skills(self) -> Path:
        return self.project / ".agents" / "skills"

    def trust(self, folder: Path | None = None) -> None:
        settings = (folder or self.project) / ".gnomon" / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text('model = "demo"\n')
        trust(folder or self.project, env=self.env)

    def lose_trust(self) -> None:
        (self.project / ".gnomon" / "config.toml").write_text('model = "another"\n')

    def add(
        self,
        name: str,
        *,
        description: str = "Does things.",
        body: str = "Do it.",
        text: str | None = None,
        into: Path | None = None,
        called: str | None = None,
    ) -> Path:
        """A skill, by default in the project; `text` is the whole of its file."""
        folder = (into or self.skills) / name
        folder.mkdir(parents=True, exist_ok=True)
        said = GOOD.format(name=called or name, description=description, body=body) if text is None else text
        (folder / "SKILL.md").write_text(said, "utf-8")
        return folder
