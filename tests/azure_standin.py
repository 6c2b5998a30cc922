"""A stand-in for Azure OpenAI, from Microsoft's documentation: both surfaces, and no field beside them.

What the bodies may hold is in `azure_shapes`, with its sources; the head of a request is told here, from the
URI and header tables of the same pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import azure_answers
import azure_shapes
from json_shapes import Shape, why_not
from standins import Asked, Reply, StandIn, json_reply

__all__ = ["AzureStandIn", "check"]

_V1 = re.compile(r"/openai/v1(?P<rest>/[a-z/]+)")
_DEPLOYMENT = re.compile(r"/openai/deployments/(?P<name>[A-Za-z0-9._%-]{1,64})(?P<rest>/[a-z/]+)")


def check(method: str, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """AssertionError, in a sentence, when Microsoft's documentation does not have this request.

    `path` holds the query. Headers are looked at when they are given, under any case of their names.
    """
    shape = _shape_for(method, path)
    if headers is not None:
        _check_headers({name.lower(): value for name, value in headers.items()}, method, path, bool(shape))
    if shape is None:
        assert not body, f"{method} {path} has a body, and none is documented"
        return
    reason = why_not(shape, body)
    assert reason is None, f"{method} {path}: {reason}"
    _check_together(json.loads(body), f"{method} {path}")


def _shape_for(method: str, path: str) -> Shape | None:
    address = urlsplit(path)
    query = parse_qs(address.query, keep_blank_values=True, strict_parsing=bool(address.query))
    beside = sorted(set(query) - {"api-version"})
    assert not beside, f"{method} {path}: {beside} is no documented query"
    versions = query.get("api-version", [])
    assert len(versions) <= 1, f"{method} {path}: api-version stands there {len(versions)} times"
    on_v1, on_deployment = _V1.fullmatch(address.path), _DEPLOYMENT.fullmatch(address.path)
    if on_v1 and (method, on_v1["rest"]) in azure_shapes.v1_bodies:
        known = not versions or versions[0] in azure_shapes.V1_VERSIONS
        assert known, f"{method} {path}: the v1 surface has no api-version {versions[0]!r}"
        return azure_shapes.v1_bodies[method, on_v1["rest"]]
    assert on_deployment, f"{method} {path} is not documented"
    assert method == "POST", f"{method} {path} is not documented"
    return _deployment_shape(f"{method} {path}", on_deployment["rest"], versions)


def _deployment_shape(where: str, rest: str, versions: Sequence[str]) -> Shape:
    assert versions, f"{where}: the deployment surface wants an api-version"
    known = versions[0] in azure_shapes.DEPLOYMENT_VERSIONS
    assert known, f"{where}: api-version {versions[0]!r} is not documented"
    assert rest in ("/chat/completions", "/embeddings"), f"{where} is not documented"
    return (
        azure_shapes.deployment_embeddings
        if rest == "/embeddings"
        else azure_shapes.deployment_chat(versions[0])
    )


def _check_headers(headers: Mapping[str, str], method: str, path: str, has_body: bool) -> None:
    where = f"{method} {path}"
    keys = [name for name in ("api-key", "authorization") if headers.get(name)]
    assert keys, f"{where}: neither api-key nor authorization is there"
    assert len(keys) == 1, f"{where}: api-key and authorization are both there, and one is documented"
    token = headers.get("authorization", "Bearer x")
    assert re.fullmatch(r"Bearer \S+", token), f"{where}: authorization is not `Bearer` and a token"
    if has_body:
        kind = headers.get("content-type", "")
        assert kind.split(";")[0].strip() == "application/json", f"{where}: content-type is {kind!r}"


def _check_together(body: Mapping[str, Any], where: str) -> None:
    """What is documented of fields that stand beside one another."""
    if "stream_options" in body:
        assert body.get("stream") is True, f"{where}: stream_options is only for a stream"
    if body.get("top_logprobs") is not None and "messages" in body:
        assert body.get("logprobs") is True, f"{where}: top_logprobs wants logprobs"
    metadata = body.get("metadata") or {}
    assert len(metadata) <= 16, f"{where}: metadata has {len(metadata)} pairs, and 16 are allowed"
    for name, value in metadata.items():
        assert len(name) <= 64, f"{where}: the name metadata.{name} is too long"
        assert len(value) <= 512, f"{where}: metadata.{name} is too long"


# --- the server --------------------------------------------------------------------------


class AzureStandIn(StandIn):
    """An Azure OpenAI resource on this machine, with these deployments and this key or token.

    It repeats the last text; with tools it calls the first of them when a user spoke last.
    """

    def __init__(
        self,
        deployments: Sequence[str] = ("gpt-5.2", "text-embedding-3-small"),
        *,
        key: str = "azure-stand-in-key",
        token: str | None = None,
    ) -> None:
        super().__init__()
        self.deployments = tuple(deployments)
        self.key = key
        self.token = token

    @property
    def v1_url(self) -> str:
        return f"{self.url}/openai/v1/"

    def check(self, asked: Asked) -> None:
        check(asked.method, asked.path, asked.body, asked.headers)

    def refusal(self, reason: str) -> Reply:
        error = {"message": reason, "type": "invalid_request_error", "param": None, "code": None}
        return _with_id(json_reply({"error": error}, 400))

    def answer(self, asked: Asked) -> Reply:
        return _with_id(self._answer(asked))

    def _answer(self, asked: Asked) -> Reply:
        if not self._knows(asked.headers):
            return json_reply({"error": {"code": "401", "message": _DENIED}}, 401)
        path = urlsplit(asked.path).path
        if path == "/openai/v1/models":
            return azure_answers.models(self.deployments)
        request = json.loads(asked.body)
        deployment = _DEPLOYMENT.fullmatch(path)
        name = deployment["name"] if deployment else request["model"]
        if name not in self.deployments:
            return json_reply({"error": {"code": "DeploymentNotFound", "message": _NO_DEPLOYMENT}}, 404)
        if path.endswith("/embeddings"):
            return azure_answers.embeddings(request, name)
        give = azure_answers.response if path.endswith("/responses") else azure_answers.chat
        return give(request, name)

    def _knows(self, headers: Mapping[str, str]) -> bool:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        # The v1 surface takes a key as a bearer token too: that is how Microsoft shows OpenAI's own client.
        return headers.get("api-key") == self.key or token in {self.token, self.key}


_DENIED = (
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key "
    "for an active subscription and use a correct regional API endpoint for your resource."
)
_NO_DEPLOYMENT = (
    "The API deployment for this resource does not exist. If you created the deployment within the last 5 "
    "minutes, please wait a moment and try again."
)


def _with_id(reply: Reply) -> Reply:
    return reply._replace(
        headers={**reply.headers, "apim-request-id": "5b0e3c1a-7d52-4a3e-9a0b-2f6d1c8e4b77"}
    )
