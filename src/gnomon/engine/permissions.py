"""Which calls run, which are asked about and which are denied: the mode of an agent, and rules.

Pure: it decides from what it is given. Who is asked, and how long that waits, is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from gnomon.engine._arguments import canonical, read_arguments
from gnomon.engine._globs import escaped, fits_name, has_wildcard
from gnomon.engine._rules import Exact, Matcher, Rule, RuleDecision
from gnomon.engine._touched import Part, Truth, covered_by, is_touch_key, parts_of, touched_by
from gnomon.errors import ConfigError
from gnomon.types.messages import ToolCall, ToolDef
from gnomon.types.touches import Touches

__all__ = [
    "Exact",
    "MODES",
    "Matcher",
    "Mode",
    "Rule",
    "Verdict",
    "always_rule",
    "arguments_hash",
    "check_rules",
    "decide",
]

Mode: TypeAlias = Literal["ask", "accept_edits", "auto", "plan", "deny", "bypass"]
"""What becomes of a call that no rule is about.

`deny`: nothing runs. `plan`: what only reads runs, all else is denied, and no rule allows more.
`ask`: what only reads runs, all else is asked about. `accept_edits`: what destroys nothing runs too.
`auto`: all runs. `bypass`: all runs, and rules that ask are not heeded.

In `accept_edits` a call of which it is not known what it touches is asked about too.
"""

MODES: tuple[Mode, ...] = ("deny", "plan", "ask", "accept_edits", "auto", "bypass")

_LONGEST_TOLD = 200


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of a call, why, and the rule that said so, if it was one."""

    decision: Literal["run", "ask", "deny"]
    reason: str
    rule: Rule | None = None
    is_by_tool: bool = False
    """Whether it is the tool that would refuse the call, whoever allows it."""


class _Asked(NamedTuple):
    """The call that is decided about."""

    tool: ToolDef
    arguments: str
    touches: Touches | None
    """What it would touch; `None` where its tool does not say."""


def decide(
    mode: Mode, rules: Sequence[Rule], tool: ToolDef, arguments: str, touches: Touches | None = None
) -> Verdict:
    """What becomes of a call of the tool with these arguments, as JSON text, which would touch this.

    The strictest rule that matches wins, whatever their order: deny, then ask, then allow. Where it cannot be
    told whether one that denies is about the call, somebody is asked; in mode bypass, in which nobody is, it
    is denied. What a command does to files by itself is no doubt of that kind once rules allow its words.
    A call that its tool would refuse anyway is asked about in no mode.
    """
    call = _Asked(tool, arguments, touches)
    by_mode, allowing = _by_mode(mode, call), _allowing(rules, call)
    heeds_doubts = not _is_cleared(allowing, call)
    denying, sure = _about("deny", rules, call, heeds_doubts)
    if denying is not None and sure:
        return _by_rule("deny", denying)
    if (mode == "plan" and by_mode.decision != "run") or (mode == "deny" and not allowing):
        return by_mode
    if touches is not None and touches.is_refused:
        return Verdict("deny", touches.unknown, is_by_tool=True)
    if mode == "bypass":
        return by_mode if denying is None else _in_doubt("deny", denying, call)
    asking, _ = _about("ask", rules, call, heeds_doubts)
    if asking is not None:
        return _by_rule("ask", asking)
    if denying is not None:
        return _in_doubt("ask", denying, call)
    return _by_rule("run", *allowing) if allowing and mode != "plan" else _explained(by_mode, rules, call)


# --- which rules are about a call


def _about(
    decision: RuleDecision, rules: Sequence[Rule], call: _Asked, heeds_doubts: bool
) -> tuple[Rule | None, bool]:
    """The first rule of that kind that is surely about the call, else one that may be; and whether it is."""
    doubtful: Rule | None = None
    for rule in rules:
        if rule.decision == decision and (truth := _truth(rule, call)) != "no":
            if truth == "yes":
                return rule, True
            doubtful = doubtful or (rule if heeds_doubts else None)
    return doubtful, False


def _is_cleared(allowing: Sequence[Rule], call: _Asked) -> bool:
    """Whether all that is in doubt is what commands do to files themselves, and rules allow their words."""
    has_commands = call.touches is not None and bool(call.touches.commands) and not call.touches.unknown
    return has_commands and any(rule.touch_where for rule in allowing)


def _truth(rule: Rule, call: _Asked) -> Truth:
    """Whether a rule that asks or denies is about the call."""
    if not rule.is_about(call.tool.name, call.arguments, call.tool.schema):
        return "no"
    where = rule.touch_where
    if not where:
        return "yes"
    if call.touches is None and "@writes" in where and _only_reads(call.tool):
        return "no"
    return touched_by(where, call.touches)


def _allowing(rules: Sequence[Rule], call: _Asked) -> list[Rule]:
    """Rules that allow it: one alone, or several that together cover all that is touched."""
    parts, covered, used = _parts(call), set[Part](), list[Rule]()
    for rule in rules:
        if rule.decision != "allow" or not rule.is_about(call.tool.name, call.arguments, call.tool.schema):
            continue
        where = rule.touch_where
        if not where:
            return [rule]
        if found := covered_by(where, parts):
            used.append(rule)
            covered |= found
    return used if parts and covered.issuperset(parts) else []


