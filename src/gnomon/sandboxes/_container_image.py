"""The image that containers are made of."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from gnomon.errors import ConfigError, SandboxError
from gnomon.sandboxes._engine_wire import shortened
from gnomon.sandboxes._engines import Engine

__all__ = ["checked_image", "fetch", "has_image", "no_image", "volumes_of"]

_PULL_S = 1800.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")


def checked_image(image: str) -> str:
    if not _NAME.fullmatch(image):
        raise ConfigError(f"{image!r} is no name of an image", hint="such as python:3.12-slim")
    return image


def has_image(engine: Engine, image: str) -> bool:
    answer = engine.call("GET", f"/images/{quote(image)}/json")
    if not answer.is_good and answer.status != 404:
        raise SandboxError(f"{engine.name} does not say whether it has the image {image!r}: {answer.words}")
    return answer.is_good


def volumes_of(engine: Engine, image: str) -> list[str]:
    """The folders for which it asks the engine for a volume."""
    answer = engine.call("GET", f"/images/{quote(image)}/json")
    if not answer.is_good:
        raise no_image(engine, image)
    config: dict[str, Any] = answer.content.get("Config") or {}
    return [posixpath.normpath(path) for path in config.get("Volumes") or ()]


def no_image(engine: Engine, image: str) -> SandboxError:
    return SandboxError(
        f"{engine.name} has no image {image!r}",
        hint=f"get it with `{engine.program} pull {image}`, or say pull=True",
    )


def fetch(engine: Engine, image: str) -> None:
    """From a thread: it may take minutes."""
    name, tag = _parts(image)
    answer = engine.call(
        "POST", f"/images/create?{urlencode({'fromImage': name, 'tag': tag})}", patience_s=_PULL_S
    )
    why = _problem(answer.body) if answer.is_good else answer.words
    if why or not has_image(engine, image):
        raise SandboxError(
            f"{engine.name} could not get the image {image!r}: {why or 'it is not there afterwards'}",
            hint="is the name right, and its registry in reach?",
        )


def _parts(image: str) -> tuple[str, str]:
    """Without a tag, an engine would get all that there are."""
    name, at, digest = image.partition("@")
    if at:
        return name, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _problem(body: bytes) -> str:
    """What went wrong, of a report in lines: the answer itself has begun before anybody knows."""
    for line in body.splitlines():
        with suppress(msgspec.DecodeError):
            told = msgspec.json.decode(line)
            if isinstance(told, dict) and "error" in told:
                return shortened(str(told["error"]))  # pyright: ignore[reportUnknownArgumentType]
    return ""
