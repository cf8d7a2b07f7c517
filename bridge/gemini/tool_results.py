"""Converts a tool's output to the object that Gemini requires.

Gemini's `functionResponse.response` must be an object, while clients send text. Output that is already a JSON
object stays unchanged, unless the tool failed and the object does not say so. The usual tools of coding
agents get an object that distinguishes success from failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bridge.gemini.json_text import parse_object

#: `[^\w\n]*` excludes line ends. Otherwise the search would take quadratic time on output of many lines.
_EXIT_CODE = re.compile(
    r"^[^\w\n]*(?:process )?exit(?:ed with)?[ _]code[:\s]+(-?\d+)", re.IGNORECASE | re.MULTILINE
)
_FAILURE = re.compile(r"\s*(?:\w*error\b|failed to\b|no such file)", re.IGNORECASE)

Structured = dict[str, Any]


def tool_response(name: str, output: str, failed: bool | None = None) -> Structured:
    """The response object. `failed`: whether the client reported a failure; None if the protocol cannot."""
    as_object = parse_object(output)
    if as_object is not None:
        return {"error": as_object} if failed and not _reports_error(as_object) else as_object
    shape = _SHAPES.get(name)
    if shape is not None:
        return shape(output, failed)
    return {"error": output} if failed else {"result": output}


def _reports_error(response: Structured) -> bool:
    return "error" in response or response.get("status") == "error"


def _error(output: str) -> Structured:
    return {"status": "error", "error": output}


def _read_file(output: str, failed: bool | None) -> Structured:
    if failed or (failed is None and _FAILURE.match(output)):
        return _error(output)
    return {"status": "success", "content": output, "bytes": len(output.encode("utf-8", "surrogatepass"))}


def _shell(output: str, failed: bool | None) -> Structured:
    code = _EXIT_CODE.search(output[:500])
    if failed or (code is not None and int(code[1]) != 0):
        return _error(output)
    return {"status": "success", "stdout": output}


def _file_change(output: str, failed: bool | None) -> Structured:
    if "verification failed" in output:
        return {
            **_error(output),
            "suggestion": "Read the file again, then write the patch against what it holds now.",
        }
    if failed or (failed is None and _FAILURE.match(output)):
        return _error(output)
    return {"status": "success", "summary": output}


def _list_dir(output: str, failed: bool | None) -> Structured:
    return _error(output) if failed else {"status": "success", "files": _lines(output)}


def _lines(output: str) -> list[str]:
    """Split at line feeds only: a file name may contain any other separator."""
    lines = output.rstrip("\n")
    return [line.removesuffix("\r") for line in lines.split("\n")] if lines else []


_SHAPES: dict[str, Callable[[str, bool | None], Structured]] = {
    "read_file": _read_file,
    "shell": _shell,
    "local_shell": _shell,
    "apply_patch": _file_change,
    "write_file": _file_change,
    "list_dir": _list_dir,
}
