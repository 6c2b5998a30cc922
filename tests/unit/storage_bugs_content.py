"""Stores that change what they are given, or take what cannot be stored."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from reference_store import Plants, Reference

from gnomon.errors import InvalidInput
from gnomon.types.records import (
    Checkpoint,
    LedgerEvent,
    MemoryRecord,
    SessionRecord,
)


class PayloadAsText(Reference):
    def copied(self, record: Any) -> Any:
        if isinstance(record, LedgerEvent):
            return replace(record, payload=record.payload.decode("utf-8", "replace").encode())
        return super().copied(record)


class CutsAMegabyte(Reference):
    def copied(self, record: Any) -> Any:
        if isinstance(record, LedgerEvent):
            return replace(record, payload=record.payload[:400_000])
        return super().copied(record)


class RefusesAMegabyte(Reference):
    def kept(self, record: Any) -> Any:
        kept = super().kept(record)
        if len(msgspec.json.encode(kept)) > 900_000:
            raise InvalidInput("too large")
        return kept


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with every leaf changed."""
    if isinstance(value, dict):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return change(value)


class ChangesLeaves(Reference):
    def change(self, value: Any) -> Any:
        raise NotImplementedError

    def copied(self, record: Any) -> Any:
        record = super().copied(record)
        names = ("metadata", "value", "detail", "input", "output", "attributes", "state")
        found = {name: getattr(record, name) for name in names if hasattr(record, name)}
        return replace(record, **{name: _changed(value, self.change) for name, value in found.items()})


