"""Workspaces: what their tools find, and that no path leads out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bridge.agents.cancellation import Cancellation
from bridge.agents.tool import Invocation, ToolRegistry, ToolResult
from bridge.agents.workspace import LARGEST_FILE
from bridge.agents.workspace_tools import MOST_MATCHES, MOST_PATHS, WorkspaceTools
from bridge.settings.agents import WorkspaceRow

SECRET = "the secret outside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    inside = tmp_path / "inside"
    (inside / "src" / "deep").mkdir(parents=True)
    (inside / "README.md").write_text("# Title\nfirst\nsecond\nthird\n")
    (inside / "src" / "main.py").write_text("import os\n\n\ndef main():\n    return 1\n")
    (inside / "src" / "deep" / "leaf.py").write_text("LEAF = 1\n")
    (inside / "src" / "data.bin").write_bytes(b"\0main")
    (inside / ".env").write_text("TOKEN=secret")
    (inside / ".git").mkdir()
    (inside / ".git" / "config").write_text("main")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "linked").symlink_to(tmp_path)
    (inside / "src" / "self").symlink_to("..")
    os.mkfifo(inside / "pipe")
    return inside


def call(folder: Path, name: str, *, writable: bool = False, **arguments: Any) -> ToolResult:
    source = WorkspaceTools(WorkspaceRow(name="code", folder=folder, writable=writable))
    tool = ToolRegistry(source.tools(Cancellation())).find(f"code__{name}")
    assert tool is not None
    return tool.invoke(Invocation("1", arguments, 5, Cancellation()))


def output(result: ToolResult) -> str:
    assert not result.is_error, result
    return str(result.response["output"])


# --- the tools ----------------------------------------------------------------------------------------


def test_a_file_is_read_whole_or_in_part(folder: Path) -> None:
    assert output(call(folder, "read_file", path="src/deep/leaf.py")) == "LEAF = 1"
    part = call(folder, "read_file", path="./README.md", first_line=2, lines=2)
    assert part.response == {"output": "first\nsecond", "lines": "2 to 3 of 4"}


def test_a_folder_is_listed_without_links_pipes_and_hidden_files(folder: Path) -> None:
    assert output(call(folder, "list_directory")) == "README.md (27 bytes)\nsrc/"
    assert output(call(folder, "list_directory", path="src")).split("\n")[1:] == [
        "deep/",
        "main.py (37 bytes)",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/main.py", "src/deep/leaf.py"]),
        ("src/*.py", ["src/main.py", "src/deep/leaf.py"]),
        ("**/*.md", ["README.md"]),
        ("src/deep/*", ["src/deep/leaf.py"]),
        ("*secret*", ["Nothing found."]),
    ],
)
def test_files_are_found_by_path(folder: Path, pattern: str, found: list[str]) -> None:
    assert output(call(folder, "glob", pattern=pattern)).split("\n") == found


def test_lines_are_found_by_expression(folder: Path) -> None:
    assert output(call(folder, "grep", pattern="main|LEAF")).split("\n") == [
        "src/main.py:4: def main():",
        "src/deep/leaf.py:1: LEAF = 1",
    ]
    assert output(call(folder, "grep", pattern="main", glob="*.md")) == "Nothing found."
    assert output(call(folder, "grep", pattern="LEAF", path="src/deep")) == "src/deep/leaf.py:1: LEAF = 1"
    assert call(folder, "grep", pattern="(?=x)").is_error


def test_results_are_bounded(folder: Path) -> None:
    for number in range(MOST_PATHS + 5):
        (folder / f"many{number}.txt").write_text("hit\n")
    found = call(folder, "glob", pattern="many*")
    assert len(output(found).split("\n")) == MOST_PATHS
    assert "There is more" in found.response["note"]
    assert len(output(call(folder, "grep", pattern="hit")).split("\n")) == MOST_MATCHES
    (folder / "huge.txt").write_bytes(b"x" * (LARGEST_FILE + 1))
    assert "the largest file to read" in call(folder, "read_file", path="huge.txt").response["error"]


def test_only_a_writable_workspace_can_be_edited(folder: Path) -> None:
    source = WorkspaceTools(WorkspaceRow(name="code", folder=folder))
    assert [tool.description.read_only for tool in source.tools(Cancellation())] == [True] * 4
    patch = "@@\n def main():\n-    return 1\n+    return 2\n"
    edited = call(folder, "edit", writable=True, path="src/main.py", patch=patch)
    assert "-    return 1\n+    return 2" in output(edited)
    assert (folder / "src" / "main.py").read_text().endswith("    return 2\n")
    output(call(folder, "edit", writable=True, path="src/new.py", patch="@@\n+A = 1\n"))
    assert (folder / "src" / "new.py").read_text() == "A = 1\n"
    assert not [name for name in os.listdir(folder / "src") if name.endswith(".new")]


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("@@\n-missing\n+new\n", "at no place"),
        ("@@\n \n-\n+x\n", "at no place"),
        ("no diff", "must be a unified diff"),
        ("@@\n first\n", "changes nothing"),
        ("@@\n+added\n", "has no line of the file"),
        ("@@\n*first\n", "begins with a space"),
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(folder: Path, patch: str, problem: str) -> None:
    before = (folder / "README.md").read_text()
    result = call(folder, "edit", writable=True, path="README.md", patch=patch)
    assert problem in result.response["error"]
    assert (folder / "README.md").read_text() == before


def test_a_hunk_that_fits_twice_is_refused(folder: Path) -> None:
    (folder / "twice.txt").write_text("a\nb\na\nb\n")
    result = call(folder, "edit", writable=True, path="twice.txt", patch="@@\n-a\n+c\n")
    assert "at 2 places" in result.response["error"]


# --- no way out ---------------------------------------------------------------------------------------

OUTSIDE = [
    "../secret.txt",
    "src/../../secret.txt",
    "src/deep/../../../secret.txt",
    "./../secret.txt",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "link.txt",
    "linked/secret.txt",
    "src/self/README.md",
    "src/self/../secret.txt",
    ".env",
    ".git/config",
    "src/.../x",
    "..\\secret.txt",
    "src\\..\\..\\secret.txt",
    "README.md\0.txt",
    "pipe",
    "src",
    "",
    ".",
    "x" * 5000,
    "a/" * 3000,
]


@pytest.mark.parametrize("path", OUTSIDE, ids=[repr(path[:30]) for path in OUTSIDE])
@pytest.mark.parametrize("tool", ["read_file", "edit"])
def test_no_path_leads_out(folder: Path, path: str, tool: str) -> None:
    arguments = {"patch": "@@\n+text\n"} if tool == "edit" else {}
    result = call(folder, tool, writable=True, path=path, **arguments)
    assert result.is_error
    assert SECRET not in str(result.response)
    assert (folder.parent / "secret.txt").read_text() == SECRET
    assert (folder / ".env").read_text() == "TOKEN=secret"


@pytest.mark.parametrize("path", ["..", "/", "linked", "src/self", ".git", "../inside"])
@pytest.mark.parametrize("tool", ["list_directory", "grep"])
def test_no_folder_outside_is_listed_or_searched(folder: Path, path: str, tool: str) -> None:
    arguments = {"pattern": "."} if tool == "grep" else {}
    assert call(folder, tool, path=path, **arguments).is_error


def test_a_search_does_not_follow_links(folder: Path) -> None:
    assert output(call(folder, "grep", pattern="secret")) == "Nothing found."


def test_a_folder_that_becomes_a_link_has_no_effect(folder: Path) -> None:
    """The link appears after the workspace was built."""
    source = WorkspaceTools(WorkspaceRow(name="code", folder=folder))
    tool = ToolRegistry(source.tools(Cancellation())).find("code__read_file")
    assert tool is not None
    (folder / "src").rename(folder / "moved")
    (folder / "src").symlink_to(folder.parent)
    assert tool.invoke(Invocation("1", {"path": "src/secret.txt"}, 5, Cancellation())).is_error
