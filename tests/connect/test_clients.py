"""The table of clients: every snippet works unchanged when pasted."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml
from gunicorn_bridge import ROOT
from hypothesis import given
from hypothesis import strategies as st

from bridge.connect import codex_catalog
from bridge.connect.clients import (
    CLIENTS,
    KEY,
    KINDS,
    MODEL,
    PLACEHOLDER_KEY,
    QUOTES,
    ClientGuide,
    Snippet,
    Target,
)
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS

TARGET = Target("http://bridge.example:41242", "gbk_0123", "gemini-x")
NASTY = Target("http://[::1]:41242", """a'b"c\\d$e`f;g|h&i(j)k<l>m{n}""", "models/gemini-x")
EVERY = [(client, snippet) for client in CLIENTS.values() for snippet in client.snippets]


def of_language(*languages: str) -> list[Snippet]:
    return [snippet for _, snippet in EVERY if snippet.language in languages]


def shown_as(pair: object) -> str:
    return pair.name if isinstance(pair, ClientGuide) else pair.place


def test_all_promised_clients_are_listed():
    assert {"codex", "claude", "gemini", "cursor", "continue", "zed", "langchain", "openai-python"} <= {
        *CLIENTS
    }


@pytest.mark.parametrize("client", CLIENTS.values(), ids=shown_as)
def test_every_client_has_a_complete_description(client):
    assert re.fullmatch(r"[a-z][a-z0-9-]*", client.name)  # also an anchor of the page
    assert client.kind in KINDS
    assert client.speaks in PROTOCOL_CLIENTS
    assert client.title
    assert 1 <= len(client.notes) <= 3
    assert all(note.count("`") % 2 == 0 and note[-1] in ".:" for note in client.notes)
    assert all(snippet.place and snippet.language in QUOTES for snippet in client.snippets)


@pytest.mark.parametrize(("client", "snippet"), EVERY, ids=shown_as)
def test_no_placeholder_is_left(client, snippet):
    text = snippet.text(TARGET)
    assert not re.search(r"@(json)?\(|\{(url|key|model|catalog)\}", text)
    assert text.endswith("\n")
    assert not text.startswith("\n")


@pytest.mark.parametrize("client", CLIENTS.values(), ids=shown_as)
def test_every_snippet_has_the_address_and_the_key(client):
    told = "".join(snippet.text(TARGET) for snippet in client.snippets)
    assert TARGET.url in told
    assert TARGET.key in told
    assert TARGET.model in told


# --- each snippet's language -------------------------------------------------------------------------


@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("toml"), ids=shown_as)
def test_toml_snippets_parse(snippet, target):
    read = tomllib.loads(snippet.text(target))
    assert read["model_providers"]["bridge"]["base_url"] == f"{target.url}/v1"
    assert read["model"] == target.model


@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("json"), ids=shown_as)
def test_json_snippets_parse(snippet, target):
    values = [*leaves(json.loads(snippet.text(target)))]
    if "{key}" in snippet.template:
        assert target.key in values


@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("yaml"), ids=shown_as)
def test_yaml_snippets_parse(snippet, target):
    model = yaml.safe_load(snippet.text(target))["models"][0]
    assert (model["apiKey"], model["apiBase"]) == (target.key, f"{target.url}/v1")


@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("python"), ids=shown_as)
def test_python_snippets_parse(snippet, target):
    tree = ast.parse(snippet.text(target))
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert target.key in constants


@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("sh"), ids=shown_as)
def test_shell_snippets_parse(snippet, target):
    text = snippet.text(target)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True, timeout=20)
    words = [value for word in shlex.split(text.partition("<<")[0]) for value in word.split("=", 1)]
    assert target.url in text or any(word.endswith(target.key) for word in words)


@pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed")
@pytest.mark.parametrize("target", [TARGET, NASTY], ids=["usual", "nasty"])
@pytest.mark.parametrize("snippet", of_language("javascript"), ids=shown_as)
def test_javascript_snippets_parse(snippet, target, tmp_path):
    place = tmp_path / "client.mjs"
    place.write_text(snippet.text(target))
    subprocess.run(["node", "--check", place], check=True, timeout=30)


def leaves(value: object) -> list[object]:
    match value:
        case dict():
            return [leaf for each in value.values() for leaf in leaves(each)]
        case list():
            return [leaf for each in value for leaf in leaves(each)]
    return [value]


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(PRINTABLE)
def test_any_key_is_quoted_correctly_in_every_language(key):
    assert tomllib.loads(f"a = {QUOTES['toml'](key)}")["a"] == key
    assert yaml.safe_load(f"a: {QUOTES['yaml'](key)}")["a"] == key
    assert ast.literal_eval(QUOTES["python"](key)) == key
    assert json.loads(QUOTES["json"](key)) == key
    assert shlex.split(QUOTES["sh"](key)) == [key]


@pytest.mark.parametrize("value", ["", "two words", "line\nbreak", "é", "\x1b[31m", "tab\t"])
@pytest.mark.parametrize("name", ["url", "key", "model"])
def test_keys_that_no_header_can_carry_are_refused(name, value):
    with pytest.raises(ValueError, match=f"the {name} must be"):
        Target(**{"url": "http://h", "key": "k", "model": "m", name: value})


# --- pieces ------------------------------------------------------------------------------------------


def test_key_and_model_are_separate_pieces_of_a_snippet():
    pieces = [*CLIENTS["curl"].main.pieces(Target("http://h", PLACEHOLDER_KEY, "gemini-x"))]
    assert [piece.text for piece in pieces if piece.role == KEY] == [PLACEHOLDER_KEY]
    assert [piece.text for piece in pieces if piece.role == MODEL] == ["gemini-x"]


@pytest.mark.parametrize("language", QUOTES)
def test_comments_and_strings_are_separate_pieces_of_a_snippet(language):
    signs = {"javascript": "//", "json": None, "text": None}
    sign = signs.get(language, "#")
    template = f'{sign} a comment "here"\n' if sign else "no comment\n"
    roles = {piece.text: piece.role for piece in Snippet("", language, f'{template}a "b"\n').pieces(TARGET)}
    assert ("comment" in roles.values()) == (sign is not None)
    assert (roles.get('"b"') == "string") == (language != "text")


# --- other copies of the data ------------------------------------------------------------------------


README = (ROOT / "README.md").read_text()
HOME = Target("http://127.0.0.1:41242", "any", "gemini-pro-latest")


@pytest.mark.parametrize("name", ["codex", "claude", "gemini", "openai-python"])
def test_the_readme_shows_the_same_snippets(name):
    assert f"```{CLIENTS[name].main.language}\n{CLIENTS[name].main.text(HOME)}```" in README


def test_the_readme_and_the_page_save_the_catalogue_where_the_settings_read_it():
    _, fetch, _ = CLIENTS["codex"].snippets
    assert f"```sh\n{fetch.text(HOME)}```" in README
    words = shlex.split(fetch.text(HOME))
    assert words[-1] == f"{HOME.url}{codex_catalog.PATH}"
    assert words[-2] == f"~/.codex/{codex_catalog.FILE}"
    assert tomllib.loads(CLIENTS["codex"].main.text(HOME))["model_catalog_json"] == codex_catalog.FILE


def test_the_data_files_are_part_of_the_package(tmp_path):
    copy = tmp_path / "project"
    shutil.copytree(ROOT / "bridge", copy / "bridge", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    data = [
        path
        for path in (ROOT / "bridge").rglob("*")
        if path.suffix in (".toml", ".html", ".css", ".js", ".svg")
    ]
    assert len(data) >= 5
    assert {str(path.relative_to(ROOT)) for path in data} <= packed
