"""Servers that all tests of one process share."""

from __future__ import annotations

import atexit
import os
import threading

from .docker_server import docker
from .dynamo_server import dynamo, extenddb
from .mongo_server import mongo
from .postgres_server import postgres
from .redis_server import redis
from .running import Server

__all__ = ["shared", "stop_shared"]

_KINDS = {
    "postgres": postgres,
    "redis": redis,
    "mongo": mongo,
    "dynamo": dynamo,
    "extenddb": extenddb,
    "docker": docker,
}
_lock = threading.Lock()
_running: dict[tuple[int, str], Server] = {}


def shared(name: str) -> Server:
    """The server of this process by that name, started when it is first asked for. Nobody stops it:
    `conftest.py` does at the end, or this process as it ends, or the watchdog when it was killed."""
    with _lock:
        key = (os.getpid(), name)  # a fork of this process has none of these
        if key not in _running:
            _running[key] = _KINDS[name]()
            atexit.register(stop_shared)  # after the watchdog's own, so before it
        elif how := _running[key].died():
            raise AssertionError(how)
        return _running[key]


def stop_shared() -> None:
    with _lock:
        for key in [key for key in _running if key[0] == os.getpid()]:
            _running.pop(key).stop()
