"""`gnomon db copy`, `export` and `import`: a store into another, into a file, and out of it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import BinaryIO, cast

import click
import msgspec

from gnomon.cli.meter import Meter, amounts
from gnomon.cli.problems import report
from gnomon.cli.stores import check_tenants, on_store, opened, told, where
from gnomon.contracts.storage import Storage, SupportsStatus
from gnomon.errors import InvalidInput
from gnomon.upkeep import ArchiveReport, CopyReport, Tally, copy, export, import_

__all__ = ["check_file", "copied", "exported", "imported"]


# --- copy ---------------------------------------------------------------------------


def copied(source: str, target: str, *, tenants: tuple[str, ...] | None, as_json: bool, quiet: bool) -> int:
    done = told(lambda: asyncio.run(_copied(source, target, tenants, quiet=quiet)), as_json=as_json)
    if as_json:
        click.echo(msgspec.json.encode(done).decode())
    else:
        there = f"; {done.skipped:,} sessions were there already" if done.skipped else ""
        click.echo(f"copied {_summary(done)}{there}; every session has the same hash in both")
    _tell_missing(done.missing_blobs, quiet=quiet)
    return 0


async def _copied(source: str, target: str, tenants: tuple[str, ...] | None, *, quiet: bool) -> CopyReport:
    async with opened(source) as from_store, opened(target) as to_store:
        with Meter("copying", quiet=quiet) as meter:
            # Two schemas or prefixes of one server are two stores.
            ends = [(await where(from_store, source), _settings(source))]
            if (await where(to_store, target), _settings(target)) in ends:
                raise InvalidInput("both stores are the same one", hint="gnomon db copy FROM TO")
            await from_store.list_sessions(limit=1)  # which says so where there are no tables
            await check_tenants(from_store, tenants)
            await _ready(to_store)
            return await copy(from_store, to_store, tenants=tenants, progress=meter)


def _settings(url: str) -> str:
    return url.partition("?")[2]


async def _ready(store: Storage) -> None:
    """Tables where there are none. Older ones are left to whoever decides to migrate them."""
    if not isinstance(store, SupportsStatus) or (await store.status()).schema_found == 0:
        await store.migrate()
    await store.list_sessions(limit=1)  # which says so now where they are older, or newer


def _summary(done: CopyReport | ArchiveReport) -> str:
    fields = {name: getattr(done, name) for name in ("sessions", "events", "blobs", "memory", "bytes")}
    if isinstance(done, CopyReport):
        fields["sessions"] -= done.skipped
    return amounts(Tally(**fields)) or "nothing"


def _tell_missing(count: int, *, quiet: bool) -> None:
    if count and not quiet:
        report(f"{count:,} blobs are missing or damaged in the source (see: gnomon db verify)", kind="")


# --- export -------------------------------------------------------------------------


def exported(url: str, file: str, *, tenants: tuple[str, ...] | None, force: bool, quiet: bool) -> int:
    with _out(file, force=force) as out:

        async def work(store: Storage, meter: Meter) -> ArchiveReport:
            await check_tenants(store, tenants)
            return await export(store, out, tenants=tenants, progress=meter)

        done = on_store(url, work, "exporting", quiet=quiet)
    if not quiet:
        report(f"exported {_summary(done)}", kind="")
    _tell_missing(done.missing_blobs, quiet=quiet)
    return 0


def _out(file: str, *, force: bool) -> AbstractContextManager[BinaryIO]:
    if file == "-":
        return _to_stdout()
    if os.path.exists(file) and not os.path.isfile(file):  # a pipe, a device: nothing that can be replaced
        return _straight(file)
    return _into(file, force=force)


def check_file(path: str, usage: str) -> None:
    """Nothing of it is shown: a URL may hold a password."""
    if not path or "://" in path:
        what = "stands the URL of a store" if path else "stands nothing"
        raise InvalidInput(f"where a file should be named {what}", hint=f"gnomon db {usage}")


@contextmanager
def _to_stdout() -> Generator[BinaryIO, None, None]:
    """A way of its own to where stdout goes: a write that nobody reads must not hold up the end of all."""
    sys.stdout.flush()
    with _straight(os.dup(sys.stdout.fileno())) as out:
        yield out


@contextmanager
def _straight(place: str | int) -> Generator[BinaryIO, None, None]:
    """Without a buffer: closing it waits for nobody."""
    with open(place, "wb", buffering=0) as out:
        yield cast(BinaryIO, out)


@contextmanager
def _into(path: str, *, force: bool) -> Generator[BinaryIO, None, None]:
    """A file that is there when it is whole, for its owner alone."""
    if os.path.lexists(path) and not force:
        raise InvalidInput(f"{path} exists already", hint="name another file, or pass --force")
    folder, name = os.path.split(os.path.abspath(path))
    try:
        handle, fresh = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
    except OSError as error:  # which names a file that nobody has typed
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with open(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh)
        raise


# --- import -------------------------------------------------------------------------


def imported(url: str, file: str, *, quiet: bool) -> int:
    with _lines(file) as lines:

        async def work(store: Storage, meter: Meter) -> ArchiveReport:
            await _ready(store)
            return await import_(store, lines, progress=meter)

        source = "the store" if lines.seekable() else "standard input" if file == "-" else file
        done = on_store(url, work, "importing", quiet=quiet, waiting_for=source)
    click.echo(f"imported {_summary(done)}")
    return 0


@contextmanager
def _lines(file: str) -> Generator[BinaryIO, None, None]:
    """What is piped in, or a file. Both may never say more, and a thread waits in them then.

    Closing waits for that thread, and Python ends with a fatal error when it waits in `sys.stdin`: so
    it is a reader of our own, and whoever interrupts leaves it open.
    """
    lines = open(_stdin() if file == "-" else file, "rb")  # noqa: SIM115
    try:
        yield lines
    except Exception:
        lines.close()
        raise
    else:
        lines.close()


def _stdin() -> int:
    if cast("object", sys.stdin) is None or sys.stdin.isatty():
        raise InvalidInput("nothing is piped in", hint="gnomon db import - < backup.jsonl")
    return os.dup(sys.stdin.fileno())
