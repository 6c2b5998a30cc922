"""What of the host a command may read: programs, libraries, the settings they need; no home, no key."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["DEVICES", "SYSTEM", "interpreters", "make_etc", "reachable", "search_path", "system_links"]

SYSTEM = ("/usr", "/nix/store", "/gnu/store")
"""Folders of programs."""
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

_FOLDERS_OF_ETC = (
    "alternatives",
    "ssl",
    "ca-certificates",
    "pki",
    "fonts",
    "terminfo",
    "java-17-openjdk",
    "perl",
)
_FILES_OF_ETC = (
    "debian_version",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "services",
    "timezone",
)
_MOST_BYTES = 4_000_000


def system_links() -> tuple[list[tuple[str, str]], list[str]]:
    """Of the folders at the top that hold programs: links with what they point to, and real folders."""
    links: list[tuple[str, str]] = []
    folders: list[str] = []
    for path in _TOP:
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            folders.append(path)
    return links, [*(path for path in SYSTEM if os.path.isdir(path)), *folders]


def interpreters() -> list[str]:
    """The folders of the Python that runs this, so that a command can run it too."""
    found = {os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, sys.exec_prefix)}
    return sorted(path for path in found if path not in ("/", "/usr") and not path.startswith("/usr/"))


def search_path() -> str:
    """Where programs are looked for: beside this Python first, so that `python` is the one that runs this."""
    own = [os.path.dirname(sys.executable)] if sys.executable else []
    usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    return os.pathsep.join(dict.fromkeys([*own, *usual]))


def make_etc(folder: Path, *, user: int, group: int, home: str) -> list[str]:
    """Settings as a command may see them, in a folder of their own; the host's folders to show in it."""
    _write(folder / "passwd", f"sandbox:x:{user}:{group}:sandbox:{home}:/bin/sh\n")
    _write(folder / "group", f"sandbox:x:{group}:\n")
    _write(folder / "hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n")
    _write(folder / "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    _write(folder / "resolv.conf", "")
    for name in _FILES_OF_ETC:
        _copy(Path("/etc") / name, folder / name)
    shown = [name for name in _FOLDERS_OF_ETC if (Path("/etc") / name).is_dir()]
    for name in shown:
        (folder / name).mkdir()
    return [f"/etc/{name}" for name in shown]


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def _copy(source: Path, target: Path) -> None:
    with suppress(OSError):  # what is not there is not missed
        if source.is_file() and source.stat().st_size < _MOST_BYTES:
            shutil.copyfile(source, target)
            target.chmod(0o644)


def reachable(paths: Iterable[str], user: int, groups: Sequence[int]) -> Iterator[str]:
    """Those that another user can get to: each folder above may be passed through."""
    for path in paths:
        above = [*reversed(Path(path).parents), Path(path)]
        if all(_may_pass(folder, user, groups) for folder in above):
            yield path


def _may_pass(folder: Path, user: int, groups: Sequence[int]) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    shift = 6 if found.st_uid == user else 3 if found.st_gid in groups else 0
    return bool(stat.S_IMODE(found.st_mode) >> shift & 1)
