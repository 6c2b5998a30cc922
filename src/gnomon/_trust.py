"""Which project folders the user trusts, and how a file that nobody vouches for is read.

A folder is trusted together with the bytes of its `.gnomon/config.toml`: the
user's `trusted.json` maps the folder's real path to their SHA-256, so a file
that changed is no longer trusted. Where `.gnomon` or the file is a link, that
is still the folder which holds the link, with the bytes at its end: pointing at
somebody's trusted file makes no folder trusted. Public by way of `gnomon.config`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from gnomon.errors import ConfigError, InvalidInput, scrub

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "PROJECT_FILE",
    "decoded",
    "home_folder",
    "is_recorded",
    "is_utf8",
    "kind_of",
    "named_folder",
    "one_line",
    "parse_toml",
    "read_file",
    "real_path",
    "trust",
    "trusted",
    "untrust",
]

PROJECT_FILE = os.path.join(".gnomon", "config.toml")
CONFIG_LIMIT_BYTES = 256 * 1024
_STATE_LIMIT_BYTES = 16 * 1024 * 1024
_PRIVATE = os.O_CLOEXEC | os.O_NOFOLLOW


def trust(folder: Path | str, *, env: Mapping[str, str] | None = None) -> Path:
    """Trusts the folder's `.gnomon/config.toml` as it is now; gives the real folder that was recorded."""
    from pathlib import Path

    real = real_path(folder)
    content = read_file(os.path.join(real, PROJECT_FILE))
    if content is None:
        raise InvalidInput(f"{one_line(real)} has no {PROJECT_FILE}, so there is nothing to trust")
    if not is_utf8(real):
        raise InvalidInput(f"{one_line(real)} cannot be trusted: its name is not UTF-8")
    _change(_state_to_write(env), lambda folders: folders.update({real: _digest(content)}))
    return Path(real)


def untrust(folder: Path | str, *, env: Mapping[str, str] | None = None) -> bool:
    """Forgets the folder, which need not exist any more; tells whether it was on record."""
    real, state = real_path(folder), _state_file(env)
    if state is None or not os.path.lexists(state):
        return False
    dropped: list[str | None] = []
    _change(state, lambda folders: dropped.append(folders.pop(real, None)))
    return dropped != [None]


