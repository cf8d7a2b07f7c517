"""Finds errors in a page without a browser: nesting, ids, names, and external resources."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
#: Elements in which a browser allows no blocks, or which it ends at a block.
PHRASING_ONLY = frozenset({"p", "h1", "h2", "h3", "pre", "span", "code", "summary", "button"})
BLOCKS = frozenset(
    {"div", "p", "ul", "ol", "figure", "section", "table", "pre", "h1", "h2", "details", "nav"}
)
REFERENCES = ("aria-labelledby", "aria-describedby", "for", "data-copies")


class HtmlChecker(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self._expect(not self._open, f"left open: {self._open}")
        self._check_references()
        self._check_outline()

    def _expect(self, good: bool, problem: str) -> None:
        if not good:
            self.problems.append(f"{self.getpos()[0]}: {problem}")

    def handle_decl(self, decl: str) -> None:
        self._expect(decl.lower() == "doctype html", decl)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._expect(len(named) == len(attrs), f"<{tag}> has an attribute twice")
        parent = self._open[-1] if self._open else ""
        self._expect(not (tag in BLOCKS and parent in PHRASING_ONLY), f"<{tag}> inside <{parent}>")
        self._expect(tag != "li" or parent in ("ul", "ol"), f"<li> inside <{parent}>")
        self._expect(parent not in ("ul", "ol") or tag == "li", f"<{tag}> inside <{parent}>")
        self._check_attributes(tag, named)
        self.tags.append((tag, named))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._expect("svg" in self._open, f"<{tag}/> outside a drawing")
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        last = self._open.pop() if self._open else ""
        self._expect(last == tag, f"</{tag}> where </{last}> was due")

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def _check_attributes(self, tag: str, named: dict[str, str | None]) -> None:
        self._expect("style" not in named, f"<{tag} style>: the policy forbids it")
        self._expect(not any(name.startswith("on") for name in named), f"<{tag} on…>: the policy forbids it")
        for name in ("href", "src", "action"):
            value = named.get(name) or ""
            self._expect(
                value.startswith(("/", "#", "data:image/svg+xml,")) or not value, f"outside: {value}"
            )
        self._expect(tag != "button" or named.get("type") == "button", "a button without its type")
        self._expect(tag != "img" or "alt" in named, "an image without words")
        labelled = "aria-labelledby" in named or "aria-label" in named
        self._expect(tag not in ("input", "select", "nav", "section") or labelled, f"<{tag}> without a name")

    def _check_references(self) -> None:
        ids = [named["id"] for _, named in self.tags if "id" in named]
        self._expect(len(ids) == len(set(ids)), "an id stands twice")
        for tag, named in self.tags:
            wanted = [word for name in REFERENCES for word in (named.get(name) or "").split()]
            if (named.get("href") or "").startswith("#"):
                wanted.append(str(named["href"])[1:])
            for each in wanted:
                self._expect(each in ids, f"<{tag}> refers to {each}, which is not there")

    def _check_outline(self) -> None:
        names = [tag for tag, _ in self.tags]
        for once in ("html", "head", "title", "body", "h1", "header", "main", "footer"):
            self._expect(names.count(once) == 1, f"<{once}> stands {names.count(once)} times")
        html = next((named for tag, named in self.tags if tag == "html"), {})
        self._expect(bool(html.get("lang")), "<html> has no language")
