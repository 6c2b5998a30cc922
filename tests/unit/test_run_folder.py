"""The folder of the sockets: private, or none; and who may have a name in it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from gnomon.session import _run_folder
from gnomon.session._run_folder import is_our_socket, listening_at, peer_uid, run_folder, socket_path


@pytest.fixture
def place(monkeypatch):
    """A folder for temporary things with a short path: a socket's has little room."""
    with tempfile.TemporaryDirectory(prefix="g") as made:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def fallback(place: Path) -> Path:
    return place / f"gnomon-{os.geteuid()}"


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def dead_socket(path: Path) -> Path:
    """What a killed process leaves."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path


# --- the folder ---------------------------------------------------------------


def test_the_folder_is_made_for_this_user_alone(place) -> None:
    umask = os.umask(0)
    try:
        assert run_folder() == fallback(place)
    finally:
        os.umask(umask)
    assert mode(fallback(place)) == 0o700
    assert run_folder() == fallback(place)


def test_the_folder_of_the_login_is_preferred(place, monkeypatch) -> None:
    (place / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "run"))
    assert run_folder() == place / "run" / "gnomon"
    assert mode(place / "run" / "gnomon") == 0o700
    assert not fallback(place).exists()


@pytest.mark.parametrize("runtime", ["", "run", "/nowhere/at/all", "/dev/null"])
def test_a_folder_of_the_login_that_cannot_be_used_is_passed_over(place, monkeypatch, runtime) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert run_folder() == fallback(place)


def test_a_folder_that_others_may_enter_is_mended(place) -> None:
    fallback(place).mkdir()
    fallback(place).chmod(0o777)
    assert run_folder() == fallback(place)
    assert mode(fallback(place)) == 0o700


def test_a_folder_that_stays_open_to_others_is_refused(place, monkeypatch) -> None:
    """As on file systems that take a mode and forget it."""
    fallback(place).mkdir()
    fallback(place).chmod(0o750)
    monkeypatch.setattr(os, "fchmod", lambda handle, mode: None)
    assert run_folder() is None


def test_a_link_to_a_folder_is_refused(place) -> None:
    (place / "elsewhere").mkdir(mode=0o700)
    fallback(place).symlink_to(place / "elsewhere")
    assert run_folder() is None
    assert socket_path("owner") is None


def test_a_file_in_its_place_is_refused(place) -> None:
    fallback(place).touch()
    assert run_folder() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(place) -> None:
    fallback(place).mkdir(mode=0o700)
    os.chown(fallback(place), 12345, 12345)
    assert run_folder() is None


def test_a_folder_whose_sockets_would_have_too_long_a_path_is_refused(place, monkeypatch) -> None:
    long = place / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert run_folder() is None
    assert list(long.iterdir()) == []


def test_there_is_none_without_unix_sockets(place, monkeypatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    assert run_folder() is None


def test_there_is_none_without_a_folder_for_temporary_things(place, monkeypatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert run_folder() is None


def test_an_owner_has_one_path_that_fits_and_no_other_has_it(place) -> None:
    paths = [socket_path(owner) for owner in ("a", "b", "x" * 5000, "../../etc", "\ud800", "")]
    assert len(set(paths)) == len(paths)
    assert all(path.parent == fallback(place) and len(os.fsencode(path)) <= 103 for path in paths)
    assert socket_path("a") == paths[0]


# --- a name in it ---------------------------------------------------------------


async def test_the_socket_is_for_this_user_alone(place) -> None:
    path = socket_path("owner")
    umask = os.umask(0)
    try:
        with await listening_at(path):
            assert mode(path) == 0o600
            assert is_our_socket(path)
    finally:
        os.umask(umask)


async def test_a_name_somebody_listens_behind_is_not_taken(place) -> None:
    path = socket_path("owner")
    with await listening_at(path) as first:
        before = os.lstat(path).st_ino
        with pytest.raises(OSError) as refused:
            await listening_at(path)
        assert refused.value.errno == errno.EADDRINUSE
        assert os.lstat(path).st_ino == before
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            for _ in range(2):  # the one who asked whether somebody is there, and the client
                first.accept()[0].close()


async def test_one_who_is_too_busy_to_answer_is_alive(place) -> None:
    path = socket_path("owner")
    run_folder()
    waiting = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        try:
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(str(path))
        except BlockingIOError:
            pass
        with pytest.raises(OSError) as refused:
            await listening_at(path)
        assert refused.value.errno == errno.EADDRINUSE
        for client in waiting:
            client.close()


@pytest.mark.parametrize("swept", [0, 64])
async def test_the_file_of_a_dead_owner_is_replaced(place, monkeypatch, swept) -> None:
    monkeypatch.setattr(_run_folder, "_SWEPT", swept)
    path = socket_path("owner")
    dead_socket(path)
    with await listening_at(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


async def test_a_file_that_is_no_socket_is_left_alone(place) -> None:
    path = socket_path("owner")
    path.write_text("mine")
    with pytest.raises(OSError):
        await listening_at(path)
    assert path.read_text() == "mine"


async def test_what_dead_processes_left_is_swept_and_nothing_else(place) -> None:
    folder = run_folder()
    dead = [dead_socket(socket_path(f"dead {number}")) for number in range(5)]
    foreign = dead_socket(folder / "other.sock")
    plain = socket_path("plain")
    plain.touch()
    with await listening_at(socket_path("alive")) as alive, await listening_at(socket_path("new")):
        assert [path for path in dead if path.exists()] == []
        assert foreign.exists()
        assert plain.exists()
        assert socket_path("alive").exists()
        alive.accept()[0].close()


async def test_sweeping_is_bounded(place) -> None:
    dead = [dead_socket(socket_path(str(number))) for number in range(_run_folder._SWEPT + 20)]
    with await listening_at(socket_path("new")):
        assert len([path for path in dead if path.exists()]) == 20


async def test_a_socket_that_cannot_be_made_private_leaves_nothing(place, monkeypatch) -> None:
    def refused(path: object, mode: int) -> None:
        raise PermissionError("no")

    path = socket_path("owner")
    monkeypatch.setattr(os, "chmod", refused)
    with pytest.raises(PermissionError):
        await listening_at(path)
    assert not path.exists()


async def test_names_are_taken_one_after_another(place, monkeypatch) -> None:
    path = socket_path("owner")
    handle = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    waiting = asyncio.ensure_future(listening_at(path))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert not path.exists()
    os.close(handle)
    (await waiting).close()


async def test_a_lock_that_is_never_given_back_does_not_hold_one_up_for_long(place, monkeypatch) -> None:
    monkeypatch.setattr(_run_folder, "_LOCK_PATIENCE_S", 0.05)
    path = socket_path("owner")
    handle = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        await listening_at(path)
    os.close(handle)
    assert not path.exists()


async def test_many_who_want_one_name_give_one_who_has_it(place) -> None:
    path = socket_path("owner")
    dead_socket(path)
    got = await asyncio.gather(*(listening_at(path) for _ in range(20)), return_exceptions=True)
    listeners = [one for one in got if isinstance(one, socket.socket)]
    assert len(listeners) == 1
    listeners[0].close()


# --- who is at the other end ------------------------------------------------------


def test_the_other_end_of_a_pair_is_this_user(monkeypatch) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        if hasattr(socket, "SO_PEERCRED"):
            assert peer_uid(one) == os.geteuid()
        monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
        assert peer_uid(one) is None
