"""Which levels of isolation this machine holds, and why it does not hold the others."""

from __future__ import annotations

import sys

import msgspec

from gnomon.errors import SandboxError
from gnomon.sandboxes._limits import at_least
from gnomon.sandboxes._survey import Protection, Survey, survey
from gnomon.types.steps import IsolationLevel

__all__ = ["LevelFound", "container_level", "process_levels"]

_LESS: dict[IsolationLevel, tuple[Protection, ...]] = {"namespaces": (), "process": ("bubblewrap",)}
"""What is left out to see whether a level would be held without it."""


class LevelFound(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is what holds it, or why nothing does."""

    level: IsolationLevel
    holds: bool
    by: str
    missing: dict[str, str] = {}
    """What is not held at this level, each with the reason."""


def process_levels() -> list[LevelFound]:
    """Those of `ProcessSandbox`, the strongest first."""
    return [_found(level, left_out) for level, left_out in _LESS.items()]


def container_level() -> LevelFound:
    """That of `ContainerSandbox`, as far as it is known without an image: an engine answers, or none does."""
    from gnomon.sandboxes._container_report import report_of
    from gnomon.sandboxes._engines import engine_for

    try:
        engine = engine_for(None)
    except SandboxError as error:
        why = f"{error.message} ({error.hint})" if error.hint else error.message
        return LevelFound(level="container", holds=False, by=why)
    try:
        by = f"{engine.name} answers; a sandbox needs an image too"
        return LevelFound(level="container", holds=True, by=by, missing=report_of(engine).missing)
    finally:
        engine.close()


def _found(level: IsolationLevel, left_out: tuple[Protection, ...]) -> LevelFound:
    if sys.platform != "linux":
        return LevelFound(level=level, holds=False, by=f"there are no namespaces on {sys.platform}")
    found = survey(left_out)
    reasons = {name: why for name, why in found.reasons.items() if name not in left_out}
    if not at_least(found.level, level):
        return LevelFound(level=level, holds=False, by="; ".join(reasons.values()))
    return LevelFound(level=level, holds=True, by=", ".join(_means(found)), missing=found.report().missing)


def _means(found: Survey) -> list[str]:
    made = ["bubblewrap"] if found.bubblewrap else [f"Landlock version {found.landlock}"]
    if found.seccomp:
        made.append("seccomp")
    groups = [f"{', '.join(place.controllers)} (version {place.version})" for place in found.cgroups]
    made.append(
        f"control groups for {', '.join(groups)}" if groups else f"no control groups: {_no_groups(found)}"
    )
    return made


def _no_groups(found: Survey) -> str:
    return f"{found.reasons.get('cgroups', 'none')}, so memory and processes are watched"
