"""A stray + before the delimiters of a patch is removed; the content of the patched files never changes."""

from __future__ import annotations

from itertools import chain
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.gemini.types import FunctionCall
from bridge.guards.apply_patch import ApplyPatch, repair_patches
from bridge.settings import load

ANY_SPEED = settings(deadline=None)
GUARD = ApplyPatch(load(environ={}).guards)


def lines(text: str) -> str:
    return dedent(text).strip("\n")


# --- delimiters --------------------------------------------------------------------------------------

REPAIRED: dict[str, tuple[str, str]] = {
    "the beginning": (
        """
        +*** Begin Patch
        *** Delete File: a
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Delete File: a
        *** End Patch
        """,
    ),
    "the end": (
        """
        *** Begin Patch
        *** Add File: a
        +x
        +*** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: a
        +x
        *** End Patch
        """,
    ),
    "an added file": (
        """
        *** Begin Patch
        +*** Add File: a
        +x
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: a
        +x
        *** End Patch
        """,
    ),
    "an updated file": (
        """
        *** Begin Patch
        +*** Update File: a
        @@
        -x
        +y
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        @@
        -x
        +y
        *** End Patch
        """,
    ),
    "a deleted file": (
        """
        *** Begin Patch
        +*** Delete File: a
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Delete File: a
        *** End Patch
        """,
    ),
    "a move": (
        """
        *** Begin Patch
        *** Update File: a
        +*** Move to: b
        @@
        -x
        +y
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        *** Move to: b
        @@
        -x
        +y
        *** End Patch
        """,
    ),
    "a move behind a header with one too": (
        """
        *** Begin Patch
        +*** Update File: a
        +*** Move to: b
        @@
        +y
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        *** Move to: b
        @@
        +y
        *** End Patch
        """,
    ),
    "the end of a file, at the end of the patch": (
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        +*** End of File
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        *** End of File
        *** End Patch
        """,
    ),
    "the end of a file, before an end with one too": (
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        +*** End of File
        +*** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        *** End of File
        *** End Patch
        """,
    ),
    "the end of a file, before another file": (
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        +*** End of File
        *** Delete File: b
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        *** End of File
        *** Delete File: b
        *** End Patch
        """,
    ),
    "the end of a file, before another hunk": (
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        +*** End of File
        @@ def f():
        -x
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Update File: a
        @@
        +y
        *** End of File
        @@ def f():
        -x
        *** End Patch
        """,
    ),
    "all of them in several files": (
        """
        +*** Begin Patch
        +*** Add File: a
        +x
        +*** Update File: b
        +*** Move to: c
        @@
        -x
        +y
        +*** End of File
        +*** Delete File: d
        +*** Add File: e
        +z
        +*** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: a
        +x
        *** Update File: b
        *** Move to: c
        @@
        -x
        +y
        *** End of File
        *** Delete File: d
        *** Add File: e
        +z
        *** End Patch
        """,
    ),
    "every header, as the first has one": (
        """
        *** Begin Patch
        +*** Add File: a
        +x
        +*** Add File: b
        +y
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: a
        +x
        *** Add File: b
        +y
        *** End Patch
        """,
    ),
    "a header behind a deleted file, which has no body": (
        """
        *** Begin Patch
        *** Delete File: a
        +*** Add File: b
        +x
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Delete File: a
        *** Add File: b
        +x
        *** End Patch
        """,
    ),
    "a header behind an added file, as a hunk follows, which no added file has": (
        """
        *** Begin Patch
        *** Add File: a
        +x
        +*** Update File: b
        @@
        -x
        +y
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: a
        +x
        *** Update File: b
        @@
        -x
        +y
        *** End Patch
        """,
    ),
    "beginning and end, but not in the file about patches between": (
        """
        +*** Begin Patch
        *** Add File: patches.md
        +*** Begin Patch
        +*** Add File: x
        +*** Move to: y
        +*** End of File
        +*** End Patch
        +*** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: patches.md
        +*** Begin Patch
        +*** Add File: x
        +*** Move to: y
        +*** End of File
        +*** End Patch
        *** End Patch
        """,
    ),
    "names in other languages and with blanks": (
        """
        *** Begin Patch
        +*** Add File: größe 大小/ключ 👍.txt
        +ß
        *** End Patch
        """,
        """
        *** Begin Patch
        *** Add File: größe 大小/ключ 👍.txt
        +ß
        *** End Patch
        """,
    ),
    "two patches in one script": (
        """
        apply_patch <<'EOF'
        +*** Begin Patch
        +*** Delete File: a
        +*** End Patch
        EOF
        apply_patch <<'EOF'
        +*** Begin Patch
        +*** Delete File: b
        +*** End Patch
        EOF
        """,
        """
        apply_patch <<'EOF'
        *** Begin Patch
        *** Delete File: a
        *** End Patch
        EOF
        apply_patch <<'EOF'
        *** Begin Patch
        *** Delete File: b
        *** End Patch
        EOF
        """,
    ),
}


