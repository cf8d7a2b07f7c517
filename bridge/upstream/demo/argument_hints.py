"""Plausible and harmless values for arguments: quoted words of the prompt, or values that fit the name.

An agent may really run a call of the demo model: commands only print hello, and calls write only to a file
name that belongs to the demo.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

COMMAND = ["echo", "hello"]
READ_PATH = "README.md"
WRITTEN_PATH = "gemini-bridge-demo.txt"

_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|`([^`\n]{1,200})`|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,12}(?:\.\d{1,6})?(?![\w.]*\w)")
_PLACE = re.compile(r"\b(?:in|for|at|to) ([A-Z]\w+(?:[ -][A-Z]\w+)*)")

_COMMANDS = frozenset({"command", "cmd", "shellcommand", "script"})
_DIRECTORIES = ("dir", "dirpath", "directory", "folder", "cwd", "workdir", "root")
_PATHS = ("path", "file", "filename")
_PLACES = frozenset({"city", "location", "place", "destination", "origin", "address"})
_BY_NAME = {
    "url": "https://example.com/",
    "uri": "https://example.com/",
    "code": "print('hello')",
    "query": "gemini bridge",
    "q": "gemini bridge",
    "pattern": "hello",
    "email": "demo@example.com",
    "date": "2026-01-31",
    "language": "en",
    "country": "France",
    "currency": "EUR",
    "title": "A demo title",
    "name": "Demo",
    "description": "A demo call",
    "message": "Hello from the demo model",
    "text": "Hello from the demo model",
    "content": "Hello from the demo model\n",
    "prompt": "Say hello",
}


class ArgumentHints:
    """Quoted words and numbers of a prompt; each is used once, in order."""

    def __init__(self, prompt: str, known_names: Iterable[str] = ()) -> None:
        known = frozenset(known_names)
        quoted = ("".join(groups) for groups in _QUOTED.findall(prompt))
        self._quoted = deque(text for text in quoted if text not in known)
        self._numbers = deque(float(number) for number in _NUMBER.findall(_QUOTED.sub("", prompt)))
        self._places = deque(_PLACE.findall(prompt))

    def number(self) -> float | None:
        return self._numbers.popleft() if self._numbers else None

    def text(self, name: str, *, writes: bool) -> str:
        plain = _plain(name)
        if is_command(name):
            return " ".join(COMMAND)
        if _ends(name, _DIRECTORIES):
            return "."
        if _ends(name, _PATHS):
            return self._path(WRITTEN_PATH if writes else READ_PATH)
        if self._quoted:
            return self._quoted.popleft()
        if plain in _PLACES:
            return self._places.popleft() if self._places else "Paris"
        return _BY_NAME.get(plain, "demo")

    def _path(self, usual: str) -> str:
        looks_like_path = self._quoted and re.fullmatch(r"[\w/.-]*[/.][\w/.-]*", self._quoted[0])
        return self._quoted.popleft() if looks_like_path else usual


def is_command(name: str) -> bool:
    return _plain(name) in _COMMANDS


def is_path(name: str) -> bool:
    return _ends(name, (*_PATHS, *_DIRECTORIES))


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return _plain(name).removesuffix("s").endswith(endings)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
