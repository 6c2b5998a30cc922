"""Records what a real service sends, as fixtures of the wire: `make record P=openai`.

    python tests/recording.py openai

Each scenario of the contract suite is asked once. The reply is written as it came
to `tests/wire/<provider>/recorded_<scenario>.http`, and beside it what we made of
it, to be read before it is committed. Keys, cookies and the names of accounts are
taken out.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gnomon import errors, registry
from gnomon._aiohttp import AiohttpTransport
from gnomon._http import HTTP
from gnomon._transport import Incoming, Outgoing, Transport
from gnomon.contracts.provider import Provider
from gnomon.testing._scenarios import SCENARIOS, scenario_request
from gnomon.types.requests import Response

WIRES = Path(__file__).with_name("wire")

KEPT_HEADERS = (
    "content-type",
    "x-request-id",
    "request-id",
    "apim-request-id",
    "mistral-correlation-id",
    "retry-after",
    "retry-after-ms",
    "openai-version",
)
"""The others are about the connection, the account or the day."""


class Recorder:
    """A transport that keeps what comes in."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.replies: list[Recorded] = []

    async def open(self, call: Outgoing) -> Incoming:
        reply = Recorded(await self._inner.open(call))
        self.replies.append(reply)
        return reply

    async def close(self) -> None:
        await self._inner.close()


class Recorded:
    def __init__(self, inner: Incoming) -> None:
        self._inner = inner
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self.body = b""

    async def read(self) -> bytes:
        piece = await self._inner.read()
        self.body += piece
        return piece

    def is_at_end(self) -> bool:
        return self._inner.is_at_end()

    def abort(self, error: Exception | None = None) -> None:
        self._inner.abort(error)


async def record(provider: Provider, http: HTTP, folder: Path, secrets: tuple[str, ...]) -> list[Path]:
    """Every scenario once; the files that were written."""
    written: list[Path] = []
    recorder = Recorder(AiohttpTransport())
    http._transport = recorder  # the one place that looks inside
    for scenario in SCENARIOS:
        request = scenario_request(scenario)
        assert request is not None
        made: Response | errors.ProviderError
        try:
            made = await provider.complete(request)
        except errors.ProviderError as error:
            made = error
        if recorder.replies:
            written += _write(folder, scenario, recorder.replies.pop(), made, secrets)
    await provider.close()
    return written


def _write(
    folder: Path,
    scenario: str,
    reply: Recorded,
    made: Response | errors.ProviderError,
    secrets: tuple[str, ...],
) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"HTTP/1.1 {reply.status} {'OK' if reply.status == 200 else 'Failed'}"]
    lines += [f"{name}: {reply.headers[name]}" for name in KEPT_HEADERS if name in reply.headers]
    lines += [f"x-fixture-source: recorded on {datetime.now(UTC):%Y-%m-%d}", "", ""]
    fixture, expected = (folder / f"recorded_{scenario}{end}" for end in (".http", ".json"))
    fixture.write_bytes(_clean("\n".join(lines).encode() + reply.body, secrets))
    told = _expected(made) if isinstance(made, Response) else _expected_error(made)
    expected.write_bytes(_clean(msgspec.json.format(msgspec.json.encode(told)) + b"\n", secrets))
    return [fixture, expected]


def _expected(response: Response) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(response)
    usage = msgspec.to_builtins(response.usage)
    parts = [{k: v for k, v in part.items() if k in _PART_FIELDS} for part in _parts(response)]
    kept = {name: told[name] for name in ("stop_reason", "raw_stop_reason", "id", "model") if name in told}
    return {"parts": parts, **kept, "usage": usage}


_PART_FIELDS = ("type", "text", "signature", "redacted", "id", "name", "arguments", "truncated")


def _parts(response: Response) -> list[dict[str, object]]:
    return [msgspec.to_builtins(part) for part in response.message.content]


def _expected_error(error: errors.ProviderError) -> dict[str, object]:
    return {
        "error": error.code,
        "status": error.status,
        "vendor_code": error.vendor_code,
        "request_id": error.request_id,
        "retry_after": error.retry_after,
        "retryable": error.retryable,
    }


def _clean(data: bytes, secrets: tuple[str, ...]) -> bytes:
    for secret in secrets:
        data = data.replace(secret.encode(), b"{{key}}")
    data = re.sub(rb"(?<![A-Za-z0-9])org-[A-Za-z0-9]{8,}", b"org-recorded", data)
    data = re.sub(rb"(?<![A-Za-z0-9])proj_[A-Za-z0-9]{8,}", b"proj_recorded", data)
    return re.sub(rb"\b(user|acct)[-_][A-Za-z0-9]{8,}", rb"\1_recorded", data)


async def main(name: str) -> int:
    provider = registry.provider(name)
    http = getattr(provider, "_http", None)
    if not isinstance(http, HTTP):
        print(f"provider {name!r} has no wire to record", file=sys.stderr)
        return 2
    try:
        written = await record(provider, http, WIRES / name, http._secrets)
    except errors.GnomonError as error:
        print(f"nothing was recorded: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("which provider? make record P=openai")
    sys.exit(asyncio.run(main(sys.argv[1])))
