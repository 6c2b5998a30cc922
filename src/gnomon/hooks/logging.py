"""A line in the log for every step."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable

from gnomon.errors import ConfigError, scrub
from gnomon.hooks._notes import retries
from gnomon.types.messages import Part, Text
from gnomon.types.requests import Response
from gnomon.types.steps import HookEvent

__all__ = ["LoggingHook"]

_LONGEST_SECRET = 10_000
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What would begin another line, move the cursor of a terminal, or cannot be written at all."""

_TROUBLE = ("error", "timeout", "interrupted", "unknown")


class LoggingHook:
    """Logs what was done, how long it took and what it used, with `gnomon.hooks.logging`.

    A step that began is logged for debugging, one that ended at `level`, and one that failed as a
    warning. The fields are in `extra`, each under a name that begins with `gnomon_`. What was said
    is not logged, unless `content` is set. A field has at most `limit` characters, and no secret.
    """

    name = "logging"

    def __init__(
        self,
        *,
        level: int | str = logging.INFO,
        content: bool = False,
        limit: int = 500,
        logger: str = "gnomon.hooks.logging",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if limit < 1:
            raise ConfigError(f"limit of hook 'logging' is 1 character or more, not {limit}")
        self._level = _level(level)
        self._content = content
        self._limit = limit
        self._log = logging.getLogger(logger)
        self._clock = clock
        self._note = f"logging.{id(self)}"

    async def before(self, event: HookEvent) -> None:
        """Note the time, and say for debugging that it begins."""
        event.notes[self._note] = self._clock()
        if self._log.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, "begins", event, {**_place(event), **self._asked(event)})

    async def after(self, event: HookEvent) -> None:
        """Say how it ended."""
        started = event.notes.pop(self._note, None)
        level, word = self._how(event)
        if not self._log.isEnabledFor(level):
            return
        fields = {**_place(event), **_used(event), **_failure(event), **self._said(event)}
        if isinstance(started, int | float):
            fields["duration_s"] = round(self._clock() - started, 6)
        self._write(level, word, event, fields)

    def _how(self, event: HookEvent) -> tuple[int, str]:
        status = "ok" if event.result is None else event.result.status
        if event.error is not None:
            is_wanted = event.error.code == "cancelled"
            return self._level if is_wanted else logging.WARNING, self._line(event.error.code)
        return logging.WARNING if status in _TROUBLE else self._level, status

    def _write(self, level: int, word: str, event: HookEvent, fields: dict[str, object]) -> None:
        plain = {f"gnomon_{name}": self._plain(value) for name, value in fields.items() if value is not None}
        self._log.log(level, "%s %s: %s", event.kind, self._line(event.name), word, extra=plain)

    def _asked(self, event: HookEvent) -> dict[str, object]:
        if not self._content:
            return {}
        messages = event.request.messages if event.request is not None else ()
        return {
            "asked": self._text(messages[-1].content) if messages else None,
            "arguments": event.tool_call.arguments if event.tool_call is not None else None,
        }

    def _said(self, event: HookEvent) -> dict[str, object]:
        if not self._content:
            return {}
        parts = event.response.message.content if event.response is not None else ()
        results = event.result.content if event.result is not None else ()
        return {**self._asked(event), "said": self._text((*parts, *results)) or None}

    def _text(self, parts: Iterable[Part]) -> str:
        """As much of it as may be needed."""
        most = self._limit + _LONGEST_SECRET
        return "".join(part.text[:most] for part in parts if isinstance(part, Text))

    def _plain(self, value: object) -> object:
        """A number as it is, anything else as a line."""
        return value if isinstance(value, int | float) else self._line(value)

    def _line(self, value: object) -> str:
        """A text on one line, without secrets, cut to its limit."""
        # A secret that begins before the cut is seen whole, and so is known as one.
        text = scrub(_written(value)[: self._limit + _LONGEST_SECRET])
        text = _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
        return text if len(text) <= self._limit else text[: self._limit - 1] + "…"


def _written(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, a line in the log is not worth a failure
        return f"<{type(value).__name__} that cannot be written: {type(error).__name__}>"


def _level(given: int | str) -> int:
    found = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if found is None:
        raise ConfigError(
            f"there is no level of the log called {given!r}", hint="debug, info, warning, error"
        )
    return found


def _place(event: HookEvent) -> dict[str, object]:
    return {
        "kind": event.kind,
        "name": event.name,
        "session_id": event.session_id or None,
        "turn_id": event.turn_id or None,
        "attempt": event.attempt,
        "retries": retries(event) or None,
        "call_id": event.tool_call.id if event.tool_call is not None else None,
    }


def _used(event: HookEvent) -> dict[str, object]:
    response: Response | None = event.response
    if response is None:
        return {}
    usage = response.usage
    return {
        "stop_reason": response.stop_reason,
        "model": response.model,
        "provider": response.provider,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "discarded_attempts": len(response.discarded) or None,
    }


def _failure(event: HookEvent) -> dict[str, object]:
    if event.error is None:
        return {}
    error = event.error
    return {"error": error.message, "error_code": error.code, "retryable": error.retryable}