@pytest.mark.parametrize(("given", "expected"), REPAIRED.values(), ids=REPAIRED)
def test_a_plus_before_a_delimiter_is_removed(given: str, expected: str) -> None:
    assert repair_patches(lines(given)) == lines(expected)


@pytest.mark.parametrize(("given", "expected"), REPAIRED.values(), ids=REPAIRED)
def test_a_plus_before_a_delimiter_is_removed_with_crlf(given: str, expected: str) -> None:
    crlf = lines(given).replace("\n", "\r\n")
    assert repair_patches(crlf) == lines(expected).replace("\n", "\r\n")
    assert repair_patches(crlf + "\r\n") == lines(expected).replace("\n", "\r\n") + "\r\n"


@pytest.mark.parametrize(("given", "expected"), REPAIRED.values(), ids=REPAIRED)
def test_text_around_a_patch_is_unchanged(given: str, expected: str) -> None:
    before = "+*** Add File: said before\n+*** End Patch\ncd x && apply_patch <<'E'\n"
    after = "\nE\n+*** Update File: said behind\n+ *** End of File\n\n"
    assert repair_patches(before + lines(given) + after) == before + lines(expected) + after


@pytest.mark.parametrize(("given", "expected"), REPAIRED.values(), ids=REPAIRED)
def test_repairing_a_patch_is_idempotent(given: str, expected: str) -> None:
    assert repair_patches(lines(expected)) == lines(expected)


# --- bodies ------------------------------------------------------------------------------------------

