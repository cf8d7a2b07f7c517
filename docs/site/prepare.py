"""Writes build/site-source, the pages of the site, and build/mkdocs.yml with its navigation.

A link to a document becomes a link to its page. A link to any other file, such as a test, becomes its text.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TARGET = ROOT / "build" / "site-source"
#: Documents at the top, whose names would clash with those of docs/.
TOP = {
    "README.md": "index.md",
    "SECURITY.md": "REPORTING.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
INDEX = "documents.md"  #: docs/README.md, the list of documents
ENTRY = re.compile(r"^## (.+)$|^\* \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)
INLINE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
DEFINITION = re.compile(r"^\[([^\]]+)\]: (\S+)\n?", re.MULTILINE)
BY_REFERENCE = re.compile(r"\[([^\[\]]*)\]\[([^\]]+)\]")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """The page of each document; the keys are the documents."""
    docs = ROOT / "docs"
    found = {ROOT / name: page for name, page in TOP.items() if (ROOT / name).exists()}
    for path in (*sorted(docs.rglob("*.md")), *sorted(docs.rglob("*.svg")), docs / "openapi.json"):
        found[path] = str(path.relative_to(docs))
    found[docs / "README.md"] = INDEX
    return found


def converted(document: Path, known: Mapping[Path, str]) -> str:
    """The text of the page. Code stays as it is."""
    pieces = FENCE.split(document.read_text("utf-8"))
    outside = {
        name: _address(document, link, known) for name, link in DEFINITION.findall("".join(pieces[::2]))
    }
    for number in range(0, len(pieces), 2):
        text = DEFINITION.sub("", pieces[number])
        text = BY_REFERENCE.sub(lambda each: _link("", each[1], outside.get(each[2], "")), text)
        pieces[number] = INLINE.sub(
            lambda each: _link(each[1], each[2], _address(document, each[3], known)), text
        )
    return "".join(pieces)


def _address(document: Path, link: str, known: Mapping[Path, str]) -> str:
    """The address on the site; empty if the site does not have the file."""
    if "://" in link or link.startswith("#"):
        return link
    name, sharp, anchor = link.partition("#")
    page = known.get((document.parent / name).resolve())
    depth = known[document].count("/")
    return "" if page is None else f"{'../' * depth}{page}{sharp}{anchor}"


def _link(mark: str, text: str, address: str) -> str:
    return f"{mark}[{text}]({address})" if address else text


def navigation(known: Mapping[Path, str]) -> list[dict[str, object]]:
    """The sections and documents of docs/README.md."""
    index = ROOT / "docs" / "README.md"
    sections: list[dict[str, object]] = [{"Gemini Bridge": "index.md"}, {"Documents": INDEX}]
    entries: list[dict[str, str]] = []
    for title, name, link in ENTRY.findall(index.read_text("utf-8")):
        if title:
            entries = []
            sections.append({title: entries})
        elif link.endswith(".md"):
            entries.append({Path(name).stem: known[(index.parent / link).resolve()]})
    others = [
        {Path(name).stem: page} for name, page in TOP.items() if name in ("SECURITY.md", "CHANGELOG.md")
    ]
    return [*sections, {"Project": others}]


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    known = pages()
    for document, page in known.items():
        path = TARGET / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            path.write_text(converted(document, known), "utf-8")
        else:
            shutil.copyfile(document, path)
    settings = {"INHERIT": "../docs/site/mkdocs.yml", "nav": navigation(known)}
    (TARGET.parent / "mkdocs.yml").write_text(json.dumps(settings, indent=2), "utf-8")  # JSON is YAML


if __name__ == "__main__":
    main()
