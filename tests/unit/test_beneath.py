"""`Beneath`: nothing that is reached through a folder lies outside of it, by openat2 and by hand."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gnomon import _beneath
from gnomon._beneath import Beneath
from gnomon.errors import InvalidInput

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held open by descriptor")

LIMIT = 1_000_000
is_root = os.geteuid() == 0


@pytest.fixture(params=["openat2", "by hand"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test holds where the kernel follows paths, and where it cannot."""
    if request.param == "by hand":
        monkeypatch.setattr(_beneath, "openat2", lambda *_, **__: None)
    return str(request.param)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "file.txt").write_text("OUTSIDE")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "held"
    (made / "folder").mkdir(parents=True)
    (made / "file.txt").write_text("inside")
    (made / "folder" / "file.txt").write_text("deeper")
    return made


@pytest.fixture
def beneath(root: Path) -> Iterator[Beneath]:
    with Beneath(root) as made:
        yield made


def read(beneath: Beneath, path: str) -> bytes | None:
    return beneath.read(path, limit_bytes=LIMIT)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- paths ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file.txt", b"inside"),
        ("./file.txt", b"inside"),
        ("folder//file.txt", b"deeper"),
        ("folder/../file.txt", b"inside"),
        ("folder/./../folder/file.txt", b"deeper"),
        ("nothing.txt", None),
        ("nothing/file.txt", None),
        ("file.txt/file.txt", None),
    ],
)
def test_a_path_inside_is_read(path: str, content: bytes | None, beneath: Beneath) -> None:
    assert read(beneath, path) == content


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/file.txt",
        "../held/file.txt",
        "folder/../../outside/file.txt",
        "./../outside/file.txt",
        "folder/../../../../../../../../etc/hostname",
        "/etc/hostname",
        "//etc/hostname",
        "/",
    ],
)
def test_a_path_that_leads_out_is_refused(path: str, beneath: Beneath, outside: Path) -> None:
    before = everything(outside)
    for use in (
        lambda: read(beneath, path),
        lambda: beneath.canonical(path),
        lambda: beneath.write(path, b"x"),
    ):
        with pytest.raises(InvalidInput, match=r"cannot be used: it leads out of its folder"):
            use()
    assert everything(outside) == before


def test_a_whole_path_that_lies_inside_is_taken(beneath: Beneath, root: Path) -> None:
    assert read(beneath, f"{root}/folder/file.txt") == b"deeper"
    assert beneath.canonical(str(root)) == "."
    with pytest.raises(InvalidInput, match="leads out"):
        read(beneath, f"{root}/../outside/file.txt")
    with pytest.raises(InvalidInput, match="leads out"):
        read(beneath, f"{root}x/file.txt")


def test_a_whole_path_by_the_name_that_was_given_is_taken(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    with Beneath(tmp_path / "link") as beneath:
        assert read(beneath, f"{tmp_path}/link/file.txt") == b"inside"
        assert read(beneath, f"{root}/file.txt") == b"inside"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "it is empty"),
        ("file\0.txt", "it has a NUL in it"),
        ("a" * 300, "file name too long"),
        ("a/" * 3000, "it is too long"),
        ("\ud800", "it is no name that a file can have"),
    ],
)
def test_what_is_no_path_is_refused(path: str, why: str, beneath: Beneath) -> None:
    for use in (lambda: read(beneath, path), lambda: beneath.write(path, b"x")):
        with pytest.raises(InvalidInput, match=why) as caught:
            use()
        assert len(str(caught.value)) < 400


