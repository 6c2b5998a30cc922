"""Installs the programs of the system that the tests of sandboxes need: bubblewrap, podman, runc.

`make servers` runs it. They are Debian's own packages, fetched and checked by apt-get; what is there already
is left alone. Where this program may not install anything, it says so, and the tests that need what is
missing are skipped with the reason. Where `CI=true` it fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["PACKAGES", "found", "main", "missing"]

PACKAGES = {"bwrap": "bubblewrap", "podman": "podman", "runc": "runc"}
"""Each program, and the package that brings it."""

SYSTEM = ("/usr/sbin", "/sbin")
"""Where runc is, which is on no path but root's."""

LIMIT_S = 600.0
_TRIAL_S = 10.0
_INSTALL = ("install", "--yes", "--no-install-recommends")


def main() -> int:
    wanted = missing()
    if not wanted:
        return 0
    why = _install([PACKAGES[name] for name in wanted])
    left = missing()
    if not left:
        return 0
    names = ", ".join(PACKAGES[name] for name in left)
    print(f"==> not installed: {names}: {why or 'apt-get says that it has'}", file=sys.stderr)
    if os.environ.get("CI") == "true":
        return 1
    print("==> so some tests of sandboxes are skipped", file=sys.stderr)
    return 0


def missing() -> list[str]:
    return [name for name in PACKAGES if found(name) is None]


def found(name: str) -> str | None:
    """Where the program is."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM]))


def _install(packages: Sequence[str]) -> str:
    """Why it did not go; empty when it did."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get here: install them by hand"
    leave = _leave()
    if leave is None:
        return f"only root may: apt-get install {' '.join(packages)}"
    print(f"==> apt-get install {' '.join(packages)}", flush=True)
    apt = [*leave, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    # A new machine has no lists of packages yet, an old one has old ones: they are fetched where it fails.
    if not _run([*apt, *_INSTALL, *packages]):
        return ""
    return _run([*apt, "update"]) or _run([*apt, *_INSTALL, *packages])


def _leave() -> list[str] | None:
    """What stands before a command of root's; `None` where this program may run none."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None or _run(["sudo", "-n", "true"], _TRIAL_S):
        return None
    return ["sudo", "-n"]


def _run(command: Sequence[str], limit_s: float = LIMIT_S) -> str:
    """What went wrong; empty when nothing did."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {limit_s:g} s"
    said = (done.stderr or done.stdout).strip().splitlines()[-4:]
    return "" if done.returncode == 0 else "\n".join([f"it ended with {done.returncode}", *said])


if __name__ == "__main__":
    sys.exit(main())
