"""What a call would touch, told before it runs."""

from __future__ import annotations

import msgspec

__all__ = ["Touches"]


class Touches(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a call would touch, as rules are compared with it.

    `reads` and `writes` are paths: relative to the workspace where they lie in it, else absolute, with links
    resolved and '/' between names. One that ends in '/' is a folder with all that is in it. `commands` are
    argument lists, one for each part of a compound command. `hosts` are host names in lower case, without a
    port. `unknown` says why it is not known all that the call would touch; such a call is asked about
    where changes are, in every mode in which anybody is asked. With `is_refused` it says why the tool would
    refuse the call whatever is allowed: then nobody is asked, and the model is told so.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    hosts: tuple[str, ...] = ()
    unknown: str = ""
    is_refused: bool = False
