"""The texts that may open a call or a thought."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from bridge.text_tools.json_calls import WRAPPER
from bridge.text_tools.words import FENCE, FUNCTION, THINK, THINK_END, TOOL_CALL, TOOL_CALL_END, Word
from bridge.text_tools.xml_calls import LONGEST_NAME


class Form(Enum):
    JSON = auto()
    XML = auto()
    THOUGHT = auto()
    END_OF_THOUGHT = auto()  #: without an opener, so it stays text


class Opener(NamedTuple):
    form: Form
    words: tuple[Word, ...]
    head: str = ""  #: the words before the JSON value or the XML call
    closer: str = ""  #: may follow the call
    tagged: bool = False  #: the call stands in a tag of its own
    line_start: bool = True  #: it must begin a line
    first: bool = False  #: nothing but calls may stand before it


#: Openers by their first character.
Openers = Mapping[str, list[Opener]]

THOUGHT_OPENERS = (
    Opener(Form.THOUGHT, (THINK,)),
    Opener(Form.END_OF_THOUGHT, (THINK_END[0],), line_start=False),
)

_WRAPPED: tuple[Word, ...] = ("{", f'"{WRAPPER}"', ":")


def call_openers(names: Iterable[str]) -> list[Opener]:
    """The openers of calls of the tools with these names."""
    short = [name for name in names if len(name) <= LONGEST_NAME]
    quoted = tuple(f'"{name}"' for name in short)
    bare: tuple[Word, ...] = ("{", '"name"', ":", quoted)
    fenced = [
        Opener(Form.JSON, (fence, *words), fence, FENCE, first=first)
        for fence in (FENCE, f"{FENCE}json")
        for words, first in ((_WRAPPED, False), (bare, True))
    ]
    return [
        Opener(Form.JSON, (TOOL_CALL, ("{", "[")), TOOL_CALL, TOOL_CALL_END, tagged=True, line_start=False),
        Opener(Form.XML, (TOOL_CALL, FUNCTION), TOOL_CALL, TOOL_CALL_END, tagged=True, line_start=False),
        Opener(Form.XML, (tuple(f"{FUNCTION}{name}>" for name in short),), closer=TOOL_CALL_END),
        *fenced,
        Opener(Form.JSON, (f"{FENCE}{WRAPPER}", "{"), f"{FENCE}{WRAPPER}", FENCE, tagged=True),
        Opener(Form.JSON, _WRAPPED),
        Opener(Form.JSON, bare, first=True),
    ]


def by_first_character(openers: Iterable[Opener]) -> Openers:
    found: defaultdict[str, list[Opener]] = defaultdict(list)
    for opener in openers:
        word = opener.words[0]
        found[word[0] if isinstance(word, str) else word[0][0]].append(opener)
    return found
