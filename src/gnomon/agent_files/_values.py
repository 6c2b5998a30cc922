"""`${VAR}` in an agent file, and what may not stand there in clear.

    ${VAR}              the variable, which must be set
    ${VAR:-default}     the variable, or this where it is not set or empty
    $${                 a plain `${`

A key, a token or a password is named by a variable and never written down: a file is copied, sent and
committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gnomon._trust import is_utf8, kind_of, one_line
from gnomon.agent_files._place import Found, Place, is_list, is_table, wrong
from gnomon.errors import InvalidInput, MissingKey, scrub

__all__ = ["filled", "has_reference", "keep", "key_from", "key_of_variable", "plain", "refuse_secrets"]

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
_SCHEMES = ("", "basic", "bearer")
_SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie")
_IN_CLEAR = "write ${VAR} in its place, and set that variable"


def has_reference(value: object) -> bool:
    return isinstance(value, str) and "${" in value


def filled(found: Found, env: Mapping[str, str]) -> object:
    """The value with each reference in its texts replaced, and nothing in it but plain values."""

    def fill(text: str, place: Place) -> str:
        return _REFERENCE.sub(lambda reference: _replacement(reference, place, env), text)

    return plain(found, fill)


def keep(text: str, place: Place) -> str:
    """The text as it stands."""
    return text


def plain(found: Found, of_text: Callable[[str, Place], str]) -> object:
    """A copy in plain tables and lists; dates and the like, which no JSON can hold, are refused."""
    value, place = found
    if is_table(value):
        return {name: plain(Found(item, place.under(value, name)), of_text) for name, item in value.items()}
    if is_list(value):
        return [plain(Found(item, place.item(at)), of_text) for at, item in enumerate(value)]
    if isinstance(value, str):
        if not is_utf8(value):
            raise wrong(found, "text that can be sent")
        return of_text(value, place)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidInput(f"{place} is a {kind_of(value)}, which is not read", hint="write it in quotes")


def _replacement(found: re.Match[str], place: Place, env: Mapping[str, str]) -> str:
    if found.group() == "$${":
        return "${"
    variable, default = found.groups()
    if variable is None or "${" in (default or ""):
        hint = "write ${VAR} or ${VAR:-default}, and `$${` for a plain `${`"
        raise InvalidInput(f"{place} has a `${{` that is no reference to a variable", hint=hint)
    value = env.get(variable)
    if default is not None and not value:
        return default
    if value is None:
        shown = one_line(variable, most=60)
        hint = f"set it, or write ${{{shown}:-default}}"
        raise InvalidInput(f"{place} uses ${{{shown}}}, which is not set", hint=hint)
    if not is_utf8(value):
        raise InvalidInput(f"{place} uses ${{{one_line(variable, most=60)}}}, which is not UTF-8 text")
    return value


# --- secrets ------------------------------------------------------------------


def key_from(found: Found, env: Mapping[str, str]) -> str:
    """A key, by the one reference that stands in its place."""
    text = found.value
    if not isinstance(text, str):
        raise wrong(found, "a reference such as ${OPENAI_API_KEY}")
    reference = _REFERENCE.fullmatch(text.strip())
    if reference is None or reference[1] is None or reference[2]:
        raise InvalidInput(f"{found.place} holds a key in clear", hint=_IN_CLEAR)
    return _secret(found.place, reference[1], env)


def key_of_variable(found: Found, env: Mapping[str, str]) -> str:
    """A key, by the name of its variable."""
    name = found.value
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise wrong(found, "the name of a variable such as OPENAI_API_KEY")
    return _secret(found.place, name, env)


def _secret(place: Place, variable: str, env: Mapping[str, str]) -> str:
    value = env.get(variable, "").strip()
    if not value or not is_utf8(value):
        # Somebody may have written the key itself, and many a key could be the name of a variable.
        is_a_name = re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", variable)
        shown = one_line(variable, most=60) if is_a_name else "a variable"
        raise MissingKey(f"{place} names {shown}, which is not set", hint="set it in the environment")
    return value


def refuse_secrets(found: Found, name: str = "") -> None:
    """Refuses what looks like a secret, or stands where one belongs, in the texts of a setting."""
    value, place = found
    if is_table(value):
        for inner, item in value.items():
            refuse_secrets(Found(item, place.under(value, inner)), inner)
    elif is_list(value):
        for number, item in enumerate(value):
            refuse_secrets(Found(item, place.item(number)), name)
    elif isinstance(value, str):
        written = _REFERENCE.sub("", value)
        is_secret = ".headers." in place.key and any(word in name.lower() for word in _SECRET_HEADERS)
        is_open = is_secret or name in ("auth_token", "token", "password")
        if scrub(written) != written or (is_open and written.strip().lower() not in _SCHEMES):
            raise InvalidInput(f"{place} holds a secret in clear", hint=_IN_CLEAR)
