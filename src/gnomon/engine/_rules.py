"""One rule about calls: as an object, as JSON, and as a line of text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.engine._arguments import read_arguments
from gnomon.engine._globs import fits_name
from gnomon.engine._matchers import Exact, Matcher, Scalar, check_text, defaults, holds, settled
from gnomon.engine._rule_text import RULE_HINT, RuleLine, rule_text, short
from gnomon.engine._touched import covered_by, is_touch_key, parts_of, settled_touch, touched_by
from gnomon.errors import InvalidInput
from gnomon.types.touches import Touches

__all__ = ["Exact", "Matcher", "Rule", "RuleDecision", "Scalar"]

RuleDecision: TypeAlias = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is allowed, asked about or denied: calls of a tool, `where` their arguments match.

    `tool` is a name, or a pattern such as `mcp_*`. A key of `where` is the path of an argument, such as
    `options.mode`; it goes through lists, and a backslash takes a dot literally. The empty path is the
    arguments as a whole, for an `Exact` only. All of `where` has to match; a missing argument does not.

        Rule("allow", "write_file", {"path": "src/**", "mode": (1, 2)})
        Rule.parse('allow write_file(path="src/**", mode=[1,2])')   # the same, and str() gives it back
        Rule.parse('allow write_file(path=="a*b")')                 # Exact: a file with a star in its name

    Wherever there is a doubt, a rule that allows is read narrowly, one that asks or denies widely:

    - A text that may be read in several ways ('..', a backslash, %2e) has to fit an allow rule in each of
      them, and a deny rule in one; a deny rule takes no notice of letter case. Wildcards of an allow rule
      stand for no '..', no root, no home and no line break. A deny rule on `secrets/**` also matches
      `/work/secrets/x`, and `secrets` itself.
    - Of a list, all items have to match an allow rule, and one a deny rule.
    - 1 is not 1.0 to an allow rule, and the same to a deny rule. No number is a boolean or a text.
    - Arguments that are no JSON object, or name a key twice, match every deny or ask rule with `where`,
      and no allow rule with `where`.
    - An argument that is left out counts, for a deny or ask rule, as the default its schema names.

    A pattern is compared with text alone: it follows no link and asks no file system, and a command may do
    more than its beginning says. What must hold is held by a sandbox.

    A key with `@` is about what the call touches, where its tool says that: `@reads` and `@writes` are paths,
    `@paths` are both, `@command` is each command by itself, word by word, and `@host` is a host's name.

        Rule.parse('allow shell(@command=["git status *", "ls"])')   # a "*" at the end is any further words
        Rule.parse('deny write_file(@writes="src/**")')
        Rule.parse('ask http_get(@host="*.example.com")')            # an argument of such a name is \\@host

    - One that allows holds only if rules that allow cover every path, command and host that is touched. One
      that names several kinds has to fit all there is of each.
    - One that asks or denies holds if any part fits. Its commands fit with whatever words behind.
    - Where it is not known all that is touched, no such rule allows, and one that may be about it asks.
    """

    decision: RuleDecision
    tool: str
    where: dict[str, Matcher] = {}

    def __post_init__(self) -> None:
        if self.decision not in ("allow", "ask", "deny"):
            raise ValueError(f"a rule says allow, ask or deny, not {self.decision!r}")
        _check_tool(self.tool)
        where = {path: _settled(path, matcher) for path, matcher in dict(self.where).items()}
        msgspec.structs.force_setattr(self, "where", where)

    def __str__(self) -> str:
        return rule_text(self.decision, self.tool, self.where)

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule in a line of text; `InvalidInput` says what is wrong, and where."""
        decision, tool, where = RuleLine(text).parts()
        try:
            return cls(cast(RuleDecision, decision), tool, where)
        except ValueError as error:
            raise InvalidInput(f"the rule {short(text)} cannot be used: {error}", hint=RULE_HINT) from None

    @property
    def touch_where(self) -> dict[str, Matcher]:
        """What it says of what is touched."""
        return {path: matcher for path, matcher in self.where.items() if is_touch_key(path)}

    @property
    def argument_where(self) -> dict[str, Matcher]:
        """What it says of the arguments."""
        return {path: matcher for path, matcher in self.where.items() if not is_touch_key(path)}

    @property
    def may_ask(self) -> bool:
        """Whether a call may be asked about for it: one that denies, where it cannot tell what is touched."""
        return self.decision == "ask" or (self.decision == "deny" and bool(self.touch_where))

    def matches(
        self,
        tool: str,
        arguments: str,
        schema: Mapping[str, object] | None = None,
        touches: Touches | None = None,
    ) -> bool:
        """Whether it is about a call of that tool, with the arguments as JSON text, that touches this.

        Without `touches` the tool does not say. In a doubt, a rule that asks or denies is about it, and one
        that allows is not; neither is one that covers a part only, which holds together with others.
        """
        if not self.is_about(tool, arguments, schema):
            return False
        where = self.touch_where
        if not where:
            return True
        if self.decision != "allow":
            return touched_by(where, touches) != "no"
        parts = () if touches is None or touches.unknown else parts_of(touches)
        return bool(parts) and covered_by(where, parts).issuperset(parts)

    def is_about(self, tool: str, arguments: str, schema: Mapping[str, object] | None = None) -> bool:
        """Whether it is about that tool with these arguments, whatever is touched."""
        if not fits_name(self.tool, tool):
            return False
        where = self.argument_where
        if not where:
            return True
        widely = self.decision != "allow"
        given = read_arguments(arguments)
        if given is None:
            return widely
        if widely and schema is not None:
            given = {**defaults(schema), **given}
        return all(holds(path, matcher, given, widely) for path, matcher in where.items())


def _settled(path: object, matcher: object) -> Matcher:
    return settled_touch(cast(str, path), matcher) if is_touch_key(path) else settled(path, matcher)


def _check_tool(tool: object) -> None:
    if not isinstance(tool, str) or not tool:
        raise ValueError(f"a rule names a tool, or a pattern such as '*', not {tool!r}")
    if re.fullmatch(r"(?:[^\\]|\\[*?\\])*+", tool, re.DOTALL) is None:
        raise ValueError(f"in the tool {tool!r} a backslash stands before no * ? or \\")
    check_text(tool)
