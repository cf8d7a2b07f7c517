"""The anchors of headings, as GitHub makes them; the documents use those."""

from __future__ import annotations

import re


def github_slug(title: str, _separator: str = "-") -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