def test_a_name_that_is_not_utf8_is_a_name_like_others(beneath: Beneath, root: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        beneath.write(name, b"latin")
    except InvalidInput:
        pytest.skip("this file system takes UTF-8 names only")
    assert read(beneath, name) == b"latin"
    assert os.listdir(os.fsencode(root)).count(b"caf\xe9.txt") == 1
    assert name in beneath.files(limit=10)


def test_a_message_shows_a_path_without_what_moves_a_cursor(beneath: Beneath) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(beneath, "../\x1b[2Jx\n")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_way_of_many_folders_is_refused_before_it_takes_every_descriptor(beneath: Beneath) -> None:
    open_before = len(os.listdir("/dev/fd"))
    with pytest.raises(InvalidInput, match="more than 200 folders deep"):
        beneath.write("a/" * 1000 + "file.txt", b"x")
    assert len(os.listdir("/dev/fd")) == open_before


def test_links_whose_targets_are_full_of_dots_take_no_time(beneath: Beneath, root: Path) -> None:
    """By hand each name is looked at: what is there for the guard to count must not grow with its square."""
    for number in range(30):
        (root / f"link{number}").symlink_to(f"{root}/link{number + 1}" + "/." * 1900)
    (root / "link30").symlink_to("folder")
    started = time.process_time()
    assert read(beneath, "link0/file.txt") == b"deeper"
    assert time.process_time() - started < 5


# --- links ----------------------------------------------------------------------


def linked(root: Path, outside: Path) -> None:
    (root / "out").symlink_to(outside)
    (root / "out_by_dots").symlink_to("../outside")
    (root / "out_file").symlink_to(outside / "file.txt")
    (root / "out_dangling").symlink_to(outside / "new.txt")
    (root / "folder" / "up").symlink_to("../../outside")
    (root / "twice").symlink_to("out")
    (root / "in").symlink_to("folder")
    (root / "in_whole").symlink_to(root / "folder")
    (root / "in_file").symlink_to("folder/file.txt")
    (root / "in_dangling").symlink_to("made/new.txt")
    (root / "folder" / "back").symlink_to("..")
    (root / "round").symlink_to("round")
    (root / "round_a").symlink_to("round_b/x")
    (root / "round_b").symlink_to("round_a/y")


@pytest.mark.parametrize(
    "path",
    [
        "out/file.txt",
        "out_by_dots/file.txt",
        "out_file",
        "out_dangling",
        "folder/up/file.txt",
        "twice/file.txt",
        "in/up/file.txt",
        "in_whole/up/new.txt",
        "folder/back/out/file.txt",
        "folder/back/folder/back/out/new/file.txt",
    ],
)
def test_a_link_that_leads_out_is_refused(path: str, beneath: Beneath, root: Path, outside: Path) -> None:
    linked(root, outside)
    before = everything(outside)
    for use in (
        lambda: read(beneath, path),
        lambda: beneath.canonical(path),
        lambda: beneath.write(path, b"x"),
    ):
        with pytest.raises(InvalidInput, match="leads out"):
            use()
    assert everything(outside) == before
    assert os.listdir(outside) == ["file.txt"]


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("in/file.txt", "folder/file.txt"),
        ("in_whole/file.txt", "folder/file.txt"),
        ("in_file", "folder/file.txt"),
        ("folder/back/in/file.txt", "folder/file.txt"),
        ("in/back/file.txt", "file.txt"),
    ],
)
def test_a_link_that_stays_inside_is_followed(
    path: str, canonical: str, beneath: Beneath, root: Path, outside: Path
) -> None:
    linked(root, outside)
    assert beneath.canonical(path) == canonical
    assert read(beneath, path) == (root / canonical).read_bytes()
    beneath.write(path, b"new")
    assert (root / canonical).read_bytes() == b"new"
    assert not (root / canonical).is_symlink()
    with pytest.raises(InvalidInput, match="there is a link on its way"):
        beneath.read(path, limit_bytes=LIMIT, links=False)
    with pytest.raises(InvalidInput, match="there is a link on its way"):
        beneath.write(path, b"x", links=False)
    assert (root / canonical).read_bytes() == b"new"


def test_links_that_lead_round_are_refused(beneath: Beneath, root: Path, outside: Path) -> None:
    linked(root, outside)
    for path in ("round", "round/x", "round_a"):
        for use in (lambda path=path: read(beneath, path), lambda path=path: beneath.write(path, b"x")):
            with pytest.raises(InvalidInput, match="lead round in circles"):
                use()


# --- what is not there yet --------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("new.txt", "new.txt"),
        ("new/deep/file.txt", "new/deep/file.txt"),
        ("in/new/file.txt", "folder/new/file.txt"),
        ("in_dangling", "made/new.txt"),
        ("folder/back/new/file.txt", "new/file.txt"),
    ],
)
def test_a_new_file_is_judged_and_put_by_what_is_there_of_its_way(
    path: str, canonical: str, beneath: Beneath, root: Path, outside: Path
) -> None:
    linked(root, outside)
    assert beneath.canonical(path) == canonical
    beneath.write(path, b"new")
    assert (root / canonical).read_bytes() == b"new"


def test_a_way_up_from_what_is_not_there_is_refused(beneath: Beneath, root: Path) -> None:
    for path in ("new/../../outside/file.txt", "new/../file.txt"):
        with pytest.raises(InvalidInput):
            beneath.canonical(path)
    with pytest.raises(InvalidInput, match="leads out"):
        beneath.write("new/../../outside/new.txt", b"x")
    assert not (root.parent / "outside").exists()


