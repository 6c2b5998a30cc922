"""What the default install brings along: how many distributions, how many bytes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

from measure import Row, say

ROOT = Path(__file__).resolve().parents[1]
LIMIT_DISTRIBUTIONS = 18
LIMIT_MB = 30


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gnomon-bench-") as folder:
        say("install: building the wheel and installing it with its dependencies into a fresh environment")
        site = _installed(_wheel(Path(folder)), Path(folder) / "venv")
        names = sorted({_name(found.name) for found in distributions(path=[str(site)])} - {"gnomon"})
        size = sum(path.stat().st_size for path in site.rglob("*") if _counts(path))
    say(f"install: {', '.join(names)}")
    return [
        Row(
            what="default install: distributions besides gnomon",
            value=len(names),
            limit=LIMIT_DISTRIBUTIONS,
        ),
        Row(what="default install: bytes without byte code", value=size / 1e6, limit=LIMIT_MB, unit=" MB"),
    ]


def _wheel(folder: Path) -> Path:
    """The wheel of this tree, built with the hatchling that is installed here."""
    _quietly([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (wheel,) = folder.glob("gnomon-*.whl")
    return wheel


def _installed(wheel: Path, folder: Path) -> Path:
    """Where the packages are. The environment has no pip of its own, so there is none to leave out."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    _quietly([*pip, "install", "--quiet", "--no-compile", str(wheel)], cwd=folder)
    (site,) = (folder / "lib").glob("python*/site-packages")
    return site


def _quietly(command: list[str], *, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


def _name(name: str) -> str:
    return name.lower().replace("_", "-")
