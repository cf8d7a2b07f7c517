"""Checks the built site: internal links and anchors lead somewhere, and no page loads from another host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parent.parent.parent / "build" / "site"
LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src"}


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADS and LOADS[tag] in values:
            self.loaded.append(values[LOADS[tag]])


def problems(site: Path) -> Iterator[str]:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses begin at the top of a server
            continue
        for link in page.loaded:
            if urlsplit(link).netloc:
                yield f"{path.name} loads {link}"
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("", "#"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.name} links to {link}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.name} links to {link}, which has no such anchor"


if __name__ == "__main__":
    found = list(problems(SITE))
    print("\n".join(found) or f"{len(list(SITE.rglob('*.html')))} pages, all links lead somewhere")
    sys.exit(bool(found))