# --- links that are put there meanwhile ---------------------------------------------


SWAPPING = """
import ctypes, os, sys
place, target = sys.argv[1:]
other, here, exchange = place + ".other", -100, 2

def folders():
    names = os.fsencode(place), os.fsencode(other)
    if ctypes.CDLL(None).renameat2(here, names[0], here, names[1], exchange) != 0:
        sys.exit("no two folders can change places here")

def files():  # each is put in the place of whatever is there, also of what was just written
    os.symlink(target, other)
    os.replace(other, place)
    with open(other, "w") as file:
        file.write("inside")
    os.replace(other, place)

swap = files
if os.path.isdir(place):
    os.symlink(target, other)
    swap = folders
swap()
print("swapping", flush=True)
while os.getppid() == int(os.environ["PARENT"]):
    swap()
"""


@contextmanager
def swapping(place: Path, target: Path) -> Iterator[None]:
    """A process that puts a link in the place of what is there, and back, as fast as it can."""
    command = [sys.executable, "-c", SWAPPING, str(place), str(target)]
    env = {**os.environ, "PARENT": str(os.getpid())}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        if child.stdout.readline().strip() != "swapping":
            pytest.skip(child.stderr.read().strip())
        yield
    finally:
        child.kill()
        child.wait(20)
        child.stdout.close()
        child.stderr.close()


def tried(attempt: Callable[[], object], naive: Callable[[], bool]) -> set[object]:
    """What was had, of trying until it was both had and refused often, and who has no guard was led out."""
    had: set[object] = set()
    done, refused, led_out = 0, 0, False
    ends = time.monotonic() + 60
    while not (led_out and done >= 100 and refused >= 100):
        assert time.monotonic() < ends, f"done {done}, refused {refused}, led out without a guard: {led_out}"
        try:
            had.add(attempt())
            done += 1
        except InvalidInput:
            refused += 1
        led_out = led_out or naive()
    return had


def says(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except OSError:
        return False


def test_a_folder_that_is_swapped_for_a_link_leads_nobody_out(
    beneath: Beneath, root: Path, outside: Path
) -> None:
    place = root / "folder"
    with swapping(place, outside):
        had = tried(lambda: read(beneath, "folder/file.txt"), lambda: says(place / "file.txt", "OUTSIDE"))
    assert had == {b"deeper"}


def test_a_file_that_is_swapped_for_a_link_leads_nobody_out(
    beneath: Beneath, root: Path, outside: Path
) -> None:
    place = root / "file.txt"
    with swapping(place, outside / "file.txt"):
        had = tried(lambda: read(beneath, "file.txt"), lambda: says(place, "OUTSIDE"))
    assert had == {b"inside"}


@pytest.mark.parametrize("name", ["folder", "file.txt"])
def test_nothing_is_written_outside_while_links_are_swapped(
    name: str, beneath: Beneath, root: Path, outside: Path
) -> None:
    path, seen = ("folder/new/file.txt", "folder/file.txt") if name == "folder" else (name, name)
    with swapping(root / name, outside if name == "folder" else outside / "file.txt"):
        tried(lambda: beneath.write(path, b"written"), lambda: says(root / seen, "OUTSIDE"))
    assert everything(outside) == {"file.txt": b"OUTSIDE"}
    assert os.listdir(outside) == ["file.txt"]


def test_a_folder_that_is_moved_away_is_still_the_one_that_is_held(
    beneath: Beneath, root: Path, outside: Path
) -> None:
    root.rename(root.with_name("moved"))
    root.symlink_to(outside)
    assert read(beneath, "file.txt") == b"inside"
    beneath.write("new.txt", b"new")
    assert (root.with_name("moved") / "new.txt").read_bytes() == b"new"
    assert everything(outside) == {"file.txt": b"OUTSIDE"}


# --- what is no file ------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what was opened")
def test_a_pipe_is_never_opened(beneath: Beneath, root: Path) -> None:
    """Nor for a moment: whoever waits at its other end would go on."""
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    with opens_of(root / "pipe") as seen:
        for path in ("pipe", "link"):
            for use in (lambda path=path: read(beneath, path), lambda path=path: beneath.write(path, b"x")):
                with pytest.raises(InvalidInput, match="it is not a regular file"):
                    use()
        assert not seen()
        os.close(os.open(root / "pipe", os.O_RDONLY | os.O_NONBLOCK))
        assert seen()
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)


