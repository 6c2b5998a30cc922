"""The messages of a request, as far as Mistral wants them otherwise than Chat Completions elsewhere.

What its service checks is written down in its own `mistral-common` (protocol/instruct/validator.py):
the form of ids and names, and which role may follow which.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import cast

import msgspec

from gnomon.providers._chat_messages import Made, Messages, Said
from gnomon.providers._chat_quirks import ChatQuirks, ThinkingParams
from gnomon.providers._media import base64_text, checked_size, data_url, media_bytes, media_type
from gnomon.providers._mistral import CHUNKS_META
from gnomon.types.messages import Audio, File, Image, Message, Meta, Text, Thinking, ToolCall, ToolResult
from gnomon.types.requests import Request

__all__ = ["MistralMessages", "id_of_nine", "quirks_for"]

_LARGEST_IMAGE_BYTES = 10_000_000
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")


# --- what differs by a word ------------------------------------------------------------


def quirks_for(model: str) -> ChatQuirks:
    """How a model is asked. They differ in the efforts they know."""
    known = next((efforts for start, efforts in _EFFORTS.items() if model.startswith(start)), _ON_OR_OFF)
    return msgspec.structs.replace(_QUIRKS, thinking=ThinkingParams(efforts=known))


# Our word for an effort → theirs. https://docs.mistral.ai/studio/conversations/reasoning: with `none`
# a model thinks "minimally", with `high` it thinks; few know anything between the two.
_ON_OR_OFF = {"minimal": "none", "low": "high", "medium": "high"}
_EFFORTS = {
    "mistral-large-4": {"minimal": "low"},
    "zai-glm": {"none": "low", "minimal": "low", "medium": "high"},
}

_QUIRKS = ChatQuirks(
    system_role="system",
    system_first=True,
    names=False,
    file_urls=True,
    metadata="always",
    top_k=True,
    max_tokens="max_tokens",
    asks_usage=False,
    broken_arguments=False,
    refusals=False,
)


# --- messages --------------------------------------------------------------------------


class MistralMessages(Messages):
    """The list of messages, in the making."""

    def of(self, request: Request, instructions: str | None = None) -> list[Made]:
        made = self._with_words_after_tools(super().of(request, instructions))
        if made and _role(made[-1]) == "assistant":
            made[-1] = self._as_prefix(made[-1])
        return made

    # --- the order ---

    def _with_words_after_tools(self, made: list[Made]) -> list[Made]:
        """After a tool the model has to speak before the user does, or the request is refused."""
        ordered: list[Made] = []
        before = ""
        for message in made:
            role = _role(message)
            if role == "user" and before == "tool":
                ordered.append(Said("assistant", _AFTER_TOOLS))
                self._notes.add(
                    "rewritten",
                    "{vendor} takes no user message right after a tool result: "
                    f"the model was made to say {_AFTER_TOOLS!r} between them",
                )
            ordered.append(message)
            before = role
        return ordered

    def _as_prefix(self, last: Made) -> Made:
        """An answer can only be asked for after the user's words, or as more of the model's own."""
        made: Meta = {"role": last.role, "content": last.content} if isinstance(last, Said) else last
        if "tool_calls" in made:
            return made
        self._notes.add(
            "prefix",
            "the last message is the model's own: {vendor} goes on from it, and repeats it in the answer",
        )
        return {**made, "prefix": True}

    # --- what the model said ---

    def _add_assistant(self, message: Message) -> None:
        chunks: list[object] = []
        calls: list[Meta] = []
        for part in message.content:
            match part:
                case Text():
                    chunks += _text_chunks(part)
                case Thinking() if self._is_own(part):
                    chunks.append(_thought(part))
                case ToolCall():
                    calls.append(self._call(part))
                case _:
                    pass
        self._put_aside(message.content, "a message of the model's")
        if not (chunks or calls):
            return
        made = self._named(message, "assistant", _shortest(chunks))
        if calls:
            made["tool_calls"] = calls
        self._made.append(made)

    def _call(self, call: ToolCall) -> Meta:
        function: Meta = {"name": _named(call.name), "arguments": self._arguments(call)}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _id(self, call_id: str) -> str:
        made = id_of_nine(call_id)
        if made != call_id:
            self._notes.add(
                "ids_rewritten",
                "{vendor} takes ids of nine letters or digits: those of earlier calls were replaced",
            )
        return made

    # --- what tools answered ---

    def _add_results(self, message: Message) -> None:
        for part in message.content:
            if isinstance(part, ToolResult):
                self._made.append(self._result(part))

    def _result(self, part: ToolResult) -> Meta:
        """Images stay where they are, and other media go into a user message."""
        images = [
            shown for inner in part.content if isinstance(inner, Image) and (shown := self._moved(inner))
        ]
        others = tuple(inner for inner in part.content if not isinstance(inner, Image))
        text = "\n".join(inner.text for inner in others if isinstance(inner, Text))
        moved = self._put_aside(others, f"the result of {part.name or 'a tool'}")
        if moved and not (text or images):
            text = "The result is shown in the next message but one."
        if not (text or images) and part.status != "ok":
            text = part.status
        told: list[Meta] = [{"type": "text", "text": text}] if text else []
        made: Meta = {
            "role": "tool",
            "tool_call_id": self._id(part.call_id),
            "content": [*told, *images] if images else text,
        }
        if part.name:
            made["name"] = _named(part.name)
        return made

    # --- media ---

    def _image(self, part: Image) -> Meta:
        kind = media_type(part)
        if kind is not None and kind not in _IMAGES:
            raise self._refused(f"an image of type {kind}", "it takes PNG, JPEG, WEBP and GIF")
        checked_size(part, _LARGEST_IMAGE_BYTES, self._vendor)
        return super()._image(part)

    def _audio(self, part: Audio) -> Meta:
        given = part.url if media_bytes(part) is None else base64_text(part)
        return {"type": "input_audio", "input_audio": given}

    def _file(self, part: File) -> Meta:
        given = part.url if media_bytes(part) is None else data_url(part)
        made: Meta = {"type": "document_url", "document_url": given}
        return {**made, "document_name": part.name} if part.name else made


_AFTER_TOOLS = "I have the results."


def _role(message: Made) -> str:
    return message.role if isinstance(message, Said) else str(message["role"])


def _text_chunks(part: Text) -> list[object]:
    """The text, with the references that stood in it."""
    kept = part.meta.get(CHUNKS_META)
    if isinstance(kept, str):
        return list(msgspec.json.decode(kept, type=list[msgspec.Raw]))
    return [{"type": "text", "text": part.text}] if part.text else []


def _thought(part: Thinking) -> Meta:
    kept = part.meta.get(CHUNKS_META)
    inner: object = [{"type": "text", "text": part.text}]
    if isinstance(kept, str):
        inner = msgspec.Raw(kept.encode())
    made: Meta = {"type": "thinking", "thinking": inner}
    return made if part.signature is None else {**made, "signature": part.signature}


def _shortest(chunks: list[object]) -> object:
    """A string, where plain texts are all there is to say."""
    texts = [text for chunk in chunks if (text := _plain_text(chunk)) is not None]
    return "".join(texts) if len(texts) == len(chunks) else chunks


def _plain_text(chunk: object) -> str | None:
    """The text of a chunk that is one. Chunks that were kept are not read."""
    fields = cast(Meta, chunk) if isinstance(chunk, dict) else {}
    return str(fields["text"]) if fields.get("type") == "text" else None


def _named(name: str) -> str:
    """A name that models or other vendors made up may hold what the service refuses to read back."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


# --- ids -------------------------------------------------------------------------------


def id_of_nine(call_id: str) -> str:
    """The id, if it has the form that Mistral wants: nine letters or digits. Else one made of it.

    The same in every request, for a call and its result alike. Nine of 62 characters are so many
    that no two ids of a conversation become one.
    """
    if re.fullmatch(r"[a-zA-Z0-9]{9}", call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode("utf-8", "surrogatepass")).digest())
    made = ""
    for _ in range(9):
        number, place = divmod(number, len(_ALPHABET))
        made += _ALPHABET[place]
    return made


_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
