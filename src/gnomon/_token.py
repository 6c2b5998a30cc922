"""A key that is fetched when it is needed: clouds hand out tokens that hold for an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias

from gnomon._complaint import MOST_READ
from gnomon._threads import run_in_thread
from gnomon.errors import ConnectTimeout, GnomonError, Unauthorized, scrub

__all__ = ["Token", "TokenSource"]

Token: TypeAlias = Callable[[], str | Awaitable[str]]
"""Gives a token that holds now. It is asked before every request, so it should keep what it has."""


class TokenSource:
    """Asks for a token before a request, and knows the last ones as secrets.

    A plain function runs in a thread: it may ask a server, and must not hold up other streams. A
    thread of its own: one that hangs is in nobody's way, and does not keep the process from ending.
    """

    def __init__(self, token: Token, *, vendor: str, header: str, prefix: str) -> None:
        self._token = token
        self._vendor = vendor
        self._header = header
        self._prefix = prefix
        self.recent: tuple[str, ...] = ()

    async def header(self, limit_s: float) -> tuple[str, str]:
        """The name and the value of the header that carries the token."""
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                found = await self._asked()
        except GnomonError:
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise self._failed(error) from None
            raise ConnectTimeout(f"no token within {limit_s:g} s", vendor=self._vendor) from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise self._failed(error) from None  # it waited for something that others have cancelled
        except Exception as error:  # noqa: BLE001 - it is somebody else's function
            # The cause is not kept: what a token service says may hold what it was sent.
            raise self._failed(error) from None
        return self._header, self._prefix + self._checked(found)

    async def _asked(self) -> object:
        asks_here = iscoroutinefunction(self._token)
        given: object = self._token() if asks_here else await run_in_thread(self._token, name="token")
        return await given if isawaitable(given) else given

    def _checked(self, found: object) -> str:
        token = found.strip() if isinstance(found, str) else ""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise Unauthorized(
                "what should give a token gave none", vendor=self._vendor, hint="it returns the token as text"
            )
        if token not in self.recent:
            self.recent = (token, *self.recent[: _KEPT - 1])
        return token

    def _failed(self, error: BaseException) -> Unauthorized:
        said = f"{type(error).__name__}: {_words(error)}".removesuffix(": ")
        return Unauthorized(
            f"no token could be had: {said}", vendor=self._vendor, hint="check how the token is fetched"
        )


_KEPT = 32  # answers to as many requests with tokens of their own may be under way
_MOST_CHARACTERS = 600


def _words(error: BaseException) -> str:
    """What it says, as far as anybody reads it. Secrets go first: half of one is not recognised any more."""
    try:
        return scrub(str(error)[:MOST_READ])[:_MOST_CHARACTERS]
    except Exception:  # noqa: BLE001 - it is somebody else's error
        return ""
