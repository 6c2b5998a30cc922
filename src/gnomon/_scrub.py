"""Texts without the secrets in them: what an error says, and what is written to a log.

All that a guardrail would find is taken out, and more: in an error it is worse to show a secret
than to hide a word. So what stands after `password=` goes whatever it looks like, and so does a key
of which only the beginning is there. What stands before a secret is kept, so that a reader still
sees which kind of secret stood there.
"""

from __future__ import annotations

from collections.abc import Iterator

from gnomon._secret_forms import FORMS, Form, lowered

__all__ = ["scrub"]

_REDACTED = "[redacted]"

# The repeats of a head are bounded: a message may hold megabytes of a vendor's reply.
_NAMES = (
    r"(?i:api[-_]?key|access[-_]?key|secret[-_]?key|[?&]key|(?<!\w)authorization"
    r"|token|secret|password|passwd|pwd)"
)
_IS = r"""(?:\\?["'])?\s{0,9}[=:]\s{0,9}(?i:(?:\\?["'])?(?:bearer|basic)\s{1,9})?+"""
_NAME_MARKS = ("api", "access", "secret", "?key", "&key", "authorization", "token", "passw", "pwd")


def _eager(head: str, *marks: str, is_named: bool = False) -> Form:
    return Form("", marks, head, "", is_named=is_named)


_EAGER = (
    # by its name: api_key=…, "password": "…", X-Api-Key: …, Authorization: …
    _eager(rf"""{_NAMES}{_IS}(\\?["'])((?:(?!\1).){{1,9999}})""", *_NAME_MARKS, is_named=True),
    _eager(
        rf"""{_NAMES}{_IS}(?!\\?["'])((?!\[redacted\])[^\s"'&,;}}]{{4,9999}})""", *_NAME_MARKS, is_named=True
    ),
    # by what stands before it: Bearer …, Basic …
    _eager(
        r"\b(?i:bearer|basic)\s{1,9}(?=[\w.~+/=-]{0,99}[\d_=+/])([\w.~+/=-]{8,9999})",
        *("bearer", "basic"),
        is_named=True,
    ),
    # by its make
    _eager(
        r"\b(?:sk|pk|rk)[-_](?=[\w-]{0,99}[\dA-Z])([\w-]{10,9999})",
        *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_"),
    ),
    _eager(r"\b(?:gsk_|xai-|pplx-)([\w-]{24,9999})", "gsk_", "xai-", "pplx-"),
    _eager(
        r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|xox[abopsr]-|AIza|AKIA|ASIA)([\w-]{10,9999})",
        *("hf_", *(f"gh{kind}_" for kind in "opsur"), "github_pat_", "glpat-", "xox", "AIza", "AKIA", "ASIA"),
    ),
    _eager(r"(?<![\w-])eyJ([A-Za-z0-9_-]{8,9999}+\.[\w-]{8,9999}+\.[\w-]{0,9999})", "eyJ"),
    # user:password in a URL
    _eager(r"(?<=[A-Za-z0-9+.-])://([^\s/:@]{0,999}:[^\s/]{1,999}(?=@))", "://"),
)


_MARKED = tuple((mark, form) for form in (*_EAGER, *FORMS) for mark in form.marks)


def scrub(text: str) -> str:
    """The text with anything that looks like a secret taken out."""
    low = lowered(text)
    marked = [each for each in _MARKED if each[0] in (low if each[1].is_named else text)]
    places = sorted(place for mark, form in marked for place in _places(form, mark, text, low))
    if not places:
        return text
    pieces: list[str] = []
    shown = 0  # how far the text was taken over, or left out
    for start, end in places:
        if start >= shown:
            pieces += [text[shown:start], _REDACTED]
        shown = max(shown, end)
    return "".join([*pieces, text[shown:]])


def _places(form: Form, mark: str, text: str, low: str) -> Iterator[tuple[int, int]]:
    """Where secrets of that form begin and end, but for those that lie within another."""
    if form.is_inside:
        for head in form.places(text, low):
            yield head.start(), form.end(head, len(text))
        return
    at = form.next(mark, text, low)
    while at >= 0:
        head, end = form.at(text, at), at + 1
        if head is not None:
            group, end = head.re.groups, form.end(head, len(text))
            yield (head.start(group) if group else at + len(mark)), end
        at = form.next(mark, text, low, end)
