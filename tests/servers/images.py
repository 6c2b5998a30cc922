"""A small image for containers, made of programs of this machine: there is no registry to be asked.

It has a shell, the usual small programs and the Python that runs this. It is put together once a machine, in
the cache folder, and imported by each engine that has not got it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from .install import fetch

__all__ = ["NAME", "archive", "import_into"]

_PROGRAMS = (  # noqa: SIM905 - three lines instead of seventy
    "sh bash cat ls echo printf sleep id true false env mkdir rmdir rm cp mv ln touch head tail wc grep sed"
    " awk dd tr sort uniq seq chmod stat readlink realpath yes tee find setsid nohup timeout uname df du ps"
    " kill mount hostname date pwd test basename dirname xargs nproc mkfifo sync truncate whoami base64 od"
    " cmp tar gzip"
).split()
_UNUSED = ("test", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "site-packages", "__pycache__")
_RECIPE = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()[:12]
NAME = f"localhost/gnomon-test:{_RECIPE}"


def archive() -> Path:
    """The image as a tar file."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gnomon-test-servers")
    folder = cache / f"image-{_RECIPE}"
    fetch(folder, _fill)
    return folder / "root.tar"


def import_into(*engine: str) -> str:
    known = subprocess.run([*engine, "image", "inspect", NAME], capture_output=True, check=False)
    if known.returncode != 0:
        done = subprocess.run([*engine, "import", str(archive()), NAME], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
    return NAME


def _fill(made: Path) -> None:
    root = made / "root"
    for folder in ("usr/bin", "usr/lib", "etc", "proc", "sys", "dev", "run", "var", "root", "workspace"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to("usr/lib" if link == "lib64" else f"usr/{link}")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "tmp/of-the-image").touch()  # which commands should not find
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    programs = [*_copy_programs(root), *_copy_python(root)]
    for library in sorted(_libraries(programs)):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(library, target)
    with tarfile.open(made / "root.tar", "w") as tar:
        tar.add(root, ".", filter=_of_root)
    shutil.rmtree(root)


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _copy_programs(root: Path) -> list[str]:
    copied: list[str] = []
    for name in _PROGRAMS:
        if found := shutil.which(name, path="/usr/bin:/bin"):
            shutil.copy(os.path.realpath(found), root / "usr/bin" / name)
            copied.append(found)
    return copied


def _copy_python(root: Path) -> list[str]:
    """The interpreter below this environment, with its library and without what no test imports."""
    program = os.path.realpath(sys.executable)
    library = Path(sysconfig.get_paths()["stdlib"])
    target = root / "usr/lib" / library.name
    shutil.copy(program, root / "usr/bin/python3")
    shutil.copytree(library, target, ignore=shutil.ignore_patterns(*_UNUSED, "config-*"), symlinks=False)
    return [program, *(str(path) for path in target.glob("lib-dynload/*.so"))]


def _libraries(programs: list[str]) -> set[str]:
    """The shared libraries that they are linked with, by the paths under which they are looked for."""
    found: set[str] = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {word for word in listed.split() if word.startswith("/")}
    return found
