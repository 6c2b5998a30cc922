"""Live sockets where processes fork, and where none can."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest
from session_stage import loaded_again

from gnomon.engine.live import Bus
from gnomon.session import _sockets
from gnomon.session._sockets import LiveServer


@pytest.fixture(autouse=True)
def place(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="g") as made:  # short: a socket's path has few bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield


def test_a_system_that_does_not_fork_has_live_sockets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    again = loaded_again(_sockets)

    async def served() -> bool:
        server = again.LiveServer(Bus(), "owner")
        await server.open()
        try:
            return server.path is not None
        finally:
            await server.close()

    assert asyncio.run(served())


async def test_a_server_that_does_not_listen_has_nothing_to_leave_to_the_parent() -> None:
    server = LiveServer(Bus(), "owner")
    server.leave_to_parent()
    await server.open()
    assert server.path is not None, "and it can listen later"
    await server.close()


async def test_a_forked_process_does_not_listen_again_when_descriptors_are_back(monkeypatch) -> None:
    """The pause that its parent was in goes on in its copy of the loop; the socket is the parent's."""
    monkeypatch.setattr(_sockets, "_NO_DESCRIPTORS_S", 0.01)
    failed: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failed.append(context))
    server = LiveServer(Bus(), "owner")
    await server.open()
    listener = server._listener
    assert listener is not None

    class Exhausted:
        """What the listener is when no descriptor is left."""

        def fileno(self) -> int:
            return listener.fileno()

        def accept(self):
            raise OSError("too many open files")

    server._accept(Exhausted())  # type: ignore[arg-type]
    assert server._pause is not None
    server.leave_to_parent()
    await asyncio.sleep(0.05)
    assert failed == []
    assert server._pause is None
