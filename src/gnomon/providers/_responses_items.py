"""The messages of a request, as the input items of OpenAI's Responses API.

One small function a kind of part. A message that is one plain text, as most are,
takes a short way. Nothing is stored at the vendor, so no item is sent by its id:
reasoning goes back whole, everything else as what it says.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TypeAlias

import msgspec

from gnomon.errors import BadRequest
from gnomon.facts.replay import returns
from gnomon.providers._history import after_last_answer
from gnomon.providers._media import checked_size, data_url, media_bytes, media_type
from gnomon.providers._notes import Notes
from gnomon.providers._responses_wire import CALL, ITEM, PHASE
from gnomon.providers._runs import SENT
from gnomon.providers._thinking import note_dropped
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Meta,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

__all__ = ["Items"]

# https://developers.openai.com/api/docs/guides/images-vision and …/guides/file-inputs
_IMAGE_BYTES = 512_000_000
_FILE_BYTES = 50_000_000
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DETAILS = frozenset({"auto", "low", "high", "original"})

_LONGEST_CALL_ID = 64
_LONGEST_NAME = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

# Refused by the vendor without the output of a tool that is none of ours.
_AWAITS_AN_ANSWER = frozenset(
    {"apply_patch_call", "computer_call", "custom_tool_call", "local_shell_call", "shell_call"}
)

_Item: TypeAlias = Meta | msgspec.Raw

_encode = msgspec.json.Encoder().encode


class Items:
    """The list of items, in the making. `vendor` and `model` tell the own thinking from another's.

    `file_urls`: the vendor fetches a file by its address.
    """

    def __init__(self, vendor: str, model: str, notes: Notes, *, file_urls: bool = True) -> None:
        self._file_urls = file_urls
        self._vendor = vendor
        self._model = model
        self._notes = notes
        self._made: list[_Item] = []
        self._content: list[Meta] = []  # of the message in the making
        self._thinks = False  # whether the last item is a thought
        self._answered = False  # what the model has answered must not be refused any more

    def of(self, messages: tuple[Message, ...]) -> list[_Item]:
        new = after_last_answer(messages)
        if new:
            self._answered = True
            self._add_answered(messages[:new])
            self._answered = False
        self._add_each(messages[new:])
        return self._made

    def _add_answered(self, messages: tuple[Message, ...]) -> None:
        """What is in every request that follows is encoded once."""
        rules = (Items, self._vendor, self._model, self._file_urls)
        for run in SENT.of(messages, rules, self._alone):
            if run.words is None:
                self._add_each(run.messages)
            else:
                self._made.append(run.words)  # several, with the commas between them

    def _alone(self, messages: tuple[Message, ...]) -> bytes | None:
        """The messages in words, if there is nothing to be noted of them."""
        notes = Notes(self._vendor)
        items = Items(self._vendor, self._model, notes, file_urls=self._file_urls)
        items._answered = True
        items._add_each(messages)
        return _encode(items._made)[1:-1] if not notes.warnings() else None

    def _add_each(self, messages: tuple[Message, ...]) -> None:
        made = self._made
        for message in messages:
            parts = message.content
            # One plain text; nearly every message of a long conversation is.
            if len(parts) == 1 and type(parts[0]) is Text and message.role != "tool":
                text = parts[0]
                if text.text and not text.meta and message.name is None:
                    said: Meta = {"role": message.role, "content": text.text}
                    made.append(_answered(said) if message.role == "assistant" else said)
                    continue
            self._add(message)

    def _add(self, message: Message) -> None:
        if message.name is not None:
            self._notes.add(
                "unsupported_parameter", "{vendor} takes no names of speakers: one was not sent", key="name"
            )
        for part in message.content:
            self._add_part(part, message.role)
        if self._thinks:
            self._finish_thought()
        self._close_message(message.role)

    def _add_part(self, part: Part, role: Role) -> None:
        match part:
            case Text():
                self._add_text(part, role)
            case ToolCall():
                self._add_item(_call(part), role)
            case ToolResult():
                self._add_item(self._result(part), role)
            case Thinking():
                self._add_thinking(part, role)
            case UnknownPart():
                self._add_own(part, role)
            case _:
                self._content += self._returned(part) if self._answered else self._media(part, role)

    def _add_item(self, item: _Item, role: Role) -> None:
        self._close_message(role)
        self._made.append(item)
        self._thinks = False

    def _close_message(self, role: Role) -> None:
        content, self._content = self._content, []
        if not content:
            return
        if role == "assistant":
            self._notes.add(
                "moved", "{vendor} takes text only from the model: what else it gave went into a user message"
            )
            content = [{"type": "input_text", "text": "From the model's message:"}, *content]
        whole = content[0]["text"] if len(content) == 1 and "text" in content[0] else content
        self._made.append({"role": role if role == "system" else "user", "content": whole})

    # --- texts and thinking ---

    def _add_text(self, part: Text, role: Role) -> None:
        if not part.text:
            return
        if role != "assistant":
            self._content.append({"type": "input_text", "text": part.text})
            return
        said = _answered({"role": "assistant", "content": part.text})
        if isinstance(phase := part.meta.get(PHASE), str):
            said["phase"] = phase
        self._add_item(said, role)

    def _add_thinking(self, part: Thinking, role: Role) -> None:
        """A reasoning item goes back byte for byte to the model that made it, and to nobody else (S9)."""
        item = part.meta.get(ITEM)
        if isinstance(item, str) and returns(part, self._vendor, self._model):
            self._add_item(msgspec.Raw(item.encode()), role)
            self._thinks = True
        else:
            note_dropped(self._notes)

    def _finish_thought(self) -> None:
        """A reasoning item that nothing follows, as where a limit cut the answer off, is refused.

        https://github.com/openai/openai-node/issues/1567
        """
        self._add_item(_answered({"role": "assistant", "content": "(cut off)"}), "assistant")
        self._notes.add("turn_added", "a thought was cut off: a text stands for the answer it led to")

    def _add_own(self, part: UnknownPart, role: Role) -> None:
        """An item of the vendor's own goes back as it came, unless it waits for an answer of its own."""
        item = part.data.get("json")
        vendor, _, kind = part.kind.partition(".")
        if vendor != self._vendor or not isinstance(item, str) or kind in _AWAITS_AN_ANSWER:
            self._leave_out_unknown(part)
        else:
            self._add_item(msgspec.Raw(item.encode()), role)

    def _leave_out_unknown(self, part: UnknownPart) -> None:
        said = f"a part of the unknown kind {part.kind!r} was not sent"
        self._notes.add("unknown_part", said, key=part.kind)

    # --- tools ---

    def _result(self, result: ToolResult) -> Meta:
        content: list[Meta] = []
        for part in result.content:
            match part:
                case Text():
                    content.append({"type": "input_text", "text": part.text})
                case UnknownPart():
                    self._leave_out_unknown(part)
                case Image() | Audio() | File():
                    content += self._returned(part)
                case _:
                    self._notes.add("dropped", "a tool's result held what is no content: it was not sent")
        return {
            "type": "function_call_output",
            "call_id": _call_id(result.call_id),
            "output": _shortest(content) or ("" if result.status == "ok" else result.status),
        }

    def _returned(self, part: Image | Audio | File) -> list[Meta]:
        """What a tool gave must not end the conversation: the model is told of what it cannot be shown."""
        try:
            return self._media(part, "tool")
        except BadRequest as refused:
            what = f"{type(part).__name__} left out: {refused.message}"
            self._notes.add("media_left_out", what, key=what)
            return [{"type": "input_text", "text": f"({what})"}]

    # --- media ---

    def _media(self, part: Image | Audio | File, role: Role) -> list[Meta]:
        if isinstance(part, Audio):
            return self._no_audio(role)
        kind = media_type(part) or ""
        if isinstance(part, Image) or kind in _IMAGE_TYPES:
            return [self._image(part, kind)]
        return [self._file(part, kind)]

    def _image(self, part: Image | File, kind: str) -> Meta:
        detail = part.meta.get("detail")
        made: Meta = {"type": "input_image", "detail": detail if detail in _DETAILS else "auto"}
        if media_bytes(part) is None:
            return {**made, "image_url": part.url}
        if kind not in _IMAGE_TYPES:
            raise BadRequest(
                f"{self._vendor} takes no image of type {kind or 'unknown'}",
                vendor=self._vendor,
                hint="send it as PNG, JPEG, GIF or WebP",
            )
        checked_size(part, _IMAGE_BYTES, self._vendor)
        return {**made, "image_url": data_url(part)}

    def _file(self, part: File, kind: str) -> Meta:
        if media_bytes(part) is None:
            if not self._file_urls:
                raise BadRequest(
                    f"{self._vendor} takes no files by address",
                    vendor=self._vendor,
                    hint="give the file by its bytes",
                )
            return {"type": "input_file", "file_url": part.url}
        checked_size(part, _FILE_BYTES, self._vendor)
        return {
            "type": "input_file",
            "filename": part.name or "file" + _extension(kind),
            "file_data": data_url(part),
        }

    def _no_audio(self, role: Role) -> list[Meta]:
        if role in ("user", "system"):
            raise BadRequest(
                f"{self._vendor} takes no audio in its Responses API",
                vendor=self._vendor,
                hint='set api = "chat" and a model that hears, or send a transcript',
            )
        self._notes.add("dropped", "{vendor} takes no audio here: some in an earlier message was not sent")
        return []


