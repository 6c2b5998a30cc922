"""The table of what providers carry is made of what they do: each way to lose something is seen in it."""

from __future__ import annotations

import msgspec
import pytest
from powers import COLUMNS, Subject, powers, row, subjects

from gnomon import registry
from gnomon.errors import BadRequest, ConfigError
from gnomon.providers._converse import Asked
from gnomon.providers.compatible import OpenRouterProvider
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Image, Message, Thinking
from gnomon.types.requests import Request


class _Planted(OpenRouterProvider):
    """Carries most things; what else it does with an image is for others to say."""

    def _ask(self, request: Request) -> Asked:
        has_image = any(isinstance(part, Image) for message in request.messages for part in message.content)
        return self._ask_with_image(request) if has_image else super()._ask(request)

    def _ask_with_image(self, request: Request) -> Asked:
        return super()._ask(request)


class _Silent(_Planted):
    def _ask_with_image(self, request: Request) -> Asked:
        return super()._ask_with_image(_without(request, Image))


class _Refusing(_Planted):
    def _ask_with_image(self, request: Request) -> Asked:
        raise BadRequest("images cannot be sent", vendor=self.name)


class _Moving(_Planted):
    def _ask_with_image(self, request: Request) -> Asked:
        told = StreamWarning("the image went into another message", "moved")
        return msgspec.structs.replace(super()._ask_with_image(request), warnings=(told,))


class _ByAddressOnly(_Planted):
    def _ask_with_image(self, request: Request) -> Asked:
        parts = [part for message in request.messages for part in message.content]
        if any(isinstance(part, Image) and part.url is None for part in parts):
            raise BadRequest("images cannot be sent by their bytes", vendor=self.name)
        return super()._ask_with_image(request)


class _Misconfigured(_Planted):
    def _ask_with_image(self, request: Request) -> Asked:
        raise ConfigError("nobody said where the eyes are")


class _Forgetful(_Planted):
    def _ask(self, request: Request) -> Asked:
        return super()._ask(_without(request, Thinking))


def _without(request: Request, kind: type) -> Request:
    def left(message: Message) -> Message:
        parts = tuple(part for part in message.content if not isinstance(part, kind))
        return msgspec.structs.replace(message, content=parts)

    return msgspec.structs.replace(request, messages=tuple(map(left, request.messages)))


def _found(kind: type[_Planted]) -> dict[str, str]:
    """What the table says of a provider that was planted in place of another."""
    with subjects() as known:
        instead = next(subject for subject in known if subject.name == "openrouter")
        provider = kind(model=instead.model, key="none")
        planted = Subject("planted", instead.name, instead.model, provider._ask, instead.replies)
        return dict(zip(COLUMNS, row(planted), strict=True))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (_Planted, "bytes, URL"),
        (_Silent, "no"),
        (_Refusing, "no"),
        (_Moving, "bytes (moved), URL (moved)"),
        (_ByAddressOnly, "URL"),
    ],
)
def test_what_becomes_of_an_image_is_seen(kind: type[_Planted], expected: str) -> None:
    sound, found = _found(_Planted), _found(kind)
    assert found.pop("image") == expected
    assert found == {name: cell for name, cell in sound.items() if name != "image"}


def test_what_is_wrong_with_the_settings_is_no_refusal() -> None:
    with pytest.raises(ConfigError, match="where the eyes are"):
        _found(_Misconfigured)


def test_thoughts_that_do_not_return_are_missed() -> None:
    assert _found(_Planted)["thinking"] == "effort, budget, returned"
    assert _found(_Forgetful)["thinking"] == "effort, budget"


def test_every_provider_that_asks_a_vendor_has_a_row() -> None:
    titles = {line[0] for line in powers()}
    missing = [name for name in registry.names("providers") if f"`{name}`" not in titles]
    assert missing == ["demo", "fallback", "scripted"]


def test_usage_is_read_from_replies_for_every_row() -> None:
    usage = COLUMNS.index("usage")
    assert [line[0] for line in powers() if not line[usage].startswith("input, output")] == []


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OPENAI_API_KEY": "not a key",
        "AZURE_OPENAI_ENDPOINT": "https://example.org",
        "OPENAI_API_VERSION": "2024-10-21",
        "GOOGLE_CLOUD_PROJECT": "?",
        "OLLAMA_HOST": "https://ollama.com",
    }.items():
        monkeypatch.setenv(name, value)
    assert powers.__wrapped__() == powers()
