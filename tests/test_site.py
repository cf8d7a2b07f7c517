"""The pages of the site before MkDocs builds them: every link leads to a page and to a heading."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType

import pytest
from gunicorn_bridge import ROOT


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


PREPARE, CHECK = module("prepare"), module("check")
SLUG = module("slug").github_slug
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    known = PREPARE.pages()
    return {
        page: PREPARE.converted(document, known) if page.endswith(".md") else ""
        for document, page in known.items()
    }


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {SLUG(re.sub(r"[`*]", "", title)) for title in titles}


def test_every_link_of_the_site_leads_to_a_page_and_a_heading(site):
    broken, links = [], 0
    for page, text in site.items():
        for _, _, link in PREPARE.INLINE.findall(FENCE.sub("", text)):
            name, _, anchor = link.partition("#")
            if "://" in link:
                continue
            links += 1
            target = os.path.normpath(Path(page).parent / name) if name else page
            if target not in site or (anchor and anchor not in anchors(site[target])):
                broken.append(f"{page}: {link}")
    assert broken == []
    assert links > 300


def test_links_to_other_files_become_their_text(site):
    assert "../tests/" not in FENCE.sub("", "".join(site.values()))
    assert "[attempts" not in site["RELIABILITY.md"]


def test_the_navigation_names_every_page_once(site):
    def named(entry):
        if isinstance(entry, str):
            return [entry]
        return [
            page for each in (entry if isinstance(entry, list) else entry.values()) for page in named(each)
        ]

    pages = named(PREPARE.navigation(PREPARE.pages()))
    assert sorted(pages) == sorted(page for page in site if page.endswith(".md"))


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="none.html">', "does not exist"),
        ('<a href="other.html#none">', "no such anchor"),
        ('<script src="https://cdn.example/x.js">', "loads"),
        ('<a href="other.html#there">', None),
        ('<a href="https://elsewhere.example/">', None),
    ],
)
def test_the_check_of_the_built_site_finds_broken_links(tmp_path, html, problem):
    (tmp_path / "index.html").write_text(html)
    (tmp_path / "other.html").write_text('<h1 id="there">')
    found = list(CHECK.problems(tmp_path))
    assert [problem in each for each in found] == ([] if problem is None else [True])
