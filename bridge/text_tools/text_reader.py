"""Finds the calls and thoughts in the text of an answer while the text arrives.

The result does not depend on how the text is cut into pieces. The reader holds back a text only while it may
open a call, and a call until its end. Each character is read once, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from bridge.gemini.types import FunctionCall, Part
from bridge.text_tools.json_calls import JsonBlock
from bridge.text_tools.known_tools import KnownTool
from bridge.text_tools.openers import THOUGHT_OPENERS, Form, Opener, by_first_character, call_openers
from bridge.text_tools.words import (
    FENCE,
    FUNCTION,
    NO,
    PARTIAL,
    THINK,
    THINK_END,
    TOOL_CALL_END,
    follows,
    match_words,
)
from bridge.text_tools.xml_calls import XmlBlock

#: Notes, which metrics count.
BROKEN = "text_tools.broken"  #: a text that opened like a call stayed text
REPAIRED = "text_tools.repaired"  #: a call had no proper end
UNCLOSED = "thinking_tags.unclosed"
UNOPENED = "thinking_tags.unopened"

Note = Callable[[str], None]

#: A longer text is read in slices, because each step copies the rest of its text.
_SLICE = 16_384

_INDENTED = re.compile(r"[ \t]*+([`{<])")
_CANDIDATE = re.compile(r"\n[ \t]*+([`{<])|<")
_BLANK = re.compile(r"[ \t]*+\Z")
_NOT_SPACE = re.compile(r"\S")
_THOUGHT_END = re.compile("|".join(THINK_END))
_LONGEST_END = max(map(len, THINK_END))


class TextReader:
    """Reads one answer: `feed` all its texts, then `finish`."""

    def __init__(
        self,
        tools: Mapping[str, KnownTool],
        note: Note,
        *,
        thoughts: bool,
        in_thought: bool = False,
        undecided: bool = False,
    ) -> None:
        """`thoughts`: find thoughts. `in_thought`: the answer begins inside a thought, whose opening tag was
        part of the prompt. `undecided`: it may begin without one, so the closing tag decides."""
        self._tools = tools
        self._note = note
        self._openers = by_first_character(
            [*(call_openers(tools) if tools else ()), *(THOUGHT_OPENERS if thoughts else ())]
        )
        self._held = ""  # may be the start of a tag
        self._block: JsonBlock | XmlBlock | None = None
        self._closer = ""  # of the call before
        self._optional_opener = in_thought
        self._in_thought = in_thought
        self._thought_begun = False
        self._any_thought = in_thought
        #: Text that is a thought if a closing tag follows; None if that is decided.
        self._undecided: list[str] | None = [] if in_thought and undecided else None
        self._in_fence = False
        self._line_blank = True
        self._last = "\n"  # the last character of the text so far
        self._first = True  # nothing but white space, calls and thoughts so far
        self._trim = False  # drop the white space after a call or a thought
        self._leading: list[str] = []  # white space at the start, dropped if a call or a thought follows
        self._parts: list[Part] = []

    def feed(self, text: str) -> list[Part]:
        self._read(text)
        return self._take()

    def _read(self, text: str) -> None:
        for start in range(0, len(text), _SLICE):
            rest: str | None = self._held + text[start : start + _SLICE]
            self._held = ""
            while rest:
                rest = self._step()(rest)

    def thought_reported(self) -> None:
        """The upstream itself found the thoughts of the answer, so its text does not begin inside one."""
        if self._in_thought and not (self._thought_begun or self._undecided or self._held):
            self._leave_first_thought()

    def _leave_first_thought(self) -> None:
        self._in_thought = self._optional_opener = self._any_thought = False
        self._undecided = None

    def finish(self, *, complete: bool) -> list[Part]:
        """The last parts. `complete`: the model itself ended the answer, so no limit cut off a call."""
        if self._undecided is not None:
            text, self._held = "".join((*self._undecided, self._held)), ""
            self._leave_first_thought()
            self._read(text)
        held, self._held = self._held, ""
        if self._block is not None:
            self._end_block(self._block.repaired_calls(self._tools) if complete else [], repaired=True)
        if self._in_thought:
            self._think("" if self._optional_opener else held)
            self._in_thought = self._optional_opener = False
            self._note(UNCLOSED)
        elif not self._closer:
            self._give(held)
        self._parts += [Part(text) for text in ("".join(self._leading),) if text]
        self._leading.clear()
        self._closer = ""
        return self._take()

    def _take(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _step(self) -> Callable[[str], str | None]:
        """The method for the next text. It returns the text that remains, or None if it needs more text."""
        if self._in_thought:
            return self._skip_opener if self._optional_opener else self._read_thought
        if self._block is not None:
            return self._read_closer_of_broken if self._block.broken else self._read_block
        return self._read_after_call if self._closer else self._read_text

    # --- text ------------------------------------------------------------------------------------------

    def _read_text(self, text: str) -> str | None:
        first = _index_of_first(text) if self._first else NO
        for at, starts_line in self._candidates(text):
            opener = self._opener_at(text, at, starts_line, first=at == first)
            if opener is None:
                continue
            self._give(text[:at])
            if isinstance(opener, int):
                self._held = text[at:]
                return None
            return self._open(opener, text[at:])
        self._give(text)
        return None

    def _candidates(self, text: str) -> Iterator[tuple[int, bool]]:
        """The indices at which something may open, and whether it would begin a line."""
        at = 0
        if self._line_blank and (first := _INDENTED.match(text)):
            at = first.end()
            yield first.start(1), True
        for found in _CANDIDATE.finditer(text, at):
            yield found.end() - 1, found[1] is not None

    def _opener_at(self, text: str, at: int, starts_line: bool, *, first: bool) -> Opener | int | None:
        """The opener at the index, PARTIAL if it may still become one, or None."""
        fence = match_words(text, at, (FENCE,)) if starts_line else NO
        if self._in_fence:
            self._in_fence = fence < 0
            return PARTIAL if fence == PARTIAL else None
        found = self._best_opener(text, at, starts_line, first=first)
        if found is None and starts_line:
            self._in_fence = fence >= 0
            return PARTIAL if fence == PARTIAL else None
        if isinstance(found, Opener) and found.form is Form.END_OF_THOUGHT:
            self._count_unopened()
            return None
        return found

    def _best_opener(self, text: str, at: int, starts_line: bool, *, first: bool) -> Opener | int | None:
        result: int | None = None
        quoted = (text[at - 1] if at else self._last) == FENCE[0]
        for opener in () if quoted else self._openers.get(text[at], ()):
            if (opener.line_start and not starts_line) or (opener.first and not first):
                continue
            end = match_words(text, at, opener.words)
            if end >= 0:
                return opener
            result = PARTIAL if end == PARTIAL else result
        return result

    def _count_unopened(self) -> None:
        if not self._any_thought:
            self._any_thought = True
            self._note(UNOPENED)

    def _open(self, opener: Opener, text: str) -> str:
        match opener.form:
            case Form.JSON:
                self._block = JsonBlock(opener.head, opener.closer, tagged=opener.tagged)
            case Form.XML:
                self._block = XmlBlock(opener.head, tagged=opener.tagged)
            case _:
                self._in_thought, self._thought_begun, self._any_thought = True, False, True
                return text[match_words(text, 0, opener.words) :]
        return text[len(opener.head) :]

    def _give(self, text: str) -> None:
        """Add text that belongs to no call."""
        if not text:
            return
        newline = text.rfind("\n")
        if newline >= 0:
            self._line_blank = True
        self._line_blank = self._line_blank and bool(_BLANK.match(text, newline + 1))
        self._last = text[-1]
        if self._first or self._trim:
            text = self._without_outer_space(text)
        if text:
            self._parts.append(Part(text))

    def _without_outer_space(self, text: str) -> str:
        if text.isspace():
            if not self._trim:
                self._leading.append(text)
            return ""
        text = text.lstrip() if self._trim else "".join(self._leading) + text
        self._leading.clear()
        self._first = self._trim = False
        return text

    def _after_part(self) -> None:
        """A call or a thought ended: a new line begins, and white space around it is dropped."""
        self._leading.clear()
        self._line_blank, self._last, self._trim = True, "\n", True

    # --- calls -----------------------------------------------------------------------------------------

    def _read_block(self, text: str) -> str | None:
        assert self._block is not None
        rest = self._block.feed(text)
        if rest is not None and not self._block.broken:
            self._end_block(self._block.calls(self._tools))
        return rest

    def _read_closer_of_broken(self, text: str) -> str | None:
        """The value broke off. If the closing tag follows, only its last brackets are missing."""
        assert self._block is not None
        after = match_words(text, 0, (self._block.closer,)) if self._block.closer else NO
        if after == PARTIAL:
            self._held = text
            return None
        calls = self._block.repaired_calls(self._tools) if after >= 0 else []
        self._end_block(calls, repaired=True)
        return text

    def _end_block(self, calls: list[FunctionCall], *, repaired: bool = False) -> None:
        """Add the calls; without calls the block is text, unchanged."""
        assert self._block is not None
        block, self._block = self._block, None
        if calls:
            self._parts += map(Part, calls)
            self._closer = block.closer
            self._after_part()
            if repaired:
                self._note(REPAIRED)
            return
        self._note(BROKEN)
        self._in_fence = block.head.startswith(FENCE)
        self._give(block.raw)

    def _read_after_call(self, text: str) -> str | None:
        """Skip the closing tag, which may be missing. One tag may contain several calls."""
        after = follows(text, 0, self._closer)
        more = follows(text, 0, ("{", "[", FUNCTION)) if self._closer != FENCE else NO
        if PARTIAL in (after, more):
            self._held = text
            return None
        self._closer = ""
        if after >= 0:
            return text[after:]
        if more >= 0:
            return self._open_in_tag(text.lstrip())
        return text

    def _open_in_tag(self, text: str) -> str:
        """Open the next call in the same tag."""
        form = Form.XML if text.startswith(FUNCTION) else Form.JSON
        return self._open(Opener(form, (), closer=TOOL_CALL_END, tagged=True), text)

    # --- thoughts --------------------------------------------------------------------------------------

    def _skip_opener(self, text: str) -> str | None:
        """The prompt contained the opening tag, but the model may repeat it."""
        after = follows(text, 0, THINK)
        if after == PARTIAL:
            self._held = text
            return None
        self._optional_opener = False
        if after >= 0:
            self._undecided = None
        return text[after:] if after >= 0 else text

    def _read_thought(self, text: str) -> str | None:
        if end := _THOUGHT_END.search(text):
            before, self._undecided = self._undecided or (), None
            self._think("".join((*before, text[: end.start()])))
            self._in_thought = False
            self._after_part()
            return text[end.end() :]
        at = text.find("<", max(0, len(text) - _LONGEST_END))
        while at >= 0 and match_words(text, at, (THINK_END,)) != PARTIAL:
            at = text.find("<", at + 1)
        self._think(text[:at] if at >= 0 else text)
        self._held = text[at:] if at >= 0 else ""
        return None

    def _think(self, text: str) -> None:
        if self._undecided is not None:
            self._undecided.append(text)
            return
        text = text if self._thought_begun else text.lstrip()
        if text:
            self._thought_begun = True
            self._parts.append(Part(text, thought=True))


def _index_of_first(text: str) -> int:
    """The index of the first character that is no white space, or NO."""
    found = _NOT_SPACE.search(text)
    return found.start() if found else NO