def _parts(call: _Asked) -> tuple[Part, ...]:
    """All that it touches; nothing where that is not known."""
    return () if call.touches is None or call.touches.unknown else parts_of(call.touches)


# --- what is said of it


_BY_RULE = {"run": "allowed by the rule", "ask": "asked about by the rule", "deny": "denied by the rule"}


def _by_rule(decision: Literal["run", "ask", "deny"], *rules: Rule) -> Verdict:
    told = _short(", and ".join(map(str, rules)))
    return Verdict(decision, f"{_BY_RULE[decision]}: {told}", rules[0])


def _in_doubt(decision: Literal["ask", "deny"], rule: Rule, call: _Asked) -> Verdict:
    why = f"{call.tool.name} does not say what it touches"
    if call.touches is not None:
        by_itself = "what a command does to files" if call.touches.commands else "all that is in a folder"
        why = call.touches.unknown or f"{by_itself} is not told"
    reason = f"it cannot be told whether a rule that denies is about it: {_short(str(rule))} ({_short(why)})"
    return Verdict(decision, reason, rule)


def _explained(verdict: Verdict, rules: Sequence[Rule], call: _Asked) -> Verdict:
    """With what it is that no rule allows, where there are rules that allow some of what it might touch."""
    some = [rule for rule in rules if rule.decision == "allow" and rule.touch_where]
    about = [rule for rule in some if rule.is_about(call.tool.name, call.arguments, call.tool.schema)]
    if verdict.decision == "run" or call.touches is None or not about:
        return verdict
    parts = _parts(call)
    left = [each for each in parts if not any(each in covered_by(rule.touch_where, parts) for rule in about)]
    why = call.touches.unknown or (f"no rule allows {left[0]}" if left else "")
    return Verdict(verdict.decision, f"{verdict.reason}: {_short(why)}") if why else verdict


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TOLD else text[: _LONGEST_TOLD - 1] + "…"


def _only_reads(tool: ToolDef) -> bool:
    """A tool that says of itself that it reads and destroys is not taken at its better word."""
    return tool.read_only and not tool.destructive


def _by_mode(mode: Mode, call: _Asked) -> Verdict:
    tool, touches, reads = call.tool, call.touches, _only_reads(call.tool)
    if mode == "deny":
        return Verdict("deny", "in mode deny only what a rule allows may run")
    if mode == "plan" and not reads:
        return Verdict("deny", f"in mode plan only what reads may run, and {tool.name} changes something")
    if mode == "ask" and not reads:
        return Verdict("ask", f"in mode ask what changes something is asked about, as {tool.name} does")
    if mode == "accept_edits" and tool.destructive:
        return Verdict("ask", f"in mode accept_edits what destroys is asked about, as {tool.name} may")
    if mode == "accept_edits" and touches is not None and touches.unknown and not reads:
        return Verdict("ask", f"it is not known what {tool.name} would touch: {_short(touches.unknown)}")
    return Verdict("run", f"in mode {mode} it may run")


def arguments_hash(name: str, arguments: str) -> str:
    """What binds an answer to the call it was given for: the same for the same tool and arguments only.

    Spaces and the order of keys do not matter, all else does: 1 is not 1.0. Text that readers may understand
    in two ways, such as an object with a key twice, counts sign by sign.
    """
    from json import dumps

    form = canonical(arguments)
    parts = [name, "text", arguments] if form is None else [name, "json", form]
    return sha256(dumps(parts).encode()).hexdigest()


def always_rule(call: ToolCall) -> Rule | None:
    """The rule that "always" saves: this tool, with exactly these arguments and no others.

    `None` where the arguments cannot be read in one way only: then there is no such rule.
    """
    given = read_arguments(call.arguments)
    if given is None or call.truncated or not call.name:
        return None
    return Rule("allow", escaped(call.name), {"": Exact(given)})


def check_rules(rules: Iterable[Rule], tools: Sequence[ToolDef], touching: Collection[str] = ()) -> None:
    """Raises `ConfigError` for a rule that asks or denies by an argument that no tool it is about has.

    Such a rule would never hold. So it is with what a tool touches that does not say: `touching` are the
    names of those that do. A rule for tools that are not there is fine: rules are often shared.
    """
    for rule in rules:
        about = [tool for tool in tools if fits_name(rule.tool, tool.name)]
        if rule.decision == "allow" or not about:
            continue
        for path in rule.where:
            if is_touch_key(path):
                _check_touching(rule, about, touching)
            elif not any(_may_have(tool, path) for tool in about):
                names = ", ".join(tool.name for tool in about)
                raise ConfigError(
                    f"the rule {str(rule)!r} can never hold: there is no argument {path!r} in {names}",
                    hint="look for a slip of the pen in its name",
                )


def _check_touching(rule: Rule, about: Sequence[ToolDef], touching: Collection[str]) -> None:
    if not has_wildcard(rule.tool) and not any(tool.name in touching for tool in about):
        raise ConfigError(
            f"the rule {str(rule)!r} cannot be kept: {about[0].name} does not say what it touches",
            hint=f"let the tool say it, @tool(touches=…), or ask about all its calls: ask {about[0].name}",
        )


def _may_have(tool: ToolDef, path: str) -> bool:
    properties = tool.schema.get("properties")
    if path == "" or not isinstance(properties, dict) or tool.schema.get("additionalProperties"):
        return True
    first, _, _ = path.partition(".")
    return first in cast("dict[str, object]", properties) or "\\" in path
