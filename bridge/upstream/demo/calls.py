"""Chooses the declared functions that the demo model calls, and their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bridge.gemini.types import FunctionDeclaration, JsonObject
from bridge.upstream.demo import documents, signatures
from bridge.upstream.demo.argument_hints import ArgumentHints, is_command, is_path
from bridge.upstream.demo.ask import DemoRequest
from bridge.upstream.demo.samples import Sampler, property_names
from bridge.upstream.demo.script import Fields, Piece

#: Variants that always call a function.
CALLERS = frozenset({"tool", "parallel"})

_TOOL = re.compile(r"\btools?\b|\bfunction call|\b(?:call|use|run|try) both\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\bparallel\b|\bboth\b|\b(?:two|2|several) (?:\w+ )?(?:tools|calls|functions)\b", re.IGNORECASE
)
_DISTINCTIVE = re.compile(r"[_\-.:\d]|[a-z][A-Z]")
_WRITERS = re.compile(
    r"write|edit|create|delete|remove|move|rename|replace|append|save|patch|update", re.IGNORECASE
)
_WRITTEN = frozenset({"content", "contents", "new_string", "new_str", "newString", "patch", "diff", "edits"})


def planned(ask: DemoRequest) -> list[FunctionDeclaration]:
    """The functions that this answer calls, in order; none right after tool results."""
    if ask.results or not ask.functions or ask.calling_mode == "NONE":
        return []
    if (searched := documents.search(ask)) is not None:
        return [searched]
    forced = ask.calling_mode == "ANY" or ask.variant in CALLERS
    asked = ask.dictated is None and _TOOL.search(ask.gist) is not None
    named = [] if ask.dictated is not None else _named(ask.functions, ask.gist)
    if not (forced or asked or named):
        return []
    preferred = sorted(ask.functions, key=_risk)
    chosen = named or preferred[:1]
    if len(chosen) == 1 and (ask.variant == "parallel" or _SEVERAL.search(ask.gist)):
        others = [function for function in preferred if function is not chosen[0]]
        chosen = chosen + (others or chosen)[:1]
    return chosen


def pieces(ask: DemoRequest, functions: Sequence[FunctionDeclaration], number: int) -> Iterator[Piece]:
    """One chunk for each call; only the first call is signed, as in Gemini 3."""
    hints = ArgumentHints(ask.gist, (function.name for function in ask.functions))
    signature = signatures.mint(ask.digest + b"call" + bytes([number]))
    for position, function in enumerate(functions):
        searches = function.name == documents.SEARCH
        args = documents.arguments(ask) if searches else _arguments(function, hints)
        call: Fields = {"name": function.name, "args": args}
        if ask.variant == "strict":  # newer models send ids with their calls, older ones do not
            call["id"] = f"{ask.digest.hex()[:12]}{number}{position}"
        part: Fields = {"functionCall": call}
        yield (part,) if position else (part | {"thoughtSignature": signature},)
    yield ({"text": ""},)


def _arguments(function: FunctionDeclaration, hints: ArgumentHints) -> JsonObject:
    schema = _schema(function)
    value = Sampler({"type": "object", **schema}, hints, writes=_writes(function)).sample()
    return value if isinstance(value, dict) else {}


def _schema(function: FunctionDeclaration) -> JsonObject:
    schema = function.schema or function.extra.get("parameters")
    return schema if isinstance(schema, dict) else {}


def _named(functions: Sequence[FunctionDeclaration], question: str) -> list[FunctionDeclaration]:
    called = [function for function in functions if _is_called(function.name, question)]
    if not called:
        return []
    return [function for function in functions if function in called or _is_joined(function.name, question)]


def _is_called(name: str, question: str) -> bool:
    """A name such as `get_weather` is unambiguous; a name such as `write` is also an ordinary word."""
    word = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    if _DISTINCTIVE.search(name):
        return re.search(word, question, re.IGNORECASE) is not None
    ways = (
        rf"\b(?:call|use|using|run|invoke|try)\s+(?:the\s+)?[`\"']?{word}",
        rf"{word}[`\"']?\s+(?:tool|function)\b",
        rf"[`\"']{word}[`\"']",
    )
    return any(re.search(way, question, re.IGNORECASE) for way in ways)


def _is_joined(name: str, question: str) -> bool:
    joined = rf"(?:\band|,|&|\bthen)\s+(?:the\s+)?{re.escape(name)}(?![\w-])"
    return re.search(joined, question, re.IGNORECASE) is not None


def _risk(function: FunctionDeclaration) -> int:
    """The risk of calling a function that the prompt does not name; 0 is harmless."""
    names = list(property_names(_schema(function)))
    if any(map(is_command, names)):
        return 0
    if any(map(is_path, names)) and not _writes(function):
        return 1
    return 3 if _writes(function) else 2


def _writes(function: FunctionDeclaration) -> bool:
    if _WRITERS.search(function.name):
        return True
    return not _WRITTEN.isdisjoint(property_names(_schema(function)))
