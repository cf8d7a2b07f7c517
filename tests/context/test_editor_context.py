"""Editors repeat their state with every message. The model gets the changes, and no old turn changes."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.context.editor_context import WHOLE_EVERY, EditorContext
from bridge.gemini.types import MODEL, USER, Content, FunctionResponse, GenerateRequest, Part
from bridge.settings.editors import load_editors

DELIVERED = Path(__file__).parent.parent.parent / "config" / "editors.toml"
EDIT = EditorContext(load_editors(DELIVERED))

UNCHANGED = "(unchanged since the last message)"
CHANGES = "(only what changed since the last message)"


def edited(*texts: str) -> list[str]:
    """The texts of the user after the edit, each in a turn of its own."""
    marked = EDIT.apply(asked(*texts))
    return [part.data for turn in marked.request.contents if turn.role == USER for part in turn.parts]


def asked(*texts: str) -> GenerateRequest:
    turns = [
        turn for text in texts for turn in (Content(USER, (Part(text),)), Content(MODEL, (Part("Yes."),)))
    ]
    return GenerateRequest("m", tuple(turns))


def environment(minute: int, *tabs: str, file: str = "src/app.ts", mode: str = "ACT") -> str:
    """The block of Cline."""
    return "\n".join(
        [
            "<environment_details>",
            "# VSCode Visible Files",
            file,
            "",
            "# VSCode Open Tabs",
            *(tabs or ("src/app.ts", "src/store/accounts.ts", "test/app.test.ts")),
            "",
            "# Current Time",
            f"11/19/2026, 10:{minute:02}:00 AM (Europe/Berlin, UTC+1:00)",
            "",
            "# Context Window Usage",
            f"{minute * 1000} / 200K tokens used",
            "",
            "# Current Mode",
            f"{mode} MODE",
            "</environment_details>",
        ]
    )


def codex(file: str, said: str) -> str:
    return (
        f"# Context from my IDE setup:\n\n## Active file: {file}\n\n## Open tabs:\n- app.py: src/app.py\n"
        f"- accounts.py: src/store/accounts.py\n\n## My request for Codex:\n{said}"
    )


def ide(
    line: int, path: str = "src/app.py", selected: str = "", files: tuple[str, ...] = ("a.py", "b.py")
) -> str:
    state = {
        "activeFile": {"path": path, "cursor": {"line": line, "character": 4}, "selectedText": selected},
        "otherOpenFiles": list(files),
    }
    return f"<ide_context>\n{orjson.dumps(state, option=orjson.OPT_INDENT_2).decode()}\n</ide_context>"


# --- sections -----------------------------------------------------------------------------------------


def test_a_block_that_tells_the_same_becomes_a_mark():
    first, second = edited(f"Go.\n\n{environment(1)}", f"Go on.\n\n{environment(2)}")
    assert first == f"Go.\n\n{environment(1)}"
    assert second == f"Go on.\n\n<environment_details>\n{UNCHANGED}\n</environment_details>"


def test_a_changed_block_tells_the_changed_sections():
    _, second = edited(environment(1), environment(2, file="src/new.ts", mode="PLAN"))
    assert second == (
        f"<environment_details>\n{CHANGES}\n# VSCode Visible Files\nsrc/new.ts\n\n# Current Mode\nPLAN MODE\n"
        "</environment_details>"
    )


def test_the_next_block_is_compared_with_what_the_model_was_told():
    _, second, third = edited(environment(1), environment(2, mode="PLAN"), environment(3, mode="PLAN"))
    assert "PLAN" in second
    assert UNCHANGED in third


def test_the_order_of_open_tabs_is_no_change():
    tabs = ["src/app.ts", "src/store/accounts.ts", "test/app.test.ts", "test/store.test.ts"]
    _, second = edited(environment(1, *tabs), environment(1, *reversed(tabs)))
    assert UNCHANGED in second


def test_a_section_that_is_gone_is_named():
    shorter = environment(2).replace("# Current Mode\nACT MODE\n", "")
    _, second = edited(environment(1), shorter)
    assert "(no longer: Current Mode)" in second


def test_sections_with_equal_titles_are_told_apart():
    twice = environment(1).replace("# Current Mode", "# Notes\none\n\n# Notes\ntwo\n\n# Current Mode")
    assert UNCHANGED in edited(twice, twice)[1]
    assert "three" in edited(twice, twice.replace("two", "three"))[1]


def test_the_words_of_the_user_behind_the_block_of_codex_stay():
    first, second, third = edited(
        codex("src/app.py", "Fix it."), codex("src/app.py", "Test it."), codex("src/other.py", "Go on.")
    )
    assert first == codex("src/app.py", "Fix it.")
    assert second == f"# Context from my IDE setup:\n{UNCHANGED}\n\n## My request for Codex:\nTest it."
    assert third == (
        f"# Context from my IDE setup:\n{CHANGES}\n## Active file: src/other.py\n\n"
        "## My request for Codex:\nGo on."
    )


def test_a_block_of_codex_without_a_request_stays():
    without = codex("src/app.py", "Fix it.").replace("## My request for Codex:\n", "")
    assert edited(without, without) == [without, without]


# --- JSON ----------------------------------------------------------------------------------------------


def update(text: str) -> object:
    return orjson.loads(text.removeprefix("<ide_context_update>").removesuffix("</ide_context_update>"))


def test_only_changed_keys_are_told():
    _, same, moved, selected, other, opened = edited(
        ide(10),
        ide(10),
        ide(30),
        ide(30, selected="x = 1"),
        ide(5, path="src/b.py"),
        ide(5, path="src/b.py", files=("b.py", "c.py")),
    )
    assert update(same) == {}
    assert update(moved) == {"activeFile": {"cursor": {"character": 4, "line": 30}}}
    assert update(selected) == {"activeFile": {"selectedText": "x = 1"}}
    assert update(other) == {
        "activeFile": {"path": "src/b.py", "cursor": {"line": 5, "character": 4}, "selectedText": ""}
    }
    assert update(opened) == {"otherOpenFiles": ["b.py", "c.py"]}


def test_a_cursor_counts_as_moved_after_more_than_ten_lines():
    lines = (10, 15, 20, 21, 25)
    told = [update(text) for text in edited(*map(ide, lines))[1:]]
    assert told == [{}, {}, {"activeFile": {"cursor": {"character": 4, "line": 21}}}, {}]


def test_the_order_of_open_files_is_no_change():
    assert update(edited(ide(1, files=("a.py", "b.py")), ide(1, files=("b.py", "a.py")))[1]) == {}


@pytest.mark.parametrize(
    "content",
    ["not JSON at all, but long enough to be looked at, and more", "[1, 2]", '{"a":' * 500 + "1" + "}" * 500],
)
def test_a_block_that_cannot_be_read_stays(content):
    block = f"<ide_context>{content}</ide_context>{' ' * 80}"
    assert edited(block, block) == [block, block]


def test_a_change_deep_inside_is_told_with_its_path():
    def nested(leaf: int) -> str:
        state = {"same": "x" * 80, "a": {"b": {"c": {"d": leaf}}}}
        return f"<ide_context>{orjson.dumps(state).decode()}</ide_context>"

    assert update(edited(nested(1), nested(2))[1]) == {"a": {"b": {"c": {"d": 2}}}}


# --- whole blocks --------------------------------------------------------------------------------------

OPENED = (
    "<ide_opened_file>The user opened the file /home/me/project/src/store/accounts.py in the IDE. This may "
    "or may not be related to the current task.</ide_opened_file>\n"
)


def test_a_whole_block_is_sent_again_if_it_changed():
    other = OPENED.replace("accounts", "payments")
    first, second, third, fourth = edited(f"{OPENED}a", f"{OPENED}b", f"{other}c", f"{OPENED}d")
    assert second == f"<ide_opened_file>\n{UNCHANGED}\n</ide_opened_file>\nb"
    assert (first, third, fourth) == (f"{OPENED}a", f"{other}c", f"{OPENED}d")


def test_two_kinds_of_blocks_do_not_disturb_each_other():
    both = f"{OPENED}Go.\n{environment(1)}"
    _, second = edited(both, both)
    assert second.count(UNCHANGED) == 2


# --- where blocks are found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"Why is this there?\n```\n{environment(1)}\n```\n",
        f"~~~xml\n```\n{environment(1)}\n~~~",
        f"The text {environment(1)}",
        environment(1).replace("</environment_details>", ""),
        environment(1).replace("environment_details", "environment"),
    ],
)
def test_what_is_no_block_stays(text):
    assert edited(text, text) == [text, text]


def test_a_block_behind_a_fence_is_found():
    text = f"```py\nx = 1\n```\n{environment(1)}"
    assert UNCHANGED in edited(text, text)[1]


def test_a_tag_that_is_cut_between_two_parts_is_no_block():
    half = len(environment(1)) // 2
    parts = (Part(environment(1)[:half]), Part(environment(1)[half:]))
    request = GenerateRequest("m", (Content(USER, parts), Content(MODEL), Content(USER, parts)))
    assert EDIT.apply(request).request is request


def test_answers_and_results_stay():
    result = Part(FunctionResponse("read", {"result": environment(1)}, "1"))
    answer = Content(MODEL, (Part(environment(1)),))
    request = GenerateRequest("m", (Content(USER, (result,)), answer) * 3)
    assert EDIT.apply(request).request is request


def test_a_request_in_geminis_format_stays():
    text = environment(1)
    request = GenerateRequest("m", asked(text, text).contents, native=True)
    assert EDIT.apply(request).request is request


def test_a_request_without_blocks_is_the_same_object():
    request = asked("Hello", "What does <rules> mean in " + "a long text " * 20)
    assert EDIT.apply(request).request is request


def test_a_short_block_is_not_replaced_by_a_longer_mark():
    block = "<git_status>clean</git_status>" + " " * 80
    assert edited(block, block) == [block, block]


# --- over a conversation -------------------------------------------------------------------------------


def test_every_twentieth_block_is_whole():
    texts = edited(*[environment(1)] * 45)
    assert [number for number, text in enumerate(texts) if UNCHANGED not in text] == [0, 20, 40]
    assert WHOLE_EVERY == 20


def test_the_number_of_blocks_and_the_tokens_are_told():
    marked = EDIT.apply(asked(environment(1), environment(2), environment(3)))
    assert marked.blocks == 2
    assert 80 < marked.saved < len(environment(1)) // 2


BLOCKS = st.one_of(
    st.builds(
        environment, st.integers(0, 59), mode=st.sampled_from(["ACT", "PLAN"]), file=st.sampled_from("ab")
    ),
    st.builds(codex, st.sampled_from(["src/a.py", "src/b.py"]), st.text(max_size=20)),
    st.builds(ide, st.integers(1, 60), selected=st.sampled_from(["", "x"])),
    st.sampled_from([OPENED, "Hello.", "```\n<rules>"]),
)
TEXTS = st.lists(st.lists(BLOCKS, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=50)


@given(TEXTS)
@settings(max_examples=100)
def test_each_request_begins_as_the_one_before(texts):
    whole = edited(*texts)
    for count in range(1, len(texts)):
        assert edited(*texts[:count]) == whole[:count]


@given(TEXTS)
@settings(max_examples=100)
def test_an_edited_conversation_stays_as_it_is(texts):
    once = edited(*texts)
    assert edited(*once) == once


@given(TEXTS)
@settings(max_examples=50)
def test_no_text_grows(texts):
    for before, after in zip(texts, edited(*texts), strict=True):
        assert len(after) <= len(before)
