"""What has to be said of a request that could not be sent as it was."""

from __future__ import annotations

from gnomon.types.events import StreamWarning

__all__ = ["Notes"]


class Notes:
    """Warnings in the making, each thing once however often it happens in a conversation."""

    def __init__(self, vendor: str) -> None:
        self._vendor = vendor
        self._found: dict[tuple[str, str], StreamWarning] = {}

    def add(self, code: str, message: str, *, key: str = "") -> None:
        """`{vendor}` in the message is the vendor's name. The same code is noted again under another key."""
        if (code, key) not in self._found:
            self._found[code, key] = StreamWarning(message.replace("{vendor}", self._vendor), code)

    def warnings(self) -> tuple[StreamWarning, ...]:
        return tuple(self._found.values())
