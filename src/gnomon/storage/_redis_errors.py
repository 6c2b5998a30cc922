"""What the driver and the server say when something is wrong, as errors of ours."""

from __future__ import annotations

import re
import ssl
from typing import cast

from redis import exceptions as told

from gnomon.errors import AccessDenied, StorageError, StorageFull
from gnomon.storage._rows import Lost

__all__ = ["BROKEN", "NotKnown", "cause", "translated"]

BROKEN = (told.RedisError, OSError, ValueError)
"""What the driver raises: a reply that is no Redis's makes it raise a `ValueError`."""

_AWAY = frozenset(
    {"ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOREPLICAS", "READONLY"}
    | {"TRYAGAIN"}
)
"""What a server says that is busy, or is not the one that writes now: nothing was done, and it may pass."""

_QUOTING = " with args beginning with"
"""What follows may be a password: a server that has no AUTH says what it was given."""

_WITHIN = re.compile(r"^Error running script .*: -([A-Z]+) ")


class NotKnown(Exception):
    """The server does not remember the script."""


def translated(error: Exception, where: str) -> Exception:
    text = str(error).partition(_QUOTING)[0].rstrip(",")
    code = _code(error, text)
    if isinstance(error, told.AuthenticationError | told.AuthorizationError):
        hint = "check the user and the password in the URL"
        return AccessDenied(f"redis store {where} does not let us in: {text}", hint=hint)
    if code == "NOPERM":
        hint = "the user needs all commands on the keys and channels that begin with the prefix"
        return AccessDenied(f"redis store {where} does not let us do that: {text}", hint=hint)
    if isinstance(error, told.NoScriptError):
        return NotKnown()
    if code == "OOM" or "No space left" in text:
        return StorageFull(f"redis store {where} is full: {text}", hint="give it more room, or prune")
    if code in _AWAY:
        return Lost(text if code in text else f"{code} {text}")
    if isinstance(error, told.ResponseError):
        return _refused(where, text)
    return _broken(error, where, text)


def cause(error: Exception) -> Exception | None:
    """What may be shown as the reason of the error that is raised instead."""
    return None if _QUOTING in str(error) else error


def _code(error: Exception, text: str) -> str:
    """The word that says what happened; what happened within a script is wrapped, differently by version."""
    if "ACL failure in script" in text:
        return "NOPERM"
    if (within := _WITHIN.search(text)) is not None:
        return within[1]
    return cast("str | None", getattr(error, "status_code", None)) or text.partition(" ")[0]


def _refused(where: str, text: str) -> StorageError:
    if "DB index is out of range" in text:
        hint = "the number at the end of the URL; a server has 16 databases unless told otherwise"
        return StorageError(f"redis store {where} has no such database", hint=hint)
    return StorageError(f"redis store {where} refused a command: {text}")


def _broken(error: Exception, where: str, text: str) -> Exception:
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        hint = "add ssl_ca_certs=… to the URL, with the file of the authority that signed it"
        return StorageError(f"the certificate of redis store {where} does not hold: {text}", hint=hint)
    if isinstance(error, told.InvalidResponse | ValueError):
        return StorageError(f"what answers at {where} is not Redis", hint="check the port, and TLS")
    return Lost(text)
