"""A store belongs to the event loop in which it was used first; whoever errs is told so."""

from __future__ import annotations

import asyncio
import uuid

import pytest

import servers
from gnomon import registry
from gnomon.contracts.storage import Storage
from gnomon.errors import StorageError
from storing import event


@pytest.fixture(params=["redis", "postgres", "mongo", "dynamo"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Storage:
    server, name = servers.shared(request.param), f"t{uuid.uuid4().hex}"
    if not isinstance(server, servers.DynamoServer):
        tail = {"redis": f"?prefix={name}", "postgres": f"?schema={name}", "mongo": name}[request.param]
        return registry.storage(server.url + tail)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    return registry.storage(f"dynamodb://us-east-1/{name}?endpoint={server.url}")


def test_a_store_of_another_event_loop_says_so_at_once_and_is_closed_in_its_own(storage: Storage) -> None:
    with asyncio.Runner() as runner:
        runner.run(storage.migrate())
        runner.run(storage.append_event(event("s", 1)))
        with pytest.raises(StorageError, match="another event loop"):
            asyncio.run(storage.append_event(event("s", 2)))
        with pytest.raises(StorageError, match="another event loop"):
            asyncio.run(storage.get_session("s"))
        with pytest.raises(StorageError, match="another event loop"):
            asyncio.run(storage.close())
        runner.run(storage.append_event(event("s", 2)))
        runner.run(storage.close())
