"""A door in front of a DynamoDB server, behind which answers get lost and requests are put off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

_ANSWER = {"Content-Type": "application/x-amz-json-1.0"}


class Door:
    """Passes requests on. `fault` is asked for each what to do with it; by default nothing."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self.url = ""
        self.seen: Counter[str] = Counter()
        self.asked: list[tuple[str, Any]] = []
        self.fault: Callable[[str, int], str] = lambda operation, count: ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        self.seen[operation] += 1
        asked = await request.read()
        self.asked.append((operation, json.loads(asked)))
        match self.fault(operation, self.seen[operation]):
            case "lose the answer":
                await self._passed(request, asked)
                return _cut_off(request)
            case "cut":
                return _cut_off(request)
            case "done and 500":
                await self._passed(request, asked)
                return refusal("InternalServerError", 500)
            case "conflict":
                count = len(json.loads(asked).get("TransactItems", []))
                reasons = [{"Code": "TransactionConflict"}, *[{"Code": "None"}] * (count - 1)]
                return refusal("TransactionCanceledException", CancellationReasons=reasons)
            case "half":
                return await self._half(request, asked)
            case "":
                return await self._passed(request, asked)
            case code:
                return refusal(code)

    async def _passed(self, request: web.Request, asked: bytes) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.startswith(("X-", "Auth"))}
        asking = aiohttp.request("POST", self._behind, data=asked, headers=headers | _ANSWER)
        async with asking as answer:
            return web.Response(body=await answer.read(), status=answer.status, headers=_ANSWER)

    async def _half(self, request: web.Request, asked: bytes) -> web.Response:
        """As a service does that is short of time: some of the keys are left for another time."""
        wanted: dict[str, Any] = json.loads(asked)
        ((table, keys),) = wanted["RequestItems"].items()
        middle = len(keys["Keys"]) // 2
        left = {**keys, "Keys": keys["Keys"][middle:]}
        now = {table: {**keys, "Keys": keys["Keys"][:middle]}}
        if middle == 0:
            return web.json_response({"Responses": {}, "UnprocessedKeys": {table: left}})
        answer = await self._passed(request, json.dumps({"RequestItems": now}).encode())
        found: dict[str, Any] = json.loads(answer.body)  # type: ignore[arg-type]
        return web.json_response({**found, "UnprocessedKeys": {table: left}})


@asynccontextmanager
async def door(behind: str) -> AsyncGenerator[Door, None]:
    made = Door(behind)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


def refusal(code: str, status: int = 400, **more: object) -> web.Response:
    told: Mapping[str, object] = {
        "__type": f"com.amazonaws.dynamodb.v20120810#{code}",
        "message": "no",
        **more,
    }
    return web.Response(body=json.dumps(told).encode(), status=status, headers=_ANSWER)


def _cut_off(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