UNTOUCHED: dict[str, str] = {
    "a patch without problems": """
        *** Begin Patch
        *** Add File: a
        +x
        *** Update File: b
        *** Move to: c
        @@
         same
        -x
        +y
        *** End of File
        *** Delete File: d
        *** End Patch
        """,
    "a whole patch in an added file": """
        *** Begin Patch
        *** Add File: patches.md
        +*** Begin Patch
        +*** Update File: x
        +*** Move to: y
        +@@
        +*** End of File
        +*** Delete File: z
        +*** End Patch
        *** End Patch
        """,
    "headers in an added file": """
        *** Begin Patch
        *** Add File: patches.md
        +*** Add File: x
        +*** Update File: x
        +*** Delete File: x
        *** End Patch
        """,
    "a header in an added file, before another file": """
        *** Begin Patch
        *** Add File: patches.md
        +*** Delete File: x
        *** Delete File: y
        *** End Patch
        """,
    "headers in an updated file": """
        *** Begin Patch
        *** Update File: patches.md
        @@
         A patch:
        +*** Add File: x
        +*** Update File: x
        +*** Delete File: x
         Its end.
        *** End Patch
        """,
    "beginning and end in an updated file": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** Begin Patch
        +*** End Patch
        *** End Patch
        """,
    "a move in an updated file": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** Move to: x
        *** End Patch
        """,
    "a header with its move in an updated file": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** Update File: x
        +*** Move to: y
         Its end.
        *** End Patch
        """,
    "a move behind an added file's header": """
        *** Begin Patch
        *** Add File: patches.md
        +*** Move to: x
        *** End Patch
        """,
    "a move behind a moved file's move": """
        *** Begin Patch
        *** Update File: a
        *** Move to: b
        +*** Move to: c
        *** End Patch
        """,
    "an end of file in the middle of a hunk": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** End of File
         Its end.
        *** End Patch
        """,
    "an end of file and an end of patch in the middle of a hunk": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** End of File
        +*** End Patch
         Its end.
        *** End Patch
        """,
    "an end of file and a hunk in the middle of a hunk": """
        *** Begin Patch
        *** Update File: patches.md
        @@
        +*** End of File
        +@@ def f():
         Its end.
        *** End Patch
        """,
    "an end of file in an added file": """
        *** Begin Patch
        *** Add File: patches.md
        +*** End of File
        *** End Patch
        """,
    "delimiters as context and as removed lines": """
        *** Begin Patch
        *** Update File: patches.md
        @@
         *** Add File: x
        -*** Begin Patch
        -*** End Patch
        +x
        *** End Patch
        """,
    "two pluses": """
        *** Begin Patch
        *** Add File: a
        ++*** Add File: x
        ++*** End Patch
        *** End Patch
        """,
    "a blank behind the plus": """
        *** Begin Patch
        *** Update File: a
        @@
        + *** End of File
        *** End Patch
        """,
    "lines that only resemble delimiters": """
        *** Begin Patch
        *** Update File: a
        @@
        +*** Rename File: x
        +*** add file: x
        +***
        +*** End of Files
        +**** End of File
        *** End Patch
        """,
    "no beginning": """
        +*** Add File: a
        +x
        +*** End Patch
        """,
    "no end": """
        +*** Begin Patch
        +*** Add File: a
        +x
        """,
    "an end before the beginning": """
        +*** End Patch
        +*** Begin Patch
        +*** Add File: a
        """,
    "a beginning with something behind it": """
        +*** Begin Patch now
        +*** Delete File: a
        +*** End Patch
        """,
    "another kind of patch": """
        --- a/x
        +++ b/x
        @@ -1 +1 @@
        -*** x
        +*** y
        """,
    "no patch": "+*** x",
    "nothing": "",
}


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_line_that_is_not_a_delimiter_by_position_is_unchanged(text: str) -> None:
    assert repair_patches(lines(text)) == lines(text)
    crlf = lines(text).replace("\n", "\r\n")
    assert repair_patches(crlf) == crlf


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_valid_patch_call_is_the_same_object(text: str) -> None:
    call = FunctionCall("apply_patch", {"input": lines(text)})
    assert GUARD.on_call(call) is call


# --- calls -------------------------------------------------------------------------------------------

MARKED, CLEAN = map(lines, REPAIRED["all of them in several files"])


def heredoc(patch: str) -> str:
    return f"cd src && apply_patch <<'EOF'\n{patch}\nEOF\necho '+*** End of File' | cat\n"


CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "the freeform tool": ("apply_patch", {"input": MARKED}, {"input": CLEAN}),
    "the tool with a named patch": ("apply_patch", {"patch": MARKED}, {"patch": CLEAN}),
    "a list for the tool": ("apply_patch", {"input": ["a", MARKED]}, {"input": ["a", CLEAN]}),
    "a here-document for the tool": ("apply_patch", {"input": heredoc(MARKED)}, {"input": heredoc(CLEAN)}),
    "Codex's shell": ("exec_command", {"cmd": heredoc(MARKED)}, {"cmd": heredoc(CLEAN)}),
    "Claude Code's shell": ("Bash", {"command": heredoc(MARKED)}, {"command": heredoc(CLEAN)}),
    "Gemini CLI's shell": ("run_shell_command", {"command": heredoc(MARKED)}, {"command": heredoc(CLEAN)}),
    "a script in a list": (
        "shell",
        {"command": ["bash", "-lc", heredoc(MARKED)]},
        {"command": ["bash", "-lc", heredoc(CLEAN)]},
    ),
    "a patch in a list": (
        "local_shell",
        {"command": ["apply_patch", MARKED]},
        {"command": ["apply_patch", CLEAN]},
    ),
    "among numbers and objects": (
        "shell",
        {"command": [1, None, MARKED, {"x": MARKED}]},
        {"command": [1, None, CLEAN, {"x": MARKED}]},
    ),
    "beside other arguments": (
        "exec_command",
        {"workdir": MARKED, "cmd": heredoc(MARKED), "n": 1.5},
        {"workdir": MARKED, "cmd": heredoc(CLEAN), "n": 1.5},
    ),
}


@pytest.mark.parametrize(("tool", "args", "expected"), CALLS.values(), ids=CALLS)
def test_a_patch_is_repaired_wherever_a_tool_takes_one(
    tool: str, args: dict[str, Any], expected: dict[str, Any]
) -> None:
    repaired = GUARD.on_call(FunctionCall(tool, args, "call_1", {"later": "field"}))
    assert repaired == FunctionCall(tool, expected, "call_1", {"later": "field"})
    assert list(repaired.args or {}) == list(args)
    assert GUARD.on_call(repaired) is repaired


SAME_CALLS: dict[str, FunctionCall] = {
    "another tool": FunctionCall("Write", {"input": MARKED, "command": MARKED}),
    "another argument of the tool": FunctionCall("apply_patch", {"text": MARKED}),
    "another argument of a shell": FunctionCall("Bash", {"description": MARKED, "cmd": MARKED}),
    "a clean here-document": FunctionCall("Bash", {"command": heredoc(CLEAN)}),
    "a clean patch in a list": FunctionCall("shell", {"command": ["apply_patch", CLEAN]}),
    "a number": FunctionCall("apply_patch", {"input": 7}),
    "null": FunctionCall("apply_patch", {"input": None}),
    "not a number": FunctionCall("apply_patch", {"input": [float("nan")]}),
    "an object": FunctionCall("apply_patch", {"input": {"input": MARKED}}),
    "no arguments": FunctionCall("apply_patch", {}),
    "arguments left out": FunctionCall("apply_patch"),
    "megabytes": FunctionCall("apply_patch", {"input": "+*** x\n" * 500_000}),
}


@pytest.mark.parametrize("call", SAME_CALLS.values(), ids=SAME_CALLS)
def test_any_other_call_is_unchanged(call: FunctionCall) -> None:
    assert GUARD.on_call(call) is call


# --- any patch ---------------------------------------------------------------------------------------

PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)
IN_BODIES = st.sampled_from(["*** Begin Patch", "*** End Patch", "*** Move to: x", "*** End of File", "@@ x"])
HEADERS = st.sampled_from(["*** Add File: x", "*** Update File: x", "*** Delete File: x"])
NAMES = st.text("ab/. ß", max_size=8).map(lambda name: "a" + name)


def added(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    header = NAMES.map(lambda name: [f"*** Add File: {name}"])
    body = st.lists(bodies.map(lambda text: "+" + text), min_size=1, max_size=5)
    return st.builds(list.__add__, header, body)


def hunks(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """The last line is context: a hunk that ends by adding a delimiter's text would be ambiguous."""
    start = st.sampled_from(["@@", "@@ def f():"]).map(lambda line: [line])
    body = st.lists(st.builds(str.__add__, st.sampled_from("+- "), bodies), max_size=5)
    end = st.sampled_from([[" same"], [" same", "*** End of File"]])
    return st.builds(lambda *several: [*chain(*several)], start, body, end)


def updated(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    header = NAMES.map(lambda name: [f"*** Update File: {name}"])
    move = st.just([]) | NAMES.map(lambda name: [f"*** Move to: {name}"])
    body = st.lists(hunks(bodies), min_size=1, max_size=3).map(lambda several: [*chain(*several)])
    return st.builds(lambda *several: [*chain(*several)], header, move, body)


def patches(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    deleted = NAMES.map(lambda name: [f"*** Delete File: {name}"])
    files = st.lists(added(bodies) | updated(bodies) | deleted, min_size=1, max_size=4)
    return files.map(lambda several: ["*** Begin Patch", *chain(*several), "*** End Patch"])


LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@ANY_SPEED
@given(patches(PLAIN | IN_BODIES | HEADERS), LINE_ENDS)
def test_a_well_formed_patch_never_changes(patch: list[str], line_end: str) -> None:
    text = line_end.join(patch)
    assert repair_patches(text) == text
    assert repair_patches(f"apply_patch <<E\n{text}\nE\n") == f"apply_patch <<E\n{text}\nE\n"


@ANY_SPEED
@given(patches(PLAIN | IN_BODIES), LINE_ENDS)
def test_a_patch_with_a_plus_before_every_delimiter_is_restored(patch: list[str], line_end: str) -> None:
    marked = ["+" + line if line.startswith("*** ") else line for line in patch]
    assert repair_patches(line_end.join(marked)) == line_end.join(patch)


LINES = st.builds(
    str.__add__, st.sampled_from(["", "+", " "]), IN_BODIES | HEADERS | st.sampled_from(["", "x"])
)


@ANY_SPEED
@given(st.lists(LINES, max_size=12).map(lambda middle: ["+*** Begin Patch", *middle, "+*** End Patch"]))
@example(["+*** Begin Patch", "+*** End Patch", "*** Begin Patch", "x", "+*** End Patch"])
@example(["+*** Begin Patch", "+*** End Patch", "+*** Begin Patch", "x", "+*** End Patch"])
@example(["*** Begin Patch", "*** Update File: x", "+*** End of File", "+*** End of File", "*** End Patch"])
def test_repairing_any_text_is_idempotent(text: list[str]) -> None:
    once = repair_patches("\n".join(text))
    assert repair_patches(once) == once


@ANY_SPEED
@given(st.lists(LINES, max_size=12))
def test_only_plus_signs_are_ever_removed(text: list[str]) -> None:
    repaired = repair_patches("\n".join(text)).split("\n")
    assert len(repaired) == max(len(text), 1)
    for old, new in zip(text, repaired, strict=False):
        assert new == old or (old == "+" + new and new.startswith("*** "))
