"""Which calls run, which are asked about and which are denied: the mode of an agent, and rules.

Pure: it decides from what it is given. Who is asked, and how long that waits, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.engine._arguments import canonical, read_arguments
from gnomon.engine._globs import escaped, fits_name
from gnomon.engine._rules import Exact, Matcher, Rule, RuleDecision
from gnomon.errors import ConfigError
from gnomon.types.messages import ToolCall, ToolDef

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
"""

MODES: tuple[Mode, ...] = ("deny", "plan", "ask", "accept_edits", "auto", "bypass")

_LONGEST_TOLD = 200


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of a call, why, and the rule that said so, if it was one."""

    decision: Literal["run", "ask", "deny"]
    reason: str
    rule: Rule | None = None


def decide(mode: Mode, rules: Sequence[Rule], tool: ToolDef, arguments: str) -> Verdict:
    """What becomes of a call of the tool with these arguments, as JSON text.

    The strictest rule that matches wins, whatever their order: deny, then ask, then allow.
    """
    if denying := _first("deny", rules, tool, arguments):
        return _by_rule("deny", denying)
    by_mode = _by_mode(mode, tool)
    if mode == "bypass":
        return by_mode
    asking = _first("ask", rules, tool, arguments)
    if mode == "plan":
        return _by_rule("ask", asking) if asking and by_mode.decision == "run" else by_mode
    allowing = _first("allow", rules, tool, arguments)
    if mode == "deny" and allowing is None:
        return by_mode
    if asking:
        return _by_rule("ask", asking)
    return _by_rule("run", allowing) if allowing else by_mode


def _first(decision: RuleDecision, rules: Sequence[Rule], tool: ToolDef, arguments: str) -> Rule | None:
    for rule in rules:
        if rule.decision == decision and rule.matches(tool.name, arguments, tool.schema):
            return rule
    return None


_BY_RULE = {"run": "allowed by the rule", "ask": "asked about by the rule", "deny": "denied by the rule"}


def _by_rule(decision: Literal["run", "ask", "deny"], rule: Rule) -> Verdict:
    text = str(rule)
    if len(text) > _LONGEST_TOLD:
        text = text[: _LONGEST_TOLD - 1] + "…"
    return Verdict(decision, f"{_BY_RULE[decision]}: {text}", rule)


def _by_mode(mode: Mode, tool: ToolDef) -> Verdict:
    # A tool that says of itself that it reads and destroys is not taken at its better word.
    reads = tool.read_only and not tool.destructive
    if mode == "deny":
        return Verdict("deny", "in mode deny only what a rule allows may run")
    if mode == "plan" and not reads:
        return Verdict("deny", f"in mode plan only what reads may run, and {tool.name} changes something")
    if mode == "ask" and not reads:
        return Verdict("ask", f"in mode ask what changes something is asked about, as {tool.name} does")
    if mode == "accept_edits" and tool.destructive:
        return Verdict("ask", f"in mode accept_edits what destroys is asked about, as {tool.name} may")
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


def check_rules(rules: Iterable[Rule], tools: Sequence[ToolDef]) -> None:
    """Raises `ConfigError` for a rule that asks or denies by an argument that no tool it is about has.

    Such a rule would never hold. One for tools that are not there is fine: rules are often shared.
    """
    for rule in rules:
        about = [tool for tool in tools if fits_name(rule.tool, tool.name)]
        if rule.decision == "allow" or not about:
            continue
        for path in rule.where:
            if not any(_may_have(tool, path) for tool in about):
                names = ", ".join(tool.name for tool in about)
                raise ConfigError(
                    f"the rule {str(rule)!r} can never hold: there is no argument {path!r} in {names}",
                    hint="look for a slip of the pen in its name",
                )


def _may_have(tool: ToolDef, path: str) -> bool:
    properties = tool.schema.get("properties")
    if path == "" or not isinstance(properties, dict) or tool.schema.get("additionalProperties"):
        return True
    first, _, _ = path.partition(".")
    return first in cast("dict[str, object]", properties) or "\\" in path