def trusted(folder: Path | str, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the folder's `.gnomon/config.toml` is trusted with the bytes it has now."""
    real = real_path(folder)
    try:
        content = read_file(os.path.join(real, PROJECT_FILE))
    except InvalidInput:
        return False
    return content is not None and is_recorded(real, content, env)


def is_recorded(real: str, content: bytes, env: Mapping[str, str] | None) -> bool:
    """Whether these very bytes were trusted in that folder."""
    try:
        state = _state_file(env)
        recorded = _folders(state).get(real) if state else None
    except ConfigError:
        return False  # a record that cannot be read trusts nothing
    return recorded is not None and recorded == _digest(content)


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


# --- the state file ----------------------------------------------------------


def _state_file(env: Mapping[str, str] | None) -> str | None:
    """Where trust is recorded; None without a home folder."""
    env = os.environ if env is None else env
    own = env.get("GNOMON_HOME")
    # A relative one would depend on where one stands: a project could bring its own record.
    if own and not os.path.isabs(own):
        raise ConfigError("GNOMON_HOME should be an absolute path, found a relative one")
    if own:
        return os.path.join(own, "trusted.json")
    base = named_folder(env, "XDG_STATE_HOME", ".local", "state")
    return os.path.join(base, "gnomon", "trusted.json") if base else None


def _state_to_write(env: Mapping[str, str] | None) -> str:
    state = _state_file(env)
    if state is None:
        raise ConfigError("there is no home folder to remember trust in", hint="set HOME or GNOMON_HOME")
    return state


def _folders(state: str) -> dict[str, str]:
    """Real path → SHA-256, as recorded."""
    content = read_file(state, limit_bytes=_STATE_LIMIT_BYTES)
    if content is None:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        hint = "delete it, then trust your folders again"
        raise ConfigError(f"{one_line(state)} is not a list of trusted folders", hint=hint) from None


def _change(state: str, change: Callable[[dict[str, str]], object]) -> None:
    """Reads, changes and replaces the record, alone."""
    try:
        with _alone(state):
            folders = _folders(state)
            change(folders)
            _replace(state, msgspec.json.format(msgspec.json.encode(folders, order="sorted")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{one_line(state)} cannot be written: {_reason(error)}") from error


@contextmanager
def _alone(state: str) -> Generator[None]:
    """One writer at a time, across processes."""
    import fcntl

    os.makedirs(os.path.dirname(state), mode=0o700, exist_ok=True)
    # The lock file stays: if it were removed, one process could hold the old one and another the new.
    lock = os.open(f"{state}.lock", os.O_RDWR | os.O_CREAT | _PRIVATE, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _replace(path: str, content: bytes) -> None:
    """Puts the content in place, whole or not at all. The caller is the only writer."""
    fresh = f"{path}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PRIVATE, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# --- files and folders --------------------------------------------------------


def read_file(path: str, *, limit_bytes: int = CONFIG_LIMIT_BYTES) -> bytes | None:
    """The bytes of a file, read once; None when there is none.

    A cloned project can hold a link to a pipe or a device, so nothing but a
    regular file is read, and never without end.
    """
    if path == os.devnull:
        return b""
    try:
        content = _read_regular(path, limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{one_line(path)} cannot be read: {_reason(error)}") from error
    if len(content) > limit_bytes:
        raise InvalidInput(f"{one_line(path)} is too large: more than {limit_bytes} bytes")
    return content


def _read_regular(path: str, most_bytes: int) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise InvalidInput(f"{one_line(path)} is a folder, and a file was expected")
        if not stat.S_ISREG(mode):
            raise InvalidInput(f"{one_line(path)} is a pipe or a device, and a file was expected")
        with open(handle, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(handle)


def parse_toml(path: str, content: bytes) -> dict[str, object]:
    """The tables of a TOML file. Its text never reaches a message: it may hold keys."""
    import tomllib

    text = decoded(path, content)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{one_line(path)}, {_complaint(str(error), text)}") from None
    except (ValueError, RecursionError):
        detail = "a number in it is too long, or its lists are nested too deep"
        raise InvalidInput(f"{one_line(path)} cannot be used: {detail}") from None


def decoded(path: str, content: bytes) -> str:
    """The text of a file that should be UTF-8; a mark at its beginning is left out."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{one_line(path)}, line {line}: not UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput(f"{one_line(path)}, line {line}: a NUL character, so this is not a text file")
    return text


def _complaint(said: str, text: str) -> str:
    """Line, column and reason, out of what the TOML parser said."""
    reason, _, place = said.rpartition(" (at ")
    if "line" not in place:  # "end of document"
        place = f"line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))}"
    return f"{place.rstrip(')')}: not valid TOML: {one_line(reason, most=120)}"


def real_path(path: Path | str) -> str:
    """The path with every symlink resolved; what does not exist stays as it is."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{one_line(os.fspath(path))} is not a usable path: {_reason(error)}") from error


def home_folder(env: Mapping[str, str]) -> str | None:
    """The user's home folder, if there is one."""
    home = env.get("HOME", "")
    return home if os.path.isabs(home) and os.path.isdir(home) else None


def named_folder(env: Mapping[str, str], variable: str, *under_home: str) -> str | None:
    """A folder of the XDG standard, which ignores relative paths; else its place under the home folder."""
    named = env.get(variable, "")
    if os.path.isabs(named):
        return named
    home = home_folder(env)
    return os.path.join(home, *under_home) if home else None


# --- words --------------------------------------------------------------------


def one_line(text: str, *, most: int | None = None) -> str:
    """The text as it may stand in a message: printable and on one line.

    With `most` it is cut after so many characters, and secrets are taken out
    first, because half a secret is not recognised any more.
    """
    if most is not None:
        text = scrub(text)
        text = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "a table",
    type(None): "nothing",
}


def kind_of(value: object, *, shown: bool = False) -> str:
    """What kind of value of a file it is, in words; a short one itself, if it can be no secret."""
    found = type(value)
    kind = _KINDS.get(found) or (_KINDS[dict] if issubclass(found, dict) else found.__name__)
    match value:
        case str() if not is_utf8(value):
            return f"{kind} that is not UTF-8"
        case str() if shown and len(value) > 40:
            return f"{kind} of {len(value)} characters"  # half a secret would not be recognised any more
        case str() if shown:
            return f'{kind} "{one_line(value, most=40)}"'
        case bool():
            return kind
        case int() if shown and value.bit_length() <= 64:
            return f"{kind}, {value}"
        case float() if shown:
            return f"{kind}, {value}"
        case _:
            return kind


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_utf8(text: str) -> bool:
    """Whether the text can be written out; names and variables of the system need not be."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
