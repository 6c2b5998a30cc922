"""A conversation as the messages of Anthropic's Messages API.

The vendor wants turns: the user's first, results of tools at the head of the turn
after the calls, nothing empty. The same conversation always gives the same bytes,
and one that has grown begins with those it had before: that is what prompt caches
and signed thinking hold on to.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import cast

import msgspec

from gnomon.errors import BadRequest
from gnomon.facts.replay import returns
from gnomon.providers._history import after_last_answer
from gnomon.providers._messages_models import Family
from gnomon.providers._messages_parts import (
    Block,
    CallIds,
    Remarks,
    audio_refused,
    file_block,
    image_block,
    is_blank,
    is_service,
    service_block,
    text_block,
    tool_use_block,
)
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

__all__ = ["History"]

_THOUGHTS = ("thinking", "redacted_thinking")


class History:
    """Takes messages in, one after the other; `turns` and `system` are what to send."""

    def __init__(self, provider: str, model: str, family: Family, remarks: Remarks) -> None:
        self.turns: list[Block] = []
        self.system: list[str] = []
        self._provider = provider
        self._model = model
        self._family = family
        self._remarks = remarks
        self._ids = CallIds()
        self._role = ""
        self._results = 0  # how many results stand at the head of the turn
        self._late: list[str] = []  # system texts that wait for their place
        self._new = False  # whether the model has not answered this yet
        self._served = False  # whether tools of the vendor's own were used
        self._answered: set[bytes] = set()  # the ids of their calls that have a result

    def take(self, messages: tuple[Message, ...]) -> None:
        first_new = after_last_answer(messages)
        turns = self.turns
        for number, message in enumerate(messages):
            # Most messages are one plain text; this way is for them.
            content, role = message.content, message.role
            if len(content) == 1 and role != self._role and (role == "user" or role == "assistant"):
                part = content[0]
                if type(part) is Text and not part.meta and message.name is None and not self._late:
                    if not is_blank(part.text):
                        self._role, self._results = role, 0
                        turns.append({"role": role, "content": part.text})
                    continue
            self._new = number >= first_new
            self._add(message)
        self._end()

    def _add(self, message: Message) -> None:
        if message.name is not None:
            self._remarks.add("name_dropped", "anthropic knows no names of speakers: they are not sent")
        if message.role == "system":
            self._instruct(message)
        elif message.role == "assistant":
            self._put("assistant", self._answer(message.content))
        else:
            self._put("user", *self._input(message.content))

    # --- turns

    def _put(self, role: str, blocks: list[Block], results: list[Block] | None = None) -> None:
        if not blocks and not results:
            return
        if role == "assistant":
            self._place_late()
        if role != self._role:
            self._role, self._results = role, 0
            self.turns.append({"role": role, "content": []})
        content = _listed(self.turns[-1])
        if results:
            content[self._results : self._results] = results
            self._results += len(results)
        content += blocks

    def _end(self) -> None:
        self._place_late()
        if self._served:
            self._drop_paused()
        for turn in self.turns:
            if turn["role"] == "assistant" and type(turn["content"]) is list:
                self._finish_thought(_listed(turn))
        if not self.turns:
            raise BadRequest(
                "there is nothing to send: no message says anything", vendor="anthropic", hint="ask something"
            )
        if self.turns[0]["role"] != "user":
            self._remarks.add(
                "turn_added", "anthropic wants the user to speak first: a turn was put before the answer"
            )
            self.turns.insert(0, {"role": "user", "content": "(The beginning is left out.)"})
        if self.turns[-1]["role"] == "assistant":
            self._end_with_answer()

    def _finish_thought(self, content: list[Block]) -> None:
        """A turn must not end in thought, as one does that a limit has cut off."""
        if content[-1]["type"] in _THOUGHTS:
            content.append({"type": "text", "text": "(cut off)"})
            self._remarks.add(
                "turn_added", "an answer that was nothing but thinking is marked as cut off for anthropic"
            )

    def _drop_paused(self) -> None:
        """A call of the vendor's own tool that was left unfinished can only go back as the last word."""
        for turn, following in pairwise(self.turns):
            content = _listed(turn)
            if turn["role"] == "assistant" and _listed(following)[0]["type"] != "tool_result":
                kept = [block for block in content if not self._is_unfinished(block)]
                if len(kept) < len(content):
                    self._remarks.add("part_dropped", "a paused call of anthropic's own tool is not sent")
                    turn["content"] = kept
        self.turns = [turn for turn in self.turns if turn["content"]]

    def _is_unfinished(self, block: Block) -> bool:
        is_call = is_service(block) and str(block["type"]).endswith("_tool_use") and "id" in block
        return is_call and bytes(cast(msgspec.Raw, block["id"])) not in self._answered

    def _end_with_answer(self) -> None:
        """The beginning of an answer to be continued, where a model takes one."""
        content = _listed(self.turns[-1])
        if is_service(content[-1]):
            return  # a turn that was paused goes back as it is
        if self._family.prefill and content[-1]["type"] == "text":
            content[-1] = {**content[-1], "text": str(content[-1]["text"]).rstrip()}
            return
        self._remarks.add(
            "turn_added", f"{self._model} does not continue an answer: a turn was added that asks it to"
        )
        self.turns.append({"role": "user", "content": "Continue from where you stopped."})

    # --- instructions

    def _instruct(self, message: Message) -> None:
        texts = [part.text for part in message.content if type(part) is Text and not is_blank(part.text)]
        if any(type(part) is not Text for part in message.content):
            self._remarks.add("part_dropped", "anthropic takes text as instructions: the rest is not sent")
        if not texts:
            return
        if not self.turns:
            self.system += texts
        elif self._family.system_messages:
            self._late += texts
            if self._role != "user":
                self._remarks.add(
                    "system_moved",
                    "anthropic takes instructions after a user's turn: some stand a turn later",
                )
        else:
            self._to_the_front(texts)

    def _place_late(self) -> None:
        """Instructions stand between the user's turn and the answer, or at the end."""
        if not self._late:
            return
        texts, self._late = self._late, []
        if self._role == "user" or is_service(_listed(self.turns[-1])[-1]):
            self._role = "system"
            blocks: list[Block] = [{"type": "text", "text": text} for text in texts]
            self.turns.append({"role": "system", "content": blocks})
        else:
            self._to_the_front(texts)

    def _to_the_front(self, texts: list[str]) -> None:
        self._remarks.add(
            "system_moved",
            f"{self._model} takes no instructions in this place: they stand before the conversation instead",
        )
        self.system += texts

    # --- what the user's turn holds

    def _input(self, parts: Iterable[Part]) -> tuple[list[Block], list[Block]]:
        blocks: list[Block] = []
        results: list[Block] = []
        for part in parts:
            if type(part) is ToolResult:
                self._result(part, blocks, results)
            elif (block := self._shown(part)) is not None:
                blocks.append(block)
        return blocks, results

    def _shown(self, part: Part) -> Block | None:
        """What a user, or a tool, shows to the model."""
        match part:
            case Text():
                return None if is_blank(part.text) else {"type": "text", "text": part.text}
            case Image():
                return image_block(part)
            case File():
                return file_block(part)
            case Audio():
                return self._unheard()
            case _:
                return self._left_out(part, "user")

    def _returned(self, part: Part) -> Block | None:
        """What a tool gave must not end the conversation: the model is told of what it cannot be shown."""
        try:
            return self._shown(part)
        except BadRequest as refused:
            what = f"{type(part).__name__} left out: {refused.message}"
            self._remarks.add("part_dropped", what)
            return {"type": "text", "text": f"({what})"}

    def _unheard(self) -> Block:
        """New audio is refused; a conversation that holds some, from another model, goes on without it."""
        if self._new:
            raise audio_refused()
        self._remarks.add("part_dropped", "anthropic takes no audio: what was said earlier is left out")
        return {"type": "text", "text": "(audio that cannot be played here)"}

    def _result(self, result: ToolResult, blocks: list[Block], results: list[Block]) -> None:
        call_id = self._ids.of_result(result.call_id)
        content = [block for part in result.content if (block := self._returned(part)) is not None]
        if call_id is None:
            self._remarks.add(
                "result_moved", "a result without its call is sent to anthropic as plain content"
            )
            blocks += content
            return
        failed = result.status != "ok"
        if failed:
            content, moved = _only_text(content)
            if moved:
                self._remarks.add(
                    "part_moved", "anthropic takes text in a failed result: the rest follows it"
                )
                blocks += moved
            content = content or [{"type": "text", "text": result.status}]
        results.append(_result_block(call_id, content, failed))

    # --- what the model said

    def _answer(self, parts: Iterable[Part]) -> list[Block]:
        return [block for part in parts if (block := self._said(part)) is not None]

    def _said(self, part: Part) -> Block | None:
        match part:
            case Text():
                return None if is_blank(part.text) else text_block(part)
            case ToolCall():
                return self._call(part)
            case Thinking():
                return self._thought(part)
            case UnknownPart() if (block := service_block(part)) is not None:
                self._note_service(block)
                return block
            case _:
                return self._left_out(part, "assistant")

    def _call(self, call: ToolCall) -> Block:
        block = tool_use_block(call, self._ids.of_call(call.id))
        if isinstance(block["input"], dict) and block["input"]:
            self._remarks.add(
                "arguments_rewritten", "arguments that are no JSON object were sent as a text inside of one"
            )
        return block

    def _note_service(self, block: Block) -> None:
        if "tool_use_id" in block:
            self._answered.add(bytes(cast(msgspec.Raw, block["tool_use_id"])))
        self._served = True

    def _thought(self, part: Thinking) -> Block | None:
        """Signed thinking goes back to who made it, and to nobody else."""
        if returns(part, self._provider, self._model):
            if part.redacted is not None:
                return {"type": "redacted_thinking", "data": part.redacted}
            if part.signature is not None:
                return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        self._remarks.add(
            "thinking_dropped", f"thinking that {self._model} did not sign is not sent back to it"
        )
        return None

    def _left_out(self, part: Part, role: str) -> None:
        kind = part.kind if isinstance(part, UnknownPart) else type(part).__name__
        self._remarks.add("part_dropped", f"anthropic takes no {kind} in the {role}'s turn: it is not sent")


def _result_block(call_id: str, content: list[Block], failed: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if failed:
        block["is_error"] = True
    return block


def _only_text(content: list[Block]) -> tuple[list[Block], list[Block]]:
    texts = [block for block in content if block["type"] == "text"]
    return texts, [block for block in content if block["type"] != "text"]


def _listed(turn: Block) -> list[Block]:
    """The blocks of a turn; one that was a plain text becomes a list here."""
    content = turn["content"]
    if isinstance(content, str):
        turn["content"] = content = [{"type": "text", "text": content}]
    return cast("list[Block]", content)