class CutsAtNUL(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value.partition("\0")[0] if isinstance(value, str) else value


class BoolsAreNumbers(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return int(value) if isinstance(value, bool) else value


class NumbersAreFloats(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return float(value) if type(value) is int else value


class NoSignOfZero(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value + 0.0 if isinstance(value, float) else value


class EmptyTextIsNull(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value or None if isinstance(value, str) else value


class NormalisesText(ChangesLeaves):
    def change(self, value: Any) -> Any:
        import unicodedata

        return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


class RunsPickles(ChangesLeaves):
    def change(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("c") and value.endswith("."):
            with suppress(Exception):
                return pickle.loads(value.encode("latin-1"))
        return value


class ReadsTaggedObjects(Reference):
    def copied(self, record: Any) -> Any:
        record = super().copied(record)
        if isinstance(record, MemoryRecord) and isinstance(record.value, dict) and "$date" in record.value:
            return replace(record, value=str(record.value["$date"]))
        return record


class NormalisesTitles(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        await super().create_session(replace(session, title=session.title.strip()))


class LeavesTheRestOfALargeValue(Reference):
    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            before = tables.memory.get(memory.id)
        rest = before.value[len(str(memory.value)) :] if before and isinstance(before.value, str) else ""
        if isinstance(memory.value, str) and len(rest) > 1_000:
            memory = replace(memory, value=memory.value + rest)
        await super().put_memory(memory)


class TakesWhatJsonCannotHold(Reference):
    def check_json(self, what: str, value: object) -> None:
        pass


class StoresBeforeItChecks(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            await super().save_checkpoint(checkpoint)
        except InvalidInput:
            await super().save_checkpoint(replace(checkpoint, state={}))
            raise


class WrapsLargeNumbers(ChangesLeaves):
    def check_json(self, what: str, value: object) -> None:
        if not isinstance(value, int):
            super().check_json(what, value)

    def copied(self, record: Any) -> Any:
        names = ("metadata", "value", "detail", "input", "output", "attributes", "state")
        found = {name: getattr(record, name) for name in names if hasattr(record, name)}
        changed = {name: _changed(value, self.change) for name, value in found.items()}
        return Reference.copied(self, replace(record, **changed))

    def change(self, value: Any) -> Any:
        fits = type(value) is not int or -(2**63) <= value < 2**63
        return value if fits else (value + 2**63) % 2**64 - 2**63


class SharesItsRecords(Reference):
    def copied(self, record: Any) -> Any:
        return record


class StripsIds(Reference):
    def kept(self, record: Any) -> Any:
        kept = super().kept(record)
        return replace(kept, id=kept.id.strip() or kept.id)


class TakesAnEmptyId(Reference):
    def check_name(self, what: str, name: str, *, empty: bool = False) -> None:
        super().check_name(what, name, empty=True)


class TakesNULInNames(Reference):
    def check_name(self, what: str, name: str, *, empty: bool = False) -> None:
        super().check_name(what, name.replace("\0", ""), empty=empty)


class WholeMilliseconds(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        time = super().check_time(what, time)
        return time.replace(microsecond=time.microsecond // 1000 * 1000)


class KeepsTheZone(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        super().check_time(what, time)
        return time

    def copied(self, record: Any) -> Any:
        return record


class GivesBackTheZone(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await super().update_session(session)
        return replace(session, revision=stored.revision)


class TakesNaiveTimes(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        return super().check_time(what, time if time.tzinfo else time.replace(tzinfo=UTC))


class FallsOverYearOne(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        super().check_time(what, time + timedelta(days=2))
        return time.astimezone(UTC)


PLANTS: Plants = {
    "test_payloads_come_back_byte_for_byte": [
        (PayloadAsText, "the log.3..payload: expected"),
    ],
    "test_a_payload_of_a_megabyte_comes_back": [
        (CutsAMegabyte, "event 1.0..payload: expected"),
        (RefusesAMegabyte, "too large"),
    ],
    "test_any_json_comes_back_as_it_was": [
        (CutsAtNUL, "SessionRecord.metadata with value 0.'v'..'with NUL'.: expected"),
        (BoolsAreNumbers, "SessionRecord.metadata with value 0.'v'..'NUL .x00 in a key'.: expected"),
        (NumbersAreFloats, "SessionRecord.metadata with value 0.'v'..'numbers'..0.: expected"),
        (NoSignOfZero, "SessionRecord.metadata with value 0.'v'..'floats'..1.: expected"),
        (EmptyTextIsNull, "SessionRecord.metadata with value 0.'v'..'texts'..0.: expected"),
        (NormalisesText, "SessionRecord.metadata with value 0.'v'..'texts'..7.: expected"),
    ],
    "test_text_comes_back_in_every_field": [
        (NormalisesTitles, "text ' '.0..title: expected"),
    ],
    "test_a_megabyte_of_json_comes_back": [
        (RefusesAMegabyte, "too large"),
    ],
    "test_a_large_value_that_is_replaced_leaves_nothing_of_itself": [
        (LeavesTheRestOfALargeValue, "a value of 1.value: expected"),
    ],
    "test_what_json_cannot_hold_is_refused": [
        (TakesWhatJsonCannotHold, "SessionRecord.metadata with bytes: expected"),
        (StoresBeforeItChecks, "checkpoints that were stored: expected"),
    ],
    "test_a_number_that_is_too_large_is_refused_or_comes_back": [
        (WrapsLargeNumbers, "9223372036854775808.'v'..0.: expected"),
    ],
    "test_ids_are_any_text": [
        (StripsIds, "id ' edge ': the session's id.0.: expected"),
    ],
    "test_an_id_that_is_empty_or_holds_nul_is_refused": [
        (TakesAnEmptyId, "create_session with id '': expected"),
        (TakesNULInNames, "create_session with id 'a.x00b': expected"),
    ],
    "test_times_come_back_in_utc_with_microseconds": [
        (WholeMilliseconds, "2024-02-29 23:59:59.999999.00:00: the audit row: expected"),
        (KeepsTheZone, "2024-07-01 09:00:00.000007.05:45: the audit row: expected"),
        (FallsOverYearOne, "date value out of range"),
    ],
    "test_what_an_update_gives_back_is_in_utc": [
        (GivesBackTheZone, "updated_at: expected"),
    ],
    "test_a_time_without_a_zone_is_refused": [
        (TakesNaiveTimes, "SessionRecord.created_at with 2024-05-17 12:00:00: expected"),
    ],
    "test_what_looks_like_code_is_kept_as_it_is": [
        (RunsPickles, "SessionRecord.metadata with cgnomon.testing._storage_values"),
        (ReadsTaggedObjects, "MemoryRecord.value with .'.date': '2024-01-01T00:00:00Z'.: expected"),
    ],
    "test_a_record_that_is_changed_after_it_was_stored_changes_nothing": [
        (SharesItsRecords, "SessionRecord.metadata.'v'..'list'. length: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