@contextmanager
def opens_of(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether somebody has opened it, by the kernel's word."""
    libc, when_opened = ctypes.CDLL(None, use_errno=True), 0x20
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(watch, os.fsencode(path), when_opened) >= 0

    def seen() -> bool:
        try:
            return bool(os.read(watch, 4096))
        except BlockingIOError:
            return False

    try:
        yield seen
    finally:
        os.close(watch)


def test_a_device_and_a_socket_are_refused(root: Path) -> None:
    import socket

    with Beneath("/dev") as devices:
        for path in ("null", "zero", "tty"):
            with pytest.raises(InvalidInput, match=r"it is not a regular file|no such"):
                read(devices, path)
        with pytest.raises(InvalidInput, match="it is not a regular file"):
            devices.write("null", b"x")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server, Beneath(root) as beneath:
        os.chdir(root)  # a whole path may be too long for a socket
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        with pytest.raises(InvalidInput, match="it is not a regular file"):
            read(beneath, "socket")


def test_a_folder_is_no_file(beneath: Beneath, root: Path) -> None:
    for path in ("folder", ".", "folder/.."):
        with pytest.raises(InvalidInput, match="it is a folder"):
            read(beneath, path)
        with pytest.raises(InvalidInput, match="it is a folder"):
            beneath.write(path, b"x")
    with pytest.raises(InvalidInput, match="it is a folder"):
        beneath.write("new/", b"x")
    assert not (root / "new").exists()


def test_a_file_that_is_too_large_is_not_read(beneath: Beneath, root: Path) -> None:
    (root / "large").write_bytes(b"x" * 1001)
    with pytest.raises(InvalidInput, match="larger than 1,000 bytes"):
        beneath.read("large", limit_bytes=1000)
    assert beneath.read("large", limit_bytes=1001) == b"x" * 1001


# --- writing ----------------------------------------------------------------------------


def test_the_mode_of_a_file_is_kept_and_a_new_one_has_the_usual(beneath: Beneath, root: Path) -> None:
    (root / "file.txt").chmod(0o4750)
    beneath.write("file.txt", b"new")
    assert stat.S_IMODE((root / "file.txt").stat().st_mode) == 0o750  # whoever set its bits did not mean this
    umask = os.umask(0o027)
    try:
        beneath.write("new.txt", b"new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((root / "new.txt").stat().st_mode) == 0o640
    beneath.write("run.sh", b"#!/bin/sh\n", mode=0o755)
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755


@pytest.mark.skipif(not is_root, reason="only root can give files away")
def test_what_root_writes_belongs_to_whom_the_file_or_folder_does(beneath: Beneath, root: Path) -> None:
    os.chown(root, 4321, 4322)
    os.chown(root / "file.txt", 1234, 1235)
    beneath.write("file.txt", b"new")
    beneath.write("made/deep/new.txt", b"new")
    owners = {
        path: (os.stat(root / path).st_uid, os.stat(root / path).st_gid)
        for path in ("file.txt", "made", "made/deep", "made/deep/new.txt")
    }
    assert owners.pop("file.txt") == (1234, 1235)
    assert set(owners.values()) == {(4321, 4322)}


@pytest.mark.skipif(not is_root, reason="only root can give files away")
@pytest.mark.parametrize(
    ("may_keep_group", "before", "after"),
    [(True, 0o660, 0o660), (False, 0o660, 0o600), (False, 0o664, 0o644), (False, 0o755, 0o755)],
)
def test_what_a_group_might_do_counts_for_no_other_group(
    may_keep_group: bool,
    before: int,
    after: int,
    beneath: Beneath,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    os.chown(root / "file.txt", 1234, 4321)
    (root / "file.txt").chmod(before)
    give = os.fchown

    def as_a_plain_user(file: int, user: int, group: int) -> None:
        if user != -1 or not may_keep_group:
            raise PermissionError
        give(file, user, group)

    monkeypatch.setattr(os, "fchown", as_a_plain_user)
    beneath.write("file.txt", b"new")
    facts = (root / "file.txt").stat()
    assert facts.st_gid == (4321 if may_keep_group else os.getegid())
    assert stat.S_IMODE(facts.st_mode) == after


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """As Linux keeps it: what kind of entry it is, what is allowed, and to whom."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def with_list(path: Path, kind: str, entries: tuple[tuple[int, int, int], ...]) -> bytes:
    if sys.platform != "linux":
        pytest.skip("lists of who may do what are told in another way here")
    try:
        os.setxattr(path, f"system.posix_acl_{kind}", access_list(*entries))
    except OSError:
        pytest.skip("the file system keeps no lists of who may do what")
    return access_list(*entries)


NOBODY = 0xFFFFFFFF
ONE_MORE_USER = ((1, 6, NOBODY), (2, 6, 1234), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY))


def test_a_list_of_who_may_do_what_is_kept(
    beneath: Beneath, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bounds stand in the mode, where without it they are rights of the group."""
    before = with_list(root / "file.txt", "access", ONE_MORE_USER)
    assert stat.S_IMODE((root / "file.txt").stat().st_mode) == 0o660
    beneath.write("file.txt", b"new")
    assert os.getxattr(root / "file.txt", "system.posix_acl_access") == before
    assert stat.S_IMODE((root / "file.txt").stat().st_mode) == 0o660

    def not_here(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setxattr", not_here)
    beneath.write("file.txt", b"newer")
    assert stat.S_IMODE((root / "file.txt").stat().st_mode) == 0o600


def test_a_file_gets_no_list_of_its_folder_that_it_did_not_have(beneath: Beneath, root: Path) -> None:
    (root / "file.txt").chmod(0o660)
    with_list(root, "default", ONE_MORE_USER)
    beneath.write("file.txt", b"new")
    assert "system.posix_acl_access" not in os.listxattr(root / "file.txt")
    assert stat.S_IMODE((root / "file.txt").stat().st_mode) == 0o660


@pytest.mark.skipif(is_root, reason="root may write to every file")
def test_a_file_that_is_write_protected_is_left(beneath: Beneath, root: Path) -> None:
    (root / "file.txt").chmod(0o444)
    with pytest.raises(InvalidInput, match="it is write-protected"):
        beneath.write("file.txt", b"new")
    assert (root / "file.txt").read_bytes() == b"inside"


def test_another_name_of_a_file_keeps_what_it_had(beneath: Beneath, root: Path) -> None:
    os.link(root / "file.txt", root / "twin.txt")
    beneath.write("file.txt", b"new")
    assert (root / "twin.txt").read_bytes() == b"inside"


def test_a_file_that_was_changed_since_is_left(beneath: Beneath, root: Path) -> None:
    stamp = beneath.stamp("file.txt")
    assert stamp is not None
    beneath.write("file.txt", b"first", unless_changed=stamp)
    with pytest.raises(InvalidInput, match="it was changed meanwhile"):
        beneath.write("file.txt", b"second", unless_changed=stamp)
    assert (root / "file.txt").read_bytes() == b"first"
    (root / "file.txt").unlink()
    with pytest.raises(InvalidInput, match="it was removed meanwhile"):
        beneath.write("file.txt", b"third", unless_changed=stamp)
    assert beneath.stamp("file.txt") is None
    assert sorted(os.listdir(root)) == ["folder"]


def test_a_file_that_is_to_be_new_takes_the_place_of_none(beneath: Beneath, root: Path) -> None:
    beneath.write("made/new.txt", b"first", is_new=True)
    for path in ("made/new.txt", "file.txt"):
        with pytest.raises(InvalidInput, match="it was made meanwhile"):
            beneath.write(path, b"second", is_new=True)
    assert everything(root)["made/new.txt"] == b"first"
    assert sorted(os.listdir(root / "made")) == ["new.txt"]


# What is killed on its way: half of the draft is written, all of it is, and it is in its place.
POINTS = {
    "half written": "def half(file, data): os.write(file, data[: len(data) // 2]); die()\nb._write = half",
    "before it takes its place": "os.replace = lambda *_, **__: die()",
    "after that": "put = os.replace\ndef after(*a, **k): put(*a, **k); die()\nos.replace = after",
}


@pytest.mark.parametrize("point", POINTS)
def test_a_write_that_is_killed_leaves_the_old_file_or_the_new_one(point: str, way: str, root: Path) -> None:
    script = f"""
import os, signal, sys
from gnomon import _beneath as b
def die(): os.kill(os.getpid(), signal.SIGKILL)
{"b.openat2 = lambda *_, **__: None" if way == "by hand" else ""}
{POINTS[point]}
b.Beneath(sys.argv[1]).write("file.txt", b"n" * 100_000)
"""
    done = subprocess.run([sys.executable, "-c", script, str(root)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    wanted = b"n" * 100_000 if point.startswith("after") else b"inside"
    assert (root / "file.txt").read_bytes() == wanted
    left = [name for name in os.listdir(root) if name not in ("file.txt", "folder")]
    assert all(name.startswith(".gnomon-") and name.endswith(".tmp") for name in left)


FULL = """
import os, resource, sys
from gnomon import _beneath as b
from gnomon.errors import InvalidInput
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
if sys.argv[3] == "by hand":
    b.openat2 = lambda *_, **__: None
beneath = b.Beneath(sys.argv[1])
beneath.write("file.txt", b"old")
try:
    beneath.write("file.txt", b"n" * 1_000_000)
except InvalidInput as error:
    print(error)
assert beneath.read("file.txt", limit_bytes=100) == b"old"
assert [name for name in os.listdir(sys.argv[1]) if name.startswith(".gnomon")] == []
"""


def test_a_file_that_may_not_be_so_large_leaves_the_old_one(way: str, root: Path) -> None:
    command = [sys.executable, "-c", FULL, str(root), "limit", way]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "file too large" in done.stdout


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, of util-linux")
def test_a_full_disk_leaves_the_old_file(way: str, root: Path) -> None:
    mount = 'mount -t tmpfs -o size=64k none "$1" && exec "$0" -c "$2" "$1" disk "$3"'
    command = ["unshare", "-Urm", "sh", "-c", mount, sys.executable, str(root), FULL, way]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "no space left on device" in done.stdout


# --- listing, closing ---------------------------------------------------------------------


def test_files_are_listed_in_order_and_no_link_is_followed(
    beneath: Beneath, root: Path, outside: Path
) -> None:
    linked(root, outside)
    os.mkfifo(root / "pipe")
    (root / "b").mkdir()
    (root / "b" / "z.txt").write_text("")
    (root / "b.txt").write_text("")
    assert beneath.files(limit=100) == ["b.txt", "b/z.txt", "file.txt", "folder/file.txt"]
    assert beneath.files(limit=2) == ["b.txt", "b/z.txt"]


def test_a_folder_that_was_closed_is_not_used(beneath: Beneath) -> None:
    beneath.close()
    beneath.close()
    for use in (
        lambda: read(beneath, "file.txt"),
        lambda: beneath.write("file.txt", b"x"),
        lambda: beneath.canonical("file.txt"),
        lambda: beneath.stamp("file.txt"),
    ):
        with pytest.raises(InvalidInput, match="has been closed"):
            use()
    assert beneath.files(limit=10) == []


def test_a_folder_that_is_closed_while_it_is_used_is_let_go_of_afterwards(
    beneath: Beneath, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The number of a descriptor that was closed is soon another's, which would then be looked into."""
    taken: list[int] = []
    real = _beneath.openat2

    def closing(folder: int, path: str, flags: int, mode: int, *, links: bool) -> int | None:
        if not taken:
            beneath.close()
            taken.append(os.open(outside, os.O_RDONLY | os.O_DIRECTORY))
        return real(folder, path, flags, mode, links=links)

    monkeypatch.setattr(_beneath, "openat2", closing)
    try:
        assert read_while_closing(beneath) == b"inside"
    finally:
        os.close(taken[0])
    with pytest.raises(InvalidInput, match="has been closed"):
        read(beneath, "file.txt")


def read_while_closing(beneath: Beneath) -> bytes:
    found = beneath.open("file.txt", os.O_RDONLY)
    try:
        return os.read(found, 100)
    finally:
        os.close(found)


def test_a_folder_that_is_none_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, why in (("nothing", "no such file"), ("file", "not a directory")):
        with pytest.raises(InvalidInput, match=why):
            Beneath(tmp_path / name)
    with pytest.raises(InvalidInput, match="it is empty"):
        Beneath("")


def test_nothing_is_left_open(root: Path, outside: Path) -> None:
    linked(root, outside)
    before = len(os.listdir("/dev/fd"))
    with Beneath(root) as beneath:
        for path in (
            "file.txt",
            "in/up/file.txt",
            "round",
            "folder",
            "in_whole/file.txt",
            "no/such",
            "out_file",
        ):
            for use in (
                lambda path=path: read(beneath, path),
                lambda path=path: beneath.write(path, b"x"),
                lambda path=path: beneath.canonical(path),
                lambda path=path: beneath.stamp(path),
            ):
                with suppress(InvalidInput):
                    use()
    assert len(os.listdir("/dev/fd")) == before
