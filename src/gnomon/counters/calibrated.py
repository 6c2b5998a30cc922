"""Tokens by the scripts of a text and the habits of a model, which are learned from what services report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import cast

import msgspec

from gnomon.contracts.storage import MemoryStore
from gnomon.counters._fit import Features
from gnomon.counters._kept import Kept
from gnomon.counters._learned import VERSION, Learned, NotReadable
from gnomon.counters._measure import Columns, measure, measure_tools, schema_weight
from gnomon.counters._text import UNIT, weigh, weigh_others
from gnomon.counters._vendors import GENERAL, family_of
from gnomon.types.messages import Message, Meta, ToolDef
from gnomon.types.records import MemoryRecord, utc_now
from gnomon.types.requests import Request, Response, Usage

__all__ = ["CalibratedCounter"]

log = logging.getLogger("gnomon.counters.calibrated")

MODELS_KEPT = 64
_OTHERS_KEPT = 8
_ABSURD = 10**9
"""Tokens that no prompt has: whoever reports them is not believed."""

_OWNER = "gnomon"
_KEY = f"counters/calibrated/{VERSION}"


class CalibratedCounter:
    """Counts for one model, and learns about all.

    `observe` is for whoever has an answer with its usage, and never fails. It looks at the first
    reports of a model, and at every sixteenth after that. `for_model` gives a counter for another
    model that shares what was learned. Any number of threads may count and observe at once.
    """

    def __init__(self, *, model: str | None = None, models_kept: int = MODELS_KEPT) -> None:
        if models_kept < 1:
            raise ValueError(
                f"models_kept is how many models are remembered, at least one, not {models_kept}"
            )
        self._set_up(model or "", Learned(models_kept))

    def _set_up(self, model: str, learned: Learned) -> None:
        self.model = model
        self._learned = learned
        self._messages: Kept[Message] = Kept(partial(measure, model=model))
        self._tools: Kept[ToolDef] = Kept(measure_tools)
        self._others: dict[str, CalibratedCounter] = {}

    def for_model(self, model: str) -> CalibratedCounter:
        """The same knowledge, for another model."""
        other = CalibratedCounter.__new__(CalibratedCounter)
        other._set_up(model, self._learned)
        return other

    # --- counting -------------------------------------------------------------------

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        if not messages and not tools:
            return 0
        return self._tokens(self._features(messages, tools))

    def count_request(self, request: Request) -> int:
        """All of a prompt, the system prompt and the schema of the answer too, for the model it asks for."""
        counter = self._for(request.model or self.model)
        return counter._tokens(counter._request(request))

    def count_text(self, text: str) -> int:
        if not text:
            return 0
        other = weigh_others(text)
        worths = self._learned.fit(self.model).worths
        return max(1, ceil((worths[0] * (weigh(text) - other) + worths[1] * other) / UNIT))

    def _tokens(self, features: Features) -> int:
        return max(1, ceil(self._learned.fit(self.model).tokens(features)))

    def _request(self, request: Request) -> Features:
        system = measure((Message.system(request.system),), self.model) if request.system else None
        return self._features(request.messages, request.tools, system, request.output_schema)

    def _features(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDef],
        system: Columns | None = None,
        output: Meta | None = None,
    ) -> Features:
        """In the order of the worths of a `Family`."""
        said = self._messages.total(messages)
        if system is not None:
            said = said.plus(system)
        schemas = self._tools.total(tools).ascii
        answer = schema_weight(output) if output else 0
        return (
            said.ascii / UNIT,
            said.other / UNIT,
            float(said.images),
            schemas / UNIT,
            answer / UNIT,
            float(len(messages) + (system is not None)),
            float(said.exchanges),
            float(len(tools)),
            float(bool(tools)),
            float(bool(answer)),
            1.0,
        )

    def _for(self, model: str) -> CalibratedCounter:
        """This one or another, which remembers what it has measured as this one does."""
        if model == self.model:
            return self
        other = self._others.get(model)
        if other is None:
            if len(self._others) >= _OTHERS_KEPT:
                self._others.clear()
            other = self._others[model] = self.for_model(model)
        return other

    # --- learning -------------------------------------------------------------------

    def observe(self, request: Request, response: Response) -> None:
        """Learn from what a service says a request came to; what it did not say teaches nothing."""
        tokens = _reported(response.usage)
        if tokens is None:
            return
        model = self._who_answered(request, response)
        if self._learned.is_due(model):
            # Of another model's prompt nothing is remembered: it may be the only one.
            counter = self if model == self.model else self.for_model(model)
            self._learned.report(model, counter._request(request), tokens)

    def _who_answered(self, request: Request, response: Response) -> str:
        """The model as it was asked for, since counts are asked for by that name; or another that answered.

        A name of one's own, such as a deployment's, is no other model: nothing is known of its family.
        """
        asked = request.model or self.model or response.model or ""
        answered = response.model or asked
        families = {family_of(asked).name, family_of(answered).name}
        return answered if len(families) > 1 and GENERAL.name not in families else asked

    @property
    def models(self) -> tuple[str, ...]:
        """Those it has learned of."""
        return self._learned.models()

    # --- keeping what was learned -----------------------------------------------------

    def state(self) -> bytes:
        """What was learned, as JSON: about a kilobyte a model."""
        return self._learned.write()

    def restore(self, state: bytes) -> bool:
        """Take over a state, where it knows more. A damaged or newer one is left, with a line in the log."""
        try:
            self._learned.read(state)
        except NotReadable as reason:
            log.warning("what was learned about token counts is not used: %s", reason)
            return False
        return True

    async def load(self, storage: MemoryStore) -> bool:
        """Take over what a store keeps; whether there was anything to use."""
        record = await storage.get_memory(_OWNER, _KEY)
        return record is not None and self.restore(_as_bytes(record.value))

    async def save(self, storage: MemoryStore) -> None:
        """Put what was learned into a store, together with what another process has put there since."""
        await self.load(storage)
        now = utc_now()
        record = MemoryRecord(
            id=f"{_OWNER}/{_KEY}",
            key=_KEY,
            value=cast(object, msgspec.json.decode(self.state())),
            created_at=now,
            updated_at=now,
            agent_id=_OWNER,
            kind="calibration",
        )
        await storage.put_memory(record)


def _reported(usage: Usage) -> int | None:
    """All tokens of a prompt, new, read from a cache and written to one; `None` when they are not known."""
    if usage.estimated or usage.input_tokens is None:
        return None
    total = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return total if 0 < total < _ABSURD else None


def _as_bytes(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return b""
