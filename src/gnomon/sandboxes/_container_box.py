"""One container: made, watched, and removed whatever happens."""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

from gnomon.errors import SandboxError
from gnomon.sandboxes._container_body import KEEPERS, LABEL, WORKSPACE, Shape, created
from gnomon.sandboxes._container_image import no_image, volumes_of
from gnomon.sandboxes._container_sight import Sight, sight_of
from gnomon.sandboxes._engine_monitors import end_monitors
from gnomon.sandboxes._engine_wire import Answer
from gnomon.sandboxes._engines import Engine
from gnomon.sandboxes._limits import Limits
from gnomon.sandboxes._owners import is_gone

__all__ = ["Box", "Maker", "sweep", "wait_removed"]

_START_S = 120.0
_END_S = 10.0
_POLL_S = 0.01


class Box:
    """A container that waits for commands. It ends when `held`, a descriptor, is closed."""

    def __init__(self, engine: Engine, container: str, held: int, limits: Limits) -> None:
        self.engine = engine
        self.id = container
        self.limits = limits
        self.commands = 0
        self.sight: Sight | None = None
        self._let_go = weakref.finalize(self, os.close, held)
        self._lock = threading.Lock()
        self._is_ended = False

    def is_alive(self) -> bool:
        """As far as can be told without asking the engine."""
        return not self._is_ended and not (self.sight is not None and self.sight.is_over())

    def facts(self) -> dict[str, Any] | None:
        """What the engine knows of its state; `None` when there is no such container any more."""
        answer = self.engine.call("GET", f"/containers/{self.id}/json")
        state: dict[str, Any] = answer.content.get("State") or {}
        return state if answer.is_good and state.get("Running") else None

    def kill(self) -> bool:
        """End everything in it. Whether that was done at once; elsewise `remove` does it."""
        self._is_ended = True
        return self.sight is not None and self.sight.kill()

    def remove(self) -> None:
        """From a thread. When this returns, nothing in it runs any more, and it is gone or will be soon."""
        with self._lock:
            killed = self.kill()
            self._let_go()
            if killed and self.sight is not None:
                self.sight.is_over(_END_S)
            with suppress(SandboxError):
                self.engine.call("DELETE", f"/containers/{self.id}?force=1&v=1", patience_s=_END_S)
            self.end_monitors()
            if self.sight is not None:
                self.sight.close()

    def end_monitors(self) -> None:
        """From a thread. Between two commands, or after the last."""
        if self.engine.is_podman:
            end_monitors(self.id)

    def is_removed(self) -> bool:
        with suppress(SandboxError):
            return self.engine.call("GET", f"/containers/{self.id}/json", patience_s=_END_S).status == 404
        return True


class Maker:
    """Makes the containers of one sandbox."""

    def __init__(self, engine: Engine, shape: Shape) -> None:
        self._engine = engine
        self._shape = shape
        self._sysctls = True
        self._volumes: list[str] | None = None

    def make(self, limits: Limits) -> Box:
        """From a thread."""
        while True:
            rung, sysctls = self._engine.rung, self._sysctls
            try:
                return self._made(limits, sysctls=sysctls)
            except _NotStarted as error:
                if sysctls and "sysctl" in str(error):
                    self._sysctls = False  # older kernels give them to nobody but the machine's root
                elif not self._engine.climb(rung):
                    raise _explained(error, self._engine, self._shape.image) from None

    def _made(self, limits: Limits, *, sysctls: bool) -> Box:
        call = self._engine.call
        if self._volumes is None:
            asked_for = volumes_of(self._engine, self._shape.image)
            self._volumes = [path for path in asked_for if path != WORKSPACE]
        body = created(self._shape, limits, self._volumes, sysctls=sysctls)
        answer = call("POST", "/containers/create", body)
        if answer.status == 404:
            raise no_image(self._engine, self._shape.image)
        container = str(_good(answer)["Id"])
        try:
            held = self._engine.wire.hold(
                f"/containers/{container}/attach?stream=1&stdin=1", patience_s=_START_S
            )
            box = Box(self._engine, container, held, limits)
            try:
                answer = call("POST", f"/containers/{container}/start", patience_s=_START_S)
                if (
                    not answer.is_good and answer.status != 304
                ):  # some engines start it when it is attached to
                    raise _NotStarted(answer.words)
                self._look_at(box, sysctls=sysctls)
            except BaseException:
                box.remove()
                raise
        except BaseException:
            with suppress(SandboxError):
                call("DELETE", f"/containers/{container}?force=1&v=1", patience_s=_END_S)
            raise
        return box

    def _look_at(self, box: Box, *, sysctls: bool) -> None:
        state = box.facts()
        if state is None:
            raise _NotStarted("it ended as soon as it was started")
        box.sight = sight_of(int(state.get("Pid") or 0), box.id)
        if box.sight is not None and sysctls:
            box.sight.remember(KEEPERS, WORKSPACE)
        if not box.is_alive():
            raise _NotStarted("it ended as soon as it was started")


class _NotStarted(Exception):
    """A container that an engine has made and could not start; the text is the engine's."""


def _good(answer: Answer) -> dict[str, Any]:
    if not answer.is_good:
        raise _NotStarted(answer.words)
    return answer.content


def _explained(error: _NotStarted, engine: Engine, image: str) -> SandboxError:
    said = str(error)
    hint = f"`{engine.program} run --rm {image} true` shows whether the engine works by itself"
    if "ended as soon" in said or "/bin/sh" in said:
        hint = f"the image has to have /bin/sh and cat; does {image!r}?"
    elif "memory limit" in said or "minimum memory" in said.lower():
        hint = "a container takes some MB by itself; give memory_bytes more"
    elif "setup user" in said:
        hint = "whoever runs the engine needs more user ids: see /etc/subuid and /etc/subgid"
    elif "rlimit" in said:
        hint = (
            "the engine may not give a container the limits that it needs; see ulimit -Hn of who started it"
        )
    elif "cgroup" in said:
        hint = "control groups have to be delegated to whoever runs the engine"
    return SandboxError(f"{engine.name} could not start a container of {image!r}: {said}", hint=hint)


def sweep(engine: Engine) -> None:
    """From a thread. Remove what programs have left behind that were killed together with their engine."""
    filters = "%7B%22label%22%3A%5B%22" + LABEL + "%22%5D%7D"  # {"label":["…"]}
    answer = engine.call("GET", f"/containers/json?all=1&filters={filters}")
    for each in answer.contents:
        labels: dict[str, Any] = each.get("Labels") or {}
        if is_gone(str(labels.get(LABEL, ""))):
            engine.call("DELETE", f"/containers/{each['Id']}?force=1&v=1", patience_s=_END_S)


def wait_removed(boxes: list[Box]) -> None:
    """From a thread. Engines remove what has ended by themselves, a moment later."""
    until = time.monotonic() + _END_S
    left = list(boxes)
    while left and time.monotonic() < until:
        left = [box for box in left if not box.is_removed()]
        if left:
            time.sleep(_POLL_S)
