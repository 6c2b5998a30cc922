"""The rows of checkpoints."""

from __future__ import annotations

from time import time_ns

import msgspec

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.storage._keys import joined, number_key
from gnomon.storage._part import Part
from gnomon.storage._rows import Place, Row, Span
from gnomon.storage._values import checked_name, checked_number, checked_time, encoded
from gnomon.types.records import Checkpoint, Page

__all__ = ["CheckpointRows", "checkpoint_row"]


class CheckpointRows(Part):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        row = checkpoint_row(checkpoint)
        await self._enrol()
        await self._rows.write(self._tenant, row, None)

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        return await self._get("checkpoints", checked_name("the checkpoint's id", checkpoint_id), Checkpoint)

    async def get_latest_checkpoint(self, session_id: str) -> Checkpoint | None:
        part = checked_name("the session's id", session_id)
        span = Span(kind="checkpoints", index="session", part=part, descending=True, limit=1)
        found = await self._rows.find(self._tenant, span)
        return self._read(Checkpoint, found[0]) if found else None

    async def list_checkpoints(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Checkpoint]:
        span = Span(kind="checkpoints", index="session", part=checked_name("the session's id", session_id))
        return await self._page("list_checkpoints", span, Checkpoint, limit, offset, cursor)


def checkpoint_row(checkpoint: Checkpoint) -> Row:
    checked_name("the checkpoint's id", checkpoint.id)
    checked_name("the session's id", checkpoint.session_id)
    checked_number("the seq of a checkpoint", checkpoint.seq)
    made = checked_time("created_at", checkpoint.created_at)
    if made is not checkpoint.created_at:
        checkpoint = msgspec.structs.replace(checkpoint, created_at=made)
    # Among equals the one that was saved last comes last, whatever it says of its own time.
    sort = joined(number_key(checkpoint.seq), number_key(time_ns()), checkpoint.id)
    return Row(
        kind="checkpoints",
        id=checkpoint.id,
        body=encoded("checkpoint", checkpoint, "state"),
        places={"session": Place(checkpoint.session_id, sort)},
    )
