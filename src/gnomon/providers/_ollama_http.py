"""HTTP to an Ollama server: what its failures mean to a person, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping

from gnomon._complaint import Complaint
from gnomon._http import HTTP
from gnomon._ollama import is_cloud
from gnomon._transport import Incoming, Outgoing
from gnomon.errors import ContextTooLong, ModelNotFound, ProviderError, Unauthorized, Unreachable

__all__ = ["OllamaHTTP"]


class OllamaHTTP(HTTP):
    """The same way to the server, with advice for whoever runs that server himself."""

    streams_lines = True

    def failed(
        self,
        complaint: Complaint,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        model: str | None = None,
    ) -> ProviderError:
        usual = status or _usual_status(complaint)
        error = super().failed(complaint, status=usual, headers=headers, model=model)
        error.status = status
        hint = _by_words(error.message)
        if hint is None and not is_cloud(self.base_url):
            hint = _by_class(error, model)
        error.hint = hint or error.hint
        return error

    def open(self, call: Outgoing) -> Awaitable[Incoming]:
        return self._reached(super().open(call))

    async def _reached(self, opening: Awaitable[Incoming]) -> Incoming:
        try:
            return await opening
        except Unreachable as error:
            if error.message.startswith("cannot reach") and not is_cloud(self.base_url):
                error.hint = "is Ollama running? `ollama serve` starts it; OLLAMA_HOST says where it is"
            raise


# --- errors inside an answer --------------------------------------------------------

# They come as a sentence and nothing else: the status that it would have had tells the class (S17).
_STATUSES = (
    (404, re.compile(r"^model .{1,300} not found")),
    (401, re.compile(r"^unauthorized")),
    (400, re.compile(r"does not support|is required|^invalid |^json: |must be ")),
)


def _usual_status(complaint: Complaint) -> int | None:
    if complaint.code or complaint.kind:
        return None
    return next((status for status, words in _STATUSES if words.search(complaint.message)), None)


# --- advice -------------------------------------------------------------------------

_WORDS = (
    (re.compile(r"does not support tools"), "ask it without tools, or ask a model that takes them"),
    (
        re.compile(r"does not support (?:thinking|think)"),
        "ask it without thinking, or ask a model that thinks",
    ),
    (
        re.compile(
            r"(?i)does not support (?:multimodal|vision|images?)|missing data required for image input"
        ),
        "leave the image out, or ask a model that sees",
    ),
    (
        re.compile(r"(?i)requires more system memory|out of memory"),
        "use a smaller model, set a smaller context, or end what else needs memory",
    ),
)


def _by_words(message: str) -> str | None:
    return next((hint for words, hint in _WORDS if words.search(message)), None)


def _by_class(error: ProviderError, model: str | None) -> str | None:
    if isinstance(error, ModelNotFound) and model and "model" in error.message:
        return f"`ollama pull {model}` fetches it; `gnomon models ollama` lists those that are there"
    if isinstance(error, ContextTooLong):
        return "set a larger context in [providers.ollama] of your configuration, or shorten the conversation"
    if isinstance(error, Unauthorized):
        return "models of Ollama's cloud need `ollama signin` on the machine of the server"
    return None
