"""What secrets look like: by their make, by their name, by where they stand.

Each form has its marks: pieces of text without which it cannot be there. A text is looked
through for these first, which costs next to nothing, and only for the forms that are left. A
form decides by the beginning of a secret; how far it goes is looked at when it is taken out.
The lengths are those that the services' own pages and the common scanners give.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from math import log2
from typing import NamedTuple, TypeAlias

__all__ = ["FORMS", "HEAD", "Form"]

HEAD = 416
"""The most characters that it takes to know a secret."""

_Judge: TypeAlias = Callable[[re.Match[str]], bool]

_TOKEN = re.compile(r"[\w-]*+")
_DOTTED = re.compile(r"[\w.=+/~-]*+")


class Form(NamedTuple):
    """A kind of secret. The secret begins with the last group of `head`, or with the whole of it."""

    what: str
    marks: tuple[str, ...]
    head: re.Pattern[str]
    tail: re.Pattern[str] = _TOKEN
    judge: _Judge | None = None
    is_named: bool = False
    """Whether it begins with one of its marks, large or small."""

    def places(self, text: str, low: str) -> Iterator[re.Match[str]]:
        """Where one begins; `low` is the text in small letters."""
        for found in self._heads(text, low):
            if self.judge is None or self.judge(found):
                yield found

    def _heads(self, text: str, low: str) -> Iterator[re.Match[str]]:
        if self.is_named:
            starts = (place for mark in self.marks for place in _occurrences(mark, low))
            return filter(None, (self.head.match(text, start) for start in starts))
        return self.head.finditer(text) if any(mark in text for mark in self.marks) else iter(())


def _occurrences(mark: str, text: str) -> Iterator[int]:
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


def _made(what: str, pattern: str, *marks: str, tail: re.Pattern[str] = _TOKEN) -> Form:
    """A token that is known by how its maker lets it begin."""
    return Form(what, marks, re.compile(rf"(?<![A-Za-z0-9]){pattern}"), tail)


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
    _made("an Azure secret", r"[\w~.]{3}[0-9]Q~[\w~.-]{31}", "Q~", tail=_DOTTED),
    _made("a Hugging Face token", r"(?:hf_|api_org_)[A-Za-z0-9]{30}", "hf_", "api_org_"),
    _made("a Groq key", r"gsk_[A-Za-z0-9]{40}", "gsk_"),
    _made("an xAI key", r"xai-\w{64}", "xai-"),
    _made("a Perplexity key", r"pplx-[A-Za-z0-9]{40}", "pplx-"),
    _made("a Replicate token", r"r8_[\w-]{37}", "r8_"),
    _made("a LangSmith key", r"lsv2_[ps][kt]_[a-z0-9]{32}", "lsv2_"),
    _made("a package registry's token", r"(?:npm_[A-Za-z0-9]{36}|pypi-AgEI[\w-]{50}|rubygems_[a-f0-9]{48})",
          "npm_", "pypi-", "rubygems_"),
    _made("a DigitalOcean token", r"do[opr]_v1_[a-f0-9]{64}", "_v1_"),
    _made("a Databricks token", r"dapi[a-f0-9]{32}", "dapi"),
    _made("a SendGrid key", r"SG\.[\w-]{16,32}\.[\w-]{32}", "SG."),
    _made("a Shopify token", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", "shpat_", "shpca_", "shppa_", "shpss_"),
    _made("a Vault token", r"hv[bs]\.[\w-]{90}", "hvs.", "hvb."),
    _made("a Telegram token", r"[0-9]{8,10}:AA[\w-]{33}", ":AA"),
    _made("a Linear key", r"lin_api_[A-Za-z0-9]{40}", "lin_api_"),
    _made("a Grafana token", r"gl(?:sa_[A-Za-z0-9]{32}_|c_[A-Za-z0-9+/]{32})", "glsa_", "glc_", tail=_DOTTED),
    _made("a Notion token", r"ntn_[0-9]{11}[A-Za-z0-9]{32}", "ntn_"),
    _made("an Atlassian token", r"ATATT3[\w=-]{64}", "ATATT3", tail=_DOTTED),
    _made("a JSON web token", r"eyJ[\w-]{8,384}+\.[\w-]{8}", "eyJ", tail=_DOTTED),
)  # fmt: skip

_KEY_BLOCK = Form(
    "a private key",
    ("PRIVATE KEY",),
    re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]){1,8}[\w+/:-]{8}"),
    re.compile(r"(?:[^-]++|-(?!----END ))*+(?:-----END [A-Z0-9 ]{0,40}+-{0,5}+)?+"),
)

# --- by what stands before them -----------------------------------------------------

_NOT_ONE = re.compile(
    r"""[<{$%\[*.] | (.)\1{3}                                       # a place to fill in
    | (?i:(?:your|my|the|some|any|an?)[-_ ]|example|changeme|placeholder|redacted|x{3})
    | (?i:null|none|true|false|undefined|required|optional)\b
    | [A-Za-z_][\w.]*+[(\[]                                         # code that fetches it
    | (?:os|process|env|config|settings|self|this|ctx|request|args)\.
    """,
    re.VERBOSE,
)
_HARMLESS_NAME = re.compile(
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
    if _NOT_ONE.match(value):
        return False
    words = value.translate(_JOINTS)
    return not words.isalpha() and _entropy(value) >= 2.0


def _is_key(found: re.Match[str]) -> bool:
    """After `token`, `key` or `secret` it has to look as if a machine had made it."""
    value = found[found.re.groups]
    before = found.string[max(found.start() - 16, 0) : found.start()]
    if _NOT_ONE.match(value) or _HARMLESS_NAME.search(before):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and _entropy(value) >= 2.75


def _is_filled_in(found: re.Match[str]) -> bool:
    return _NOT_ONE.match(found[1]) is None


_ASSIGNED = r"(?:\\?[\"'])?\s{0,4}(?::=|=>|=|:)\s{0,4}(?:(?i:bearer|basic|token)\s)?(?:\\?[\"'`])?"
_VALUE = r"[^\s\"'`&,;<>\\)}\]]"


def _named(what: str, names: str, least: int, judge: _Judge, *marks: str) -> Form:
    """What is assigned to a name."""
    head = re.compile(rf"(?i:{names}){_ASSIGNED}({_VALUE}{{{least},64}}+)")
    return Form(what, marks, head, re.compile(f"{_VALUE}*+"), judge, is_named=True)


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
        re.compile(r"(?i:bearer|basic) {1,4}([\w.~+/=-]{12,64}+)"),
        _DOTTED,
        _is_key,
        is_named=True,
    ),
    Form(
        "a password in an address",
        ("://",),
        re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,30}+://[^\s/:@\"']{0,64}+:([^\s/\"'<>]{1,128})(?=@[\w\[])"),
        re.compile(""),
        _is_filled_in,
    ),
)

FORMS: tuple[Form, ...] = (_KEY_BLOCK, *_MADE, *_NAMED)
