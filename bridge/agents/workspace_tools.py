"""The tools of a workspace: read_file, list_directory, glob, grep, and edit if it is writable."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from bridge.agents.cancellation import Cancellation
from bridge.agents.patch import PatchFailed, patched
from bridge.agents.tool import Invocation, Tool, ToolDescription, ToolResult, ToolSource, failed
from bridge.agents.workspace import NotInWorkspace, Workspace
from bridge.gemini.types import JsonObject
from bridge.settings.agents import WorkspaceRow
from bridge.settings.patterns import Pattern, checked_pattern
from bridge.settings.value import SettingsError

MOST_LINES = 2000  #: of one read_file
MOST_PATHS = 500
MOST_MATCHES = 200
LONGEST_LINE = 500  #: characters of a line that grep shows

Work = Callable[[Workspace, Invocation], ToolResult]


class WorkspaceTool(Tool):
    def __init__(self, workspace: Workspace, description: ToolDescription, work: Work) -> None:
        self.description = description
        self._workspace = workspace
        self._work = work

    def invoke(self, invocation: Invocation) -> ToolResult:
        try:
            return self._work(self._workspace, invocation)
        except (NotInWorkspace, PatchFailed) as error:
            return failed(str(error))


class WorkspaceTools(ToolSource):
    def __init__(self, row: WorkspaceRow) -> None:
        self.label = row.name
        workspace = Workspace(row.folder)
        names = (*READING, "edit") if row.writable else READING
        self._tools = [self._tool(workspace, row, name) for name in names]

    def _tool(self, workspace: Workspace, row: WorkspaceRow, name: str) -> Tool:
        text, parameters, work = TOOLS[name]
        about = f"{text} Workspace {row.name}: {row.description}" if row.description else text
        reads = name in READING
        return WorkspaceTool(
            workspace,
            ToolDescription(name, about, parameters, reads, unattended=True, server=row.name),
            work,
        )

    def tools(self, cancellation: Cancellation) -> Sequence[Tool]:
        return self._tools


# --- the tools ----------------------------------------------------------------------------------------


def _read_file(workspace: Workspace, invocation: Invocation) -> ToolResult:
    arguments = invocation.arguments
    lines = workspace.read(arguments["path"]).splitlines()
    first = int(arguments.get("first_line", 1))
    count = min(int(arguments.get("lines", MOST_LINES)), MOST_LINES)
    shown = lines[first - 1 : first - 1 + count]
    response: dict[str, Any] = {"output": "\n".join(shown)}
    if first > 1 or len(shown) < len(lines):
        response["lines"] = f"{first} to {first - 1 + len(shown)} of {len(lines)}"
    return ToolResult(response)


def _list_directory(workspace: Workspace, invocation: Invocation) -> ToolResult:
    entries = workspace.entries(invocation.arguments.get("path", ""))
    listed = [
        f"{entry.name}/" if entry.is_folder else f"{entry.name} ({entry.size} bytes)" for entry in entries
    ]
    return _listing(listed, MOST_PATHS)


def _glob(workspace: Workspace, invocation: Invocation) -> ToolResult:
    pattern = invocation.arguments["pattern"]
    files = (path for path in workspace.files() if _matches(path, pattern))
    return _listing(list(islice(_until(files, invocation), MOST_PATHS + 1)), MOST_PATHS)


def _grep(workspace: Workspace, invocation: Invocation) -> ToolResult:
    arguments = invocation.arguments
    try:
        pattern = checked_pattern(arguments["pattern"], "pattern")
    except SettingsError as error:
        return failed(str(error))
    glob = arguments.get("glob", "*")
    files = (path for path in workspace.files(arguments.get("path", "")) if _matches(path, glob))
    found = (match for path in _until(files, invocation) for match in _matching(workspace, path, pattern))
    return _listing(list(islice(found, MOST_MATCHES + 1)), MOST_MATCHES)


def _edit(workspace: Workspace, invocation: Invocation) -> ToolResult:
    path, patch = invocation.arguments["path"], invocation.arguments["patch"]
    before = workspace.read(path) if workspace.exists(path) else ""
    after = patched(before, patch)
    workspace.write(path, after)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    return ToolResult({"output": "\n".join(lines)})


# --- what they share ----------------------------------------------------------------------------------


def _until(paths: Iterator[str], invocation: Invocation) -> Iterator[str]:
    for path in paths:
        if invocation.cancellation.cancelled:
            return
        yield path


def _matches(path: str, pattern: str) -> bool:
    """`**/` also matches no folder, and a pattern without a folder matches the name alone."""
    name = path.rpartition("/")[2]
    if "/" not in pattern:
        return fnmatchcase(name, pattern)
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern.replace("**/", ""))


def _matching(workspace: Workspace, path: str, pattern: Pattern) -> Iterator[str]:
    try:
        text = workspace.read(path)
    except NotInWorkspace:  # no text, too large, or deleted in the meantime
        return
    if not pattern.found_in(text):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.found_in(line):
            yield f"{path}:{number}: {line[:LONGEST_LINE]}"


def _listing(lines: list[str], most: int) -> ToolResult:
    response: dict[str, Any] = {"output": "\n".join(lines[:most]) or "Nothing found."}
    if len(lines) > most:
        response["note"] = f"There is more; only the first {most} are shown."
    return ToolResult(response)


def _object(required: tuple[str, ...], **properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_PATH = {"type": "string", "description": "Path relative to the workspace"}
_COUNT = {"type": "integer", "minimum": 1}

TOOLS: Mapping[str, tuple[str, JsonObject, Work]] = {
    "read_file": (
        "Reads a text file.",
        _object(
            ("path",),
            path=_PATH,
            first_line={**_COUNT, "description": "The first line to read; the default is 1"},
            lines={**_COUNT, "description": f"How many lines; the default and the most is {MOST_LINES}"},
        ),
        _read_file,
    ),
    "list_directory": ("Lists the files and folders of a folder.", _object((), path=_PATH), _list_directory),
    "glob": (
        "Finds files by their path.",
        _object(("pattern",), pattern={"type": "string", "description": "Such as *.py or docs/**/*.md"}),
        _glob,
    ),
    "grep": (
        "Finds lines by a regular expression in all files.",
        _object(
            ("pattern",),
            pattern={"type": "string", "description": "A regular expression of RE2"},
            path=_PATH,
            glob={"type": "string", "description": "Only files that match, such as *.py"},
        ),
        _grep,
    ),
    "edit": (
        "Changes a file by a unified diff, or creates it. Each hunk begins with a line @@; the lines around "
        "a change must be unique in the file.",
        _object(("path", "patch"), path=_PATH, patch={"type": "string", "description": "A unified diff"}),
        _edit,
    ),
}
READING = tuple(name for name in TOOLS if name != "edit")
