"""What a command sees and changes of the host: files, variables, processes, devices, the kernel (X2, X5)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress

from gnomon.contracts.sandbox import Sandbox
from gnomon.testing import _sandbox_programs as attack
from gnomon.testing._sandbox_host import Bystander, Folder, homes, variable
from gnomon.testing._sandbox_suite import (
    SandboxSuite,
    attempts,
    expect_nothing,
    expect_ok,
    run,
    sh,
)
from gnomon.testing._suite import expect

__all__ = ["SandboxSecrets"]

_KILLED = 137
_COMMON = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "USER",
    "_",
}
"""Variables whose values may well be the same here and there."""


class SandboxSecrets(SandboxSuite):
    """The part of the suite about the host's own."""

    # --- files

    async def test_no_file_of_the_host_is_read(self) -> None:
        """X2: by its path, upwards from the workspace, through links of each kind and through /proc."""
        self.needs("files_read")
        async with self.open() as sandbox:
            with Folder() as host, Bystander() as other:
                pids = [other.pid, os.getpid()]
                told = await attempts(self, sandbox, attack.read_files, host.file, host.secret, pids)
                expect_nothing("read by a command", told)

    async def test_no_open_file_of_the_host_is_inherited(self) -> None:
        """X2: also one that this program has left open for its children."""
        self.needs("files_read")
        with Folder() as host:
            left_open = os.open(host.file, os.O_RDONLY)
            try:
                os.set_inheritable(left_open, True)
                async with self.open() as sandbox:
                    told = await attempts(self, sandbox, attack.read_descriptors, host.secret)
                    expect_nothing("read by a command", told)
            finally:
                os.close(left_open)

    async def test_no_home_and_no_password_is_read(self) -> None:
        """X2: neither of this user nor of root, nor what the machine keeps for itself."""
        self.needs("home")
        async with self.open() as sandbox:
            expect_nothing("read by a command", await attempts(self, sandbox, attack.same_files, homes()))

    async def test_no_file_of_the_host_is_changed(self) -> None:
        """X2: nothing is made, written, renamed or removed outside, nor in the folders of the system."""
        self.needs("files_write")
        name = f"gnomon-{secrets.token_hex(8)}"
        marks = [f"{folder}/{name}" for folder in ("", "/etc", "/usr", "/usr/bin", "/var", "/var/tmp")]  # noqa: S108
        try:
            async with self.open() as sandbox:
                with Folder() as host, Bystander() as other:
                    pids = [other.pid, os.getpid()]
                    await attempts(self, sandbox, attack.change_files, host.path, host.file, pids, marks)
                    host.expect_untouched("after a command")
                    expect_nothing("made on the host", _there(marks))
        finally:
            _remove(marks)

    async def test_no_mode_owner_or_time_of_a_file_of_the_host_is_changed(self) -> None:
        """X2: what is not read and not written can still be made useless."""
        self.needs("files_write")
        async with self.open() as sandbox:
            with Folder() as host:
                await attempts(self, sandbox, attack.change_modes, host.path, host.file)
                host.expect_untouched("after a command")

    # --- the environment

    async def test_nothing_of_the_environment_leaks_in(self) -> None:
        """X5: a command sees what it is given, and what the sandbox makes for it."""
        self.needs("environment")
        with variable() as (name, secret):
            async with self.open() as sandbox:
                result = await run(sandbox, "env", env={"GIVEN": "a b=c"})
                expect_ok("env", result)
                seen = _variables(result.text)
        expect("a variable that it is given", "a b=c", seen.get("GIVEN"))
        expect("a secret of the host's environment", (False, False), (name in seen, secret in str(seen)))
        same = {key for key, value in seen.items() if len(value) > 3 and os.environ.get(key) == value}
        expect("variables that are the host's", [], sorted(same - _COMMON))

    # --- other processes

    async def test_no_process_of_the_host_is_looked_into(self) -> None:
        """X2: what /proc tells of them: arguments, environment, memory, open files."""
        self.needs("proc")
        async with self.open() as sandbox:
            with Bystander() as other:
                pids = [other.pid, os.getpid(), os.getppid()]
                told = await attempts(self, sandbox, attack.find_word, other.secret[::-1], pids)
                told += await attempts(self, sandbox, attack.peek, [other.pid], _places(other.pid))
                expect_nothing("seen by a command", told)

    async def test_no_process_of_the_host_is_traced(self) -> None:
        """X2: nobody attaches to it, and nobody reads its memory."""
        self.needs("ptrace")
        async with self.open() as sandbox:
            with Bystander() as other:
                told = await attempts(self, sandbox, attack.trace, [other.pid])
                expect_nothing("done by a command", told)
                other.expect_unharmed("after a command")

    async def test_no_signal_reaches_a_process_of_the_host(self) -> None:
        """X2: by its number, by its group, or to all at once; first with one that does no harm."""
        self.needs("signals")
        async with self.open() as sandbox:
            with Bystander() as other:
                pids = [other.pid]
                await attempts(self, sandbox, attack.signal_others, pids)
                other.expect_unharmed("after a harmless signal to it")
                await attempts(self, sandbox, attack.signal_all)
                other.expect_unharmed("after a harmless signal to all")
                await _kill_all(sandbox, other.pid)
                other.expect_unharmed("after a killing signal to all")
                expect_ok("the next command", await sh(sandbox, "exit 0"))

    async def test_no_limit_of_a_process_of_the_host_is_changed(self) -> None:
        """X2: one without files or without time is as good as killed."""
        self.needs("signals")
        async with self.open() as sandbox:
            with Bystander() as other:
                await attempts(self, sandbox, attack.limit_others, [other.pid])
                other.expect_unharmed("after a command")

    # --- the machine

    async def test_no_device_is_opened_or_made(self) -> None:
        """X2: but for those that every program needs."""
        self.needs("devices")
        async with self.open() as sandbox:
            expect_nothing("devices", await attempts(self, sandbox, attack.open_devices, _disks()))
            usual = "echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c"
            result = await sh(sandbox, usual)
            expect("what the usual devices give", ["4", "4"], result.text.split())

    async def test_the_kernel_is_not_asked_for_what_no_program_needs(self) -> None:
        """X2: keys, namespaces, mounts, tracing, io_uring, odd sockets: holes are made of these."""
        self.needs("kernel")
        async with self.open() as sandbox:
            expect_nothing("calls that went well", await attempts(self, sandbox, attack.ask_the_kernel))

    async def test_no_privileges_are_had_or_gained(self) -> None:
        """X2: no capabilities, and setuid programs give none."""
        self.needs("privileges")
        async with self.open() as sandbox:
            expect_nothing("privileges", await attempts(self, sandbox, attack.gain_privileges))


def _places(pid: int) -> dict[str, list[int]]:
    """Which folders and files a process of the host has."""
    found: dict[str, list[int]] = {}
    for name in ("cwd", "exe", "root"):
        facts = os.stat(f"/proc/{pid}/{name}")
        found[name] = [facts.st_dev, facts.st_ino]
    return found


async def _kill_all(sandbox: Sandbox, pid: int) -> None:
    """The real thing, once it is known not to get out."""
    script = f"kill -9 {pid}; kill -9 $PPID; kill -9 -1; sleep 0.1; exit 3"
    result = await sh(sandbox, script, timeout_s=10)
    if result.exit_code not in (_KILLED, 3):  # it has killed itself, or was not even allowed to do that
        raise AssertionError(f"a command that kills all there is: expected 137, found {result.exit_code}")


def _variables(text: str) -> Mapping[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _disks() -> list[str]:
    """The disks of this machine."""
    try:
        return sorted(os.listdir("/sys/class/block"))[:20]
    except OSError:
        return ["sda", "vda", "nvme0n1"]


def _there(paths: list[str]) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


def _remove(paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)
