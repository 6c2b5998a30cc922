"""A text set apart in a prompt, so that nothing in it can end its place."""

from __future__ import annotations

import re

__all__ = ["fenced"]


def fenced(tag: str, text: str) -> str:
    """The text between `<tag>` and `</tag>`; where it names that tag itself, it does so as `&lt;tag`."""
    # Also with spaces or invisible characters in between, which a model may read as the same.
    name = r"[^\w<>]{0,8}".join(map(re.escape, tag))
    own = re.compile(rf"<(?=[^\w<>]{{0,200}}{name})", re.IGNORECASE)
    return f"<{tag}>\n{own.sub('&lt;', text)}\n</{tag}>"
