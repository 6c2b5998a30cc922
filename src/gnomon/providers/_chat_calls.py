"""Which tool call a delta of Chat Completions belongs to: by id, by index, or the call being streamed."""

from __future__ import annotations

from gnomon.providers._calls import is_complete_json, made_up_id
from gnomon.types.messages import Meta

__all__ = ["CallRouter", "OpenCall"]


class OpenCall:
    """A tool call in the making. Its start waits for the whole name: some send it in pieces."""

    __slots__ = ("block", "given_id", "id", "index", "meta", "name", "pieces", "started")

    def __init__(self, call_id: str, index: object, block: int) -> None:
        self.given_id = bool(call_id)
        self.id = call_id or made_up_id()
        self.index = index
        self.block = block
        self.name = ""
        self.pieces: list[str] = []
        self.started = False
        self.meta: Meta = {}


class CallRouter:
    """Which call a delta belongs to."""

    def __init__(self) -> None:
        self.all: list[OpenCall] = []
        self._by_id: dict[str, OpenCall] = {}
        self._by_index: dict[int, OpenCall] = {}
        self._current: OpenCall | None = None

    def route(self, call_id: str, index: object, name: str, *, fresh: bool) -> OpenCall | None:
        """The call so far that is meant; `None` for a new one. `fresh`: the chunk has named one already."""
        if call_id:
            return self._with_id(call_id, index, name)
        if isinstance(index, int):
            found = self._by_index.get(index)
            return None if found is not None and name and (fresh or _is_another(found, name)) else found
        return None if name else self._current

    def open(self, call_id: str, index: object, block: int) -> OpenCall:
        # An id that is in use already is no id for this one: every call has its own (S3).
        call = OpenCall("" if call_id in self._by_id else call_id, index, block)
        self.all.append(call)
        self._by_id[call.id] = call
        return call

    def take(self, call: OpenCall, index: object) -> None:
        self._current = call
        if isinstance(index, int):
            self._by_index[index] = call

    def _with_id(self, call_id: str, index: object, name: str) -> OpenCall | None:
        found = self._by_id.get(call_id)
        if found is not None:
            elsewhere = isinstance(index, int) and index != found.index
            return self._again(index, name) if elsewhere and _is_another(found, name) else found
        here = self._by_index.get(index) if isinstance(index, int) else self._current
        if here is not None and not here.given_id and not name:
            self._by_id[call_id] = here  # its id comes late
            return here
        return None

    def _again(self, index: object, name: str) -> OpenCall | None:
        """The other call under an id that two of them have."""
        here = self._by_index.get(index) if isinstance(index, int) else None
        return here if here is not None and not _is_another(here, name) else None


def _is_another(call: OpenCall, name: str) -> bool:
    """Whether a delta with this name cannot be more of the call: a name comes before the arguments."""
    if not name or not call.pieces:
        return False
    return name != call.name or is_complete_json("".join(call.pieces))
