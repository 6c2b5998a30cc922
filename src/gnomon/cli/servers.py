"""Model servers on this machine: who answers on the usual ports, and with which models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, cast

import msgspec

from gnomon.errors import ConfigError

__all__ = ["Server", "servers"]

_LIMIT_S = 0.15
"""For all of them together: they are asked at once."""

_MOST_BYTES = 128 * 1024  # reading a longer list would take longer than the limit, which cannot interrupt it
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r\n")
_HERE = (None, "localhost", "0.0.0.0")  # noqa: S104 - compared with, not bound to


class _Usual(NamedTuple):
    """Where a kind of server listens unless told otherwise, and the provider that speaks to it."""

    name: str
    provider: str
    port: int


_USUAL = (
    _Usual("llama.cpp", "llamacpp", 8080),
    _Usual("llama.cpp", "llamacpp", 9931),  # since autumn 2026
    _Usual("LM Studio", "lmstudio", 1234),
    _Usual("vLLM", "vllm", 8000),
    _Usual("LiteLLM", "litellm", 4000),
    _Usual("Ollama", "ollama", 11434),
)


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A port on which a model server usually listens.

    `port` is `None` when settings say that it is elsewhere, and it was not asked.
    `models` are those it named in OpenAI's form; one that did not is no server we can use.
    """

    usual_name: str
    provider: str
    base_url: str | None = None
    port: int | None = None
    answers: bool | None = None
    models: tuple[str, ...] = ()


async def servers(env: Mapping[str, str]) -> list[Server]:
    """Everybody on the usual ports of this machine, or where the variables say; the preferred come first."""
    looked_for: dict[tuple[str, str | None], Server] = {}
    for usual in _USUAL:
        server = _looked_for(usual, env)
        looked_for.setdefault((server.provider, server.base_url), server)
    return list(await asyncio.gather(*map(_asked, looked_for.values())))


def _looked_for(usual: _Usual, env: Mapping[str, str]) -> Server:
    """The address of a server, if it is on this machine. A variable may hold a password; it is not shown."""
    address = _address(_setting(usual.provider, env), usual.port)
    if address is None:
        return Server(usual_name=usual.name, provider=usual.provider)
    host, port, path = address
    shown = f"[{host}]" if ":" in host else host
    base_url = f"http://{shown}:{port}{path or '/v1'}"
    return Server(usual_name=usual.name, provider=usual.provider, base_url=base_url, port=port)


def _setting(provider: str, env: Mapping[str, str]) -> str:
    if provider != "ollama":
        return env.get(f"{provider.upper()}_BASE_URL") or ""
    from gnomon._ollama import server_address

    with suppress(ConfigError):
        return server_address(env.get("OLLAMA_HOST") or "127.0.0.1") + "/v1"
    return "none that can be asked"


def _address(setting: str, usual_port: int) -> tuple[str, int, str] | None:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    if not setting.strip():
        return "127.0.0.1", usual_port, ""
    with suppress(ValueError):
        parts = urlsplit(setting if "://" in setting else f"//{setting}")
        host = "127.0.0.1" if parts.hostname in _HERE else parts.hostname or ""
        if ip_address(host).is_loopback and parts.scheme in ("", "http"):
            return host, parts.port or usual_port, parts.path.rstrip("/")
    return None


async def _asked(server: Server) -> Server:
    if server.base_url is None:
        return server
    connected = False
    reply = bytearray()
    try:
        async with asyncio.timeout(_LIMIT_S):
            reader, writer = await _connection(server.base_url)
            connected = True
            try:
                await _read_models(reader, writer, server.base_url, reply)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        pass
    return msgspec.structs.replace(server, answers=connected, models=_models_in(bytes(reply)))


async def _connection(base_url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    from urllib.parse import urlsplit

    parts = urlsplit(base_url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def _read_models(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, base_url: str, reply: bytearray
) -> None:
    """HTTP/1.0: the reply comes in one piece, and ends with the connection."""
    from urllib.parse import urlsplit

    parts = urlsplit(base_url)
    head = f"GET {parts.path}/models HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n"
    writer.write(head.encode())
    while len(reply) < _MOST_BYTES and (piece := await reader.read(65536)):
        reply += piece
        if _is_whole(reply):
            return


def _is_whole(reply: bytearray) -> bool:
    """Whether all that was announced has come: some keep the connection open all the same."""
    end = reply.find(b"\r\n\r\n")
    if end < 0:
        return False
    announced = _LENGTH.search(reply, 0, end + 2)
    return announced is not None and len(reply) - end - 4 >= int(announced[1])


def _models_in(reply: bytes) -> tuple[str, ...]:
    """The names in a list of models; none when this is not a reply of that kind.

    Those that only embed come last: the first one is to answer. Whoever has taken the port may
    name a model so that its name moves a terminal's cursor.
    """
    head, _, body = reply.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
        return ()
    try:
        said: object = msgspec.json.decode(body)
        listed = cast("dict[str, object]", said).get("data") if isinstance(said, dict) else None
        named = (model.id for model in msgspec.convert(listed, list[_Model]))
        sound = [name for name in named if name.strip() and name.isprintable()]
        return tuple(sorted(sound, key=lambda name: "embed" in name))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()


class _Model(msgspec.Struct):
    id: str
