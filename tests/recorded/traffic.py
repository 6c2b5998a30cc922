"""Recorded requests whose services say how many tokens they were: what counters are measured on.

From the cassettes that hold streams (`cassettes`), and from plain ones of other packages, which
hold whole answers mostly. Nothing is left out in silence: `Traffic.left_out` has the reasons.
"""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import yaml
from cassettes import Exchange, sort_of
from questions import Api, as_request, outside, reported_input

from gnomon.types.messages import Image, Part, ToolResult
from gnomon.types.requests import Request

__all__ = ["PLAIN", "Counted", "Traffic", "plain_exchanges_in", "traffic_of"]

PLAIN = ("crewai", "magentic")
"""Archives with plain cassettes."""

_CASSETTES = "*/cassettes/*.yaml"
_ENDS: dict[str, Api] = {"/chat/completions": "chat", "/responses": "responses", "/v1/messages": "messages"}


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and the tokens of its prompt as the service reported them."""

    name: str
    api: Api
    model: str
    request: Request
    tokens: int

    @property
    def has_images(self) -> bool:
        return any(_has_images(message.content) for message in self.request.messages)


def _has_images(parts: Iterable[Part]) -> bool:
    return any(
        isinstance(part, Image) or (isinstance(part, ToolResult) and _has_images(part.content))
        for part in parts
    )


class Traffic(msgspec.Struct, frozen=True):
    counted: list[Counted]
    left_out: Counter[str]


def traffic_of(exchanges: Iterable[Exchange]) -> Traffic:
    counted: list[Counted] = []
    left_out: Counter[str] = Counter()
    for exchange in exchanges:
        api = _api(exchange)
        if api is None:
            left_out["no question to a model, or none that was answered"] += 1
            continue
        found = _counted(exchange, api)
        if isinstance(found, Counted):
            counted.append(found)
        else:
            left_out[found] += 1
    return Traffic(counted, left_out)


def _counted(exchange: Exchange, api: Api) -> Counted | str:
    """The request in our words, or why it cannot be counted."""
    body = exchange.question
    model = body.get("model") or _model_in(exchange.url or "")
    if model is None:
        return "an answer without its question"
    tokens = reported_input(api, exchange.body)
    if not tokens:
        return "no usage in the answer"
    request = as_request(api, body, model)
    why = outside(api, body, request)
    return why or Counted(name=exchange.name, api=api, model=model, request=request, tokens=tokens)


def _api(exchange: Exchange) -> Api | None:
    if exchange.status != 200 or "://localhost" in (exchange.url or ""):
        return None
    path = (exchange.url or "").partition("?")[0]
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    for end, api in _ENDS.items():
        if path.endswith(end):
            return api
    sort, _, wire = sort_of(exchange).rpartition(" ") if exchange.url is None else ("", "", "")
    return wire if sort in ("stream of", "whole answer of") else None  # type: ignore[return-value]


def _model_in(url: str) -> str | None:
    """Where Google and Azure have it."""
    found = re.search(r"/(?:models|deployments)/([^:/]+)[:/]", url)
    return found[1] if found else None


# --- plain cassettes --------------------------------------------------------------------


def plain_exchanges_in(archive: Path, source: str) -> Iterator[Exchange]:
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member) if fnmatch(member.name, _CASSETTES) else None
            if content is not None:
                yield from _in_cassette(content.read(), source, member.name.partition("/cassettes/")[2])


def _in_cassette(text: bytes, source: str, cassette: str) -> Iterator[Exchange]:
    said = yaml.load(text, Loader=yaml.CSafeLoader)
    for number, pair in enumerate(said["interactions"]):
        request, response = pair["request"], pair["response"]
        status = response.get("status") or {"code": response.get("status_code")}
        yield Exchange(
            source=source,
            cassette=cassette.removesuffix(".yaml"),
            number=number,
            method=request["method"],
            url=request["uri"],
            asked=_bytes(request["body"]),
            status=status["code"],
            headers={},
            body=_bytes(response.get("body") or response.get("content")),
        )


def _bytes(body: Any) -> bytes:
    if isinstance(body, dict):
        body = body.get("string")
    return body.encode() if isinstance(body, str) else body or b""
