"""The table of editors' blocks is checked at start, and each error names its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.settings import SettingsError
from bridge.settings.editors import load_editors

DELIVERED = Path(__file__).parent.parent.parent / "config" / "editors.toml"
ROW = '[[block]]\nname = "mine"\nopen = "<mine>"\nclose = "</mine>"\nform = "whole"\n'


def test_the_delivered_table_has_the_editors_that_the_documents_name():
    names = {block.name for block in load_editors(DELIVERED)}
    assert {"cline_environment", "codex_ide", "claude_opened_file", "cursor_files", "ide_context"} <= names


def test_a_heading_keeps_the_space_at_its_end():
    assert next(block for block in load_editors(DELIVERED) if block.name == "codex_ide").heading == "## "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW + ROW, "[[block]] 2: name: there are two blocks named mine"),
        (ROW.replace("whole", "hole"), "form must be a text: whole, sections or json, not 'hole'"),
        (ROW.replace("whole", "sections"), "heading is missing"),
        (ROW.replace('open = "<mine>"\n', ""), "open is missing"),
        (ROW + "shut = 1\n", "shut is unknown"),
        (ROW + 'update = "no tag"\n', "update must be a text that can name a tag"),
        ("[block]\n", "block must be a list of tables"),
    ],
)
def test_an_error_names_the_place_and_the_reason(tmp_path, text, message):
    file = tmp_path / "editors.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=r"editors\.toml") as raised:
        load_editors(file)
    assert message in str(raised.value)
