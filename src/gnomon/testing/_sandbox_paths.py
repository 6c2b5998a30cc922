"""Files that go in and out: nothing that a command leaves behind leads this side astray (X2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from gnomon.contracts.sandbox import Sandbox, SupportsFiles
from gnomon.errors import GnomonError, InvalidInput
from gnomon.testing._sandbox_host import Folder
from gnomon.testing._sandbox_suite import MB, SandboxSuite, expect_ok, files_of, raised, sh
from gnomon.testing._suite import expect
from gnomon.types.steps import ExecResult

__all__ = ["SandboxPaths"]

_SWAPS_S = 1.0
_HUGE = "dd if=/dev/zero of=huge bs=1 count=1 seek=900000000 2> /dev/null; mkfifo pipe; mkdir folder"
_ODD = ("a b", "crème", "new\nline", "-rf", "*", "'", "\\", ".hidden", "deep/er/file")


class SandboxPaths(SandboxSuite):
    """The part of the suite about paths."""

    # --- in

    async def test_files_are_there_before_the_command_starts(self) -> None:
        """By their paths from where it starts, with folders made for them; what was there is replaced."""
        async with self.open() as sandbox:
            files = {"a.txt": b"one", "deep/er/b.bin": b"\0\xff"}
            result = await sh(sandbox, "cat a.txt deep/er/b.bin", files=files)
            expect("the files of a command", b"one\0\xff", result.stdout)
            result = await sh(sandbox, "pwd; cat b.bin a.txt", cwd="deep/er", files={"a.txt": b"two"})
            lines = result.text.splitlines()
            expect("where it starts", True, bool(lines) and lines[0].endswith("/deep/er"))
            expect("the files of a command below", b"\0\xfftwo", result.stdout[len(lines[0]) + 1 :])
            result = await sh(sandbox, "cat a.txt", files={"a.txt": b"three"})
            expect("a file that was there", b"three", result.stdout)
            expect_ok("a file that a command changes", await sh(sandbox, "echo four > deep/er/b.bin"))

    async def test_a_path_that_leads_out_is_refused(self) -> None:
        """X2: upwards, from the root, or to no file at all; nothing is written and nothing run."""
        async with self.open() as sandbox:
            with Folder() as host:
                for path in _ways_out(host):
                    await _expect_refused(sandbox, path)
                host.expect_untouched("after all that was refused")
            expect("what was run", "", (await sh(sandbox, "ls -d run; exit 0")).text)

    async def test_a_link_that_leads_out_is_refused(self) -> None:
        """X2: to a folder, to a file, upwards, round in a circle, and through /proc."""
        async with self.open() as sandbox:
            with Folder() as host:
                await sh(sandbox, _LINKS, host.path, host.file)
                paths = ["to-folder/new", "to-folder/secret", "to-file", "up/new", "up/up/new", "near/new"]
                for path in [
                    *paths,
                    "circle",
                    "circle/new",
                    "process/new",
                    "process/cwd/../new",
                    "root/tmp/new",
                ]:
                    await _expect_refused(sandbox, path)
                for cwd in ("to-folder", "up", "near", "circle", "root", "process", "root/tmp"):
                    found = await raised(sh(sandbox, "exit 0", cwd=cwd))
                    expect(f"the error for the folder {cwd!r}", InvalidInput, type(found))
                host.expect_untouched("after all that was refused")

    async def test_a_folder_to_start_in_that_leads_out_is_refused(self) -> None:
        """X2: or that is none."""
        async with self.open() as sandbox:
            await sh(sandbox, ": > file")
            with Folder() as host:
                for cwd in ("..", "../..", "/", "/tmp", host.path, "missing", "file", "a/../..", "a\0b"):  # noqa: S108
                    found = await raised(sh(sandbox, "echo > run", cwd=cwd))
                    expect(f"the error for the folder {cwd!r}", InvalidInput, type(found))
            expect("what is there", "file\n", (await sh(sandbox, "ls")).text)

    async def test_what_is_no_file_is_not_written_over(self) -> None:
        """X2: a pipe would wait for ever."""
        async with self.open() as sandbox:
            await sh(sandbox, "mkfifo pipe; mkdir folder")
            for path in ("pipe", "folder", "pipe/new"):
                await _expect_refused(sandbox, path)

    # --- out

    async def test_files_are_read_and_listed(self) -> None:
        """By their paths in the workspace, in order, whatever their names are."""
        async with self.open() as sandbox:
            outside = files_of(self, sandbox)
            expect("the files of an empty workspace", [], list(await outside.list_files()))
            expect_ok("files", await sh(sandbox, "exit 0", files={name: name.encode() for name in _ODD}))
            expect("the files that are there", sorted(_ODD), list(await outside.list_files()))
            for name in _ODD:
                expect(f"what is in {name!r}", name.encode(), await outside.read_file(name))
            expect("at most so many of them", sorted(_ODD)[:3], list(await outside.list_files(limit=3)))
            expect("a file that is not there", None, await outside.read_file("missing"))
            expect("a file in no folder", None, await outside.read_file("missing/file"))

    async def test_nothing_outside_is_read_or_listed(self) -> None:
        """X2: by no path, and through no link that a command has left."""
        async with self.open() as sandbox:
            outside = files_of(self, sandbox)
            with Folder() as host:
                await sh(sandbox, "mkdir -p a/b")
                for path in _ways_out(host):
                    found = await raised(outside.read_file(path))
                    expect(f"the error for {path!r}", InvalidInput, type(found))
                await sh(sandbox, _LINKS, host.path, host.file)
                paths = (
                    "to-folder/secret",
                    "to-file",
                    "up/etc/passwd",
                    "circle",
                    "process/environ",
                    "root/etc/passwd",
                )
                for path in paths:
                    found = await raised(outside.read_file(path))
                    expect(f"the error for {path!r}", InvalidInput, type(found))
                expect("the files that are listed", [], list(await outside.list_files()))

    async def test_what_is_no_file_or_too_large_is_not_read(self) -> None:
        """X2: at once, since a pipe waits for ever, and this side has no memory to lose."""
        async with self.open() as sandbox:
            outside = files_of(self, sandbox)
            await sh(sandbox, _HUGE)
            for path in ("pipe", "folder"):
                found = await asyncio.wait_for(raised(outside.read_file(path)), 10)
                expect(f"whether {path} is read", True, found is None or isinstance(found, InvalidInput))
            expect_ok("a file", await sh(sandbox, "exit 0", files={"small": b"x" * 1000}))
            expect("a file of its limit", b"x" * 1000, await outside.read_file("small", limit_bytes=1000))
            for path, limit in (("small", 999), ("huge", 16 * MB)):
                found = await raised(outside.read_file(path, limit_bytes=limit))
                expect(f"the error for {path}, of more than {limit}", InvalidInput, type(found))

    # --- while it changes

    async def test_links_that_change_all_the_time_lead_nowhere(self) -> None:
        """X2: a folder becomes a link out and a folder again, while it is read from and written to."""
        async with self.open() as sandbox:
            with Folder() as host:
                await sh(sandbox, 'mkdir one; ln -s "$1" two', host.path)
                swapping = asyncio.ensure_future(sh(sandbox, _SWAP, timeout_s=30))
                try:
                    # Where a command can get out by itself, it need not be led there.
                    is_walled = {"files_read", "files_write"} <= set(self.holds)
                    await _while_it_swaps(sandbox, host, is_walled)
                finally:
                    await sh(sandbox, ": > stop")
                    await swapping
                host.expect_untouched("after all that")


_LINKS = """
ln -s "$1" to-folder; ln -s "$2" to-file; ln -s .. up; ln -s ../. near; ln -s circle circle
ln -s /proc/self process; ln -s / root
"""

_SWAP = """
exec 2> /dev/null
at=0; while [ ! -e stop ] && [ $at -lt 20000 ]; do
mv -T one there; mv -T there one; mv -T two there; mv -T there two; at=$((at + 1)); done
"""


async def _while_it_swaps(sandbox: Sandbox, host: Folder, is_walled: bool) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _SWAPS_S
    while loop.time() < end:
        for attempt in _attempts(sandbox, is_walled):
            with suppress(GnomonError):
                found = await attempt()
                expect("whether the secret is told", False, host.secret in _text(found))


def _attempts(sandbox: Sandbox, is_walled: bool) -> Iterator[Callable[[], Awaitable[object]]]:
    if isinstance(sandbox, SupportsFiles):
        yield from [lambda: sandbox.read_file("there/secret")] * 40
        yield sandbox.list_files
    yield lambda: sh(sandbox, "exit 0", files={"there/new": b"here"})
    if is_walled:
        yield lambda: sh(sandbox, "cat secret; echo > new", cwd="there")


def _text(found: object) -> str:
    if isinstance(found, ExecResult):
        return found.text
    return found.decode(errors="replace") if isinstance(found, bytes) else ""


def _ways_out(host: Folder) -> list[str]:
    up = "../" * 40
    return [
        *("../new", "a/../../new", "./../new", "a/b/../../../new", "..", "../"),
        *(host.file, host.path + "/new", "/tmp/new", up + host.file, up.rstrip("/") + host.file, "a\0b", ""),  # noqa: S108
        *("/proc/self/environ", "/proc/self/cwd/../new"),
    ]


async def _expect_refused(sandbox: Sandbox, path: str) -> None:
    found = await raised(sh(sandbox, "echo > run", files={"fine": b"", path: b"here"}))
    expect(f"the error for the file {path!r}", InvalidInput, type(found))
