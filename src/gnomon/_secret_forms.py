"""What secrets look like: by their make, by their name, by where they stand.

The one list of them: guardrails look for these in what is said, and errors do not repeat them.

Each form has its marks: pieces of text without which it cannot be there. A text is looked
through for these first, which costs next to nothing, and only for the forms that are left. A
form decides by the beginning of a secret; how far it goes is looked at when it is taken out.
The lengths are those that the services' own pages and the common scanners give. Patterns
are compiled when they are first needed: most programs never come across most of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from math import log2
from typing import NamedTuple, TypeAlias

__all__ = ["FORMS", "HEAD", "Form", "lowered"]

HEAD = 416
"""The most characters that it takes to know a secret."""

_Judge: TypeAlias = Callable[[re.Match[str]], bool]

_WORD = r"[\w-]*+"
_DOTTED = r"[\w.=+/~-]*+"

_compiled = cache(re.compile)


class Form(NamedTuple):
    """A kind of secret. The secret begins with the last group of `head`, or with the whole of it."""

    what: str
    marks: tuple[str, ...]
    head: str
    tail: str = _WORD
    judge: _Judge | None = None
    is_named: bool = False
    """Whether its marks count in capitals, too."""
    is_inside: bool = False
    """Whether its marks stand inside it; others begin with one."""

    def places(self, text: str, low: str) -> Iterator[re.Match[str]]:
        """Where one begins; `low` is the text in small letters."""
        if self.is_inside:
            yield from filter(self._holds, self._scanned(text))
            return
        for mark in self.marks:
            at = self.next(mark, text, low)
            while at >= 0:
                if (found := self.at(text, at)) is not None:
                    yield found
                at = self.next(mark, text, low, at + 1)

    def next(self, mark: str, text: str, low: str, start: int = 0) -> int:
        """Where that mark stands next; -1 where it does not."""
        return (low if self.is_named else text).find(mark, start)

    def at(self, text: str, place: int) -> re.Match[str] | None:
        """The one that begins with the mark at that place, if one does."""
        found = _compiled(self.head).match(text, place)
        return found if found is not None and self._holds(found) else None

    def end(self, head: re.Match[str], limit: int) -> int:
        """How far it goes, and no further than that."""
        tail = _compiled(self.tail).match(head.string, head.end(), max(limit, head.end()))
        return tail.end() if tail else head.end()

    def _scanned(self, text: str) -> Iterator[re.Match[str]]:
        return _compiled(self.head).finditer(text) if any(mark in text for mark in self.marks) else iter(())

    def _holds(self, found: re.Match[str]) -> bool:
        return self.judge is None or self.judge(found)


def lowered(text: str) -> str:
    """In small letters, each where it stood: one letter would grow when it is made small."""
    return text.replace("İ", "I").lower()


def _made(what: str, pattern: str, *marks: str, tail: str = _WORD, is_inside: bool = False) -> Form:
    """A token that is known by how its maker lets it begin."""
    return Form(what, marks, rf"(?<![A-Za-z0-9]){pattern}", tail, is_inside=is_inside)


# --- by their make ------------------------------------------------------------------

_GITLAB = ("agent", "cbt", "dt", "ffct", "ft", "imt", "oas", "pat", "ptt", "rt", "soat")

_MADE = (
    _made("an Anthropic key", r"sk-ant-[a-z]{3,9}[0-9]{2}-[\w-]{24}", "sk-ant-"),
    _made("an OpenAI key", r"sk-(?:proj|svcacct|admin)-[\w-]{20}", "sk-proj-", "sk-svcacct-", "sk-admin-"),
    _made("an OpenRouter key", r"sk-or-v1-[0-9a-f]{32}", "sk-or-"),
    _made("an API key", r"sk-(?=[A-Za-z]{0,31}[0-9])[A-Za-z0-9]{20}", "sk-"),
    _made("a Stripe key", r"[rs]k_(?:test|live|prod)_[A-Za-z0-9]{10}", "sk_", "rk_"),
    _made("a webhook secret", r"whsec_[A-Za-z0-9+/]{24}", "whsec_", tail=_DOTTED),
    _made("a GitHub token", r"(?:gh[oprsu]_[A-Za-z0-9]{36}|github_pat_\w{22})",
          *(f"gh{kind}_" for kind in "oprsu"), "github_pat_"),
    _made("a GitLab token", rf"gl(?:{'|'.join(_GITLAB)})-[\w-]{{20}}", *(f"gl{kind}-" for kind in _GITLAB),
          tail=_DOTTED),
    _made("a Slack token", r"xox[abeoprs]-(?=[A-Za-z-]{0,15}[0-9])[\w-]{16}", "xox"),
    _made("a Slack token", r"xapp-[0-9]-[A-Za-z0-9]{8}", "xapp-"),
    _made("a Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{24}",
          "hooks.slack.com/"),
    _made("a Google key", r"AIza[\w-]{35}", "AIza"),
    _made("a Google secret", r"GOCSPX-[\w-]{20}", "GOCSPX-"),
    _made("a Google token", r"ya29\.[\w-]{20}", "ya29."),
    _made("an AWS key", r"(?:AKIA|ASIA|ABIA|ACCA)(?!\w{0,9}EXAMPLE)[A-Z2-7]{16}(?![A-Za-z0-9])",
          "AKIA", "ASIA", "ABIA", "ACCA"),
    _made("an AWS key", r"ABSK[A-Za-z0-9+/]{109}", "ABSK", tail=_DOTTED),
    _made("an Azure secret", r"[\w~.]{3}[0-9]Q~[\w~.-]{31}", "Q~", tail=_DOTTED,
          is_inside=True),
    _made("a Hugging Face token", r"(?:hf_|api_org_)[A-Za-z0-9]{30}", "hf_", "api_org_"),
    _made("a Groq key", r"gsk_[A-Za-z0-9]{40}", "gsk_"),
    _made("an xAI key", r"xai-\w{64}", "xai-"),
    _made("a Perplexity key", r"pplx-[A-Za-z0-9]{40}", "pplx-"),
    _made("a Replicate token", r"r8_(?=[\w-]{0,36}[A-Z])[\w-]{37}", "r8_"),
    _made("a LangSmith key", r"lsv2_[ps][kt]_[a-z0-9]{32}", "lsv2_"),
    _made("a package registry's token", r"(?:npm_[A-Za-z0-9]{36}|pypi-AgEI[\w-]{50}|rubygems_[a-f0-9]{48})",
          "npm_", "pypi-", "rubygems_"),
    _made("a DigitalOcean token", r"do[opr]_v1_[a-f0-9]{64}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _made("a Databricks token", r"dapi[a-f0-9]{32}", "dapi"),
    _made("a SendGrid key", r"SG\.[\w-]{16,32}\.[\w-]{32}", "SG."),
    _made("a Shopify token", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", "shpat_", "shpca_", "shppa_", "shpss_"),
    _made("a Vault token", r"hv[bs]\.[\w-]{90}", "hvs.", "hvb."),
    _made("a Telegram token", r"[0-9]{8,10}:AA[\w-]{33}", ":AA", is_inside=True),
    _made("a Linear key", r"lin_api_[A-Za-z0-9]{40}", "lin_api_"),
    _made("a Grafana token", r"gl(?:sa_[A-Za-z0-9]{32}_|c_[A-Za-z0-9+/]{32})", "glsa_", "glc_", tail=_DOTTED),
    _made("a Notion token", r"ntn_[0-9]{11}[A-Za-z0-9]{32}", "ntn_"),
    _made("an Atlassian token", r"ATATT3[\w=-]{64}", "ATATT3", tail=_DOTTED),
    _made("a JSON web token", r"eyJ[A-Za-z0-9_-]{8,384}+\.[\w-]{8}", "eyJ", tail=_DOTTED),
)  # fmt: skip

_KEY_BLOCK = Form(
    "a private key",
    ("-----BEGIN ",),
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]){1,8}[\w+/:-]{8}",
    r"(?:[^-]++|-(?!----END ))*+(?:-----END [A-Z0-9 ]{0,40}+-{0,5}+)?+",
)

# --- by what stands before them -----------------------------------------------------

_NOT_ONE = r"""(?x)
    [<{$%\[*.] | (.)\1{3}                                       # a place to fill in
    | (?i:(?:your|my|the|some|any|an?)[-_ ]|example|changeme|placeholder|redacted|x{3})
    | (?i:null|none|true|false|undefined|required|optional)\b
    | [A-Za-z_][\w.]*+[(\[]                                         # code that fetches it
    | (?:os|process|env|config|settings|self|this|ctx|request|args)\.
    """
_HARMLESS_NAME = (
    r"(?:^|[^A-Za-z])(?i:page|next|sync|continuation|cursor|csrf|xsrf|max|min|num|count)[-_]?$"
    r"|[a-z](?:Page|Next|Sync|Continuation|Cursor|Csrf|Xsrf|Max|Min|Num|Count)$"
)


_JOINTS = str.maketrans("", "", "-._/:!?")


def _entropy(text: str) -> float:
    """In bits a character."""
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def _is_password(found: re.Match[str]) -> bool:
    """After `password` or the like it is enough that it is not made of words."""
    value = found[found.re.groups]
    if _compiled(_NOT_ONE).match(value):
        return False
    words = value.translate(_JOINTS)
    return not words.isalpha() and _entropy(value) >= 2.0


def _is_key(found: re.Match[str]) -> bool:
    """After `token`, `key` or `secret` it has to look as if a machine had made it."""
    value = found[found.re.groups]
    before = found.string[max(found.start() - 16, 0) : found.start()]
    if _compiled(_NOT_ONE).match(value) or _compiled(_HARMLESS_NAME).search(before):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and _entropy(value) >= 2.75


def _is_filled_in(found: re.Match[str]) -> bool:
    return _compiled(_NOT_ONE).match(found[1]) is None


_ASSIGNED = r"(?:\\?[\"'])?\s{0,4}(?::=|=>|=|:)\s{0,4}(?:(?i:bearer|basic|token)\s)?(?:\\?[\"'`])?"
_VALUE = r"[^\s\"'`&,;<>\\)}\]]"


def _named(what: str, names: str, least: int, judge: _Judge, *marks: str) -> Form:
    """What is assigned to a name."""
    head = rf"(?i:{names}){_ASSIGNED}({_VALUE}{{{least},64}}+)"
    return Form(what, marks, head, f"{_VALUE}*+", judge, is_named=True)


_NAMED = (
    _named("a password", "password|passwd|passphrase|pwd", 8, _is_password, "passw", "passphrase", "pwd"),
    _named(
        "a key or token",
        "(?:api[-_ ]?|access[-_]?|account[-_]?|private[-_]?|secret[-_]?|[?&])key|token|secret|authorization",
        12,
        _is_key,
        *("api", "access", "account", "private", "secret", "token", "authorization", "?key", "&key"),
    ),
    Form(
        "a bearer token",
        ("bearer ", "basic "),
        r"(?i:bearer|basic) {1,4}([\w.~+/=-]{12,64}+)",
        _DOTTED,
        _is_key,
        is_named=True,
    ),
    Form(
        "a password in an address",
        ("://",),
        r"(?<=[A-Za-z0-9+.-]{2})://[^\s/:@\"']{0,64}+:([^\s/\"'<>]{1,128})(?=@[\w\[])",
        "",
        _is_filled_in,
    ),
)

FORMS: tuple[Form, ...] = (_KEY_BLOCK, *_MADE, *_NAMED)