def _answered(message: Meta) -> Meta:
    """An answer of the model, named as a message: llama.cpp knows it by that alone."""
    return {"type": "message", **message}


def _call(call: ToolCall) -> Meta:
    made: Meta = {
        "type": "function_call",
        "call_id": _call_id(call.id),
        "name": _name(call.name),
        "arguments": call.arguments,
    }
    if call.truncated:
        made["status"] = "incomplete"
    more = call.meta.get(CALL)
    return {**msgspec.json.decode(more, type=dict[str, object]), **made} if isinstance(more, str) else made


def _call_id(given: str) -> str:
    """As it is; a longer one than the vendor takes, from another vendor, always as the same other one."""
    if 0 < len(given) <= _LONGEST_CALL_ID:
        return given
    return "call_" + sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _name(given: str) -> str:
    """A name that a model made up may hold what the vendor refuses to read back."""
    if _NAME.fullmatch(given):
        return given
    return re.sub(r"[^a-zA-Z0-9_-]", "_", given)[:_LONGEST_NAME] or "_"


def _shortest(content: list[Meta]) -> str | list[Meta]:
    texts = [part["text"] for part in content if "text" in part]
    return content if len(texts) < len(content) else "\n".join(str(text) for text in texts)


def _extension(kind: str) -> str:
    import mimetypes  # only needed for a file without a name, and slow to import

    return mimetypes.guess_extension(kind) or ""
