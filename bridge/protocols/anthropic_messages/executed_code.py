"""Converts code that Gemini executes, and its result, to blocks of Anthropic's code execution and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.gemini.types import JsonObject, OtherData
from bridge.protocols.json_reading import optional, required

TOOL = "code_execution"
BASH_TOOL = "bash_code_execution"
RESULT_TYPE = f"{TOOL}_tool_result"
#: Prefix of the ids that the bridge generates for code without an id. Gemini never saw these ids.
ID_PREFIX = "srvtoolu_"

_CODE, _RESULT = "executableCode", "codeExecutionResult"
_PYTHON = "PYTHON"
_OK, _FAILED, _LATE = "OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"
#: Return codes for Gemini's outcomes; 124 is what the command `timeout` returns.
_RETURN_CODES: Mapping[str, int] = {_OK: 0, _FAILED: 1, _LATE: 124}
_OUTCOMES: Mapping[int, str] = {code: outcome for outcome, code in _RETURN_CODES.items()}
_TOO_LATE = "execution_time_exceeded"


def own_id(data: OtherData) -> str | None:
    return data.value.get("id") if isinstance(data.value, dict) else None


def call_input(data: OtherData) -> dict[str, Any] | None:
    """The input of the call, or None if the data is not code."""
    if data.field != _CODE or not isinstance(data.value, dict):
        return None
    language = data.value.get("language", _PYTHON)
    named = {} if language == _PYTHON else {"language": language}
    return {"code": data.value.get("code", ""), **named}


def is_result(data: OtherData) -> bool:
    return data.field == _RESULT and isinstance(data.value, dict)


def result_content(value: JsonObject) -> dict[str, Any]:
    code = _RETURN_CODES.get(value.get("outcome", _OK), 1)
    output = value.get("output", "")
    stdout, stderr = ("", output) if code == 1 else (output, "")
    return {
        "type": f"{TOOL}_result",
        "stdout": stdout,
        "stderr": stderr,
        "return_code": code,
        "content": [],
    }


def read_call(block: JsonObject, path: str) -> OtherData:
    given, where = required(block, "input", dict, path), f"{path}.input"
    if block.get("name") == BASH_TOOL:
        command = required(given, "command", str, where)
        code = f"import subprocess\nsubprocess.run({command!r}, shell=True)"
    else:
        code = required(given, "code", str, where)
    language = optional(given, "language", str, where) or _PYTHON
    return OtherData(_CODE, {**_id_field(block, "id", path), "language": language, "code": code})


def read_result(block: JsonObject, path: str) -> OtherData:
    content, where = required(block, "content", dict, path), f"{path}.content"
    if (problem := optional(content, "error_code", str, where)) is not None:
        outcome, output = (_LATE if problem == _TOO_LATE else _FAILED), problem
    else:
        code = optional(content, "return_code", int, where) or 0
        outcome = _OUTCOMES.get(code, _FAILED)
        output = "".join(optional(content, name, str, where) or "" for name in ("stdout", "stderr"))
    return OtherData(_RESULT, {**_id_field(block, "tool_use_id", path), "outcome": outcome, "output": output})


def _id_field(block: JsonObject, field: str, path: str) -> dict[str, str]:
    """The id, unless it is generated."""
    given = optional(block, field, str, path)
    return {"id": given} if given and not given.startswith(ID_PREFIX) else {}
