"""Where Gemini is asked: the Gemini API, or a project and a region of Google Cloud, and the paths there."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

import msgspec

from gnomon.errors import BadRequest, ConfigError

__all__ = ["Site", "found_site"]

_URL = "https://generativelanguage.googleapis.com"
_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")
_HOME = re.compile(r"https://([\w-]+\.)*googleapis\.com(:\d+)?(/|$)", re.IGNORECASE)
_COLLECTIONS = ("endpoints/", "models/", "publishers/")


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """An address; `version` and `place` stand before the model's name, where the address has not got them."""

    url: str
    version: str
    place: str
    on_cloud: bool

    @property
    def is_home(self) -> bool:
        """Whether it is Google itself, or somebody who speaks like it."""
        return _HOME.match(self.url) is not None

    @property
    def list_path(self) -> str:
        if not self.place:
            return f"{self.version}/models"
        # Google Cloud lists models in one place for all projects, by its newest version.
        return f"{self.version and '/v1beta1'}/publishers/google/models"

    def path_to(self, model: str, method: str) -> str:
        """The path to a model: under the usual ones, or where its own name says, as a tuned one's does."""
        if ".." in model or not model:
            raise BadRequest(f"{model!r} is no name of a model", vendor="gemini")
        named = quote(model, safe="/-._~@")
        place = "" if named.startswith("projects/") else self.place
        if "/" not in named:
            publisher = "/publishers/google" if place else ""
            return f"{self.version}{place}{publisher}/models/{named}:{method}"
        if place and not named.startswith(_COLLECTIONS):
            publisher, _, named = named.partition("/")  # `google/gemini-…`, as Google Cloud names them too
            return f"{self.version}{place}/publishers/{publisher}/models/{named}:{method}"
        return f"{self.version}{place}/{named}:{method}"


def found_site(project: str | None, location: str | None, base_url: str | None, version: str | None) -> Site:
    vertex = project is not None or location is not None
    place = _place(project, location) if vertex else ""
    variable = "GOOGLE_VERTEX_BASE_URL" if vertex else "GOOGLE_GEMINI_BASE_URL"
    url = (base_url or os.environ.get(variable) or (_cloud_url(place) if vertex else _URL)).rstrip("/")
    is_whole = "/publishers/" in url  # the path is there already
    said = is_whole or _VERSION.search(url) is not None
    return Site(
        url=url,
        version="" if said else f"/{version or ('v1' if vertex else 'v1beta')}",
        place="" if is_whole else place,
        on_cloud=vertex or is_whole,
    )


def _place(project: str | None, location: str | None) -> str:
    found = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not found:
        raise ConfigError(
            "provider 'gemini' has a location and no project",
            hint="set project, or GOOGLE_CLOUD_PROJECT",
        )
    region = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    for name, value in (("project", found), ("location", region)):
        if not re.fullmatch(r"[A-Za-z0-9.:_-]+", value):
            raise ConfigError(f"{name} of provider 'gemini' is none: {value!r}")
    return f"/projects/{found}/locations/{region}"


def _cloud_url(place: str) -> str:
    region = place.rpartition("/")[2]
    if region == "global":
        return "https://aiplatform.googleapis.com"
    if region in ("us", "eu"):
        return f"https://aiplatform.{region}.rep.googleapis.com"
    return f"https://{region}-aiplatform.googleapis.com"
