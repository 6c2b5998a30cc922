"""Real servers for tests: PostgreSQL, Redis, a MongoDB wire, DynamoDB twice, and Docker, for root.

Each is a child process on a loopback port of its own (Docker on a socket), with its files in a temporary
folder:

    server = servers.shared("postgres")      # one for all tests of this process, stopped when they end
    server = servers.redis(appendfsync="everysec")  # one of the test's own: stop it
    server.url                               # what a client takes
    server.kill(); server.start()            # a crash, and the way back: same files, same port

A program that is not installed is a skip that says how to install it, and a failure where `CI=true`.
A program that is installed and does not come up is always a failure, with the end of its log.
"""

from __future__ import annotations

from .docker_server import DockerServer, docker
from .dynamo_server import DynamoServer, dynamo, extenddb
from .mongo_server import mongo
from .postgres_server import postgres
from .programs import Missing, system_program
from .redis_server import redis
from .running import CannotStart, Server
from .sharing import shared, stop_shared

__all__ = [
    "CannotStart",
    "DockerServer",
    "DynamoServer",
    "Missing",
    "Server",
    "docker",
    "dynamo",
    "extenddb",
    "mongo",
    "postgres",
    "redis",
    "shared",
    "stop_shared",
    "system_program",
]
