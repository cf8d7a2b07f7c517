"""Calls and thoughts in text: every form, every cut, and texts that only look like calls."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.types import FunctionCall, Part
from bridge.text_tools.known_tools import KnownTool
from bridge.text_tools.text_reader import TextReader

SCHEMA: dict[str, Any] = {
    "path": {"type": "string"},
    "lines": {"type": "integer"},
    "ratio": {"type": "NUMBER"},
    "deep": {"type": ["boolean", "null"]},
    "options": {"anyOf": [{"type": "object"}, {"type": "array"}]},
}
TOOLS = {
    "read": KnownTool("read", SCHEMA, {"file": "path", "filename": "path"}),
    "now": KnownTool("now", {}, {}),
}
CALL = '{"name": "read", "arguments": {"path": "a.py"}}'
READ = ("read", {"path": "a.py"})
WRAPPED = f'{{"tool_call": {CALL}}}'


class Seen(NamedTuple):
    parts: list[Any]  #: texts, ("thought", text), (name, args)
    notes: Counter[str]


def joined(parts: list[Part]) -> list[Any]:
    """The parts, with neighbouring texts and thoughts joined."""
    seen: list[Any] = []
    for thought, group in itertools.groupby(
        parts, key=lambda part: None if isinstance(part.data, FunctionCall) else part.thought
    ):
        if thought is None:
            seen += [(part.data.name, part.data.args) for part in group]
        else:
            text = "".join(part.data for part in group)
            seen.append(("thought", text) if thought else text)
    return seen


def read(*pieces: str, complete: bool = True, **options: Any) -> Seen:
    notes: list[str] = []
    reader = TextReader(TOOLS, notes.append, thoughts=True, **options)
    parts = [part for piece in pieces for part in reader.feed(piece)]
    return Seen(joined([*parts, *reader.finish(complete=complete)]), Counter(notes))


XML = "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"

CALLS: dict[str, tuple[str, list[Any]]] = {
    "hermes": (f"<tool_call>\n{CALL}\n</tool_call>", [READ]),
    "text before": (f"I look.\n\n<tool_call>{CALL}</tool_call>\n", ["I look.\n\n", READ]),
    "in the middle of a line": (f"I look. <tool_call>{CALL}</tool_call>", ["I look. ", READ]),
    "text behind": (f"<tool_call>{CALL}</tool_call>\n\nThen?", [READ, "Then?"]),
    "two tags": (f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", [READ, READ]),
    "two in one tag": (f"<tool_call>{CALL}\n{CALL}</tool_call>", [READ, READ]),
    "an array": (f"<tool_call>[{CALL}, {CALL}]</tool_call>", [READ, READ]),
    "no closing tag": (f"<tool_call>{CALL}", [READ]),
    "no closing tag between calls": (f"<tool_call>{CALL}<tool_call>{CALL}", [READ, READ]),
    "half a closing tag": (f"<tool_call>{CALL}\n</tool_", [READ]),
    "no arguments": ('<tool_call>{"name": "now"}</tool_call>', [("now", {})]),
    "null for arguments": ('<tool_call>{"name": "now", "arguments": null}</tool_call>', [("now", {})]),
    "parameters": ('<tool_call>{"name": "now", "parameters": {"a": 1}}</tool_call>', [("now", {"a": 1})]),
    "encoded twice": (
        '<tool_call>{"name": "now", "arguments": "{\\"a\\": 1}"}</tool_call>',
        [("now", {"a": 1})],
    ),
    "another spelling": (
        '<tool_call>{"name": "read", "arguments": {"file": "b"}}</tool_call>',
        [("read", {"path": "b"})],
    ),
    "line break in a string": (
        '<tool_call>{"name": "now", "arguments": {"a": "x\ny"}}</tool_call>',
        [("now", {"a": "x\ny"})],
    ),
    "closing tag in a string": (
        '<tool_call>{"name": "now", "arguments": {"a": "}</tool_call>\\"{[", "b": [{}]}}</tool_call>',
        [("now", {"a": '}</tool_call>"{[', "b": [{}]})],
    ),
    "a call in a string": (
        json.dumps({"name": "now", "arguments": {"a": f"<tool_call>{CALL}</tool_call>"}}).join(
            ("<tool_call>", "</tool_call>")
        ),
        [("now", {"a": f"<tool_call>{CALL}</tool_call>"})],
    ),
    "unicode": (
        '<tool_call>{"name": "now", "arguments": {"ä": "日本\\ud83d\\ude00🙂"}}</tool_call>',
        [("now", {"ä": "日本😀🙂"})],
    ),
    "fenced": (f"Look:\n```json\n{WRAPPED}\n```\nDone.", ["Look:\n", READ, "Done."]),
    "fenced without a language": (f"```\n{WRAPPED}\n```", [READ]),
    "fenced as tool_call": (f"```tool_call\n{CALL}\n```", [READ]),
    "fenced alone": (f"```json\n{CALL}\n```", [READ]),
    "inline": (f"Look:\n  {WRAPPED} Done.", ["Look:\n  ", READ, "Done."]),
    "bare": (f"{CALL}\n{CALL}", [READ, READ]),
    "xml": (f"Look.\n{XML}\nDone.", ["Look.\n", READ, "Done."]),
    "xml without a tag": (
        XML.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>") + "\nDone.",
        [READ, "Done."],
    ),
    "xml without its last tag": (XML.removesuffix("</tool_call>"), [READ]),
    "xml on one line": ("<tool_call><function=now></function></tool_call>", [("now", {})]),
    "xml twice in one tag": (
        XML.replace("</tool_call>", "<function=now>\n</function></tool_call>"),
        [READ, ("now", {})],
    ),
    "xml with types": (
        "<tool_call>\n<function=read>\n<parameter=filename>\n  a\n\n</parameter>\n"
        "<parameter=lines>\n12\n</parameter>\n"
        "<parameter=ratio>0.5</parameter><parameter=deep>True</parameter>\n"
        '<parameter=options>\n{"a": [1]}\n</parameter>\n</function>\n</tool_call>',
        [("read", {"path": "  a\n", "lines": 12, "ratio": 0.5, "deep": True, "options": {"a": [1]}})],
    ),
    "xml with values of no type": (
        "<tool_call><function=read><parameter=lines>many</parameter><parameter=ratio>1e999</parameter>"
        "<parameter=deep>None</parameter><parameter=options>[1,</parameter></function></tool_call>",
        [("read", {"lines": "many", "ratio": "1e999", "deep": None, "options": "[1,"})],
    ),
    "xml with a call as value": (
        f"<tool_call><function=read>\n<parameter=path>\n{XML}\n</parameter>\n<parameter=lines>1</parameter></function></tool_call>",
        [("read", {"path": XML, "lines": 1})],
    ),
    "xml with closing tags as value": (
        "<tool_call><function=read><parameter=path>\n</parameter> or </function> or\n<parameter=other>\n"
        "</parameter></function></tool_call>",
        [("read", {"path": "</parameter> or </function> or\n<parameter=other>"})],
    ),
    "xml without the end of a parameter": (
        "<tool_call><function=read>\n<parameter=path>\na\n<parameter=lines>\n2\n</function></tool_call>",
        [("read", {"path": "a", "lines": 2})],
    ),
}

TEXTS = {
    "prose": "A call looks like <tool_call> and ends with </tool_call>.",
    "unknown tool": '<tool_call>{"name": "write", "arguments": {}}</tool_call>',
    "unknown tool in xml": "<tool_call><function=write><parameter=a>1</parameter></function></tool_call>",
    "no object": '<tool_call>{"name": "now", "arguments": [1]}</tool_call>',
    "one of two unknown": f'<tool_call>[{CALL}, {{"name": "x"}}]</tool_call>',
    "in code": f"Write `<tool_call>{CALL}</tool_call>` for it.",
    "in a fence": f"Example:\n```xml\n<tool_call>{CALL}</tool_call>\n```\nSo.",
    "an example in a sentence": f"The form is {WRAPPED}.",
    "json behind text": f"Data:\n{CALL}\n",
    "json in a fence behind text": f"Data:\n```json\n{CALL}\n```\nEnd.",
    "an answer in json": '{"name": "Ann", "age": 3}',
    "unknown in a fence": '```json\n{"tool_call": {"name": "write", "arguments": {}}}\n```\n<tool_call>.',
    "code": "```c\nint f()\n{\n  return a < b;\n}\n```\n{}\n<a>\n",
    "only white space": " \n\t\n",
    "no json": "<tool_call>{name: now}</tool_call> and more",
    "broken json": '<tool_call>{"name": "now", <b>} and more',
    "a tag at the end": "I write <tool_call>",
    "half a tag": "I write <tool_c",
    "undeclared parameter": "<tool_call><function=read><parameter=nope>1</parameter></function></tool_call>",
    "an infinite number": '<tool_call>{"name": "now", "arguments": {"a": 1e400}}</tool_call>',
    "too large": '<tool_call>{"name": "now", "arguments": {"a": "\n", "b": 99999999999999999999}}',
    "half a surrogate": '<tool_call>{"name": "now", "arguments": {"a": "\\ud800"}}</tool_call>',
    "too deep": '<tool_call>{"name": "now", "arguments": {"a": ' + "[" * 300 + "]" * 300 + "}}</tool_call>",
}

THOUGHTS: dict[str, tuple[str, list[Any]]] = {
    "think": ("<think>\nHm.\n</think>\n\nYes.", [("thought", "Hm.\n"), "Yes."]),
    "thinking": ("\n<thinking>Hm.</thinking>Yes.", [("thought", "Hm."), "Yes."]),
    "empty": ("<think>\n\n</think>\n\nYes.", ["Yes."]),
    "at a later line": ("So.\n<think>Hm.</think>\nYes.", ["So.\n", ("thought", "Hm."), "Yes."]),
    "other tags inside": (
        "<think>a < b </th> <tool_call>{</think>Yes.",
        [("thought", "a < b </th> <tool_call>{"), "Yes."],
    ),
    "then a call": (f"<think>Hm.</think>\n<tool_call>{CALL}</tool_call>", [("thought", "Hm."), READ]),
    "then a bare call": (f"<think>Hm.</think>\n{CALL}", [("thought", "Hm."), READ]),
    "in a sentence": (
        "The tag <think> opens, </thinking> ends.",
        ["The tag <think> opens, </thinking> ends."],
    ),
    "in a fence": ("```\n<think>\nHm.\n```\n", ["```\n<think>\nHm.\n```\n"]),
    "in a value": (
        XML.replace("a.py", "x\n<think>\ny\n</think>"),
        [("read", {"path": "x\n<think>\ny\n</think>"})],
    ),
}

ALL = {name: text for table in (CALLS, THOUGHTS) for name, (text, _) in table.items()} | TEXTS


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_found(name: str) -> None:
    text, expected = CALLS[name]
    assert read(text).parts == expected


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_call_stays_text_unchanged(name: str) -> None:
    assert read(TEXTS[name]).parts == [TEXTS[name]]
    assert read(TEXTS[name], complete=False).parts == [TEXTS[name]]


@pytest.mark.parametrize("name", THOUGHTS)
def test_thoughts_are_found_where_they_may_begin(name: str) -> None:
    text, expected = THOUGHTS[name]
    assert read(text).parts == expected


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("in_thought", [False, True])
def test_no_cut_changes_the_result(name: str, in_thought: bool) -> None:
    text = ALL[name]
    for complete in (True, False):
        whole = read(text, complete=complete, in_thought=in_thought)
        options = {"complete": complete, "in_thought": in_thought}
        assert read(*text, **options) == whole
        for at in range(len(text) + 1):
            assert read(text[:at], text[at:], **options) == whole, (text[:at], text[at:])
        cuts = random.Random(name)
        for _ in range(50):
            first, second = sorted(cuts.choices(range(len(text) + 1), k=2))
            assert read(text[:first], text[first:second], text[second:], **options) == whole


# --- the end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "now", "arguments": {"a": 1', [("now", {"a": 1})]),
        ('<tool_call>{"name": "now", "arguments": {"a": [{"b": "c', [("now", {"a": [{"b": "c"}]})]),
        ('<tool_call>{"name": "now", "arguments": {"a": "c\\', [("now", {"a": "c"})]),
        ('<tool_call>{"name": "now", "arguments": {"a": 1}\n</tool_call>Yes.', [("now", {"a": 1}), "Yes."]),
        ('```json\n{"tool_call": {"name": "now", "arguments": {}}\n```\nYes.', [("now", {}), "Yes."]),
        ("<tool_call><function=read><parameter=path>a</parameter>", [("read", {"path": "a"})]),
    ],
)
def test_missing_brackets_are_repaired_once_and_counted(text: str, expected: list[Any]) -> None:
    assert read(text) == (expected, {"text_tools.repaired": 1})


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "now", "arguments": {"a": 1',
        '<tool_call>{"name": "now", "arguments": {"a": "rm -rf /tmp',
        "<tool_call><function=read><parameter=path>a</parameter>",
        "<tool_call><function=read><parameter=path>a</parameter></function>",
    ],
)
def test_a_call_that_a_limit_cut_off_is_never_run(text: str) -> None:
    assert read(text, complete=False) == ([text], {"text_tools.broken": 1})


@pytest.mark.parametrize(
    "text",
    ['<tool_call>{"name": "now", "arguments": {"a":', "<tool_call><function=read><parameter=path>a"],
)
def test_what_one_repair_cannot_mend_stays_text(text: str) -> None:
    assert read(text) == ([text], {"text_tools.broken": 1})


def test_a_thought_without_its_end_is_a_thought_and_counted() -> None:
    assert read("<think>\nHm. </thi") == ([("thought", "Hm. </thi")], {"thinking_tags.unclosed": 1})


def test_an_end_without_a_thought_stays_text_and_is_counted_once() -> None:
    text = "Hm.\n</think>\nYes. </think>"
    assert read(text) == ([text], {"thinking_tags.unopened": 1})
    assert read("<think>a</think>b </think>").notes == {}


@pytest.mark.parametrize("opener", ["", "<think>", "\n<thinking>\n"])
def test_an_answer_may_begin_inside_a_thought(opener: str) -> None:
    seen = read(f"{opener}Hm.\n</think>\n\nYes.", in_thought=True)
    assert seen == ([("thought", "Hm.\n"), "Yes."], {})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Hm.</think>\nYes.", [("thought", "Hm."), "Yes."]),
        ("<think>Hm.", [("thought", "Hm.")]),
        ("<think>Hm.</think>Yes.", [("thought", "Hm."), "Yes."]),
        ("Yes, a < b.", ["Yes, a < b."]),
        ("  Yes.\n", ["  Yes.\n"]),
        (f"I look.\n<tool_call>{CALL}</tool_call>", ["I look.\n", READ]),
        ("Yes.\n<think>Hm.", ["Yes.\n", ("thought", "Hm.")]),
        ("<thi", ["<thi"]),
        ("Yes. </thi", ["Yes. </thi"]),
        ("", []),
    ],
)
def test_the_closing_tag_decides_whether_an_answer_began_inside_a_thought(
    text: str, parts: list[Any]
) -> None:
    undecided = {"in_thought": True, "undecided": True}
    assert read(text, **undecided).parts == parts
    assert read(*text, **undecided).parts == parts


# --- holding back ------------------------------------------------------------------------------------


def held_back(text: str) -> int:
    """How many characters of the text the reader has not given out yet."""
    reader = TextReader(TOOLS, lambda _note: None, thoughts=True)
    given = sum(len(str(part.data)) for piece in text for part in reader.feed(piece))
    return len(text) - given


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("Hello {", 0),
        ("Hello <", 1),
        ("Hello <tool_call", 10),
        ("Hello <tool_call> is", 0),
        ("Hello\n{", 1),
        ('Hello\n{"tool_', 7),
        ('{"name": "An', 0),
        ('{"name": "re', 12),
        ("Hello\n  <thin", 5),
        ("Hello\n```js", 5),
        ("Hello\n```json\n[", 0),
        ("Hello\n```python\n{", 0),
        ("a < b and <b>", 0),
    ],
)
def test_only_a_possible_opener_is_held_back(text: str, held: int) -> None:
    assert held_back(text) == held


# --- any text ----------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FRAGMENTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "```json\n",
        "```",
        "\n",
        "{",
        "}",
        '"',
        "\\",
        "<function=read>",
        "<parameter=path>",
        "</parameter>",
        "</function>",
        CALL,
        WRAPPED,
        '"name": "now"',
        " ",
        "[",
        "]",
    ]
)
PIECES = st.lists(FRAGMENTS | st.text(max_size=4) | JSON_VALUES.map(json.dumps), max_size=12)


@given(PIECES)
def test_pieces_of_calls_give_the_same_result_whole_and_in_pieces(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert read(*pieces) == read(*text) == read(text)


@given(st.dictionaries(st.text(), JSON_VALUES), st.text(alphabet="ab c.\n"), st.randoms())
def test_any_arguments_are_read_wherever_the_text_is_cut(
    arguments: dict[str, Any], before: str, rng: random.Random
) -> None:
    call = json.dumps({"name": "now", "arguments": arguments}, ensure_ascii=rng.random() < 0.5)
    text = f"{before}\n<tool_call>\n{call}\n</tool_call>"
    cuts = sorted(rng.choices(range(len(text)), k=3))
    seen = read(*(text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])))
    assert seen.parts[-1] == ("now", arguments)
    assert not seen.notes
